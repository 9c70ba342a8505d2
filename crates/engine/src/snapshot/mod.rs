//! Reading existing rows in chunks: the statements, the sessions, and rows as values.

pub mod dialect;
mod error;
pub mod fence;
mod points;
pub mod reader;
pub mod sql;
pub mod values;

pub use error::ReadError;
