//! Single rules of the merge; histories over all of them: the model test in `tests/`.

use millstream_binlog::{Gtid, GtidSet};

use super::*;
use crate::delivery::Partial;

const T: TableId = TableId(1);

fn gtid(n: u64) -> TxnId {
    format!("3e11fa47-71ca-11e1-9e33-c80aa9429562:{n}").parse::<Gtid>().unwrap().into()
}

fn set(numbers: impl IntoIterator<Item = u64>) -> Passed {
    let gtid = |n| format!("3e11fa47-71ca-11e1-9e33-c80aa9429562:{n}").parse::<Gtid>().unwrap();
    numbers.into_iter().map(gtid).collect::<GtidSet>().into()
}

fn at(offset: u64) -> Position {
    Position::new("b.000001", offset)
}

fn merge() -> Merge<u32> {
    let mut merge = Merge::new(set([1]), None, Rules::default());
    merge.add_table(T, &[], false, None);
    merge.advance(at(4));
    merge
}

/// A transaction at offset `10 * n` that changes keys: `None` deletes.
fn transaction(merge: &mut Merge<u32>, n: u64, changes: &[(u8, Option<u32>)]) -> Vec<Verdict> {
    merge.begin(gtid(n));
    let verdicts = changes.iter().zip(0..).map(|((key, row), ordinal)| change(merge, ordinal, *key, *row)).collect();
    merge.commit(at(n.saturating_mul(10)));
    verdicts
}

fn change(merge: &mut Merge<u32>, ordinal: u32, key: u8, row: Option<u32>) -> Verdict {
    let kind = if row.is_some() { ChangeKind::Put } else { ChangeKind::Delete };
    merge.change(T, &[key], ordinal, kind, || (row.unwrap(), 8))
}

fn open_all(merge: &mut Merge<u32>) -> Opening {
    merge.open(T, KeyRange::default()).unwrap()
}

fn key(k: u8) -> Key {
    Key::from([k])
}

#[test]
fn a_chunk_enters_at_its_high_watermark_with_what_was_held() {
    let mut m = merge();
    assert_eq!(transaction(&mut m, 2, &[(1, Some(1))]), [Verdict::Drop(DropRule::Unread)]);
    let chunk = open_all(&mut m);
    assert_eq!(chunk.covers, set([1, 2]));
    assert!(!m.fence(chunk.chunk, set([1])), "LW does not cover D");
    assert!(m.fence(chunk.chunk, set([1, 2, 3])));
    assert_eq!(transaction(&mut m, 3, &[(1, Some(2))]), [Verdict::Drop(DropRule::InLowWatermark)]);
    assert!(m.read(chunk.chunk, vec![(key(1), 2), (key(2), 5)], Covered::ToEnd, at(50)));
    let held = [Verdict::Drop(DropRule::Held); 2];
    assert_eq!(transaction(&mut m, 4, &[(2, None), (3, Some(9))]), held);
    assert_eq!(m.entry_due(), None, "HW is not reached");
    assert!(m.durable_ranges(T).is_empty());
    transaction(&mut m, 5, &[]);
    let entry = m.entry().unwrap();
    assert_eq!(entry.rows, [(key(1), 2), (key(3), 9)]);
    assert!(m.is_live(T) && m.entry().is_none());
    assert_eq!(transaction(&mut m, 6, &[(1, None)]), [Verdict::Emit]);
}

#[test]
fn a_change_in_lw_forgets_older_held_ones_of_its_key() {
    let mut m = merge();
    let chunk = open_all(&mut m).chunk;
    assert!(m.fence(chunk, set([1, 3])));
    transaction(&mut m, 2, &[(1, Some(10)), (2, Some(10))]);
    transaction(&mut m, 3, &[(1, Some(14))]);
    assert!(m.read(chunk, vec![(key(1), 14)], Covered::ToEnd, at(30)));
    assert_eq!(m.entry().unwrap().rows, [(key(1), 14), (key(2), 10)]);
}

#[test]
fn a_transaction_that_is_cut_off_stays_open() {
    let mut m = merge();
    m.begin(gtid(2));
    assert_eq!(change(&mut m, 0, 1, Some(1)), Verdict::Drop(DropRule::Unread));
    // The connection is lost here. A chunk that opened now would have a D without transaction 2, and its LW might lack
    // it too: the change that was dropped would be lost.
    assert!(!m.may_open(T) && m.open(T, KeyRange::default()).is_none());
    m.begin(gtid(2));
    m.commit(at(20));
    assert_eq!(open_all(&mut m).covers, set([1, 2]));
}

#[test]
fn nothing_of_a_chunk_outlives_a_move_to_another_server() {
    let mut m = merge();
    transaction(&mut m, 9, &[]);
    let chunk = open_all(&mut m).chunk;
    assert!(m.fence(chunk, set([1, 9])) && m.read(chunk, Vec::new(), Covered::ToEnd, at(200)));
    m.moved(Some(at(50)));
    assert!(!m.is_open(chunk) && m.position().is_none() && !m.may_open(T));
    m.advance(at(49));
    assert!(!m.may_open(T), "the new server's fence is not passed, though the old server's stream was far beyond it");
    m.advance(at(50));
    assert!(m.may_open(T));
}

#[test]
fn a_table_ahead_of_the_stream_drops_what_it_has_and_opens_no_chunk() {
    let ahead = Coordinate { passed: set([1, 2]), partial: Some(Partial { txn: gtid(3), rows: 1 }) };
    let mut m = Merge::new(set([1]), None, Rules::default());
    m.add_table(T, &[KeyRange { lo: None, hi: Some(key(5)) }], false, Some(ahead.clone()));
    m.advance(at(4));
    assert!(!m.may_open(T));
    assert_eq!(m.checkpoint(T).ahead.as_ref(), Some(&ahead));
    let dropped = Verdict::Drop(DropRule::AlreadyDelivered);
    assert_eq!(transaction(&mut m, 2, &[(1, Some(1)), (7, Some(1))]), [dropped, Verdict::Drop(DropRule::Unread)]);
    assert_eq!(transaction(&mut m, 3, &[(1, Some(2)), (2, Some(3))]), [dropped, Verdict::Emit]);
    assert!(m.may_open(T) && m.checkpoint(T).ahead.is_none());
}

#[test]
fn a_table_cannot_be_cut_inside_two_transactions_at_once() {
    // Delivered up to inside of transaction 3; on the new server transaction 4 comes first.
    let ahead = Coordinate { passed: set([1, 2]), partial: Some(Partial { txn: gtid(3), rows: 1 }) };
    let mut m: Merge<u32> = Merge::new(set([1, 2]), None, Rules::default());
    m.add_table(T, &[KeyRange::default()], false, Some(ahead));
    m.begin(gtid(4));
    assert!(!m.may_cut(T));
    m.commit(at(10));
    assert!(m.may_cut(T));
    let place = m.checkpoint(T).ahead.unwrap();
    assert_eq!(place, Coordinate { passed: set([1, 2, 4]), partial: Some(Partial { txn: gtid(3), rows: 1 }) });
    m.begin(gtid(3));
    assert!(m.may_cut(T));
}

#[test]
fn spellings_of_a_key_are_one_key_and_bounds_keep_theirs() {
    let mut m = merge();
    assert!(!m.needs_key(T), "all of it is Unread");
    let bound = Key::with_text(&[5], b"e");
    assert!(m.cut(T, &bound) && m.needs_key(T));
    let unread = m.unread(T);
    assert_eq!(unread.first().and_then(|r| r.hi.as_ref()).map(Key::text), Some(&b"e"[..]));
    let chunk = m.open(T, unread.into_iter().next().unwrap()).unwrap().chunk;
    assert!(m.fence(chunk, set([1])));
    // The last row is the bound itself in another spelling: nothing is left of the range.
    assert!(m.read(chunk, vec![(key(5), 1)], Covered::UpTo(Key::with_text(&[5], b"E")), at(10)));
    assert_eq!(m.unread(T), [KeyRange { lo: Some(bound), hi: None }]);
    transaction(&mut m, 2, &[(5, None), (5, Some(2))]);
    assert_eq!(m.entry().unwrap().rows, [(key(5), 2)]);
    let chunk = m.open(T, m.unread(T).remove(0)).unwrap().chunk;
    assert!(m.fence(chunk, set([1, 2])) && m.read(chunk, Vec::new(), Covered::ToEnd, at(20)));
    assert!(m.entry().is_some() && m.is_live(T) && !m.needs_key(T));
}

/// Numbers whose halves are two columns: a change of some columns has 0 in the others.
fn onto(base: u32, patch: u32) -> u32 {
    let pick = |mask: u32| if patch & mask == 0 { base & mask } else { patch & mask };
    pick(0xff00) | pick(0xff)
}

#[test]
fn changes_of_some_columns_go_onto_the_rows_that_the_select_saw() {
    let patch =
        |m: &mut Merge<u32>, ordinal, key: u8, based, row| m.patch(T, &[key], ordinal, based, || (row, 4), onto);
    let mut m = merge();
    let o = open_all(&mut m);
    m.begin(gtid(3));
    let held = Verdict::Drop(DropRule::Held);
    assert_eq!(patch(&mut m, 0, 5, true, 0x0100), held);
    assert_eq!(patch(&mut m, 1, 5, true, 0x0007), held);
    assert_eq!(change(&mut m, 2, 6, Some(0x0203)), held);
    assert_eq!(patch(&mut m, 3, 6, true, 0x0900), held);
    m.commit(at(30));
    assert!(m.fence(o.chunk, set([1, 2])));
    assert!(m.read(o.chunk, vec![(vec![5].into(), 0x0404)], Covered::ToEnd, at(30)));
    let entry = m.entry().unwrap();
    assert_eq!(entry.rows, [(vec![5].into(), 0x0107), (vec![6].into(), 0x0903)]);
    m.begin(gtid(4));
    assert_eq!(patch(&mut m, 0, 5, true, 1), Verdict::Emit);

    // Nothing that the row could go onto: the chunk is read again, at once or when it is to enter.
    let mut m = merge();
    let o = open_all(&mut m);
    m.begin(gtid(3));
    assert_eq!(patch(&mut m, 0, 5, false, 1), Verdict::Drop(DropRule::Unread));
    assert!(!m.is_open(o.chunk));
    m.commit(at(30));
    let o = open_all(&mut m);
    m.begin(gtid(4));
    assert_eq!(patch(&mut m, 0, 5, true, 1), held);
    m.commit(at(40));
    assert!(m.fence(o.chunk, set([1, 2, 3])));
    assert!(m.read(o.chunk, vec![(vec![4].into(), 1)], Covered::ToEnd, at(40)));
    assert!(m.entry().is_none() && !m.is_open(o.chunk) && m.held_bytes() == 0);

    // Where the sink may hold more, whole rows and deletes go on, and these do not.
    let mut m: Merge<u32> = Merge::new(set([1, 2]), None, Rules::default());
    m.add_table(T, &[], true, None);
    m.begin(gtid(3));
    assert_eq!(patch(&mut m, 0, 5, true, 1), Verdict::Drop(DropRule::Unread));
    assert_eq!(change(&mut m, 1, 5, Some(1)), Verdict::Emit);
}

#[test]
fn an_xa_decision_is_held_where_lw_says_nothing_about_it() {
    for (lacks, rows) in [(false, vec![(key(1), 7)]), (true, vec![(key(1), 5), (key(2), 5)])] {
        let mut m = merge();
        if lacks {
            m.lw_lacks_xa();
        }
        let chunk = open_all(&mut m).chunk;
        // Decided before LW is known, and after.
        m.begin(gtid(2));
        m.decides_xa();
        change(&mut m, 0, 1, Some(5));
        m.commit(at(20));
        assert!(m.fence(chunk, set([1, 2, 3, 4])));
        m.begin(gtid(3));
        m.decides_xa();
        change(&mut m, 0, 2, Some(5));
        m.commit(at(30));
        assert!(m.read(chunk, vec![(key(1), 7)], Covered::ToEnd, at(30)));
        assert_eq!(m.entry().unwrap().rows, rows, "{lacks}");
    }
}

#[test]
fn a_stream_that_is_known_by_positions_judges_by_where_transactions_begin() {
    let mut m = Merge::new(at(100).into(), None, Rules::default());
    m.add_table(T, &[], false, None);
    m.advance(at(100));
    let judge = |m: &mut Merge<u32>, begin, end, key, row| {
        m.begin(TxnId::At(at(begin)));
        let verdict = change(m, 0, key, Some(row));
        m.commit(at(end));
        verdict
    };
    assert_eq!(judge(&mut m, 100, 200, 1, 1), Verdict::Drop(DropRule::Unread));
    let chunk = m.open(T, KeyRange::default()).unwrap();
    assert_eq!(chunk.covers, at(200).into());
    assert!(!m.fence(chunk.chunk, at(199).into()) && m.fence(chunk.chunk, at(300).into()));
    assert_eq!(judge(&mut m, 200, 300, 1, 2), Verdict::Drop(DropRule::InLowWatermark));
    assert_eq!(judge(&mut m, 300, 400, 2, 3), Verdict::Drop(DropRule::Held));
    assert!(m.read(chunk.chunk, vec![(key(1), 2)], Covered::ToEnd, at(400)));
    assert_eq!(m.entry().unwrap().rows, [(key(1), 2), (key(2), 3)]);
    // The next file: a place to begin from, without a transaction.
    m.rotated(Position::new("b.000002", 4));
    assert_eq!(*m.judged(), Position::new("b.000002", 4).into());
    assert_eq!(m.file_created("b.000002", 7), Ok(()));
    assert_eq!(m.file_created("b.000002", 8), Err(7));
    assert_eq!(m.file_created("b.000001", 8), Ok(()), "not where the stream stands");
}

#[test]
fn a_table_that_is_read_again_goes_on_being_emitted_and_is_read_from_the_start() {
    for keep_emitting in [true, false] {
        let mut m = merge();
        let first = open_all(&mut m);
        assert!(m.fence(first.chunk, set([1])) && m.read(first.chunk, vec![(key(1), 1)], Covered::UpTo(key(1)), at(5)));
        transaction(&mut m, 2, &[]);
        assert_eq!(m.entry().map(|e| e.rows.len()), Some(1));
        // A second chunk is on its way when the table is to be read again.
        let rest = m.unread(T).pop().unwrap();
        let second = m.open(T, rest).unwrap();
        m.restart(T, keep_emitting);
        assert!(!m.is_open(second.chunk) && m.held_bytes() == 0);
        assert_eq!(m.unread(T), [KeyRange::default()]);
        assert_eq!(m.checkpoint(T), TargetState { may_hold_more: keep_emitting, ..TargetState::default() });
        let unread = if keep_emitting { Verdict::Emit } else { Verdict::Drop(DropRule::Unread) };
        assert_eq!(transaction(&mut m, 3, &[(1, None), (2, Some(2))]), [unread, unread]);
        let again = open_all(&mut m);
        assert_eq!(again.covers, set([1, 2, 3]), "D is everything judged by now");
        let held = if keep_emitting { Verdict::Emit } else { Verdict::Drop(DropRule::Held) };
        assert_eq!(transaction(&mut m, 4, &[(2, Some(4))]), [held]);
        assert!(m.fence(again.chunk, set([1, 2, 3])));
        assert!(m.read(again.chunk, vec![(key(2), 2)], Covered::ToEnd, at(41)));
        transaction(&mut m, 5, &[]);
        assert_eq!(m.entry().unwrap().rows, [(key(2), 4)], "what came meanwhile normalizes it");
        assert!(m.is_live(T) && !m.keeps_emitting(T));
    }
}

#[test]
#[allow(clippy::arithmetic_side_effects, reason = "an overflow in a test is a failure")]
fn the_state_of_a_table_stays_small_however_many_chunks_were_walked() {
    // Eight readers walk a table of a million chunks of one key each, in random order; where one comes to the end of its range,
    // it takes half of what another one still has before it.
    const KEYS: u32 = 1_000_000;
    const READERS: usize = 8;
    let bound = |key: u32| Key::from(key.to_be_bytes());
    let number = |key: &Key| u32::from_be_bytes(key.order().try_into().unwrap());
    let mut m: Merge<()> = Merge::new(set([1]), None, Rules::default());
    m.add_table(T, &[], false, None);
    m.advance(at(4));
    let mut rng = fastrand::Rng::with_seed(1);
    let (mut chunks, mut most, mut longest) = (0_u32, 0, 0);
    loop {
        let unread = m.unread(T);
        if unread.is_empty() {
            break;
        }
        if unread.len() < READERS {
            let widest = unread.iter().map(|r| (r.lo.as_ref().map_or(0, number), r.hi.as_ref().map_or(KEYS, number)));
            let (lo, hi) = widest.max_by_key(|(lo, hi)| hi - lo).unwrap();
            m.cut(T, &bound(lo.midpoint(hi)));
        }
        // The same reader many times, then another one: who comes when makes no difference to the state.
        let range = rng.choice(m.unread(T)).unwrap();
        let first = range.lo.as_ref().map_or(0, number);
        let hi = range.hi.as_ref().map_or(KEYS, number);
        for lo in first..first + rng.u32(1..64) {
            let rest = KeyRange { lo: (lo > 0).then(|| bound(lo)), hi: range.hi.clone() };
            let Some(opening) = m.open(T, rest) else { break };
            let covered = if lo + 1 < hi { Covered::UpTo(bound(lo + 1)) } else { Covered::ToEnd };
            assert!(m.fence(opening.chunk, set([1])) && m.read(opening.chunk, Vec::new(), covered, at(4)));
            assert!(m.entry().is_some());
            chunks += 1;
        }
        most = most.max(m.ranges(T).unwrap().len());
        if chunks % 256 < 64 {
            longest = longest.max(serde_json::to_string(&m.checkpoint(T)).unwrap().len());
        }
    }
    assert!(m.is_live(T) && chunks >= KEYS, "{chunks}");
    assert!(most <= 2 * READERS + 1 && (100..1000).contains(&longest), "{most} ranges, {longest} bytes");
    assert_eq!(m.durable_ranges(T), [KeyRange::default()]);
}
