//! Tables as the decoder and the sinks see them.

mod charset;
mod collations;
mod hint;
mod mismatch;
mod multi_byte;
mod physical;
mod schema;
mod single_byte;

pub(crate) mod metadata;

pub use charset::{Charset, CharsetError};
pub use hint::ColumnHint;
pub(crate) use hint::hints;
pub use mismatch::SchemaMismatch;
pub use schema::{Column, ColumnType, TableSchema};
