use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

use crate::gtid::{MariaGtid, MariaGtidList};

/// MariaDB's GTID_LIST (163): the last GTIDs that earlier files hold, per domain and server (`Gtid_list_log_event`).
///
/// ```text
/// u32: low 28 bits count, high 4 bits flags | (u32 domain, u32 server, u64 sequence)…
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GtidList<'a> {
    /// The high 4 bits of the first word. Bit 0: the position that a dump was told to end at is reached; bit 1: the
    /// GTIDs are to be taken as replicated.
    pub flags: u8,
    entries: &'a [[u8; 16]],
}

impl<'a> GtidList<'a> {
    pub(crate) fn parse(mut r: Reader<'a>) -> Result<Self, ParseError> {
        let word = r.u32_le("gtid list count")?;
        let count = usize::try_from(word & 0x0fff_ffff).unwrap_or(usize::MAX);
        let [.., high] = word.to_le_bytes();
        let left = r.left();
        let (entries, tail) = r.rest().as_chunks::<16>();
        // An empty list has two bytes of padding.
        if entries.len() != count || !(tail.is_empty() || count == 0 && tail.len() == 2) {
            return Err(ParseError::new("gtid list count", ParseErrorKind::BadLength, left));
        }
        Ok(Self { flags: high >> 4, entries })
    }

    /// The state of the log before the file.
    #[must_use]
    pub fn state(&self) -> MariaGtidList {
        self.iter().collect()
    }

    /// The GTIDs as they lie in the event. A domain comes once for each server that wrote to it, the last writer at its
    /// end: a position takes that one.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = MariaGtid> + 'a {
        self.entries.iter().map(|[d0, d1, d2, d3, s0, s1, s2, s3, sequence @ ..]| MariaGtid {
            domain: u32::from_le_bytes([*d0, *d1, *d2, *d3]),
            server: u32::from_le_bytes([*s0, *s1, *s2, *s3]),
            sequence: u64::from_le_bytes(*sequence),
        })
    }
}
