//! GTIDs and sets of them.
//!
//! Sets are exact interval arithmetic: gaps are never widened.

mod encoding;
mod intervals;
mod maria;
mod maria_list;
mod maria_pos;
mod set;
mod text;

pub use intervals::Intervals;
pub use maria::MariaGtid;
pub use maria_list::MariaGtidList;
pub use maria_pos::MariaGtidPos;
pub use set::GtidSet;
pub use text::GtidTextError;

/// The greatest transaction number (exclusive end of every interval), `GNO_END` of the server.
pub(crate) const GNO_END: u64 = i64::MAX.unsigned_abs();

/// A server's UUID (SID).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

/// A GTID tag: empty, or `[a-z_][a-z0-9_]{0,31}`. Orders as its text does, the empty one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tag {
    // Zero padded: comparing the bytes, then the length, is comparing the text.
    bytes: [u8; 32],
    len: u8,
}

impl Tag {
    /// A tag from text; upper case is folded as the server does. `None` if the text is not a tag.
    #[must_use]
    pub fn new(text: &[u8]) -> Option<Self> {
        let mut bytes = [0; 32];
        let slot = bytes.get_mut(..text.len())?;
        for (i, (to, from)) in slot.iter_mut().zip(text).enumerate() {
            *to = from.to_ascii_lowercase();
            if !(matches!(*to, b'a'..=b'z' | b'_') || (i > 0 && to.is_ascii_digit())) {
                return None;
            }
        }
        Some(Self { bytes, len: u8::try_from(text.len()).ok()? })
    }

    /// Whether this is the empty tag.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The tag's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.bytes.get(..usize::from(self.len)).and_then(|b| core::str::from_utf8(b).ok()).unwrap_or_default()
    }
}

/// UUID and tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tsid {
    /// The server's UUID.
    pub uuid: Uuid,
    /// The tag; empty for most.
    pub tag: Tag,
}

/// One transaction's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gtid {
    /// Origin and tag.
    pub tsid: Tsid,
    /// Number, at least 1.
    pub gno: u64,
}
