//! TIME, DATETIME and TIMESTAMP as they were before MySQL 5.6, and as MariaDB writes them with
//! `mysql56_temporal_format=OFF` (`Field_time`, `Field_time_hires` and so on of its `sql/field.cc`).
#![allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "every number here is bounded by the few bytes it was read from, and divisors are constants"
)]

use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

use super::temporal::{Date, DateTime, Time, Timestamp};

/// Microseconds of the last digit of the fraction.
const UNIT: [u64; 7] = [1_000_000, 100_000, 10_000, 1000, 100, 10, 1];

/// Bytes of values with a fraction, by its digits.
const TIME_BYTES: [usize; 7] = [3, 4, 4, 5, 5, 5, 6];
const DATETIME_BYTES: [usize; 7] = [8, 6, 6, 7, 7, 7, 8];
const FRACTION_BYTES: [usize; 7] = [0, 1, 1, 2, 2, 3, 3];

/// The first second that TIME does not have: its zero with a fraction.
const TIME_ZERO: u64 = 3_020_400;

#[cold]
fn bad(r: &Reader<'_>) -> ParseError {
    r.error("temporal value of an old format", ParseErrorKind::BadLength)
}

fn by_fsp<T: Copy>(table: [T; 7], fsp: u8, r: &Reader<'_>) -> Result<T, ParseError> {
    table.get(usize::from(fsp)).copied().ok_or_else(|| bad(r))
}

/// A whole number of units of the last digit, big endian, as microseconds.
fn read_micros(bytes: usize, unit: u64, r: &mut Reader<'_>) -> Result<u64, ParseError> {
    let units = r.uint_be(bytes, "temporal value of an old format")?;
    units.checked_mul(unit).ok_or_else(|| bad(r))
}

/// Without a fraction three bytes, little endian, signed: the decimal number hhmmss. With one, the units since
/// -839:00:00.
pub(super) fn read_old_time(fsp: u8, r: &mut Reader<'_>) -> Result<Time, ParseError> {
    let (negative, seconds, micros) = if fsp == 0 {
        let value = (r.u24_le("TIME of the old format")? << 8).cast_signed() >> 8;
        let size = value.unsigned_abs();
        let (hours, minutes, seconds) = (size / 10_000, size / 100 % 100, size % 100);
        if minutes > 59 || seconds > 59 {
            return Err(bad(r));
        }
        (value < 0, u64::from(hours) * 3600 + u64::from(minutes) * 60 + u64::from(seconds), 0)
    } else {
        let unit = by_fsp(UNIT, fsp, r)?;
        let value = read_micros(by_fsp(TIME_BYTES, fsp, r)?, unit, r)?;
        let zero = TIME_ZERO * 1_000_000;
        let size = value.abs_diff(zero);
        (value < zero, size / 1_000_000, (size % 1_000_000) as u32)
    };
    if seconds >= TIME_ZERO {
        return Err(bad(r));
    }
    Ok(Time {
        negative,
        hours: (seconds / 3600) as u16,
        minutes: (seconds / 60 % 60) as u8,
        seconds: (seconds % 60) as u8,
        micros,
    })
}

/// Without a fraction eight bytes, little endian: the decimal number YYYYMMDDhhmmss. With one, big endian: year * 13 +
/// month, day of 32, hour, minute and second as one number of units.
pub(super) fn read_old_datetime(fsp: u8, r: &mut Reader<'_>) -> Result<DateTime, ParseError> {
    let (year, month, day, clock, micros) = if fsp == 0 {
        let v = r.u64_le("DATETIME of the old format")?;
        let (date, clock) = (v / 1_000_000, v % 1_000_000);
        let clock = [clock / 10_000, clock / 100 % 100, clock % 100];
        (date / 10_000, date / 100 % 100, date % 100, clock, 0)
    } else {
        let v = read_micros(by_fsp(DATETIME_BYTES, fsp, r)?, by_fsp(UNIT, fsp, r)?, r)?;
        let seconds = v / 1_000_000;
        let days = seconds / 86_400;
        let clock = [seconds / 3600 % 24, seconds / 60 % 60, seconds % 60];
        (days / (13 * 32), days / 32 % 13, days % 32, clock, (v % 1_000_000) as u32)
    };
    let [hour, minute, second] = clock;
    if year > 9999 || month > 12 || day > 31 || hour > 23 || minute > 59 || second > 59 {
        return Err(bad(r));
    }
    Ok(DateTime {
        date: Date { year: year as u16, month: month as u8, day: day as u8 },
        hour: hour as u8,
        minute: minute as u8,
        second: second as u8,
        micros,
    })
}

/// Seconds, little endian without a fraction and big endian before one.
pub(super) fn read_old_timestamp(fsp: u8, r: &mut Reader<'_>) -> Result<Timestamp, ParseError> {
    if fsp == 0 {
        return Ok(Timestamp { seconds: u64::from(r.u32_le("TIMESTAMP of the old format")?), micros: 0 });
    }
    let seconds = r.uint_be(4, "TIMESTAMP of the old format")?;
    let micros = read_micros(by_fsp(FRACTION_BYTES, fsp, r)?, by_fsp(UNIT, fsp, r)?, r)?;
    if micros > 999_999 {
        return Err(bad(r));
    }
    Ok(Timestamp { seconds, micros: micros as u32 })
}
