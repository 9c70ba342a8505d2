//! MySQL to Apache Doris, exactly once: the engine behind the `millstream` binary.
//!
//! One binlog stream, many chunk readers. Decisions are pure ([`merge`], [`delivery`]); sockets, clock and disk live in
//! the drivers.
#![forbid(unsafe_code)]

pub mod binlog_cmd;
pub mod checkpoint;
pub mod cli;
pub mod config;
pub mod control_cmd;
pub mod delivery;
pub mod key;
pub mod merge;
pub mod pipeline;
pub mod preflight;
pub mod schema;
pub mod snapshot;
pub mod stream;
