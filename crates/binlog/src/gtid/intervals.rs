use std::collections::BTreeMap;

use super::GNO_END;

/// The transaction numbers of one TSID: intervals that neither touch nor overlap.
///
/// Every operation looks at the intervals that it changes and at one neighbour on each side, each found in logarithmic
/// time: whatever the order, `n` changes cost `n log n`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Intervals {
    /// Exclusive end by start.
    ends: BTreeMap<u64, u64>,
}

impl Intervals {
    /// The intervals `[start, end)`, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + ExactSizeIterator + '_ {
        self.ends.iter().map(|(&start, &end)| (start, end))
    }

    /// How many intervals there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no interval.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How many numbers there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.iter().map(|(start, end)| end.saturating_sub(start)).fold(0, u64::saturating_add)
    }

    /// Whether a number is in.
    #[must_use]
    pub fn contains(&self, number: u64) -> bool {
        self.at_or_before(number).is_some_and(|(_, end)| number < end)
    }

    /// Whether all of `[start, end)` is in.
    #[must_use]
    pub(super) fn covers(&self, start: u64, end: u64) -> bool {
        start >= end || self.at_or_before(start).is_some_and(|(_, e)| end <= e)
    }

    /// Adds `[start, end)`, cut to the numbers that a transaction can have. Returns whether some of it was new.
    pub(super) fn insert(&mut self, start: u64, end: u64) -> bool {
        let (mut start, mut end) = (start.max(1), end.min(GNO_END));
        if start >= end {
            return false;
        }
        if let Some((s, e)) = self.at_or_before(start)
            && e >= start
        {
            if e >= end {
                return false;
            }
            start = s;
        }
        // What it reaches or touches becomes part of it: each stored interval is taken out at most once.
        while let Some((s, e)) = self.first_from(start.saturating_add(1)).filter(|&(s, _)| s <= end) {
            self.ends.remove(&s);
            end = end.max(e);
        }
        self.ends.insert(start, end);
        true
    }

    /// Takes `[start, end)` away.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        if let Some((s, e)) = start.checked_sub(1).and_then(|before| self.at_or_before(before))
            && e > start
        {
            self.ends.insert(s, start);
            if e > end {
                self.ends.insert(end, e);
            }
        }
        while let Some((s, e)) = self.first_from(start).filter(|&(s, _)| s < end) {
            self.ends.remove(&s);
            if e > end {
                self.ends.insert(end, e);
            }
        }
    }

    /// What is in both.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        let (few, many) = if self.len() <= other.len() { (self, other) } else { (other, self) };
        let mut both = Self::default();
        for (start, end) in few.iter() {
            let mut found = many.at_or_before(start).filter(|&(_, e)| e > start).or_else(|| many.first_from(start));
            while let Some((s, e)) = found.filter(|&(s, _)| s < end) {
                both.ends.insert(s.max(start), e.min(end));
                found = many.first_from(e);
            }
        }
        both
    }

    /// The interval with the greatest start that is not above `number`.
    fn at_or_before(&self, number: u64) -> Option<(u64, u64)> {
        #[cfg(test)]
        tests::look();
        self.ends.range(..=number).next_back().map(|(&s, &e)| (s, e))
    }

    /// The interval with the least start that is not below `number`.
    fn first_from(&self, number: u64) -> Option<(u64, u64)> {
        #[cfg(test)]
        tests::look();
        self.ends.range(number..).next().map(|(&s, &e)| (s, e))
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "an overflow in a test is a failure")]
mod tests {
    use super::*;
    use std::cell::Cell;

    std::thread_local! {
        static LOOKS: Cell<u64> = const { Cell::new(0) };
    }

    /// Counts the looks at the tree. Nothing is changed without one, so they bound the work but for a logarithm.
    pub(super) fn look() {
        LOOKS.set(LOOKS.get() + 1);
    }

    fn looks(work: impl FnOnce()) -> u64 {
        let before = LOOKS.get();
        work();
        LOOKS.get() - before
    }

    const N: u64 = 100_000;

    /// Numbers below `N` in orders that hurt simple structures: up, down, scattered, from both ends.
    fn orders() -> [Vec<u64>; 4] {
        let scattered = (0..N).map(|i| i * 61_803 % N).collect();
        let ends = (0..N).map(|i| if i % 2 == 0 { i / 2 } else { N - 1 - i / 2 }).collect();
        [(0..N).collect(), (0..N).rev().collect(), scattered, ends]
    }

    /// Conformance: P3
    #[test]
    fn a_hundred_thousand_intervals_in_any_order_cost_a_few_looks_each() {
        for order in orders() {
            let mut set = Intervals::default();
            let apart = looks(|| order.iter().for_each(|i| assert!(set.insert(3 * i + 1, 3 * i + 2))));
            assert_eq!((set.len() as u64, set.count()), (N, N));
            // Each of these joins two neighbours, until one interval is left.
            let mut joined = set.clone();
            let joins = looks(|| order.iter().for_each(|i| assert!(joined.insert(3 * i + 2, 3 * i + 4))));
            assert_eq!(joined.iter().collect::<Vec<_>>(), [(1, 3 * N + 1)]);
            let holes = looks(|| order.iter().for_each(|i| joined.remove(3 * i + 2, 3 * i + 4)));
            assert_eq!(joined, set);
            let both = looks(|| assert_eq!(set.intersection(&joined), set));
            let whole = looks(|| {
                assert!(joined.insert(1, 3 * N + 1));
                joined.remove(1, 3 * N + 1);
                assert!(joined.is_empty());
            });
            for (what, looks) in [("apart", apart), ("join", joins), ("hole", holes), ("both", both), ("whole", whole)]
            {
                assert!(looks <= 4 * N, "{what}: {looks}");
            }
        }
    }
}
