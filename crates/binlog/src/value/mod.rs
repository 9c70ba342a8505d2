//! Column values, borrowed from the row that carries them.

mod address;
mod compressed;
mod decimal;
mod json;
mod json_diff;
mod json_dom;
mod json_path;
mod number;
mod old_temporal;
mod read;
mod temporal;

pub use address::{write_inet4, write_inet6, write_uuid};
pub use compressed::Compressed;
pub use decimal::{Decimal, DecimalTextError};
pub use json::JsonBinary;
pub use json_diff::{JsonDiff, JsonDiffError, JsonDiffs, JsonOperation};
pub use number::{write_double, write_float};
pub use temporal::{Date, DateTime, Time, Timestamp};

pub(crate) use read::read_value;

use crate::table::Charset;

/// One column's value, from a binlog row image or from a binary result row. `Copy`, at most 24 bytes, never allocated.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(clippy::exhaustive_enums, reason = "a sink must handle every value; a new one has to be a compile error there")]
pub enum ColumnValue<'a> {
    /// SQL NULL (JSON's null is a JSON value).
    Null,
    /// Signed integer types.
    Int(i64),
    /// Unsigned integer types.
    UInt(u64),
    /// FLOAT.
    Float(f32),
    /// DOUBLE.
    Double(f64),
    /// DECIMAL as the log packs it; [`Decimal`] reads it. (Its fields stand here so that the value stays within 24 bytes.)
    Decimal {
        /// The packed bytes.
        bytes: &'a [u8],
        /// Digits in all.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// DECIMAL as a result row prints it: plain ASCII digits with the column's scale.
    DecimalText(&'a [u8]),
    /// Text in the column's own character set.
    Text {
        /// Bytes as stored (CHAR without trailing spaces).
        bytes: &'a [u8],
        /// Their character set.
        charset: Charset,
    },
    /// BINARY (possibly without its trailing zero bytes), VARBINARY, BLOB.
    Bytes(&'a [u8]),
    /// BIT, right-aligned.
    Bit(u64),
    /// ENUM number; 0 is the invalid value ''.
    Enum(u16),
    /// SET bits.
    Set(u64),
    /// YEAR; 0 is 0000.
    Year(u16),
    /// DATE, zero and partly zero dates included.
    Date(Date),
    /// TIME.
    Time(Time),
    /// DATETIME.
    DateTime(DateTime),
    /// TIMESTAMP.
    Timestamp(Timestamp),
    /// JSON as the log stores it.
    Json(JsonBinary<'a>),
    /// How a JSON document changed, in the after image of a partial update: [`Row::complete`](crate::Row::complete).
    JsonDiffs(JsonDiffs<'a>),
    /// JSON as a result row prints it, UTF-8.
    JsonText(&'a [u8]),
    /// u32 SRID and WKB.
    Geometry(&'a [u8]),
    /// Little-endian 32-bit floats.
    Vector(&'a [u8]),
    /// A value of a COMPRESSED column that was worth compressing; others are plain text or bytes.
    Compressed {
        /// What to inflate.
        value: Compressed<'a>,
        /// The character set of what comes out; `binary` for bytes.
        charset: Charset,
    },
    /// UUID of MariaDB, in the order it is written in: [`write_uuid`].
    Uuid([u8; 16]),
    /// INET4 of MariaDB: [`write_inet4`].
    Inet4([u8; 4]),
    /// INET6 of MariaDB: [`write_inet6`].
    Inet6([u8; 16]),
}

const _: () = assert!(size_of::<ColumnValue<'_>>() <= 24);
