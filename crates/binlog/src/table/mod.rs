//! Tables as the decoder and the sinks see them.

mod charset;
mod schema;

pub use charset::Charset;
pub use schema::{Column, ColumnType, TableSchema};
