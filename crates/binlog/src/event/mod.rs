//! Events: a header and a body that borrows the packet.

mod format_description;
mod gtid;
mod gtid_tagged;
mod heartbeat;
mod query;
mod rows;
mod table_map;
mod transaction_payload;
mod xa_prepare;

pub use format_description::{Checksum, FormatDescription};
pub use gtid::GtidEvent;
pub use heartbeat::Heartbeat;
pub use query::{Query, StatusVars};
pub use rows::{RowsEvent, RowsKind};
pub use table_map::TableMap;
pub use transaction_payload::{Compression, PayloadEvents, PayloadPlace, PayloadReader, TransactionPayload};
pub use xa_prepare::XaPrepare;

pub(crate) use format_description::PostHeaders;

use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

use crate::gtid::GtidSet;
use crate::header::EventHeader;

/// One event.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// The common header.
    pub header: EventHeader,
    /// What the event says.
    pub body: EventBody<'a>,
}

/// What an event says.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum EventBody<'a> {
    /// First event of every file and stream.
    FormatDescription(FormatDescription<'a>),
    /// The next file. Artificial when the header says so.
    Rotate(Rotate<'a>),
    /// Server shutdown; the stream goes on with the next file.
    Stop,
    /// Start of a transaction: GTID, ANONYMOUS_GTID or GTID_TAGGED.
    Gtid(GtidEvent),
    /// Everything that earlier files hold.
    PreviousGtids(PreviousGtids<'a>),
    /// A statement: BEGIN, COMMIT, DDL, XA, or DML in statement format.
    Query(Query<'a>),
    /// LOAD DATA logged as a statement: the statement changes rows that no row event shows.
    ExecuteLoadQuery(Query<'a>),
    /// The statement that made the following rows; for people only.
    RowsQuery(&'a [u8]),
    /// Commit. The number's byte order is the server's: it identifies nothing outside it.
    Xid(u64),
    /// End of a prepared XA transaction (of a committed one if `one_phase`).
    XaPrepare(XaPrepare<'a>),
    /// A table that row events name by its id.
    TableMap(TableMap<'a>),
    /// Rows.
    Rows(RowsEvent<'a>),
    /// Rows whose JSON columns are differences (`binlog_row_value_options=PARTIAL_JSON`): not decoded here. Whoever
    /// captures the table must stop.
    PartialUpdateRows {
        /// Names the table.
        table_id: u64,
    },
    /// A compressed transaction: [`PayloadReader`] opens it.
    TransactionPayload(TransactionPayload<'a>),
    /// Sign of life with the sender's position.
    Heartbeat(Heartbeat<'a>),
    /// The source says that its log lacks events: a fresh snapshot is needed.
    Incident {
        /// 1 is LOST_EVENTS.
        number: u16,
        /// The server's text.
        message: &'a [u8],
    },
    /// Skipped by a rule that has a name.
    Ignored {
        /// The rule's name, for counters.
        rule: &'static str,
    },
}

/// ROTATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotate<'a> {
    /// Offset of the first event to come in the next file.
    pub position: u64,
    /// Name of the next file: 1 to 512 bytes without NUL and path separators.
    pub file: &'a str,
}

impl<'a> Rotate<'a> {
    pub(crate) fn parse(mut r: Reader<'a>) -> Result<Self, ParseError> {
        let position = r.u64_le("rotate position")?;
        Ok(Self { position, file: file_name(&mut r, "rotate file")? })
    }
}

/// PREVIOUS_GTIDS, not parsed yet.
#[derive(Clone, Copy, Debug)]
pub struct PreviousGtids<'a> {
    bytes: &'a [u8],
}

impl<'a> PreviousGtids<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The set.
    pub fn decode(&self) -> Result<GtidSet, ParseError> {
        GtidSet::decode(self.bytes)
    }
}

/// A binlog file's name as everything left of `r`. It may become a path, so nothing that leads elsewhere is let in.
pub(crate) fn file_name<'a>(r: &mut Reader<'a>, field: &'static str) -> Result<&'a str, ParseError> {
    const MAX: usize = 512;
    let left = r.left();
    let bytes = r.rest();
    if bytes.is_empty() || bytes.len() > MAX || bytes.iter().any(|b| matches!(b, 0 | b'/' | b'\\')) {
        return Err(ParseError::new(field, ParseErrorKind::BadLength, left));
    }
    core::str::from_utf8(bytes).map_err(|_| ParseError::new(field, ParseErrorKind::BadUtf8, left))
}
