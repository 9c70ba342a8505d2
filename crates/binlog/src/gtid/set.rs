use std::collections::BTreeMap;

use super::{Gtid, Tsid};

/// A set of GTIDs: per TSID a sorted list of half-open intervals that neither touch nor overlap.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct GtidSet {
    sids: BTreeMap<Tsid, Vec<(u64, u64)>>,
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
        self.iter().map(|(_, start, end)| u128::from(end.saturating_sub(start))).fold(0, u128::saturating_add)
    }

    /// The intervals `[start, end)` in order of TSID and number.
    pub fn iter(&self) -> impl Iterator<Item = (Tsid, u64, u64)> + '_ {
        self.sids.iter().flat_map(|(tsid, list)| list.iter().map(move |&(start, end)| (*tsid, start, end)))
    }

    /// The TSIDs with their intervals `[start, end)`, in order.
    pub fn tsids(&self) -> impl ExactSizeIterator<Item = (&Tsid, &[(u64, u64)])> + '_ {
        self.sids.iter().map(|(tsid, list)| (tsid, list.as_slice()))
    }

    /// Adds one transaction. Constant time when it follows the last one of its TSID, as in a stream.
    /// Returns whether it was new. Number 0 is no transaction and is never added.
    pub fn insert(&mut self, gtid: Gtid) -> bool {
        let (gno, Some(next)) = (gtid.gno, gtid.gno.checked_add(1)) else { return false };
        if gno == 0 {
            return false;
        }
        let list = self.sids.entry(gtid.tsid).or_default();
        match list.last_mut() {
            Some(last) if last.1 == gno => {
                last.1 = next;
                return true;
            }
            Some(last) if last.1 > gno => {}
            _ => {
                list.push((gno, next));
                return true;
            }
        }
        // The first interval that ends at or after the number: it holds it, touches it, or lies behind it.
        let at = list.partition_point(|&(_, end)| end < gno);
        let Some(&(start, end)) = list.get(at) else { return false };
        if start <= gno && gno < end {
            return false;
        }
        if end == gno {
            let joined = list.get(at.saturating_add(1)).filter(|after| after.0 == next).map(|after| after.1);
            if joined.is_some() {
                list.remove(at.saturating_add(1));
            }
            if let Some(interval) = list.get_mut(at) {
                interval.1 = joined.unwrap_or(next);
            }
        } else if start == next {
            if let Some(interval) = list.get_mut(at) {
                interval.0 = gno;
            }
        } else {
            list.insert(at, (gno, next));
        }
        true
    }

    /// Adds `[start, end)` of one TSID. An empty interval adds nothing.
    pub fn insert_interval(&mut self, tsid: Tsid, start: u64, end: u64) {
        let start = start.max(1);
        if start < end {
            let list = self.sids.entry(tsid).or_default();
            *list = merge(list, &[(start, end)]);
        }
    }

    /// Whether the transaction is in the set.
    #[must_use]
    pub fn contains(&self, gtid: &Gtid) -> bool {
        self.sids.get(&gtid.tsid).is_some_and(|list| {
            let at = list.partition_point(|&(_, end)| end <= gtid.gno);
            list.get(at).is_some_and(|&(start, _)| start <= gtid.gno)
        })
    }

    /// Whether every transaction of `other` is in this set.
    #[must_use]
    pub fn is_superset(&self, other: &Self) -> bool {
        other.sids.iter().all(|(tsid, theirs)| {
            let ours = self.sids.get(tsid).map_or(&[][..], Vec::as_slice);
            theirs.iter().all(|&(start, end)| {
                let at = ours.partition_point(|&(_, e)| e < end);
                ours.get(at).is_some_and(|&(s, _)| s <= start)
            })
        })
    }

    /// Adds everything in `other`.
    pub fn union(&mut self, other: &Self) {
        for (tsid, theirs) in &other.sids {
            let list = self.sids.entry(*tsid).or_default();
            *list = merge(list, theirs);
        }
    }

    /// Takes away everything in `other`.
    pub fn subtract(&mut self, other: &Self) {
        for (tsid, theirs) in &other.sids {
            if let Some(list) = self.sids.get_mut(tsid) {
                *list = minus(list, theirs);
                if list.is_empty() {
                    self.sids.remove(tsid);
                }
            }
        }
    }

    /// A set from intervals in any order, overlapping or not. Linear but for the sort, whatever the input.
    pub(super) fn from_parts(parts: BTreeMap<Tsid, Vec<(u64, u64)>>) -> Self {
        let mut sids = parts;
        for list in sids.values_mut() {
            list.sort_unstable();
            *list = merge(list, &[]);
        }
        sids.retain(|_, list| !list.is_empty());
        Self { sids }
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

/// The union of two lists that are sorted by start.
fn merge(a: &[(u64, u64)], b: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut out: Vec<(u64, u64)> = Vec::new();
    let (mut a, mut b) = (a.iter().copied().peekable(), b.iter().copied().peekable());
    loop {
        let next = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) if x.0 <= y.0 => a.next(),
            (_, Some(_)) => b.next(),
            _ => a.next(),
        };
        let Some((start, end)) = next else { return out };
        match out.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => out.push((start, end)),
        }
    }
}

/// `a` without `b`, both normal.
fn minus(a: &[(u64, u64)], b: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut out = Vec::new();
    let mut b = b.iter().copied().peekable();
    for &(mut start, end) in a {
        while b.next_if(|cut| cut.1 <= start).is_some() {}
        while let Some(&(cut_start, cut_end)) = b.peek() {
            if cut_start >= end {
                break;
            }
            if cut_start > start {
                out.push((start, cut_start));
            }
            start = cut_end;
            if cut_end >= end {
                break;
            }
            b.next();
        }
        if start < end {
            out.push((start, end));
        }
    }
    out
}

#[cfg(test)]
mod tests {
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
    fn a_gap_is_not_contained() {
        // osheroff/mysql-binlog-connector-java 90
        assert!(!set("1-5:7").is_superset(&set("6")));
        assert!(set("1-5:7").is_superset(&set("2-3:7")));
        assert!(!set("1-5:7").is_superset(&set("5-7")));
        assert!(set("1").is_superset(&GtidSet::new()));
        assert!(!GtidSet::new().is_superset(&set("1")));
    }

    fn small() -> impl Strategy<Value = BTreeSet<u64>> {
        proptest::collection::btree_set(1u64..40, 0..30)
    }

    fn of(numbers: &BTreeSet<u64>) -> GtidSet {
        numbers.iter().rev().map(|n| gtid(*n)).collect()
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_numbers(a in small(), b in small()) {
            let (sa, sb) = (of(&a), of(&b));
            prop_assert_eq!(sa.count(), a.len() as u128);
            let mut u = sa.clone();
            u.union(&sb);
            prop_assert_eq!(&u, &of(&a.union(&b).copied().collect()));
            let mut d = sa.clone();
            d.subtract(&sb);
            prop_assert_eq!(&d, &of(&a.difference(&b).copied().collect()));
            prop_assert_eq!(sa.is_superset(&sb), a.is_superset(&b));
            for n in 0..45 {
                prop_assert_eq!(sa.contains(&gtid(n.max(1))), a.contains(&n.max(1)));
            }
            prop_assert_eq!(&sa.to_string().parse::<GtidSet>().unwrap(), &sa);
            prop_assert_eq!(&GtidSet::decode(&sa.encode()).unwrap(), &sa);
        }
    }
}
