//! Primary keys as bytes whose `memcmp` order is the server's order.
//!
//! Ranges of keys route changes to chunks, so only an order that is exactly the server's may be used (design 3.4).
//! Parts of a composite key are self-delimiting: fixed width, or escaped and terminated.
//!
//! | part | bytes |
//! |---|---|
//! | integers | natural width, big endian, sign bit flipped when signed |
//! | DECIMAL(p,s) | the server's packed form |
//! | DATE | 4: year, month, day packed |
//! | DATETIME, TIMESTAMP | 8: packed with microseconds |
//! | BINARY(n) | n bytes, padded with zeros |
//! | VARBINARY, utf8mb4_0900_bin | bytes with `00` as `00 FF`, then `00 00` |
//! | PAD SPACE `*_bin` | 8-byte segments with a marker each (see `text`) |

mod error;
mod literal;
mod text;

use millstream_binlog::{Charset, Column, ColumnType, ColumnValue, Date, DateTime, Decimal, TableSchema, Timestamp};

pub use error::{KeyError, UnsupportedKey};
pub(crate) use literal::literal;

/// Encodes and decodes the primary key of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyCodec {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    ordinal: usize,
    name: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Int { bytes: u8, unsigned: bool },
    Decimal { precision: u8, scale: u8, bytes: usize },
    Date,
    DateTime,
    Timestamp,
    Binary { bytes: usize },
    VarBinary,
    NoPad(Charset),
    Padded(Charset),
}

/// One part of a decoded key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyValue {
    /// Signed integer types.
    Int(i64),
    /// Unsigned integer types.
    UInt(u64),
    /// DECIMAL as digits with the column's scale.
    Decimal(String),
    /// DATE.
    Date(Date),
    /// DATETIME.
    DateTime(DateTime),
    /// TIMESTAMP, UTC.
    Timestamp(Timestamp),
    /// BINARY (padded to its length) and VARBINARY.
    Bytes(Vec<u8>),
    /// Text in the column's character set; without trailing spaces where they do not count.
    Text {
        /// The bytes.
        bytes: Vec<u8>,
        /// Their character set.
        charset: Charset,
    },
}

impl KeyValue {
    /// The same value borrowed, as a row would carry it.
    #[must_use]
    pub fn as_value(&self) -> ColumnValue<'_> {
        match self {
            Self::Int(v) => ColumnValue::Int(*v),
            Self::UInt(v) => ColumnValue::UInt(*v),
            Self::Decimal(text) => ColumnValue::DecimalText(text.as_bytes()),
            Self::Date(v) => ColumnValue::Date(*v),
            Self::DateTime(v) => ColumnValue::DateTime(*v),
            Self::Timestamp(v) => ColumnValue::Timestamp(*v),
            Self::Bytes(bytes) => ColumnValue::Bytes(bytes),
            Self::Text { bytes, charset } => ColumnValue::Text { bytes, charset: *charset },
        }
    }
}

impl KeyCodec {
    /// The codec of a table's primary key.
    ///
    /// # Errors
    /// No key, or a column whose order is not known to be reproduced by bytes: named with the reason.
    pub fn new(table: &TableSchema) -> Result<Self, UnsupportedKey> {
        let mut parts = Vec::with_capacity(table.key.len());
        for &ordinal in &table.key {
            let Some(column) = table.columns.get(ordinal) else {
                return Err(UnsupportedKey::new(table, "?", "is not among the table's columns"));
            };
            let kind = kind(column).map_err(|reason| UnsupportedKey::new(table, &column.name, reason))?;
            parts.push(Part { ordinal, name: column.name.clone(), kind });
        }
        if parts.is_empty() {
            return Err(UnsupportedKey::none(table));
        }
        Ok(Self { parts })
    }

    /// Ordinals of the key's columns in key order.
    pub fn ordinals(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.parts.iter().map(|p| p.ordinal)
    }

    /// Names of the key's columns in key order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> + '_ {
        self.parts.iter().map(|p| p.name.as_str())
    }

    /// Appends a row's key to `out`. `value` gives the value of the column with an ordinal, from either source.
    ///
    /// # Errors
    /// A value that is absent, NULL, or not of the column's type; `out` is then as it was.
    pub fn encode<'v>(
        &self,
        mut value: impl FnMut(usize) -> Option<ColumnValue<'v>>,
        out: &mut Vec<u8>,
    ) -> Result<(), KeyError> {
        let start = out.len();
        for part in &self.parts {
            let encoded = value(part.ordinal).ok_or("is absent").and_then(|v| encode_part(part.kind, v, out));
            if let Err(reason) = encoded {
                out.truncate(start);
                return Err(KeyError::new(&part.name, reason));
            }
        }
        Ok(())
    }

    /// Appends the key whose parts come in key order.
    ///
    /// # Errors
    /// As [`KeyCodec::encode`].
    pub fn encode_parts<'v>(
        &self,
        values: impl IntoIterator<Item = ColumnValue<'v>>,
        out: &mut Vec<u8>,
    ) -> Result<(), KeyError> {
        let mut values = values.into_iter();
        self.encode(|_| values.next(), out)
    }

    /// The parts of an encoded key, in key order.
    ///
    /// # Errors
    /// Bytes that this codec did not write.
    pub fn decode(&self, key: &[u8]) -> Result<Vec<KeyValue>, KeyError> {
        let mut rest = key;
        let mut values = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let (value, tail) =
                decode_part(part.kind, rest).ok_or_else(|| KeyError::new(&part.name, "is not an encoded key"))?;
            values.push(value);
            rest = tail;
        }
        match rest {
            [] => Ok(values),
            _ => Err(KeyError::new("", "has bytes after its last part")),
        }
    }

    /// SQL literals of an encoded key, in key order: each compares to its column in the column's own character set
    /// and collation.
    ///
    /// # Errors
    /// Bytes that this codec did not write.
    pub fn literals(&self, key: &[u8]) -> Result<Vec<String>, KeyError> {
        Ok(self.decode(key)?.iter().map(literal).collect())
    }
}

/// MySQL collation ids whose order is the order of bytes.
const ASCII_BIN: u16 = 65;
const LATIN1_BIN: u16 = 47;
const UTF8MB3_BIN: u16 = 83;
const UTF8MB4_BIN: u16 = 46;
const UTF8MB4_0900_BIN: u16 = 309;
const BINARY: u16 = 63;

fn kind(column: &Column) -> Result<Kind, &'static str> {
    Ok(match &column.ty {
        ColumnType::TinyInt { unsigned } => Kind::Int { bytes: 1, unsigned: *unsigned },
        ColumnType::SmallInt { unsigned } => Kind::Int { bytes: 2, unsigned: *unsigned },
        ColumnType::MediumInt { unsigned } => Kind::Int { bytes: 3, unsigned: *unsigned },
        ColumnType::Int { unsigned } => Kind::Int { bytes: 4, unsigned: *unsigned },
        ColumnType::BigInt { unsigned } => Kind::Int { bytes: 8, unsigned: *unsigned },
        ColumnType::Decimal { precision, scale } => {
            let mut zero = Vec::new();
            Decimal::pack(b"0", *precision, *scale, &mut zero).map_err(|_| "has an impossible precision")?;
            Kind::Decimal { precision: *precision, scale: *scale, bytes: zero.len() }
        }
        ColumnType::Date => Kind::Date,
        ColumnType::DateTime { .. } | ColumnType::OldDateTime { .. } => Kind::DateTime,
        ColumnType::Timestamp { .. } | ColumnType::OldTimestamp { .. } => Kind::Timestamp,
        ColumnType::Binary { bytes } => Kind::Binary { bytes: usize::try_from(*bytes).unwrap_or(usize::MAX) },
        ColumnType::VarBinary { .. } => Kind::VarBinary,
        ColumnType::Char { .. } | ColumnType::VarChar { .. } => match (column.collation, column.charset) {
            (ASCII_BIN, Charset::Ascii)
            | (LATIN1_BIN, Charset::Latin1)
            | (UTF8MB3_BIN, Charset::Utf8mb3)
            | (UTF8MB4_BIN, Charset::Utf8mb4) => Kind::Padded(column.charset),
            (UTF8MB4_0900_BIN, Charset::Utf8mb4) => Kind::NoPad(column.charset),
            (BINARY, Charset::Binary) => Kind::VarBinary,
            (0, _) => return Err("is text of an unknown collation"),
            _ => {
                return Err("is text whose collation does not sort by bytes (ascii_bin, latin1_bin, utf8mb3_bin, \
                            utf8mb4_bin and utf8mb4_0900_bin do)");
            }
        },
        ColumnType::Float | ColumnType::Double => return Err("is a floating-point number"),
        ColumnType::Bit { .. } => return Err("is BIT"),
        ColumnType::Year => return Err("is YEAR"),
        ColumnType::Time { .. } | ColumnType::OldTime { .. } => return Err("is TIME"),
        ColumnType::Enum { .. } => return Err("is ENUM"),
        ColumnType::Set { .. } => return Err("is SET"),
        ColumnType::Text { .. } => return Err("is TEXT, of which a key holds a prefix only"),
        ColumnType::Blob { .. } => return Err("is BLOB, of which a key holds a prefix only"),
        ColumnType::Json => return Err("is JSON"),
        ColumnType::Geometry => return Err("is spatial"),
        ColumnType::Vector | ColumnType::VarVector { .. } => return Err("is VECTOR"),
        ColumnType::Compressed { .. } => return Err("is COMPRESSED"),
        ColumnType::Uuid | ColumnType::Inet4 | ColumnType::Inet6 => return Err("is a UUID or a network address"),
    })
}

const WRONG_TYPE: &str = "does not have the column's type";
const OUT_OF_RANGE: &str = "is outside the column's range";

fn encode_part(kind: Kind, value: ColumnValue<'_>, out: &mut Vec<u8>) -> Result<(), &'static str> {
    match (kind, value) {
        (_, ColumnValue::Null) => return Err("is NULL"),
        (Kind::Int { bytes, unsigned: false }, ColumnValue::Int(v)) => {
            let shifted = shift_signed(v, bytes).ok_or(OUT_OF_RANGE)?;
            push_be(shifted, bytes, out);
        }
        (Kind::Int { bytes, unsigned: true }, ColumnValue::UInt(v)) => {
            if bytes < 8 && v >> (u32::from(bytes).saturating_mul(8)) != 0 {
                return Err(OUT_OF_RANGE);
            }
            push_be(v, bytes, out);
        }
        (Kind::Decimal { precision, scale, .. }, ColumnValue::DecimalText(text)) => {
            Decimal::pack(text, precision, scale, out).map_err(|_| OUT_OF_RANGE)?;
        }
        (Kind::Decimal { precision, scale, .. }, ColumnValue::Decimal { bytes, precision: p, scale: s }) => {
            if (p, s) != (precision, scale) {
                return Err(WRONG_TYPE);
            }
            copy_decimal(bytes, precision, scale, out).ok_or(OUT_OF_RANGE)?;
        }
        (Kind::Date, ColumnValue::Date(date)) => {
            out.extend_from_slice(&pack_date(date).ok_or(OUT_OF_RANGE)?.to_be_bytes());
        }
        (Kind::DateTime, ColumnValue::DateTime(v)) => {
            out.extend_from_slice(&pack_datetime(v).ok_or(OUT_OF_RANGE)?.to_be_bytes());
        }
        (Kind::Timestamp, ColumnValue::Timestamp(v)) => {
            if v.seconds >= 1 << 40 || v.micros > 999_999 {
                return Err(OUT_OF_RANGE);
            }
            out.extend_from_slice(&((v.seconds << 24) | u64::from(v.micros)).to_be_bytes());
        }
        (Kind::Binary { bytes }, ColumnValue::Bytes(v)) => {
            let missing = bytes.checked_sub(v.len()).ok_or(OUT_OF_RANGE)?;
            out.extend_from_slice(v);
            out.extend(core::iter::repeat_n(0, missing));
        }
        (Kind::VarBinary, ColumnValue::Bytes(v)) => text::encode_raw(v, out),
        (Kind::VarBinary, ColumnValue::Text { bytes, charset: Charset::Binary }) => text::encode_raw(bytes, out),
        (Kind::NoPad(want), ColumnValue::Text { bytes, charset }) if charset == want => text::encode_raw(bytes, out),
        (Kind::Padded(want), ColumnValue::Text { bytes, charset }) if charset == want => {
            text::encode_padded(bytes, out);
        }
        _ => return Err(WRONG_TYPE),
    }
    Ok(())
}

fn decode_part(kind: Kind, bytes: &[u8]) -> Option<(KeyValue, &[u8])> {
    Some(match kind {
        Kind::Int { bytes: width, unsigned } => {
            let (head, rest) = bytes.split_at_checked(usize::from(width))?;
            let raw = head.iter().fold(0_u64, |acc, b| (acc << 8) | u64::from(*b));
            let value = if unsigned { KeyValue::UInt(raw) } else { KeyValue::Int(unshift_signed(raw, width)) };
            (value, rest)
        }
        Kind::Decimal { precision, scale, bytes: n } => {
            let (head, rest) = bytes.split_at_checked(n)?;
            (KeyValue::Decimal(Decimal::new(head, precision, scale)?.to_string()), rest)
        }
        Kind::Date => {
            let (head, rest) = bytes.split_first_chunk()?;
            (KeyValue::Date(unpack_date(u64::from(u32::from_be_bytes(*head)))?), rest)
        }
        Kind::DateTime => {
            let (head, rest) = bytes.split_first_chunk()?;
            (KeyValue::DateTime(unpack_datetime(u64::from_be_bytes(*head))?), rest)
        }
        Kind::Timestamp => {
            let (head, rest) = bytes.split_first_chunk()?;
            let raw = u64::from_be_bytes(*head);
            let micros = u32::try_from(raw & 0xff_ffff).ok().filter(|m| *m <= 999_999)?;
            (KeyValue::Timestamp(Timestamp { seconds: raw >> 24, micros }), rest)
        }
        Kind::Binary { bytes: n } => {
            let (head, rest) = bytes.split_at_checked(n)?;
            (KeyValue::Bytes(head.to_vec()), rest)
        }
        Kind::VarBinary => {
            let (value, rest) = text::decode_raw(bytes)?;
            (KeyValue::Bytes(value), rest)
        }
        Kind::NoPad(charset) => {
            let (bytes, rest) = text::decode_raw(bytes)?;
            (KeyValue::Text { bytes, charset }, rest)
        }
        Kind::Padded(charset) => {
            let (bytes, rest) = text::decode_padded(bytes)?;
            (KeyValue::Text { bytes, charset }, rest)
        }
    })
}

/// A packed DECIMAL as it is, but for a negative zero, which becomes the zero that it equals.
fn copy_decimal(packed: &[u8], precision: u8, scale: u8, out: &mut Vec<u8>) -> Option<()> {
    Decimal::new(packed, precision, scale)?;
    match packed.split_first() {
        Some((0x7f, rest)) if rest.iter().all(|b| *b == 0xff) => {
            out.push(0x80);
            out.extend(rest.iter().map(|_| 0));
        }
        _ => out.extend_from_slice(packed),
    }
    Some(())
}

/// The lowest `bytes` bytes of `v`, big endian.
fn push_be(v: u64, bytes: u8, out: &mut Vec<u8>) {
    let all = v.to_be_bytes();
    out.extend(all.iter().skip(all.len().saturating_sub(usize::from(bytes))));
}

/// A signed integer of `bytes` bytes moved up by half its range; None if it does not fit.
fn shift_signed(v: i64, bytes: u8) -> Option<u64> {
    let half = 1_i128 << u32::from(bytes).saturating_mul(8).saturating_sub(1);
    let shifted = i128::from(v).checked_add(half)?;
    (shifted < half.checked_mul(2)?).then(|| u64::try_from(shifted).ok()).flatten()
}

fn unshift_signed(raw: u64, bytes: u8) -> i64 {
    let half = 1_i128 << u32::from(bytes).saturating_mul(8).saturating_sub(1);
    i64::try_from(i128::from(raw).saturating_sub(half)).unwrap_or(i64::MAX)
}

/// year, month and day in 23 bits, each part in its own field so that zero parts sort where the server sorts them.
fn pack_date(Date { year, month, day }: Date) -> Option<u32> {
    if year > 9999 || month > 12 || day > 31 {
        return None;
    }
    Some((u32::from(year) << 9) | (u32::from(month) << 5) | u32::from(day))
}

fn unpack_date(raw: u64) -> Option<Date> {
    let year = u16::try_from(raw >> 9).ok().filter(|y| *y <= 9999)?;
    let month = u8::try_from((raw >> 5) & 15).ok().filter(|m| *m <= 12)?;
    let day = u8::try_from(raw & 31).ok()?;
    Some(Date { year, month, day })
}

fn pack_datetime(v: DateTime) -> Option<u64> {
    let date = u64::from(pack_date(v.date)?);
    if v.hour > 23 || v.minute > 59 || v.second > 59 || v.micros > 999_999 {
        return None;
    }
    let time = (u64::from(v.hour) << 12) | (u64::from(v.minute) << 6) | u64::from(v.second);
    Some((date << 41) | (time << 24) | u64::from(v.micros))
}

fn unpack_datetime(raw: u64) -> Option<DateTime> {
    let small = |shift: u32, mask: u64, max: u8| u8::try_from((raw >> shift) & mask).ok().filter(|v| *v <= max);
    Some(DateTime {
        date: unpack_date(raw >> 41)?,
        hour: small(36, 31, 23)?,
        minute: small(30, 63, 59)?,
        second: small(24, 63, 59)?,
        micros: u32::try_from(raw & 0xff_ffff).ok().filter(|m| *m <= 999_999)?,
    })
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "an overflow in a test is a failure")]
mod tests;
