//! Applying a log's row changes to empty tables gives the tables that the server had at the end.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use millstream_binlog::event::EventBody;
use millstream_binlog::value::{write_double, write_float};
use millstream_binlog::{
    BinlogFile, Column, ColumnType, ColumnValue, Decimal, DecoderOptions, EventDecoder, Row, RowChange, TableSchema,
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut s, b| {
        write!(s, "{b:02X}").unwrap();
        s
    })
}

fn utf8_hex(text: &str) -> String {
    format!("x{}", hex(text.as_bytes()))
}

/// A value in the form of the final-state files.
fn cell(column: &Column, value: ColumnValue<'_>) -> String {
    let mut out = Vec::new();
    match value {
        ColumnValue::Null => return "\\N".into(),
        ColumnValue::Int(n) => return n.to_string(),
        ColumnValue::UInt(n) => return n.to_string(),
        ColumnValue::Bit(n) => return n.to_string(),
        ColumnValue::Float(f) => write_float(f, &mut out),
        ColumnValue::Double(f) => write_double(f, &mut out),
        ColumnValue::Decimal { bytes, precision, scale } => {
            Decimal::new(bytes, precision, scale).unwrap().write_to(&mut out);
        }
        ColumnValue::Text { bytes, charset } => {
            charset.decode(bytes, &mut out).unwrap();
            return utf8_hex(std::str::from_utf8(&out).unwrap());
        }
        ColumnValue::Bytes(bytes) => {
            let ColumnType::Binary { bytes: width } = column.ty else { return hex(bytes) };
            return hex(bytes) + &"00".repeat(width as usize - bytes.len());
        }
        ColumnValue::Geometry(bytes) | ColumnValue::Vector(bytes) => return hex(bytes),
        ColumnValue::Enum(0) => return "x".into(),
        ColumnValue::Enum(n) => {
            let ColumnType::Enum { labels, .. } = &column.ty else { panic!("{:?}", column.ty) };
            return utf8_hex(&labels[usize::from(n) - 1]);
        }
        ColumnValue::Set(bits) => {
            let ColumnType::Set { labels, .. } = &column.ty else { panic!("{:?}", column.ty) };
            let members: Vec<&str> =
                labels.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1).map(|(_, l)| l.as_str()).collect();
            return utf8_hex(&members.join(","));
        }
        ColumnValue::Year(y) => return format!("{y:04}"),
        ColumnValue::Date(d) => d.write_to(&mut out),
        ColumnValue::Time(t) => t.write_to(fsp(column), &mut out),
        ColumnValue::DateTime(t) => t.write_to(fsp(column), &mut out),
        ColumnValue::Timestamp(t) => t.write_to(fsp(column), &mut out),
        ColumnValue::Json(json) => {
            json.write_to(&mut out).unwrap();
            return utf8_hex(std::str::from_utf8(&out).unwrap());
        }
        other => panic!("{other:?} is not in a log"),
    }
    String::from_utf8(out).unwrap()
}

fn fsp(column: &Column) -> u8 {
    match column.ty {
        ColumnType::Time { fsp } | ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp } => fsp,
        _ => 0,
    }
}

fn cells(row: Row<'_, '_>) -> Vec<String> {
    assert!(row.is_full());
    row.values().map(|(i, v)| cell(&row.schema().columns[i], v)).collect()
}

/// Tables by name, each a bag of rows as cells.
#[derive(Default)]
struct Replica(HashMap<String, Vec<Vec<String>>>);

impl Replica {
    fn remove(&mut self, table: &str, row: &[String]) {
        let rows = self.0.get_mut(table).unwrap();
        let at = rows.iter().position(|r| r == row).unwrap_or_else(|| panic!("{table}: no row {row:?}"));
        rows.swap_remove(at);
    }

    fn apply(&mut self, table: &str, change: RowChange<'_, '_>) {
        match change {
            RowChange::Insert(row) => self.0.entry(table.into()).or_default().push(cells(row)),
            RowChange::Delete(row) => self.remove(table, &cells(row)),
            RowChange::Update { before, after } => {
                self.remove(table, &cells(before));
                self.0.get_mut(table).unwrap().push(cells(after));
            }
        }
    }
}

/// The cells of a table's file: (column names, column types, rows).
fn final_state(path: &Path) -> (Vec<String>, Vec<String>, Vec<Vec<String>>) {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|l| l.split('\t').map(str::to_owned).collect());
    (lines.next().unwrap(), lines.next().unwrap(), lines.collect())
}

/// FLOAT and DOUBLE are written with more digits and other exponents in the files: compare them as numbers.
fn same(ty: &str, ours: &str, theirs: &str) -> bool {
    if ty.starts_with("float") {
        return ours == theirs || ours.parse::<f32>().unwrap() == theirs.parse::<f32>().unwrap();
    }
    if ty.starts_with("double") {
        return ours == theirs || ours.parse::<f64>().unwrap() == theirs.parse::<f64>().unwrap();
    }
    ours == theirs
}

#[test]
fn replayed_rows_are_the_servers_rows() {
    let dir: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/generated/mysql-9.7.4");
    if !dir.is_dir() {
        println!("skipped: {} is not there", dir.display());
        return;
    }
    let log = std::fs::read(dir.join("types-with-final-state.bin")).unwrap();
    let mut file = BinlogFile::new(log.as_slice(), 1 << 30).unwrap();
    let mut decoder = EventDecoder::new(DecoderOptions::default());
    let mut replica = Replica::default();
    let mut maps: HashMap<u64, TableSchema> = HashMap::new();
    // The catalog, as an engine would have it: here it is made from the files' headers where the log has no labels.
    while let Some(raw) = file.next().unwrap() {
        match decoder.decode(raw.bytes).unwrap().body {
            EventBody::TableMap(map) => {
                let mut schema = map.schema().unwrap();
                let path = dir.join(format!("types-with-final-state/{}.{}.tsv", map.database, map.table));
                if path.exists() {
                    let (_, types, _) = final_state(&path);
                    for (column, ty) in schema.columns.iter_mut().zip(&types) {
                        if let ColumnType::Enum { labels, .. } | ColumnType::Set { labels, .. } = &mut column.ty {
                            *labels = parse_labels(ty).into();
                        }
                    }
                }
                maps.insert(map.table_id, schema);
            }
            EventBody::Rows(rows) => {
                let schema = &maps[&rows.table_id];
                let table = format!("{}.{}", schema.database, schema.table);
                for change in rows.rows(schema) {
                    replica.apply(&table, change.unwrap());
                }
            }
            EventBody::Query(q) => {
                let sql = String::from_utf8_lossy(q.sql);
                // The one DDL of the log that changes rows: a column goes, another comes with a default.
                if sql.starts_with("ALTER TABLE nullbits ADD COLUMN c10") {
                    for row in replica.0.get_mut("ms.nullbits").unwrap() {
                        row.pop();
                        row.push(utf8_hex("dflt"));
                    }
                }
            }
            _ => {}
        }
    }
    let mut compared = 0;
    for entry in std::fs::read_dir(dir.join("types-with-final-state")).unwrap() {
        let path = entry.unwrap().path();
        let table = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let (names, types, expected) = final_state(&path);
        let mut ours = replica.0.remove(&table).unwrap_or_default();
        assert_eq!(ours.len(), expected.len(), "{table}: rows");
        for row in &expected {
            let found = ours
                .iter()
                .position(|r| r.len() == row.len() && r.iter().zip(row).zip(&types).all(|((a, b), ty)| same(ty, a, b)));
            let Some(found) = found else {
                let near = ours.iter().find(|r| r[0] == row[0]);
                let differing: Vec<_> = near
                    .map(|r| r.iter().zip(row).zip(&names).filter(|((a, b), _)| a != b).collect())
                    .unwrap_or_default();
                panic!("{table}: row {} differs: {differing:?}", row[0]);
            };
            ours.swap_remove(found);
        }
        compared += expected.len();
    }
    println!("{compared} rows equal");
    assert!(compared > 80);
}

fn parse_labels(ty: &str) -> Vec<String> {
    let list = &ty[ty.find('(').unwrap() + 1..ty.rfind(')').unwrap()];
    let mut labels = vec![String::new()];
    let mut quoted = false;
    let mut chars = list.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' if quoted && chars.peek() == Some(&'\'') => {
                chars.next();
                labels.last_mut().unwrap().push('\'');
            }
            '\'' => quoted = !quoted,
            ',' if !quoted => labels.push(String::new()),
            c => labels.last_mut().unwrap().push(c),
        }
    }
    labels
}
