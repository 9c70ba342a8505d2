//! What other clients got wrong, each as the smallest table and row that shows it: numbers are those of the bug catalogue.

use millstream_binlog::event::{EventBody, RowsEvent};
use millstream_binlog::{ColumnValue, DecoderOptions, Error, EventDecoder, RowChange, TableSchema};

use super::mariadb::shown;

const TABLE_MAP: u8 = 19;
const WRITE: u8 = 30;

fn event(ty: u8, body: &[u8]) -> Vec<u8> {
    let mut raw = vec![0; 19];
    raw[4] = ty;
    raw.extend_from_slice(body);
    let length = u32::try_from(raw.len()).unwrap();
    raw[9..13].copy_from_slice(&length.to_le_bytes());
    raw
}

fn decoder() -> EventDecoder {
    EventDecoder::new(DecoderOptions::default())
}

fn lenenc(n: usize) -> Vec<u8> {
    if n < 251 {
        vec![u8::try_from(n).unwrap()]
    } else {
        [&[0xfc][..], &u16::try_from(n).unwrap().to_le_bytes()].concat()
    }
}

/// A table of nullable columns: types, their metadata, optional metadata as (type, bytes).
fn schema(types: &[u8], meta: &[u8], optional: &[(u8, &[u8])]) -> Result<TableSchema, Error> {
    let mut body = vec![5, 0, 0, 0, 0, 0, 1, 0, 1, b'd', 0, 1, b't', 0];
    body.extend(lenenc(types.len()));
    body.extend_from_slice(types);
    body.extend(lenenc(meta.len()));
    body.extend_from_slice(meta);
    body.extend(vec![0xff; types.len().div_ceil(8)]);
    for (ty, bytes) in optional {
        body.push(*ty);
        body.extend(lenenc(bytes.len()));
        body.extend_from_slice(bytes);
    }
    let raw = event(TABLE_MAP, &body);
    let EventBody::TableMap(map) = decoder().decode(&raw)?.body else { panic!() };
    map.schema()
}

/// WRITE_ROWS with the columns whose bits are in `present`.
fn write(columns: usize, present: &[u8], images: &[u8]) -> Vec<u8> {
    let head = [5, 0, 0, 0, 0, 0, 1, 0, 2, 0];
    event(WRITE, &[&head[..], &lenenc(columns), present, images].concat())
}

fn with_rows<T>(raw: &[u8], look: impl FnOnce(RowsEvent<'_>) -> T) -> T {
    match decoder().decode(raw).unwrap().body {
        EventBody::Rows(rows) => look(rows),
        body => panic!("{body:?}"),
    }
}

/// The cells of inserted rows; an absent column is `-`.
fn cells(schema: &TableSchema, present: &[u8], images: &[u8]) -> Vec<Vec<String>> {
    with_rows(&write(schema.columns.len(), present, images), |rows| {
        let row = |change| {
            let Ok(RowChange::Insert(row)) = change else { panic!("{change:?}") };
            let mut cells = vec![String::from("-"); schema.columns.len()];
            row.values().for_each(|(i, value)| cells[i] = shown(&schema.columns[i], value));
            cells
        };
        rows.rows(schema).map(row).collect()
    })
}

/// One full image.
fn row(schema: &TableSchema, image: &[u8]) -> Vec<String> {
    let full = vec![0xff; schema.columns.len().div_ceil(8)];
    let mut rows = cells(schema, &full, image);
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

/// DATETIME2 of 40 bits, without its fraction.
fn datetime(year: u64, month: u64, day: u64, clock: [u64; 3]) -> [u8; 5] {
    let [hour, minute, second] = clock;
    let v = ((year * 13 + month) << 22 | day << 17 | hour << 12 | minute << 6 | second) + 0x80_0000_0000;
    v.to_be_bytes()[3..].try_into().unwrap()
}

/// Bug: 11, 12, 23, 24, 27, 29, 34, 46
#[test]
fn values() {
    let label = |list: &[&str]| -> Vec<u8> {
        let texts = list.iter().flat_map(|l| [lenenc(l.len()), l.as_bytes().to_vec()].concat());
        [lenenc(list.len()), texts.collect()].concat()
    };
    let two = label(&["a", "b"]);
    let enum_two: &[(u8, &[u8])] = &[(6, &two), (10, &[45])];
    let before_1970 = [&[0][..], &datetime(1969, 12, 31, [23, 59, 59]), &[0x0d, 0xbb, 0xa0]].concat();
    let zero = [&[0, 0x80, 0, 0, 0, 0, 0, 0, 0][..], &7u32.to_le_bytes()].concat();
    let float = [&[0][..], &1.1f32.to_le_bytes()].concat();
    for (bug, types, meta, optional, image, expected) in [
        (11, &[18, 3][..], &[6][..], &[][..], &zero[..], &["0000-00-00 00:00:00.000000", "7"][..]),
        (12, &[18], &[6], &[], &before_1970, &["1969-12-31 23:59:59.900000"]),
        (23, &[254], &[247, 1], enum_two, &[0, 2], &["b"]),
        (24, &[254, 1], &[247, 1], enum_two, &[0, 0, 9], &["", "9"]),
        (27, &[4], &[4], &[], &float, &["1.1"]),
        (29, &[254], &[254, 2], &[(2, &[63])], &[0, 2, 0xff, 0xfe], &["FFFE"]),
        (34, &[1], &[], &[], &[0xff], &["\\N"]),
        (46, &[245, 1], &[4], &[], &[0, 0, 0, 0, 0, 9], &["null", "9"]),
    ] {
        assert_eq!(row(&schema(types, meta, optional).unwrap(), image), expected, "bug {bug}");
    }
    // Numbers that no label has stay numbers.
    let table = schema(&[254], &[247, 1], enum_two).unwrap();
    with_rows(&write(1, &[1], &[0, 200]), |rows| {
        let Some(Ok(RowChange::Insert(row))) = rows.rows(&table).next() else { panic!() };
        assert_eq!(row.value(0), Some(ColumnValue::Enum(200)));
    });
}

/// The index of a collation counts character columns alone, and a bit of signedness numbers alone.
///
/// Bug: 18, 32
#[test]
fn indexes_of_metadata_count_the_columns_that_they_are_about() {
    // INT, VARCHAR latin1, TEXT utf8mb4: the default, then column 0 of the texts.
    let table = schema(&[3, 15, 252], &[10, 0, 2], &[(2, &[45, 0, 8])]).unwrap();
    assert_eq!(row(&table, &[0, 1, 0, 0, 0, 1, 0xe9, 2, 0, 0xc3, 0xa9]), ["1", "é", "é"]);
    // YEAR, VARCHAR, INT UNSIGNED, INT: bits 0, 1, 0 of the numbers.
    let table = schema(&[13, 15, 3, 3], &[10, 0], &[(1, &[0b0100_0000]), (2, &[45])]).unwrap();
    let image = [&[0, 0, 0][..], &[0xff; 8]].concat();
    assert_eq!(row(&table, &image), ["0000", "", "4294967295", "-1"]);
}

/// Bug: 34, 35
#[test]
fn rows_of_only_nulls_are_rows() {
    let table = schema(&[1; 9], &[], &[]).unwrap();
    let nulls = vec![vec!["\\N"; 9]; 3];
    assert_eq!(cells(&table, &[0xff, 1], &[0xff, 1, 0xff, 1, 0xff, 1]), nulls);
}

/// The null bitmap covers present columns, metadata all of them; absent is not NULL.
///
/// Conformance: E7
/// Bug: 25, 36
#[test]
fn an_absent_column_is_not_null() {
    // INT, DECIMAL(5,2), VARCHAR(300), TIME(3), INT; the first and the last two are there.
    let table = schema(&[3, 246, 15, 19, 3], &[5, 2, 0x2c, 1, 3], &[(2, &[45])]).unwrap();
    let time = [0x80, 0, 1, 0x13, 0x88];
    let image = [&[0b100][..], &[1, 0, 0, 0], &time].concat();
    assert_eq!(cells(&table, &[0b1_1001], &image), [["1", "-", "-", "00:00:01.500", "\\N"]]);
    with_rows(&write(5, &[0b1_1001], &image), |rows| {
        assert!(!rows.is_full_image());
        let Some(Ok(RowChange::Insert(row))) = rows.rows(&table).next() else { panic!() };
        assert!(!row.is_full());
        assert_eq!((row.value(1), row.value(4)), (None, Some(ColumnValue::Null)));
        assert_eq!(row.values().count(), 3);
    });
}

/// A row is read with the table map before it: with another number of columns it is an error.
///
/// Bug: 33, 37
#[test]
fn rows_need_the_table_as_it_was() {
    let one = schema(&[3], &[], &[]).unwrap();
    let many = schema(&[1; 300], &[], &[]).unwrap();
    let image = vec![0; 38 + 300];
    assert_eq!(row(&many, &image).len(), 300);
    with_rows(&write(300, &[0xff; 38], &image), |rows| {
        let e = rows.rows(&one).next().unwrap().unwrap_err();
        assert!(e.is_malformed(), "{e}");
    });
}

/// Bug: 38
#[test]
fn types_that_are_not_read_are_named() {
    for (ty, meta, name) in [
        (20, &[15, 10, 0][..], "TYPED_ARRAY column"),
        (0, &[5, 2], "DECIMAL column of before MySQL 5.0"),
        (243, &[], "column type"),
        (200, &[], "column type"),
    ] {
        let e = schema(&[3, ty], meta, &[]).unwrap_err();
        assert!(e.is_unsupported() && e.to_string().contains(name), "{ty}: {e}");
    }
}

/// An invisible column lies among the others, and so it is read.
///
/// Conformance: V11
/// Bug: 39
#[test]
fn invisible_columns_keep_their_places() {
    let names = [1, b'a', 1, b'h', 1, b'z'];
    let table = schema(&[1, 1, 1], &[], &[(4, &names), (12, &[0b1010_0000])]).unwrap();
    assert_eq!(table.columns.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["a", "h", "z"]);
    assert_eq!(row(&table, &[0, 1, 2, 3]), ["1", "2", "3"]);
}

fn json(document: &[u8]) -> Result<String, String> {
    let mut out = Vec::new();
    millstream_binlog::JsonBinary { bytes: document }.write_to(&mut out).map_err(|e| e.to_string())?;
    Ok(String::from_utf8(out).unwrap())
}

/// Bug: 49, 51, 52, 53, 54, 55
#[test]
fn json_texts() {
    let long = "a".repeat(128);
    let long_string = [&[0x0c, 0x80, 1][..], long.as_bytes()].concat();
    let long_text = format!("\"{long}\"");
    // -12:34:56.789 as one number: its sign, then (hours, minutes, seconds) << 24 | microseconds.
    let clock = ((12i64 << 12 | 34 << 6 | 56) << 24) + 789_000;
    let time = [&[0x0f, 11, 8][..], &(-clock).to_le_bytes()].concat();
    let day = (((2024 * 13 + 2) << 5 | 29) << 17) << 24i64;
    let date = [&[0x0f, 10, 8][..], &i64::to_le_bytes(day)].concat();
    let one = [&[0x0b][..], &1f64.to_le_bytes()].concat();
    for (bug, document, text) in [
        (49, &long_string[..], long_text.as_str()),
        (51, &[0x00, 1, 0, 17, 0, 11, 0, 1, 0, 0x0c, 12, 0, b'a', 4, b'b', b'"', b'c', b'\n'], r#"{"a": "b\"c\n"}"#),
        (52, &[0x0c, 3, b'a', 0, b'b'], r#""a\u0000b""#),
        (53, &[0x00, 1, 0, 11, 0, 11, 0, 0, 0, 5, 1, 0], r#"{"": 1}"#),
        (54, &[0x0f, 246, 4, 2, 1, 0x81, 5], "1.5"),
        (54, &time, r#""-12:34:56.789000""#),
        (54, &date, r#""2024-02-29""#),
        (55, &one, "1.0"),
    ] {
        assert_eq!(json(document).as_deref(), Ok(text), "bug {bug}");
    }
}

/// Bug: 56, 58
#[test]
fn a_malformed_document_is_an_error_of_its_value_alone() {
    let table = schema(&[245, 1], &[4], &[]).unwrap();
    let documents: [&[u8]; 5] = [
        &[0x02, 9, 0, 4, 0],
        &[0x00, 1, 0, 99, 0],
        &[0x0c, 2, 0xff, 0xfe],
        &[0x0d],
        &[0x0c, 0x80, 0x80, 0x80, 0x80, 0x80],
    ];
    for document in documents {
        let length = u32::try_from(document.len()).unwrap().to_le_bytes();
        let image = [&[0][..], &length, document, &[9]].concat();
        with_rows(&write(2, &[3], &image), |rows| {
            let Some(Ok(RowChange::Insert(row))) = rows.rows(&table).next() else { panic!() };
            let Some(ColumnValue::Json(json)) = row.value(0) else { panic!() };
            let mut out = Vec::new();
            assert!(json.write_to(&mut out).is_err() && out.is_empty(), "{document:02x?}");
            assert_eq!(row.value(1), Some(ColumnValue::Int(9)));
        });
    }
}

/// Bug: 57
#[test]
fn json_null_is_a_value() {
    let table = schema(&[245], &[4], &[]).unwrap();
    assert_eq!(cells(&table, &[1], &[0, 2, 0, 0, 0, 4, 0, 0xff]), [["null"], ["\\N"]]);
    with_rows(&write(1, &[1], &[0, 2, 0, 0, 0, 4, 0]), |rows| {
        let Some(Ok(RowChange::Insert(row))) = rows.rows(&table).next() else { panic!() };
        assert_ne!(row.value(0), Some(ColumnValue::Null));
    });
}
