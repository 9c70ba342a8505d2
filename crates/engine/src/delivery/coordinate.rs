use millstream_binlog::{Gtid, GtidSet};
use serde::{Deserialize, Serialize};

/// A place in the stream of transactions: those that ended, and how far the one that was open had been judged.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Coordinate {
    /// Transactions that are wholly behind this place.
    #[serde(with = "gtid_text")]
    pub gtids: GtidSet,
    /// The transaction that was being judged, where a load was cut inside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Partial>,
}

/// Part of a transaction, for one table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partial {
    /// The transaction.
    #[serde(with = "gtid_text")]
    pub gtid: Gtid,
    /// The table's changes with a smaller ordinal within the transaction are behind this place.
    pub rows: u32,
}

impl Coordinate {
    /// A place between transactions.
    #[must_use]
    pub const fn boundary(gtids: GtidSet) -> Self {
        Self { gtids, partial: None }
    }

    /// Whether the table's change number `ordinal` of transaction `gtid` is behind this place.
    #[must_use]
    pub fn covers(&self, gtid: &Gtid, ordinal: u32) -> bool {
        self.gtids.contains(gtid) || self.partial.as_ref().is_some_and(|p| p.gtid == *gtid && ordinal < p.rows)
    }

    /// Whether a stream that has judged `judged` is at or beyond this place.
    #[must_use]
    pub fn is_reached_by(&self, judged: &GtidSet) -> bool {
        judged.is_superset(&self.gtids) && self.partial.as_ref().is_none_or(|p| judged.contains(&p.gtid))
    }
}

/// GTIDs and sets are stored as the server prints them.
mod gtid_text {
    use core::fmt::Display;
    use core::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: FromStr,
        T::Err: Display,
        D: Deserializer<'de>,
    {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}
