//! GTIDs and sets of them.
//!
//! Sets are exact interval arithmetic: gaps are never widened.

/// A server's UUID (SID).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

/// A GTID tag: empty, or `[a-z_][a-z0-9_]{0,31}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tag {
    len: u8,
    bytes: [u8; 32],
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

/// A set of GTIDs: per TSID a sorted list of half-open intervals that neither touch nor overlap.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct GtidSet {
    sids: std::collections::BTreeMap<Tsid, Vec<(u64, u64)>>,
}
