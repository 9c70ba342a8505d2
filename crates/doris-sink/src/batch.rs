//! Rows of one load, collapsed to the last change per key.

use core::hash::{BuildHasher as _, Hasher as _};

use bytes::Bytes;
use hashbrown::HashTable;
use millstream_binlog::ColumnValue;
use rustc_hash::FxBuildHasher;

use crate::encode::{EncodeError, RowEncoder, RowMeta};
use crate::table::Mode;

/// Room for an ordinary row, in bytes.
const ROOM: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Line {
    start: usize,
    end: usize,
    key_start: usize,
    key_end: usize,
    seq: i64,
    live: bool,
}

/// The rows of one load of one target while they gather.
///
/// In an upsert batch only the row with the greatest sequence number of each key stays alive, so that neither the order
/// of rows inside a load nor Doris' choice among them matters.
#[derive(Debug)]
pub struct Batch {
    mode: Mode,
    buf: Vec<u8>,
    lines: Vec<Line>,
    /// Upsert: the live line of each key, by the key's bytes in `buf`.
    by_key: HashTable<usize>,
    dead: usize,
    dead_bytes: usize,
}

/// A batch that is ready to be sent, the same bytes on every try.
#[derive(Clone, Debug)]
pub struct Body {
    /// The lines.
    pub bytes: Bytes,
    /// How many rows they are; never 0.
    pub rows: u64,
    /// Least and greatest sequence number among them.
    pub seq_range: (i64, i64),
}

fn hash(key: &[u8]) -> u64 {
    let mut hasher = FxBuildHasher.build_hasher();
    hasher.write(key);
    hasher.finish()
}

impl Batch {
    /// An empty batch for a target of this mode.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self { mode, buf: Vec::new(), lines: Vec::new(), by_key: HashTable::new(), dead: 0, dead_bytes: 0 }
    }

    /// Encodes one row into the batch. `encoder` must be of this batch's target.
    ///
    /// # Errors
    /// As [`RowEncoder::encode`]; the batch is then as it was.
    pub fn push<'a>(
        &mut self,
        encoder: &mut RowEncoder,
        values: impl IntoIterator<Item = (usize, ColumnValue<'a>), IntoIter: Clone>,
        meta: &RowMeta<'_>,
    ) -> Result<(), EncodeError> {
        self.make_room();
        let start = self.buf.len();
        let key = encoder.encode(values, meta, &mut self.buf)?;
        let line =
            Line { start, end: self.buf.len(), key_start: key.start, key_end: key.end, seq: meta.seq, live: true };
        let index = self.lines.len();
        self.lines.push(line);
        if self.mode == Mode::Upsert {
            self.collapse(index, line);
        }
        Ok(())
    }

    /// Grows by a quarter before a vector would double itself: a full buffer is then held until its load is durable, and
    /// what it holds counts against the memory budget.
    fn make_room(&mut self) {
        let spare = self.buf.capacity().saturating_sub(self.buf.len());
        if spare < ROOM {
            self.buf.reserve_exact((self.buf.len() / 4).max(ROOM.saturating_mul(4)));
        }
    }

    /// Makes `line` (at `index`) or the line of the same key that is there already the only one alive.
    fn collapse(&mut self, index: usize, line: Line) {
        let Self { buf, lines, by_key, .. } = self;
        let key_of = |index: usize| {
            let line = lines.get(index)?;
            buf.get(line.key_start..line.key_end)
        };
        let key = buf.get(line.key_start..line.key_end).unwrap_or_default();
        let same = |other: &usize| key_of(*other) == Some(key);
        let rehash = |other: &usize| hash(key_of(*other).unwrap_or_default());
        let loser = match by_key.entry(hash(key), same, rehash) {
            hashbrown::hash_table::Entry::Vacant(place) => {
                place.insert(index);
                return;
            }
            hashbrown::hash_table::Entry::Occupied(mut place) => {
                let old = *place.get();
                // A row that came later but is older (never the case in one stream) loses.
                if lines.get(old).is_some_and(|old| old.seq > line.seq) {
                    index
                } else {
                    *place.get_mut() = index;
                    old
                }
            }
        };
        if let Some(loser) = lines.get_mut(loser) {
            loser.live = false;
            self.dead = self.dead.saturating_add(1);
            self.dead_bytes = self.dead_bytes.saturating_add(loser.end.saturating_sub(loser.start));
        }
    }

    /// Rows pushed, dead ones included.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.lines.len()
    }

    /// Rows that will be sent.
    #[must_use]
    pub const fn live_rows(&self) -> usize {
        self.lines.len().saturating_sub(self.dead)
    }

    /// Bytes that will be sent.
    #[must_use]
    pub const fn live_bytes(&self) -> usize {
        self.buf.len().saturating_sub(self.dead_bytes)
    }

    /// Bytes written, dead rows included: what a flush by size goes by.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.buf.len()
    }

    /// Memory held, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        let lines = self.lines.capacity().saturating_mul(size_of::<Line>());
        let keys = self.by_key.capacity().saturating_mul(size_of::<usize>().saturating_add(1));
        self.buf.capacity().saturating_add(lines).saturating_add(keys)
    }

    /// Whether nothing was pushed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Sequence numbers of the first and the last row pushed.
    #[must_use]
    pub fn seq_range(&self) -> Option<(i64, i64)> {
        Some((self.lines.first()?.seq, self.lines.last()?.seq))
    }

    /// Squeezes out what a later row replaced and gives the bytes away. `None` for an empty batch: an empty load must
    /// never be sent.
    #[must_use]
    pub fn seal(mut self) -> Option<Body> {
        let live = || self.lines.iter().filter(|line| line.live);
        let low = live().map(|line| line.seq).min()?;
        let high = live().map(|line| line.seq).max()?;
        let rows = u64::try_from(self.live_rows()).unwrap_or(u64::MAX);
        if self.dead > 0 {
            let mut to = 0_usize;
            for line in self.lines.iter().filter(|line| line.live) {
                // Lines lie in order, so the target is never after the source.
                self.buf.copy_within(line.start..line.end, to);
                to = to.saturating_add(line.end.saturating_sub(line.start));
            }
            self.buf.truncate(to);
        }
        Some(Body { bytes: Bytes::from(self.buf), rows, seq_range: (low, high) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::{EncodeOptions, Op};
    use crate::table::TargetTable;
    use millstream_binlog::{Charset, Column, ColumnType, TableSchema};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn encoder(mode: Mode) -> RowEncoder {
        let column =
            |name: &str, ty| Column { name: name.into(), ty, nullable: false, charset: Charset::Utf8mb4, collation: 0 };
        let schema = TableSchema {
            database: "d".into(),
            table: "t".into(),
            columns: vec![
                column("k", ColumnType::VarChar { max_bytes: 400 }),
                column("v", ColumnType::Int { unsigned: false }),
            ],
            key: vec![0],
        };
        RowEncoder::new(&schema, &TargetTable::plan(&schema, "d", "t", mode).unwrap(), &EncodeOptions::default())
    }

    fn push(batch: &mut Batch, encoder: &mut RowEncoder, key: &str, value: i64, seq: i64, op: Op) {
        let row = [ColumnValue::Text { bytes: key.as_bytes(), charset: Charset::Utf8mb4 }, ColumnValue::Int(value)];
        let meta = RowMeta { seq, op, gtid: None, file: "b.1", pos: 4, row: 0, ts_micros: None };
        batch.push(encoder, row.into_iter().enumerate(), &meta).unwrap();
    }

    fn rows(body: &Body) -> Vec<serde_json::Value> {
        let text = str::from_utf8(&body.bytes).unwrap();
        assert!(text.ends_with('\n'));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn the_last_change_of_a_key_stays() {
        let mut encoder = encoder(Mode::Upsert);
        let mut batch = Batch::new(Mode::Upsert);
        for (key, value, seq, op) in [
            ("a", 1, 10, Op::Create),
            ("b", 2, 11, Op::Create),
            ("a", 3, 12, Op::Update),
            ("b", 2, 13, Op::Delete),
            ("A", 5, 14, Op::Create),
        ] {
            push(&mut batch, &mut encoder, key, value, seq, op);
        }
        assert_eq!((batch.rows(), batch.live_rows(), batch.seq_range()), (5, 3, Some((10, 14))));
        assert!(batch.live_bytes() < batch.bytes() && batch.memory() >= batch.bytes());
        let live_bytes = batch.live_bytes();
        let body = batch.seal().unwrap();
        assert_eq!((body.rows, body.seq_range, body.bytes.len()), (3, (12, 14), live_bytes));
        let rows = rows(&body);
        assert_eq!(rows[0]["k"], "a");
        assert_eq!(rows[0]["v"], 3);
        assert_eq!(rows[1]["k"], "b");
        assert_eq!(rows[1]["__DORIS_DELETE_SIGN__"], 1);
        assert_eq!(rows[2]["k"], "A");
    }

    #[test]
    fn the_buffer_is_at_most_a_quarter_larger_than_its_rows() {
        let mut encoder = encoder(Mode::Append);
        let mut batch = Batch::new(Mode::Append);
        for seq in 0..40_000 {
            push(&mut batch, &mut encoder, "some text of a row", 1, seq, Op::Create);
            let bytes = batch.bytes();
            assert!(batch.buf.capacity() <= bytes.saturating_add(bytes / 3).saturating_add(20_000), "{bytes}");
        }
        assert!(batch.bytes() > 4_000_000);
    }

    #[test]
    fn append_keeps_every_row_and_an_empty_batch_is_nothing() {
        let mut encoder = encoder(Mode::Append);
        let mut batch = Batch::new(Mode::Append);
        assert!(batch.is_empty());
        assert!(Batch::new(Mode::Upsert).seal().is_none());
        for seq in 0..5 {
            push(&mut batch, &mut encoder, "a", 1, seq, Op::Update);
        }
        let body = batch.seal().unwrap();
        assert_eq!((body.rows, body.seq_range, rows(&body).len()), (5, (0, 4), 5));
    }

    proptest! {
        #[test]
        fn the_batch_equals_a_map(changes in prop::collection::vec(("[ab\"\\\\é]{0,3}", any::<i16>(), any::<bool>(), 0_i64..1000), 1..200)) {
            let mut encoder = encoder(Mode::Upsert);
            let mut batch = Batch::new(Mode::Upsert);
            let mut expected = BTreeMap::new();
            for (i, (key, value, delete, jitter)) in changes.iter().enumerate() {
                // Unique, but not in order.
                let seq = jitter.saturating_mul(1000).saturating_add(i64::try_from(i).unwrap());
                push(&mut batch, &mut encoder, key, i64::from(*value), seq, if *delete { Op::Delete } else { Op::Update });
                let entry = expected.entry(key.clone()).or_insert((seq, *value, *delete));
                if entry.0 <= seq {
                    *entry = (seq, *value, *delete);
                }
            }
            prop_assert_eq!(batch.live_rows(), expected.len());
            let body = batch.seal().unwrap();
            let found: BTreeMap<_, _> = rows(&body)
                .into_iter()
                .map(|row| {
                    let number = |name: &str| row[name].as_i64().unwrap();
                    let value = i16::try_from(number("v")).unwrap();
                    (row["k"].as_str().unwrap().to_owned(), (number("__DORIS_SEQUENCE_COL__"), value, number("__DORIS_DELETE_SIGN__") == 1))
                })
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}
