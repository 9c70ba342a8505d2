use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

use super::XaId;
use crate::gtid::MariaGtid;
use crate::header::EventHeader;

/// MariaDB's GTID (162): the start of an event group, in the place of BEGIN (`Gtid_log_event`).
///
/// ```text
/// u64 sequence | u32 domain | u8 flags
/// [u64 commit id]                                       with GROUP_COMMIT
/// [u32 format | u8 gtrid length | u8 bqual length | id] with PREPARED_XA or COMPLETED_XA
/// [u8 extra flags | …]                                  10.8 and later; zeros up to 19 bytes otherwise
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MariaGtidEvent<'a> {
    /// The group's id; the server is the header's `server_id`.
    pub gtid: MariaGtid,
    /// Bits: see the constants.
    pub flags: u8,
    /// Groups with the same id were committed together.
    pub commit_id: Option<u64>,
    /// The XA transaction that the group prepares, commits or rolls back.
    pub xid: Option<XaId<'a>>,
    /// Transactional engines that take part beyond the first, when the group spans several.
    pub extra_engines: Option<u8>,
    /// The part of a two-phase ALTER TABLE that the group is (`binlog_alter_two_phase`).
    pub alter: Option<TwoPhaseAlter>,
    /// The session that ran the group (11.5 and later).
    pub thread_id: Option<u32>,
}

/// A step of an ALTER TABLE that is logged when it starts and again when it ends (`FL_START_ALTER_E1` and its kin).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "an ALTER ends in one of two ways")]
pub enum TwoPhaseAlter {
    /// It begins; the table is as before.
    Start,
    /// It is done.
    Commit {
        /// Sequence number of the group with its start, in the same domain.
        start: u64,
    },
    /// It failed; the table is as before.
    Rollback {
        /// Sequence number of the group with its start, in the same domain.
        start: u64,
    },
}

impl<'a> MariaGtidEvent<'a> {
    /// One statement that needs no COMMIT follows: DDL, or DML on a table without transactions.
    pub const STANDALONE: u8 = 1;
    /// A commit id is there.
    pub const GROUP_COMMIT: u8 = 2;
    /// All of the group can be rolled back.
    pub const TRANSACTIONAL: u8 = 4;
    /// The group may run in parallel with the one before it.
    pub const ALLOW_PARALLEL: u8 = 8;
    /// The group had to wait for a row lock of another.
    pub const WAITED: u8 = 16;
    /// The group holds DDL.
    pub const DDL: u8 = 32;
    /// The group ends in XA PREPARE.
    pub const PREPARED_XA: u8 = 64;
    /// The group is an XA COMMIT or XA ROLLBACK of an earlier one.
    pub const COMPLETED_XA: u8 = 128;

    pub(crate) fn parse(header: &EventHeader, mut r: Reader<'a>) -> Result<Self, ParseError> {
        let sequence = r.u64_le("gtid sequence")?;
        if sequence == 0 {
            return Err(r.error("gtid sequence", ParseErrorKind::BadLength));
        }
        let domain = r.u32_le("gtid domain")?;
        let flags = r.u8("gtid flags")?;
        let mut event = Self {
            gtid: MariaGtid { domain, server: header.server_id, sequence },
            flags,
            commit_id: None,
            xid: None,
            extra_engines: None,
            alter: None,
            thread_id: None,
        };
        if flags & Self::GROUP_COMMIT != 0 {
            event.commit_id = Some(r.u64_le("commit_id")?);
        }
        if flags & (Self::PREPARED_XA | Self::COMPLETED_XA) != 0 {
            let format_id = r.u32_le("xid format")?;
            let gtrid = u32::from(r.u8("gtrid length")?);
            let bqual = u32::from(r.u8("bqual length")?);
            event.xid = Some(XaId::parts(&mut r, format_id, gtrid, bqual)?);
        }
        if !r.is_empty() {
            event.extra(r)?;
        }
        Ok(event)
    }

    /// Padding is zero, so it says that nothing is there. What flags of later versions announce is not read.
    fn extra(&mut self, mut r: Reader<'_>) -> Result<(), ParseError> {
        const MULTI_ENGINE: u8 = 1;
        const START_ALTER: u8 = 2;
        const COMMIT_ALTER: u8 = 4;
        const ROLLBACK_ALTER: u8 = 8;
        const THREAD_ID: u8 = 16;
        let flags = r.u8("gtid extra flags")?;
        if flags & MULTI_ENGINE != 0 {
            self.extra_engines = Some(r.u8("extra engines")?);
        }
        if flags & START_ALTER != 0 {
            self.alter = Some(TwoPhaseAlter::Start);
        }
        if flags & (COMMIT_ALTER | ROLLBACK_ALTER) != 0 {
            let start = r.u64_le("start alter sequence")?;
            let commit = flags & COMMIT_ALTER != 0;
            self.alter = Some(if commit { TwoPhaseAlter::Commit { start } } else { TwoPhaseAlter::Rollback { start } });
        }
        if flags & THREAD_ID != 0 {
            self.thread_id = Some(r.u32_le("thread_id")?);
        }
        Ok(())
    }

    /// Whether one statement without a COMMIT follows.
    #[must_use]
    pub const fn is_standalone(&self) -> bool {
        self.flags & Self::STANDALONE != 0
    }
}
