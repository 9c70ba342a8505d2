//! Reading existing rows in chunks: the statements, the sessions, and rows as values.

mod error;
pub mod reader;
pub mod sql;
pub mod values;

pub use error::ReadError;
