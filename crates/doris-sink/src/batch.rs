//! Rows of one load, collapsed to the last change per key.

use core::hash::{BuildHasher as _, Hasher as _};

use bytes::Bytes;
use hashbrown::HashTable;
use millstream_binlog::ColumnValue;
use rustc_hash::FxBuildHasher;

use crate::encode::{EncodeError, Extent, Op, RowEncoder, RowMeta};
use crate::fields::merged;
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
    deleted: bool,
    /// In [`Batch::shapes`], from 1; 0 is a whole row.
    shape: usize,
}

/// How a row came into a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "whoever pushes rows that lack columns must know which")]
pub enum Pushed {
    /// With all of its columns.
    Whole,
    /// With some, which went onto a row of the batch.
    Onto,
    /// With some: those that its row in the table is to have from now on.
    Alone,
}

/// The rows of one load of one target while they gather.
///
/// In an upsert batch only the row with the greatest sequence number of each key stays alive, so that neither the order
/// of rows inside a load nor Doris' choice among them matters. A row that has some of its columns goes onto the row of its
/// key that is there before it; where none is, it becomes part of a load of just these columns ([`Batch::bodies`]).
#[derive(Debug)]
pub struct Batch {
    mode: Mode,
    buf: Vec<u8>,
    lines: Vec<Line>,
    /// Upsert: the live line of each key, by the key's bytes in `buf`.
    by_key: HashTable<usize>,
    /// Upsert: sets of columns that rows have, where they do not have all.
    shapes: Vec<Box<[usize]>>,
    /// Rows that were not there before may be among those pushed.
    creates: bool,
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
    /// The ordinals of its columns beside the key, if these are not all.
    pub columns: Option<Box<[usize]>>,
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
        Self {
            mode,
            buf: Vec::new(),
            lines: Vec::new(),
            by_key: HashTable::new(),
            shapes: Vec::new(),
            creates: false,
            dead: 0,
            dead_bytes: 0,
        }
    }

    /// Encodes one row into the batch. `encoder` must be of this batch's target. A row may lack columns where
    /// [`RowEncoder::encode_present`] takes it.
    ///
    /// # Errors
    /// As [`RowEncoder::encode_present`]; the batch is then as it was. A change of some columns after the delete of its row.
    pub fn push<'a>(
        &mut self,
        encoder: &mut RowEncoder,
        values: impl IntoIterator<Item = (usize, ColumnValue<'a>), IntoIter: Clone>,
        meta: &RowMeta<'_>,
    ) -> Result<Pushed, EncodeError> {
        self.make_room();
        let values = values.into_iter();
        let start = self.buf.len();
        let (key, extent) = encoder.encode_present(values.clone(), meta, &mut self.buf)?;
        let deleted = meta.op == Op::Delete;
        let mut line = Line {
            start,
            end: self.buf.len(),
            key_start: key.start,
            key_end: key.end,
            seq: meta.seq,
            live: true,
            deleted,
            shape: 0,
        };
        let mut pushed = Pushed::Whole;
        match extent {
            Extent::Whole => self.creates |= matches!(meta.op, Op::Create | Op::Read),
            Extent::Some(columns) => {
                line.shape = self.shape(columns);
                pushed = match self.live_line(&line) {
                    Some(old) if old.deleted => {
                        self.buf.truncate(start);
                        return Err(encoder.deleted(values));
                    }
                    Some(old) => {
                        line = self.put_onto(old, line);
                        Pushed::Onto
                    }
                    None => Pushed::Alone,
                };
            }
        }
        let index = self.lines.len();
        self.lines.push(line);
        if self.mode == Mode::Upsert {
            self.collapse(index, line);
        }
        Ok(pushed)
    }

    /// The number of a set of columns. There are few of them: applications have few kinds of statements.
    fn shape(&mut self, columns: Box<[usize]>) -> usize {
        let found = self.shapes.iter().position(|shape| *shape == columns);
        let index = found.unwrap_or_else(|| {
            self.shapes.push(columns);
            self.shapes.len().saturating_sub(1)
        });
        index.saturating_add(1)
    }

    fn columns_of(&self, shape: usize) -> Option<&[usize]> {
        shape.checked_sub(1).and_then(|i| self.shapes.get(i)).map(|columns| &**columns)
    }

    /// The line of the same key that is alive.
    fn live_line(&self, line: &Line) -> Option<Line> {
        let key_of = |line: &Line| self.buf.get(line.key_start..line.key_end);
        let key = key_of(line)?;
        let same = |other: &usize| self.lines.get(*other).and_then(key_of) == Some(key);
        self.by_key.find(hash(key), same).and_then(|index| self.lines.get(*index)).copied()
    }

    /// Replaces the last line of the buffer, `new`, by `old` with the columns of `new`.
    fn put_onto(&mut self, old: Line, new: Line) -> Line {
        let mut line = Vec::new();
        let text = |line: Line| self.buf.get(line.start..line.end).unwrap_or_default();
        let key_at = merged(text(old), old.key_start.saturating_sub(old.start), text(new), &mut line);
        let shape = match (self.columns_of(old.shape), self.columns_of(new.shape)) {
            (Some(old), Some(new)) => {
                let mut both: Vec<usize> = old.iter().chain(new).copied().collect();
                both.sort_unstable();
                both.dedup();
                self.shape(both.into())
            }
            _ => 0,
        };
        self.buf.truncate(new.start);
        self.buf.extend_from_slice(&line);
        let key_start = new.start.saturating_add(key_at);
        let key_end = key_start.saturating_add(old.key_end.saturating_sub(old.key_start));
        Line { end: self.buf.len(), key_start, key_end, shape, ..new }
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

    /// Whether rows that were not there before may be among those pushed.
    #[must_use]
    pub const fn creates(&self) -> bool {
        self.creates
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

    /// Squeezes out what a later row replaced and gives the bytes away: the rows that have all of their columns, then those
    /// that have some, a load for each set of columns. Each key is in one of them. Empty for an empty batch: an empty load must
    /// never be sent.
    #[must_use]
    pub fn bodies(mut self) -> Vec<Body> {
        let shapes = core::mem::take(&mut self.shapes);
        let mut bodies = Vec::with_capacity(shapes.len());
        for (index, columns) in shapes.into_iter().enumerate() {
            let shape = index.saturating_add(1);
            let mut bytes = Vec::new();
            for line in self.lines.iter().filter(|line| line.live && line.shape == shape) {
                bytes.extend_from_slice(self.buf.get(line.start..line.end).unwrap_or_default());
            }
            if let Some((rows, seq_range)) = self.extent(shape) {
                bodies.push(Body { bytes: Bytes::from(bytes), rows, seq_range, columns: Some(columns) });
            }
        }
        let first = self.seal();
        first.into_iter().chain(bodies).collect()
    }

    /// Live rows of a shape, and their least and greatest sequence numbers.
    fn extent(&self, shape: usize) -> Option<(u64, (i64, i64))> {
        let live = || self.lines.iter().filter(|line| line.live && line.shape == shape);
        let range = (live().map(|line| line.seq).min()?, live().map(|line| line.seq).max()?);
        Some((u64::try_from(live().count()).unwrap_or(u64::MAX), range))
    }

    /// [`bodies`](Self::bodies) of rows that all have all of their columns.
    #[must_use]
    pub fn seal(mut self) -> Option<Body> {
        let (rows, seq_range) = self.extent(0)?;
        if rows != u64::try_from(self.lines.len()).unwrap_or(u64::MAX) {
            let mut to = 0_usize;
            for line in self.lines.iter().filter(|line| line.live && line.shape == 0) {
                // Lines lie in order, so the target is never after the source.
                self.buf.copy_within(line.start..line.end, to);
                to = to.saturating_add(line.end.saturating_sub(line.start));
            }
            self.buf.truncate(to);
        }
        Some(Body { bytes: Bytes::from(self.buf), rows, seq_range, columns: None })
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

    fn push_some(
        batch: &mut Batch,
        encoder: &mut RowEncoder,
        values: &[(usize, i64)],
        seq: i64,
        op: Op,
    ) -> Result<Pushed, EncodeError> {
        let values = values.iter().map(|(i, n)| (*i, ColumnValue::Int(*n)));
        let meta = RowMeta { seq, op, gtid: None, file: "b.1", pos: 4, row: 0, ts_micros: None };
        batch.push(encoder, values, &meta)
    }

    /// The key is not the first column, and no column but `d` may be NULL.
    fn wide() -> (RowEncoder, TargetTable) {
        let column = |name: &str, nullable| Column {
            name: name.into(),
            ty: ColumnType::Int { unsigned: false },
            nullable,
            charset: Charset::Binary,
            collation: 0,
        };
        let schema = TableSchema {
            database: "d".into(),
            table: "t".into(),
            columns: vec![column("a", false), column("k", false), column("b\"", false), column("d", true)],
            key: vec![1],
        };
        let target = TargetTable::plan(&schema, "d", "t", Mode::Upsert).unwrap();
        (RowEncoder::new(&schema, &target, &EncodeOptions::default()), target)
    }

    /// Conformance: E7
    #[test]
    fn rows_with_some_columns_go_onto_theirs_or_into_loads_of_their_own() {
        let (mut encoder, target) = wide();
        let mut batch = Batch::new(Mode::Upsert);
        let mut push = |values: &[(usize, i64)], seq, op| push_some(&mut batch, &mut encoder, values, seq, op);
        assert_eq!(push(&[(0, 1), (1, 10), (2, 2), (3, 3)], 1, Op::Create).unwrap(), Pushed::Whole);
        assert_eq!(push(&[(1, 10), (2, 20)], 2, Op::Update).unwrap(), Pushed::Onto);
        assert_eq!(push(&[(1, 11), (3, 5)], 3, Op::Update).unwrap(), Pushed::Alone);
        assert_eq!(push(&[(1, 12), (3, 6)], 4, Op::Update).unwrap(), Pushed::Alone);
        assert_eq!(push(&[(1, 12), (0, 7)], 5, Op::Update).unwrap(), Pushed::Onto);
        assert_eq!(push(&[(1, 12), (0, 8), (3, 9)], 6, Op::Update).unwrap(), Pushed::Onto);
        assert_eq!(push(&[(1, 13)], 7, Op::Delete).unwrap(), Pushed::Whole);
        assert!(push(&[(1, 13), (0, 1)], 8, Op::Update).unwrap_err().to_string().contains("after it was deleted"));
        assert_eq!(push(&[(1, 14), (0, 1)], 9, Op::Update).unwrap(), Pushed::Alone);
        assert_eq!(push(&[(1, 14)], 10, Op::Delete).unwrap(), Pushed::Whole);
        assert!(push(&[(0, 1)], 11, Op::Update).unwrap_err().to_string().contains("lacks the column"));
        assert!(batch.creates());
        assert_eq!((batch.rows(), batch.live_rows()), (9, 5));
        let bodies = batch.bodies();
        let found: Vec<_> = bodies
            .iter()
            .map(|b| (rows(b), b.columns.as_deref().map(|c| target.some_columns_header(c)), b.seq_range))
            .collect();
        let (sign, sequence) = ("__DORIS_DELETE_SIGN__", "__DORIS_SEQUENCE_COL__");
        let hidden = format!("`{sign}`,`{sequence}`");
        assert_eq!(
            found,
            [
                (
                    vec![
                        serde_json::json!({"a": 1, "k": 10, "b\"": 20, "d": 3, sign: 0, sequence: 2}),
                        serde_json::json!({"k": 13, "a": 0, "b\"": 0, "d": null, sign: 1, sequence: 7}),
                        serde_json::json!({"k": 14, "a": 0, "b\"": 0, "d": null, sign: 1, sequence: 10}),
                    ],
                    None,
                    (2, 10)
                ),
                (
                    vec![serde_json::json!({"k": 11, "d": 5, sign: 0, sequence: 3})],
                    Some(format!("`k`,`d`,{hidden}")),
                    (3, 3)
                ),
                (
                    vec![serde_json::json!({"k": 12, "a": 8, "d": 9, sign: 0, sequence: 6})],
                    Some(format!("`k`,`a`,`d`,{hidden}")),
                    (6, 6)
                ),
            ]
        );
        assert_eq!(bodies.iter().map(|b| b.rows).collect::<Vec<_>>(), [3, 1, 1]);
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
