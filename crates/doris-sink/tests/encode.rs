//! A row of the binlog and the same row of a SELECT give the same bytes, in loads and in change events.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

use millstream_binlog::value::{Decimal, JsonBinary};
use millstream_binlog::{Charset, Column, ColumnType, ColumnValue, Date, DateTime, TableSchema, Time, Timestamp};
use millstream_doris_sink::{
    Batch, Binary, EncodeOptions, EventEncoder, Format, Mode, Op, RowEncoder, RowMeta, TargetTable,
};
use proptest::prelude::*;

const META: RowMeta<'static> =
    RowMeta { seq: 5, op: Op::Create, gtid: None, file: "b.1", pos: 4, row: 0, ts_micros: None };

/// `id` and one column of type `ty`; `key` makes that column the key.
fn schema(ty: ColumnType, key: bool) -> TableSchema {
    let column =
        |name: &str, ty, nullable| Column { name: name.into(), ty, nullable, charset: Charset::Binary, collation: 63 };
    TableSchema {
        database: "d".into(),
        table: "t".into(),
        columns: vec![column("id", ColumnType::Int { unsigned: false }, false), column("c", ty, !key)],
        key: vec![usize::from(key)],
    }
}

/// The value in every form it is written in: upsert value, upsert key, append, change event.
fn forms(ty: &ColumnType, value: ColumnValue<'_>) -> Vec<String> {
    let row = [ColumnValue::Int(1), value];
    let mut out = Vec::new();
    for (mode, key) in [(Mode::Upsert, false), (Mode::Upsert, true), (Mode::Append, false)] {
        let schema = schema(ty.clone(), key);
        let Ok(target) = TargetTable::plan(&schema, "d", "t", mode) else { continue };
        let mut bytes = Vec::new();
        let mut encoder = RowEncoder::new(&schema, &target, &EncodeOptions::default());
        let span = encoder.encode(row.into_iter().enumerate(), &META, &mut bytes).unwrap();
        out.push(String::from_utf8(bytes[span.range()].to_vec()).unwrap());
        out.push(String::from_utf8(bytes).unwrap());
    }
    let mut bytes = Vec::new();
    EventEncoder::new(&schema(ty.clone(), false), &EncodeOptions::default())
        .encode(None, Some(row.into_iter().enumerate()), &META, &mut bytes)
        .unwrap();
    out.push(String::from_utf8(bytes).unwrap());
    out
}

#[test]
fn the_two_forms_of_a_value_are_one_text() {
    use ColumnType as M;
    use ColumnValue as V;
    // {"a": 1}: small object, 1 member, 12 bytes, key at 11 of length 1, INT16 1 inlined.
    let object: &[u8] = &[0x00, 1, 0, 12, 0, 11, 0, 1, 0, 5, 1, 0, b'a'];
    let string: &[u8] = &[0x0c, 4, b'"', b'\\', b'\n', b'x'];
    #[rustfmt::skip]
    let pairs: Vec<(M, V<'_>, V<'_>)> = vec![
        (M::Binary { bytes: 4 }, V::Bytes(b"\x01"), V::Bytes(b"\x01\0\0\0")),
        (M::Binary { bytes: 4 }, V::Bytes(b""), V::Bytes(b"\0\0\0\0")),
        (M::Json, V::Json(JsonBinary { bytes: b"" }), V::JsonText(b"null")),
        (M::Json, V::Json(JsonBinary { bytes: &[4, 0] }), V::JsonText(b"null")),
        (M::Json, V::Json(JsonBinary { bytes: object }), V::JsonText(b"{\"a\": 1}")),
        (M::Json, V::Json(JsonBinary { bytes: string }), V::JsonText(br#""\"\\\nx""#)),
    ];
    for (ty, log, select) in pairs {
        let forms = (forms(&ty, log), forms(&ty, select));
        assert!(forms.0.len() >= 5);
        assert_eq!(forms.0, forms.1, "{ty:?}");
    }
}

/// Where both ways give the same value, the text must not depend on how the batch came about.
#[test]
fn a_batch_does_not_depend_on_its_history() {
    let schema = schema(ColumnType::Int { unsigned: false }, false);
    let target = TargetTable::plan(&schema, "d", "t", Mode::Upsert).unwrap();
    let mut encoder = RowEncoder::new(&schema, &target, &EncodeOptions::default());
    let mut push = |batch: &mut Batch, id, c, seq| {
        let row = [ColumnValue::Int(id), ColumnValue::Int(c)];
        batch.push(&mut encoder, row.into_iter().enumerate(), &RowMeta { seq, ..META }).unwrap();
    };
    let (mut long, mut short) = (Batch::new(Mode::Upsert), Batch::new(Mode::Upsert));
    for (id, c, seq) in [(1, 1, 1), (2, 1, 2), (1, 2, 3), (3, 1, 4), (2, 2, 5)] {
        push(&mut long, id, c, seq);
    }
    for (id, c, seq) in [(1, 2, 3), (3, 1, 4), (2, 2, 5)] {
        push(&mut short, id, c, seq);
    }
    assert_eq!(long.seal().unwrap().bytes, short.seal().unwrap().bytes);
}

proptest! {
    #[test]
    fn decimals(precision in 1_u8..=65, scale in 0_u8..=30, digits in prop::collection::vec(0_u8..10, 65), negative in any::<bool>()) {
        let scale = scale.min(precision);
        let (precision_n, scale_n) = (usize::from(precision), usize::from(scale));
        let digit = |d: &u8| char::from(b'0'.saturating_add(*d));
        let whole: String = digits[..precision_n.saturating_sub(scale_n)].iter().map(digit).collect();
        let fraction: String = digits[precision_n.saturating_sub(scale_n)..precision_n].iter().map(digit).collect();
        // The text as the server prints it: no leading zeros, no sign on zero.
        let whole = whole.trim_start_matches('0');
        let whole = if whole.is_empty() { "0" } else { whole };
        let zero = whole == "0" && fraction.bytes().all(|b| b == b'0');
        let point = if scale > 0 { "." } else { "" };
        let text = format!("{}{whole}{point}{fraction}", if negative && !zero { "-" } else { "" });

        let mut packed = Vec::new();
        Decimal::pack(text.as_bytes(), precision, scale, &mut packed).unwrap();
        let ty = ColumnType::Decimal { precision, scale };
        let log = forms(&ty, ColumnValue::Decimal { bytes: &packed, precision, scale });
        let quoted = format!("\"c\":\"{text}\"");
        prop_assert!(log.iter().any(|form| form.contains(&quoted)), "{text} {log:?}");
        prop_assert_eq!(log, forms(&ty, ColumnValue::DecimalText(text.as_bytes())));
    }

    /// Keys are equal as bytes if and only if they are equal as values.
    #[test]
    fn keys_are_injective(a in "[ab\"\\\\,:\u{0}-\u{1f}é]{0,4}", b in "[ab\"\\\\,:\u{0}-\u{1f}é]{0,4}", c in "[ab\",]{0,3}", d in "[ab\",]{0,3}") {
        let text = |text| Column { name: text, ty: ColumnType::VarChar { max_bytes: 64 }, nullable: false, charset: Charset::Utf8mb4, collation: 45 };
        let schema = TableSchema {
            database: "d".into(),
            table: "t".into(),
            columns: vec![text("x".into()), text("y".into())],
            key: vec![1, 0],
        };
        let target = TargetTable::plan(&schema, "d", "t", Mode::Upsert).unwrap();
        let mut encoder = RowEncoder::new(&schema, &target, &EncodeOptions::default());
        let mut key = |x: &str, y: &str| {
            let row = [x, y].map(|text| ColumnValue::Text { bytes: text.as_bytes(), charset: Charset::Utf8mb4 });
            let mut out = Vec::new();
            let span = encoder.encode(row.into_iter().enumerate(), &META, &mut out).unwrap();
            out[span.range()].to_vec()
        };
        prop_assert_eq!(key(&a, &c) == key(&b, &d), (&a, &c) == (&b, &d));
        prop_assert_eq!(key(&a, &b) == key(&b, &a), a == b);
    }
}

/// What docs/types.md says of one type: its name there, a column of it, a value of it.
fn samples() -> Vec<(&'static str, ColumnType, Charset, ColumnValue<'static>)> {
    use ColumnType as M;
    use ColumnValue as V;
    let labels = || -> std::sync::Arc<[String]> { ["a", "b"].map(str::to_owned).into() };
    let date = Date { year: 2026, month: 11, day: 30 };
    let at = DateTime { date, hour: 23, minute: 59, second: 58, micros: 120_000 };
    let ts = Timestamp { seconds: 1_796_083_198, micros: 120_000 };
    let time = Time { negative: true, hours: 838, minutes: 59, seconds: 59, micros: 500_000 };
    let text = |text: &'static str| V::Text { bytes: text.as_bytes(), charset: Charset::Utf8mb4 };
    let (bin, utf8) = (Charset::Binary, Charset::Utf8mb4);
    #[rustfmt::skip]
    let all = vec![
        ("TINYINT", M::TinyInt { unsigned: false }, bin, V::Int(-128)),
        ("TINYINT UNSIGNED", M::TinyInt { unsigned: true }, bin, V::UInt(255)),
        ("SMALLINT", M::SmallInt { unsigned: false }, bin, V::Int(-32_768)),
        ("SMALLINT UNSIGNED", M::SmallInt { unsigned: true }, bin, V::UInt(65_535)),
        ("MEDIUMINT", M::MediumInt { unsigned: false }, bin, V::Int(-8_388_608)),
        ("MEDIUMINT UNSIGNED", M::MediumInt { unsigned: true }, bin, V::UInt(16_777_215)),
        ("INT", M::Int { unsigned: false }, bin, V::Int(-2_147_483_648)),
        ("INT UNSIGNED", M::Int { unsigned: true }, bin, V::UInt(4_294_967_295)),
        ("BIGINT", M::BigInt { unsigned: false }, bin, V::Int(i64::MIN)),
        ("BIGINT UNSIGNED", M::BigInt { unsigned: true }, bin, V::UInt(u64::MAX)),
        ("FLOAT", M::Float, bin, V::Float(16_107_050.0)),
        ("DOUBLE", M::Double, bin, V::Double(-2.225_073_858_507_201_4e-308)),
        ("DECIMAL(38,10)", M::Decimal { precision: 38, scale: 10 }, bin, V::DecimalText(b"-1234567890123456789012345678.0123456789")),
        ("DECIMAL(65,30)", M::Decimal { precision: 65, scale: 30 }, bin, V::DecimalText(b"0.000000000000000000000000000001")),
        ("BIT(1)", M::Bit { bits: 1 }, bin, V::Bit(1)),
        ("BIT(9)", M::Bit { bits: 9 }, bin, V::Bit(0x155)),
        ("BIT(64)", M::Bit { bits: 64 }, bin, V::Bit(u64::MAX)),
        ("YEAR", M::Year, bin, V::Year(2155)),
        ("DATE", M::Date, bin, V::Date(date)),
        ("DATETIME", M::DateTime { fsp: 0 }, bin, V::DateTime(DateTime { micros: 0, ..at })),
        ("DATETIME(2)", M::DateTime { fsp: 2 }, bin, V::DateTime(at)),
        ("TIMESTAMP(6)", M::Timestamp { fsp: 6 }, bin, V::Timestamp(ts)),
        ("TIME(1)", M::Time { fsp: 1 }, bin, V::Time(time)),
        ("CHAR(10)", M::Char { max_bytes: 40 }, utf8, text("a \"b\"")),
        ("VARCHAR(300)", M::VarChar { max_bytes: 1200 }, utf8, text("a\tb\\")),
        ("VARCHAR(16384)", M::VarChar { max_bytes: 65_536 }, utf8, text("")),
        ("TINYTEXT", M::Text { length_bytes: 1 }, utf8, text("null")),
        ("TEXT, MEDIUMTEXT, LONGTEXT", M::Text { length_bytes: 4 }, utf8, text("\u{fc} \u{1f388}")),
        ("ENUM('a','b')", M::Enum { labels: labels(), bytes: 1 }, utf8, V::Enum(2)),
        ("SET('a','b')", M::Set { labels: labels(), bytes: 1 }, utf8, V::Set(3)),
        ("BINARY(3)", M::Binary { bytes: 3 }, bin, V::Bytes(b"\x01\xff")),
        ("VARBINARY(20)", M::VarBinary { max_bytes: 20 }, bin, V::Bytes(b"\x01\xff")),
        ("TINYBLOB", M::Blob { length_bytes: 1 }, bin, V::Bytes(b"")),
        ("BLOB, MEDIUMBLOB, LONGBLOB", M::Blob { length_bytes: 4 }, bin, V::Bytes(b"\0")),
        ("JSON", M::Json, bin, V::JsonText(b"{\"a\": [1, 2.50]}")),
        ("GEOMETRY and the like", M::Geometry, bin, V::Geometry(&[0, 0, 0, 0, 1])),
        ("VECTOR", M::Vector, bin, V::Vector(&[0, 0, 0x80, 0x3f])),
        ("UUID (MariaDB)", M::Uuid, bin, V::Uuid([0x12; 16])),
        ("INET4 (MariaDB)", M::Inet4, bin, V::Inet4([127, 0, 0, 1])),
        ("INET6 (MariaDB)", M::Inet6, bin, V::Inet6([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])),
    ];
    all
}

/// The table of docs/types.md, made by the code that it speaks of.
fn page_of_types() -> String {
    let mut out = String::from(
        "| MySQL | Doris | as a key | for example, as JSON | as CSV | CSV with base64 |\n|---|---|---|---|---|---|\n",
    );
    for (name, ty, charset, value) in samples() {
        let schema = |key: bool| {
            let mut schema = schema(ty.clone(), key);
            schema.columns[1].charset = charset;
            schema
        };
        let plain = TargetTable::plan(&schema(false), "d", "t", Mode::Upsert).unwrap();
        let of = |target: &TargetTable| target.columns.iter().find(|c| c.name == "c").unwrap().doris_type.to_string();
        let key =
            TargetTable::plan(&schema(true), "d", "t", Mode::Upsert).map_or_else(|_| "refused".to_owned(), |t| of(&t));
        let field = |format, binary| {
            let options = EncodeOptions { format, binary, ..EncodeOptions::default() };
            let mut encoder = RowEncoder::new(&schema(false), &plain, &options);
            let mut row = Vec::new();
            encoder.encode([ColumnValue::Int(1), value].into_iter().enumerate(), &META, &mut row).unwrap();
            let row = String::from_utf8(row).unwrap();
            match format {
                Format::Json => {
                    let field = row.split_once(r#","c":"#).unwrap().1.split_once(r#","__DORIS"#).unwrap().0;
                    field.to_owned()
                }
                Format::Csv => row.split('\u{1}').nth(2).unwrap().replace('\t', "<tab>"),
            }
        };
        let json = field(Format::Json, Binary::Hex);
        let csv = field(Format::Csv, Binary::Hex);
        let base64 = field(Format::Csv, Binary::Base64);
        let base64 = if base64 == csv { String::new() } else { format!("`{base64}`") };
        let shown = |text: &str| if text.is_empty() { "(empty)".to_owned() } else { format!("`{text}`") };
        out.push_str(&format!("| {name} | {} | {key} | {} | {} | {base64} |\n", of(&plain), shown(&json), shown(&csv)));
    }
    out
}

#[test]
fn the_page_of_types_says_what_the_code_does() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/types.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (begin, end) = ("<!-- made by crates/doris-sink/tests/encode.rs -->\n", "<!-- end -->");
    let (before, rest) = page.split_once(begin).unwrap();
    let (table, after) = rest.split_once(end).unwrap();
    let made = page_of_types();
    if std::env::var_os("MILLSTREAM_BLESS").is_some() {
        std::fs::write(path, format!("{before}{begin}{made}{end}{after}")).unwrap();
    } else {
        assert_eq!(
            table, made,
            "after a change of the mapping: MILLSTREAM_BLESS=1 cargo test -p millstream-doris-sink --test encode"
        );
    }
}

/// Rows of CSV for both modes, with the key first and with the key last, field by field as the header names them.
#[test]
fn rows_of_csv_have_the_order_of_their_header() {
    let text = |text: &'static str| ColumnValue::Text { bytes: text.as_bytes(), charset: Charset::Utf8mb4 };
    let options = EncodeOptions { format: Format::Csv, ..EncodeOptions::default() };
    for (key, mode, header, row) in [
        (false, Mode::Upsert, "`__DORIS_DELETE_SIGN__`,`id`,`c`,`__DORIS_SEQUENCE_COL__`", "1|1|x\r|5~"),
        (true, Mode::Upsert, "`__DORIS_DELETE_SIGN__`,`id`,`c`,`__DORIS_SEQUENCE_COL__`", "1|1|x\r|5~"),
        (
            false,
            Mode::Append,
            "`_ms_op`,`_ms_gtid`,`_ms_file`,`_ms_pos`,`_ms_row`,`_ms_ts`,`id`,`c`,`_ms_seq`",
            "d|\\N|b.1|4|0|\\N|1|x\r|5~",
        ),
    ] {
        let mut schema = schema(ColumnType::VarChar { max_bytes: 40 }, key);
        schema.columns[1].charset = Charset::Utf8mb4;
        let target = TargetTable::plan(&schema, "d", "t", mode).unwrap();
        let mut encoder = RowEncoder::new(&schema, &target, &options);
        assert_eq!(encoder.columns_header(&target), header);
        let meta = RowMeta { op: Op::Delete, ..META };
        let mut out = Vec::new();
        let span = encoder.encode([ColumnValue::Int(1), text("x\r")].into_iter().enumerate(), &meta, &mut out).unwrap();
        let shown = String::from_utf8(out.clone()).unwrap().replace('\u{1}', "|").replace('\u{2}', "~");
        assert_eq!(shown, row);
        // Rows of one key have one span, and others another.
        if mode == Mode::Upsert {
            let other = text(if key { "y" } else { "z" });
            let id = ColumnValue::Int(if key { 1 } else { 2 });
            let mut again = Vec::new();
            let same =
                encoder.encode([ColumnValue::Int(1), text("x\r")].into_iter().enumerate(), &META, &mut again).unwrap();
            assert_eq!(out[span.range()], again[same.range()]);
            again.clear();
            let differs = encoder.encode([id, other].into_iter().enumerate(), &META, &mut again).unwrap();
            assert_ne!(out[span.range()], again[differs.range()]);
        }
        // What CSV cannot carry is an error that says so, and leaves nothing behind.
        for bad in ["\\N", "a\u{1}", "\u{2}"] {
            let mut out = b"before".to_vec();
            let values = [ColumnValue::Int(1), text(bad)];
            let error = encoder.encode(values.into_iter().enumerate(), &META, &mut out).unwrap_err().to_string();
            assert!(error.contains("sink.format = \"json\"") && error.contains("`c`"), "{error}");
            assert_eq!(out, b"before");
        }
    }
}
