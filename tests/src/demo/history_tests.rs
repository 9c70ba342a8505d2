//! Every way to spoil a history must be seen.

use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    seq: i64,
    op: u8,
    /// Transaction and row in it.
    at: (&'static str, u32),
    key: &'static str,
    image: &'static str,
}

const fn line(seq: i64, op: u8, at: (&'static str, u32), key: &'static str, image: &'static str) -> Line {
    Line { seq, op, at, key, image }
}

/// Two keys are read; the first is updated twice, gets another key and back; a third comes, goes and comes again.
const GOOD: [Line; 11] = [
    line(10, b'r', ("", 0), "1", "a"),
    line(11, b'c', ("u:5", 1), "3", "c"),
    line(12, b'r', ("", 0), "2", "b"),
    line(13, b'u', ("u:6", 0), "1", "a2"),
    line(14, b'u', ("u:7", 0), "1", "a3"),
    line(15, b'd', ("u:7", 1), "1", "a3"),
    line(16, b'c', ("u:7", 2), "4", "a3"),
    line(17, b'd', ("u:8", 0), "3", "c"),
    line(18, b'd', ("u:9", 0), "4", "a3"),
    line(19, b'c', ("u:9", 1), "1", "a3"),
    line(20, b'c', ("u:10", 0), "3", "c2"),
];

/// What the binlog lists: transaction 5 wrote a key that was not read yet first.
const LISTED: [(&str, &[u8]); 6] =
    [("u:5", b"uc"), ("u:6", b"u"), ("u:7", b"udc"), ("u:8", b"d"), ("u:9", b"dc"), ("u:10", b"c")];

/// The row the source holds now.
const SOURCE: [(&str, &str); 3] = [("1", "a3"), ("2", "b"), ("3", "c2")];

fn position(gtid: &str) -> u64 {
    gtid.trim_start_matches("u:").parse().unwrap_or(0)
}

/// As the demo does it: history, listing, and what is left against the source.
fn faults(lines: &[Line]) -> Vec<String> {
    let mut sorted = lines.to_vec();
    sorted.sort_by_key(|line| line.seq);
    let mut history = History::default();
    for line in &sorted {
        let mut key = Vec::new();
        cells::put(&mut key, Some(line.key.as_bytes()));
        history.push(&Entry {
            seq: line.seq,
            op: line.op,
            gtid: line.at.0.as_bytes(),
            file: b"binlog.000001",
            pos: position(line.at.0),
            row: line.at.1,
            key: &key,
            image: line.image,
        });
    }
    let mut done = history.finish();
    let mut all = done.faults.first().to_vec();
    for (gtid, listed) in LISTED {
        let delivered = done.transactions.remove(gtid.as_bytes()).unwrap_or_default();
        all.extend(check_transaction(listed, &delivered, position(gtid) > 5));
    }
    all.extend(done.transactions.keys().map(|_| "never logged".to_owned()));
    for (key, image) in SOURCE {
        let mut bytes = Vec::new();
        cells::put(&mut bytes, Some(key.as_bytes()));
        if done.rows.remove(&*bytes) != Some(image) {
            all.push(format!("the replay of {key} differs"));
        }
    }
    all.extend(done.rows.keys().map(|key| format!("the replay has {}", cells::show(key))));
    all
}

#[test]
fn a_good_history_has_no_faults() {
    assert_eq!(faults(&GOOD), [""; 0]);
}

#[test]
fn a_missing_row_is_seen_wherever_it_was() {
    for (index, gone) in GOOD.iter().enumerate() {
        let mut lines = GOOD.to_vec();
        lines.remove(index);
        assert!(!faults(&lines).is_empty(), "without {gone:?}");
    }
}

#[test]
fn a_doubled_row_is_seen_wherever_it_is() {
    for twice in GOOD {
        for seq in [twice.seq, 1000] {
            let mut lines = GOOD.to_vec();
            lines.push(Line { seq, ..twice });
            assert!(!faults(&lines).is_empty(), "twice {twice:?} at {seq}");
        }
    }
}

#[test]
fn two_rows_that_changed_places_are_seen() {
    for a in 0..GOOD.len() {
        for b in a + 1..GOOD.len() {
            let mut lines = GOOD.to_vec();
            (lines[a].seq, lines[b].seq) = (GOOD[b].seq, GOOD[a].seq);
            // A row that was read has no place in the binlog: it may move as long as it stays the first of its key.
            let free = |n: usize, to: i64| {
                let first = GOOD.iter().filter(|l| l.key == GOOD[n].key).map(|l| l.seq).nth(1).unwrap_or(i64::MAX);
                GOOD[n].op == b'r' && to < first
            };
            let moved = |n: usize| lines[n].seq;
            let others = |n: usize| {
                let mut binlog: Vec<Line> = lines.iter().filter(|l| l.op != b'r').copied().collect();
                binlog.sort_by_key(|l| l.seq);
                binlog.is_sorted_by_key(|l| (position(l.at.0), l.at.1)) && GOOD[n].op != b'r'
            };
            let fine = (free(a, moved(a)) || others(a)) && (free(b, moved(b)) || others(b));
            assert_eq!(faults(&lines).is_empty(), fine, "{:?} and {:?}", GOOD[a], GOOD[b]);
        }
    }
}

#[test]
fn an_altered_row_is_seen() {
    for n in 0..GOOD.len() {
        for (what, line) in [
            ("image", Line { image: "zz", ..GOOD[n] }),
            ("key", Line { key: "77", ..GOOD[n] }),
            ("number", Line { at: (GOOD[n].at.0, GOOD[n].at.1 + 7), ..GOOD[n] }),
            ("transaction", Line { at: ("u:99", GOOD[n].at.1), ..GOOD[n] }),
            ("transaction", Line { at: ("", GOOD[n].at.1), ..GOOD[n] }),
        ] {
            let mut lines = GOOD.to_vec();
            lines[n] = line;
            // A row that was read has no transaction; an image that is replaced by the next update is nowhere else.
            let unseen = (GOOD[n].op == b'r' && (what == "number" || line.at.0.is_empty() && what == "transaction"))
                || (what == "image" && [10, 13].contains(&GOOD[n].seq));
            assert_eq!(faults(&lines).is_empty(), unseen, "{what} of {:?}", GOOD[n]);
        }
        for op in *b"rcudx" {
            let mut lines = GOOD.to_vec();
            lines[n].op = op;
            assert_eq!(faults(&lines).is_empty(), op == GOOD[n].op, "{} for {:?}", op as char, GOOD[n]);
        }
    }
}

#[test]
fn rows_from_before_a_table_was_live_may_be_missing() {
    for (listed, delivered, live, want) in [
        (&b"cud"[..], &[(0, b'c'), (1, b'u'), (2, b'd')][..], true, None),
        (b"cud", &[(1, b'u')], false, None),
        (b"cud", &[], false, None),
        (b"cud", &[(1, b'u')], true, Some("row 0 (c) of 3 is missing")),
        (b"cud", &[], true, Some("row 0 (c) of 3 is missing")),
        (b"cud", &[(1, b'c')], false, Some("row 1 is c, the binlog lists u")),
        (b"cud", &[(3, b'c')], false, Some("row 3 is c, the binlog lists nothing")),
        (b"", &[], true, None),
    ] {
        assert_eq!(check_transaction(listed, delivered, live).as_deref(), want);
    }
}

#[test]
fn files_are_in_the_order_of_their_numbers() {
    let at = |file: &'static str, pos| Place { gtid: b"", file: file.as_bytes(), pos, row: 0 };
    let next = |file, pos| Place { gtid: b"x", ..at(file, pos) };
    assert!(at("binlog.999999", 9).is_before(&next("binlog.1000000", 4)));
    assert!(!at("binlog.000002", 4).is_before(&next("binlog.000001", 9)));
    assert!(!at("binlog.000002", 4).is_before(&next("binlog.000002", 4)));
}
