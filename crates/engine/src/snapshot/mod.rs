//! Reading existing rows in chunks: the statements, and rows as values.

pub mod sql;
