//! Binary result rows as the values that the binlog would carry.

use core::net::{Ipv4Addr, Ipv6Addr};

use millstream_binlog::{Column, ColumnType, ColumnValue, Date, DateTime, TableSchema, Time, Timestamp};
use millstream_wire::{Row, Value};

/// A value that is not of its column's type: its ordinal and what is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Ordinal of the column.
    pub ordinal: usize,
    /// What is wrong with its value.
    pub what: &'static str,
}

/// The values of a row of [`TableSql::chunk`](super::sql::TableSql::chunk), in ordinal order; what follows the columns is
/// left out. The session must run as
/// [`session_setup`](super::reader::session_setup) makes it: text in the column's own character set, time in UTC.
pub fn select_values<'r>(
    schema: &'r TableSchema,
    row: &'r Row,
) -> impl Iterator<Item = Result<ColumnValue<'r>, Mismatch>> + Clone + 'r {
    let mut values = row.values();
    let mut columns = schema.columns.iter().enumerate();
    core::iter::from_fn(move || match (columns.next(), values.next()) {
        (Some((ordinal, column)), Some(Ok(value))) => {
            Some(convert(column, value).ok_or(Mismatch { ordinal, what: "its value does not have its type" }))
        }
        (Some((ordinal, _)), Some(Err(_))) => Some(Err(Mismatch { ordinal, what: "its value does not parse" })),
        (Some((ordinal, _)), None) => Some(Err(Mismatch { ordinal, what: "the row ends before it" })),
        // What may follow are the weights of its key.
        (None, _) => None,
    })
}

/// One value by its column's type; None if it cannot be of that type.
#[must_use]
pub fn convert<'r>(column: &Column, value: Value<'r>) -> Option<ColumnValue<'r>> {
    Some(match (&column.ty, value) {
        (_, Value::Null) => ColumnValue::Null,
        (
            ColumnType::TinyInt { unsigned }
            | ColumnType::SmallInt { unsigned }
            | ColumnType::MediumInt { unsigned }
            | ColumnType::Int { unsigned }
            | ColumnType::BigInt { unsigned },
            value,
        ) => match (unsigned, value) {
            (false, Value::Int(v)) => ColumnValue::Int(v),
            (true, Value::UInt(v)) => ColumnValue::UInt(v),
            _ => return None,
        },
        (ColumnType::Float, Value::Float(v)) => ColumnValue::Float(v),
        (ColumnType::Double, Value::Double(v)) => ColumnValue::Double(v),
        (ColumnType::Decimal { .. }, Value::Bytes(text)) => ColumnValue::DecimalText(text),
        (ColumnType::Bit { .. }, Value::Bytes(bytes)) if bytes.len() <= 8 => {
            ColumnValue::Bit(bytes.iter().fold(0, |acc, b| (acc << 8) | u64::from(*b)))
        }
        (ColumnType::Year, Value::UInt(v)) => ColumnValue::Year(u16::try_from(v).ok()?),
        (ColumnType::Date, Value::Date { year, month, day }) => ColumnValue::Date(Date { year, month, day }),
        (ColumnType::Time { .. }, Value::Time { negative, days, hours, minutes, seconds, micros }) => {
            let hours = days.checked_mul(24)?.checked_add(u32::from(hours))?;
            ColumnValue::Time(Time { negative, hours: u16::try_from(hours).ok()?, minutes, seconds, micros })
        }
        (ColumnType::DateTime { .. }, Value::DateTime { year, month, day, hour, minute, second, micros }) => {
            ColumnValue::DateTime(DateTime { date: Date { year, month, day }, hour, minute, second, micros })
        }
        (ColumnType::Timestamp { .. }, Value::DateTime { year, month, day, hour, minute, second, micros }) => {
            let date = Date { year, month, day };
            ColumnValue::Timestamp(timestamp(DateTime { date, hour, minute, second, micros })?)
        }
        (ColumnType::Char { .. } | ColumnType::VarChar { .. } | ColumnType::Text { .. }, Value::Bytes(bytes)) => {
            ColumnValue::Text { bytes, charset: column.charset }
        }
        (ColumnType::Binary { .. } | ColumnType::VarBinary { .. } | ColumnType::Blob { .. }, Value::Bytes(bytes)) => {
            ColumnValue::Bytes(bytes)
        }
        (ColumnType::Enum { .. }, Value::UInt(v)) => ColumnValue::Enum(u16::try_from(v).ok()?),
        (ColumnType::Set { .. }, Value::UInt(v)) => ColumnValue::Set(v),
        (ColumnType::Json, Value::Bytes(text)) => ColumnValue::JsonText(text),
        (ColumnType::Geometry, Value::Bytes(bytes)) => ColumnValue::Geometry(bytes),
        (ColumnType::Vector, Value::Bytes(bytes)) => ColumnValue::Vector(bytes),
        (ColumnType::Uuid, Value::Bytes(text)) => ColumnValue::Uuid(uuid(text)?),
        (ColumnType::Inet4, Value::Bytes(text)) => {
            ColumnValue::Inet4(str::from_utf8(text).ok()?.parse::<Ipv4Addr>().ok()?.octets())
        }
        (ColumnType::Inet6, Value::Bytes(text)) => {
            ColumnValue::Inet6(str::from_utf8(text).ok()?.parse::<Ipv6Addr>().ok()?.octets())
        }
        _ => return None,
    })
}

/// A UUID from its 32 digits and 4 dashes.
fn uuid(text: &[u8]) -> Option<[u8; 16]> {
    let mut digits = text.iter().filter(|b| **b != b'-').map(|b| char::from(*b).to_digit(16));
    let mut uuid = [0; 16];
    for byte in &mut uuid {
        let (high, low) = (digits.next()??, digits.next()??);
        *byte = u8::try_from((high << 4) | low).ok()?;
    }
    digits.next().is_none().then_some(uuid)
}

/// The moment of a UTC date and time from 1970 on; all zeros are the zero value.
fn timestamp(v: DateTime) -> Option<Timestamp> {
    let Date { year, month, day } = v.date;
    if v.date.is_zero() {
        return Some(Timestamp { seconds: 0, micros: 0 });
    }
    if year < 1970 || !(1..=12).contains(&month) || day == 0 {
        return None;
    }
    // Years begin in March, so that the leap day is the last of its year.
    let shifted = (u64::from(month).checked_add(9)?).checked_rem(12)?;
    let year = u64::from(year).checked_sub(u64::from(month <= 2))?;
    let leap_days = year.checked_div(4)?.checked_sub(year.checked_div(100)?)?.checked_add(year.checked_div(400)?)?;
    let day_of_year = shifted.checked_mul(153)?.checked_add(2)?.checked_div(5)?.checked_add(u64::from(day))?;
    // 719,469 days lie between 0000-02-29, the day before the first such year, and 1970-01-01.
    let days = year.checked_mul(365)?.checked_add(leap_days)?.checked_add(day_of_year)?.checked_sub(719_469)?;
    let clock = u64::from(v.hour).checked_mul(3600)?.checked_add(u64::from(v.minute).checked_mul(60)?)?;
    let seconds = days.checked_mul(86_400)?.checked_add(clock)?.checked_add(u64::from(v.second))?;
    Some(Timestamp { seconds, micros: v.micros })
}

#[cfg(test)]
mod tests {
    use millstream_binlog::Charset;

    use super::*;

    fn column(ty: ColumnType) -> Column {
        Column { name: "c".to_owned(), ty, nullable: true, charset: Charset::Latin1, collation: 8 }
    }

    #[test]
    fn values_take_the_columns_type() {
        for (ty, value, want) in [
            (ColumnType::Int { unsigned: false }, Value::Int(-1), Some(ColumnValue::Int(-1))),
            (ColumnType::Int { unsigned: true }, Value::UInt(1), Some(ColumnValue::UInt(1))),
            (ColumnType::Int { unsigned: true }, Value::Int(1), None),
            (ColumnType::Int { unsigned: false }, Value::Null, Some(ColumnValue::Null)),
            (ColumnType::Bit { bits: 9 }, Value::Bytes(&[1, 2]), Some(ColumnValue::Bit(258))),
            (ColumnType::Bit { bits: 9 }, Value::Bytes(&[0; 9]), None),
            (ColumnType::Year, Value::UInt(2155), Some(ColumnValue::Year(2155))),
            (ColumnType::Enum { labels: [].into(), bytes: 1 }, Value::UInt(0), Some(ColumnValue::Enum(0))),
            (ColumnType::Enum { labels: [].into(), bytes: 1 }, Value::UInt(70_000), None),
            (ColumnType::Enum { labels: [].into(), bytes: 1 }, Value::Bytes(b"x"), None),
            (ColumnType::Set { labels: [].into(), bytes: 8 }, Value::UInt(1 << 63), Some(ColumnValue::Set(1 << 63))),
            (
                ColumnType::VarChar { max_bytes: 4 },
                Value::Bytes(b"\xe9"),
                Some(ColumnValue::Text { bytes: b"\xe9", charset: Charset::Latin1 }),
            ),
            (
                ColumnType::Decimal { precision: 3, scale: 1 },
                Value::Bytes(b"1.5"),
                Some(ColumnValue::DecimalText(b"1.5")),
            ),
            (
                ColumnType::Uuid,
                Value::Bytes(b"01020304-0506-0708-090a-0b0c0d0e0f10"),
                Some(ColumnValue::Uuid([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16])),
            ),
            (ColumnType::Uuid, Value::Bytes(b"01020304-0506-0708-090a-0b0c0d0e0f"), None),
            (ColumnType::Inet4, Value::Bytes(b"10.0.0.255"), Some(ColumnValue::Inet4([10, 0, 0, 255]))),
            (
                ColumnType::Inet6,
                Value::Bytes(b"::ffff:1.2.3.4"),
                Some(ColumnValue::Inet6([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 1, 2, 3, 4])),
            ),
            (ColumnType::Json, Value::Bytes(b"{}"), Some(ColumnValue::JsonText(b"{}"))),
            (ColumnType::Blob { length_bytes: 2 }, Value::Bytes(b"\0"), Some(ColumnValue::Bytes(b"\0"))),
            (
                ColumnType::Time { fsp: 0 },
                Value::Time { negative: true, days: 34, hours: 22, minutes: 59, seconds: 59, micros: 0 },
                Some(ColumnValue::Time(Time { negative: true, hours: 838, minutes: 59, seconds: 59, micros: 0 })),
            ),
        ] {
            assert_eq!(convert(&column(ty.clone()), value), want, "{ty:?} {value:?}");
        }
    }

    #[test]
    fn moments_are_the_inverse_of_dates() {
        // Every day to the year 2200 by the binlog's own arithmetic.
        for day in 0..84_000_u64 {
            let moment = Timestamp { seconds: day.wrapping_mul(86_400).wrapping_add(12_345), micros: 6 };
            assert_eq!(timestamp(moment.to_utc()), Some(moment));
        }
        let zero = Timestamp { seconds: 0, micros: 0 };
        assert_eq!(timestamp(zero.to_utc()), Some(zero));
        let before =
            DateTime { date: Date { year: 1969, month: 12, day: 31 }, hour: 0, minute: 0, second: 0, micros: 0 };
        assert_eq!(timestamp(before), None);
    }
}
