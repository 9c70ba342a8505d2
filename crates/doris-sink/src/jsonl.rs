//! Change events as lines of JSON, for looking, piping and tests.
//!
//! ```json
//! {"op":"u","db":"shop","table":"orders","before":{"id":"7"},"after":{"id":"7"},
//!  "source":{"gtid":"…:23","file":"binlog.000002","pos":1234,"row":0,"ts_ms":1796000000123,"snapshot":false},"seq":"17592186044417"}
//! ```
//! (on one line). 64-bit integers and decimals are strings, because many readers of JSON round numbers; binary values are
//! hex, JSON values their text in a string, times are written as Doris reads them.

use millstream_binlog::{ColumnValue, TableSchema};

use crate::encode::{EncodeError, EncodeOptions, Fault, Op, Quoting, RowMeta, ValuePlan, key_text, push_json_string};

/// Writes change events of one table.
#[derive(Clone, Debug)]
pub struct EventEncoder {
    table: String,
    /// `,"db":"…","table":"…"`.
    names_json: Vec<u8>,
    names: Vec<String>,
    key: Vec<usize>,
    /// `"name":` and the value's plan, by ordinal.
    columns: Vec<(Vec<u8>, ValuePlan)>,
    scratch: Vec<u8>,
}

impl EventEncoder {
    /// An encoder for `schema`. Of the options only `invalid_date` counts.
    #[must_use]
    pub fn new(schema: &TableSchema, options: &EncodeOptions) -> Self {
        let mut names_json = b",\"db\":".to_vec();
        push_json_string(&mut names_json, &schema.database);
        names_json.extend_from_slice(b",\"table\":");
        push_json_string(&mut names_json, &schema.table);
        let columns = schema.columns.iter().map(|column| {
            let mut label = Vec::new();
            push_json_string(&mut label, &column.name);
            label.push(b':');
            (label, ValuePlan::new(column, None, true, Quoting::SixtyFour, options))
        });
        Self {
            table: format!("{}.{}", schema.database, schema.table),
            names_json,
            names: schema.columns.iter().map(|column| column.name.clone()).collect(),
            key: schema.key.clone(),
            columns: columns.collect(),
            scratch: Vec::new(),
        }
    }

    /// Appends one event. `before` and `after` are rows as (ordinal, value) in ordinal order; what an operation does not
    /// have is `None` and written as null. A key change is two calls: [`Op::Delete`], then [`Op::Create`].
    ///
    /// # Errors
    /// When a value has no faithful form. `out` is then as it was before.
    pub fn encode<'a, R>(
        &mut self,
        before: Option<R>,
        after: Option<R>,
        meta: &RowMeta<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError>
    where
        R: Iterator<Item = (usize, ColumnValue<'a>)> + Clone,
    {
        let start = out.len();
        out.extend_from_slice(b"{\"op\":");
        push_json_string(out, meta.op.letter().encode_utf8(&mut [0; 4]));
        out.extend_from_slice(&self.names_json);
        for (label, row) in [(b",\"before\":".as_slice(), before), (b",\"after\":", after)] {
            out.extend_from_slice(label);
            let Some(row) = row else {
                out.extend_from_slice(b"null");
                continue;
            };
            let again = row.clone();
            if let Err((ordinal, fault)) = self.row(row, out) {
                out.truncate(start);
                let key = key_text(&self.key, &self.names, |i| self.columns.get(i).map(|(_, plan)| plan), again);
                let column = self.names.get(ordinal).map_or("", String::as_str);
                return Err(EncodeError::new(&self.table, column, key, fault));
            }
        }
        out.extend_from_slice(b",\"source\":{\"gtid\":");
        match meta.gtid {
            Some(gtid) => push_json_string(out, gtid),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b",\"file\":");
        push_json_string(out, meta.file);
        out.extend_from_slice(b",\"pos\":");
        out.extend_from_slice(itoa::Buffer::new().format(meta.pos).as_bytes());
        out.extend_from_slice(b",\"row\":");
        out.extend_from_slice(itoa::Buffer::new().format(meta.row).as_bytes());
        out.extend_from_slice(b",\"ts_ms\":");
        match meta.ts_micros {
            Some(micros) => out.extend_from_slice(itoa::Buffer::new().format(micros / 1000).as_bytes()),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b",\"snapshot\":");
        out.extend_from_slice(if meta.op == Op::Read { b"true" } else { b"false" });
        out.extend_from_slice(b"},\"seq\":\"");
        out.extend_from_slice(itoa::Buffer::new().format(meta.seq).as_bytes());
        out.extend_from_slice(b"\"}\n");
        Ok(())
    }

    fn row<'a>(
        &mut self,
        row: impl Iterator<Item = (usize, ColumnValue<'a>)>,
        out: &mut Vec<u8>,
    ) -> Result<(), (usize, Fault)> {
        out.push(b'{');
        let mut next = 0_usize;
        let mut plans = self.columns.iter();
        for (ordinal, value) in row {
            let Some((label, plan)) = plans.next().filter(|_| ordinal == next) else {
                return Err((next, Fault::Absent));
            };
            if next > 0 {
                out.push(b',');
            }
            out.extend_from_slice(label);
            plan.write(out, &mut self.scratch, value).map_err(|fault| (ordinal, fault))?;
            next = next.saturating_add(1);
        }
        if plans.next().is_some() {
            return Err((next, Fault::Absent));
        }
        out.push(b'}');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::InvalidDate;
    use millstream_binlog::{Charset, Column, ColumnType, Date};

    fn encoder(invalid_date: InvalidDate) -> EventEncoder {
        let column =
            |name: &str, ty| Column { name: name.into(), ty, nullable: true, charset: Charset::Binary, collation: 63 };
        let schema = TableSchema {
            database: "shop".into(),
            table: "or\"ders".into(),
            columns: vec![
                column("id", ColumnType::BigInt { unsigned: false }),
                column("n", ColumnType::Int { unsigned: false }),
                column("price", ColumnType::Decimal { precision: 5, scale: 2 }),
                column("raw", ColumnType::VarBinary { max_bytes: 4 }),
                column("doc", ColumnType::Json),
                column("day", ColumnType::Date),
            ],
            key: vec![0],
        };
        EventEncoder::new(&schema, &EncodeOptions { invalid_date, ..EncodeOptions::default() })
    }

    fn row(n: i64, day: u8) -> [ColumnValue<'static>; 6] {
        [
            ColumnValue::Int(i64::MAX),
            ColumnValue::Int(n),
            ColumnValue::DecimalText(b"-1.50"),
            ColumnValue::Bytes(b"\x00\xff"),
            ColumnValue::JsonText(br#"{"a": "b"}"#),
            ColumnValue::Date(Date { year: 2026, month: 11, day }),
        ]
    }

    const META: RowMeta<'static> = RowMeta {
        seq: 17_592_186_044_417,
        op: Op::Update,
        gtid: Some("3e11fa47-71ca-11e1-9e33-c80aa9429562:23"),
        file: "binlog.000002",
        pos: 1234,
        row: 5,
        ts_micros: Some(1_796_000_000_123_456),
    };

    #[test]
    fn an_update_carries_both_images() {
        let mut out = Vec::new();
        let (before, after) = (row(1, 29), row(2, 30));
        encoder(InvalidDate::Fail)
            .encode(Some(before.into_iter().enumerate()), Some(after.into_iter().enumerate()), &META, &mut out)
            .unwrap();
        let image = |n, day| {
            format!(
                "{{\"id\":\"9223372036854775807\",\"n\":{n},\"price\":\"-1.50\",\"raw\":\"00ff\",\
                 \"doc\":\"{{\\\"a\\\": \\\"b\\\"}}\",\"day\":\"2026-11-{day}\"}}"
            )
        };
        let expected = format!(
            "{{\"op\":\"u\",\"db\":\"shop\",\"table\":\"or\\\"ders\",\"before\":{},\"after\":{},\"source\":{{\
             \"gtid\":\"3e11fa47-71ca-11e1-9e33-c80aa9429562:23\",\"file\":\"binlog.000002\",\"pos\":1234,\"row\":5,\
             \"ts_ms\":1796000000123,\"snapshot\":false}},\"seq\":\"17592186044417\"}}\n",
            image(1, 29),
            image(2, 30)
        );
        assert_eq!(String::from_utf8(out.clone()).unwrap(), expected);
        serde_json::from_slice::<serde_json::Value>(&out).unwrap();
    }

    #[test]
    fn what_an_operation_does_not_have_is_null() {
        let mut out = Vec::new();
        let meta = RowMeta { op: Op::Read, gtid: None, ts_micros: None, ..META };
        encoder(InvalidDate::Fail).encode(None, Some(row(1, 1).into_iter().enumerate()), &meta, &mut out).unwrap();
        let event: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert!(event["before"].is_null() && event["source"]["gtid"].is_null() && event["source"]["ts_ms"].is_null());
        assert_eq!((event["op"].as_str(), event["source"]["snapshot"].as_bool()), (Some("r"), Some(true)));
    }

    #[test]
    fn an_error_names_the_key_and_leaves_nothing() {
        let mut out = b"x".to_vec();
        let bad = row(1, 31).into_iter().enumerate();
        let error = encoder(InvalidDate::Fail).encode(Some(bad.clone()), None, &META, &mut out).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("shop.or\"ders, column `day`, row with id=\"9223372036854775807\": the date"),
            "{text}"
        );
        assert_eq!(out, b"x");
        encoder(InvalidDate::Null).encode(Some(bad), None, &META, &mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().contains("\"day\":null}"));
    }
}
