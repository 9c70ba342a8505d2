//! MySQL client protocol: a sans-IO core and a thin tokio driver.
//!
//! ```text
//! socket bytes -> PacketCodec -> payload -> Connect | ResultReader | PrepareReader | DumpReader -> what happened
//! command      -> payload     -> PacketCodec -> socket bytes
//! ```
//!
//! The core (everything but feature `client`) has no socket, no clock and no randomness:
//!
//! * [`codec`]: the cursor, the writer and the errors that every parser here and in `millstream-binlog` is built on;
//! * [`packet`]: frames, split and joined at 16 MiB;
//! * [`flags`], [`handshake`], [`auth`], [`connect`]: the way from the greeting to an open session;
//! * [`command`]: what a client may ask; [`response`]: what a server may answer;
//! * [`query`], [`prepare`], [`dump`]: the state machines over those answers;
//! * [`server`]: the few packets that a server for tests has to write and read.
//!
//! Feature `client` (default) adds `Connection`, `Rows` and `BinlogStream` over tokio and rustls.
#![forbid(unsafe_code)]

pub mod auth;
pub mod codec;
pub mod command;
pub mod connect;
pub mod dump;
mod error;
pub mod flags;
pub mod handshake;
pub mod packet;
mod password;
pub mod prepare;
pub mod query;
pub mod response;
pub mod server;

#[cfg(feature = "client")]
mod io;
#[cfg(feature = "client")]
mod options;

pub use error::{Error, ServerError};
pub use password::Password;
pub use response::{ColumnDefinition, ColumnType, OkPacket, Row, RowFormat, Value, Values};

#[cfg(feature = "client")]
pub use io::{BinlogDump, BinlogStream, Connection, DumpStart, ResultSet, Rows, Statement};
#[cfg(feature = "client")]
pub use options::{ConnectOptions, SslMode};
