//! Chunks that wait for no HW (`snapshot.backfill = "skip"`): the last change of every key wins in the end.

use millstream_binlog::{Gtid, GtidSet};

use super::*;

const T: TableId = TableId(1);
/// Keys 0 to 5; the table is read in two ranges, up to and above this one.
const CUT: u8 = 2;

/// Transaction `n`, from 1.
fn txn(n: u64) -> Gtid {
    static ALL: std::sync::LazyLock<Vec<Gtid>> = std::sync::LazyLock::new(|| {
        let gtid = |n| format!("3e11fa47-71ca-11e1-9e33-c80aa9429562:{n}").parse().unwrap();
        (1..=201_u64).map(gtid).collect()
    });
    ALL[usize::try_from(n).unwrap() - 1]
}

fn set(numbers: impl IntoIterator<Item = u64>) -> Passed {
    numbers.into_iter().map(txn).collect::<GtidSet>().into()
}

fn at(n: u64) -> Position {
    Position::new("b.000001", n)
}

type Rows = BTreeMap<u8, u64>;
/// Of one transaction: keys with the row that they have afterwards, if any.
type Changes = Vec<(u8, Option<u64>)>;

fn apply(rows: &mut Rows, changes: &[(u8, Option<u64>)]) {
    for (key, row) in changes {
        match row {
            Some(row) => rows.insert(*key, *row),
            None => rows.remove(key),
        };
    }
}

/// An upsert target: what is written last has the greatest sequence number.
#[derive(Default)]
struct Sink {
    rows: Rows,
    /// Changes that it got although a chunk had brought them.
    again: u64,
}

fn enter(merge: &mut Merge<u64>, sink: &mut Sink) {
    while let Some(entry) = merge.entry() {
        sink.rows.extend(entry.rows.into_iter().map(|(key, row)| (key[0], row)));
    }
}

/// Judges transaction `n`.
fn judge(merge: &mut Merge<u64>, sink: &mut Sink, n: u64, changes: &[(u8, Option<u64>)], seen: bool) {
    merge.begin(txn(n).into());
    for ((key, row), ordinal) in changes.iter().zip(0..) {
        let kind = if row.is_some() { ChangeKind::Put } else { ChangeKind::Delete };
        if merge.change(T, &[*key], ordinal, kind, || (row.unwrap(), 8)) == Verdict::Emit {
            sink.again += u64::from(seen);
            apply(&mut sink.rows, &[(*key, *row)]);
        }
    }
    merge.commit(at(n));
}

/// A history: transactions 1 to 12 in the order of the log; each chunk's SELECT sees some of them and LW lists some of those,
/// with gaps, but always all that its D has. Whether the sink ends as the source, and how many changes came twice.
fn history(seed: u64, rules: Rules) -> (bool, u64) {
    const LAST: u64 = 12;
    let mut rng = fastrand::Rng::with_seed(seed);
    let keep_emitting = rng.u8(0..3) == 0;
    let begin: Rows = (0..6).filter(|_| rng.bool()).map(|key| (key, 0)).collect();
    let log: Vec<Changes> =
        (1..=LAST).map(|n| (0..rng.u8(1..3)).map(|_| (rng.u8(0..6), rng.bool().then_some(n))).collect()).collect();
    let changes = |n: u64| log[usize::try_from(n).unwrap() - 1].as_slice();

    let mut merge = Merge::new(set([]), None, rules);
    merge.add_table(T, &[], keep_emitting, None);
    merge.advance(at(0));
    merge.cut(T, &Key::from([CUT]));
    // A sink that may hold more has what there was when the stream began.
    let mut sink = Sink { rows: if keep_emitting { begin.clone() } else { Rows::new() }, again: 0 };
    let mut seen_by: [Vec<bool>; 2] = Default::default();
    // Per range: when it is opened, when LW and when the rows become known.
    let mut open: [Option<ChunkId>; 2] = [None; 2];
    let opens: [u64; 2] = core::array::from_fn(|_| rng.u64(0..LAST));
    let fences: [u64; 2] = core::array::from_fn(|i| rng.u64(opens[i]..=LAST));
    let reads: [u64; 2] = core::array::from_fn(|i| rng.u64(fences[i]..=LAST));
    for n in 0..=LAST {
        for range in 0..2 {
            if opens[range] == n {
                let unread = merge.unread(T);
                let wanted = unread.iter().find(|r| r.contains(&[if range == 0 { 0 } else { 5 }])).unwrap();
                open[range] = Some(merge.open(T, wanted.clone()).unwrap().chunk);
                // Row locks: a SELECT that sees a change of a key sees all earlier ones of it. Every transaction that was
                // judged is seen; of the others any may be.
                let mut seen: Vec<bool> = (1..=LAST).map(|m| m <= n || rng.bool()).collect();
                for later in (0..log.len()).rev().filter(|later| seen[*later]).collect::<Vec<_>>() {
                    let mut todo = vec![later];
                    while let Some(one) = todo.pop() {
                        seen[one] = true;
                        let keys: Vec<u8> = log[one].iter().map(|(key, _)| *key).collect();
                        let meets = |m: &usize| !seen[*m] && log[*m].iter().any(|(key, _)| keys.contains(key));
                        todo.extend((0..one).filter(meets).collect::<Vec<_>>());
                    }
                }
                seen_by[range] = seen;
            }
            let seen = &seen_by[range];
            let listed = |m: &u64| seen[usize::try_from(*m).unwrap() - 1];
            if fences[range] == n
                && let Some(chunk) = open[range]
            {
                let lw = set((1..=LAST)
                    .filter(listed)
                    .filter(|m| *m <= opens[range] || rng.u8(0..3) > 0)
                    .collect::<Vec<_>>());
                assert!(merge.fence(chunk, lw));
            }
            if reads[range] == n
                && let Some(chunk) = open[range]
            {
                let mut rows = begin.clone();
                for m in (1..=LAST).filter(listed) {
                    apply(&mut rows, changes(m));
                }
                let rows = rows.into_iter().filter(|(key, _)| (*key <= CUT) == (range == 0));
                let rows = rows.map(|(key, row)| (Key::from([key]), row)).collect();
                assert!(merge.read_at_once(chunk, rows, Covered::ToEnd));
            }
        }
        enter(&mut merge, &mut sink);
        if rng.u8(0..4) == 0 {
            merge.settle();
        }
        if n < LAST {
            let live = merge.is_live(T);
            judge(&mut merge, &mut sink, n + 1, changes(n + 1), live);
        }
    }
    let mut end = begin;
    (1..=LAST).for_each(|n| apply(&mut end, changes(n)));
    assert!(merge.is_live(T));
    (sink.rows == end, sink.again)
}

#[test]
fn every_history_ends_at_the_source() {
    let mut again = 0;
    for seed in 0..5_000 {
        let (equal, twice) = history(seed, Rules::default());
        assert!(equal, "seed {seed}");
        again += twice;
    }
    assert!(again > 1000, "it is at least once, not exactly once");
}

#[cfg(feature = "mutants")]
#[test]
fn a_watermark_that_is_never_spent_is_noticed() {
    for broken in [Broken::SpentWatermark, Broken::Normalize, Broken::ForgetOlder] {
        assert!((0..5_000_u64).any(|seed| !history(seed, Rules::without(broken)).0), "{broken:?}");
    }
}

fn merge() -> Merge<u64> {
    let mut merge = Merge::new(set([]), None, Rules::default());
    merge.add_table(T, &[], false, None);
    merge.advance(at(0));
    merge
}

fn read(merge: &mut Merge<u64>, range: KeyRange, lw: Passed, rows: &[(u8, u64)]) {
    let chunk = merge.open(T, range).unwrap().chunk;
    assert!(merge.fence(chunk, lw));
    let rows = rows.iter().map(|(key, row)| (Key::from([*key]), *row)).collect();
    assert!(merge.read_at_once(chunk, rows, Covered::ToEnd));
}

#[test]
fn rows_enter_at_once_and_what_lw_has_is_dropped_until_something_else_was_emitted() {
    let (mut m, mut sink) = (merge(), Sink::default());
    read(&mut m, KeyRange::default(), set([1, 3, 4]), &[(1, 4), (2, 3)]);
    enter(&mut m, &mut sink);
    assert!(m.is_live(T) && m.has_watermarks(T) && !m.needs_key(T));
    judge(&mut m, &mut sink, 1, &[(1, Some(1))], true);
    assert_eq!((sink.rows[&1], sink.again), (4, 0), "dropped: the SELECT saw it");
    // 2 was not in LW, and is older than what the chunk brought: 3 and 4 have to come again.
    for (n, key) in [(2, 1), (3, 2), (4, 1)] {
        judge(&mut m, &mut sink, n, &[(key, Some(n))], true);
    }
    assert_eq!((sink.rows[&1], sink.rows[&2], sink.again), (4, 3, 3));
    assert!(!m.has_watermarks(T));
}

#[test]
fn what_was_held_is_put_over_the_rows_and_spends_their_watermark() {
    let (mut m, mut sink) = (merge(), Sink::default());
    let chunk = m.open(T, KeyRange::default()).unwrap().chunk;
    judge(&mut m, &mut sink, 1, &[(1, Some(1)), (2, None)], false);
    // The SELECT saw 2, which inserts key 2 again; LW has 2 and not 1.
    assert!(m.fence(chunk, set([2])));
    assert!(m.read_at_once(chunk, vec![(Key::from([1]), 1), (Key::from([2]), 2)], Covered::ToEnd));
    enter(&mut m, &mut sink);
    assert_eq!(sink.rows, Rows::from([(1, 1)]), "as of the stream");
    judge(&mut m, &mut sink, 2, &[(2, Some(2))], true);
    assert_eq!(sink.rows, Rows::from([(1, 1), (2, 2)]));
}

#[test]
fn watermarks_stay_few_and_go_when_the_stream_has_passed_them() {
    let (mut m, mut sink) = (merge(), Sink::default());
    for n in 0..200_u8 {
        let lo = n.checked_sub(1).map(|n| Key::from([n]));
        m.cut(T, &Key::from([n]));
        read(&mut m, KeyRange { lo, hi: Some(Key::from([n])) }, set(1..=u64::from(n) + 1), &[]);
        enter(&mut m, &mut sink);
        assert!(m.ranges(T).unwrap().len() <= 2 * WATERMARKS + 2);
    }
    for n in 1..=8 {
        judge(&mut m, &mut sink, n, &[], false);
    }
    assert!(m.settle() && m.has_watermarks(T));
    for n in 9..=201 {
        judge(&mut m, &mut sink, n, &[], false);
    }
    assert!(m.settle() && !m.has_watermarks(T) && !m.settle());
    assert_eq!(m.ranges(T).unwrap().len(), 2);
}
