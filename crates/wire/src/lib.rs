#![cfg_attr(feature = "client", doc = include_str!("../README.md"))]
#![cfg_attr(not(feature = "client"), doc = "MySQL client protocol: a sans-IO core.")]
//!
//! # How it is put together
//!
//! ```text
//! socket bytes -> PacketCodec -> payload -> Connect | ResultReader | PrepareReader | DumpReader -> what happened
//! command      -> payload     -> PacketCodec -> socket bytes
//! ```
//!
//! The core (everything but feature `client`) has no socket, no clock and no randomness:
//!
//! * [`codec`]: the cursor, the writer and the errors that every parser here and in `millstream-binlog` is built on;
//! * [`packet`]: frames, split and joined at 16 MiB; [`compress`]: the frames around them (features `zlib`, `zstd`);
//! * [`flags`], [`handshake`], [`auth`], [`connect`]: the way from the greeting to an open session;
//! * [`command`]: what a client may ask; [`response`]: what a server may answer;
//! * [`query`], [`prepare`], [`dump`]: the state machines over those answers;
//! * [`statements`]: what servers of different age and flavor word differently;
//! * [`server`]: the few packets that a server for tests has to write and read.
//!
//! Feature `client` (default) adds `Connection`, `Rows` and `BinlogStream` over tokio and rustls.
#![forbid(unsafe_code)]

pub mod auth;
pub mod codec;
pub mod command;
pub mod compress;
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
pub mod statements;
mod version;

#[cfg(feature = "client")]
mod io;
#[cfg(feature = "client")]
mod options;

pub use compress::Compression;
pub use dump::{BinlogDump, DumpChecksum, DumpStart};
pub use error::{Error, ServerError};
pub use password::Password;
pub use response::{
    ColumnDefinition, ColumnType, OkPacket, Row, RowFormat, SessionChange, SessionChanges, TransactionStart,
    TransactionState, Value, Values,
};
pub use version::{Flavor, ServerVersion};

#[cfg(feature = "client")]
pub use io::{BinlogStream, Connection, Cursor, ResultSet, Rows, Statement};
#[cfg(feature = "client")]
pub use options::{ConnectOptions, SslMode};
