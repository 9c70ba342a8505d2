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

    /// Everything that is behind either place. `None` when each is inside another transaction, which one coordinate
    /// cannot say.
    #[must_use]
    pub fn joined(&self, other: &Self) -> Option<Self> {
        let mut gtids = self.gtids.clone();
        gtids.union(&other.gtids);
        let open = |c: &Self| c.partial.clone().filter(|p| !gtids.contains(&p.gtid));
        let partial = match (open(self), open(other)) {
            (Some(a), Some(b)) if a.gtid == b.gtid => Some(Partial { rows: a.rows.max(b.rows), ..a }),
            (Some(_), Some(_)) => return None,
            (a, b) => a.or(b),
        };
        Some(Self { gtids, partial })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn place(gtids: &str, partial: Option<(&str, u32)>) -> Coordinate {
        let partial = partial.map(|(gtid, rows)| Partial { gtid: gtid.parse().unwrap(), rows });
        Coordinate { gtids: gtids.parse().unwrap(), partial }
    }

    const U: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

    #[test]
    fn joined_places_cover_what_either_covers() {
        let (one, four) = (format!("{U}:1-3"), format!("{U}:1-4"));
        let five = format!("{U}:1-3:5");
        let gap = format!("{U}:4");
        assert_eq!(place(&four, None).joined(&place(&five, None)), Some(place(&format!("{U}:1-5"), None)));
        let (a, b) = (place(&one, Some((&gap, 2))), place(&one, Some((&gap, 7))));
        assert_eq!(a.joined(&b), Some(b.clone()));
        assert_eq!(a.joined(&place(&four, None)), Some(place(&four, None)), "the transaction has ended");
        assert_eq!(a.joined(&place(&one, None)), Some(a.clone()));
        let other = format!("{U}:9");
        assert_eq!(a.joined(&place(&one, Some((&other, 1)))), None);
    }

    #[test]
    fn a_place_inside_a_transaction_covers_its_first_rows() {
        let p = place(&format!("{U}:1-3"), Some((&format!("{U}:4"), 2)));
        let (three, four): (Gtid, Gtid) = (format!("{U}:3").parse().unwrap(), format!("{U}:4").parse().unwrap());
        assert!(p.covers(&three, 9) && p.covers(&four, 1) && !p.covers(&four, 2));
        assert!(!p.is_reached_by(&format!("{U}:1-3").parse().unwrap()));
        assert!(p.is_reached_by(&format!("{U}:1-4").parse().unwrap()));
    }
}
