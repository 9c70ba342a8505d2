//! MySQL binary log events and rows as borrowed views.
#![forbid(unsafe_code)]

pub mod gtid;
pub mod position;
pub mod table;
pub mod value;

pub use gtid::{Gtid, GtidSet, Tag, Tsid, Uuid};
pub use position::Position;
pub use table::{Charset, Column, ColumnType, TableSchema};
pub use value::{ColumnValue, Date, DateTime, Time, Timestamp};
