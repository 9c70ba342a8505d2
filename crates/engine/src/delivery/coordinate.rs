use serde::{Deserialize, Serialize};

use super::{Passed, TxnId};

/// A place in the stream of transactions: those that ended, and how far the one that was open had been judged.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Coordinate {
    /// Transactions that are wholly behind this place.
    #[serde(flatten)]
    pub passed: Passed,
    /// The transaction that was being judged, where a load was cut inside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Partial>,
}

/// Part of a transaction, for one table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partial {
    /// The transaction.
    #[serde(flatten)]
    pub txn: TxnId,
    /// The table's changes with a smaller ordinal within the transaction are behind this place.
    pub rows: u32,
}

impl Coordinate {
    /// A place between transactions.
    #[must_use]
    pub fn boundary(passed: impl Into<Passed>) -> Self {
        Self { passed: passed.into(), partial: None }
    }

    /// Whether the table's change number `ordinal` of transaction `txn` is behind this place.
    #[must_use]
    pub fn covers(&self, txn: &TxnId, ordinal: u32) -> bool {
        self.passed.contains(txn) || self.partial.as_ref().is_some_and(|p| p.txn == *txn && ordinal < p.rows)
    }

    /// Everything that is behind either place. `None` when each is inside another transaction, which one coordinate
    /// cannot say.
    #[must_use]
    pub fn joined(&self, other: &Self) -> Option<Self> {
        let mut passed = self.passed.clone();
        passed.union(&other.passed);
        let open = |c: &Self| c.partial.clone().filter(|p| !passed.contains(&p.txn));
        let partial = match (open(self), open(other)) {
            (Some(a), Some(b)) if a.txn == b.txn => Some(Partial { rows: a.rows.max(b.rows), ..a }),
            (Some(_), Some(_)) => return None,
            (a, b) => a.or(b),
        };
        Some(Self { passed, partial })
    }

    /// Whether a stream that has judged `judged` is at or beyond this place.
    #[must_use]
    pub fn is_reached_by(&self, judged: &Passed) -> bool {
        judged.is_superset(&self.passed) && self.partial.as_ref().is_none_or(|p| judged.contains(&p.txn))
    }
}

#[cfg(test)]
mod tests {
    use millstream_binlog::{Gtid, GtidSet, Position};

    use super::*;

    fn set(text: &str) -> Passed {
        text.parse::<GtidSet>().unwrap().into()
    }

    fn txn(text: &str) -> TxnId {
        text.parse::<Gtid>().unwrap().into()
    }

    fn place(gtids: &str, partial: Option<(&str, u32)>) -> Coordinate {
        let partial = partial.map(|(gtid, rows)| Partial { txn: txn(gtid), rows });
        Coordinate { passed: set(gtids), partial }
    }

    fn at(offset: u64) -> Position {
        Position::new("b.000001", offset)
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
        let (three, four) = (txn(&format!("{U}:3")), txn(&format!("{U}:4")));
        assert!(p.covers(&three, 9) && p.covers(&four, 1) && !p.covers(&four, 2));
        assert!(!p.is_reached_by(&set(&format!("{U}:1-3"))));
        assert!(p.is_reached_by(&set(&format!("{U}:1-4"))));
    }

    #[test]
    fn places_of_a_log_are_ordered() {
        let inside =
            |rows| Coordinate { passed: at(500).into(), partial: Some(Partial { txn: TxnId::At(at(500)), rows }) };
        let p = inside(2);
        assert!(p.covers(&TxnId::At(at(4)), 9));
        assert!(p.covers(&TxnId::At(at(500)), 1) && !p.covers(&TxnId::At(at(500)), 2));
        assert!(!p.is_reached_by(&at(500).into()) && p.is_reached_by(&at(700).into()));
        assert_eq!(p.joined(&inside(3)), Some(inside(3)));
        let behind = Coordinate::boundary(at(700));
        assert_eq!(p.joined(&behind), Some(behind.clone()));
        assert_eq!(p.joined(&Coordinate::boundary(at(500))), Some(p));
    }

    /// What earlier versions wrote is read, and what they could say is written as they did.
    #[test]
    fn stored_places_are_those_of_earlier_versions() {
        let text = format!(r#"{{"gtids":"{U}:1-3"}}"#);
        let whole = place(&format!("{U}:1-3"), None);
        let inside = format!(r#"{{"gtids":"{U}:1-3","partial":{{"gtid":"{U}:4","rows":2}}}}"#);
        let part = place(&format!("{U}:1-3"), Some((&format!("{U}:4"), 2)));
        let log = r#"{"position":{"file":"b.000001","offset":4},"partial":{"begins":{"file":"b.000001","offset":4},"rows":7}}"#;
        let of_log = Coordinate { passed: at(4).into(), partial: Some(Partial { txn: TxnId::At(at(4)), rows: 7 }) };
        let nothing = (r#"{"gtids":""}"#.to_owned(), Coordinate::default());
        for (text, place) in [(text, whole), (inside, part), (log.to_owned(), of_log), nothing] {
            assert_eq!(serde_json::from_str::<Coordinate>(&text).unwrap(), place);
            assert_eq!(serde_json::to_string(&place).unwrap(), text);
        }
    }
}
