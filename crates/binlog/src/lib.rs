#![doc = include_str!("../README.md")]
//!
//! # How it is put together
//!
//! [`EventDecoder`] takes raw events, from a stream or a [`BinlogFile`], and returns [`Event`](event::Event)s that borrow
//! them. A [`TableMap`](event::TableMap) gives a [`TableSchema`]; a [`RowsEvent`](event::RowsEvent) read with it gives
//! [`RowChange`]s, and a [`Row`] gives [`ColumnValue`]s. Nothing is allocated per row, and whatever the bytes are,
//! nothing panics.
#![forbid(unsafe_code)]

pub mod event;
pub mod file;
pub mod gtid;
pub mod position;
pub mod row;
pub mod table;
pub mod value;

mod decoder;
mod error;
mod header;
mod inflate;

pub use decoder::{DecoderOptions, EventDecoder};
pub use error::Error;
pub use file::BinlogFile;
pub use gtid::{Gtid, GtidSet, GtidTextError, Intervals, MariaGtid, MariaGtidList, MariaGtidPos, Tag, Tsid, Uuid};
pub use header::{EventHeader, EventType};
pub use position::{Position, PositionTracker};
pub use row::{CompleteError, Row, RowChange, Rows, SharedRow};
pub use table::{Charset, CharsetError, Column, ColumnHint, ColumnType, SchemaMismatch, TableSchema};
pub use value::{ColumnValue, Date, DateTime, Decimal, JsonBinary, JsonDiffs, Time, Timestamp};
