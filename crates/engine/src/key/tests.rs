use core::cmp::Ordering;

use proptest::prelude::*;

use millstream_binlog::{Column, ColumnType};

use super::*;

fn column(name: &str, ty: ColumnType, charset: Charset, collation: u16) -> Column {
    Column { name: name.to_owned(), ty, nullable: false, charset, collation }
}

fn plain(name: &str, ty: ColumnType) -> Column {
    column(name, ty, Charset::Binary, 63)
}

fn table(columns: Vec<Column>) -> TableSchema {
    let key = (0..columns.len()).collect();
    TableSchema { database: "d".to_owned(), table: "t".to_owned(), columns, key }
}

/// One of each padding: weights of one byte, of two, and of two without padding.
fn collations() -> Collations {
    let mut collations = Collations::default();
    collations.insert(8, Collation::new("latin1_swedish_ci", Some(b" ")).unwrap());
    collations.insert(45, Collation::new("utf8mb4_general_ci", Some(b"\0 ")).unwrap());
    collations.insert(255, Collation::new("utf8mb4_0900_ai_ci", None).unwrap());
    collations
}

fn key(order: &[u8]) -> Key {
    order.into()
}

fn codec(columns: Vec<Column>) -> KeyCodec {
    KeyCodec::new(&table(columns), &collations()).unwrap()
}

fn encoded(codec: &KeyCodec, values: &[ColumnValue<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    codec.encode_parts(values.iter().copied(), &mut out).unwrap();
    out
}

fn dates() -> impl Strategy<Value = Date> {
    (0..=9999_u16, 0..=12_u8, 0..=31_u8).prop_map(|(year, month, day)| Date { year, month, day })
}

fn datetimes() -> impl Strategy<Value = DateTime> {
    (dates(), 0..=23_u8, 0..=59_u8, 0..=59_u8, 0..=999_999_u32)
        .prop_map(|(date, hour, minute, second, micros)| DateTime { date, hour, minute, second, micros })
}

/// DECIMAL(20,4) as a number of ten-thousandths.
fn decimals() -> impl Strategy<Value = i128> {
    -99_999_999_999_999_999_999_i128..=99_999_999_999_999_999_999
}

fn decimal_text(n: i128) -> String {
    let sign = if n < 0 { "-" } else { "" };
    let n = n.unsigned_abs();
    format!("{sign}{}.{:04}", n / 10_000, n % 10_000)
}

/// Microseconds of a TIME(6).
fn times() -> impl Strategy<Value = i64> {
    -3_020_399_000_000..=3_020_399_000_000_i64
}

fn time(micros: i64) -> Time {
    let (rest, negative) = (micros.unsigned_abs(), micros < 0);
    let part = |unit: u64, count: u64| u32::try_from(rest / unit % count).unwrap();
    Time {
        negative,
        hours: u16::try_from(rest / 3_600_000_000).unwrap(),
        minutes: u8::try_from(part(60_000_000, 60)).unwrap(),
        seconds: u8::try_from(part(1_000_000, 60)).unwrap(),
        micros: part(1, 1_000_000),
    }
}

fn short_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0, 1, 32, 97, 255]), 0..12)
}

proptest! {
    #[test]
    fn integers_order(a in any::<i64>(), b in any::<i64>(), c in any::<u64>(), d in any::<u64>()) {
        for (bytes, make) in [
            (1, (|unsigned| ColumnType::TinyInt { unsigned }) as fn(bool) -> ColumnType),
            (2, |unsigned| ColumnType::SmallInt { unsigned }),
            (3, |unsigned| ColumnType::MediumInt { unsigned }),
            (4, |unsigned| ColumnType::Int { unsigned }),
            (8, |unsigned| ColumnType::BigInt { unsigned }),
        ] {
            let shift = 64 - 8 * bytes;
            let signed = codec(vec![plain("k", make(false))]);
            let (a, b) = (a >> shift, b >> shift);
            let (ea, eb) = (encoded(&signed, &[ColumnValue::Int(a)]), encoded(&signed, &[ColumnValue::Int(b)]));
            prop_assert_eq!(ea.cmp(&eb), a.cmp(&b));
            prop_assert_eq!(ea.len(), bytes);
            prop_assert_eq!(signed.decode(&key(&ea)).unwrap(), vec![KeyValue::Int(a)]);
            let unsigned = codec(vec![plain("k", make(true))]);
            let (c, d) = (c >> shift, d >> shift);
            let (ec, ed) = (encoded(&unsigned, &[ColumnValue::UInt(c)]), encoded(&unsigned, &[ColumnValue::UInt(d)]));
            prop_assert_eq!(ec.cmp(&ed), c.cmp(&d));
            prop_assert_eq!(unsigned.decode(&key(&ec)).unwrap(), vec![KeyValue::UInt(c)]);
        }
    }

    #[test]
    fn decimals_order_and_both_sources_agree(a in decimals(), b in decimals()) {
        let codec = codec(vec![plain("k", ColumnType::Decimal { precision: 24, scale: 4 })]);
        let (ta, tb) = (decimal_text(a), decimal_text(b));
        let ea = encoded(&codec, &[ColumnValue::DecimalText(ta.as_bytes())]);
        let eb = encoded(&codec, &[ColumnValue::DecimalText(tb.as_bytes())]);
        prop_assert_eq!(ea.cmp(&eb), a.cmp(&b));
        prop_assert_eq!(codec.decode(&key(&ea)).unwrap(), vec![KeyValue::Decimal(ta)]);
        // The packed form is the server's own, so what the log carries encodes to the same bytes.
        let packed = ColumnValue::Decimal { bytes: &ea, precision: 24, scale: 4 };
        prop_assert_eq!(encoded(&codec, &[packed]), ea);
    }

    #[test]
    fn times_order(a in datetimes(), b in datetimes(), s in 0..1_u64 << 40, t in 0..1_u64 << 40) {
        let date = codec(vec![plain("k", ColumnType::Date)]);
        let (x, y) = (encoded(&date, &[ColumnValue::Date(a.date)]), encoded(&date, &[ColumnValue::Date(b.date)]));
        prop_assert_eq!(x.cmp(&y), a.date.cmp(&b.date));
        prop_assert_eq!(date.decode(&key(&x)).unwrap(), vec![KeyValue::Date(a.date)]);
        let datetime = codec(vec![plain("k", ColumnType::DateTime { fsp: 6 })]);
        let (x, y) = (encoded(&datetime, &[ColumnValue::DateTime(a)]), encoded(&datetime, &[ColumnValue::DateTime(b)]));
        prop_assert_eq!(x.cmp(&y), a.cmp(&b));
        prop_assert_eq!(datetime.decode(&key(&x)).unwrap(), vec![KeyValue::DateTime(a)]);
        let stamp = codec(vec![plain("k", ColumnType::Timestamp { fsp: 6 })]);
        let a = Timestamp { seconds: s, micros: a.micros };
        let b = Timestamp { seconds: t, micros: b.micros };
        let (x, y) = (encoded(&stamp, &[ColumnValue::Timestamp(a)]), encoded(&stamp, &[ColumnValue::Timestamp(b)]));
        prop_assert_eq!(x.cmp(&y), a.cmp(&b));
        prop_assert_eq!(stamp.decode(&key(&x)).unwrap(), vec![KeyValue::Timestamp(a)]);
    }

    #[test]
    fn small_numbers_and_clocks_order(
        a in any::<u16>(), b in any::<u16>(), c in any::<u64>(), d in any::<u64>(), t in times(), u in times(),
    ) {
        let labels: std::sync::Arc<[String]> = vec![String::new(); 4096].into();
        let (e, f) = (a % 4097, b % 4097);
        let set = ColumnType::Set { labels: vec![String::new(); 12].into(), bytes: 2 };
        for (ty, x, y, order) in [
            (ColumnType::Year, KeyValue::Year(a), KeyValue::Year(b), a.cmp(&b)),
            (ColumnType::Enum { labels, bytes: 2 }, KeyValue::Enum(e), KeyValue::Enum(f), e.cmp(&f)),
            (set, KeyValue::Set(u64::from(a % 4096)), KeyValue::Set(u64::from(b % 4096)), (a % 4096).cmp(&(b % 4096))),
            (ColumnType::Bit { bits: 64 }, KeyValue::Bit(c), KeyValue::Bit(d), c.cmp(&d)),
            (ColumnType::Bit { bits: 9 }, KeyValue::Bit(c >> 55), KeyValue::Bit(d >> 55), (c >> 55).cmp(&(d >> 55))),
            (ColumnType::Time { fsp: 6 }, KeyValue::Time(time(t)), KeyValue::Time(time(u)), t.cmp(&u)),
        ] {
            let codec = codec(vec![plain("k", ty)]);
            let (ex, ey) = (encoded(&codec, &[x.as_value()]), encoded(&codec, &[y.as_value()]));
            prop_assert_eq!(ex.cmp(&ey), order, "{:?} {:?}", x, y);
            prop_assert_eq!(codec.decode(&key(&ex)).unwrap(), vec![x]);
        }
    }

    #[test]
    fn composites_order_part_by_part(
        a in (short_bytes(), short_bytes(), -3..3_i64),
        b in (short_bytes(), short_bytes(), -3..3_i64),
    ) {
        let codec = codec(vec![
            column("v", ColumnType::VarChar { max_bytes: 40 }, Charset::Latin1, 47),
            plain("b", ColumnType::VarBinary { max_bytes: 40 }),
            plain("i", ColumnType::Int { unsigned: false }),
        ]);
        let values = |(t, v, i): &(Vec<u8>, Vec<u8>, i64)| -> Vec<u8> {
            encoded(&codec, &[
                ColumnValue::Text { bytes: t, charset: Charset::Latin1 },
                ColumnValue::Bytes(v),
                ColumnValue::Int(*i),
            ])
        };
        let padded = |s: &[u8]| s.iter().copied().chain(core::iter::repeat(b' ')).take(12).collect::<Vec<u8>>();
        let want = padded(&a.0).cmp(&padded(&b.0)).then_with(|| a.1.cmp(&b.1)).then_with(|| a.2.cmp(&b.2));
        prop_assert_eq!(values(&a).cmp(&values(&b)), want);
        let decoded = codec.decode(&key(&values(&a))).unwrap();
        let again: Vec<ColumnValue<'_>> = decoded.iter().map(KeyValue::as_value).collect();
        prop_assert_eq!(encoded(&codec, &again), values(&a));
    }

    #[test]
    fn odd_bytes_are_an_error_or_a_key(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        for ty in [
            ColumnType::Date,
            ColumnType::DateTime { fsp: 0 },
            ColumnType::Timestamp { fsp: 0 },
            ColumnType::Decimal { precision: 11, scale: 10 },
            ColumnType::VarBinary { max_bytes: 9 },
            ColumnType::Time { fsp: 0 },
            ColumnType::Enum { labels: vec![String::new(); 3].into(), bytes: 1 },
            ColumnType::Set { labels: vec![String::new(); 3].into(), bytes: 1 },
        ] {
            let codec = codec(vec![plain("k", ty)]);
            if let Ok(values) = codec.decode(&key(&bytes)) {
                let _ = codec.literals(&key(&bytes)).unwrap();
                let values: Vec<ColumnValue<'_>> = values.iter().map(KeyValue::as_value).collect();
                let mut again = Vec::new();
                drop(codec.encode_parts(values, &mut again));
            }
        }
    }
}

#[test]
fn binary_is_padded_to_its_length_from_either_source() {
    let codec = codec(vec![plain("k", ColumnType::Binary { bytes: 4 })]);
    // The log strips trailing zeros, a result row does not.
    assert_eq!(encoded(&codec, &[ColumnValue::Bytes(&[7])]), [7, 0, 0, 0]);
    assert_eq!(encoded(&codec, &[ColumnValue::Bytes(&[7, 0, 0, 0])]), [7, 0, 0, 0]);
    assert_eq!(codec.literals(&key(&[7, 0, 0, 0])).unwrap(), ["X'07000000'"]);
    assert!(codec.encode_parts([ColumnValue::Bytes(&[1, 2, 3, 4, 5])], &mut Vec::new()).is_err());
}

#[test]
fn no_pad_text_counts_its_trailing_spaces() {
    let text = |bytes| ColumnValue::Text { bytes, charset: Charset::Utf8mb4 };
    let no_pad = codec(vec![column("k", ColumnType::VarChar { max_bytes: 40 }, Charset::Utf8mb4, 309)]);
    assert_eq!(encoded(&no_pad, &[text(b"a")]).cmp(&encoded(&no_pad, &[text(b"a ")])), Ordering::Less);
    let pad = codec(vec![column("k", ColumnType::VarChar { max_bytes: 40 }, Charset::Utf8mb4, 46)]);
    assert_eq!(encoded(&pad, &[text(b"a")]), encoded(&pad, &[text(b"a ")]));
}

#[test]
fn a_failed_part_leaves_the_buffer_as_it_was() {
    let codec = codec(vec![
        plain("a", ColumnType::Int { unsigned: false }),
        plain("b", ColumnType::TinyInt { unsigned: true }),
    ]);
    for (values, want) in [
        (vec![ColumnValue::Int(1), ColumnValue::Null], "key column b is NULL"),
        (vec![ColumnValue::Int(1)], "key column b is absent"),
        (vec![ColumnValue::Int(1), ColumnValue::UInt(256)], "key column b is outside the column's range"),
        (vec![ColumnValue::UInt(1), ColumnValue::UInt(2)], "key column a does not have the column's type"),
        (vec![ColumnValue::Int(1 << 31), ColumnValue::UInt(2)], "key column a is outside the column's range"),
    ] {
        let mut out = vec![9];
        assert_eq!(codec.encode_parts(values, &mut out).unwrap_err().to_string(), want);
        assert_eq!(out, [9]);
    }
    assert_eq!(codec.ordinals().collect::<Vec<_>>(), [0, 1]);
    assert_eq!(codec.names().collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn unsupported_keys_are_named_with_their_reason() {
    let varchar = ColumnType::VarChar { max_bytes: 40 };
    for (column, want) in [
        (plain("k", ColumnType::Float), "key column k is a floating-point number"),
        (plain("k", ColumnType::Double), "key column k is a floating-point number"),
        (
            plain("k", ColumnType::Set { labels: vec![String::new(); 13].into(), bytes: 2 }),
            "key column k is a SET of more",
        ),
        (plain("k", ColumnType::Text { length_bytes: 2 }), "key column k is TEXT"),
        (
            column("k", varchar.clone(), Charset::Utf8mb4, 256),
            "key column k is text of a collation that has no plain weights",
        ),
        (column("k", varchar, Charset::Utf8mb4, 0), "key column k is text of a collation that has no plain weights"),
    ] {
        let e = KeyCodec::new(&table(vec![column]), &collations()).unwrap_err();
        assert!(e.to_string().starts_with(&format!("d.t: {want}")), "{e}");
        assert!(e.to_string().contains("\"!d.t\" in source.tables"));
        assert_eq!((e.table(), e.column()), ("d.t", Some("k")));
    }
    let mut none = table(vec![plain("k", ColumnType::Date)]);
    none.key.clear();
    assert!(
        KeyCodec::new(&none, &collations())
            .unwrap_err()
            .to_string()
            .starts_with("d.t has no primary key and no unique key")
    );
    none.key = vec![5];
    assert!(KeyCodec::new(&none, &collations()).is_err());
}

#[test]
fn a_negative_zero_is_zero() {
    let codec = codec(vec![plain("k", ColumnType::Decimal { precision: 4, scale: 2 })]);
    for value in [
        ColumnValue::DecimalText(b"-0.00"),
        ColumnValue::DecimalText(b"0"),
        ColumnValue::Decimal { bytes: &[0x7f, 0xff], precision: 4, scale: 2 },
        ColumnValue::Decimal { bytes: &[0x80, 0], precision: 4, scale: 2 },
    ] {
        assert_eq!(encoded(&codec, &[value]), [0x80, 0]);
    }
    assert_eq!(codec.literals(&key(&[0x7f, 0xfe])).unwrap(), ["-0.01"]);
}

#[test]
fn weighed_text_orders_by_its_weights_and_keeps_its_spelling() {
    let varchar = || ColumnType::VarChar { max_bytes: 40 };
    // Capitals stand for weights: letters of both cases weigh the same.
    let weight = |text: &[u8], wide: bool| -> Vec<u8> {
        text.to_ascii_uppercase().into_iter().flat_map(|b| if wide { vec![0, b] } else { vec![b] }).collect()
    };
    for (collation, charset, wide, pads) in
        [(8, Charset::Latin1, false, true), (45, Charset::Utf8mb4, true, true), (255, Charset::Utf8mb4, true, false)]
    {
        let codec =
            codec(vec![column("k", varchar(), charset, collation), plain("n", ColumnType::TinyInt { unsigned: true })]);
        let encode = |text: &'static [u8], n| {
            let value =
                move |i| Some(if i == 0 { ColumnValue::Text { bytes: text, charset } } else { ColumnValue::UInt(n) });
            let (mut out, weight) = (Vec::new(), weight(text, wide));
            codec.encode(value, |_, _| Some(&weight), &mut out).unwrap();
            codec.bound(&out, value)
        };
        let mut sorted: Vec<&[u8]> = vec![b"", b"a\t", b"a", b"A!", b"ab", b"b\0", b"b"];
        if !pads {
            sorted = vec![b"", b"a", b"a\t", b"A!", b"ab", b"b", b"b\0"];
        }
        for pair in sorted.windows(2) {
            assert!(encode(pair[0], 255) < encode(pair[1], 0), "{collation} {pair:?}");
        }
        assert_eq!(encode(b"a", 1), encode(b"A", 1));
        assert_eq!(encode(b"a", 1) == encode(b"a  ", 1), pads, "{collation}");
        let bound = encode(b"a'", 7);
        let want = [KeyValue::Text { bytes: b"a'".to_vec(), charset }, KeyValue::UInt(7)];
        assert_eq!(codec.decode(&bound).unwrap(), want);
        assert_eq!(codec.literals(&bound).unwrap(), [format!("_{charset} X'6127'"), "7".to_owned()]);
        // Without its text a bound cannot be named.
        assert!(codec.decode(&key(&bound)).is_err());
        let unweighed =
            codec.encode_parts([ColumnValue::Text { bytes: b"a", charset }, ColumnValue::UInt(1)], &mut Vec::new());
        assert_eq!(unweighed.unwrap_err().to_string(), "key column k has no weight");
        assert_eq!(codec.weighed().map(|w| (w.ordinal, w.collation)).collect::<Vec<_>>(), [(0, collation)]);
    }
    assert_eq!(Collation::new("odd", Some(b"")), None);
}
