//! Partial updates of JSON columns give the documents that the server has.

use std::collections::HashMap;

use millstream_binlog::event::EventBody;
use millstream_binlog::value::{JsonDiffError, JsonDiffs, JsonOperation};
use millstream_binlog::{
    BinlogFile, ColumnValue, CompleteError, DecoderOptions, EventDecoder, JsonBinary, Row, RowChange, TableSchema,
};

use crate::common::{LIMIT, corpus, fixtures};

/// Calls `f` for every row change of a log.
pub(crate) fn changes(log: &[u8], mut f: impl FnMut(RowChange<'_, '_>)) {
    let mut file = BinlogFile::new(log, LIMIT).unwrap();
    let mut decoder = EventDecoder::new(DecoderOptions::default());
    let mut maps: HashMap<u64, TableSchema> = HashMap::new();
    while let Some(raw) = file.next().unwrap() {
        match decoder.decode(raw.bytes).unwrap().body {
            EventBody::TableMap(map) => drop(maps.insert(map.table_id, map.schema().unwrap())),
            EventBody::Rows(rows) => rows.rows(&maps[&rows.table_id]).for_each(|change| f(change.unwrap())),
            _ => {}
        }
    }
}

fn json_text(document: JsonBinary<'_>) -> String {
    let mut out = Vec::new();
    document.write_to(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Every column as text, JSON as the server prints it.
fn texts(row: Row<'_, '_>) -> Vec<String> {
    let text = |value| match value {
        ColumnValue::Json(document) => json_text(document),
        value => format!("{value:?}"),
    };
    row.values().map(|(_, value)| text(value)).collect()
}

fn fixture(name: &str) -> Vec<u8> {
    fixtures().into_iter().find(|(n, _)| n == name).unwrap().1
}

/// The server logs its own document as the before image of the next change: what the differences led to must be that.
///
/// Conformance: E8
/// Bug: 50, 59
#[test]
fn completed_rows_are_what_the_server_has_next() {
    for (name, least) in [("partial-json-fullimage", 6), ("partial-json-many", 38)] {
        let mut rows: HashMap<String, Vec<String>> = HashMap::new();
        let (mut partial, mut compared) = (0, 0);
        let mut buffer = Vec::new();
        changes(&fixture(name), |change| match change {
            RowChange::Insert(row) => {
                let row = texts(row);
                rows.insert(row[0].clone(), row);
            }
            RowChange::Update { before, after } => {
                partial += usize::from(after.is_partial());
                let after = after.complete(&before, &mut buffer).unwrap();
                assert!(!after.is_partial() && after.is_full());
                let (before, after) = (texts(before), texts(after));
                assert_eq!(rows.remove(&before[0]).unwrap(), before, "{name}");
                rows.insert(after[0].clone(), after);
                compared += 1;
            }
            RowChange::Delete(row) => {
                let row = texts(row);
                assert_eq!(rows.remove(&row[0]).unwrap(), row, "{name}");
                compared += 1;
            }
        });
        println!("{name}: {partial} partial updates, {compared} rows compared");
        assert!(partial >= least && compared >= least, "{name}: {partial}, {compared}");
    }
}

#[test]
fn differences_are_those_that_mysqlbinlog_lists() {
    let mut all = Vec::new();
    changes(&fixture("partial-json-fullimage"), |change| {
        let RowChange::Update { after, .. } = change else { return };
        for (i, value) in after.values() {
            if let ColumnValue::JsonDiffs(diffs) = value {
                let mut out = Vec::new();
                diffs.write_to(&mut out).unwrap();
                all.push(format!("@{} {}", i + 1, String::from_utf8(out).unwrap()));
            }
        }
    });
    assert_eq!(all, DIFFERENCES);
}

/// Nothing: the column did not change, or (the last @2) is NULL before and after.
const DIFFERENCES: &[&str] = &[
    r#"@2 [{"op": "replace", "path": "$.id", "value": 2}]"#,
    "@3 []",
    r#"@2 [{"op": "replace", "path": "$.id", "value": 3}, {"op": "insert", "path": "$.star", "value": 5}]"#,
    "@3 []",
    r#"@2 [{"op": "remove", "path": "$.arr[1]"}]"#,
    r#"@2 [{"op": "replace", "path": "$.name", "value": "x"}]"#,
    "@3 []",
    "@3 []",
    "@2 []",
    "@3 []",
    "@3 []",
];

/// Without the document nothing can be applied: MINIMAL and NOBLOB leave it out.
///
/// Conformance: E7, E8
#[test]
fn without_the_document_the_column_is_named() {
    let Some(dir) = corpus("generated/mysql-9.7.4") else { return };
    let log = std::fs::read(dir.join("partial-json-minimalimage.bin")).unwrap();
    let mut refused = 0;
    changes(&log, |change| {
        let RowChange::Update { before, after } = change else { return };
        if after.is_partial() {
            let e = after.complete(&before, &mut Vec::new()).unwrap_err();
            assert!(matches!(e, CompleteError::Absent { column: 1 | 2 }), "{e}");
            assert!(e.to_string().contains("the before image does not have it"), "{e}");
            refused += 1;
        }
    });
    assert!(refused >= 4, "{refused}");
}

fn lenenc(bytes: &[u8]) -> Vec<u8> {
    let mut out = match bytes.len() {
        n @ 0..=250 => vec![u8::try_from(n).unwrap()],
        n => [&[0xfe][..], &(n as u64).to_le_bytes()].concat(),
    };
    out.extend_from_slice(bytes);
    out
}

fn diff(operation: JsonOperation, path: &str, value: &[u8]) -> Vec<u8> {
    let (op, value) = match operation {
        JsonOperation::Replace => (0, lenenc(value)),
        JsonOperation::Insert => (1, lenenc(value)),
        JsonOperation::Remove => (2, Vec::new()),
    };
    [&[op][..], &lenenc(path.as_bytes()), &value].concat()
}

/// A document that is taken apart and put together again has the server's own bytes.
///
/// Bug: 47, 48, 49
#[test]
fn documents_are_written_with_the_servers_bytes() {
    let Some(dir) = corpus("generated/mysql-9.7.4") else { return };
    let (mut containers, mut bytes, mut large) = (0, 0, 0);
    for log in ["types-with-final-state.bin", "types-full-fullmeta.bin", "partial-json-fullimage.bin"] {
        changes(&std::fs::read(dir.join(log)).unwrap(), |change| {
            let RowChange::Insert(row) = change else { return };
            for (_, value) in row.values() {
                let ColumnValue::Json(document) = value else { continue };
                // In and out again.
                let path = match document.bytes.first() {
                    Some(0 | 1) => "$.\"not there\"",
                    Some(2 | 3) => "$[0]",
                    _ => continue,
                };
                let diffs =
                    [diff(JsonOperation::Insert, path, &[4, 0]), diff(JsonOperation::Remove, path, &[])].concat();
                let mut out = b"kept".to_vec();
                JsonDiffs { bytes: &diffs }.apply(document, &mut out).unwrap();
                assert_eq!(out.strip_prefix(b"kept"), Some(document.bytes), "{}", json_text(document));
                containers += 1;
                bytes += document.bytes.len();
                large += usize::from(matches!(document.bytes[0], 1 | 3));
            }
        });
    }
    println!("{containers} documents, {large} large, {bytes} bytes equal");
    assert!(containers > 20 && large > 0 && bytes > 64 << 10, "{containers} {large} {bytes}");
}

/// `{"a": [1, 2], "b": {}}`
const DOCUMENT: &[u8] = &[
    0, 2, 0, 34, 0, 18, 0, 1, 0, 19, 0, 1, 0, 2, 20, 0, 0, 30, 0, b'a', b'b', 2, 0, 10, 0, 5, 1, 0, 5, 2, 0, 0, 0, 4, 0,
];

#[test]
fn operations() {
    use JsonOperation::{Insert, Remove, Replace};
    assert_eq!(json_text(JsonBinary { bytes: DOCUMENT }), r#"{"a": [1, 2], "b": {}}"#);
    for (operation, path, expected) in [
        (Replace, "$.a", Some(r#"{"a": true, "b": {}}"#)),
        (Replace, "$.a[1]", Some(r#"{"a": [1, true], "b": {}}"#)),
        (Replace, "$.a[last]", Some(r#"{"a": [1, true], "b": {}}"#)),
        (Replace, "$.a[last-1]", Some(r#"{"a": [true, 2], "b": {}}"#)),
        (Insert, "$.c", Some(r#"{"a": [1, 2], "b": {}, "c": true}"#)),
        (Insert, "$.b.\"x y\"", Some(r#"{"a": [1, 2], "b": {"x y": true}}"#)),
        (Insert, "$.a[0]", Some(r#"{"a": [true, 1, 2], "b": {}}"#)),
        (Insert, "$.a[9]", Some(r#"{"a": [1, 2, true], "b": {}}"#)),
        (Insert, "$.a[last]", Some(r#"{"a": [1, true, 2], "b": {}}"#)),
        (Insert, "$.a[last-9]", Some(r#"{"a": [true, 1, 2], "b": {}}"#)),
        (Remove, "$.a", Some(r#"{"b": {}}"#)),
        (Remove, "$.a[0]", Some(r#"{"a": [2], "b": {}}"#)),
        // The server changes whole documents otherwise, and never through what is not there.
        (Replace, "$", None),
        (Insert, "$", None),
        (Remove, "$", None),
        (Replace, "$.c", None),
        (Replace, "$.a[2]", None),
        (Replace, "$.b[0]", None),
        (Replace, "$.a[0][0]", None),
        (Insert, "$.a", None),
        (Insert, "$.c.d", None),
        (Insert, "$.b[0]", None),
        (Insert, "$.a.x", None),
        (Remove, "$.c", None),
        (Remove, "$.a[2]", None),
        (Remove, "$.b[0]", None),
    ] {
        let bytes = diff(operation, path, &[4, 1]);
        let mut out = Vec::new();
        let done = JsonDiffs { bytes: &bytes }.apply(JsonBinary { bytes: DOCUMENT }, &mut out);
        match expected {
            Some(text) => {
                assert_eq!(done, Ok(()), "{operation:?} {path}");
                assert_eq!(json_text(JsonBinary { bytes: &out }), text, "{operation:?} {path}");
            }
            None => {
                assert_eq!((done, out.len()), (Err(JsonDiffError::Rejected { diff: 0 }), 0), "{operation:?} {path}")
            }
        }
    }
}

#[test]
fn malformed_differences_are_errors_and_work_is_bounded() {
    let apply = |document: &[u8], bytes: &[u8]| {
        let mut out = Vec::new();
        JsonDiffs { bytes }.apply(JsonBinary { bytes: document }, &mut out).map(|()| out)
    };
    let good = diff(JsonOperation::Insert, "$.c", &[4, 1]);
    for n in 1..good.len() {
        assert!(matches!(apply(DOCUMENT, &good[..n]), Err(JsonDiffError::Malformed(_))), "{n}");
    }
    for bytes in [&[3, 3, b'$', b'.', b'c'][..], &[2, 2, b'$', 0xff], &[2, 3, b'$', b'.', b'*']] {
        assert!(matches!(apply(DOCUMENT, bytes), Err(JsonDiffError::Malformed(_))), "{bytes:?}");
    }
    // Differences that nest a document deeper than it may be.
    let deep = |n: usize| {
        let path = format!("${}", "[0]".repeat(n));
        diff(JsonOperation::Insert, &path, &[2, 0, 0, 4, 0])
    };
    let levels: Vec<u8> = (1..100).flat_map(&deep).collect();
    assert!(apply(&[2, 0, 0, 4, 0], &levels).is_ok());
    let levels: Vec<u8> = (1..102).flat_map(&deep).collect();
    assert!(matches!(apply(&[2, 0, 0, 4, 0], &levels), Err(JsonDiffError::Malformed(_))));
    // Many entries that point at one long text, and many keys in one place.
    let mut array = vec![2];
    array.extend_from_slice(&3000u16.to_le_bytes());
    let text_at = 4 + 3 * 3000u16;
    array.extend_from_slice(&(text_at + 40_002).to_le_bytes());
    (0..3000).for_each(|_| array.extend_from_slice(&[&[0x0c][..], &text_at.to_le_bytes()].concat()));
    array.extend_from_slice(&[0xc0, 0xb8, 2]);
    array.resize(1 + usize::from(text_at) + 40_002, b'a');
    let touch = diff(JsonOperation::Replace, "$[0]", &[4, 1]);
    assert!(matches!(apply(&array, &touch), Err(JsonDiffError::Malformed(_))));
}
