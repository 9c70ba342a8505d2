//! Schemas: from a TABLE_MAP alone, and from one checked against the catalog.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::let_underscore_must_use,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod common;

use std::collections::HashMap;

use common::{LIMIT, fixtures};
use millstream_binlog::event::EventBody;
use millstream_binlog::{
    BinlogFile, Charset, ColumnType, ColumnValue, DecoderOptions, Error, EventDecoder, TableSchema,
};

fn log(name: &str) -> Vec<u8> {
    fixtures().into_iter().find(|(n, _)| n == name).unwrap().1
}

/// Runs `f` over the first map of each table.
fn maps(log: &[u8], mut f: impl FnMut(&str, millstream_binlog::event::TableMap<'_>)) {
    let mut decoder = EventDecoder::new(DecoderOptions::default());
    let mut file = BinlogFile::new(log, LIMIT).unwrap();
    let mut seen = std::collections::HashSet::new();
    while let Some(raw) = file.next().unwrap() {
        if let EventBody::TableMap(map) = decoder.decode(raw.bytes).unwrap().body
            && seen.insert(map.table.to_owned())
        {
            f(map.table, map);
        }
    }
    assert_eq!(seen.len(), 4);
}

fn catalog() -> HashMap<String, TableSchema> {
    let mut all = HashMap::new();
    maps(&log("metadata-full"), |table, map| {
        all.insert(table.to_owned(), map.schema().unwrap());
    });
    all
}

#[test]
fn full_metadata_gives_the_whole_schema() {
    let all = catalog();
    let every = &all["every_type"];
    let column = |name: &str| every.columns.iter().find(|c| c.name == name).unwrap();
    assert_eq!((every.database.as_str(), every.columns.len(), every.key.as_slice()), ("m", 44, &[0, 1][..]));
    for (name, ty) in [
        ("id", ColumnType::BigInt { unsigned: true }),
        ("grp", ColumnType::Int { unsigned: false }),
        ("tu", ColumnType::TinyInt { unsigned: true }),
        ("m", ColumnType::MediumInt { unsigned: false }),
        ("mu", ColumnType::MediumInt { unsigned: true }),
        ("y", ColumnType::Year),
        ("de", ColumnType::Decimal { precision: 20, scale: 6 }),
        ("bi", ColumnType::Bit { bits: 9 }),
        ("ti", ColumnType::Time { fsp: 3 }),
        ("dt", ColumnType::DateTime { fsp: 6 }),
        ("ts", ColumnType::Timestamp { fsp: 1 }),
        ("c", ColumnType::Char { max_bytes: 80 }),
        ("c255", ColumnType::Char { max_bytes: 1020 }),
        ("vg", ColumnType::VarChar { max_bytes: 600 }),
        ("mt", ColumnType::Text { length_bytes: 3 }),
        ("bn", ColumnType::Binary { bytes: 16 }),
        ("vb", ColumnType::VarBinary { max_bytes: 300 }),
        ("lb", ColumnType::Blob { length_bytes: 4 }),
        ("e", ColumnType::Enum { labels: ["a", "b", "ü"].map(String::from).into(), bytes: 1 }),
        ("st", ColumnType::Set { labels: ["p", "q", "é"].map(String::from).into(), bytes: 1 }),
        ("j", ColumnType::Json),
        ("g", ColumnType::Geometry),
        ("ve", ColumnType::Vector),
        ("iu2", ColumnType::Int { unsigned: true }),
    ] {
        assert_eq!(column(name).ty, ty, "{name}");
    }
    for (name, charset, collation) in [
        ("c", Charset::Utf8mb4, 255),
        ("cl", Charset::Latin1, 8),
        ("vg", Charset::Gbk, 28),
        ("tx", Charset::Sjis, 13),
        ("lt", Charset::Utf8mb4, 46),
        ("e", Charset::Latin1, 8),
        ("bn", Charset::Binary, 63),
        ("i", Charset::Binary, 63),
    ] {
        assert_eq!((column(name).charset, column(name).collation), (charset, collation), "{name}");
    }
    assert!(!column("id").nullable && column("t").nullable);
    assert_eq!(all["tiny"].key, [0]);
    assert!(all["keyless"].key.is_empty() && all["prefixed"].key.is_empty());
}

/// Bug: 93
#[test]
fn minimal_metadata_resolves_to_the_catalogs_schema() {
    let all = catalog();
    maps(&log("metadata-minimal"), |table, map| {
        let alone = map.schema().unwrap();
        assert_eq!(alone.columns[0].name, "@1");
        assert!(alone.key.is_empty());
        assert_eq!(map.resolve(&all[table]).unwrap(), all[table], "{table}");
    });
    maps(&log("metadata-full"), |table, map| {
        assert_eq!(map.resolve(&all[table]).unwrap(), all[table], "{table}");
    });
}

#[test]
fn every_difference_from_the_catalog_is_named() {
    let all = catalog();
    type Change = fn(&mut TableSchema);
    let full_only: &[(&str, Change, &str)] = &[
        (
            "every_type",
            |t| t.columns[3].name = "other".into(),
            "column 4 (other): the name is tu in the binlog and other",
        ),
        ("every_type", |t| t.key = vec![0], "the primary key is (id, grp) in the binlog and (id) in the catalog"),
        ("keyless", |t| t.key = vec![0], "the primary key is () in the binlog and (a) in the catalog"),
        (
            "every_type",
            |t| t.columns[38].ty = ColumnType::Enum { labels: ["x".into(), "z".into()].into(), bytes: 1 },
            "column 39 (e2): the type is ENUM('x','y') in the binlog and ENUM('x','z') in the catalog",
        ),
        (
            "every_type",
            |t| (t.columns[37].collation, t.columns[37].charset) = (255, Charset::Utf8mb4),
            "column 38 (e): the collation id is 8 in the binlog and 255",
        ),
    ];
    let always: &[(&str, Change, &str)] = &[
        (
            "tiny",
            |t| t.columns.push(t.columns[0].clone()),
            "the number of columns is 1 in the binlog and 2 in the catalog",
        ),
        (
            "every_type",
            |t| t.columns[3].ty = ColumnType::TinyInt { unsigned: false },
            "column 4 (tu): the type is TINYINT UNSIGNED in the binlog and TINYINT in the catalog",
        ),
        (
            "every_type",
            |t| t.columns[25].ty = ColumnType::VarChar { max_bytes: 80 },
            "column 26 (v): the type is VARCHAR of 40 bytes in the binlog and VARCHAR of 80 bytes",
        ),
        (
            "every_type",
            |t| t.columns[2].nullable = false,
            "column 3 (t): nullability is NULL in the binlog and NOT NULL",
        ),
        ("every_type", |t| t.columns[23].collation = 5, "column 24 (cl): the collation id is 8 in the binlog and 5"),
        (
            "every_type",
            |t| t.columns[31].ty = ColumnType::Char { max_bytes: 16 },
            "column 32 (bn): the type is BINARY(16) in the binlog and CHAR of 16 bytes",
        ),
        (
            "every_type",
            |t| t.columns[19].ty = ColumnType::Time { fsp: 0 },
            "column 20 (ti): the type is TIME(3) in the binlog and TIME in the catalog",
        ),
    ];
    for (name, changes) in [("metadata-full", full_only), ("metadata-full", always), ("metadata-minimal", always)] {
        for (table, change, text) in changes {
            let mut changed = all[*table].clone();
            change(&mut changed);
            maps(&log(name), |t, map| {
                if t == *table {
                    let error = map.resolve(&changed).unwrap_err();
                    assert_eq!(error.schema_mismatch().unwrap().table, *table);
                    assert!(error.to_string().contains(text), "{name}: {error}\n{text}");
                }
            });
        }
    }
    // What MINIMAL does not state cannot be checked and comes from the catalog.
    for (table, change, _) in full_only {
        let mut changed = all[*table].clone();
        change(&mut changed);
        maps(&log("metadata-minimal"), |t, map| {
            if t == *table {
                assert_eq!(map.resolve(&changed).unwrap(), changed);
            }
        });
    }
}

/// (changes as text, columns visited) of the first row event of a table.
fn first_rows(log: &[u8], table: &str, mut f: impl FnMut(millstream_binlog::RowChange<'_, '_>)) -> Result<(), Error> {
    let mut decoder = EventDecoder::new(DecoderOptions::default());
    let mut file = BinlogFile::new(log, LIMIT)?;
    let mut schema = None;
    while let Some(raw) = file.next()? {
        match decoder.decode(raw.bytes)?.body {
            EventBody::TableMap(map) if map.table == table => schema = Some((map.table_id, map.schema()?)),
            EventBody::Rows(rows) => {
                if let Some((id, schema)) = &schema
                    && rows.table_id == *id
                {
                    for change in rows.rows(schema) {
                        f(change?);
                    }
                    return Ok(());
                }
            }
            _ => {}
        }
    }
    panic!("no rows of {table}");
}

#[test]
fn chosen_columns_are_the_same_as_all_of_them() {
    for name in ["metadata-full", "metadata-minimal"] {
        first_rows(&log(name), "every_type", |change| {
            let millstream_binlog::RowChange::Insert(row) = change else { panic!("{change:?}") };
            let all: Vec<_> = row.values().collect();
            assert_eq!(all.len(), 44);
            for wanted in [&[][..], &[0], &[43], &[0, 1], &[3, 17, 17, 40], &[5, 99], &(0..44).collect::<Vec<_>>()] {
                let mut visited = Vec::new();
                row.visit_columns(wanted, |i, v| visited.push((i, v)));
                let mut expected: Vec<_> = wanted.iter().filter_map(|i| all.get(*i).copied()).collect();
                expected.dedup_by_key(|(i, _)| *i);
                assert_eq!(visited, expected, "{wanted:?}");
            }
            assert_eq!(row.value(12), Some(ColumnValue::Float(1.1)));
            assert_eq!(row.value(44), None);
        })
        .unwrap();
    }
}

#[test]
fn a_shared_row_outlives_its_event_without_a_copy() {
    let log = bytes::Bytes::from(log("metadata-full"));
    let mut decoder = EventDecoder::new(DecoderOptions::default());
    let mut file = BinlogFile::new(&log[..], LIMIT).unwrap();
    let mut schemas = HashMap::new();
    let mut kept = Vec::new();
    let mut texts = Vec::new();
    while let Some(raw) = file.next().unwrap() {
        // The packet as a connection would hand it over.
        let start = usize::try_from(raw.offset).unwrap();
        let packet = log.slice(start..start + raw.bytes.len());
        match decoder.decode(&packet).unwrap().body {
            EventBody::TableMap(map) => {
                schemas.insert(map.table_id, std::sync::Arc::new(map.schema().unwrap()));
            }
            EventBody::Rows(rows) => {
                let schema = &schemas[&rows.table_id];
                for change in rows.rows(schema) {
                    if let millstream_binlog::RowChange::Insert(row) = change.unwrap() {
                        texts.push(format!("{:?}", row.values().collect::<Vec<_>>()));
                        let shared = row.share(&packet, schema);
                        assert_eq!(shared.row().as_bytes().as_ptr(), row.as_bytes().as_ptr(), "no copy");
                        assert_ne!(shared.detach().row().as_bytes().as_ptr(), row.as_bytes().as_ptr());
                        assert_eq!(shared.len(), row.as_bytes().len());
                        kept.push(shared);
                    }
                }
            }
            _ => {}
        }
    }
    drop((decoder, file));
    assert_eq!(kept.len(), 8);
    for (row, text) in kept.iter().zip(texts) {
        assert_eq!(format!("{:?}", row.row().values().collect::<Vec<_>>()), text);
        assert_eq!(format!("{:?}", row.detach().row().values().collect::<Vec<_>>()), text);
    }
}
