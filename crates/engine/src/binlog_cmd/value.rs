//! Column values as text: the same words in both output forms, which only quote them differently.

use millstream_binlog::value::{write_double, write_float, write_inet4, write_inet6, write_uuid};
use millstream_binlog::{Charset, Column, ColumnType, ColumnValue, Decimal};

/// Greatest size of a value that was compressed in the log.
const MAX_INFLATED: usize = 1 << 30;

/// What [`write`] has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Nothing: SQL NULL.
    Null,
    /// A number that every reader of JSON keeps exactly.
    Number,
    /// Digits that some readers would round.
    WideNumber,
    /// Text.
    Text,
    /// Bytes as lower-case hex.
    Hex,
    /// The value's bytes as lower-case hex: its type does not allow them, for this reason.
    Invalid(String),
}

/// Appends `bytes` as lower-case hex.
pub(super) fn hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let digit = |n: u8| DIGITS.get(usize::from(n)).copied().unwrap_or(b'0');
    for b in bytes {
        out.extend_from_slice(&[digit(b >> 4), digit(b & 15)]);
    }
}

fn display(value: impl core::fmt::Display, out: &mut Vec<u8>) {
    use std::io::Write as _;
    // A Vec takes everything.
    let _written = write!(out, "{value}");
}

/// Appends the value's text: times as the server prints them in UTC, JSON as its text, labels of ENUM and SET when they
/// are known.
pub(super) fn write(column: &Column, value: ColumnValue<'_>, out: &mut Vec<u8>) -> Form {
    let start = out.len();
    let integer = if matches!(column.ty, ColumnType::BigInt { .. }) { Form::WideNumber } else { Form::Number };
    let failed = match value {
        ColumnValue::Null => return Form::Null,
        ColumnValue::Int(n) => {
            display(n, out);
            return integer;
        }
        ColumnValue::UInt(n) => {
            display(n, out);
            return integer;
        }
        ColumnValue::Float(f) => {
            write_float(f, out);
            return Form::Number;
        }
        ColumnValue::Double(f) => {
            write_double(f, out);
            return Form::Number;
        }
        ColumnValue::Year(year) => {
            display(year, out);
            return Form::Number;
        }
        ColumnValue::Bit(bits) => {
            display(bits, out);
            return Form::WideNumber;
        }
        ColumnValue::Decimal { bytes, precision, scale } => match Decimal::new(bytes, precision, scale) {
            Some(decimal) => {
                decimal.write_to(out);
                return Form::WideNumber;
            }
            None => Some(("DECIMAL".to_owned(), bytes)),
        },
        ColumnValue::DecimalText(digits) => {
            out.extend_from_slice(digits);
            return Form::WideNumber;
        }
        ColumnValue::JsonText(text) => {
            out.extend_from_slice(text);
            None
        }
        ColumnValue::Text { bytes, charset } => charset.decode(bytes, out).err().map(|e| (e.to_string(), bytes)),
        ColumnValue::JsonDiffs(diffs) => diffs.write_to(out).err().map(|e| (e.to_string(), diffs.bytes)),
        ColumnValue::Json(json) => json.write_to(out).err().map(|e| (e.to_string(), json.bytes)),
        ColumnValue::Bytes(bytes) => {
            hex(bytes, out);
            // The log leaves trailing zero bytes of BINARY(n) out.
            if let ColumnType::Binary { bytes: width } = column.ty {
                let missing = usize::try_from(width).unwrap_or(0).saturating_sub(bytes.len());
                out.extend(std::iter::repeat_n(b'0', missing.saturating_mul(2)));
            }
            return Form::Hex;
        }
        ColumnValue::Geometry(bytes) | ColumnValue::Vector(bytes) => {
            hex(bytes, out);
            return Form::Hex;
        }
        ColumnValue::Compressed { value, charset } => {
            let mut opened = Vec::new();
            match value.inflate(MAX_INFLATED, &mut opened) {
                Err(e) => Some((e.to_string(), &[][..])),
                Ok(()) if charset == Charset::Binary => {
                    hex(&opened, out);
                    return Form::Hex;
                }
                Ok(()) => charset.decode(&opened, out).err().map(|e| (e.to_string(), &[][..])),
            }
        }
        ColumnValue::Uuid(uuid) => {
            write_uuid(uuid, out);
            None
        }
        ColumnValue::Inet4(address) => {
            write_inet4(address, out);
            None
        }
        ColumnValue::Inet6(address) => {
            write_inet6(address, out);
            None
        }
        ColumnValue::Enum(number) => match &column.ty {
            ColumnType::Enum { labels, .. } if !labels.is_empty() => match label(labels, number) {
                Some(label) => {
                    out.extend_from_slice(label.as_bytes());
                    None
                }
                None => Some((format!("ENUM number {number}"), &[][..])),
            },
            _ => {
                display(number, out);
                return Form::Number;
            }
        },
        ColumnValue::Set(bits) => match &column.ty {
            ColumnType::Set { labels, .. } if !labels.is_empty() => {
                let members = labels.iter().zip(0u32..64).filter(|(_, i)| (bits >> i) & 1 == 1);
                for (n, (label, _)) in members.enumerate() {
                    if n > 0 {
                        out.push(b',');
                    }
                    out.extend_from_slice(label.as_bytes());
                }
                None
            }
            _ => {
                display(bits, out);
                return Form::WideNumber;
            }
        },
        ColumnValue::Date(date) => {
            date.write_to(out);
            None
        }
        ColumnValue::Time(time) => {
            time.write_to(fsp(column), out);
            None
        }
        ColumnValue::DateTime(time) => {
            time.write_to(fsp(column), out);
            None
        }
        ColumnValue::Timestamp(time) => {
            time.write_to(fsp(column), out);
            None
        }
    };
    match failed {
        None => Form::Text,
        Some((reason, bytes)) => {
            out.truncate(start);
            hex(bytes, out);
            Form::Invalid(reason)
        }
    }
}

/// Number 0 is the invalid value ''.
fn label(labels: &[String], number: u16) -> Option<&str> {
    match number.checked_sub(1) {
        None => Some(""),
        Some(i) => labels.get(usize::from(i)).map(String::as_str),
    }
}

const fn fsp(column: &Column) -> u8 {
    match column.ty {
        ColumnType::Time { fsp } | ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp } => fsp,
        _ => 0,
    }
}
