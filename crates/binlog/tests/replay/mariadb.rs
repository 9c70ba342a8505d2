//! What a catalog adds to a log of MariaDB, and what the log says by itself.

use std::collections::HashMap;

use millstream_binlog::event::{EventBody, TableMap};
use millstream_binlog::{
    BinlogFile, Charset, Column, ColumnType, DecoderOptions, Error, EventDecoder, Row, RowChange, TableSchema,
};

use super::common::{LIMIT, corpus, fixtures};
use super::final_state::{cell, final_state};

/// A value as text, that of the final-state files read back.
pub(crate) fn shown(column: &Column, value: millstream_binlog::ColumnValue<'_>) -> String {
    let cell = cell(column, value);
    match cell.strip_prefix('x') {
        Some(hex) => {
            let digits: Vec<_> = hex.as_bytes().chunks(2).map(|d| std::str::from_utf8(d).unwrap()).collect();
            let bytes = digits.into_iter().map(|d| u8::from_str_radix(d, 16).unwrap()).collect();
            String::from_utf8(bytes).unwrap()
        }
        None => cell,
    }
}

fn texts(row: Row<'_, '_>) -> Vec<String> {
    row.values().map(|(i, value)| shown(&row.schema().columns[i], value)).collect()
}

/// Every inserted row of a log by its table, with the schemas that `schema` makes of its maps.
fn inserted(
    log: &[u8],
    mut schema: impl FnMut(&TableMap<'_>) -> Result<TableSchema, Error>,
) -> HashMap<String, Vec<Vec<String>>> {
    let mut file = BinlogFile::new(log, LIMIT).unwrap();
    let mut decoder = EventDecoder::new(DecoderOptions::default());
    let mut maps: HashMap<u64, TableSchema> = HashMap::new();
    let mut rows: HashMap<String, Vec<_>> = HashMap::new();
    while let Some(raw) = file.next().unwrap() {
        match decoder.decode(raw.bytes).unwrap().body {
            EventBody::TableMap(map) => drop(maps.insert(map.table_id, schema(&map).unwrap())),
            EventBody::Rows(event) => {
                let schema = &maps[&event.table_id];
                for change in event.rows(schema) {
                    if let RowChange::Insert(row) = change.unwrap() {
                        rows.entry(schema.table.clone()).or_default().push(texts(row));
                    }
                }
            }
            _ => {}
        }
    }
    rows
}

const TYPES: &[u8] = include_bytes!("../fixtures/catalog/mariadb-types.bin");

fn column(name: &str, ty: ColumnType, nullable: bool, collation: u16) -> Column {
    let charset = Charset::from_collation(collation).unwrap();
    Column { name: name.into(), ty, nullable, charset, collation }
}

fn table(name: &str, columns: Vec<Column>, key: Vec<usize>) -> TableSchema {
    TableSchema { database: "mt".into(), table: name.into(), columns, key }
}

/// As `information_schema` says.
fn catalog(name: &str) -> TableSchema {
    let binary = |name: &str, ty, nullable| column(name, ty, nullable, 63);
    match name {
        "names" => table(
            name,
            vec![
                binary("id", ColumnType::BigInt { unsigned: true }, false),
                binary("u", ColumnType::Uuid, true),
                binary("i4", ColumnType::Inet4, true),
                binary("i6", ColumnType::Inet6, true),
                binary("v", ColumnType::Vector, false),
                column("j", ColumnType::Text { length_bytes: 4 }, true, 46),
            ],
            vec![0],
        ),
        "packed" => table(
            name,
            vec![
                binary("id", ColumnType::Int { unsigned: false }, false),
                column("c", ColumnType::VarChar { max_bytes: 100 }, true, 8),
                column("t", ColumnType::Text { length_bytes: 2 }, true, 2304),
                binary("b", ColumnType::Blob { length_bytes: 2 }, true),
            ],
            vec![0],
        ),
        "plain" => table(
            name,
            vec![
                binary("y", ColumnType::Year, true),
                binary("n", ColumnType::Int { unsigned: true }, false),
                binary("s", ColumnType::Int { unsigned: false }, true),
                binary("d", ColumnType::Decimal { precision: 5, scale: 2 }, true),
                binary("g", ColumnType::Geometry, true),
                column("c", ColumnType::Char { max_bytes: 3 }, true, 8),
                binary("g2", ColumnType::Geometry, true),
                column("w", ColumnType::VarChar { max_bytes: 40 }, false, 2304),
                column("e", ColumnType::Enum { labels: ["x", "é"].map(String::from).into(), bytes: 1 }, true, 8),
                column("st", ColumnType::Set { labels: ["p", "q"].map(String::from).into(), bytes: 1 }, true, 2304),
                binary("hid", ColumnType::Int { unsigned: false }, true),
            ],
            vec![],
        ),
        _ => table(
            name,
            vec![
                binary("id", ColumnType::Int { unsigned: false }, false),
                binary("t0", ColumnType::Time { fsp: 0 }, true),
                binary("t3", ColumnType::Time { fsp: 3 }, true),
                binary("dt0", ColumnType::DateTime { fsp: 0 }, true),
                binary("dt6", ColumnType::DateTime { fsp: 6 }, true),
                binary("ts0", ColumnType::Timestamp { fsp: 0 }, true),
                binary("ts1", ColumnType::Timestamp { fsp: 1 }, true),
            ],
            vec![0],
        ),
    }
}

/// Conformance: E5, V4, V9, V10
/// Bug: 14, 40, 41, 42
#[test]
fn with_the_catalog_every_value_is_the_servers() {
    let rows = inserted(TYPES, |map| map.resolve(&catalog(map.table)));
    let row = |cells: &[&str]| cells.iter().map(ToString::to_string).collect::<Vec<_>>();
    // The server took the texts of the statement for no vectors; the corpus's replay has others.
    let zeros = "0".repeat(16);
    assert_eq!(
        rows["names"],
        [
            row(&[
                "18446744073709551615",
                "123e4567-e89b-12d3-a456-426655440000",
                "10.0.0.0",
                "2001:db8::",
                &zeros,
                r#"{"a": 1}"#,
            ]),
            row(&["1", "00000000-0000-0000-0000-000000000000", "0.0.0.0", "1::2:3:4:5:6:7", &zeros, "[]"]),
            row(&["2", "ffffffff-ffff-7fff-8000-00000000ff00", "1.2.3.4", "::0.1.0.2", &zeros, "\\N"]),
            row(&["3", "\\N", "\\N", "::ffff:10.0.0.0", &zeros, "\\N"]),
        ]
    );
    assert_eq!(
        rows["packed"],
        [
            row(&["1", "é short", "t", "62"]),
            row(&["2", &"é".repeat(100), &"日".repeat(300), &"62".repeat(400)]),
            row(&["3", "", "", ""]),
            row(&["4", "\\N", "\\N", "\\N"]),
        ]
    );
    let plain = &rows["plain"];
    assert_eq!(plain[0][..4], row(&["0000", "4294967295", "-1", "9.50"]));
    assert_eq!(plain[0][5], "é");
    assert_eq!(plain[0][7..], row(&["日本", "é", "p,q", "7"]));
    assert_eq!(plain[1], row(&["2155", "0", "1", "0.00", "\\N", "", "\\N", "", "x", "", "\\N"]));
    assert_eq!(
        rows["old"],
        [
            row(&[
                "1",
                "-838:59:59",
                "-00:00:00.001",
                "2010-00-00 01:02:03",
                "9999-12-31 23:59:59.999999",
                "2038-01-19 03:14:07",
                "1970-01-01 00:00:01.9",
            ]),
            row(&[
                "2",
                "00:00:01",
                "838:59:58.999",
                "0000-00-00 00:00:00",
                "0000-00-00 00:00:00.000000",
                "0000-00-00 00:00:00",
                "0000-00-00 00:00:00.0",
            ]),
            row(&["3", "\\N", "\\N", "\\N", "\\N", "\\N", "\\N"]),
        ]
    );
}

/// Signedness with YEAR among the numbers, character sets with spatial columns counted, names, labels, the key over a prefix.
///
/// Conformance: E5
#[test]
fn full_metadata_of_mariadb_is_the_catalogs() {
    let mut seen = 0;
    let mut file = BinlogFile::new(TYPES, LIMIT).unwrap();
    let mut decoder = EventDecoder::new(DecoderOptions::default());
    while let Some(raw) = file.next().unwrap() {
        let EventBody::TableMap(map) = decoder.decode(raw.bytes).unwrap().body else { continue };
        seen += 1;
        match (map.table, map.schema()) {
            ("plain", schema) => assert_eq!(schema.unwrap(), catalog("plain")),
            ("old", schema) => {
                let e = schema.unwrap_err();
                assert!(e.is_unsupported() && e.to_string().contains("old format without the catalog's word"), "{e}");
            }
            ("packed", schema) => {
                let schema = schema.unwrap();
                let lengths: Vec<_> =
                    schema.columns[1..].iter().map(|c| (c.ty.clone(), c.charset, c.collation)).collect();
                let compressed = |length_bytes| ColumnType::Compressed { length_bytes };
                assert_eq!(
                    lengths,
                    [
                        (compressed(1), Charset::Latin1, 8),
                        (compressed(2), Charset::Utf8mb4, 2304),
                        (compressed(2), Charset::Binary, 63),
                    ]
                );
            }
            (_, schema) => {
                let types: Vec<_> = schema.unwrap().columns.into_iter().map(|c| c.ty).collect();
                let binary = |bytes| ColumnType::Binary { bytes };
                assert_eq!(types[1..5], [binary(16), binary(4), binary(16), ColumnType::VarBinary { max_bytes: 8 }]);
            }
        }
    }
    assert_eq!(seen, 5);
    // Another type in the catalog is a difference.
    let mut wrong = catalog("names");
    wrong.columns[1].ty = ColumnType::Inet4;
    let mut file = BinlogFile::new(TYPES, LIMIT).unwrap();
    while let Some(raw) = file.next().unwrap() {
        let EventBody::TableMap(map) = decoder.decode(raw.bytes).unwrap().body else { continue };
        let e = map.resolve(&wrong).unwrap_err();
        assert_eq!(e.schema_mismatch().unwrap().what, "the type", "{e}");
        break;
    }
}

/// The corpus's old formats with all fractions hold the values of the new ones.
///
/// Conformance: V4
/// Bug: 14
#[test]
fn old_temporal_formats_hold_the_same_values() {
    for server in ["mariadb-10.5.23", "mariadb-10.11.18", "mariadb-11.8.9"] {
        let Some(dir) = corpus(&format!("generated/{server}")) else { return };
        let (names, types, expected) = final_state(&dir.join("types-with-final-state/ms.times.tsv"));
        let log = std::fs::read(dir.join("old-temporal-format.bin")).unwrap();
        let rows = inserted(&log, |map| {
            if map.table != "times" {
                return map.schema();
            }
            let columns = names.iter().zip(&types).map(|(name, ty)| {
                let fsp = ty.split_once('(').and_then(|(_, n)| n.trim_end_matches(')').parse().ok()).unwrap_or(0);
                let ty = match ty.split('(').next().unwrap() {
                    "time" => ColumnType::Time { fsp },
                    "datetime" => ColumnType::DateTime { fsp },
                    "timestamp" => ColumnType::Timestamp { fsp },
                    "date" => ColumnType::Date,
                    _ => ColumnType::Int { unsigned: false },
                };
                column(name, ty, name != "id", 63)
            });
            let schema =
                TableSchema { database: "ms".into(), table: "times".into(), columns: columns.collect(), key: vec![0] };
            map.resolve(&schema)
        });
        assert_eq!(rows["times"], expected, "{server}");
    }
}

/// The hash column of a long unique key is in the images and in no catalog; any other column more is a difference.
///
/// Bug: 40
#[test]
fn the_hidden_hash_column_does_not_stop_a_table() {
    let log = fixtures().into_iter().find(|(name, _)| name == "mariadb-versioned-columns").unwrap().1;
    let mut checked = 0;
    inserted(&log, |map| {
        let schema = map.schema()?;
        if map.table == "lu" {
            let mut catalog = schema.clone();
            assert_eq!(catalog.columns.pop().unwrap().name, "DB_ROW_HASH_1");
            assert_eq!(map.resolve(&catalog).unwrap(), schema);
            catalog.columns.pop();
            assert_eq!(map.resolve(&catalog).unwrap_err().schema_mismatch().unwrap().what, "the number of columns");
            checked += 1;
        }
        Ok(schema)
    });
    assert!(checked > 0);
}
