//! Chunks enter, loads are cut, epochs are closed: what belongs between transactions.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_binlog::{ColumnValue, TableSchema};
use millstream_doris_sink::{Op, RowMeta};

use super::{Core, HeldRow, Mapped};
use crate::delivery::{Coordinate, Extra, Partial, TargetChange, TargetState, XaChange};
use crate::merge::{Entry, TableId};
use crate::pipeline::error::RunError;
use crate::snapshot::values::select_values;

/// Targets of one database that one epoch loads at most. Doris allows a database 1,000 running transactions (2.1), and two
/// epochs are on their way at a time.
const MAX_OPEN_LOADS: usize = 400;

impl Core {
    /// Brings every chunk that is due into the output. Between transactions only.
    pub(in crate::pipeline) fn entries(&mut self) -> Result<u64, RunError> {
        let mut entered = 0u64;
        while let Some(table) = self.merge.entry_due() {
            // A load that was cut inside a chunk would have an end that is nobody's, so cut before it where needed.
            let targets = self.targets_of(table);
            for target in &targets {
                if self.outputs.batch_bytes(*target) > self.outputs.load_limit(*target) / 2 {
                    if self.outputs.targets.get(*target).is_some_and(|t| t.patched) {
                        self.outputs.close_soon = true;
                    } else {
                        self.cut(*target)?;
                    }
                }
            }
            if self.outputs.close_soon {
                break;
            }
            let Some(entry) = self.merge.entry() else { break };
            self.enter(entry, &targets)?;
            entered = entered.saturating_add(1);
            if self.merge.is_live(table)
                && let Some(t) = self.tables.iter().find(|t| t.groups.iter().any(|g| g.id == table))
            {
                tracing::info!(table = format!("{}.{}", t.schema.database, t.schema.table), "table is live");
            }
        }
        if entered > 0 {
            self.refresh_groups();
        }
        Ok(entered)
    }

    pub(super) fn enter(&mut self, entry: Entry<HeldRow>, targets: &[usize]) -> Result<(), RunError> {
        let of_table = self.tables.iter_mut().find(|t| t.groups.iter().any(|g| g.id == entry.table));
        let Some(captured) = of_table else { return Ok(()) };
        let rows = u64::try_from(entry.rows.len()).unwrap_or(u64::MAX);
        captured.snapshot_rows = captured.snapshot_rows.saturating_add(rows);
        let (schema, defaults) = (Arc::clone(&captured.schema), Arc::clone(&captured.defaults));
        self.report.chunks = self.report.chunks.saturating_add(1);
        for (number, (_, row)) in entry.rows.iter().enumerate() {
            let meta = RowMeta {
                seq: self.outputs.sequence.next()?,
                op: Op::Read,
                gtid: None,
                file: &self.at.position().file,
                pos: self.at.position().offset,
                row: u32::try_from(number).unwrap_or(u32::MAX),
                ts_micros: None,
            };
            for target in targets {
                match row {
                    HeldRow::Select(row) => {
                        self.outputs.emit(*target, &meta, None, Some(selected(&schema, row)))?;
                    }
                    HeldRow::Stream(row) => {
                        self.outputs.emit(*target, &meta, None, Some(row.row().values()))?;
                    }
                    row => {
                        let values = row.values(&schema, &defaults);
                        self.outputs.emit(*target, &meta, None, Some(values.iter().copied()))?;
                    }
                }
            }
        }
        self.report.snapshot_rows = self.report.snapshot_rows.saturating_add(rows);
        for target in targets {
            if let Some(t) = self.outputs.targets.get_mut(*target) {
                t.dirty = !t.out;
            }
            let patched = self.outputs.targets.get(*target).is_some_and(|t| t.patched);
            if !patched && self.outputs.batch_bytes(*target) >= self.outputs.load_limit(*target) {
                self.cut(*target)?;
            }
        }
        Ok(())
    }

    pub(super) fn targets_of(&self, table: TableId) -> Vec<usize> {
        self.tables.iter().flat_map(|t| &t.groups).find(|g| g.id == table).map_or_else(Vec::new, |g| g.targets.clone())
    }

    /// Where the stream stands, between transactions or (for one table) inside one.
    pub(super) fn here(&self, source: usize) -> Coordinate {
        let open = self.transaction.as_ref().filter(|t| !t.known).map(|t| &t.id);
        let lost = self.again.as_ref();
        let seen = self.ordinals.get(source).copied().unwrap_or(0);
        let before = lost.and_then(|(_, judged)| judged.get(source)).copied().unwrap_or(0);
        let inside = open.or_else(|| lost.map(|(txn, _)| txn));
        let partial = inside.map(|txn| Partial { txn: txn.clone(), rows: seen.max(before) });
        Coordinate { passed: self.merge.judged().clone(), partial }
    }

    /// Cuts a load from one target's batch, now.
    pub(in crate::pipeline) fn cut(&mut self, target: usize) -> Result<(), RunError> {
        let Some(t) = self.outputs.targets.get(target) else { return Ok(()) };
        let (group, source) = (t.group, t.source);
        let at = self.merge.place(group, self.here(source));
        self.outputs.seal(target, &mut self.delivery, at, self.merge.durable_ranges(group))
    }

    /// Chooses which targets the next close goes without: those that are to be loaded less often now, and in turn those that
    /// would be too many open transactions for one database.
    pub(in crate::pipeline) fn hold_back(&mut self, now: u64, ending: bool) {
        let count = self.outputs.targets.len();
        let mut open: BTreeMap<String, usize> = BTreeMap::new();
        for t in self.outputs.targets.iter().filter(|t| t.loaded) {
            let n = open.entry(t.database.clone()).or_default();
            *n = n.saturating_add(1);
        }
        let mut first_refused = None;
        for i in (self.outputs.turn..count).chain(0..self.outputs.turn.min(count)) {
            let waits = self.outputs.batch_bytes(i) > 0;
            let close_soon = self.outputs.close_soon;
            let Some(t) = self.outputs.targets.get_mut(i) else { continue };
            // A target with loads in this epoch has its place in it.
            t.held = false;
            if t.loaded || t.out || !waits {
                continue;
            }
            let n = open.entry(t.database.clone()).or_default();
            if close_soon && t.patched {
                *n = n.saturating_add(1);
            } else if *n >= MAX_OPEN_LOADS {
                t.held = true;
                first_refused.get_or_insert(i);
            } else if !ending && t.pace.is_held(now) {
                t.held = true;
            } else {
                *n = n.saturating_add(1);
            }
        }
        self.outputs.turn = first_refused.unwrap_or(0);
    }

    /// Forgets a target that is left out, and its source table if it was the last one.
    pub(in crate::pipeline) fn leave_out(&mut self, target: usize) {
        for (index, table) in self.tables.iter_mut().enumerate() {
            let merge = &mut self.merge;
            table.groups.retain_mut(|group| {
                group.targets.retain(|t| *t != target);
                if group.targets.is_empty() {
                    merge.drop_table(group.id);
                }
                !group.targets.is_empty()
            });
            if table.groups.is_empty() {
                let name = (table.schema.database.clone(), table.schema.table.clone());
                self.names.tables.remove(&name);
                self.asleep.insert(name);
                for mapped in self.maps.values_mut() {
                    if matches!(mapped, Mapped::Captured { table, .. } if *table == index) {
                        *mapped = Mapped::Asleep;
                    }
                }
            }
        }
        self.refresh_groups();
    }

    /// Completes the report with where the run stands.
    pub(in crate::pipeline) fn finish_report(&mut self) {
        self.report.position = self.merge.position().map(ToString::to_string);
        self.report.gtids = self.closed_at.passed.gtids().map(ToString::to_string).unwrap_or_default();
        self.report.rows_sent = self.report.rows_sent.saturating_add(core::mem::take(&mut self.outputs.rows_sent));
        let collapsed = core::mem::take(&mut self.outputs.rows_collapsed);
        self.report.rows_collapsed = self.report.rows_collapsed.saturating_add(collapsed);
    }

    /// Closes the filling epoch, between transactions. `false` if it could not be closed yet or there is nothing in it.
    pub(in crate::pipeline) fn close_epoch(&mut self, output_bytes: Option<u64>) -> Result<bool, RunError> {
        if !self.delivery.may_close() || self.is_inside() {
            return Ok(false);
        }
        self.merge.settle();
        self.refresh_groups();
        let next = Coordinate::boundary(self.merge.judged().clone());
        let dirty = self.outputs.targets.iter().any(|t| t.dirty && !t.held);
        if !dirty && !self.outputs.emitted && !self.delivery.has_loads() && next == self.closed_at {
            return Ok(false);
        }
        for target in 0..self.outputs.targets.len() {
            if self.outputs.targets.get(target).is_some_and(|t| !t.held) {
                self.cut(target)?;
            }
        }
        let mut changes = Vec::new();
        for t in &mut self.outputs.targets {
            if t.held {
                // Its rows wait in its batch: it stays where the last epoch left it, and says so while the stream moves on.
                t.dirty = true;
                if t.last.ahead.is_none() {
                    let behind = TargetState { ahead: Some(self.closed_at.clone()), ..t.last.clone() };
                    let previous = core::mem::replace(&mut t.last, behind.clone());
                    changes.push(TargetChange { target: t.no, previous, next: behind });
                }
                continue;
            }
            if t.out || !(t.dirty || t.loaded) {
                continue;
            }
            let state = self.merge.checkpoint(t.group);
            let previous = core::mem::replace(&mut t.last, state.clone());
            changes.push(TargetChange { target: t.no, previous, next: state });
            t.dirty = false;
            t.loaded = false;
            t.created = false;
        }
        let previous = core::mem::replace(&mut self.closed_at, next.clone());
        self.outputs.emitted = false;
        self.outputs.close_soon = false;
        let mut least = next.passed.clone();
        for place in self.outputs.targets.iter().filter(|t| !t.out).filter_map(|t| t.last.ahead.as_ref()) {
            least.intersect(&place.passed);
        }
        let (before, after) = self.xa.close(&next.passed, &least, self.merge.judged());
        let extra = Extra { output_bytes, xa: XaChange { previous: before, next: after } };
        Ok(self.delivery.close(previous, next, changes, extra))
    }
}

/// The values of a row that [`crate::snapshot::reader`] has checked.
pub(super) fn selected<'r>(
    schema: &'r TableSchema,
    row: &'r millstream_wire::Row,
) -> impl Iterator<Item = (usize, ColumnValue<'r>)> + Clone {
    select_values(schema, row).enumerate().filter_map(|(i, value)| Some((i, value.ok()?)))
}
