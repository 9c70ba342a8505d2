//! Texts of GTIDs and sets of both flavors: what was read is printed and read again, and sets obey their laws.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use millstream_binlog::{Gtid, GtidSet, MariaGtid, MariaGtidList, MariaGtidPos, Uuid};

/// Two texts with a NUL between them.
pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (first, second) = text.split_once('\0').unwrap_or((text, ""));
    again::<Uuid>(first);
    again::<Gtid>(first);
    again::<MariaGtid>(first);
    if let (Some(a), Some(b)) = (again::<GtidSet>(first), again::<GtidSet>(second)) {
        laws(&a, &b);
        assert_eq!(GtidSet::decode(&a.encode()).as_ref(), Ok(&a));
        assert_eq!(format!("{a:#}").parse::<GtidSet>().as_ref(), Ok(&a));
    }
    if let (Some(a), Some(b)) = (again::<MariaGtidPos>(first), again::<MariaGtidPos>(second)) {
        let mut both = a.clone();
        both.union(&b);
        assert!(both.is_superset(&a) && both.is_superset(&b));
        assert!(both.iter().all(|gtid| a.domain(gtid.domain) == Some(gtid) || b.domain(gtid.domain) == Some(gtid)));
    }
    if let Some(list) = again::<MariaGtidList>(first) {
        assert!(list.iter().all(|gtid| list.contains(gtid)));
        assert!(list.pos().iter().all(|gtid| list.last_of(gtid.domain, gtid.server) == Some(gtid.sequence)));
        assert_eq!(list.iter().collect::<MariaGtidList>(), list);
    }
}

fn again<T: FromStr<Err: Debug + Display> + Display + Debug + PartialEq>(text: &str) -> Option<T> {
    let value = text.parse::<T>();
    if let Ok(value) = &value {
        assert_eq!(&value.to_string().parse::<T>().unwrap(), value);
    }
    value.ok()
}

pub(super) fn laws(a: &GtidSet, b: &GtidSet) {
    let mut union = a.clone();
    union.union(b);
    let mut both = a.clone();
    both.intersect(b);
    let mut rest = a.clone();
    rest.subtract(b);
    assert_eq!(union.count() + both.count(), a.count() + b.count());
    assert_eq!(rest.count() + both.count(), a.count());
    for (whole, part) in [(&union, a), (&union, b), (a, &both), (b, &both), (a, &rest)] {
        assert!(whole.is_superset(part) && part.is_subset(whole));
    }
    let mut apart = rest.clone();
    apart.intersect(b);
    assert!(apart.is_empty());
    rest.union(&both);
    assert_eq!(&rest, a);
    assert_eq!(a.is_superset(b), both == *b);
    for (tsid, start, end) in both.iter() {
        for gno in [start, end - 1] {
            let gtid = Gtid { tsid, gno };
            assert!(a.contains(&gtid) && b.contains(&gtid));
        }
        // No interval is longer than it was.
        assert!(
            !both.contains(&Gtid { tsid, gno: end }) && (start == 1 || !both.contains(&Gtid { tsid, gno: start - 1 }))
        );
    }
}
