//! Events: a header and a body that borrows the packet.

mod compressed;
mod format_description;
mod gtid;
mod gtid_list;
mod gtid_tagged;
mod heartbeat;
mod intvar;
mod maria_gtid;
mod query;
mod rand;
mod rows;
mod rows_extra;
mod start_encryption;
mod status_vars;
mod table_map;
mod transaction_payload;
mod user_var;
mod xa_id;
mod xa_prepare;

pub use compressed::{CompressedQuery, CompressedRows};
pub use format_description::{Checksum, FormatDescription};
pub use gtid::GtidEvent;
pub use gtid_list::GtidList;
pub use heartbeat::Heartbeat;
pub use intvar::{IntVar, IntVarKind};
pub use maria_gtid::{MariaGtidEvent, TwoPhaseAlter};
pub use query::Query;
pub use rand::Rand;
pub use rows::{RowsEvent, RowsKind};
pub use rows_extra::RowsExtra;
pub use start_encryption::StartEncryption;
pub use status_vars::{CharsetCollations, Databases, StatusVar, StatusVars};
pub use table_map::TableMap;
pub use transaction_payload::{Compression, PayloadEvents, PayloadPlace, PayloadReader, TransactionPayload};
pub use user_var::{UserValue, UserValueKind, UserVar};
pub use xa_id::XaId;
pub use xa_prepare::XaPrepare;

pub use crate::inflate::Inflater;

pub(crate) use format_description::PostHeaders;

use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

use crate::error::Error;
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

impl<'a> Event<'a> {
    /// The event with its body opened, if that is [compressed](EventBody::CompressedRows); any other as it is.
    ///
    /// # Errors
    /// Data that does not inflate to the size it states, or that is over the inflater's limit.
    pub fn inflate<'b>(self, inflater: &'b mut Inflater) -> Result<Event<'b>, Error>
    where
        'a: 'b,
    {
        let body = match self.body {
            EventBody::CompressedQuery(packed) => EventBody::Query(packed.open(inflater)?),
            EventBody::CompressedRows(packed) => EventBody::Rows(packed.open(inflater)?),
            other => other,
        };
        Ok(Event { header: self.header, body })
    }
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
    /// MariaDB: start of an event group. No BEGIN follows it.
    MariaGtid(MariaGtidEvent<'a>),
    /// MariaDB: everything that earlier files hold.
    GtidList(GtidList<'a>),
    /// A statement: BEGIN, COMMIT, DDL, XA, or DML in statement format.
    Query(Query<'a>),
    /// MariaDB: a packed statement.
    CompressedQuery(CompressedQuery<'a>),
    /// LOAD DATA logged as a statement: the statement changes rows that no row event shows.
    ExecuteLoadQuery(Query<'a>),
    /// The statement that made the following rows (ROWS_QUERY, MariaDB's ANNOTATE_ROWS); for people only.
    RowsQuery(&'a [u8]),
    /// An id that the next statement uses.
    IntVar(IntVar),
    /// Seeds of RAND() in the next statement.
    Rand(Rand),
    /// A user variable of the next statement.
    UserVar(UserVar<'a>),
    /// Commit. The number's byte order is the server's: it identifies nothing outside it.
    Xid(u64),
    /// End of a prepared XA transaction (of a committed one if `one_phase`).
    XaPrepare(XaPrepare<'a>),
    /// A table that row events name by its id.
    TableMap(TableMap<'a>),
    /// Rows.
    Rows(RowsEvent<'a>),
    /// MariaDB: packed rows.
    CompressedRows(CompressedRows<'a>),
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
    /// MariaDB: the oldest file that a server needs to recover from a crash. It says nothing about the rows.
    BinlogCheckpoint(&'a str),
    /// MariaDB: the rest of the file is encrypted. A stream is not.
    StartEncryption(StartEncryption),
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
