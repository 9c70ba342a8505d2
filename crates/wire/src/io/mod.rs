//! The driver: sockets, TLS and time around the pure core. It holds no decision of the protocol.

mod binlog_stream;
mod channel;
mod connection;
mod cursor;
mod result_set;
mod rows;
mod statement;
mod tls;

pub use binlog_stream::BinlogStream;
pub use connection::Connection;
pub use cursor::Cursor;
pub use result_set::ResultSet;
pub use rows::Rows;
pub use statement::Statement;
