//! Binary log events and rows of MySQL and MariaDB as borrowed views.
//!
//! [`EventDecoder`] takes raw events, from a stream or a [`BinlogFile`], and returns [`Event`](event::Event)s that borrow
//! them. A [`TableMap`](event::TableMap) gives a [`TableSchema`]; a [`RowsEvent`](event::RowsEvent) read with it gives
//! [`RowChange`]s, and a [`Row`] gives [`ColumnValue`]s. Nothing is allocated per row, and whatever the bytes are,
//! nothing panics.
//!
//! ```no_run
//! use std::{collections::HashMap, error::Error, fs::File};
//!
//! use millstream_binlog::event::EventBody;
//! use millstream_binlog::{BinlogFile, DecoderOptions, EventDecoder, RowChange};
//!
//! fn inserted(path: &str) -> Result<usize, Box<dyn Error>> {
//!     let mut file = BinlogFile::new(File::open(path)?, 1 << 30)?;
//!     let mut decoder = EventDecoder::new(DecoderOptions::default());
//!     let mut tables = HashMap::new();
//!     let mut count = 0;
//!     while let Some(raw) = file.next()? {
//!         match decoder.decode(raw.bytes)?.body {
//!             EventBody::TableMap(map) => {
//!                 tables.insert(map.table_id, map.schema()?);
//!             }
//!             EventBody::Rows(event) => {
//!                 let schema = tables.get(&event.table_id).ok_or("rows without a table map")?;
//!                 for change in event.rows(schema) {
//!                     if let RowChange::Insert(row) = change? {
//!                         count += 1;
//!                         for (ordinal, value) in row.values() {
//!                             println!("{} = {value:?}", schema.columns[ordinal].name);
//!                         }
//!                     }
//!                 }
//!             }
//!             // TransactionPayload holds more events: see `PayloadReader`. MariaDB's compressed events: see `Event::inflate`.
//!             _ => {}
//!         }
//!     }
//!     Ok(count)
//! }
//! ```
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
