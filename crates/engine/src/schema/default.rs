//! What a column of an inserted row is where the row's image lacks it: `binlog_row_image` MINIMAL logs only what the statement
//! gave or the server computed, NOBLOB leaves out texts and blobs that nobody gave. Everything else is the column's default.

use millstream_binlog::value::{Date, DateTime, Time, Timestamp};
use millstream_binlog::{Charset, Column, ColumnType, ColumnValue};
use serde::{Deserialize, Serialize};

/// A column's default, as the catalog showed it when the table was added. (A statement that changes it stops the stream.)
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ColumnDefault {
    /// Not known, or computed: such a value is always logged, and where it is not nobody can tell it.
    #[default]
    Unknown,
    /// NULL.
    Null,
    /// A constant, as text.
    Text(String),
    /// None, and NULL is not allowed: the type's zero value, where the server is not strict.
    Zero,
    /// Computed from other columns. `logged`: an UPDATE that changes it logs it (MySQL does, MariaDB does not).
    Generated {
        /// See above.
        logged: bool,
    },
}

/// What the catalog says of a column's default.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultRow<'a> {
    /// COLUMN_DEFAULT.
    pub text: Option<&'a str>,
    /// EXTRA.
    pub extra: &'a str,
    /// MariaDB writes expressions, with quotes around texts.
    pub mariadb: bool,
}

impl ColumnDefault {
    /// The default of `column`.
    #[must_use]
    pub fn new(column: &Column, row: DefaultRow<'_>) -> Self {
        let extra = row.extra.to_ascii_uppercase();
        let generated = ["VIRTUAL", "STORED", "PERSISTENT"].iter().any(|word| extra.contains(word));
        if generated {
            return Self::Generated { logged: !row.mariadb };
        }
        if extra.contains("DEFAULT_GENERATED") || extra.contains("AUTO_INCREMENT") {
            return Self::Unknown;
        }
        let text = match row.text {
            None if column.nullable => return Self::Null,
            None => return Self::Zero,
            Some("NULL") if row.mariadb => return Self::Null,
            Some(text) => text,
        };
        let lower = text.to_ascii_lowercase();
        let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'.'));
        let quoted = text.strip_prefix('\'').and_then(|t| t.strip_suffix('\''));
        match quoted {
            _ if lower.starts_with("current_timestamp") || lower.starts_with("now(") => Self::Unknown,
            Some(inner) if row.mariadb => Self::Text(inner.replace("''", "'")),
            None if row.mariadb && !is_number(text) => Self::Unknown,
            _ => Self::Text(text.to_owned()),
        }
    }

    /// The default as a value of `column`; `None` if it cannot be told.
    #[must_use]
    pub fn value<'a>(&'a self, column: &Column) -> Option<ColumnValue<'a>> {
        match self {
            Self::Unknown | Self::Generated { .. } => None,
            Self::Null => Some(ColumnValue::Null),
            Self::Text(text) => constant(column, text),
            Self::Zero => zero(&column.ty),
        }
    }
}

/// The value that a server that is not strict stores where none was given.
fn zero(ty: &ColumnType) -> Option<ColumnValue<'static>> {
    Some(match ty {
        ColumnType::Char { .. } | ColumnType::VarChar { .. } | ColumnType::Text { .. } => {
            ColumnValue::Text { bytes: b"", charset: Charset::Utf8mb4 }
        }
        ColumnType::Binary { .. } | ColumnType::VarBinary { .. } | ColumnType::Blob { .. } => ColumnValue::Bytes(b""),
        // The first label.
        ColumnType::Enum { .. } => ColumnValue::Enum(1),
        ColumnType::Set { .. } => ColumnValue::Set(0),
        ColumnType::Bit { .. } => ColumnValue::Bit(0),
        ColumnType::Date => ColumnValue::Date(Date { year: 0, month: 0, day: 0 }),
        ColumnType::Json | ColumnType::Geometry | ColumnType::Vector | ColumnType::VarVector { .. } => return None,
        ColumnType::Uuid | ColumnType::Inet4 | ColumnType::Inet6 | ColumnType::Compressed { .. } => return None,
        ColumnType::Timestamp { .. } | ColumnType::OldTimestamp { .. } => {
            ColumnValue::Timestamp(Timestamp { seconds: 0, micros: 0 })
        }
        ColumnType::Year => ColumnValue::Year(0),
        _ => return constant_of(ty, "0"),
    })
}

fn constant<'a>(column: &Column, text: &'a str) -> Option<ColumnValue<'a>> {
    let label = |labels: &[String]| labels.iter().position(|l| l == text);
    match &column.ty {
        ColumnType::Enum { labels, .. } => {
            label(labels).and_then(|i| u16::try_from(i.checked_add(1)?).ok()).map(ColumnValue::Enum)
        }
        ColumnType::Set { labels, .. } => {
            let mut bits = 0_u64;
            for part in text.split(',').filter(|part| !part.is_empty()) {
                let at = labels.iter().position(|l| l == part).and_then(|i| u32::try_from(i).ok())?;
                bits |= 1_u64.checked_shl(at)?;
            }
            Some(ColumnValue::Set(bits))
        }
        ty => constant_of(ty, text),
    }
}

fn constant_of<'a>(ty: &ColumnType, text: &'a str) -> Option<ColumnValue<'a>> {
    Some(match ty {
        ColumnType::TinyInt { unsigned }
        | ColumnType::SmallInt { unsigned }
        | ColumnType::MediumInt { unsigned }
        | ColumnType::Int { unsigned }
        | ColumnType::BigInt { unsigned } => {
            if *unsigned {
                ColumnValue::UInt(text.parse().ok()?)
            } else {
                ColumnValue::Int(text.parse().ok()?)
            }
        }
        ColumnType::Float => ColumnValue::Float(text.parse().ok()?),
        ColumnType::Double => ColumnValue::Double(text.parse().ok()?),
        // MySQL prints it with the column's scale.
        ColumnType::Decimal { .. } => ColumnValue::DecimalText(text.as_bytes()),
        ColumnType::Bit { .. } => {
            let digits = text.strip_prefix("b'").and_then(|t| t.strip_suffix('\''))?;
            ColumnValue::Bit(u64::from_str_radix(digits, 2).ok()?)
        }
        ColumnType::Year => ColumnValue::Year(text.parse().ok()?),
        ColumnType::Date => ColumnValue::Date(date(text)?),
        ColumnType::DateTime { .. } | ColumnType::OldDateTime { .. } => ColumnValue::DateTime(datetime(text)?),
        ColumnType::Time { .. } | ColumnType::OldTime { .. } => ColumnValue::Time(time(text)?),
        // In the time zone of whoever asks, but for the zero value.
        ColumnType::Timestamp { .. } | ColumnType::OldTimestamp { .. } if text.starts_with("0000-00-00 00:00:00") => {
            ColumnValue::Timestamp(Timestamp { seconds: 0, micros: 0 })
        }
        ColumnType::Char { .. } | ColumnType::VarChar { .. } => {
            ColumnValue::Text { bytes: text.as_bytes(), charset: Charset::Utf8mb4 }
        }
        // Printed as hexadecimal digits where they are more than that.
        ColumnType::Binary { .. } | ColumnType::VarBinary { .. } if text.is_ascii() && !text.starts_with("0x") => {
            ColumnValue::Bytes(text.as_bytes())
        }
        _ => return None,
    })
}

fn date(text: &str) -> Option<Date> {
    let mut parts = text.splitn(3, '-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    Some(Date { year: year.parse().ok()?, month: month.parse().ok()?, day: day.parse().ok()? })
}

/// Hours (or more digits), minutes, seconds, microseconds.
fn clock(text: &str) -> Option<(u16, u8, u8, u32)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = whole.splitn(3, ':');
    let (hours, minutes) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let digits: String = fraction.chars().chain("000000".chars()).take(6).collect();
    Some((hours, minutes, parts.next()?.parse().ok()?, digits.parse().ok()?))
}

fn datetime(text: &str) -> Option<DateTime> {
    let (day, rest) = text.split_once(' ').unwrap_or((text, "00:00:00"));
    let (hours, minute, second, micros) = clock(rest)?;
    Some(DateTime { date: date(day)?, hour: u8::try_from(hours).ok()?, minute, second, micros })
}

fn time(text: &str) -> Option<Time> {
    let (negative, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (hours, minutes, seconds, micros) = clock(rest)?;
    Some(Time { negative, hours, minutes, seconds, micros })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(ty: ColumnType, nullable: bool) -> Column {
        Column { name: "c".into(), ty, nullable, charset: Charset::Utf8mb4, collation: 45 }
    }

    #[test]
    fn what_the_catalog_says_becomes_a_value() {
        let int = || ColumnType::Int { unsigned: false };
        let text = || ColumnType::VarChar { max_bytes: 40 };
        let labels = || vec!["a".to_owned(), "b".to_owned()].into();
        let of = |ty, nullable, text, extra, mariadb| {
            let column = column(ty, nullable);
            let default = ColumnDefault::new(&column, DefaultRow { text, extra, mariadb });
            format!("{:?}", default.value(&column))
        };
        for (ty, nullable, default, extra, mariadb, want) in [
            (int(), true, None, "", false, "Some(Null)"),
            (int(), true, Some("NULL"), "", true, "Some(Null)"),
            (int(), true, Some("7"), "", false, "Some(Int(7))"),
            (int(), true, Some("-7"), "", true, "Some(Int(-7))"),
            (int(), false, None, "", false, "Some(Int(0))"),
            (int(), false, None, "auto_increment", false, "None"),
            (int(), true, None, "VIRTUAL GENERATED", false, "None"),
            (int(), true, Some("(1 + 1)"), "", true, "None"),
            (int(), true, Some("1 + 1"), "DEFAULT_GENERATED", false, "None"),
            (
                ColumnType::BigInt { unsigned: true },
                true,
                Some("18446744073709551615"),
                "",
                false,
                "Some(UInt(18446744073709551615))",
            ),
            (ColumnType::Enum { labels: labels(), bytes: 1 }, true, Some("b"), "", false, "Some(Enum(2))"),
            (ColumnType::Enum { labels: labels(), bytes: 1 }, false, None, "", false, "Some(Enum(1))"),
            (ColumnType::Set { labels: labels(), bytes: 1 }, true, Some("'a,b'"), "", true, "Some(Set(3))"),
            (ColumnType::Bit { bits: 4 }, true, Some("b'101'"), "", false, "Some(Bit(5))"),
            (ColumnType::DateTime { fsp: 0 }, true, Some("CURRENT_TIMESTAMP"), "", false, "None"),
            (ColumnType::Timestamp { fsp: 0 }, true, Some("current_timestamp()"), "on update", true, "None"),
            (ColumnType::Timestamp { fsp: 0 }, true, Some("2024-01-01 00:00:00"), "", false, "None"),
            (ColumnType::Json, false, None, "", false, "None"),
        ] {
            assert_eq!(of(ty.clone(), nullable, default, extra, mariadb), want, "{ty:?} {default:?} {extra}");
        }
        let text_of = |default, mariadb| {
            let column = column(text(), true);
            let default = ColumnDefault::new(&column, DefaultRow { text: Some(default), extra: "", mariadb });
            match default.value(&column) {
                Some(ColumnValue::Text { bytes, .. }) => String::from_utf8(bytes.to_vec()).unwrap(),
                other => format!("{other:?}"),
            }
        };
        assert_eq!(text_of("it's", false), "it's");
        assert_eq!(text_of("'it''s'", true), "it's");
        assert_eq!(text_of("NULL", false), "NULL");
        assert_eq!(text_of("uuid()", true), "None");
        assert_eq!(
            datetime("2024-02-29 12:34:56.5").map(|d| (d.date.day, d.hour, d.second, d.micros)),
            Some((29, 12, 56, 500_000))
        );
        assert_eq!(time("-838:59:59").map(|t| (t.negative, t.hours)), Some((true, 838)));
    }
}
