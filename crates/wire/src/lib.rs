//! MySQL client protocol: a sans-IO core and a thin tokio driver.
//!
//! * [`codec`]: the cursor, the writer and the errors that every parser here and in `millstream-binlog` is built on.
#![forbid(unsafe_code)]

pub mod codec;
