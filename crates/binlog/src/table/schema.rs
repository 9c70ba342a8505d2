use core::fmt;
use std::sync::Arc;

use super::Charset;

/// A table's columns and key: built from a TABLE_MAP event, from the server's catalog, or from both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSchema {
    /// Database (schema) name, UTF-8.
    pub database: String,
    /// Table name, UTF-8.
    pub table: String,
    /// Columns in ordinal order, invisible and generated ones included.
    pub columns: Vec<Column>,
    /// Ordinals (from 0) of the primary key's columns in key order; empty when there is none or it is not known.
    pub key: Vec<usize>,
}

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name, UTF-8; `@1`, `@2`, … when the log does not carry names.
    pub name: String,
    /// Logical type with its sizes.
    pub ty: ColumnType,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// Character set of text, ENUM and SET columns ([`Charset::Binary`] for the others).
    pub charset: Charset,
    /// MySQL's collation id; 63 (`binary`) for columns without a collation, 0 when not known.
    pub collation: u16,
}

/// The logical type of a column. It also fixes how the value lies in a row image, so rows decode from it alone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a sink must handle every type; a new one has to be a compile error there")]
pub enum ColumnType {
    /// 1 byte.
    TinyInt {
        /// UNSIGNED.
        unsigned: bool,
    },
    /// 2 bytes.
    SmallInt {
        /// UNSIGNED.
        unsigned: bool,
    },
    /// 3 bytes in the log, 4 in binary result rows.
    MediumInt {
        /// UNSIGNED.
        unsigned: bool,
    },
    /// 4 bytes.
    Int {
        /// UNSIGNED.
        unsigned: bool,
    },
    /// 8 bytes.
    BigInt {
        /// UNSIGNED.
        unsigned: bool,
    },
    /// IEEE 32 bits.
    Float,
    /// IEEE 64 bits.
    Double,
    /// Fixed point.
    Decimal {
        /// Digits in all, 1 to 65.
        precision: u8,
        /// Digits after the point, 0 to 30.
        scale: u8,
    },
    /// BIT(1) to BIT(64).
    Bit {
        /// Bits.
        bits: u8,
    },
    /// YEAR.
    Year,
    /// DATE.
    Date,
    /// TIME(fsp).
    Time {
        /// Digits of the fraction, 0 to 6.
        fsp: u8,
    },
    /// DATETIME(fsp).
    DateTime {
        /// Digits of the fraction, 0 to 6.
        fsp: u8,
    },
    /// TIMESTAMP(fsp), UTC.
    Timestamp {
        /// Digits of the fraction, 0 to 6.
        fsp: u8,
    },
    /// CHAR(n) of a text character set.
    Char {
        /// Greatest length in bytes.
        max_bytes: u32,
    },
    /// VARCHAR(n) of a text character set.
    VarChar {
        /// Greatest length in bytes.
        max_bytes: u32,
    },
    /// TINYTEXT to LONGTEXT.
    Text {
        /// Bytes of the length prefix, 1 to 4.
        length_bytes: u8,
    },
    /// BINARY(n). The log strips trailing zero bytes; sinks pad them back.
    Binary {
        /// Declared length in bytes.
        bytes: u32,
    },
    /// VARBINARY(n).
    VarBinary {
        /// Greatest length in bytes.
        max_bytes: u32,
    },
    /// TINYBLOB to LONGBLOB.
    Blob {
        /// Bytes of the length prefix, 1 to 4.
        length_bytes: u8,
    },
    /// ENUM.
    Enum {
        /// Labels in number order (the first is number 1), UTF-8; empty when not known.
        labels: Arc<[String]>,
        /// Bytes of the value in a row image, 1 or 2.
        bytes: u8,
    },
    /// SET.
    Set {
        /// Labels in bit order, UTF-8; empty when not known.
        labels: Arc<[String]>,
        /// Bytes of the value in a row image, 1 to 8.
        bytes: u8,
    },
    /// JSON (JSONB in the log).
    Json,
    /// Any spatial type: SRID and WKB.
    Geometry,
    /// VECTOR: little-endian 32-bit floats.
    Vector,
    /// VECTOR of MariaDB, which the log calls a VARBINARY: known from the catalog alone.
    VarVector {
        /// Greatest length in bytes.
        max_bytes: u32,
    },
    /// TIME in the format of before MySQL 5.6, or of MariaDB with `mysql56_temporal_format=OFF`.
    OldTime {
        /// Digits of the fraction, 0 to 6; MySQL has none here.
        fsp: u8,
    },
    /// DATETIME in the old format.
    OldDateTime {
        /// Digits of the fraction, 0 to 6; MySQL has none here.
        fsp: u8,
    },
    /// TIMESTAMP in the old format, UTC.
    OldTimestamp {
        /// Digits of the fraction, 0 to 6; MySQL has none here.
        fsp: u8,
    },
    /// VARCHAR, TEXT, VARBINARY or BLOB that is COMPRESSED in MariaDB; bytes if the column's character set is `binary`.
    Compressed {
        /// Bytes of the length prefix, 1 to 4.
        length_bytes: u8,
    },
    /// UUID of MariaDB. The log calls it BINARY(16): known from the catalog alone, as the next two are.
    Uuid,
    /// INET4 of MariaDB, BINARY(4) in the log.
    Inet4,
    /// INET6 of MariaDB, BINARY(16) in the log.
    Inet6,
}

impl fmt::Display for ColumnType {
    /// As in a CREATE TABLE, but with lengths in bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let int = |f: &mut fmt::Formatter<'_>, name: &str, unsigned: bool| {
            f.write_str(name)?;
            f.write_str(if unsigned { " UNSIGNED" } else { "" })
        };
        let fsp = |f: &mut fmt::Formatter<'_>, name: &str, fsp: u8| match fsp {
            0 => f.write_str(name),
            n => write!(f, "{name}({n})"),
        };
        match self {
            Self::TinyInt { unsigned } => int(f, "TINYINT", *unsigned),
            Self::SmallInt { unsigned } => int(f, "SMALLINT", *unsigned),
            Self::MediumInt { unsigned } => int(f, "MEDIUMINT", *unsigned),
            Self::Int { unsigned } => int(f, "INT", *unsigned),
            Self::BigInt { unsigned } => int(f, "BIGINT", *unsigned),
            Self::Float => f.write_str("FLOAT"),
            Self::Double => f.write_str("DOUBLE"),
            Self::Decimal { precision, scale } => write!(f, "DECIMAL({precision},{scale})"),
            Self::Bit { bits } => write!(f, "BIT({bits})"),
            Self::Year => f.write_str("YEAR"),
            Self::Date => f.write_str("DATE"),
            Self::Time { fsp: n } => fsp(f, "TIME", *n),
            Self::DateTime { fsp: n } => fsp(f, "DATETIME", *n),
            Self::Timestamp { fsp: n } => fsp(f, "TIMESTAMP", *n),
            Self::Char { max_bytes } => write!(f, "CHAR of {max_bytes} bytes"),
            Self::VarChar { max_bytes } => write!(f, "VARCHAR of {max_bytes} bytes"),
            Self::Text { length_bytes } => f.write_str(match length_bytes {
                1 => "TINYTEXT",
                2 => "TEXT",
                3 => "MEDIUMTEXT",
                _ => "LONGTEXT",
            }),
            Self::Binary { bytes } => write!(f, "BINARY({bytes})"),
            Self::VarBinary { max_bytes } => write!(f, "VARBINARY({max_bytes})"),
            Self::Blob { length_bytes } => f.write_str(match length_bytes {
                1 => "TINYBLOB",
                2 => "BLOB",
                3 => "MEDIUMBLOB",
                _ => "LONGBLOB",
            }),
            Self::Enum { labels, .. } => write_labels(f, "ENUM", labels),
            Self::Set { labels, .. } => write_labels(f, "SET", labels),
            Self::Json => f.write_str("JSON"),
            Self::Geometry => f.write_str("GEOMETRY"),
            Self::Vector => f.write_str("VECTOR"),
            Self::VarVector { max_bytes } => write!(f, "VECTOR of {max_bytes} bytes"),
            Self::OldTime { fsp: n } => fsp(f, "old TIME", *n),
            Self::OldDateTime { fsp: n } => fsp(f, "old DATETIME", *n),
            Self::OldTimestamp { fsp: n } => fsp(f, "old TIMESTAMP", *n),
            Self::Compressed { length_bytes } => write!(f, "COMPRESSED string with {length_bytes} bytes of length"),
            Self::Uuid => f.write_str("UUID"),
            Self::Inet4 => f.write_str("INET4"),
            Self::Inet6 => f.write_str("INET6"),
        }
    }
}

fn write_labels(f: &mut fmt::Formatter<'_>, name: &str, labels: &[String]) -> fmt::Result {
    f.write_str(name)?;
    for (i, label) in labels.iter().enumerate() {
        write!(f, "{}'{}'", if i == 0 { '(' } else { ',' }, label.replace('\'', "''"))?;
    }
    f.write_str(if labels.is_empty() { "" } else { ")" })
}
