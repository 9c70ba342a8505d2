use core::fmt;
use std::sync::Arc;

use millstream_binlog::{Gtid, GtidSet, Position};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// By what a pipeline knows its source's transactions. Chosen at the first start and kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "every decision must handle both")]
pub enum SourceKind {
    /// By GTID (MySQL with gtid_mode=ON): any server of the same history will do.
    Gtid,
    /// By place in the log of one server.
    Position,
}

/// A transaction of the stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::exhaustive_enums, reason = "every decision must handle both")]
pub enum TxnId {
    /// By its GTID.
    #[serde(rename = "gtid", with = "gtid_text")]
    Gtid(Gtid),
    /// By where it begins in the log of the one server. The end of the log never lies inside a transaction (both are
    /// written under one lock), so a place above its beginning is at or above its end.
    #[serde(rename = "begins", with = "position_text")]
    At(Position),
}

impl From<Gtid> for TxnId {
    fn from(gtid: Gtid) -> Self {
        Self::Gtid(gtid)
    }
}

impl fmt::Display for TxnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gtid(gtid) => gtid.fmt(f),
            Self::At(begin) => write!(f, "at {begin}"),
        }
    }
}

/// A place between two transactions in the log of one server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPlace {
    /// The place.
    #[serde(flatten, with = "position_text")]
    pub position: Position,
    /// The timestamp of its file's FORMAT_DESCRIPTION, once known: a RESET reuses names, and the new file differs in this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<u32>,
}

/// Transactions that are behind a place of the stream. Two of different kinds have nothing in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::exhaustive_enums, reason = "every decision must handle both")]
pub enum Passed {
    /// Exactly these.
    #[serde(rename = "gtids", with = "gtid_text")]
    Gtids(GtidSet),
    /// All that begin below this place.
    #[serde(rename = "position")]
    Position(LogPlace),
}

impl Default for Passed {
    fn default() -> Self {
        Self::Gtids(GtidSet::new())
    }
}

impl From<GtidSet> for Passed {
    fn from(set: GtidSet) -> Self {
        Self::Gtids(set)
    }
}

impl From<Position> for Passed {
    fn from(position: Position) -> Self {
        Self::Position(LogPlace { position, created: None })
    }
}

impl Passed {
    /// By what it knows transactions.
    #[must_use]
    pub const fn kind(&self) -> SourceKind {
        match self {
            Self::Gtids(_) => SourceKind::Gtid,
            Self::Position(_) => SourceKind::Position,
        }
    }

    /// The set, of a source that is known by GTIDs.
    #[must_use]
    pub const fn gtids(&self) -> Option<&GtidSet> {
        match self {
            Self::Gtids(set) => Some(set),
            Self::Position(_) => None,
        }
    }

    /// The place, of a source that is known by positions.
    #[must_use]
    pub const fn place(&self) -> Option<&LogPlace> {
        match self {
            Self::Gtids(_) => None,
            Self::Position(place) => Some(place),
        }
    }

    /// Whether the transaction is among them.
    #[inline]
    #[must_use]
    pub fn contains(&self, txn: &TxnId) -> bool {
        match (self, txn) {
            (Self::Gtids(set), TxnId::Gtid(gtid)) => set.contains(gtid),
            (Self::Position(place), TxnId::At(begin)) => *begin < place.position,
            _ => false,
        }
    }

    /// Whether all of `other` are among them.
    #[must_use]
    pub fn is_superset(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Gtids(set), Self::Gtids(other)) => set.is_superset(other),
            (Self::Position(place), Self::Position(other)) => place.position >= other.position,
            _ => false,
        }
    }

    /// Adds a transaction that ends at `end`.
    pub fn pass(&mut self, txn: &TxnId, end: &Position) {
        match (self, txn) {
            (Self::Gtids(set), TxnId::Gtid(gtid)) => {
                set.insert(*gtid);
            }
            (place @ Self::Position(_), TxnId::At(_)) => place.reach(end),
            _ => {}
        }
    }

    /// The stream has reached `position` without a transaction on the way. A set has nothing to add.
    pub fn reach(&mut self, position: &Position) {
        let Self::Position(place) = self else { return };
        if place.position < *position {
            if place.position.file != position.file {
                place.created = None;
            }
            place.position = position.clone();
        }
    }

    /// The file of that name has this timestamp.
    ///
    /// # Errors
    /// The timestamp that the file of that name had before, which is another one.
    pub fn file_created(&mut self, file: &str, created: u32) -> Result<(), u32> {
        let Self::Position(place) = self else { return Ok(()) };
        if *place.position.file != *file {
            return Ok(());
        }
        match *place.created.get_or_insert(created) {
            before if before != created => Err(before),
            _ => Ok(()),
        }
    }

    /// Adds those of `other`.
    pub fn union(&mut self, other: &Self) {
        match (self, other) {
            (Self::Gtids(set), Self::Gtids(other)) => set.union(other),
            (Self::Position(place), Self::Position(other)) if place.position < other.position => {
                place.clone_from(other);
            }
            _ => {}
        }
    }

    /// Leaves those that are in both.
    pub fn intersect(&mut self, other: &Self) {
        match (self, other) {
            (Self::Gtids(set), Self::Gtids(other)) => {
                let mut beyond = set.clone();
                beyond.subtract(other);
                set.subtract(&beyond);
            }
            (Self::Position(place), Self::Position(other)) if other.position < place.position => {
                place.clone_from(other);
            }
            _ => {}
        }
    }
}

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gtids(set) => set.fmt(f),
            Self::Position(place) => place.position.fmt(f),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Fields {
    file: String,
    offset: u64,
}

/// As an object of its own.
mod position_text {
    use super::{Arc, Deserialize, Deserializer, Fields, Position, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(position: &Position, to: S) -> Result<S::Ok, S::Error> {
        Fields { file: position.file.to_string(), offset: position.offset }.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Position, D::Error> {
        let Fields { file, offset } = Fields::deserialize(from)?;
        Ok(Position { file: Arc::from(file), offset })
    }
}

/// GTIDs and sets are stored as the server prints them.
mod gtid_text {
    use core::fmt::Display;
    use core::str::FromStr;

    use super::{Deserialize, Deserializer, Serializer, de};

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

    const U: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn at(file: u32, offset: u64) -> Position {
        Position::new(format!("b.{file:06}"), offset)
    }

    fn set(text: &str) -> Passed {
        format!("{U}:{text}").parse::<GtidSet>().unwrap().into()
    }

    fn txn(n: u64) -> TxnId {
        format!("{U}:{n}").parse::<Gtid>().unwrap().into()
    }

    #[test]
    fn a_position_holds_what_begins_below_it() {
        let mut passed = Passed::from(at(1, 500));
        let begins = |file, offset| TxnId::At(at(file, offset));
        for (begin, held) in [((1, 4), true), ((1, 499), true), ((1, 500), false), ((2, 4), false)] {
            assert_eq!(passed.contains(&begins(begin.0, begin.1)), held, "{begin:?}");
        }
        passed.pass(&begins(1, 500), &at(1, 700));
        assert!(passed.contains(&begins(1, 500)) && !passed.contains(&begins(1, 700)));
        // Names of files grow in length.
        assert!(Passed::from(at(1_000_000, 4)).contains(&begins(999_999, 4)));
        passed.reach(&at(1, 600));
        assert_eq!(passed, at(1, 700).into(), "never back");
    }

    #[test]
    fn a_file_keeps_its_timestamp_and_the_next_has_none() {
        let mut passed = Passed::Position(LogPlace { position: at(1, 500), created: Some(7) });
        passed.reach(&at(1, 900));
        assert_eq!(passed, Passed::Position(LogPlace { position: at(1, 900), created: Some(7) }));
        passed.reach(&at(2, 4));
        assert_eq!(passed, at(2, 4).into());
    }

    #[test]
    fn sets_and_positions_have_unions_and_intersections_of_their_own() {
        for (a, b, both, either) in [
            (set("1-4"), set("2-9"), set("2-4"), set("1-9")),
            (set("1"), set("3"), GtidSet::new().into(), set("1:3")),
            (at(1, 9).into(), at(2, 4).into(), at(1, 9).into(), at(2, 4).into()),
        ] {
            let mut got = a.clone();
            got.intersect(&b);
            assert_eq!(got, both);
            let mut got = b.clone();
            got.intersect(&a);
            assert_eq!(got, both);
            let mut got = a.clone();
            got.union(&b);
            assert!(got == either && got.is_superset(&a) && got.is_superset(&b) && !a.is_superset(&got));
        }
    }

    #[test]
    fn kinds_do_not_mix() {
        let (mut set, place) = (set("1-4"), Passed::from(at(9, 9)));
        let before = set.clone();
        set.union(&place);
        set.intersect(&place);
        set.pass(&TxnId::At(at(1, 4)), &at(1, 9));
        assert_eq!(set, before);
        assert!(!set.is_superset(&place) && !place.is_superset(&set));
        assert!(!set.contains(&TxnId::At(at(1, 4))) && !place.contains(&txn(1)));
    }

    #[test]
    fn places_are_stored_by_name() {
        let place = Passed::Position(LogPlace { position: at(3, 120), created: Some(1_700_000_000) });
        for (passed, text) in [
            (set("1-4"), format!(r#"{{"gtids":"{U}:1-4"}}"#)),
            (at(3, 120).into(), r#"{"position":{"file":"b.000003","offset":120}}"#.to_owned()),
            (place, r#"{"position":{"file":"b.000003","offset":120,"created":1700000000}}"#.to_owned()),
        ] {
            assert_eq!(serde_json::to_string(&passed).unwrap(), text);
            assert_eq!(serde_json::from_str::<Passed>(&text).unwrap(), passed);
        }
    }
}
