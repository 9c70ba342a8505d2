//! MySQL to Apache Doris, exactly once: the engine behind the `millstream` binary.
#![forbid(unsafe_code)]

pub mod config;
pub mod key;
