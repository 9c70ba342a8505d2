use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

use crate::gtid::{Gtid, Tag, Tsid, Uuid};
use crate::header::EventType;

/// GTID (33), ANONYMOUS_GTID (34) or GTID_TAGGED (42): the start of a transaction (`Gtid_event`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GtidEvent {
    /// `None` for an anonymous transaction.
    pub gtid: Option<Gtid>,
    /// Bit 0: the transaction may have parts in statement format.
    pub flags: u8,
    /// Logical clock: the last transaction this one depends on.
    pub last_committed: i64,
    /// Logical clock: this transaction.
    pub sequence_number: i64,
    /// Commit time on this server, microseconds since 1970 UTC; 0 when not stated (before 8.0).
    pub immediate_commit_micros: u64,
    /// Commit time on the server where it was made, microseconds; equals the immediate one when not stated.
    pub original_commit_micros: u64,
    /// Bytes of the whole transaction in the log, this event included; 0 when not stated (before 8.0.2).
    pub transaction_length: u64,
}

impl GtidEvent {
    /// Layout of 33 and 34; what follows the logical clock is there only in newer versions.
    pub(crate) fn parse(ty: EventType, mut r: Reader<'_>) -> Result<Self, ParseError> {
        let flags = r.u8("gtid flags")?;
        let uuid = Uuid(r.array("gtid uuid")?);
        let gno = r.u64_le("gtid number")?;
        let gtid = if ty == EventType::ANONYMOUS_GTID { None } else { Some(checked(uuid, Tag::default(), gno, &r)?) };
        let mut event = Self {
            gtid,
            flags,
            last_committed: 0,
            sequence_number: 0,
            immediate_commit_micros: 0,
            original_commit_micros: 0,
            transaction_length: 0,
        };
        // 2: logical timestamps follow (5.7). 5.6 ends here.
        if r.is_empty() || r.u8("logical clock code")? != 2 {
            return Ok(event);
        }
        event.last_committed = r.u64_le("last_committed")?.cast_signed();
        event.sequence_number = r.u64_le("sequence_number")?.cast_signed();
        if r.left() < 7 {
            return Ok(event);
        }
        const ORIGINAL_FOLLOWS: u64 = 1 << 55;
        let immediate = r.uint_le(7, "immediate_commit_timestamp")?;
        event.immediate_commit_micros = immediate & !ORIGINAL_FOLLOWS;
        event.original_commit_micros = if immediate & ORIGINAL_FOLLOWS == 0 {
            event.immediate_commit_micros
        } else {
            r.uint_le(7, "original_commit_timestamp")?
        };
        if !r.is_empty() {
            event.transaction_length = r.lenenc("transaction_length")?;
        }
        // Server versions and the commit group ticket follow; nobody here needs them.
        Ok(event)
    }
}

pub(crate) fn checked(uuid: Uuid, tag: Tag, gno: u64, r: &Reader<'_>) -> Result<Gtid, ParseError> {
    if gno == 0 || gno >= crate::gtid::GNO_END {
        return Err(r.error("gtid number", ParseErrorKind::BadLength));
    }
    Ok(Gtid { tsid: Tsid { uuid, tag }, gno })
}
