use std::collections::BTreeMap;

use super::{Gtid, Intervals, Tsid};

/// A set of GTIDs, as intervals of each TSID.
///
/// Exact: a gap stays a gap. No operation is quadratic, whatever the order in which numbers come.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct GtidSet {
    /// None of them empty.
    sids: BTreeMap<Tsid, Intervals>,
}

impl GtidSet {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { sids: BTreeMap::new() }
    }

    /// Whether nothing is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sids.is_empty()
    }

    /// How many transactions are in the set.
    #[must_use]
    pub fn count(&self) -> u128 {
        self.sids.values().map(|list| u128::from(list.count())).fold(0, u128::saturating_add)
    }

    /// The intervals `[start, end)` in order of TSID and number.
    pub fn iter(&self) -> impl Iterator<Item = (Tsid, u64, u64)> + '_ {
        self.sids.iter().flat_map(|(tsid, list)| list.iter().map(move |(start, end)| (*tsid, start, end)))
    }

    /// The TSIDs with their intervals, in order.
    pub fn tsids(&self) -> impl ExactSizeIterator<Item = (&Tsid, &Intervals)> + '_ {
        self.sids.iter()
    }

    /// Adds one transaction and returns whether it was new. Numbers that no transaction has (0, and the greatest of 63
    /// bits and above) are never added.
    pub fn insert(&mut self, gtid: Gtid) -> bool {
        self.insert_interval(gtid.tsid, gtid.gno, gtid.gno.saturating_add(1))
    }

    /// Adds `[start, end)` of one TSID, but for numbers that no transaction has. Returns whether something was new.
    pub fn insert_interval(&mut self, tsid: Tsid, start: u64, end: u64) -> bool {
        if let Some(list) = self.sids.get_mut(&tsid) {
            return list.insert(start, end);
        }
        let mut list = Intervals::default();
        let new = list.insert(start, end);
        if new {
            self.sids.insert(tsid, list);
        }
        new
    }

    /// Whether the transaction is in the set.
    #[must_use]
    pub fn contains(&self, gtid: &Gtid) -> bool {
        self.sids.get(&gtid.tsid).is_some_and(|list| list.contains(gtid.gno))
    }

    /// Whether every transaction of `other` is in this set.
    #[must_use]
    pub fn is_superset(&self, other: &Self) -> bool {
        other.sids.iter().all(|(tsid, theirs)| {
            self.sids.get(tsid).is_some_and(|ours| theirs.iter().all(|(start, end)| ours.covers(start, end)))
        })
    }

    /// Whether every transaction of this set is in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        other.is_superset(self)
    }

    /// Adds everything in `other`.
    pub fn union(&mut self, other: &Self) {
        for (tsid, start, end) in other.iter() {
            self.insert_interval(tsid, start, end);
        }
    }

    /// Takes away everything in `other`.
    pub fn subtract(&mut self, other: &Self) {
        for (tsid, theirs) in &other.sids {
            if let Some(list) = self.sids.get_mut(tsid) {
                theirs.iter().for_each(|(start, end)| list.remove(start, end));
                if list.is_empty() {
                    self.sids.remove(tsid);
                }
            }
        }
    }

    /// Keeps only what is in `other` too.
    pub fn intersect(&mut self, other: &Self) {
        self.sids.retain(|tsid, list| {
            *list = other.sids.get(tsid).map(|theirs| list.intersection(theirs)).unwrap_or_default();
            !list.is_empty()
        });
    }
}

impl Extend<Gtid> for GtidSet {
    fn extend<T: IntoIterator<Item = Gtid>>(&mut self, iter: T) {
        for gtid in iter {
            self.insert(gtid);
        }
    }
}

impl FromIterator<Gtid> for GtidSet {
    fn from_iter<T: IntoIterator<Item = Gtid>>(iter: T) -> Self {
        let mut set = Self::new();
        set.extend(iter);
        set
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "an overflow in a test is a failure")]
mod tests {
    use super::super::{GNO_END, Tag, Uuid};
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const U: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn set(intervals: &str) -> GtidSet {
        if intervals.is_empty() { GtidSet::new() } else { format!("{U}:{intervals}").parse().unwrap() }
    }

    fn gtid(gno: u64) -> Gtid {
        format!("{U}:{gno}").parse().unwrap()
    }

    #[test]
    fn inserts_join_what_they_touch_and_nothing_else() {
        for (before, gno, after, new) in [
            ("", 5, "5", true),
            ("1-4", 5, "1-5", true),
            ("1-4", 6, "1-4:6", true),
            ("1-4:6-9", 5, "1-9", true),
            ("3-4", 2, "2-4", true),
            ("3-4", 1, "1:3-4", true),
            ("1-4:8-9", 6, "1-4:6:8-9", true),
            ("1-4:8-9", 7, "1-4:7-9", true),
            ("1-4:8-9", 5, "1-5:8-9", true),
            ("1-4:8-9", 3, "1-4:8-9", false),
            ("1-4:8-9", 9, "1-4:8-9", false),
        ] {
            let mut s = set(before);
            assert_eq!(s.insert(gtid(gno)), new, "{before} + {gno}");
            assert_eq!(s, set(after), "{before} + {gno}");
        }
    }

    #[test]
    fn numbers_that_no_transaction_has_are_not_added() {
        let mut s = GtidSet::new();
        for gno in [0, GNO_END, u64::MAX] {
            assert!(!s.insert(Gtid { gno, ..gtid(1) }));
        }
        assert!(s.is_empty() && !s.insert_interval(gtid(1).tsid, 7, 7));
        assert!(s.insert_interval(gtid(1).tsid, 0, u64::MAX));
        assert_eq!(s, set("1-9223372036854775806"));
        assert_eq!(GtidSet::decode(&s.encode()).unwrap(), s);
    }

    /// Bug: 91
    #[test]
    fn a_gap_is_not_contained() {
        assert!(!set("1-5:7").is_superset(&set("6")));
        assert!(set("1-5:7").is_superset(&set("2-3:7")));
        assert!(!set("1-5:7").is_superset(&set("5-7")));
        assert!(set("1").is_superset(&GtidSet::new()));
        assert!(!GtidSet::new().is_superset(&set("1")));
    }

    /// Numbers of nine TSIDs, one by one.
    type Model = BTreeSet<(Tsid, u64)>;

    fn tsid(which: usize) -> Tsid {
        let uuid = Uuid([[1; 16], [0x7f; 16], [0xfe; 16]][which / 3]);
        Tsid { uuid, tag: Tag::new([&b""[..], b"a", b"_b2"][which % 3]).unwrap() }
    }

    fn part() -> impl Strategy<Value = (Tsid, u64, u64)> {
        (0usize..9, 1u64..40, 0u64..6).prop_map(|(which, start, len)| (tsid(which), start, start + len))
    }

    fn parts() -> impl Strategy<Value = Vec<(Tsid, u64, u64)>> {
        proptest::collection::vec(part(), 0..40)
    }

    fn numbers(parts: &[(Tsid, u64, u64)]) -> Model {
        parts.iter().flat_map(|&(tsid, start, end)| (start..end).map(move |gno| (tsid, gno))).collect()
    }

    fn of(parts: &[(Tsid, u64, u64)]) -> GtidSet {
        let mut set = GtidSet::new();
        parts.iter().for_each(|&(tsid, start, end)| {
            set.insert_interval(tsid, start, end);
        });
        set
    }

    fn one_by_one(model: &Model) -> GtidSet {
        model.iter().rev().map(|&(tsid, gno)| Gtid { tsid, gno }).collect()
    }

    /// The set holds the model's numbers, in the one form there is, and both encodings give it back.
    fn check(set: &GtidSet, model: &Model) -> Result<(), TestCaseError> {
        prop_assert_eq!(&numbers(&set.iter().collect::<Vec<_>>()), model);
        prop_assert_eq!(set, &one_by_one(model));
        prop_assert_eq!(set.count(), model.len() as u128);
        prop_assert_eq!(set.is_empty(), model.is_empty());
        prop_assert_eq!(&set.to_string().parse::<GtidSet>().unwrap(), set);
        prop_assert_eq!(&format!("{set:#}").parse::<GtidSet>().unwrap(), set);
        prop_assert_eq!(&GtidSet::decode(&set.encode()).unwrap(), set);
        Ok(())
    }

    proptest! {
        /// Conformance: E4
        /// Bug: 91
        #[test]
        fn agrees_with_a_set_of_numbers(a in parts(), b in parts()) {
            let (sa, sb, ma, mb) = (of(&a), of(&b), numbers(&a), numbers(&b));
            check(&sa, &ma)?;
            let mut union = sa.clone();
            union.union(&sb);
            check(&union, &(&ma | &mb))?;
            let mut difference = sa.clone();
            difference.subtract(&sb);
            check(&difference, &(&ma - &mb))?;
            let mut both = sa.clone();
            both.intersect(&sb);
            check(&both, &(&ma & &mb))?;
            prop_assert_eq!(sa.is_superset(&sb), ma.is_superset(&mb));
            prop_assert_eq!(sa.is_subset(&sb), ma.is_subset(&mb));
            prop_assert!(both.is_subset(&sa) && both.is_subset(&sb) && sa.is_subset(&union));
            prop_assert_eq!(sa == sb, ma == mb);
            for which in 0..9 {
                for gno in 0..48 {
                    let gtid = Gtid { tsid: tsid(which), gno };
                    prop_assert_eq!(sa.contains(&gtid), ma.contains(&(gtid.tsid, gno)));
                }
            }
        }
    }
}
