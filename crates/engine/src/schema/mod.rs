//! What the server says about tables: its catalog, and the statements in its log.

pub mod catalog;
pub mod column_type;
pub mod ddl;
pub mod default;
