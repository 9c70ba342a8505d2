use super::{ColumnDefinition, ColumnType, Value};
use crate::codec::{ParseError, ParseErrorKind, Reader, Writer};
use crate::flags::ColumnFlags;

/// The text of one value of a text row: a length-encoded string, or 0xfb for NULL
/// (`page_protocol_com_query_response_text_resultset_row`).
#[inline]
pub(super) fn next_text<'a>(r: &mut Reader<'a>) -> Result<Option<&'a [u8]>, ParseError> {
    if r.peek_u8() == Some(0xfb) {
        r.skip(1, "text value")?;
        return Ok(None);
    }
    r.lenenc_bytes("text value").map(Some)
}

/// One value of a text row, by the type of its column.
#[inline]
pub(super) fn next_value<'a>(r: &mut Reader<'a>, column: &ColumnDefinition) -> Result<Value<'a>, ParseError> {
    let left = r.left();
    match next_text(r)? {
        None => Ok(Value::Null),
        Some(text) => value(text, column).ok_or_else(|| ParseError::new("text value", ParseErrorKind::BadText, left)),
    }
}

/// What a server's text of a value means; `None` for text that is no value of the type.
fn value<'a>(text: &'a [u8], column: &ColumnDefinition) -> Option<Value<'a>> {
    Some(match column.column_type {
        ColumnType::TINY | ColumnType::SHORT | ColumnType::INT24 | ColumnType::LONG | ColumnType::LONGLONG => {
            if column.flags.contains(ColumnFlags::UNSIGNED) {
                Value::UInt(digits(text)?)
            } else {
                Value::Int(signed(text)?)
            }
        }
        ColumnType::YEAR => Value::UInt(digits(text)?),
        ColumnType::FLOAT => Value::Float(core::str::from_utf8(text).ok()?.parse().ok()?),
        ColumnType::DOUBLE => Value::Double(core::str::from_utf8(text).ok()?.parse().ok()?),
        ColumnType::DATE | ColumnType::NEWDATE => {
            let (year, month, day) = date(text)?;
            Value::Date { year, month, day }
        }
        ColumnType::DATETIME | ColumnType::TIMESTAMP => date_time(text)?,
        ColumnType::TIME => time(text)?,
        _ => Value::Bytes(text),
    })
}

/// A decimal number; leading zeros (ZEROFILL) are allowed, a sign is not.
fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |n, b| match b {
        b'0'..=b'9' => n.checked_mul(10)?.checked_add(u64::from(b.wrapping_sub(b'0'))),
        _ => None,
    })
}

fn signed(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(rest) => 0i64.checked_sub_unsigned(digits(rest)?),
        None => i64::try_from(digits(text)?).ok(),
    }
}

fn small(text: &[u8]) -> Option<u8> {
    u8::try_from(digits(text)?).ok()
}

/// `2025-12-31`.
fn date(text: &[u8]) -> Option<(u16, u8, u8)> {
    match *text {
        [a, b, c, d, b'-', e, f, b'-', g, h] => {
            Some((u16::try_from(digits(&[a, b, c, d])?).ok()?, small(&[e, f])?, small(&[g, h])?))
        }
        _ => None,
    }
}

/// `23:59:58.123456`, of which the front (hours) may have more digits and the fraction fewer or none.
fn clock(text: &[u8]) -> Option<(u32, u8, u8, u32)> {
    let (whole, micros) = match text.iter().position(|b| *b == b'.') {
        None => (text, 0),
        Some(dot) => {
            let (whole, fraction) = text.split_at_checked(dot)?;
            let fraction = fraction.get(1..)?;
            let missing = 6usize.checked_sub(fraction.len())?;
            let unit = 10u64.checked_pow(u32::try_from(missing).ok()?)?;
            (whole, u32::try_from(digits(fraction)?.checked_mul(unit)?).ok()?)
        }
    };
    match *whole {
        [ref hours @ .., b':', a, b, b':', c, d] => {
            Some((u32::try_from(digits(hours)?).ok()?, small(&[a, b])?, small(&[c, d])?, micros))
        }
        _ => None,
    }
}

/// `2025-12-31 23:59:58.5`.
fn date_time<'a>(text: &[u8]) -> Option<Value<'a>> {
    let (front, back) = text.split_at_checked(10)?;
    let (year, month, day) = date(front)?;
    let (hour, minute, second, micros) = clock(back.strip_prefix(b" ")?)?;
    Some(Value::DateTime { year, month, day, hour: u8::try_from(hour).ok()?, minute, second, micros })
}

/// `-838:59:59.000000`.
fn time<'a>(text: &[u8]) -> Option<Value<'a>> {
    let (negative, text) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (hours, minutes, seconds, micros) = clock(text)?;
    let (days, hours) = (hours.checked_div(24)?, u8::try_from(hours.checked_rem(24)?).ok()?);
    Some(Value::Time { negative, days, hours, minutes, seconds, micros })
}

/// Writes a text row, as a server does.
#[must_use]
pub fn encode_text_row<'a>(values: impl IntoIterator<Item = Option<&'a [u8]>>) -> Vec<u8> {
    let mut w = Writer::new();
    for value in values {
        match value {
            Some(bytes) => w.lenenc_bytes(bytes),
            None => w.u8(0xfb),
        };
    }
    w.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(column_type: ColumnType, flags: ColumnFlags) -> ColumnDefinition {
        ColumnDefinition { column_type, flags, ..ColumnDefinition::text("c") }
    }

    /// Conformance: W11
    /// Bug: 1, 5, 9, 10, 17
    #[test]
    fn text_means_what_its_column_says() {
        let (signed, unsigned) = (ColumnFlags::empty(), ColumnFlags::UNSIGNED);
        let zerofill = ColumnFlags::UNSIGNED | ColumnFlags::ZEROFILL;
        let at = |year, month, day, hour, minute, second, micros| Value::DateTime {
            year,
            month,
            day,
            hour,
            minute,
            second,
            micros,
        };
        let span = |negative, days, hours, minutes, seconds, micros| Value::Time {
            negative,
            days,
            hours,
            minutes,
            seconds,
            micros,
        };
        for (column_type, flags, text, want) in [
            (ColumnType::TINY, signed, "-128", Value::Int(-128)),
            (ColumnType::TINY, unsigned, "255", Value::UInt(255)),
            (ColumnType::LONG, zerofill, "0000000042", Value::UInt(42)),
            (ColumnType::LONGLONG, signed, "-9223372036854775808", Value::Int(i64::MIN)),
            (ColumnType::LONGLONG, signed, "9223372036854775807", Value::Int(i64::MAX)),
            (ColumnType::LONGLONG, unsigned, "18446744073709551615", Value::UInt(u64::MAX)),
            (ColumnType::YEAR, unsigned, "0000", Value::UInt(0)),
            (ColumnType::FLOAT, signed, "1.1", Value::Float(1.1)),
            (ColumnType::FLOAT, zerofill, "000000001.5", Value::Float(1.5)),
            (ColumnType::DOUBLE, signed, "-1.7976931348623157e308", Value::Double(f64::MIN)),
            (ColumnType::NEWDECIMAL, signed, "-1.50", Value::Bytes(b"-1.50")),
            (ColumnType::DATE, signed, "0000-00-00", Value::Date { year: 0, month: 0, day: 0 }),
            (ColumnType::DATE, signed, "2010-00-00", Value::Date { year: 2010, month: 0, day: 0 }),
            (ColumnType::DATETIME, signed, "9999-12-31 23:59:59.999999", at(9999, 12, 31, 23, 59, 59, 999_999)),
            (ColumnType::TIMESTAMP, signed, "2025-01-02 03:04:05.9", at(2025, 1, 2, 3, 4, 5, 900_000)),
            (ColumnType::TIMESTAMP, signed, "2025-01-02 03:04:05", at(2025, 1, 2, 3, 4, 5, 0)),
            (ColumnType::TIME, signed, "-00:00:00.01", span(true, 0, 0, 0, 0, 10_000)),
            (ColumnType::TIME, signed, "838:59:59", span(false, 34, 22, 59, 59, 0)),
            (ColumnType::TIME, signed, "-838:59:59.000000", span(true, 34, 22, 59, 59, 0)),
            (ColumnType::BIT, unsigned, "\0\u{1}", Value::Bytes(b"\0\x01")),
            (ColumnType::JSON, signed, "{}", Value::Bytes(b"{}")),
            (ColumnType::VAR_STRING, signed, "", Value::Bytes(b"")),
        ] {
            assert_eq!(value(text.as_bytes(), &column(column_type, flags)), Some(want), "{column_type:?} {text}");
        }
    }

    #[test]
    fn text_of_another_type_is_refused() {
        let (signed, unsigned) = (ColumnFlags::empty(), ColumnFlags::UNSIGNED);
        for (column_type, flags, texts) in [
            (ColumnType::LONGLONG, signed, &["", "-", "1x", "9223372036854775808", "+1", " 1"][..]),
            (ColumnType::LONGLONG, unsigned, &["-1", "18446744073709551616", "1.0"]),
            (ColumnType::DOUBLE, signed, &["", "1,5", "one"]),
            (ColumnType::DATE, signed, &["", "2025-1-02", "2025-01-02 00:00:00", "20250102"]),
            (ColumnType::DATETIME, signed, &["2025-01-02", "2025-01-02T03:04:05", "2025-01-02 03:04:05.1234567"]),
            (ColumnType::TIME, signed, &["", "1:2:3", "00:00", "00:00:00.", "99999999999:00:00", "--1:00:00"]),
        ] {
            for text in texts {
                assert_eq!(value(text.as_bytes(), &column(column_type, flags)), None, "{column_type:?} {text}");
            }
        }
    }
}
