//! What a row change costs in allocations from its packet to its verdict: nothing, unless it is held.

use std::cell::Cell;

use allocation_counter::measure;
use millstream_binlog::event::EventBody;
use millstream_binlog::{Charset, Column, ColumnType, DecoderOptions, EventDecoder, Gtid, RowChange, TableSchema};

use super::*;
use crate::key::KeyCodec;

const ROWS: u32 = 10_000;
const UUID: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

fn gtid(n: u64) -> TxnId {
    format!("{UUID}:{n}").parse::<Gtid>().unwrap().into()
}

fn at(offset: u64) -> Position {
    Position::new("b.000001", offset)
}

fn column(name: &str, ty: ColumnType, charset: Charset, collation: u16) -> Column {
    Column { name: name.into(), ty, nullable: false, charset, collation }
}

/// Keys of every kind of part, in a table with a column before and behind.
fn schema() -> TableSchema {
    let binary = |name, ty| column(name, ty, Charset::Binary, 63);
    let columns = vec![
        binary("price", ColumnType::Decimal { precision: 10, scale: 2 }),
        binary("id", ColumnType::Int { unsigned: false }),
        column("region", ColumnType::VarChar { max_bytes: 80 }, Charset::Utf8mb4, 309),
        column("code", ColumnType::Char { max_bytes: 40 }, Charset::Latin1, 47),
        binary("made", ColumnType::DateTime { fsp: 0 }),
        binary("hash", ColumnType::VarBinary { max_bytes: 16 }),
        binary("note", ColumnType::Blob { length_bytes: 2 }),
    ];
    TableSchema { database: "shop".into(), table: "orders".into(), columns, key: vec![1, 2, 3, 4, 5, 0] }
}

/// A WRITE_ROWS event with rows of ascending ids.
fn event() -> Vec<u8> {
    let mut raw = vec![0; 19];
    raw[4] = 30;
    raw.extend_from_slice(&[1, 0, 0, 0, 0, 0, 1, 0, 2, 0, 7, 0x7f]);
    for id in 0..ROWS {
        raw.extend_from_slice(&[0, 0x80, 0, 1, 2, 50]);
        raw.extend_from_slice(&id.to_le_bytes());
        raw.extend_from_slice(b"\x05north\x03abc");
        // 2025-01-02 03:04:05
        raw.extend_from_slice(&[0x99, 0xb5, 0x84, 0x31, 0x05]);
        raw.extend_from_slice(b"\x04\0\x01\0\xff\x03\0abc");
    }
    let length = u32::try_from(raw.len()).unwrap();
    raw[9..13].copy_from_slice(&length.to_le_bytes());
    raw
}

#[test]
fn keys_and_verdicts_take_no_allocation() {
    let (schema, raw) = (schema(), event());
    let codec = KeyCodec::new(&schema, &crate::key::Collations::default()).unwrap();
    let mut decoder = EventDecoder::new(DecoderOptions::default());
    let EventBody::Rows(rows) = decoder.decode(&raw).unwrap().body else { panic!() };
    let keys: Vec<Key> = rows
        .rows(&schema)
        .map(|change| {
            let RowChange::Insert(row) = change.unwrap() else { panic!() };
            let mut key = Vec::new();
            codec.encode(|i| row.value(i), |_, _| None, &mut key).unwrap();
            key.into()
        })
        .collect();
    assert!(keys.is_sorted() && keys.len() == 10_000);

    // A range for every hundred keys: Done, Unread and Reading in turn. Every chunk's LW holds one transaction.
    let table = TableId(1);
    let bound = |n: usize| keys.get(n.wrapping_mul(100).wrapping_sub(1)).cloned();
    let range = |n: usize| KeyRange { lo: bound(n), hi: bound(n + 1) };
    let done: Vec<KeyRange> = (0..100).step_by(3).map(range).collect();
    let judged = Passed::Gtids(format!("{UUID}:1").parse().unwrap());
    let mut merge: Merge<()> = Merge::new(judged, None, Rules::default());
    merge.add_table(table, &done, false, None);
    merge.advance(at(4));
    for n in (2..100).step_by(3) {
        assert!(merge.cut(table, &bound(n).unwrap()));
        let chunk = merge.open(table, range(n)).unwrap().chunk;
        assert!(merge.fence(chunk, Passed::Gtids(format!("{UUID}:1-2").parse().unwrap())));
    }

    let mut key = Vec::with_capacity(200);
    let counts = Cell::new([0; 4]);
    let mut pass = |merge: &mut Merge<()>, transaction: TxnId, kind: ChangeKind| {
        let mut seen = [0; 4];
        let used = measure(|| {
            merge.begin(transaction);
            let EventBody::Rows(rows) = decoder.decode(&raw).unwrap().body else { panic!() };
            for (change, ordinal) in rows.rows(&schema).zip(0..) {
                let RowChange::Insert(row) = change.unwrap() else { panic!() };
                key.clear();
                codec.encode(|i| row.value(i), |_, _| None, &mut key).unwrap();
                let verdict = merge.change(table, &key, ordinal, kind, || ((), 8));
                let slot = match verdict {
                    Verdict::Emit => 0,
                    Verdict::Drop(DropRule::Unread) => 1,
                    Verdict::Drop(DropRule::InLowWatermark) => 2,
                    Verdict::Drop(_) => 3,
                };
                seen[slot] += 1;
            }
        });
        counts.set(seen);
        used.count_total
    };
    // Emitted, not read yet, or seen by the chunk's SELECT.
    assert_eq!(pass(&mut merge, gtid(2), ChangeKind::Put), 0);
    assert_eq!(counts.get(), [3_400, 3_300, 3_300, 0]);
    merge.commit(at(10));
    // Held changes are kept: a key, and its share of the map.
    let held = pass(&mut merge, gtid(3), ChangeKind::Put);
    merge.commit(at(20));
    assert!((3_000..6_000).contains(&held), "{held} allocations");
    let again = pass(&mut merge, gtid(4), ChangeKind::Put);
    assert!(again <= 4_000, "{again} allocations for keys that are held already");
    assert_eq!(counts.get(), [3_400, 3_300, 0, 3_300]);
}
