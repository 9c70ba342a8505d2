//! Places in the log as people write them: `current`, `earliest`, a GTID set, `FILE:POS`.

use core::str::FromStr;

use millstream_binlog::{GtidSet, Position};

/// `source.start`: where the stream begins when nothing is snapshotted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the engine must handle every start")]
pub enum Start {
    /// The end of the log at the first start.
    Current,
    /// The oldest transaction the server still has.
    Earliest,
    /// After these transactions, as a GTID set.
    Gtids(GtidSet),
    /// After this position.
    Position(Position),
}

/// `run --until`: where the run ends.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the engine must handle every end")]
pub enum Until {
    /// The source's position when the engine started.
    Current,
    /// When all of these transactions are visible in the sink.
    Gtids(GtidSet),
    /// When everything up to this position is visible in the sink.
    Position(Position),
}

impl FromStr for Start {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "current" => Ok(Self::Current),
            "earliest" => Ok(Self::Earliest),
            other => match place(other) {
                Some(Place::Gtids(set)) => Ok(Self::Gtids(set)),
                Some(Place::Position(at)) => Ok(Self::Position(at)),
                None => Err(format!("\"{other}\" is not allowed: current | earliest | a GTID set | FILE:POS")),
            },
        }
    }
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "current" => Ok(Self::Current),
            other => match place(other) {
                Some(Place::Gtids(set)) => Ok(Self::Gtids(set)),
                Some(Place::Position(at)) => Ok(Self::Position(at)),
                None => Err(format!("\"{other}\" is not allowed: current | a GTID set | FILE:POS")),
            },
        }
    }
}

enum Place {
    Gtids(GtidSet),
    Position(Position),
}

/// A file name ends in a number and a position is one number: no GTID set looks like that, since a UUID holds no point.
fn place(text: &str) -> Option<Place> {
    if let Some((file, offset)) = text.rsplit_once(':')
        && let Some((stem, number)) = file.rsplit_once('.')
        && !stem.is_empty()
        && !number.is_empty()
        && number.bytes().all(|b| b.is_ascii_digit())
    {
        // Every log begins with a 4-byte magic number.
        let offset = offset.parse::<u64>().ok().filter(|n| *n >= 4)?;
        return Some(Place::Position(Position::new(file, offset)));
    }
    if text.is_empty() {
        return None;
    }
    text.parse::<GtidSet>().ok().map(Place::Gtids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_apart() {
        assert_eq!("current".parse::<Start>(), Ok(Start::Current));
        assert_eq!("earliest".parse::<Start>(), Ok(Start::Earliest));
        assert_eq!("bin.log.000007:194".parse::<Start>(), Ok(Start::Position(Position::new("bin.log.000007", 194))));
        assert!(matches!("3E11FA47-71CA-11E1-9E33-C80AA9429562:1-5:8".parse::<Until>(), Ok(Until::Gtids(_))));
        assert!("earliest".parse::<Until>().unwrap_err().contains("current | a GTID set"));
        for bad in ["", "binlog.000001", "binlog.000001:0", "binlog.000001:x", ":4", "latest", "binlog:4"] {
            assert!(bad.parse::<Start>().is_err(), "{bad}");
        }
    }
}
