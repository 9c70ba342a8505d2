//! One row as one line of JSON for Stream Load (`format: json`, `read_json_by_line: true`), or as a row of CSV.

use core::ops::Range;

use millstream_binlog::{ColumnValue, TableSchema};

use super::csv;
use super::temporal::push_utc;
use super::{EncodeError, EncodeOptions, Fault, Format, Op, Quoting, RowMeta, ValuePlan, push_json_string};
use crate::table::{DELETE_SIGN, Meta, Mode, SEQUENCE_COL, Source, TargetTable, quote_name};

/// MySQL: `MAX_REF_PARTS`, the greatest number of columns of a key.
const MAX_KEY: usize = 16;

/// Where in the buffer a line's key lies: the key columns with their names, as written. Two lines of one target have the
/// same key if and only if these bytes are the same. Empty for append targets, whose rows are never collapsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpan {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// What a line of an upsert target holds of its row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a batch must handle both")]
pub enum Extent {
    /// Every column; a delete always counts as this.
    Whole,
    /// The key, and the columns of these ordinals (ascending, none of the key): the others stay as they are.
    Some(Box<[usize]>),
}

impl KeySpan {
    /// As a range of the buffer.
    #[must_use]
    pub const fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

#[derive(Clone, Debug)]
struct ColumnPlan {
    /// `"name":`, escaped.
    label: Box<[u8]>,
    value: ValuePlan,
    /// Place in the key, if it is a key column written apart.
    key_part: Option<usize>,
}

/// Writes rows of one table as lines for one target. Allocates nothing per row but what `out` grows by.
#[derive(Clone, Debug)]
pub struct RowEncoder {
    table: String,
    names: Vec<String>,
    /// The source's key, for error messages.
    key: Vec<usize>,
    /// By source ordinal.
    columns: Vec<ColumnPlan>,
    mode: Mode,
    /// Upsert: the key is the first so many columns of the source, in order, and is written as they come. Otherwise the
    /// key columns are set aside and written last.
    key_prefix: Option<usize>,
    /// `,"__DORIS_DELETE_SIGN__":` and `,"__DORIS_SEQUENCE_COL__":`.
    delete_label: Box<[u8]>,
    sequence_label: Box<[u8]>,
    /// Append: the labels of the change's own columns.
    meta_labels: Vec<(Meta, Box<[u8]>)>,
    csv: bool,
    scratch: Vec<u8>,
}

fn label(name: &str) -> Box<[u8]> {
    let mut out = Vec::new();
    push_json_string(&mut out, name);
    out.push(b':');
    out.into_boxed_slice()
}

impl RowEncoder {
    /// An encoder for rows of `schema` into `target`, which [`TargetTable::plan`] made from the same schema.
    #[must_use]
    pub fn new(schema: &TableSchema, target: &TargetTable, options: &EncodeOptions) -> Self {
        let upsert = target.mode == Mode::Upsert;
        let key_is_prefix = schema.key.iter().copied().eq(0..schema.key.len());
        let key_prefix = (upsert && key_is_prefix).then_some(schema.key.len());
        let columns = schema.columns.iter().enumerate().map(|(ordinal, column)| {
            let planned = target.columns.iter().find(|target| target.source == Source::Column(ordinal));
            let doris_type = planned.map(|target| target.doris_type);
            let nullable = planned.is_none_or(|target| target.nullable);
            let apart = upsert && key_prefix.is_none();
            ColumnPlan {
                label: label(&column.name),
                value: ValuePlan::new(column, doris_type, nullable, Quoting::Wide, options),
                key_part: if apart { schema.key.iter().position(|key| *key == ordinal) } else { None },
            }
        });
        let meta = target.columns.iter().filter_map(|column| match column.source {
            Source::Meta(meta) => Some((meta, label(&column.name))),
            Source::Column(_) => None,
        });
        let hidden = |name: &str| [b",".as_slice(), &label(name)].concat().into_boxed_slice();
        Self {
            table: format!("{}.{}", schema.database, schema.table),
            names: schema.columns.iter().map(|column| column.name.clone()).collect(),
            key: schema.key.clone(),
            columns: columns.collect(),
            mode: target.mode,
            key_prefix,
            delete_label: hidden(DELETE_SIGN),
            sequence_label: hidden(SEQUENCE_COL),
            meta_labels: meta.collect(),
            csv: options.format == Format::Csv,
            scratch: Vec::new(),
        }
    }

    /// Why a row that is changed in part cannot be.
    #[cold]
    pub(crate) fn deleted<'a>(&self, values: impl Iterator<Item = (usize, ColumnValue<'a>)>) -> EncodeError {
        EncodeError::new(&self.table, "", self.key_text(values), Fault::Deleted)
    }

    /// Appends one line for the row `values`, (ordinal, value) in ordinal order and without gaps, to `out`.
    ///
    /// For an upsert target an [`Op::Delete`] sets the delete sign; the row's other columns are written too, as Doris
    /// fills a missing column with its default and refuses it where there is none. For an append target the change's own
    /// columns come first.
    ///
    /// # Errors
    /// When a value has no faithful form. `out` is then as it was before. `values` is cloned to name the row's key.
    pub fn encode<'a>(
        &mut self,
        values: impl IntoIterator<Item = (usize, ColumnValue<'a>), IntoIter: Clone>,
        meta: &RowMeta<'_>,
        out: &mut Vec<u8>,
    ) -> Result<KeySpan, EncodeError> {
        let values = values.into_iter();
        let again = values.clone();
        let start = out.len();
        let mut scratch = core::mem::take(&mut self.scratch);
        let written = match self.mode {
            Mode::Upsert => self.upsert(values, meta, out, &mut scratch),
            Mode::Append => self.append(values, meta, out, &mut scratch),
        };
        self.scratch = scratch;
        written.map_err(|(ordinal, fault)| {
            out.truncate(start);
            let column = self.names.get(ordinal).map_or("", String::as_str);
            EncodeError::new(&self.table, column, self.key_text(again), fault)
        })
    }

    /// As [`encode`](Self::encode), for rows that may lack columns: an upsert target takes a row with its key and some columns
    /// as a change of these alone, and deletes by the key. (What a delete lacks is filled with what the column's type allows:
    /// nobody sees it.)
    ///
    /// # Errors
    /// As [`encode`](Self::encode); an append target takes whole rows alone, and the key must be there.
    pub fn encode_present<'a>(
        &mut self,
        values: impl IntoIterator<Item = (usize, ColumnValue<'a>), IntoIter: Clone>,
        meta: &RowMeta<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(KeySpan, Extent), EncodeError> {
        let values = values.into_iter();
        if self.mode == Mode::Append {
            return self.encode(values, meta, out).map(|span| (span, Extent::Whole));
        }
        let start = out.len();
        let mut scratch = core::mem::take(&mut self.scratch);
        let written = match self.upsert(values.clone(), meta, out, &mut scratch) {
            // CSV has a place for every column.
            Err((_, Fault::Absent)) if !self.csv => {
                out.truncate(start);
                let present: Vec<(usize, ColumnValue<'a>)> = values.clone().collect();
                self.some(&present, meta, out, &mut scratch)
            }
            written => written.map(|span| (span, Extent::Whole)),
        };
        self.scratch = scratch;
        written.map_err(|(ordinal, fault)| {
            out.truncate(start);
            let column = self.names.get(ordinal).map_or("", String::as_str);
            EncodeError::new(&self.table, column, self.key_text(values), fault)
        })
    }

    /// The key, then what is there.
    fn some(
        &self,
        present: &[(usize, ColumnValue<'_>)],
        meta: &RowMeta<'_>,
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
    ) -> Result<(KeySpan, Extent), (usize, Fault)> {
        let delete = meta.op == Op::Delete;
        let value_of = |ordinal: usize| present.iter().find(|(i, _)| *i == ordinal).map(|(_, value)| *value);
        out.push(b'{');
        let start = out.len();
        for (part, &ordinal) in self.key.iter().enumerate() {
            let (Some(plan), Some(value)) = (self.columns.get(ordinal), value_of(ordinal)) else {
                return Err((ordinal, Fault::Absent));
            };
            if part > 0 {
                out.push(b',');
            }
            out.extend_from_slice(&plan.label);
            plan.value.write(out, scratch, value).map_err(|fault| (ordinal, fault))?;
        }
        let span = KeySpan { start, end: out.len() };
        let mut columns = Vec::new();
        for (ordinal, plan) in self.columns.iter().enumerate().filter(|(i, _)| !self.key.contains(i)) {
            let value = value_of(ordinal);
            if value.is_none() && !delete {
                continue;
            }
            columns.push(ordinal);
            out.push(b',');
            out.extend_from_slice(&plan.label);
            match value {
                Some(value) => plan.value.write(out, scratch, value).map_err(|fault| (ordinal, fault))?,
                None => plan.value.write_anything(out),
            }
        }
        self.hidden(meta, out);
        Ok((span, if delete { Extent::Whole } else { Extent::Some(columns.into()) }))
    }

    /// The hidden columns and the end of the line.
    fn hidden(&self, meta: &RowMeta<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.delete_label);
        out.push(if meta.op == Op::Delete { b'1' } else { b'0' });
        out.extend_from_slice(&self.sequence_label);
        out.extend_from_slice(itoa::Buffer::new().format(meta.seq).as_bytes());
        out.extend_from_slice(b"}\n");
    }

    fn upsert<'a>(
        &self,
        values: impl Iterator<Item = (usize, ColumnValue<'a>)>,
        meta: &RowMeta<'_>,
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
    ) -> Result<KeySpan, (usize, Fault)> {
        let delete = if meta.op == Op::Delete { b'1' } else { b'0' };
        out.push(if self.csv { delete } else { b'{' });
        let start = out.len();
        let mut span = KeySpan { start, end: start };
        let mut apart = [ColumnValue::Null; MAX_KEY];
        let mut next = 0_usize;
        let mut plans = self.columns.iter();
        for (ordinal, value) in values {
            let Some(plan) = plans.next().filter(|_| ordinal == next) else { return Err((next, Fault::Absent)) };
            if let Some(part) = plan.key_part {
                if let Some(slot) = apart.get_mut(part) {
                    *slot = value;
                }
            } else {
                self.field(plan, out, scratch, value, out.len() > start).map_err(|fault| (ordinal, fault))?;
            }
            next = next.saturating_add(1);
            if self.key_prefix == Some(next) {
                span.end = out.len();
            }
        }
        if plans.next().is_some() {
            return Err((next, Fault::Absent));
        }
        if self.key_prefix.is_none() {
            if !self.csv && out.len() > start {
                out.push(b',');
            }
            span.start = out.len();
            for (part, (&ordinal, value)) in self.key.iter().zip(apart).enumerate() {
                let Some(plan) = self.columns.get(ordinal) else { continue };
                self.field(plan, out, scratch, value, part > 0).map_err(|fault| (ordinal, fault))?;
            }
            span.end = out.len();
        }
        if self.csv {
            out.push(csv::COLUMN);
            out.extend_from_slice(itoa::Buffer::new().format(meta.seq).as_bytes());
            out.push(csv::LINE);
        } else {
            self.hidden(meta, out);
        }
        Ok(span)
    }

    fn append<'a>(
        &self,
        values: impl Iterator<Item = (usize, ColumnValue<'a>)>,
        meta: &RowMeta<'_>,
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
    ) -> Result<KeySpan, (usize, Fault)> {
        if self.csv {
            // The letter comes first and the sequence number last.
            let mut letter = [0; 4];
            out.extend_from_slice(meta.op.letter().encode_utf8(&mut letter).as_bytes());
        } else {
            out.push(b'{');
        }
        for (i, (which, label)) in self.meta_labels.iter().enumerate() {
            if self.csv {
                if !matches!(which, Meta::Op | Meta::Seq) {
                    out.push(csv::COLUMN);
                    let at = out.len();
                    write_meta(out, *which, meta);
                    csv::from_json(out, at).map_err(|fault| (0, fault))?;
                }
                continue;
            }
            if i > 0 {
                out.push(b',');
            }
            out.extend_from_slice(label);
            write_meta(out, *which, meta);
        }
        let mut next = 0_usize;
        let mut plans = self.columns.iter();
        for (ordinal, value) in values {
            let Some(plan) = plans.next().filter(|_| ordinal == next) else { return Err((next, Fault::Absent)) };
            self.field(plan, out, scratch, value, true).map_err(|fault| (ordinal, fault))?;
            next = next.saturating_add(1);
        }
        if plans.next().is_some() {
            return Err((next, Fault::Absent));
        }
        if self.csv {
            out.push(csv::COLUMN);
            out.extend_from_slice(itoa::Buffer::new().format(meta.seq).as_bytes());
        }
        self.end(out);
        Ok(KeySpan { start: out.len(), end: out.len() })
    }

    /// One column, with what separates it from the one before.
    fn field(
        &self,
        plan: &ColumnPlan,
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
        value: ColumnValue<'_>,
        behind_another: bool,
    ) -> Result<(), Fault> {
        if self.csv {
            out.push(csv::COLUMN);
            let at = out.len();
            plan.value.write(out, scratch, value)?;
            return csv::from_json(out, at);
        }
        if behind_another {
            out.push(b',');
        }
        out.extend_from_slice(&plan.label);
        plan.value.write(out, scratch, value)
    }

    /// The value of the `columns` header of this encoder's loads: the fields in the order in which they are written. Of JSON
    /// that order does not matter, and it is the table's.
    #[must_use]
    pub fn columns_header(&self, target: &TargetTable) -> String {
        if !self.csv {
            return target.columns_header();
        }
        let apart =
            |ordinal: &usize| self.mode == Mode::Upsert && self.key_prefix.is_none() && self.key.contains(ordinal);
        let mut ordinals: Vec<usize> = (0..self.names.len()).filter(|ordinal| !apart(ordinal)).collect();
        ordinals.extend(self.key.iter().copied().filter(|ordinal| apart(ordinal)));
        let columns = ordinals.into_iter().filter_map(|ordinal| self.names.get(ordinal).map(String::as_str));
        let of_meta = |wanted: fn(Meta) -> bool| {
            let found = target.columns.iter().filter(move |c| matches!(c.source, Source::Meta(meta) if wanted(meta)));
            found.map(|c| c.name.as_str())
        };
        let all: Vec<&str> = match self.mode {
            Mode::Upsert => [DELETE_SIGN].into_iter().chain(columns).chain([SEQUENCE_COL]).collect(),
            Mode::Append => {
                let middle = of_meta(|meta| !matches!(meta, Meta::Op | Meta::Seq));
                let (first, last) = (of_meta(|meta| meta == Meta::Op), of_meta(|meta| meta == Meta::Seq));
                first.chain(middle).chain(columns).chain(last).collect()
            }
        };
        all.into_iter().map(quote_name).collect::<Vec<_>>().join(",")
    }

    fn end(&self, out: &mut Vec<u8>) {
        if self.csv {
            out.push(csv::LINE);
        } else {
            out.extend_from_slice(b"}\n");
        }
    }

    /// The row's key for an error message.
    #[cold]
    fn key_text<'a>(&self, values: impl Iterator<Item = (usize, ColumnValue<'a>)>) -> String {
        key_text(&self.key, &self.names, |ordinal| self.columns.get(ordinal).map(|plan| &plan.value), values)
    }
}

/// `name=value, …` of the key columns, as far as they can be written.
#[cold]
pub(crate) fn key_text<'a, 'p>(
    key: &[usize],
    names: &[String],
    plan: impl Fn(usize) -> Option<&'p ValuePlan>,
    values: impl Iterator<Item = (usize, ColumnValue<'a>)>,
) -> String {
    let mut parts: Vec<(usize, String)> = Vec::new();
    for (ordinal, value) in values {
        let Some(part) = key.iter().position(|key| *key == ordinal) else { continue };
        let mut text = Vec::new();
        let written = plan(ordinal).is_some_and(|plan| plan.write(&mut text, &mut Vec::new(), value).is_ok());
        let text = if written { String::from_utf8_lossy(&text).into_owned() } else { format!("{value:?}") };
        parts.push((part, format!("{}={text}", names.get(ordinal).map_or("", String::as_str))));
    }
    parts.sort_unstable_by_key(|(part, _)| *part);
    parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(", ")
}

fn write_meta(out: &mut Vec<u8>, which: Meta, meta: &RowMeta<'_>) {
    match which {
        Meta::Seq => out.extend_from_slice(itoa::Buffer::new().format(meta.seq).as_bytes()),
        Meta::Op => push_json_string(out, meta.op.letter().encode_utf8(&mut [0; 4])),
        Meta::Gtid => match meta.gtid {
            Some(gtid) => push_json_string(out, gtid),
            None => out.extend_from_slice(b"null"),
        },
        Meta::File => push_json_string(out, meta.file),
        Meta::Pos => out.extend_from_slice(itoa::Buffer::new().format(meta.pos).as_bytes()),
        Meta::Row => out.extend_from_slice(itoa::Buffer::new().format(meta.row).as_bytes()),
        Meta::Ts => {
            let start = out.len();
            out.push(b'"');
            let written = meta.ts_micros.is_some_and(|micros| {
                let fraction = u32::try_from(micros % 1_000_000).unwrap_or_default();
                push_utc(out, micros / 1_000_000, fraction, 6)
            });
            if written {
                out.push(b'"');
            } else {
                out.truncate(start);
                out.extend_from_slice(b"null");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::InvalidDate;
    use millstream_binlog::{Charset, Column, ColumnType};

    fn column(name: &str, ty: ColumnType, nullable: bool) -> Column {
        let charset = if matches!(ty, ColumnType::VarChar { .. }) { Charset::Utf8mb4 } else { Charset::Binary };
        Column { name: name.into(), ty, nullable, charset, collation: 0 }
    }

    fn schema(key: &[usize]) -> TableSchema {
        TableSchema {
            database: "shop".into(),
            table: "orders".into(),
            columns: vec![
                column("id", ColumnType::BigInt { unsigned: false }, false),
                column("a\"b", ColumnType::VarChar { max_bytes: 40 }, true),
                column("region", ColumnType::Int { unsigned: false }, false),
                column("day", ColumnType::Date, false),
            ],
            key: key.to_vec(),
        }
    }

    const DAY: millstream_binlog::Date = millstream_binlog::Date { year: 2026, month: 11, day: 30 };

    fn values<'a>(id: i64, text: &'a str, region: i64) -> [ColumnValue<'a>; 4] {
        let text = ColumnValue::Text { bytes: text.as_bytes(), charset: Charset::Utf8mb4 };
        [ColumnValue::Int(id), text, ColumnValue::Int(region), ColumnValue::Date(DAY)]
    }

    fn meta(op: Op) -> RowMeta<'static> {
        RowMeta {
            seq: 17_592_186_044_417,
            op,
            gtid: Some("3e11fa47-71ca-11e1-9e33-c80aa9429562:23"),
            file: "binlog.000002",
            pos: 1234,
            row: 5,
            ts_micros: Some(1_796_000_000_123_456),
        }
    }

    fn encoder(key: &[usize], mode: Mode, invalid_date: InvalidDate) -> RowEncoder {
        let schema = schema(key);
        let target = TargetTable::plan(&schema, "ods", "orders", mode).unwrap();
        RowEncoder::new(&schema, &target, &EncodeOptions { invalid_date, ..EncodeOptions::default() })
    }

    fn line(encoder: &mut RowEncoder, values: &[ColumnValue<'_>], op: Op) -> (String, String) {
        let mut out = b"before\n".to_vec();
        let key = encoder.encode(values.iter().copied().enumerate(), &meta(op), &mut out).unwrap();
        let key = String::from_utf8(out[key.range()].to_vec()).unwrap();
        (String::from_utf8(out).unwrap().strip_prefix("before\n").unwrap().to_owned(), key)
    }

    #[test]
    fn an_upsert_line_carries_key_delete_sign_and_sequence() {
        let mut leading = encoder(&[0], Mode::Upsert, InvalidDate::Fail);
        assert_eq!(
            line(&mut leading, &values(7, "x", 3), Op::Update),
            (
                "{\"id\":7,\"a\\\"b\":\"x\",\"region\":3,\"day\":\"2026-11-30\",\"__DORIS_DELETE_SIGN__\":0,\
                 \"__DORIS_SEQUENCE_COL__\":17592186044417}\n"
                    .to_owned(),
                "\"id\":7".to_owned()
            )
        );
        // A key whose columns are not the first ones, in key order.
        let mut apart = encoder(&[2, 0], Mode::Upsert, InvalidDate::Fail);
        assert_eq!(
            line(&mut apart, &values(7, "x", 3), Op::Delete),
            (
                "{\"a\\\"b\":\"x\",\"day\":\"2026-11-30\",\"region\":3,\"id\":7,\"__DORIS_DELETE_SIGN__\":1,\
                 \"__DORIS_SEQUENCE_COL__\":17592186044417}\n"
                    .to_owned(),
                "\"region\":3,\"id\":7".to_owned()
            )
        );
        let mut whole = encoder(&[0, 1, 2, 3], Mode::Upsert, InvalidDate::Fail);
        assert_eq!(
            line(&mut whole, &values(7, "x", 3), Op::Delete).1,
            "\"id\":7,\"a\\\"b\":\"x\",\"region\":3,\"day\":\"2026-11-30\""
        );
        let mut all_apart = encoder(&[3, 2, 1, 0], Mode::Upsert, InvalidDate::Fail);
        let (text, key) = line(&mut all_apart, &values(7, "x", 3), Op::Read);
        assert!(text.starts_with(&format!("{{{key},\"__DORIS_DELETE_SIGN__\":0")), "{text}");
    }

    #[test]
    fn an_append_line_carries_the_change() {
        let mut encoder = encoder(&[0], Mode::Append, InvalidDate::Fail);
        let (text, key) = line(&mut encoder, &values(7, "x", 3), Op::Create);
        assert_eq!(
            text,
            "{\"_ms_seq\":17592186044417,\"_ms_op\":\"c\",\"_ms_gtid\":\"3e11fa47-71ca-11e1-9e33-c80aa9429562:23\",\
             \"_ms_file\":\"binlog.000002\",\"_ms_pos\":1234,\"_ms_row\":5,\"_ms_ts\":\"2026-11-30 00:53:20.123456\",\
             \"id\":7,\"a\\\"b\":\"x\",\"region\":3,\"day\":\"2026-11-30\"}\n"
        );
        assert_eq!(key, "");
        let mut out = Vec::new();
        let bare = RowMeta { gtid: None, ts_micros: None, ..meta(Op::Read) };
        encoder.encode(values(7, "x", 3).into_iter().enumerate(), &bare, &mut out).unwrap();
        let parsed: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert!(parsed["_ms_gtid"].is_null() && parsed["_ms_ts"].is_null() && parsed["_ms_op"] == "r");
    }

    #[test]
    fn errors_name_table_column_and_key_and_leave_the_buffer_alone() {
        let zero = ColumnValue::Date(millstream_binlog::Date { year: 0, month: 0, day: 0 });
        let bad_text = ColumnValue::Text { bytes: b"\xff", charset: Charset::Utf8mb4 };
        let row = values(7, "x", 3);
        let cases: [(&[ColumnValue<'_>], &str); 6] = [
            (&[row[0], row[1], row[2], zero], "shop.orders, column `day`, row with region=3, id=7: the date is zero"),
            (
                &[row[0], bad_text, row[2], row[3]],
                "shop.orders, column `a\"b`, row with region=3, id=7: the bytes are no",
            ),
            (
                &[row[0], row[1], ColumnValue::Null, row[3]],
                "shop.orders, column `region`, row with region=Null, id=7: the value is NULL",
            ),
            (&[row[0], row[1], row[2]], "shop.orders, column `day`, row with region=3, id=7: the row image lacks"),
            (&[row[0], row[1], row[1], row[3]], "shop.orders, column `region`, row with region=Text"),
            (&[], "shop.orders, column `id`, row with a row without a key: the row image lacks"),
        ];
        for mode in [Mode::Upsert, Mode::Append] {
            let mut encoder = encoder(&[2, 0], mode, InvalidDate::Fail);
            for (values, expected) in cases {
                if mode == Mode::Append && expected.contains("NULL") {
                    continue;
                }
                let mut out = b"before".to_vec();
                let error =
                    encoder.encode(values.iter().copied().enumerate(), &meta(Op::Update), &mut out).unwrap_err();
                assert!(error.to_string().starts_with(expected), "{error}");
                assert_eq!(out, b"before");
            }
        }
    }

    #[test]
    fn invalid_dates_follow_the_policy() {
        let zero = ColumnValue::Date(millstream_binlog::Date { year: 0, month: 0, day: 0 });
        let row = [ColumnValue::Int(7), ColumnValue::Null, ColumnValue::Int(3), zero];
        let null = line(&mut encoder(&[0], Mode::Upsert, InvalidDate::Null), &row, Op::Read).0;
        assert!(null.contains("\"day\":null,"), "{null}");
        let epoch = line(&mut encoder(&[0, 3], Mode::Upsert, InvalidDate::Epoch), &row, Op::Read);
        assert_eq!(epoch.1, "\"id\":7,\"day\":\"1970-01-01\"");
        // A key is never NULL.
        let mut key = encoder(&[0, 3], Mode::Upsert, InvalidDate::Null);
        let error = key.encode(row.into_iter().enumerate(), &meta(Op::Read), &mut Vec::new()).unwrap_err();
        assert!(error.is_invalid_date() && error.column() == "day", "{error}");
    }
}
