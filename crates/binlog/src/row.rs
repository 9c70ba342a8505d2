//! Rows of a row event: validated once, then read without failing.

use std::sync::Arc;

use bytes::Bytes;
use millstream_wire::codec::{Bitmap, ParseError, ParseErrorKind, Reader};

use crate::error::{Error, Place};
use crate::event::RowsKind;
use crate::table::{Column, ColumnType, TableSchema};
use crate::value::{ColumnValue, JsonDiffs, read_value};

mod complete;

pub use complete::CompleteError;

/// Which columns an image carries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImageShape<'a> {
    present: Bitmap<'a>,
    /// Bytes of an image's null bitmap, which has a bit per present column.
    null_bytes: usize,
    full: bool,
}

impl<'a> ImageShape<'a> {
    pub(crate) fn new(present: Bitmap<'a>, columns: usize) -> Self {
        let count = present.count_ones(columns);
        Self { present, null_bytes: Bitmap::byte_len(count), full: count == columns }
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.full
    }
}

/// The row changes of one event. The first error ends them.
#[derive(Debug)]
pub struct Rows<'a, 't> {
    kind: RowsKind,
    before: ImageShape<'a>,
    after: ImageShape<'a>,
    rest: Reader<'a>,
    schema: &'t TableSchema,
    place: Place,
    columns: usize,
    /// PARTIAL_UPDATE_ROWS: bytes of a bitmap over the table's JSON columns.
    json_bytes: Option<usize>,
}

/// One row change.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_enums, reason = "the protocol has these three")]
pub enum RowChange<'a, 't> {
    /// A new row.
    Insert(Row<'a, 't>),
    /// A changed row; its key may have changed too.
    Update {
        /// The row as it was.
        before: Row<'a, 't>,
        /// The row as it is.
        after: Row<'a, 't>,
    },
    /// A removed row.
    Delete(Row<'a, 't>),
}

impl<'a, 't> Rows<'a, 't> {
    pub(crate) fn new(
        kind: RowsKind,
        columns: usize,
        before: ImageShape<'a>,
        after: ImageShape<'a>,
        data: &'a [u8],
        schema: &'t TableSchema,
        place: Place,
    ) -> Self {
        Self { kind, before, after, rest: Reader::new(data), schema, place, columns, json_bytes: None }
    }

    /// The same rows, whose after images may hold differences in the place of JSON documents.
    #[cold]
    pub(crate) fn with_differences(self) -> Self {
        let json_columns = self.schema.columns.iter().filter(|c| c.ty == ColumnType::Json).count();
        Self { json_bytes: Some(Bitmap::byte_len(json_columns)), ..self }
    }

    /// `lenenc value options | bit 1: bitmap over all JSON columns of the table`, before the null bitmap.
    #[cold]
    fn after_with_differences(&mut self, json_bytes: usize) -> Result<Row<'a, 't>, ParseError> {
        let partial = match self.rest.lenenc("value options")? {
            0 => Bitmap::new(&[]),
            1 => Bitmap::new(self.rest.bytes(json_bytes, "partial columns")?),
            _ => return Err(self.rest.error("value option", ParseErrorKind::Unsupported)),
        };
        Ok(Row { partial, ..self.image(self.after)? })
    }

    #[inline]
    fn image(&mut self, shape: ImageShape<'a>) -> Result<Row<'a, 't>, ParseError> {
        let start = self.rest.peek();
        let nulls = Bitmap::new(self.rest.bytes(shape.null_bytes, "null bitmap")?);
        let columns = self.schema.columns.as_slice();
        let mut r = self.rest;
        if shape.full {
            for (i, column) in columns.iter().enumerate() {
                if !nulls.is_set(i) {
                    read_value(column, &mut r)?;
                }
            }
        } else {
            // One column of thousands may be present: a row of a byte must not cost a look at each of them.
            let (mut at, mut from) = (0usize, 0usize);
            while let Some(i) = shape.present.next_set(from) {
                let Some(column) = columns.get(i) else { break };
                if !nulls.is_set(at) {
                    read_value(column, &mut r)?;
                }
                at = at.wrapping_add(1);
                from = i.wrapping_add(1);
            }
        }
        self.rest = r;
        let used = start.len().wrapping_sub(r.left());
        let bytes = start.get(..used).unwrap_or_default();
        Ok(Row { bytes, shape, partial: Bitmap::new(&[]), schema: self.schema })
    }

    #[inline]
    fn change(&mut self) -> Result<RowChange<'a, 't>, ParseError> {
        if self.columns != self.schema.columns.len() {
            return Err(self.rest.error("column count against the schema", ParseErrorKind::BadLength));
        }
        let left = self.rest.left();
        let before = self.image(self.before)?;
        let change = match self.kind {
            RowsKind::Write => RowChange::Insert(before),
            RowsKind::Delete => RowChange::Delete(before),
            RowsKind::Update => RowChange::Update {
                before,
                after: match self.json_bytes {
                    None => self.image(self.after)?,
                    Some(bytes) => self.after_with_differences(bytes)?,
                },
            },
        };
        if self.rest.left() == left {
            // No column is present: such rows would never end.
            return Err(self.rest.error("row without columns", ParseErrorKind::BadLength));
        }
        Ok(change)
    }
}

impl<'a, 't> Iterator for Rows<'a, 't> {
    type Item = Result<RowChange<'a, 't>, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        Some(self.change().map_err(|e| {
            self.rest.rest();
            self.place.malformed(e)
        }))
    }
}

/// One row image, validated: its values are read without failing and without allocating.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a, 't> {
    bytes: &'a [u8],
    shape: ImageShape<'a>,
    /// Bit per JSON column of the table: its value is a difference.
    partial: Bitmap<'a>,
    schema: &'t TableSchema,
}

impl<'a, 't> Row<'a, 't> {
    /// The table.
    #[must_use]
    pub const fn schema(&self) -> &'t TableSchema {
        self.schema
    }

    /// Whether every column is present.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.shape.full
    }

    /// Whether JSON columns are here as differences: [`complete`](Self::complete) makes them documents.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.partial.as_bytes().iter().any(|b| *b != 0)
    }

    /// The image as it lies in the event: null bitmap and values.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The present columns' ordinals and values. An absent column is not yielded (it is unknown); NULL is a value.
    #[inline]
    #[must_use]
    pub fn values(&self) -> Values<'a, 't> {
        let (nulls, values) = self.bytes.split_at_checked(self.shape.null_bytes).unwrap_or_default();
        Values {
            schema: self.schema,
            columns: self.schema.columns.iter(),
            ordinal: 0,
            partial: self.partial,
            json_at: 0,
            present_at: 0,
            present: self.shape.present,
            full: self.shape.full,
            nulls: Bitmap::new(nulls),
            rest: Reader::new(values),
        }
    }

    /// The value of one column; `None` when it is absent. For several columns [`visit_columns`](Self::visit_columns)
    /// passes over the row once.
    #[must_use]
    pub fn value(&self, ordinal: usize) -> Option<ColumnValue<'a>> {
        let mut found = None;
        self.visit_columns(&[ordinal], |_, value| found = Some(value));
        found
    }

    /// Calls `f` for the `wanted` columns (ascending ordinals) that are present. What lies before the last one is
    /// passed over, what lies behind it is not touched.
    #[inline]
    pub fn visit_columns(&self, wanted: &[usize], mut f: impl FnMut(usize, ColumnValue<'a>)) {
        let mut wanted = wanted.iter().copied();
        let Some(mut next) = wanted.next() else { return };
        for (ordinal, value) in self.values() {
            while next < ordinal {
                match wanted.next() {
                    Some(n) => next = n,
                    None => return,
                }
            }
            if next == ordinal {
                f(ordinal, value);
                match wanted.next() {
                    Some(n) => next = n,
                    None => return,
                }
            }
        }
    }

    /// Keeps the row by reference count. `packet` must be the buffer this row was decoded from, `schema` the schema it
    /// was decoded with; otherwise the row's bytes are copied.
    #[must_use]
    pub fn share(&self, packet: &Bytes, schema: &Arc<TableSchema>) -> SharedRow {
        let slice = |part: &[u8]| {
            let start = part.as_ptr().addr().checked_sub(packet.as_ptr().addr());
            let range = start.and_then(|s| Some(s..s.checked_add(part.len())?));
            match range {
                Some(range) if range.end <= packet.len() => packet.slice(range),
                _ => Bytes::copy_from_slice(part),
            }
        };
        SharedRow {
            bytes: slice(self.bytes),
            present: slice(self.shape.present.as_bytes()),
            partial: slice(self.partial.as_bytes()),
            schema: Arc::clone(schema),
        }
    }
}

/// A row that keeps its packet alive instead of being copied out of it.
#[derive(Clone, Debug)]
pub struct SharedRow {
    bytes: Bytes,
    present: Bytes,
    partial: Bytes,
    schema: Arc<TableSchema>,
}

impl SharedRow {
    /// The row again.
    #[must_use]
    pub fn row(&self) -> Row<'_, '_> {
        let shape = ImageShape::new(Bitmap::new(&self.present), self.schema.columns.len());
        Row { bytes: &self.bytes, shape, partial: Bitmap::new(&self.partial), schema: &self.schema }
    }

    /// The table.
    #[must_use]
    pub const fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// Bytes of the row's own image; the packet that it keeps alive may be larger.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the image is empty (it never is for a row out of an event).
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The same row with its bytes copied out, so that it no longer keeps the packet alive.
    #[must_use]
    pub fn detach(&self) -> Self {
        Self {
            bytes: Bytes::copy_from_slice(&self.bytes),
            present: Bytes::copy_from_slice(&self.present),
            partial: Bytes::copy_from_slice(&self.partial),
            schema: Arc::clone(&self.schema),
        }
    }
}

/// See [`Row::values`].
#[derive(Clone, Debug)]
pub struct Values<'a, 't> {
    schema: &'t TableSchema,
    columns: core::slice::Iter<'t, Column>,
    ordinal: usize,
    present_at: usize,
    present: Bitmap<'a>,
    partial: Bitmap<'a>,
    /// JSON columns of the table before `ordinal`; counted only where it says something.
    json_at: usize,
    full: bool,
    nulls: Bitmap<'a>,
    rest: Reader<'a>,
}

impl<'a> Iterator for Values<'a, '_> {
    type Item = (usize, ColumnValue<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let from = self.ordinal;
        let (ordinal, column) = if self.full {
            (from, self.columns.next()?)
        } else {
            let ordinal = self.present.next_set(from)?;
            (ordinal, self.columns.nth(ordinal.wrapping_sub(from))?)
        };
        self.ordinal = ordinal.wrapping_add(1);
        let is_difference = self.is_difference(from, ordinal, column);
        let at = self.present_at;
        self.present_at = at.wrapping_add(1);
        if self.nulls.is_set(at) {
            return Some((ordinal, ColumnValue::Null));
        }
        // The scan in `Rows::next` has read every value of this row before: the error cannot happen.
        let value = match read_value(column, &mut self.rest).ok()? {
            ColumnValue::Json(json) if is_difference => ColumnValue::JsonDiffs(JsonDiffs { bytes: json.bytes }),
            value => value,
        };
        Some((ordinal, value))
    }
}

impl Values<'_, '_> {
    /// Whether the column's bit among the JSON columns is set; `from` is the first column that was not counted yet.
    #[inline]
    fn is_difference(&mut self, from: usize, ordinal: usize, column: &Column) -> bool {
        // Nearly no row has the bitmap.
        if self.partial.as_bytes().is_empty() {
            return false;
        }
        let passed = self.schema.columns.get(from..ordinal).unwrap_or_default();
        self.json_at = self.json_at.wrapping_add(passed.iter().filter(|c| c.ty == ColumnType::Json).count());
        let is_json = column.ty == ColumnType::Json;
        let bit = self.json_at;
        self.json_at = bit.wrapping_add(usize::from(is_json));
        is_json && self.partial.is_set(bit)
    }
}
