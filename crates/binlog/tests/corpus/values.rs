//! Row values compared with those of a listing.
//!
//! The tools print a value by its type in the log, so they are compared by these rules:
//!
//! - Integers: the signed number, and behind it the unsigned one in brackets when it is negative.
//! - DECIMAL, BIT, ENUM (its number), SET (its bytes in order, each from its highest bit): the text. YEAR 0 prints as 1900.
//! - FLOAT has six digits in the listing and equals within them; DOUBLE has twenty and reads back as the same number.
//! - DATE with colons, TIME and DATETIME as text, TIMESTAMP as seconds with the fraction's digits.
//! - Strings of every character set, BINARY, BLOB and, by MariaDB's tool, GEOMETRY and COMPRESSED columns as they lie: the
//!   bytes, those below 0x20 in hex; MySQL's tool has `\n`, `\r`, `\t`, `\b`, and puts a backslash before quotes and backslashes.
//! - JSON: the document's text in the same way, without its quotes if it is a string.
//! - VECTOR: each number with five digits behind the point.
//! - Not compared: differences of JSON documents but for "no difference" (`@3=@3`), and rows from a GEOMETRY on, where MySQL's
//!   tool leaves an event.

use millstream_binlog::value::Decimal;
use millstream_binlog::{Column, ColumnType, ColumnValue, Row};

use super::listing::ListedRow;

/// Who wrote the listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    MySql,
    MariaDb,
}

/// Whether the listing has the value; `None` if it cannot be compared.
fn is_listed(tool: Tool, ordinal: usize, column: &Column, value: ColumnValue<'_>, listed: &[u8]) -> Option<bool> {
    let mut out = Vec::new();
    match value {
        ColumnValue::Null => out.extend_from_slice(b"NULL"),
        ColumnValue::Int(n) => signed(n, bits(&column.ty), &mut out),
        ColumnValue::UInt(n) => {
            let unused = 64 - bits(&column.ty);
            signed((n << unused).cast_signed() >> unused, bits(&column.ty), &mut out);
        }
        ColumnValue::Float(ours) => {
            let theirs: f64 = std::str::from_utf8(listed).unwrap().trim().parse().unwrap();
            return Some((f64::from(ours) - theirs).abs() <= theirs.abs() * 5.1e-6);
        }
        ColumnValue::Double(ours) => {
            let theirs: f64 = std::str::from_utf8(listed).unwrap().trim().parse().unwrap();
            return Some(ours == theirs);
        }
        ColumnValue::Decimal { bytes, precision, scale } => {
            Decimal::new(bytes, precision, scale).unwrap().write_to(&mut out);
        }
        ColumnValue::Bit(n) => {
            let ColumnType::Bit { bits } = column.ty else { panic!("{:?}", column.ty) };
            out.extend_from_slice(format!("b'{n:0width$b}'", width = usize::from(bits)).as_bytes());
        }
        ColumnValue::Enum(n) => out.extend_from_slice(n.to_string().as_bytes()),
        ColumnValue::Set(n) => {
            let ColumnType::Set { bytes, .. } = column.ty else { panic!("{:?}", column.ty) };
            let digits: String = n.to_le_bytes().iter().take(bytes.into()).map(|b| format!("{b:08b}")).collect();
            out.extend_from_slice(format!("b'{digits}'").as_bytes());
        }
        ColumnValue::Year(0) => out.extend_from_slice(b"1900"),
        ColumnValue::Year(year) => out.extend_from_slice(year.to_string().as_bytes()),
        ColumnValue::Date(d) => {
            out.extend_from_slice(format!("'{:04}:{:02}:{:02}'", d.year, d.month, d.day).as_bytes());
        }
        ColumnValue::Time(t) => in_quotes(|out| t.write_to(fsp(&column.ty), out), &mut out),
        ColumnValue::DateTime(t) => in_quotes(|out| t.write_to(fsp(&column.ty), out), &mut out),
        ColumnValue::Timestamp(t) => {
            out.extend_from_slice(t.seconds.to_string().as_bytes());
            let fsp = usize::from(fsp(&column.ty));
            if fsp > 0 {
                out.push(b'.');
                out.extend_from_slice(&format!("{:06}", t.micros).as_bytes()[..fsp]);
            }
        }
        ColumnValue::Compressed { value, .. } => quoted(tool, value.as_bytes(), &mut out),
        ColumnValue::Text { bytes, .. } | ColumnValue::Bytes(bytes) => {
            // A COMPRESSED value that is not compressed has a zero byte before it.
            if matches!(column.ty, ColumnType::Compressed { .. }) && listed != b"''" {
                quoted(tool, &[b"\0", bytes].concat(), &mut out);
            } else {
                quoted(tool, bytes, &mut out);
            }
        }
        ColumnValue::Geometry(bytes) => quoted(tool, bytes, &mut out),
        ColumnValue::Json(document) => {
            let mut text = Vec::new();
            document.write_to(&mut text).unwrap();
            match (document.bytes, text.as_slice()) {
                // The document is a string of less than 128 bytes: its length, then the string.
                ([0x0c, 0..0x80, string @ ..], _) | (_, [b'"', string @ .., b'"']) => quoted(tool, string, &mut out),
                (_, text) => quoted(tool, text, &mut out),
            }
        }
        ColumnValue::JsonDiffs(diffs) if diffs.bytes.is_empty() => {
            out.extend_from_slice(format!("@{}", ordinal + 1).as_bytes());
        }
        ColumnValue::JsonDiffs(_) => return None,
        ColumnValue::Vector(bytes) => {
            let numbers = bytes.as_chunks::<4>().0.iter().map(|b| exponent(f32::from_le_bytes(*b)));
            out.extend_from_slice(format!("[{}]", numbers.collect::<Vec<_>>().join(",")).as_bytes());
        }
        other => panic!("{other:?} is not in a schema of a log alone"),
    }
    Some(out == listed)
}

fn bits(ty: &ColumnType) -> u32 {
    match ty {
        ColumnType::TinyInt { .. } => 8,
        ColumnType::SmallInt { .. } => 16,
        ColumnType::MediumInt { .. } => 24,
        ColumnType::Int { .. } => 32,
        _ => 64,
    }
}

fn signed(n: i64, bits: u32, out: &mut Vec<u8>) {
    let text = if n < 0 { format!("{n} ({})", n.cast_unsigned() & (u64::MAX >> (64 - bits))) } else { n.to_string() };
    out.extend_from_slice(text.as_bytes());
}

fn fsp(ty: &ColumnType) -> u8 {
    match ty {
        ColumnType::Time { fsp } | ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp } => *fsp,
        _ => 0,
    }
}

fn in_quotes(write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    out.push(b'\'');
    write(out);
    out.push(b'\'');
}

fn quoted(tool: Tool, bytes: &[u8], out: &mut Vec<u8>) {
    let write = |out: &mut Vec<u8>| {
        for b in bytes {
            match (b, tool) {
                (b'\n', Tool::MySql) => out.extend_from_slice(b"\\n"),
                (b'\r', Tool::MySql) => out.extend_from_slice(b"\\r"),
                (b'\t', Tool::MySql) => out.extend_from_slice(b"\\t"),
                (8, Tool::MySql) => out.extend_from_slice(b"\\b"),
                (b'\\' | b'\'', Tool::MySql) => out.extend_from_slice(&[b'\\', *b]),
                (0..0x20, _) => out.extend_from_slice(format!("\\x{b:02x}").as_bytes()),
                (b, _) => out.push(*b),
            }
        }
    };
    in_quotes(write, out);
}

/// As C prints with `%.5e`.
fn exponent(f: f32) -> String {
    let text = format!("{f:.5e}");
    let (digits, exponent) = text.split_once('e').unwrap();
    let exponent: i32 = exponent.parse().unwrap();
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// Compares an image with one of a listed row; returns how many values were equal.
pub(crate) fn compare(tool: Tool, row: Row<'_, '_>, listed: &[(usize, Vec<u8>)]) -> Result<usize, String> {
    let mut listed = listed.iter();
    let mut equal = 0;
    for (ordinal, value) in row.values() {
        let Some((number, text)) = listed.next() else { return Err(format!("@{} is not listed", ordinal + 1)) };
        if *number != ordinal + 1 {
            return Err(format!("@{}, listed @{number}", ordinal + 1));
        }
        if ListedRow::is_given_up(text) {
            return Ok(equal);
        }
        let column = &row.schema().columns[ordinal];
        match is_listed(tool, ordinal, column, value, text) {
            Some(false) => {
                let text = String::from_utf8_lossy(text);
                return Err(format!("@{number} {} {value:?}, listed as {text}", column.ty));
            }
            same => equal += usize::from(same.is_some()),
        }
    }
    match listed.next() {
        Some((number, _)) => Err(format!("listed @{number} is absent")),
        None => Ok(equal),
    }
}
