//! How a key column's values are written: chosen by its type and collation.

use millstream_binlog::{Charset, Column, ColumnType, Decimal};

use super::collation::{Collations, SpaceWeight};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Int {
        bytes: u8,
        unsigned: bool,
    },
    Decimal {
        precision: u8,
        scale: u8,
        bytes: usize,
    },
    Date,
    DateTime,
    Timestamp,
    Binary {
        bytes: usize,
    },
    VarBinary,
    NoPad(Charset),
    Padded(Charset),
    /// Text by the server's weights; with the weight of a space where spaces at the end do not count.
    Weighed {
        charset: Charset,
        collation: u16,
        space: Option<SpaceWeight>,
    },
    Bit {
        bytes: u8,
    },
    Year,
    Time,
    /// MariaDB's UUID.
    Uuid,
    /// INET4 and INET6.
    Inet {
        bytes: u8,
    },
    /// Numbers 0 (the error value) to the count of labels.
    Enum {
        labels: u16,
    },
    /// Bits, one for each label.
    Set {
        labels: u8,
    },
}

impl Kind {
    /// The greatest number of a kind whose ranges must be sent as lists: an index does not serve `>` on ENUM and SET.
    pub(super) fn greatest_listed(self) -> Option<u64> {
        match self {
            Self::Enum { labels } => Some(u64::from(labels)),
            Self::Set { labels } => 1_u64.checked_shl(u32::from(labels)).and_then(|n| n.checked_sub(1)),
            _ => None,
        }
    }
}

/// SETs with more labels would need lists of more values than a statement can carry.
const SET_LABELS: usize = 12;

/// MySQL collation ids whose order is the order of bytes.
const ASCII_BIN: u16 = 65;
const LATIN1_BIN: u16 = 47;
const UTF8MB3_BIN: u16 = 83;
const UTF8MB4_BIN: u16 = 46;
const UTF8MB4_0900_BIN: u16 = 309;
const BINARY: u16 = 63;

/// How text of a collation is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// By its bytes, with spaces at the end that do not count.
    Padded,
    /// By its bytes.
    NoPad,
    /// It is no text.
    Bytes,
    /// By weights that only the server knows.
    Weights,
}

pub(super) const fn order(collation: u16, charset: Charset) -> Order {
    match (collation, charset) {
        (ASCII_BIN, Charset::Ascii)
        | (LATIN1_BIN, Charset::Latin1)
        | (UTF8MB3_BIN, Charset::Utf8mb3)
        | (UTF8MB4_BIN, Charset::Utf8mb4) => Order::Padded,
        (UTF8MB4_0900_BIN, Charset::Utf8mb4) => Order::NoPad,
        (BINARY, Charset::Binary) => Order::Bytes,
        _ => Order::Weights,
    }
}

/// Whether a column is of a type that a key can have; its collation is not looked at.
pub(crate) fn can_be_key(column: &Column) -> bool {
    let text = matches!(column.ty, ColumnType::Char { .. } | ColumnType::VarChar { .. });
    text || kind(column, &Collations::default()).is_ok()
}

/// The kind of a key column, or why it has none.
pub(super) fn kind(column: &Column, collations: &Collations) -> Result<Kind, &'static str> {
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
        ColumnType::Char { .. } | ColumnType::VarChar { .. } => match order(column.collation, column.charset) {
            Order::Padded => Kind::Padded(column.charset),
            Order::NoPad => Kind::NoPad(column.charset),
            Order::Bytes => Kind::VarBinary,
            Order::Weights => match collations.get(column.collation) {
                Some(known) => {
                    Kind::Weighed { charset: column.charset, collation: column.collation, space: known.space() }
                }
                None => return Err("is text of a collation that has no plain weights"),
            },
        },
        ColumnType::Bit { bits } => Kind::Bit { bytes: bits.div_ceil(8).clamp(1, 8) },
        ColumnType::Year => Kind::Year,
        ColumnType::Time { .. } | ColumnType::OldTime { .. } => Kind::Time,
        ColumnType::Enum { labels, .. } => Kind::Enum { labels: u16::try_from(labels.len()).unwrap_or(u16::MAX) },
        ColumnType::Set { labels, .. } if labels.len() <= SET_LABELS => {
            Kind::Set { labels: u8::try_from(labels.len()).unwrap_or(u8::MAX) }
        }
        ColumnType::Set { .. } => return Err("is a SET of more than 12 labels, whose order no index range can follow"),
        ColumnType::Float | ColumnType::Double => {
            return Err("is a floating-point number: its text is rounded, so a row could not be found again by it");
        }
        ColumnType::Text { .. } => return Err("is TEXT, of which a key holds a prefix only"),
        ColumnType::Blob { .. } => return Err("is BLOB, of which a key holds a prefix only"),
        ColumnType::Json => return Err("is JSON"),
        ColumnType::Geometry => return Err("is spatial"),
        ColumnType::Vector | ColumnType::VarVector { .. } => return Err("is VECTOR"),
        ColumnType::Compressed { .. } => return Err("is COMPRESSED"),
        ColumnType::Uuid => Kind::Uuid,
        ColumnType::Inet4 => Kind::Inet { bytes: 4 },
        ColumnType::Inet6 => Kind::Inet { bytes: 16 },
    })
}
