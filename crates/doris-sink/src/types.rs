//! MySQL column types as Doris column types.
//!
//! Lengths of Doris' VARCHAR are bytes of UTF-8, MySQL's are characters: `VARCHAR(n)` becomes `VARCHAR(4n)`, because
//! three bytes a character lose what lies outside the basic plane.

use core::fmt;

use millstream_binlog::{Charset, Column, ColumnType};

/// Greatest length of a Doris VARCHAR, in bytes.
pub const VARCHAR_MAX: u32 = 65_533;
/// Greatest length of an ENUM or SET element in bytes: 255 characters of at most 4 bytes.
const ELEMENT_MAX: u32 = 1020;

/// A Doris column type, as far as this sink creates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DorisType {
    /// BOOLEAN.
    Boolean,
    /// TINYINT, 8 bits.
    TinyInt,
    /// SMALLINT, 16 bits.
    SmallInt,
    /// INT, 32 bits.
    Int,
    /// BIGINT, 64 bits.
    BigInt,
    /// LARGEINT, 128 bits.
    LargeInt,
    /// FLOAT.
    Float,
    /// DOUBLE.
    Double,
    /// DECIMAL(p, s), p at most 38.
    Decimal {
        /// Digits in all.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// DATE.
    Date,
    /// DATETIME(fsp).
    DateTime {
        /// Digits of the fraction, 0 to 6.
        fsp: u8,
    },
    /// CHAR(n), n in bytes.
    Char(u32),
    /// VARCHAR(n), n in bytes.
    VarChar(u32),
    /// STRING.
    String,
}

impl fmt::Display for DorisType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean => f.write_str("BOOLEAN"),
            Self::TinyInt => f.write_str("TINYINT"),
            Self::SmallInt => f.write_str("SMALLINT"),
            Self::Int => f.write_str("INT"),
            Self::BigInt => f.write_str("BIGINT"),
            Self::LargeInt => f.write_str("LARGEINT"),
            Self::Float => f.write_str("FLOAT"),
            Self::Double => f.write_str("DOUBLE"),
            Self::Decimal { precision, scale } => write!(f, "DECIMAL({precision},{scale})"),
            Self::Date => f.write_str("DATE"),
            Self::DateTime { fsp: 0 } => f.write_str("DATETIME"),
            Self::DateTime { fsp } => write!(f, "DATETIME({fsp})"),
            Self::Char(n) => write!(f, "CHAR({n})"),
            Self::VarChar(n) => write!(f, "VARCHAR({n})"),
            Self::String => f.write_str("STRING"),
        }
    }
}

impl DorisType {
    /// Whether a column that Doris describes as `described` (the Type of DESC) is of this type.
    ///
    /// Doris prints the same type in several ways: `TEXT` or `STRING` or `VARCHAR(65533)` for strings, `DECIMALV3(p, s)`,
    /// `DATETIMEV2(f)`, `TINYINT(4)` with a display width, `TINYINT(1)` for BOOLEAN.
    #[must_use]
    pub fn matches_described(self, described: &str) -> bool {
        parse_described(described).is_some_and(|found| match (self, found) {
            (Self::Boolean, Self::TinyInt) => display_width(described) == Some(1),
            (Self::TinyInt, Self::TinyInt) => display_width(described) != Some(1),
            (a, b) => a == b,
        })
    }
}

fn display_width(described: &str) -> Option<u32> {
    let (_, rest) = described.split_once('(')?;
    rest.split(')').next()?.trim().parse().ok()
}

/// A type as DESC prints it.
fn parse_described(described: &str) -> Option<DorisType> {
    let text = described.trim().to_ascii_lowercase();
    let (name, args) = match text.split_once('(') {
        Some((name, rest)) => (name.trim(), rest.split(')').next().unwrap_or_default()),
        None => (text.as_str(), ""),
    };
    let mut args = args.split(',').map(|arg| arg.trim().parse::<u32>().ok());
    let mut arg = || args.next().flatten();
    Some(match name {
        "boolean" | "bool" => DorisType::Boolean,
        "tinyint" => DorisType::TinyInt,
        "smallint" => DorisType::SmallInt,
        "int" | "integer" => DorisType::Int,
        "bigint" => DorisType::BigInt,
        "largeint" => DorisType::LargeInt,
        "float" => DorisType::Float,
        "double" => DorisType::Double,
        "decimal" | "decimalv3" | "decimalv2" | "decimal32" | "decimal64" | "decimal128" => {
            DorisType::Decimal { precision: u8::try_from(arg()?).ok()?, scale: u8::try_from(arg().unwrap_or(0)).ok()? }
        }
        "date" | "datev2" => DorisType::Date,
        "datetime" | "datetimev2" => DorisType::DateTime { fsp: u8::try_from(arg().unwrap_or(0)).ok()? },
        "char" | "character" => DorisType::Char(arg()?),
        "varchar" => arg().map_or(DorisType::String, DorisType::VarChar),
        "string" | "text" => DorisType::String,
        _ => return None,
    })
}

/// Why a column cannot be replicated, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedColumn {
    /// The source column, or the target's own name when the whole table is refused.
    pub column: String,
    /// What is wrong.
    pub reason: Box<str>,
    /// The way out.
    pub hint: &'static str,
}

impl fmt::Display for RefusedColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}; {}", self.column, self.reason, self.hint)
    }
}

/// The greatest number of bytes one character of `charset` takes (`SHOW CHARACTER SET`, Maxlen). A set this sink does not
/// know counts as one byte a character, which can only make the Doris column longer than needed.
const fn bytes_per_char(charset: Charset) -> u32 {
    match charset {
        Charset::Big5
        | Charset::Cp932
        | Charset::Euckr
        | Charset::Gb2312
        | Charset::Gbk
        | Charset::Sjis
        | Charset::Ucs2 => 2,
        Charset::Utf8mb3 | Charset::Ujis | Charset::Eucjpms => 3,
        Charset::Utf8mb4 | Charset::Gb18030 | Charset::Utf16 | Charset::Utf16le | Charset::Utf32 => 4,
        _ => 1,
    }
}

/// Greatest UTF-8 length of a text column of `max_bytes` bytes in `charset`.
const fn utf8_bytes(max_bytes: u32, charset: Charset) -> u32 {
    let chars = max_bytes.div_ceil(bytes_per_char(charset));
    let bytes = chars.saturating_mul(4);
    if bytes == 0 { 1 } else { bytes }
}

/// The Doris type of `column`; `key` says whether it is a key column of the Doris table.
///
/// # Errors
/// When Doris has no faithful type for it as a key.
pub fn doris_type(column: &Column, key: bool) -> Result<DorisType, RefusedColumn> {
    let refuse = |reason: String| {
        Err(RefusedColumn {
            column: column.name.clone(),
            reason: reason.into(),
            hint: "give the table another primary key, or route it to an append target (mode = \"append\")",
        })
    };
    // Bytes of a text that must stay within a VARCHAR when it is a key.
    let text = |bytes: u32, what: &str| {
        if bytes <= VARCHAR_MAX {
            Ok(DorisType::VarChar(bytes))
        } else if key {
            refuse(format!(
                "a key of up to {bytes} bytes ({what}) is longer than Doris' longest key, VARCHAR({VARCHAR_MAX})"
            ))
        } else {
            Ok(DorisType::String)
        }
    };
    // Hex text: a key has a length, anything else may grow.
    let hex = |bytes: u32| {
        if key { text(bytes.saturating_mul(2).max(1), "two hex digits a byte") } else { Ok(DorisType::String) }
    };
    let prefixed = |length_bytes: u8| match length_bytes {
        1 => 0xff_u32,
        2 => 0xffff,
        3 => 0xff_ffff,
        _ => u32::MAX,
    };
    let no_key = |ty: DorisType, what: &str| {
        if key { refuse(format!("{what} cannot be a key column in Doris")) } else { Ok(ty) }
    };
    match &column.ty {
        ColumnType::TinyInt { unsigned: false } => Ok(DorisType::TinyInt),
        ColumnType::TinyInt { unsigned: true } | ColumnType::SmallInt { unsigned: false } | ColumnType::Year => {
            Ok(DorisType::SmallInt)
        }
        ColumnType::SmallInt { unsigned: true }
        | ColumnType::MediumInt { .. }
        | ColumnType::Int { unsigned: false } => Ok(DorisType::Int),
        ColumnType::Int { unsigned: true } | ColumnType::BigInt { unsigned: false } => Ok(DorisType::BigInt),
        ColumnType::BigInt { unsigned: true } => Ok(DorisType::LargeInt),
        ColumnType::Float => no_key(DorisType::Float, "FLOAT"),
        ColumnType::Double => no_key(DorisType::Double, "DOUBLE"),
        ColumnType::Decimal { precision, scale } if *precision <= 38 => {
            Ok(DorisType::Decimal { precision: *precision, scale: *scale })
        }
        ColumnType::Decimal { precision, .. } => {
            no_key(DorisType::String, &format!("DECIMAL of {precision} digits (Doris has 38)"))
        }
        ColumnType::Bit { bits: 0 | 1 } => Ok(DorisType::Boolean),
        ColumnType::Bit { bits: 2..=63 } => Ok(DorisType::BigInt),
        ColumnType::Bit { .. } => Ok(DorisType::LargeInt),
        ColumnType::Date => Ok(DorisType::Date),
        ColumnType::Time { .. } | ColumnType::OldTime { .. } => Ok(DorisType::VarChar(17)),
        ColumnType::DateTime { fsp }
        | ColumnType::Timestamp { fsp }
        | ColumnType::OldDateTime { fsp }
        | ColumnType::OldTimestamp { fsp } => Ok(DorisType::DateTime { fsp: (*fsp).min(6) }),
        ColumnType::Char { max_bytes } | ColumnType::VarChar { max_bytes } => {
            text(utf8_bytes(*max_bytes, column.charset), "four bytes a character")
        }
        ColumnType::Text { length_bytes } => {
            if key {
                text(utf8_bytes(prefixed(*length_bytes), column.charset), "TEXT")
            } else {
                Ok(DorisType::String)
            }
        }
        ColumnType::Binary { bytes } => hex(*bytes),
        ColumnType::VarBinary { max_bytes } => hex(*max_bytes),
        ColumnType::Blob { length_bytes } => hex(prefixed(*length_bytes)),
        // Wide enough for every label a later ALTER may add.
        ColumnType::Enum { .. } => Ok(DorisType::VarChar(ELEMENT_MAX)),
        ColumnType::Set { labels, .. } => {
            let all = labels.iter().fold(0_usize, |sum, label| sum.saturating_add(label.len()).saturating_add(1));
            text(u32::try_from(all).unwrap_or(u32::MAX).max(ELEMENT_MAX), "all its labels")
        }
        ColumnType::Json => no_key(DorisType::String, "JSON"),
        ColumnType::Geometry => no_key(DorisType::String, "a spatial type"),
        ColumnType::Vector | ColumnType::VarVector { .. } => no_key(DorisType::String, "VECTOR"),
        ColumnType::Compressed { .. } => no_key(DorisType::String, "a COMPRESSED column"),
        ColumnType::Uuid => Ok(DorisType::VarChar(36)),
        ColumnType::Inet4 => Ok(DorisType::VarChar(15)),
        // The longest has an IPv4 address at its end.
        ColumnType::Inet6 => Ok(DorisType::VarChar(45)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(ty: ColumnType, charset: Charset) -> Column {
        Column { name: "c".into(), ty, nullable: true, charset, collation: 0 }
    }

    #[test]
    fn every_type_maps_as_the_documentation_says() {
        use ColumnType as M;
        let labels = || ["a", "b"].map(str::to_owned).into();
        #[rustfmt::skip]
        let table: Vec<(M, Charset, &str, &str)> = vec![
            // MySQL type, its character set, Doris type as a value, as a key ("" = refused)
            (M::TinyInt { unsigned: false }, Charset::Binary, "TINYINT", "TINYINT"),
            (M::TinyInt { unsigned: true }, Charset::Binary, "SMALLINT", "SMALLINT"),
            (M::SmallInt { unsigned: false }, Charset::Binary, "SMALLINT", "SMALLINT"),
            (M::SmallInt { unsigned: true }, Charset::Binary, "INT", "INT"),
            (M::MediumInt { unsigned: false }, Charset::Binary, "INT", "INT"),
            (M::MediumInt { unsigned: true }, Charset::Binary, "INT", "INT"),
            (M::Int { unsigned: false }, Charset::Binary, "INT", "INT"),
            (M::Int { unsigned: true }, Charset::Binary, "BIGINT", "BIGINT"),
            (M::BigInt { unsigned: false }, Charset::Binary, "BIGINT", "BIGINT"),
            (M::BigInt { unsigned: true }, Charset::Binary, "LARGEINT", "LARGEINT"),
            (M::Float, Charset::Binary, "FLOAT", ""),
            (M::Double, Charset::Binary, "DOUBLE", ""),
            (M::Decimal { precision: 38, scale: 30 }, Charset::Binary, "DECIMAL(38,30)", "DECIMAL(38,30)"),
            (M::Decimal { precision: 39, scale: 0 }, Charset::Binary, "STRING", ""),
            (M::Bit { bits: 1 }, Charset::Binary, "BOOLEAN", "BOOLEAN"),
            (M::Bit { bits: 2 }, Charset::Binary, "BIGINT", "BIGINT"),
            (M::Bit { bits: 63 }, Charset::Binary, "BIGINT", "BIGINT"),
            (M::Bit { bits: 64 }, Charset::Binary, "LARGEINT", "LARGEINT"),
            (M::Year, Charset::Binary, "SMALLINT", "SMALLINT"),
            (M::Date, Charset::Binary, "DATE", "DATE"),
            (M::Time { fsp: 6 }, Charset::Binary, "VARCHAR(17)", "VARCHAR(17)"),
            (M::DateTime { fsp: 0 }, Charset::Binary, "DATETIME", "DATETIME"),
            (M::DateTime { fsp: 6 }, Charset::Binary, "DATETIME(6)", "DATETIME(6)"),
            (M::Timestamp { fsp: 3 }, Charset::Binary, "DATETIME(3)", "DATETIME(3)"),
            (M::Char { max_bytes: 40 }, Charset::Utf8mb4, "VARCHAR(40)", "VARCHAR(40)"),
            (M::Char { max_bytes: 10 }, Charset::Latin1, "VARCHAR(40)", "VARCHAR(40)"),
            (M::Char { max_bytes: 20 }, Charset::Gbk, "VARCHAR(40)", "VARCHAR(40)"),
            (M::Char { max_bytes: 40 }, Charset::Utf16, "VARCHAR(40)", "VARCHAR(40)"),
            (M::Char { max_bytes: 0 }, Charset::Utf8mb4, "VARCHAR(1)", "VARCHAR(1)"),
            (M::VarChar { max_bytes: 30 }, Charset::Utf8mb3, "VARCHAR(40)", "VARCHAR(40)"),
            (M::VarChar { max_bytes: 16383 * 4 }, Charset::Utf8mb4, "VARCHAR(65532)", "VARCHAR(65532)"),
            (M::VarChar { max_bytes: 16384 }, Charset::Latin1, "STRING", ""),
            (M::VarChar { max_bytes: 16383 }, Charset::Ascii, "VARCHAR(65532)", "VARCHAR(65532)"),
            (M::Text { length_bytes: 1 }, Charset::Utf8mb4, "STRING", "VARCHAR(256)"),
            (M::Text { length_bytes: 2 }, Charset::Utf8mb4, "STRING", ""),
            (M::Text { length_bytes: 4 }, Charset::Utf8mb4, "STRING", ""),
            (M::Binary { bytes: 16 }, Charset::Binary, "STRING", "VARCHAR(32)"),
            (M::VarBinary { max_bytes: 32766 }, Charset::Binary, "STRING", "VARCHAR(65532)"),
            (M::VarBinary { max_bytes: 32767 }, Charset::Binary, "STRING", ""),
            (M::Blob { length_bytes: 1 }, Charset::Binary, "STRING", "VARCHAR(510)"),
            (M::Blob { length_bytes: 4 }, Charset::Binary, "STRING", ""),
            (M::Enum { labels: labels(), bytes: 1 }, Charset::Utf8mb4, "VARCHAR(1020)", "VARCHAR(1020)"),
            (M::Set { labels: labels(), bytes: 1 }, Charset::Utf8mb4, "VARCHAR(1020)", "VARCHAR(1020)"),
            (M::Json, Charset::Binary, "STRING", ""),
            (M::Geometry, Charset::Binary, "STRING", ""),
            (M::Vector, Charset::Binary, "STRING", ""),
        ];
        for (ty, charset, value, key) in table {
            let column = column(ty, charset);
            assert_eq!(doris_type(&column, false).unwrap().to_string(), value, "{column:?}");
            match doris_type(&column, true) {
                Ok(found) => assert_eq!(found.to_string(), key, "{column:?}"),
                Err(refused) => {
                    assert_eq!(key, "", "{refused}");
                    assert_eq!(refused.column, "c");
                    assert!(!refused.reason.is_empty() && refused.hint.contains("append"), "{refused}");
                }
            }
        }
    }

    #[test]
    fn described_types_match_themselves_only() {
        #[rustfmt::skip]
        let same = [
            (DorisType::Boolean, "boolean"), (DorisType::Boolean, "tinyint(1)"), (DorisType::TinyInt, "tinyint"),
            (DorisType::TinyInt, "tinyint(4)"), (DorisType::BigInt, "BIGINT(20)"), (DorisType::LargeInt, "largeint(40)"),
            (DorisType::Decimal { precision: 10, scale: 2 }, "decimal(10, 2)"),
            (DorisType::Decimal { precision: 10, scale: 2 }, "DECIMALV3(10,2)"),
            (DorisType::DateTime { fsp: 6 }, "datetimev2(6)"), (DorisType::DateTime { fsp: 0 }, "DATETIME"),
            (DorisType::String, "text"), (DorisType::String, "string"), (DorisType::VarChar(40), "varchar(40)"),
            (DorisType::Char(1), "char(1)"), (DorisType::Date, "datev2"),
        ];
        for (ty, text) in same {
            assert!(ty.matches_described(text), "{ty} {text}");
            assert!(ty.matches_described(&ty.to_string()), "{ty}");
        }
        #[rustfmt::skip]
        let different = [
            (DorisType::TinyInt, "tinyint(1)"), (DorisType::Int, "bigint"), (DorisType::VarChar(40), "varchar(39)"),
            (DorisType::Decimal { precision: 10, scale: 2 }, "decimal(10,3)"), (DorisType::String, "json"),
            (DorisType::DateTime { fsp: 6 }, "datetime"), (DorisType::String, ""), (DorisType::VarChar(40), "varchar("),
        ];
        for (ty, text) in different {
            assert!(!ty.matches_described(text), "{ty} {text}");
        }
    }
}
