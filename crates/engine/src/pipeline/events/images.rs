//! Row images that lack columns (`binlog_row_image` other than FULL): what is in the other image is taken from there, what an
//! insert left out is its column's default, and what is left is a change of some columns. Anything else stops by name; an
//! absent column is never taken for NULL.

use std::sync::Arc;

use bytes::Bytes;
use millstream_binlog::event::RowsEvent;
use millstream_binlog::{ColumnValue, Row, RowChange, TableSchema};
use millstream_doris_sink::Op;

use super::epoch::selected;
use super::rows::Image;
use super::{Core, HeldRow};
use crate::pipeline::error::RunError;
use crate::schema::default::ColumnDefault;

/// Values by ordinal, in order.
type Values<'v> = Vec<(usize, ColumnValue<'v>)>;

/// `first`, and of `second` what `first` lacks.
fn joined<'v>(
    first: impl Iterator<Item = (usize, ColumnValue<'v>)>,
    second: impl Iterator<Item = (usize, ColumnValue<'v>)>,
) -> Values<'v> {
    let mut values: Values<'v> = first.collect();
    for (ordinal, value) in second {
        if let Err(at) = values.binary_search_by_key(&ordinal, |(i, _)| *i) {
            values.insert(at, (ordinal, value));
        }
    }
    values
}

fn defaults<'v>(schema: &TableSchema, defaults: &'v [ColumnDefault]) -> impl Iterator<Item = (usize, ColumnValue<'v>)> {
    let of_column = schema.columns.iter().zip(defaults).enumerate();
    of_column.filter_map(|(ordinal, (column, default))| Some((ordinal, default.value(column)?)))
}

impl HeldRow {
    /// What is known of the row, by ordinal.
    pub(super) fn values<'v>(&'v self, schema: &'v TableSchema, of: &'v [ColumnDefault]) -> Values<'v> {
        match self {
            Self::Select(row) => selected(schema, row).collect(),
            Self::Stream(row) => row.row().values().collect(),
            Self::Inserted(row) => joined(row.row().values(), defaults(schema, of)),
            Self::Updated { before, after } => joined(after.row().values(), before.row().values()),
            Self::Patched { base, by } => {
                let by = by.values(schema, of);
                joined(by.into_iter(), base.values(schema, of).into_iter())
            }
        }
    }

    /// Bytes that are held.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Select(row) => row.packet().len(),
            Self::Stream(row) | Self::Inserted(row) => row.len(),
            Self::Updated { before, after } => before.len().saturating_add(after.len()),
            Self::Patched { base, by } => base.len().saturating_add(by.len()),
        }
    }

    /// Whether an update of a row changes at least the columns that an earlier one of the same row did.
    fn covers(&self, earlier: &Self) -> bool {
        let (Self::Updated { after: now, .. }, Self::Updated { after: then, .. }) = (self, earlier) else {
            return false;
        };
        then.row().values().all(|(ordinal, _)| now.row().value(ordinal).is_some())
    }

    /// The row `base`, changed by `by`.
    pub(super) fn onto(base: Self, by: Self) -> Self {
        match base {
            // What is written over again is forgotten, so that a row that changes all the time does not grow.
            base if by.covers(&base) => by,
            Self::Patched { base: first, by: then } if by.covers(&then) => {
                Self::Patched { base: first, by: Box::new(by) }
            }
            base => Self::Patched { base: Box::new(base), by: Box::new(by) },
        }
    }
}

impl Core {
    /// Rows of an event whose images lack columns.
    pub(super) fn image_rows(
        &mut self,
        table: usize,
        schema: &Arc<TableSchema>,
        rows: &RowsEvent<'_>,
    ) -> Result<(), RunError> {
        let Some(of) = self.tables.get(table).map(|t| Arc::clone(&t.defaults)) else { return Ok(()) };
        let mut completed = Vec::new();
        for change in rows.rows(schema) {
            match change.map_err(|e| self.broken(e))? {
                RowChange::Insert(row) => {
                    let values = joined(row.values(), defaults(schema, &of));
                    self.has_all(schema, &values, "an inserted row")?;
                    let held = || HeldRow::Inserted(row.share(&Bytes::new(), schema));
                    let image = Image::new(&values, &held);
                    self.change(table, schema, Op::Create, None, Some(image))?;
                }
                RowChange::Delete(row) => self.delete(table, schema, &row)?,
                RowChange::Update { before, after } => {
                    let after = self.whole_documents(&before, after, &mut completed, schema)?;
                    self.update(table, schema, &of, &before, &after)?;
                }
            }
        }
        Ok(())
    }

    fn delete(&mut self, table: usize, schema: &Arc<TableSchema>, row: &Row<'_, '_>) -> Result<(), RunError> {
        let values: Values<'_> = row.values().collect();
        self.has_key(schema, &values)?;
        let held = || HeldRow::Stream(row.share(&Bytes::new(), schema));
        let image = Image::new(&values, &held);
        self.change(table, schema, Op::Delete, Some(image), None)
    }

    fn update(
        &mut self,
        table: usize,
        schema: &Arc<TableSchema>,
        of: &[ColumnDefault],
        before: &Row<'_, '_>,
        after: &Row<'_, '_>,
    ) -> Result<(), RunError> {
        let unlogged = |ordinal: &usize| {
            matches!(of.get(*ordinal), Some(ColumnDefault::Generated { logged: false }))
                && after.value(*ordinal).is_none()
        };
        if let Some(column) = (0..schema.columns.len()).find(unlogged).and_then(|i| schema.columns.get(i)) {
            return Err(self.lacking(
                schema,
                format_args!(
                    "an updated row lacks the generated column {}, which may have changed with it",
                    column.name
                ),
            ));
        }
        let was: Values<'_> = before.values().collect();
        self.has_key(schema, &was)?;
        let values = joined(after.values(), before.values());
        let moved = schema.key.iter().any(|i| after.value(*i).is_some_and(|now| before.value(*i) != Some(now)));
        let held = || HeldRow::Updated {
            before: before.share(&Bytes::new(), schema),
            after: after.share(&Bytes::new(), schema),
        };
        let whole = values.len() == schema.columns.len();
        let mut image = Image::new(&values, &held);
        image.some = (!whole).then_some(!moved);
        if moved {
            self.delete(table, schema, before)?;
            self.change(table, schema, Op::Create, None, Some(image))
        } else {
            let held = || HeldRow::Stream(before.share(&Bytes::new(), schema));
            let before = Image::new(&was, &held);
            self.change(table, schema, Op::Update, Some(before), Some(image))
        }
    }

    /// The key of a row by which it is matched.
    fn has_key(&self, schema: &TableSchema, values: &Values<'_>) -> Result<(), RunError> {
        let lacks = |ordinal: &&usize| values.binary_search_by_key(*ordinal, |(i, _)| *i).is_err();
        match schema.key.iter().find(lacks).and_then(|i| schema.columns.get(*i)) {
            None => Ok(()),
            Some(column) => {
                Err(self.lacking(schema, format_args!("a before image lacks the key column {}", column.name)))
            }
        }
    }

    fn has_all(&self, schema: &TableSchema, values: &Values<'_>, what: &str) -> Result<(), RunError> {
        let lacks = |ordinal: &usize| values.binary_search_by_key(ordinal, |(i, _)| *i).is_err();
        match (0..schema.columns.len()).find(lacks).and_then(|i| schema.columns.get(i)) {
            None => Ok(()),
            Some(column) => Err(self.lacking(
                schema,
                format_args!("{what} lacks the column {}, whose default cannot be told", column.name),
            )),
        }
    }

    /// An image that nothing can complete.
    pub(super) fn lacking(&self, schema: &TableSchema, what: core::fmt::Arguments<'_>) -> RunError {
        self.stop(format_args!(
            "{}.{}: {what}; set binlog_row_image = FULL for every session, then begin with a new state",
            schema.database, schema.table
        ))
    }
}
