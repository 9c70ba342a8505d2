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
//! | TIME | 8: microseconds, sign bit flipped |
//! | BIT, YEAR, ENUM, SET | natural width, big endian |
//! | BINARY(n) | n bytes, padded with zeros |
//! | VARBINARY, utf8mb4_0900_bin | bytes with `00` as `00 FF`, then `00 00` |
//! | PAD SPACE `*_bin` | 8-byte segments with a marker each (see `text`) |
//! | other NO PAD text | the server's weights with `00` as `00 FF`, then `00 00` |
//! | other PAD SPACE text | the server's weights in segments with a marker each |
//!
//! Weights do not tell the text they are of, so a bound keeps it beside its order ([`Key`]).

mod collation;
mod error;
mod kind;
mod literal;
mod part;
mod text;
mod uuid;

use millstream_binlog::{Charset, ColumnValue, Date, DateTime, TableSchema, Time, Timestamp};

pub use collation::{Collation, Collations};
pub use error::{KeyError, UnsupportedKey};
pub(crate) use kind::can_be_key;
use kind::{Kind, kind};
pub(crate) use literal::literal;
use part::{decode_part, encode_part, encode_weight, skip_weight};
pub(crate) use uuid::{order as uuid_order, value as uuid_of_order};

use crate::merge::Key;

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
    /// TIME.
    Time(Time),
    /// YEAR.
    Year(u16),
    /// BIT(n).
    Bit(u64),
    /// ENUM by its number.
    Enum(u16),
    /// SET by its bits.
    Set(u64),
    /// UUID.
    Uuid([u8; 16]),
    /// INET4.
    Inet4([u8; 4]),
    /// INET6.
    Inet6([u8; 16]),
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
            Self::Time(v) => ColumnValue::Time(*v),
            Self::Year(v) => ColumnValue::Year(*v),
            Self::Bit(v) => ColumnValue::Bit(*v),
            Self::Enum(v) => ColumnValue::Enum(*v),
            Self::Set(v) => ColumnValue::Set(*v),
            Self::Uuid(v) => ColumnValue::Uuid(*v),
            Self::Inet4(v) => ColumnValue::Inet4(*v),
            Self::Inet6(v) => ColumnValue::Inet6(*v),
            Self::Bytes(bytes) => ColumnValue::Bytes(bytes),
            Self::Text { bytes, charset } => ColumnValue::Text { bytes, charset: *charset },
        }
    }
}

/// A part of a key that is ordered by the server's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WeighedPart {
    /// Ordinal of its column.
    pub ordinal: usize,
    /// Id of its collation.
    pub collation: u16,
    /// Its character set.
    pub charset: Charset,
}

impl KeyCodec {
    /// The codec of a table's primary key. `collations` are those of its text columns whose order only the server knows.
    ///
    /// # Errors
    /// No key, or a column whose order is not known to be reproduced by bytes: named with the reason.
    pub fn new(table: &TableSchema, collations: &Collations) -> Result<Self, UnsupportedKey> {
        let mut parts = Vec::with_capacity(table.key.len());
        for &ordinal in &table.key {
            let Some(column) = table.columns.get(ordinal) else {
                return Err(UnsupportedKey::new(table, "?", "is not among the table's columns"));
            };
            let kind = kind(column, collations).map_err(|reason| UnsupportedKey::new(table, &column.name, reason))?;
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

    /// For each part in key order: its greatest number, if its ranges must be sent as lists of numbers (ENUM and SET, which
    /// an index orders by number and serves by equality only).
    pub fn greatest_listed(&self) -> impl ExactSizeIterator<Item = Option<u64>> + '_ {
        self.parts.iter().map(|p| p.kind.greatest_listed())
    }

    /// The parts for which weights are needed, in key order.
    pub fn weighed(&self) -> impl Iterator<Item = WeighedPart> + '_ {
        self.parts.iter().filter_map(|p| match p.kind {
            Kind::Weighed { charset, collation, .. } => Some(WeighedPart { ordinal: p.ordinal, collation, charset }),
            _ => None,
        })
    }

    /// Appends a row's key to `out`. `value` gives the value of the column with an ordinal, from either source; `weight` the
    /// weight of a text in the column of a [`WeighedPart`], by the collation's id.
    ///
    /// # Errors
    /// A value that is absent, NULL, or not of the column's type, or a weight that is missing; `out` is then as it was.
    pub fn encode<'v, 'w>(
        &self,
        mut value: impl FnMut(usize) -> Option<ColumnValue<'v>>,
        mut weight: impl FnMut(WeighedPart, &'v [u8]) -> Option<&'w [u8]>,
        out: &mut Vec<u8>,
    ) -> Result<(), KeyError> {
        let start = out.len();
        for part in &self.parts {
            let value = value(part.ordinal).ok_or("is absent");
            let encoded = value.and_then(|v| match (part.kind, v) {
                (Kind::Weighed { charset, collation, space }, ColumnValue::Text { bytes, charset: found })
                    if charset == found =>
                {
                    let at = WeighedPart { ordinal: part.ordinal, collation, charset };
                    encode_weight(weight(at, bytes).ok_or("has no weight")?, space, out)
                }
                (kind, v) => encode_part(kind, v, out),
            });
            if let Err(reason) = encoded {
                out.truncate(start);
                return Err(KeyError::new(&part.name, reason));
            }
        }
        Ok(())
    }

    /// Appends the key whose parts come in key order, none of them weighed.
    ///
    /// # Errors
    /// As [`KeyCodec::encode`].
    pub fn encode_parts<'v>(
        &self,
        values: impl IntoIterator<Item = ColumnValue<'v>>,
        out: &mut Vec<u8>,
    ) -> Result<(), KeyError> {
        let mut values = values.into_iter();
        self.encode(|_| values.next(), |_, _| None, out)
    }

    /// The key of a row as a bound: its order as [`KeyCodec::encode`] wrote it, and the texts that name it.
    pub fn bound<'v>(&self, order: &[u8], mut value: impl FnMut(usize) -> Option<ColumnValue<'v>>) -> Key {
        let mut texts = Vec::new();
        for part in self.weighed() {
            let text = match value(part.ordinal) {
                Some(ColumnValue::Text { bytes, .. }) => bytes,
                _ => &[],
            };
            // A key column has at most 3072 bytes.
            texts.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
            texts.extend_from_slice(text);
        }
        Key::with_text(order, &texts)
    }

    /// The parts of an encoded key, in key order. One with weighed parts must be a [`bound`](Self::bound).
    ///
    /// # Errors
    /// Bytes that this codec did not write.
    pub fn decode(&self, key: &Key) -> Result<Vec<KeyValue>, KeyError> {
        let (mut rest, mut texts) = (key.order(), key.text());
        let mut values = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let decoded = match part.kind {
                Kind::Weighed { charset, space, .. } => skip_weight(rest, space).and_then(|tail| {
                    let (length, more) = texts.split_first_chunk()?;
                    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
                    let (bytes, more) = more.split_at_checked(length)?;
                    texts = more;
                    Some((KeyValue::Text { bytes: bytes.to_vec(), charset }, tail))
                }),
                kind => decode_part(kind, rest),
            };
            let (value, tail) = decoded.ok_or_else(|| KeyError::new(&part.name, "is not an encoded key"))?;
            values.push(value);
            rest = tail;
        }
        if rest.is_empty() && texts.is_empty() {
            Ok(values)
        } else {
            Err(KeyError::new("", "has bytes after its last part"))
        }
    }

    /// SQL literals of an encoded key, in key order: each compares to its column in the column's own character set
    /// and collation.
    ///
    /// # Errors
    /// Bytes that this codec did not write.
    pub fn literals(&self, key: &Key) -> Result<Vec<String>, KeyError> {
        Ok(self.decode(key)?.iter().map(literal).collect())
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "an overflow in a test is a failure")]
mod tests;
