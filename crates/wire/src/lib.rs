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
//! * [`packet`]: frames, split and joined at 16 MiB; [`compress`]: the frames around them (features `zlib`, `zstd`);
//! * [`flags`], [`handshake`], [`auth`], [`connect`]: the way from the greeting to an open session;
//! * [`command`]: what a client may ask; [`response`]: what a server may answer;
//! * [`query`], [`prepare`], [`dump`]: the state machines over those answers;
//! * [`statements`]: what servers of different age and flavor word differently;
//! * [`server`]: the few packets that a server for tests has to write and read.
//!
//! Feature `client` (default) adds `Connection`, `Rows` and `BinlogStream` over tokio and rustls:
//!
//! ```no_run
//! # #[cfg(feature = "client")]
//! # async fn example() -> Result<(), millstream_wire::Error> {
//! use millstream_wire::statements::{self, Ask};
//! use millstream_wire::{BinlogDump, ConnectOptions, Connection, DumpStart, Value};
//!
//! let options = ConnectOptions::tcp("127.0.0.1", 3306).user("repl").password("secret");
//! let mut connection = Connection::connect(&options).await?;
//!
//! // Small results as a whole, large ones row by row.
//! let status = connection.query_all(statements::statement(Ask::BinlogStatus, connection.version())).await?;
//! let file = status.text(0, "File").unwrap_or_default().to_owned();
//! let statement = connection.prepare("SELECT id, name FROM shop.orders WHERE id > ? ORDER BY id").await?;
//! let mut rows = connection.execute_statement(&statement, &[Value::Int(0)]).await?;
//! while let Some(row) = rows.next().await? {
//!     for value in row.values() {
//!         let value: Value<'_> = value?;
//!     }
//! }
//!
//! let start = DumpStart::Position { file, position: 4 };
//! let dump = BinlogDump::new(start, 4711, "7e51f3a0-0b5c-4bd1-9f5e-0d8f6f0f3a11");
//! let mut events = connection.dump(dump).await?;
//! while let Some(event) = events.next().await? {
//!     println!("an event of {} bytes", event.len());
//! }
//! # Ok(())
//! # }
//! ```
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
