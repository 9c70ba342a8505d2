//! What a server answers: OK, ERR, EOF, column definitions, text and binary rows.

mod binary_row;
mod classify;
mod column;
mod eof;
mod err;
mod ok;
mod row;
mod session;
mod text_row;
mod value;

pub use classify::{Phase, Reply, classify};
pub use column::{ColumnDefinition, ColumnType};
pub use eof::EofPacket;
pub use err::{encode_err, parse_err};
pub use ok::OkPacket;
pub use row::{Row, RowFormat, Values};
pub use session::{SessionChange, SessionChanges, TransactionStart, TransactionState};
pub use text_row::encode_text_row;
pub use value::Value;
