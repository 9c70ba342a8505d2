//! A table's key space as disjoint ranges, each Unread, Reading or Done.

use millstream_binlog::Position;

use super::{ChunkId, Key};
use crate::delivery::{Passed, TxnId};

/// Keys above `lo` up to and including `hi`; `None` is open.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct KeyRange {
    /// Exclusive lower bound.
    pub lo: Option<Key>,
    /// Inclusive upper bound.
    pub hi: Option<Key>,
}

impl KeyRange {
    /// Whether `key` lies in the range.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.lo.as_deref().is_none_or(|lo| key > lo) && self.hi.as_deref().is_none_or(|hi| key <= hi)
    }
}

/// Up to where a Done range's content is known to the sink.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Watermark {
    /// Everything at or below this position of the stream.
    Position(Position),
    /// Exactly these transactions.
    Set(Passed),
}

impl Watermark {
    /// Whether a transaction that ends at `position` is covered.
    #[must_use]
    pub fn covers(&self, position: &Position, txn: Option<&TxnId>) -> bool {
        match self {
            Self::Position(hw) => position <= hw,
            Self::Set(set) => txn.is_some_and(|t| set.contains(t)),
        }
    }
}

/// What is known about the rows of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RangeState {
    /// No chunk has read it.
    Unread,
    /// A chunk is being read or waits for its high watermark.
    Reading(ChunkId),
    /// In the output. With a watermark (after a rewind), changes it covers are there already.
    Done(Option<Watermark>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    hi: Option<Key>,
    state: RangeState,
}

/// Disjoint ranges that cover every key, in key order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeSet {
    // Each range begins above the one before; the last one's `hi` is None. Never empty.
    ranges: Vec<Range>,
}

impl RangeSet {
    /// One range over all keys.
    #[must_use]
    pub fn whole(state: RangeState) -> Self {
        Self { ranges: vec![Range { hi: None, state }] }
    }

    /// Everything Unread but `done`.
    #[must_use]
    pub fn with_done(done: &[KeyRange]) -> Self {
        let mut set = Self::whole(RangeState::Unread);
        for range in done {
            set.assign(range, RangeState::Done(None));
        }
        set
    }

    /// How many ranges there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Never: a set covers every key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether every key is Done.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.ranges.iter().all(|r| matches!(r.state, RangeState::Done(_)))
    }

    fn index(&self, key: &[u8]) -> usize {
        self.ranges.partition_point(|r| r.hi.as_deref().is_some_and(|hi| hi < key))
    }

    /// The state of the range that holds `key`.
    #[inline]
    #[must_use]
    pub fn state(&self, key: &[u8]) -> &RangeState {
        const UNREAD: &RangeState = &RangeState::Unread;
        self.ranges.get(self.index(key)).map_or(UNREAD, |r| &r.state)
    }

    /// Whether `range` is just one of them, in this state.
    #[must_use]
    pub fn is_one(&self, range: &KeyRange, state: &RangeState) -> bool {
        let at = range.hi.as_deref().map_or_else(|| self.ranges.len().saturating_sub(1), |hi| self.index(hi));
        let below = at.checked_sub(1).and_then(|below| self.ranges.get(below)).and_then(|r| r.hi.as_ref());
        below == range.lo.as_ref() && self.ranges.get(at).is_some_and(|r| r.hi == range.hi && r.state == *state)
    }

    /// All ranges with their bounds.
    pub fn iter(&self) -> impl Iterator<Item = (KeyRange, &RangeState)> {
        let mut lo: Option<Key> = None;
        self.ranges.iter().map(move |r| {
            let range = KeyRange { lo: lo.take(), hi: r.hi.clone() };
            lo.clone_from(&r.hi);
            (range, &r.state)
        })
    }

    /// The ranges in a state that `want` accepts.
    pub fn matching(&self, want: impl Fn(&RangeState) -> bool) -> Vec<KeyRange> {
        self.iter().filter(|(_, s)| want(s)).map(|(r, _)| r).collect()
    }

    /// The Done ranges, for a checkpoint.
    #[must_use]
    pub fn done(&self) -> Vec<KeyRange> {
        self.matching(|s| matches!(s, RangeState::Done(_)))
    }

    /// Puts a bound at `key` without changing any state.
    pub fn cut(&mut self, key: &Key) {
        let i = self.index(key);
        let Some(range) = self.ranges.get(i) else { return };
        if range.hi.as_ref() == Some(key) {
            return;
        }
        let low = Range { hi: Some(key.clone()), state: range.state.clone() };
        self.ranges.insert(i, low);
    }

    /// Gives all keys of `range` one state, whatever they had.
    pub fn assign(&mut self, range: &KeyRange, state: RangeState) {
        for bound in [&range.lo, &range.hi].into_iter().flatten() {
            self.cut(bound);
        }
        let first = range.lo.as_deref().map_or(0, |lo| self.index(lo).saturating_add(1));
        let last = range.hi.as_deref().map_or_else(|| self.ranges.len().saturating_sub(1), |hi| self.index(hi));
        if first > last {
            return;
        }
        for r in self.ranges.iter_mut().take(last.saturating_add(1)).skip(first) {
            r.state = state.clone();
        }
        self.join(|a, b| a == b && !matches!(a, RangeState::Unread));
        // Within one assignment pieces join too; Unread neighbours stay apart only where a cut was asked for.
    }

    /// Gives every range of one chunk another state.
    pub fn release(&mut self, chunk: ChunkId, state: &RangeState) {
        for r in &mut self.ranges {
            if r.state == RangeState::Reading(chunk) {
                r.state = state.clone();
            }
        }
        self.join(|a, b| a == b && !matches!(a, RangeState::Unread));
    }

    /// How many Done ranges have a watermark.
    #[must_use]
    pub fn watermarks(&self) -> usize {
        self.ranges.iter().filter(|r| matches!(r.state, RangeState::Done(Some(_)))).count()
    }

    /// The Done range that holds `key` has no watermark any more.
    pub fn spend(&mut self, key: &[u8]) {
        let at = self.index(key);
        if let Some(Range { state: state @ RangeState::Done(Some(_)), .. }) = self.ranges.get_mut(at) {
            *state = RangeState::Done(None);
            self.join(|a, b| a == b && !matches!(a, RangeState::Unread));
        }
    }

    /// The Done ranges whose watermark is `passed` have none any more. Whether there were any.
    pub fn settle(&mut self, passed: impl Fn(&Watermark) -> bool) -> bool {
        let mut any = false;
        for r in &mut self.ranges {
            if matches!(&r.state, RangeState::Done(Some(hw)) if passed(hw)) {
                r.state = RangeState::Done(None);
                any = true;
            }
        }
        if any {
            self.join(|a, b| a == b && !matches!(a, RangeState::Unread));
        }
        any
    }

    fn join(&mut self, same: impl Fn(&RangeState, &RangeState) -> bool) {
        // `dedup_by` hands (later, earlier): the earlier one stays and takes the later one's bound.
        self.ranges.dedup_by(|later, earlier| {
            let join = same(&earlier.state, &later.state);
            if join {
                earlier.hi = later.hi.take();
            }
            join
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn k(n: u8) -> Key {
        vec![n].into()
    }

    fn range(lo: Option<u8>, hi: Option<u8>) -> KeyRange {
        KeyRange { lo: lo.map(k), hi: hi.map(k) }
    }

    #[test]
    fn bounds_are_exclusive_below_and_inclusive_above() {
        let mut set = RangeSet::whole(RangeState::Unread);
        set.assign(&range(Some(10), Some(20)), RangeState::Done(None));
        for (key, done) in [(10, false), (11, true), (20, true), (21, false)] {
            assert_eq!(matches!(set.state(&[key]), RangeState::Done(_)), done, "{key}");
        }
        assert_eq!(set.len(), 3);
        assert_eq!(set.done(), [range(Some(10), Some(20))]);
    }

    #[test]
    fn done_neighbours_join_and_a_live_table_is_one_range() {
        let mut set = RangeSet::whole(RangeState::Unread);
        for (lo, hi) in [(Some(5), Some(9)), (None, Some(5)), (Some(9), None)] {
            set.assign(&range(lo, hi), RangeState::Done(None));
        }
        assert_eq!(set.len(), 1);
        assert!(set.is_live());
    }

    #[test]
    fn a_cut_changes_no_state_and_survives() {
        let mut set = RangeSet::whole(RangeState::Unread);
        set.cut(&k(7));
        set.cut(&k(7));
        for (lo, hi, is) in [(None, Some(7), true), (Some(7), None, true), (None, None, false), (Some(6), None, false)]
        {
            assert_eq!(set.is_one(&range(lo, hi), &RangeState::Unread), is, "{lo:?} {hi:?}");
        }
        assert!(!set.is_one(&range(None, Some(7)), &RangeState::Done(None)));
        assert_eq!(set.matching(|s| *s == RangeState::Unread), [range(None, Some(7)), range(Some(7), None)]);
        set.assign(&range(None, Some(7)), RangeState::Reading(ChunkId(1)));
        set.release(ChunkId(1), &RangeState::Unread);
        assert_eq!(set.len(), 2);
    }

    #[test]
    fn the_worked_example_of_the_design_holds() {
        let at = |n: u64| Position::new("binlog.000001", n);
        let wide = |n: u32| -> Key { n.to_be_bytes().into() };
        let mut set = RangeSet::whole(RangeState::Unread);
        for (lo, hi, hw) in [(None, 999, 150), (Some(999), 1999, 280), (Some(1999), 3000, 350)] {
            set.assign(
                &KeyRange { lo: lo.map(wide), hi: Some(wide(hi)) },
                RangeState::Done(Some(Watermark::Position(at(hw)))),
            );
        }
        for (pos, pk, emit) in [(155, 500u32, true), (160, 1500, false), (290, 1500, true)] {
            let RangeState::Done(Some(hw)) = set.state(&wide(pk)) else { panic!("not done") };
            assert_eq!(!hw.covers(&at(pos), None), emit, "event {pos} of key {pk}");
        }
    }
}
