//! A column's type from `information_schema.COLUMNS`.

use std::sync::Arc;

use millstream_binlog::{Charset, Column, ColumnType};

/// One row of `information_schema.COLUMNS`, as text.
#[derive(Clone, Debug, Default)]
pub struct ColumnRow<'a> {
    /// COLUMN_NAME.
    pub name: &'a str,
    /// IS_NULLABLE.
    pub nullable: bool,
    /// DATA_TYPE, lower case (`varchar`).
    pub data_type: &'a str,
    /// COLUMN_TYPE (`enum('a','b')`, `int unsigned`).
    pub column_type: &'a str,
    /// CHARACTER_MAXIMUM_LENGTH, in characters.
    pub characters: Option<u64>,
    /// CHARACTER_OCTET_LENGTH.
    pub octets: Option<u64>,
    /// NUMERIC_PRECISION.
    pub precision: Option<u64>,
    /// NUMERIC_SCALE.
    pub scale: Option<u64>,
    /// DATETIME_PRECISION.
    pub fsp: Option<u64>,
    /// CHARACTER_SET_NAME.
    pub charset: Option<&'a str>,
    /// Id of the COLLATION_NAME.
    pub collation: Option<u16>,
}

/// MySQL's collation id of bytes.
const BINARY: u16 = 63;

/// The column that the row describes.
///
/// # Errors
/// What is not understood, without the table's name.
pub fn column(row: &ColumnRow<'_>) -> Result<Column, String> {
    let ty = column_type(row).ok_or_else(|| {
        format!("column {} has the type {}, which is not supported", row.name, row.column_type.escape_debug())
    })?;
    let (charset, collation) = match &ty {
        ColumnType::Char { .. }
        | ColumnType::VarChar { .. }
        | ColumnType::Text { .. }
        | ColumnType::Enum { .. }
        | ColumnType::Set { .. } => {
            let name = row.charset.unwrap_or_default();
            let charset = Charset::from_name(name)
                .ok_or_else(|| format!("column {} has the character set {name}, which is not supported", row.name))?;
            (charset, row.collation.unwrap_or(0))
        }
        _ => (Charset::Binary, BINARY),
    };
    Ok(Column { name: row.name.to_owned(), ty, nullable: row.nullable, charset, collation })
}

fn column_type(row: &ColumnRow<'_>) -> Option<ColumnType> {
    let unsigned = row.column_type.split(' ').any(|word| word.eq_ignore_ascii_case("unsigned"));
    let small = |n: Option<u64>| n.and_then(|n| u8::try_from(n).ok());
    let length = |n: Option<u64>| n.and_then(|n| u32::try_from(n).ok());
    let fsp = small(row.fsp.or(Some(0)))?;
    Some(match row.data_type.to_ascii_lowercase().as_str() {
        "tinyint" => ColumnType::TinyInt { unsigned },
        "smallint" => ColumnType::SmallInt { unsigned },
        "mediumint" => ColumnType::MediumInt { unsigned },
        "int" => ColumnType::Int { unsigned },
        "bigint" => ColumnType::BigInt { unsigned },
        "float" => ColumnType::Float,
        "double" => ColumnType::Double,
        "decimal" => ColumnType::Decimal { precision: small(row.precision)?, scale: small(row.scale)? },
        "bit" => ColumnType::Bit { bits: small(row.precision)? },
        "year" => ColumnType::Year,
        "date" => ColumnType::Date,
        "time" => ColumnType::Time { fsp },
        "datetime" => ColumnType::DateTime { fsp },
        "timestamp" => ColumnType::Timestamp { fsp },
        "char" => ColumnType::Char { max_bytes: length(row.octets)? },
        "varchar" => ColumnType::VarChar { max_bytes: length(row.octets)? },
        "tinytext" => ColumnType::Text { length_bytes: 1 },
        "text" => ColumnType::Text { length_bytes: 2 },
        "mediumtext" => ColumnType::Text { length_bytes: 3 },
        "longtext" => ColumnType::Text { length_bytes: 4 },
        "binary" => ColumnType::Binary { bytes: length(row.octets)? },
        "varbinary" => ColumnType::VarBinary { max_bytes: length(row.octets)? },
        "tinyblob" => ColumnType::Blob { length_bytes: 1 },
        "blob" => ColumnType::Blob { length_bytes: 2 },
        "mediumblob" => ColumnType::Blob { length_bytes: 3 },
        "longblob" => ColumnType::Blob { length_bytes: 4 },
        "enum" => {
            let labels = labels(row.column_type)?;
            let bytes = if labels.len() < 256 { 1 } else { 2 };
            ColumnType::Enum { labels, bytes }
        }
        "set" => {
            let labels = labels(row.column_type)?;
            // 5, 6 and 7 bytes are stored as 8.
            let bytes = match u8::try_from(labels.len().div_ceil(8)).ok()? {
                0 => 1,
                n @ 1..=4 => n,
                _ => 8,
            };
            ColumnType::Set { labels, bytes }
        }
        "json" => ColumnType::Json,
        "geometry" | "point" | "linestring" | "polygon" | "multipoint" | "multilinestring" | "multipolygon"
        | "geometrycollection" | "geomcollection" => ColumnType::Geometry,
        "vector" => ColumnType::Vector,
        "uuid" => ColumnType::Uuid,
        "inet4" => ColumnType::Inet4,
        "inet6" => ColumnType::Inet6,
        _ => return None,
    })
}

/// The labels of `enum('a','it''s','back\\slash')`: quotes doubled, and `\\`, `\0`, `\n`, `\r` as the server writes them.
fn labels(column_type: &str) -> Option<Arc<[String]>> {
    let list = column_type.split_once('(')?.1.strip_suffix(')')?;
    let mut labels = Vec::new();
    let mut chars = list.chars().peekable();
    loop {
        if chars.next()? != '\'' {
            return None;
        }
        let mut label = String::new();
        loop {
            match chars.next()? {
                '\'' if chars.next_if_eq(&'\'').is_some() => label.push('\''),
                '\'' => break,
                '\\' => label.push(match chars.next()? {
                    '0' => '\0',
                    'n' => '\n',
                    'r' => '\r',
                    other => other,
                }),
                other => label.push(other),
            }
        }
        labels.push(label);
        match chars.next() {
            None => return Some(labels.into()),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_as_the_server_writes_them() {
        for (text, want) in [
            ("enum('a','b')", Some(vec!["a", "b"])),
            ("enum('it''s','a,b','','(x)')", Some(vec!["it's", "a,b", "", "(x)"])),
            ("set('back\\\\slash','tab\t','new\\nline')", Some(vec!["back\\slash", "tab\t", "new\nline"])),
            ("enum('é','😀')", Some(vec!["é", "😀"])),
            ("enum('a'", None),
            ("enum('a)", None),
            ("enum()", None),
            ("enum(a)", None),
        ] {
            let got = labels(text);
            assert_eq!(got.as_deref().map(|l| l.iter().map(String::as_str).collect::<Vec<_>>()), want, "{text}");
        }
    }

    #[test]
    fn types_that_are_not_known_are_named() {
        let row = ColumnRow { name: "c", data_type: "geography", column_type: "geography", ..ColumnRow::default() };
        assert_eq!(column(&row).unwrap_err(), "column c has the type geography, which is not supported");
        let row = ColumnRow {
            name: "c",
            data_type: "char",
            column_type: "char(1)",
            octets: Some(1),
            charset: Some("klingon"),
            ..ColumnRow::default()
        };
        assert_eq!(column(&row).unwrap_err(), "column c has the character set klingon, which is not supported");
        let labels: Vec<String> = (0..300).map(|i| format!("'{i}'")).collect();
        let text = format!("enum({})", labels.join(","));
        let row = ColumnRow {
            data_type: "enum",
            column_type: &text,
            charset: Some("latin1"),
            collation: Some(8),
            ..ColumnRow::default()
        };
        assert!(matches!(column(&row).unwrap().ty, ColumnType::Enum { bytes: 2, .. }));
    }
}
