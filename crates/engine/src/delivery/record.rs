use serde::{Deserialize, Serialize};

use super::Coordinate;
use crate::merge::{KeyRange, XaPlace};

/// A target table: the number the state gave it at first sight. Part of its labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TargetNo(pub u32);

/// How a target keeps rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(clippy::exhaustive_enums, reason = "every decision must handle both")]
pub enum TableMode {
    /// UNIQUE KEY: the last change of a key wins.
    Upsert,
    /// DUPLICATE KEY: every change is a row.
    Append,
}

impl core::fmt::Display for TableMode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Upsert => "upsert",
            Self::Append => "append",
        })
    }
}

/// One load within one era.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LoadId {
    /// The epoch it belongs to.
    pub epoch: u64,
    /// Its target.
    pub target: TargetNo,
    /// Its number among the target's loads of the epoch, from 0: the order in which they are committed.
    pub part: u16,
}

/// Where a target stands right after a load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadEnd {
    /// Everything at or before this place that concerns the Done ranges is in this load or an earlier one.
    pub coordinate: Coordinate,
    /// Done ranges.
    #[serde(with = "range_text")]
    pub done: Vec<KeyRange>,
}

/// A load of an epoch, PRECOMMITTED when the record is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadRecord {
    /// Which load.
    pub id: LoadId,
    /// Its label.
    pub label: String,
    /// Doris' transaction id; 0 ([`LoadRecord::AHEAD`]) of one that is sent only once the record is durable.
    pub txn: u64,
    /// First and last sequence number in it.
    pub seq: (i64, i64),
    /// Rows in it.
    pub rows: u64,
    /// The target's mode.
    pub mode: TableMode,
    /// Where the target stands after it.
    pub end: LoadEnd,
    /// The next load of the target was cut with it: only both bring the target to the end.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub more: bool,
}

impl LoadRecord {
    /// The transaction id of a load that was written ahead: its bytes are durable, its label tells what became of it.
    pub const AHEAD: u64 = 0;
}

/// The durable state of a target.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TargetState {
    /// Where it stands, if that is not where the stream stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<Coordinate>,
    /// Done ranges.
    #[serde(with = "range_text")]
    pub done: Vec<KeyRange>,
    /// The sink may hold rows outside of the Done ranges.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub may_hold_more: bool,
}

/// What an epoch does to a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetChange {
    /// The target.
    pub target: TargetNo,
    /// Its state before the epoch.
    pub previous: TargetState,
    /// Its state after it.
    pub next: TargetState,
}

/// What an epoch does to what is known of XA transactions.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct XaChange {
    /// For a restart anywhere before the epoch's end.
    #[serde(default, skip_serializing_if = "XaPlace::is_empty")]
    pub previous: XaPlace,
    /// For one at its end.
    #[serde(default, skip_serializing_if = "XaPlace::is_empty")]
    pub next: XaPlace,
}

impl XaChange {
    fn is_empty(&self) -> bool {
        self.previous.is_empty() && self.next.is_empty()
    }
}

/// The write-ahead record of one epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochRecord {
    /// The epoch.
    pub epoch: u64,
    /// The era of its writer.
    pub era: u32,
    /// Whether every load is known to be committed.
    pub committed: bool,
    /// Where the stream stood before the epoch.
    pub previous: Coordinate,
    /// Where it stands after it.
    pub next: Coordinate,
    /// Targets whose state changes beyond moving along with the stream, and every target with a load.
    pub targets: Vec<TargetChange>,
    /// Its loads, by target and part.
    pub loads: Vec<LoadRecord>,
    /// Bytes of the output file that belong to this and earlier epochs (jsonl to a file).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
    /// What a restart has to know of XA transactions.
    #[serde(default, skip_serializing_if = "XaChange::is_empty")]
    pub xa: XaChange,
}

/// Proof that an epoch's record is durable and its writer's era is still the stored one. Only a store can make one, and
/// nothing is committed without it.
#[derive(Debug)]
pub struct CommitPermit {
    epoch: u64,
}

impl CommitPermit {
    /// For stores alone, after the record is durable.
    pub(crate) const fn issue(epoch: u64) -> Self {
        Self { epoch }
    }

    /// The epoch that may be committed.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }
}

/// Key ranges as pairs of hexadecimal bounds, `null` where open; the text of a bound's weighed parts comes after a colon.
mod range_text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    use crate::merge::{Key, KeyRange};

    fn hex(bytes: &[u8]) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |n: u8| DIGITS.get(usize::from(n)).map_or('0', |d| char::from(*d));
        bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect()
    }

    fn write(key: &Key) -> String {
        let order = hex(key.order());
        if key.text().is_empty() { order } else { format!("{order}:{}", hex(key.text())) }
    }

    fn read(text: &str) -> Option<Key> {
        match text.split_once(':') {
            None => unhex(text).map(Key::from),
            Some((order, text)) => Some(Key::with_text(&unhex(order)?, &unhex(text)?)),
        }
    }

    fn unhex(text: &str) -> Option<Vec<u8>> {
        let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
        let digits = digits?;
        let pairs = digits.chunks_exact(2);
        if !pairs.remainder().is_empty() {
            return None;
        }
        Some(pairs.filter_map(|p| Some((p.first()? << 4) | p.last()?)).collect())
    }

    pub(super) fn serialize<S: Serializer>(ranges: &[KeyRange], to: S) -> Result<S::Ok, S::Error> {
        let pairs: Vec<_> = ranges.iter().map(|r| (r.lo.as_ref().map(write), r.hi.as_ref().map(write))).collect();
        pairs.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<KeyRange>, D::Error> {
        let key = |text: Option<String>| match text {
            None => Ok(None),
            Some(text) => read(&text).map(Some).ok_or_else(|| de::Error::custom("a key bound is not hexadecimal")),
        };
        Vec::<(Option<String>, Option<String>)>::deserialize(from)?
            .into_iter()
            .map(|(lo, hi)| Ok(KeyRange { lo: key(lo)?, hi: key(hi)? }))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::Key;

    #[test]
    fn a_state_reads_back_as_it_was_written() {
        let state = TargetState {
            ahead: None,
            done: vec![
                KeyRange { lo: None, hi: Some(vec![0, 0xff, 0x10].into()) },
                KeyRange { lo: Some(Key::default()), hi: Some(Key::with_text(&[1], b"a")) },
            ],
            may_hold_more: true,
        };
        let text = serde_json::to_string(&state).unwrap();
        assert_eq!(text, r#"{"done":[[null,"00ff10"],["","01:61"]],"may_hold_more":true}"#);
        let again = serde_json::from_str::<TargetState>(&text).unwrap();
        assert_eq!(again, state);
        assert_eq!(again.done.last().and_then(|r| r.hi.as_ref()).map(Key::text), Some(&b"a"[..]));
        assert!(serde_json::from_str::<TargetState>(r#"{"done":[["0",null]]}"#).is_err());
    }
}
