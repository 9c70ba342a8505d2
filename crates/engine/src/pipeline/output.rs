//! Targets: rows become bytes of loads here, and loads are cut here.

use bytes::Bytes;
use millstream_binlog::{ColumnValue, TableSchema};
use millstream_doris_sink::jsonl::EventEncoder;
use millstream_doris_sink::{Batch, Format, Label, Op, Pushed, RowEncoder, RowMeta, TargetTable};

use super::error::RunError;
use super::pace::Pace;
use crate::config::OnPoison;
use crate::delivery::{Coordinate, Delivery, LoadEnd, LoadId, Sealed, TableMode, TargetNo, TargetState};
use crate::merge::{KeyRange, TableId};

/// Bits of a sequence number below the era.
const SEQUENCE_BITS: u32 = 44;

/// Strictly increasing numbers: `era << 44 | n`.
#[derive(Debug)]
pub(super) struct Sequence {
    era: u32,
    n: i64,
}

impl Sequence {
    pub(super) const fn new(era: u32) -> Self {
        Self { era, n: 0 }
    }

    /// The next number. When an era's numbers are used up the run begins again with the next era.
    pub(super) fn next(&mut self) -> Result<i64, RunError> {
        self.n = self.n.saturating_add(1);
        if self.n >= 1 << SEQUENCE_BITS {
            return Err(RunError::away("the sequence numbers of this era are used up: going on with the next era"));
        }
        Ok((i64::from(self.era) << SEQUENCE_BITS) | self.n)
    }
}

/// The least era whose numbers are all above `seq`.
pub(super) fn era_above(seq: i64) -> u32 {
    u32::try_from(seq >> SEQUENCE_BITS).unwrap_or(u32::MAX).saturating_add(1)
}

/// The sink's name of a mode.
pub(super) const fn sink_mode(mode: TableMode) -> millstream_doris_sink::Mode {
    match mode {
        TableMode::Upsert => millstream_doris_sink::Mode::Upsert,
        TableMode::Append => millstream_doris_sink::Mode::Append,
    }
}

/// A load on its way to the sink.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) id: LoadId,
    /// Index of the target.
    pub(super) target: usize,
    pub(super) label: Label,
    /// The `columns` header, if it is not the target's own: the load has these columns alone.
    pub(super) columns: Option<String>,
    pub(super) body: Bytes,
    pub(super) rows: u64,
}

/// A target's own part.
pub(super) enum Writer {
    /// Lines of JSON for Stream Load.
    Doris { encoder: Box<RowEncoder>, batch: Batch, plan: Box<TargetTable> },
    /// Change events, all tables in one buffer ([`Outputs::lines`]).
    Jsonl { encoder: Box<EventEncoder> },
}

/// A source table without its excluded columns, as targets know it.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) schema: TableSchema,
    /// By source ordinal; `None`: nothing is excluded and ordinals are the same.
    ordinals: Option<Box<[Option<usize>]>>,
}

impl Shown {
    /// `excluded` are ordinals in ascending order, none of them of the key.
    pub(super) fn new(schema: &TableSchema, excluded: &[usize]) -> Self {
        if excluded.is_empty() {
            return Self { schema: schema.clone(), ordinals: None };
        }
        let mut next = 0..;
        let shown = |i: &usize| excluded.binary_search(i).is_err();
        let ordinals: Box<[Option<usize>]> =
            (0..schema.columns.len()).map(|i| if shown(&i) { next.next() } else { None }).collect();
        let columns = schema.columns.iter().enumerate().filter(|(i, _)| shown(i)).map(|(_, c)| c.clone()).collect();
        let key = schema.key.iter().filter_map(|i| *ordinals.get(*i)?).collect();
        Self { schema: TableSchema { columns, key, ..schema.clone() }, ordinals: Some(ordinals) }
    }
}

/// The values of a row without those of excluded columns.
#[derive(Clone)]
struct ShownValues<'s, R> {
    row: R,
    ordinals: Option<&'s [Option<usize>]>,
}

impl<'a, R: Iterator<Item = (usize, ColumnValue<'a>)>> Iterator for ShownValues<'_, R> {
    type Item = (usize, ColumnValue<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let Some(ordinals) = self.ordinals else { return self.row.next() };
        self.row.find_map(|(ordinal, value)| Some(((*ordinals.get(ordinal)?)?, value)))
    }
}

/// One target table.
pub(super) struct Target {
    pub(super) no: TargetNo,
    pub(super) mode: TableMode,
    pub(super) database: String,
    pub(super) table: String,
    /// How its rows are written.
    pub(super) format: Format,
    /// The `columns` header of its loads.
    pub(super) columns: String,
    /// Index of the source table.
    pub(super) source: usize,
    /// The merge's table it follows.
    pub(super) group: TableId,
    pub(super) writer: Writer,
    pub(super) shown: Shown,
    /// Its state in the last closed epoch.
    pub(super) last: TargetState,
    /// Its ranges or its place may differ from `last`.
    pub(super) dirty: bool,
    /// The filling epoch has a load of it.
    pub(super) loaded: bool,
    /// How often and how largely it is loaded.
    pub(super) pace: Pace,
    /// It waits for a later epoch: the one that closes now goes without it.
    pub(super) held: bool,
    /// Nothing is written to it any more.
    pub(super) out: bool,
    /// Rows that have some of their columns come, or may come: its epochs close before a second load is needed, so that such
    /// rows find the rows that they change.
    pub(super) patched: bool,
    /// A load of the filling epoch may have rows that were not there before.
    pub(super) created: bool,
}

impl Target {
    /// Nothing is written to it from now on, and what waits in its batch is forgotten.
    fn leave(&mut self) {
        self.out = true;
        self.dirty = false;
        self.loaded = false;
        if let Writer::Doris { batch, .. } = &mut self.writer {
            *batch = Batch::new(sink_mode(self.mode));
        }
    }

    /// A row that is changed in part comes behind a load of the same epoch that may have brought it: Doris would not find it.
    #[cold]
    fn unfindable(&self) -> RunError {
        let name = format!("{}.{}", self.database, self.table);
        if self.patched {
            return RunError::stopped(format!(
                "{name}: one transaction inserts rows and changes rows in part (binlog_row_image is not FULL), and is larger than \
                 a load: raise sink.flush.bytes and memory, or set binlog_row_image = FULL for every session and begin with a \
                 new state"
            ));
        }
        // From the next attempt on its epochs are cut for this.
        RunError::away(format!(
            "{name}: rows are logged in part (binlog_row_image is not FULL): cutting its loads for that"
        ))
    }
}

/// All targets of a run.
pub(super) struct Outputs {
    pub(super) pipeline: u64,
    pub(super) era: u32,
    pub(super) targets: Vec<Target>,
    pub(super) sequence: Sequence,
    /// A batch of this size becomes a load.
    pub(super) flush_bytes: usize,
    /// What becomes of a target that cannot be written to.
    pub(super) on_poison: OnPoison,
    /// Targets that could not be written to and are to be left out, each with the reason.
    pub(super) poisoned: Vec<(usize, String)>,
    /// The target that the next epoch takes first, where there are too many.
    pub(super) turn: usize,
    /// Loads that were cut and not taken by the driver yet.
    pub(super) uploads: Vec<Upload>,
    /// jsonl: lines that were not written yet.
    pub(super) lines: Vec<u8>,
    /// Something was emitted since the last closed epoch.
    pub(super) emitted: bool,
    /// The epoch is to be closed at the next transaction boundary.
    pub(super) close_soon: bool,
    pub(super) rows_sent: u64,
    pub(super) rows_collapsed: u64,
}

impl Outputs {
    /// Writes one change to one target.
    pub(super) fn emit<'a, R>(
        &mut self,
        target: usize,
        meta: &RowMeta<'_>,
        before: Option<R>,
        after: Option<R>,
    ) -> Result<(), RunError>
    where
        R: Iterator<Item = (usize, ColumnValue<'a>)> + Clone,
    {
        let Some(t) = self.targets.get_mut(target).filter(|t| !t.out) else { return Ok(()) };
        self.emitted = true;
        let ordinals = t.shown.ordinals.as_deref();
        let [before, after] = [before, after].map(|row| row.map(|row| ShownValues { row, ordinals }));
        match &mut t.writer {
            Writer::Doris { encoder, batch, .. } => {
                let pushed = match (meta.op, before, after) {
                    (Op::Delete, Some(image), _) => batch.push(encoder, image, meta),
                    (_, _, Some(image)) => batch.push(encoder, image, meta),
                    _ => return Ok(()),
                };
                match pushed {
                    Ok(Pushed::Alone) if t.created => Err(t.unfindable()),
                    Ok(pushed) => {
                        t.patched |= pushed != Pushed::Whole;
                        // Half of it is left for the transaction that is open.
                        self.close_soon |= t.patched && batch.bytes() >= t.pace.limit(self.flush_bytes) / 2;
                        Ok(())
                    }
                    // The other targets of its source cannot have the row either.
                    Err(e) if self.targets.iter().any(|t| !t.out && Some(t.source) != self.source_of(target)) => {
                        self.poison(target, e.to_string())
                    }
                    Err(e) => Err(RunError::stopped(e.to_string())),
                }
            }
            Writer::Jsonl { encoder } => {
                encoder.encode(before, after, meta, &mut self.lines).map_err(|e| RunError::stopped(e.to_string()))
            }
        }
    }

    fn source_of(&self, target: usize) -> Option<usize> {
        self.targets.get(target).map(|t| t.source)
    }

    /// A target cannot be written to: marks it as one to be left out, unless the run is to stop for it.
    pub(super) fn poison(&mut self, target: usize, reason: String) -> Result<(), RunError> {
        let others = self.targets.iter().enumerate().any(|(i, t)| i != target && !t.out);
        if self.on_poison == OnPoison::Stop || !others {
            return Err(RunError::stopped(reason));
        }
        if let Some(t) = self.targets.get_mut(target) {
            t.leave();
            self.poisoned.push((target, reason));
        }
        Ok(())
    }

    /// The size at which a target's batch becomes a load.
    pub(super) fn load_limit(&self, target: usize) -> usize {
        self.targets.get(target).map_or(self.flush_bytes, |t| t.pace.limit(self.flush_bytes))
    }

    /// Rows may come that have some of their columns.
    pub(super) fn expect_parts(&mut self) {
        for target in &mut self.targets {
            target.patched = target.mode == TableMode::Upsert;
        }
    }

    /// Bytes in a target's batch.
    pub(super) fn batch_bytes(&self, target: usize) -> usize {
        match self.targets.get(target).map(|t| &t.writer) {
            Some(Writer::Doris { batch, .. }) => batch.bytes(),
            _ => 0,
        }
    }

    /// Memory in all batches and in what was cut and not taken.
    pub(super) fn memory(&self) -> usize {
        let batches = self.targets.iter().fold(0usize, |sum, t| match &t.writer {
            Writer::Doris { batch, .. } => sum.saturating_add(batch.memory()),
            Writer::Jsonl { .. } => sum,
        });
        self.uploads.iter().fold(batches.saturating_add(self.lines.len()), |sum, u| sum.saturating_add(u.body.len()))
    }

    /// The target with the largest batch.
    pub(super) fn largest(&self) -> Option<usize> {
        (0..self.targets.len()).max_by_key(|i| self.batch_bytes(*i)).filter(|i| self.batch_bytes(*i) > 0)
    }

    /// Cuts a load from a target's batch. `end` is where the target stands after everything emitted so far.
    pub(super) fn seal(
        &mut self,
        target: usize,
        delivery: &mut Delivery,
        coordinate: Coordinate,
        done: Vec<KeyRange>,
    ) -> Result<(), RunError> {
        let Some(t) = self.targets.get_mut(target).filter(|t| !t.out) else { return Ok(()) };
        let Writer::Doris { batch, plan, .. } = &mut t.writer else { return Ok(()) };
        let full = core::mem::replace(batch, Batch::new(sink_mode(t.mode)));
        let pushed = u64::try_from(full.rows()).unwrap_or(u64::MAX);
        t.created |= full.creates();
        let bodies = full.bodies();
        let last = bodies.len().saturating_sub(1);
        let end = LoadEnd { coordinate, done };
        let mut kept = 0_u64;
        for (index, body) in bodies.into_iter().enumerate() {
            let id = delivery.next_load(t.no).ok_or_else(|| {
                RunError::stopped(format!(
                    "{}.{} needs more than 65,536 loads in one epoch: raise sink.flush.bytes and memory",
                    t.database, t.table
                ))
            })?;
            let label = Label::new(self.pipeline, t.no.0, self.era, id.epoch, id.part)
                .map_err(|e| RunError::stopped(e.to_string()))?;
            let sealed =
                Sealed { mode: t.mode, seq: body.seq_range, rows: body.rows, end: end.clone(), more: index < last };
            delivery.seal(id, label.to_string(), sealed);
            t.loaded = true;
            kept = kept.saturating_add(body.rows);
            let columns = body.columns.map(|columns| plan.some_columns_header(&columns));
            self.uploads.push(Upload { id, target, label, columns, body: body.bytes, rows: body.rows });
        }
        self.rows_sent = self.rows_sent.saturating_add(kept);
        self.rows_collapsed = self.rows_collapsed.saturating_add(pushed.saturating_sub(kept));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_of_a_later_era_are_greater() {
        let (mut old, mut new) = (Sequence::new(3), Sequence::new(4));
        let last = (0..1000).map(|_| old.next().unwrap()).last().unwrap();
        let first = new.next().unwrap();
        assert!(last < first);
        assert_eq!(era_above(last), 4);
        assert_eq!(era_above(first), 5);
        assert_eq!(era_above(0), 1);
    }

    #[test]
    fn excluded_columns_are_not_shown() {
        use millstream_binlog::{Charset, Column, ColumnType};
        let column = |name: &str| Column {
            name: name.to_owned(),
            ty: ColumnType::Int { unsigned: false },
            nullable: true,
            charset: Charset::Binary,
            collation: 63,
        };
        let columns = ["a", "b", "c", "d"].map(column).to_vec();
        let schema = TableSchema { database: "d".to_owned(), table: "t".to_owned(), columns, key: vec![3, 1] };
        let row = [0, 1, 2, 3].map(|i| (i, ColumnValue::Int(10))).into_iter();
        for (excluded, names, key, ordinals) in [
            (&[][..], "abcd", [3, 1], &[0, 1, 2, 3][..]),
            (&[0], "bcd", [2, 0], &[0, 1, 2]),
            (&[0, 2], "bd", [1, 0], &[0, 1]),
        ] {
            let shown = Shown::new(&schema, excluded);
            assert_eq!(shown.schema.columns.iter().map(|c| c.name.as_str()).collect::<String>(), names);
            assert_eq!(shown.schema.key, key);
            let values = ShownValues { row: row.clone(), ordinals: shown.ordinals.as_deref() };
            assert_eq!(values.map(|(i, _)| i).collect::<Vec<_>>(), ordinals);
        }
    }

    #[test]
    fn an_era_ends_instead_of_running_into_the_next() {
        let mut s = Sequence { era: 1, n: (1 << SEQUENCE_BITS) - 2 };
        assert_eq!(s.next().unwrap(), (1 << 45) - 1);
        assert!(s.next().is_err());
    }
}
