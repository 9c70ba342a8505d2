//! Values between two keys, where a table may be cut. They only have to be likely to lie where rows are: what is cut at is a
//! real key that the server finds at or above them.

use millstream_binlog::{Charset, Date, DateTime, Time, Timestamp};

use crate::key::{KeyValue, uuid_of_order, uuid_order};

/// The point `i / parts` of the way from `a` to `b`.
pub(super) fn between(a: &KeyValue, b: &KeyValue, i: usize, parts: usize) -> Option<KeyValue> {
    let (i, parts) = (u128::try_from(i).ok()?, u128::try_from(parts).ok()?);
    // Below 2^64 times a count of parts: far from 2^128.
    let scale = |span: u64| u64::try_from(u128::from(span).checked_mul(i)?.checked_div(parts)?).ok();
    match (a, b) {
        (KeyValue::Int(a), KeyValue::Int(b)) => {
            let span = u64::try_from(i128::from(*b).checked_sub(i128::from(*a))?).ok()?;
            let at = i128::from(*a).checked_add(i128::from(scale(span)?))?;
            Some(KeyValue::Int(i64::try_from(at).ok()?))
        }
        (KeyValue::UInt(a), KeyValue::UInt(b)) => Some(KeyValue::UInt(a.checked_add(scale(b.checked_sub(*a)?)?)?)),
        (KeyValue::Bit(a), KeyValue::Bit(b)) => Some(KeyValue::Bit(a.checked_add(scale(b.checked_sub(*a)?)?)?)),
        (KeyValue::Set(a), KeyValue::Set(b)) => Some(KeyValue::Set(a.checked_add(scale(b.checked_sub(*a)?)?)?)),
        (KeyValue::Year(a), KeyValue::Year(b)) => {
            // The year 0 lies alone, far below 1901: halves of what is above it say more.
            let a = (*a).max(1901).min(*b);
            Some(KeyValue::Year(a.checked_add(u16::try_from(scale(u64::from(b.checked_sub(a)?))?).ok()?)?))
        }
        (KeyValue::Enum(a), KeyValue::Enum(b)) => {
            let span = u64::from(b.checked_sub(*a)?);
            Some(KeyValue::Enum(a.checked_add(u16::try_from(scale(span)?).ok()?)?))
        }
        (KeyValue::Decimal(a), KeyValue::Decimal(b)) => {
            let (a, b) = (digits(a)?, digits(b)?);
            let span = b.0.checked_sub(a.0)?;
            let step = span.checked_div(i128::try_from(parts).ok()?)?.checked_mul(i128::try_from(i).ok()?)?;
            Some(KeyValue::Decimal(decimal(a.0.checked_add(step)?, a.1)))
        }
        (KeyValue::Date(a), KeyValue::Date(b)) => {
            let (a, b) = (day_number(*a), day_number(*b));
            Some(KeyValue::Date(date_of(a.checked_add(scale(b.checked_sub(a)?)?)?)?))
        }
        (KeyValue::DateTime(a), KeyValue::DateTime(b)) => {
            let seconds = |v: &DateTime| {
                let clock = u64::from(v.hour).checked_mul(3600)?.checked_add(u64::from(v.minute).checked_mul(60)?)?;
                day_number(v.date).checked_mul(86_400)?.checked_add(clock)?.checked_add(u64::from(v.second))
            };
            let (a, b) = (seconds(a)?, seconds(b)?);
            let at = a.checked_add(scale(b.checked_sub(a)?)?)?;
            Some(KeyValue::DateTime(DateTime {
                date: date_of(at / 86_400)?,
                hour: u8::try_from(at / 3600 % 24).ok()?,
                minute: u8::try_from(at / 60 % 60).ok()?,
                second: u8::try_from(at % 60).ok()?,
                micros: 0,
            }))
        }
        (KeyValue::Time(a), KeyValue::Time(b)) => {
            let seconds = |v: &Time| {
                let clock = i64::from(v.hours).checked_mul(3600)?.checked_add(i64::from(v.minutes).checked_mul(60)?)?;
                let seconds = clock.checked_add(i64::from(v.seconds))?;
                if v.negative { seconds.checked_neg() } else { Some(seconds) }
            };
            let (a, b) = (seconds(a)?, seconds(b)?);
            let at = a.checked_add(i64::try_from(scale(u64::try_from(b.checked_sub(a)?).ok()?)?).ok()?)?;
            let rest = at.unsigned_abs();
            Some(KeyValue::Time(Time {
                negative: at < 0,
                hours: u16::try_from(rest / 3600).ok()?,
                minutes: u8::try_from(rest / 60 % 60).ok()?,
                seconds: u8::try_from(rest % 60).ok()?,
                micros: 0,
            }))
        }
        (KeyValue::Timestamp(a), KeyValue::Timestamp(b)) => {
            let seconds = a.seconds.checked_add(scale(b.seconds.checked_sub(a.seconds)?)?)?;
            Some(KeyValue::Timestamp(Timestamp { seconds, micros: 0 }))
        }
        (KeyValue::Bytes(a), KeyValue::Bytes(b)) => Some(KeyValue::Bytes(bytes_between(a, b, scale)?)),
        (KeyValue::Uuid(a), KeyValue::Uuid(b)) => {
            let at = bytes_between(&uuid_order(*a), &uuid_order(*b), scale)?;
            uuid_of_order(at.try_into().ok()?).map(KeyValue::Uuid)
        }
        (KeyValue::Inet4(a), KeyValue::Inet4(b)) => Some(KeyValue::Inet4(bytes_between(a, b, scale)?.try_into().ok()?)),
        (KeyValue::Inet6(a), KeyValue::Inet6(b)) => Some(KeyValue::Inet6(bytes_between(a, b, scale)?.try_into().ok()?)),
        _ => None,
    }
}

/// Interpolates in the eight bytes behind what the two have in common.
fn bytes_between(a: &[u8], b: &[u8], scale: impl Fn(u64) -> Option<u64>) -> Option<Vec<u8>> {
    let common = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let head = |bytes: &[u8]| {
        let tail = bytes.get(common..).unwrap_or_default();
        let mut eight = [0; 8];
        for (to, from) in eight.iter_mut().zip(tail) {
            *to = *from;
        }
        u64::from_be_bytes(eight)
    };
    let at = head(a).checked_add(scale(head(b).checked_sub(head(a))?)?)?;
    let mut point = a.get(..common)?.to_vec();
    point.extend_from_slice(&at.to_be_bytes());
    let length = a.len().max(b.len());
    if a.len() == b.len() {
        point.resize(length, 0);
    }
    point.truncate(length);
    Some(point)
}

/// The number before that of an ENUM or SET.
pub(super) fn before(point: &KeyValue) -> Option<KeyValue> {
    match point {
        KeyValue::Enum(v) => Some(KeyValue::Enum(v.checked_sub(1)?)),
        KeyValue::Set(v) => Some(KeyValue::Set(v.checked_sub(1)?)),
        _ => None,
    }
}

/// A DECIMAL's digits as a number, and how many of them are behind the point.
fn digits(text: &str) -> Option<(i128, usize)> {
    let scale = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    Some((text.replace('.', "").parse().ok()?, scale))
}

fn decimal(n: i128, scale: usize) -> String {
    let sign = if n < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", n.unsigned_abs(), width = scale.saturating_add(1));
    let (whole, fraction) = digits.split_at(digits.len().saturating_sub(scale));
    if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// Days, as if every month had 31.
fn day_number(date: Date) -> u64 {
    let months = u64::from(date.year).saturating_mul(12).saturating_add(u64::from(date.month.saturating_sub(1)));
    months.saturating_mul(31).saturating_add(u64::from(date.day.saturating_sub(1)))
}

fn date_of(number: u64) -> Option<Date> {
    let months = number / 31;
    Some(Date {
        year: u16::try_from(months / 12).ok()?,
        month: u8::try_from(months % 12).ok()?.checked_add(1)?,
        day: u8::try_from(number % 31).ok()?.min(27).checked_add(1)?,
    })
}

/// Digits and letters, of which one may come next in a text.
const NEXT: &[u8] = b"123456789abcdefghijklmnopqrstuvwxyz";

/// Texts that begin as both do and go on with each digit and letter; none in character sets in which those are not one byte.
pub(super) fn probes(a: &KeyValue, b: &KeyValue) -> Vec<KeyValue> {
    let (KeyValue::Text { bytes: a, charset }, KeyValue::Text { bytes: b, .. }) = (a, b) else { return Vec::new() };
    if matches!(charset, Charset::Ucs2 | Charset::Utf16 | Charset::Utf16le | Charset::Utf32) {
        return Vec::new();
    }
    // Of what the two have in common only what is ASCII: nothing is cut inside a character.
    let common: Vec<u8> = a.iter().zip(b).take_while(|(x, y)| x == y && x.is_ascii()).map(|(x, _)| *x).collect();
    NEXT.iter()
        .map(|next| KeyValue::Text { bytes: [common.as_slice(), &[*next]].concat(), charset: *charset })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(year: u16, month: u8, day: u8) -> Date {
        Date { year, month, day }
    }

    #[test]
    fn points_lie_between() {
        let clock = |hour| DateTime { date: date(2024, 1, 31), hour, minute: 0, second: 0, micros: 9 };
        let time = |negative, hours| Time { negative, hours, minutes: 0, seconds: 0, micros: 0 };
        for (a, b, want) in [
            (KeyValue::Decimal("-1.00".into()), KeyValue::Decimal("0.50".into()), KeyValue::Decimal("-0.25".into())),
            (KeyValue::Decimal("0".into()), KeyValue::Decimal("9".into()), KeyValue::Decimal("4".into())),
            (KeyValue::Date(date(2020, 1, 1)), KeyValue::Date(date(2022, 1, 1)), KeyValue::Date(date(2021, 1, 1))),
            (KeyValue::Date(date(0, 0, 0)), KeyValue::Date(date(2000, 1, 1)), KeyValue::Date(date(1000, 1, 1))),
            (
                KeyValue::DateTime(clock(0)),
                KeyValue::DateTime(clock(12)),
                KeyValue::DateTime(DateTime { date: date(2024, 1, 28), micros: 0, ..clock(6) }),
            ),
            (KeyValue::Time(time(true, 800)), KeyValue::Time(time(false, 400)), KeyValue::Time(time(true, 200))),
            (KeyValue::Year(0), KeyValue::Year(2001), KeyValue::Year(1951)),
            (KeyValue::Bit(0), KeyValue::Bit(u64::MAX), KeyValue::Bit(u64::MAX / 2)),
            (KeyValue::Enum(1), KeyValue::Enum(9), KeyValue::Enum(5)),
            (KeyValue::Set(0), KeyValue::Set(7), KeyValue::Set(3)),
        ] {
            assert_eq!(between(&a, &b, 1, 2), Some(want), "{a:?} {b:?}");
        }
        let huge = KeyValue::Decimal("9".repeat(65));
        assert_eq!(between(&huge, &huge, 1, 2), None);
        assert_eq!(decimal(-5, 3), "-0.005");
    }

    #[test]
    fn text_is_probed_behind_what_is_common() {
        let text = |text: &str, charset| KeyValue::Text { bytes: text.into(), charset };
        let found = probes(&text("user-a", Charset::Utf8mb4), &text("user-z", Charset::Utf8mb4));
        assert_eq!(found.len(), NEXT.len());
        assert_eq!(found[0], text("user-1", Charset::Utf8mb4));
        // The two begin with the same byte of different characters.
        let found = probes(&text("\u{e4}", Charset::Utf8mb4), &text("\u{e9}", Charset::Utf8mb4));
        assert_eq!(found[0], text("1", Charset::Utf8mb4));
        assert!(probes(&text("a", Charset::Utf16), &text("b", Charset::Utf16)).is_empty());
    }
}
