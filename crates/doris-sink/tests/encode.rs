//! A row of the binlog and the same row of a SELECT give the same bytes, in loads and in change events.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

use millstream_binlog::value::{Decimal, JsonBinary};
use millstream_binlog::{Charset, Column, ColumnType, ColumnValue, TableSchema};
use millstream_doris_sink::{Batch, EncodeOptions, EventEncoder, Mode, Op, RowEncoder, RowMeta, TargetTable};
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
