//! Tables and their row changes: decoded only where they are captured, judged one by one.

use std::sync::Arc;

use bytes::Bytes;
use millstream_binlog::event::{Event, EventBody, RowsEvent, TableMap};
use millstream_binlog::{ColumnValue, Row, RowChange, TableSchema};
use millstream_doris_sink::{Op, RowMeta};

use super::{Core, HeldRow, Mapped};
use crate::delivery::{Coordinate, Partial};
use crate::merge::{ChangeKind, Verdict};
use crate::pipeline::error::RunError;

impl Core {
    pub(super) fn table_map(&mut self, map: &TableMap<'_>) -> Result<(), RunError> {
        let id = map.table_id;
        let (database, table) = (map.database, map.table);
        let name = (database.to_owned(), table.to_owned());
        if let Some(&index) = self.names.tables.get(&name) {
            let Some(captured) = self.tables.get(index) else { return Ok(()) };
            if let Some(Mapped::Captured { table, definition, .. }) = self.maps.get(&id)
                && *table == index
                && **definition == *map.definition()
            {
                return Ok(());
            }
            let resolved = match captured.index {
                None => map.resolve(&captured.schema),
                // Where there is no primary key the log may name none, or the first unique one, which need not be ours.
                Some(_) => {
                    let logged = map.schema().map(|s| s.key).unwrap_or_default();
                    let as_logged = TableSchema { key: logged, ..(*captured.schema).clone() };
                    map.resolve(&as_logged).map(|s| TableSchema { key: captured.schema.key.clone(), ..s })
                }
            };
            let schema = resolved.map_err(|e| {
                self.stop(format_args!(
                    "{database}.{table} is not what it was when it was added ({e}); begin with a new state directory and \
                     on_existing = \"truncate\""
                ))
            })?;
            let definition = map.definition().into();
            self.maps.insert(id, Mapped::Captured { table: index, schema: Arc::new(schema), definition });
            return Ok(());
        }
        let mapped = if self.asleep.contains(&name) {
            Mapped::Asleep
        } else if self.wanted.wants(database, table) {
            if !self.late.contains(&name) {
                self.appear(database, table);
            }
            Mapped::Late
        } else {
            Mapped::Other
        };
        self.maps.insert(id, mapped);
        Ok(())
    }

    /// Whether rows that name the table by this id are not looked at; then they are counted.
    pub(super) fn passes_over(&mut self, table_id: u64) -> bool {
        match self.maps.get(&table_id) {
            Some(Mapped::Asleep) => self.report.skip("quarantined"),
            Some(Mapped::Late) => self.report.skip("table_appeared_later"),
            Some(Mapped::Other) => self.report.filtered_events = self.report.filtered_events.saturating_add(1),
            Some(Mapped::Captured { .. }) | None => return false,
        }
        true
    }

    pub(super) fn rows(&mut self, rows: &RowsEvent<'_>) -> Result<(), RunError> {
        if self.passes_over(rows.table_id) {
            return Ok(());
        }
        let Some(Mapped::Captured { table, schema, .. }) = self.maps.get(&rows.table_id) else {
            return Err(self.stop("rows of a table that was not named before"));
        };
        let (table, schema) = (*table, Arc::clone(schema));
        if self.transaction.is_none() {
            return Err(self.stop("rows outside of a transaction"));
        }
        if self.needs_weights(table) {
            self.weights.begin();
            self.want_weights(table, &schema, rows)?;
            if self.weights.is_waiting() {
                return Ok(());
            }
        }
        if !rows.is_full_image() {
            return self.image_rows(table, &schema, rows);
        }
        let mut completed = Vec::new();
        for change in rows.rows(&schema) {
            match change.map_err(|e| self.broken(e))? {
                RowChange::Insert(row) => self.change(table, &schema, Op::Create, None, Some(row))?,
                RowChange::Delete(row) => self.change(table, &schema, Op::Delete, Some(row), None)?,
                RowChange::Update { before, after } => {
                    let after = self.whole_documents(&before, after, &mut completed, &schema)?;
                    if same_key(&schema, &before, &after) {
                        self.change(table, &schema, Op::Update, Some(before), Some(after))?;
                    } else {
                        self.change(table, &schema, Op::Delete, Some(before), None)?;
                        self.change(table, &schema, Op::Create, None, Some(after))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The after image with differences of JSON documents applied to those of the before image.
    pub(super) fn whole_documents<'a, 't>(
        &self,
        before: &Row<'_, '_>,
        after: Row<'a, 't>,
        completed: &'a mut Vec<u8>,
        schema: &TableSchema,
    ) -> Result<Row<'a, 't>, RunError> {
        after.complete(before, completed).map_err(|e| {
            let why = std::error::Error::source(&e).map(|e| format!(" ({e})")).unwrap_or_default();
            self.stop(format_args!(
                "{}.{}: {e}{why}; set binlog_row_value_options = '' on the source, then begin with a new state",
                schema.database, schema.table
            ))
        })
    }

    /// Whether changes of the table are judged by weights of its key's text.
    fn needs_weights(&self, table: usize) -> bool {
        self.tables.get(table).is_some_and(|captured| {
            captured.access.codec.weighed().next().is_some()
                && captured.groups.iter().any(|g| !g.plain && self.merge.needs_key(g.id))
        })
    }

    fn want_weights(&mut self, table: usize, schema: &TableSchema, rows: &RowsEvent<'_>) -> Result<(), RunError> {
        let Some(captured) = self.tables.get(table) else { return Ok(()) };
        let access = Arc::clone(&captured.access);
        for change in rows.rows(schema) {
            let images = match change.map_err(|e| self.broken(e))? {
                RowChange::Insert(row) | RowChange::Delete(row) => [Some(row), None],
                RowChange::Update { before, after } => [Some(before), Some(after)],
            };
            for image in images.iter().flatten() {
                for part in access.codec.weighed() {
                    if let Some(ColumnValue::Text { bytes, .. }) = image.value(part.ordinal) {
                        self.weights.want(part, bytes);
                    }
                }
            }
        }
        Ok(())
    }

    /// Wants the weights of an event that comes behind one that waits, so that many are asked at once. What cannot be told
    /// yet (its table is not named, it is compressed) is asked when its turn comes.
    pub(in crate::pipeline) fn look_ahead(&mut self, raw: &Bytes) {
        let is_rows = |event: &Event<'_>| matches!(event.body, EventBody::Rows(_));
        let Some(Event { body: EventBody::Rows(rows), .. }) = self.decoder.decode_again(raw).ok().filter(is_rows)
        else {
            return;
        };
        let Some(Mapped::Captured { table, schema, .. }) = self.maps.get(&rows.table_id) else { return };
        let (table, schema) = (*table, Arc::clone(schema));
        if self.needs_weights(table) {
            // An event that is broken says so in its turn.
            self.want_weights(table, &schema, &rows).ok();
        }
    }

    pub(super) fn change<I: RowImage>(
        &mut self,
        table: usize,
        schema: &Arc<TableSchema>,
        op: Op,
        before: Option<I>,
        after: Option<I>,
    ) -> Result<(), RunError> {
        let Self { tables, merge, outputs, delivery, report, ordinals, again, transaction, at, key, weights, .. } =
            self;
        let at = at.position();
        let (Some(captured), Some(ordinal), Some(open)) =
            (tables.get(table), ordinals.get_mut(table), transaction.as_ref())
        else {
            return Ok(());
        };
        let number = *ordinal;
        *ordinal = number.saturating_add(1);
        if again.as_ref().and_then(|(_, judged)| judged.get(table)).is_some_and(|judged| number < *judged) {
            return Ok(());
        }
        report.changes_in = report.changes_in.saturating_add(1);
        let Some(image) = after.as_ref().or(before.as_ref()) else { return Ok(()) };
        let mut seq = None;
        let mut dropped = None;
        for group in &captured.groups {
            let verdict =
                if group.plain {
                    Verdict::Emit
                } else {
                    key.clear();
                    if merge.needs_key(group.id) {
                        let weight = |part, text: &[u8]| weights.get(part, text);
                        captured.access.codec.encode(|i| image.value(i), weight, key).map_err(|e| {
                            RunError::stopped(format!("{}.{} at {at}: {e}", schema.database, schema.table))
                        })?;
                    }
                    let held = || {
                        let row = image.held(schema);
                        let size = row.len();
                        (row, size)
                    };
                    match image.some() {
                        Some(based) => merge.patch(group.id, key, number, based, held, HeldRow::onto),
                        None if op == Op::Delete => merge.change(group.id, key, number, ChangeKind::Delete, held),
                        None => merge.change(group.id, key, number, ChangeKind::Put, held),
                    }
                };
            if verdict == Verdict::Emit && image.some() == Some(false) {
                return Err(RunError::stopped(format!(
                    "stopped at {at} (transaction {}): {}.{}: a row whose key was changed was logged without its other columns; \
                     set binlog_row_image = FULL for every session, then begin with a new state",
                    open.id, schema.database, schema.table
                )));
            }
            match verdict {
                Verdict::Emit => {
                    let seq = match seq {
                        Some(seq) => seq,
                        None => *seq.insert(outputs.sequence.next()?),
                    };
                    let meta = RowMeta {
                        seq,
                        op,
                        gtid: open.gtid.as_deref(),
                        file: &at.file,
                        pos: at.offset,
                        row: number,
                        ts_micros: open.ts_micros,
                    };
                    for target in &group.targets {
                        let [was, is] = [&before, &after].map(|image| image.as_ref().map(RowImage::values));
                        outputs.emit(*target, &meta, was, is)?;
                        if outputs.batch_bytes(*target) >= outputs.load_limit(*target) {
                            let partial = Partial { txn: open.id.clone(), rows: number.saturating_add(1) };
                            let at = Coordinate { passed: merge.judged().clone(), partial: Some(partial) };
                            let at = merge.place(group.id, at);
                            outputs.seal(*target, delivery, at, merge.durable_ranges(group.id))?;
                        }
                    }
                }
                Verdict::Drop(rule) => dropped = Some(rule),
            }
        }
        match (seq, dropped) {
            (None, Some(rule)) => report.drop_change(rule.name()),
            _ => report.changes_emitted = report.changes_emitted.saturating_add(1),
        }
        Ok(())
    }
}

/// A row as the log has it.
pub(super) trait RowImage {
    /// `None`: every column is there, or known. Else whether the row was there before under the same key, and keeps the rest.
    fn some(&self) -> Option<bool>;
    fn value(&self, ordinal: usize) -> Option<ColumnValue<'_>>;
    fn values(&self) -> impl Iterator<Item = (usize, ColumnValue<'_>)> + Clone;
    /// The row in bytes of its own, so that a small row does not keep its whole packet.
    fn held(&self, schema: &Arc<TableSchema>) -> HeldRow;
}

impl RowImage for Row<'_, '_> {
    fn some(&self) -> Option<bool> {
        None
    }

    fn value(&self, ordinal: usize) -> Option<ColumnValue<'_>> {
        Row::value(self, ordinal)
    }

    fn values(&self) -> impl Iterator<Item = (usize, ColumnValue<'_>)> + Clone {
        Row::values(self)
    }

    fn held(&self, schema: &Arc<TableSchema>) -> HeldRow {
        HeldRow::Stream(self.share(&Bytes::new(), schema))
    }
}

/// A row that its image does not show whole.
pub(super) struct Image<'v> {
    pub(super) some: Option<bool>,
    values: &'v [(usize, ColumnValue<'v>)],
    held: &'v dyn Fn() -> HeldRow,
}

impl<'v> Image<'v> {
    pub(super) const fn new(values: &'v [(usize, ColumnValue<'v>)], held: &'v dyn Fn() -> HeldRow) -> Self {
        Self { some: None, values, held }
    }
}

impl RowImage for Image<'_> {
    fn some(&self) -> Option<bool> {
        self.some
    }

    fn value(&self, ordinal: usize) -> Option<ColumnValue<'_>> {
        let at = self.values.binary_search_by_key(&ordinal, |(i, _)| *i).ok()?;
        self.values.get(at).map(|(_, value)| *value)
    }

    fn values(&self) -> impl Iterator<Item = (usize, ColumnValue<'_>)> + Clone {
        self.values.iter().copied()
    }

    fn held(&self, _: &Arc<TableSchema>) -> HeldRow {
        (self.held)()
    }
}

fn same_key(schema: &TableSchema, before: &Row<'_, '_>, after: &Row<'_, '_>) -> bool {
    schema.key.iter().all(|i| before.value(*i) == after.value(*i))
}
