use millstream_wire::codec::{Bitmap, ParseError, ParseErrorKind, Reader};

use crate::error::Place;
use crate::header::EventType;
use crate::row::{ImageShape, Rows};
use crate::table::TableSchema;

/// What happened to the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the protocol has these three")]
pub enum RowsKind {
    /// INSERT: after images.
    Write,
    /// UPDATE: pairs of before and after images.
    Update,
    /// DELETE: before images.
    Delete,
}

/// A row event, version 1 or 2 (`Rows_event`), also one with differences of JSON documents
/// (`binlog_row_value_options=PARTIAL_JSON`).
///
/// ```text
/// u48 table id (u32 in old logs) | u16 flags | v2: u16 extra length (with itself), extra | lenenc columns
/// present bitmap | UPDATE: present bitmap of the after image | images to the end
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RowsEvent<'a> {
    /// What happened.
    pub kind: RowsKind,
    /// Names the table: see [`TableMap`](super::TableMap).
    pub table_id: u64,
    /// Bits: see the constants.
    pub flags: u16,
    /// NDB or partition data of version 2: see [`extra_parts`](Self::extra_parts).
    pub extra: &'a [u8],
    /// Columns of the table.
    pub columns: usize,
    before: ImageShape<'a>,
    after: ImageShape<'a>,
    partial: bool,
    data: &'a [u8],
    place: Place,
}

impl<'a> RowsEvent<'a> {
    /// Last row event of its statement: the table maps before it end here.
    pub const STATEMENT_END: u16 = 1;

    pub(crate) fn parse(ty: EventType, table_id_len: u8, mut r: Reader<'a>, place: Place) -> Result<Self, ParseError> {
        let (kind, v2) = match ty {
            EventType::WRITE_ROWS => (RowsKind::Write, true),
            EventType::UPDATE_ROWS | EventType::PARTIAL_UPDATE_ROWS => (RowsKind::Update, true),
            EventType::DELETE_ROWS => (RowsKind::Delete, true),
            EventType::WRITE_ROWS_COMPRESSED => (RowsKind::Write, true),
            EventType::UPDATE_ROWS_COMPRESSED => (RowsKind::Update, true),
            EventType::DELETE_ROWS_COMPRESSED => (RowsKind::Delete, true),
            EventType::UPDATE_ROWS_V1 | EventType::UPDATE_ROWS_COMPRESSED_V1 => (RowsKind::Update, false),
            EventType::DELETE_ROWS_V1 | EventType::DELETE_ROWS_COMPRESSED_V1 => (RowsKind::Delete, false),
            _ => (RowsKind::Write, false),
        };
        let table_id = if table_id_len == 4 { u64::from(r.u32_le("table_id")?) } else { r.u48_le("table_id")? };
        let flags = r.u16_le("rows flags")?;
        let extra = if v2 {
            let n = r.u16_le("extra length")?;
            match n.checked_sub(2) {
                Some(n) => r.bytes(usize::from(n), "extra data")?,
                None => return Err(r.error("extra length", ParseErrorKind::BadLength)),
            }
        } else {
            &[]
        };
        let columns = r.lenenc("column count")?;
        // The server's limit; the bitmaps that follow then fit by being read.
        let columns = usize::try_from(columns).ok().filter(|n| (1..=4096).contains(n));
        let columns = columns.ok_or_else(|| r.error("column count", ParseErrorKind::Limit))?;
        let bitmap = Bitmap::byte_len(columns);
        let before = ImageShape::new(Bitmap::new(r.bytes(bitmap, "present columns")?), columns);
        let after = if kind == RowsKind::Update {
            ImageShape::new(Bitmap::new(r.bytes(bitmap, "present columns after")?), columns)
        } else {
            before
        };
        let partial = ty == EventType::PARTIAL_UPDATE_ROWS;
        Ok(Self { kind, table_id, flags, extra, columns, before, after, partial, data: r.rest(), place })
    }

    /// The rows. `schema` is the one of the TABLE_MAP with this event's table id; with another number of columns the
    /// first row is an error.
    #[must_use]
    pub fn rows<'t>(&self, schema: &'t TableSchema) -> Rows<'a, 't> {
        let rows = Rows::new(self.kind, self.columns, self.before, self.after, self.data, schema, self.place);
        if self.partial { rows.with_differences() } else { rows }
    }

    /// Whether after images may hold differences in the place of JSON documents (PARTIAL_UPDATE_ROWS): each row says
    /// so ([`Row::is_partial`](crate::Row::is_partial)).
    #[must_use]
    pub const fn is_partial(&self) -> bool {
        self.partial
    }

    /// Whether this is the statement's last row event.
    #[must_use]
    pub const fn is_statement_end(&self) -> bool {
        self.flags & Self::STATEMENT_END != 0
    }

    /// Whether every image carries every column (`binlog_row_image=FULL`).
    #[must_use]
    pub const fn is_full_image(&self) -> bool {
        self.before.is_full() && self.after.is_full()
    }

    /// The same event with other images: those that were packed in it. An error then counts its place as if they had
    /// lain in the event.
    pub(crate) fn with_data<'b>(&self, data: &'b [u8]) -> RowsEvent<'b>
    where
        'a: 'b,
    {
        let length = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let end = self.place.end.saturating_sub(length(self.data.len())).saturating_add(length(data.len()));
        RowsEvent { data, place: Place { end, ..self.place }, ..*self }
    }

    /// Bytes of the images.
    #[must_use]
    pub const fn data(&self) -> &'a [u8] {
        self.data
    }
}
