//! The driver: sockets, TLS and time around the pure core. It holds no decision of the protocol.

mod binlog_stream;
mod channel;
mod connection;
mod result_set;
mod rows;
mod tls;

pub use binlog_stream::BinlogStream;
pub use connection::{Connection, Statement};
pub use result_set::ResultSet;
pub use rows::Rows;
