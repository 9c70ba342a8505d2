#![allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "every number here is a bit field of at most 34 bits or computed from one, far from any overflow"
)]

use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

/// DATE. Any part may be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date {
    /// 0 to 9999.
    pub year: u16,
    /// 0 to 12.
    pub month: u8,
    /// 0 to 31.
    pub day: u8,
}

/// DATETIME. Any part of the date may be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DateTime {
    /// Date part.
    pub date: Date,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
    /// Microseconds, 0 to 999999.
    pub micros: u32,
}

/// TIME, -838:59:59.999999 to 838:59:59.999999.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// Whether the whole value is below zero.
    pub negative: bool,
    /// 0 to 838.
    pub hours: u16,
    /// 0 to 59.
    pub minutes: u8,
    /// 0 to 59.
    pub seconds: u8,
    /// Microseconds, 0 to 999999.
    pub micros: u32,
}

/// TIMESTAMP in UTC. Seconds 0 with micros 0 is the zero value '0000-00-00 00:00:00', not 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since 1970-01-01 00:00:00 UTC.
    pub seconds: u64,
    /// Microseconds, 0 to 999999.
    pub micros: u32,
}

/// Digits of `micros` that a column with `fsp` shows, after a point.
fn write_fraction(micros: u32, fsp: u8, out: &mut Vec<u8>) {
    if fsp == 0 {
        return;
    }
    let mut digits = [b'0'; 7];
    let mut rest = micros;
    for slot in digits.iter_mut().rev() {
        *slot = b'0'.wrapping_add((rest % 10) as u8);
        rest /= 10;
    }
    digits[0] = b'.';
    out.extend_from_slice(digits.get(..=usize::from(fsp.min(6))).unwrap_or_default());
}

/// At least `width` digits.
fn write_digits(value: u16, width: usize, out: &mut Vec<u8>) {
    let mut text = itoa::Buffer::new();
    let text = text.format(value).as_bytes();
    out.extend(core::iter::repeat_n(b'0', width.saturating_sub(text.len())));
    out.extend_from_slice(text);
}

fn write_clock(hours: u16, minutes: u8, seconds: u8, out: &mut Vec<u8>) {
    write_digits(hours, 2, out);
    out.push(b':');
    write_digits(u16::from(minutes), 2, out);
    out.push(b':');
    write_digits(u16::from(seconds), 2, out);
}

impl Date {
    /// Appends `YYYY-MM-DD`.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        write_digits(self.year, 4, out);
        out.push(b'-');
        write_digits(u16::from(self.month), 2, out);
        out.push(b'-');
        write_digits(u16::from(self.day), 2, out);
    }

    /// Whether every part is 0.
    #[must_use]
    pub const fn is_zero(&self) -> bool {
        self.year == 0 && self.month == 0 && self.day == 0
    }
}

impl DateTime {
    /// Appends `YYYY-MM-DD hh:mm:ss` and `fsp` digits of the fraction.
    pub fn write_to(&self, fsp: u8, out: &mut Vec<u8>) {
        self.date.write_to(out);
        out.push(b' ');
        write_clock(u16::from(self.hour), self.minute, self.second, out);
        write_fraction(self.micros, fsp, out);
    }
}

impl Time {
    /// Appends `[-]hh:mm:ss`, hours with two or three digits, and `fsp` digits of the fraction.
    pub fn write_to(&self, fsp: u8, out: &mut Vec<u8>) {
        if self.negative {
            out.push(b'-');
        }
        write_clock(self.hours, self.minutes, self.seconds, out);
        write_fraction(self.micros, fsp, out);
    }
}

impl Time {
    /// From 10 bits of hours, 6 of minutes, 6 of seconds; `None` if a part is out of its range.
    #[inline(always)]
    pub(crate) fn from_packed(negative: bool, clock: u64, micros: u32) -> Option<Self> {
        let time = Self {
            negative,
            hours: ((clock >> 12) & 0x3ff) as u16,
            minutes: ((clock >> 6) & 63) as u8,
            seconds: (clock & 63) as u8,
            micros,
        };
        let ok = clock >> 22 == 0 && time.hours <= 838 && time.minutes <= 59 && time.seconds <= 59 && micros <= 999_999;
        ok.then_some(time)
    }
}

impl Timestamp {
    /// Whether this is '0000-00-00 00:00:00'.
    #[must_use]
    pub const fn is_zero(&self) -> bool {
        self.seconds == 0 && self.micros == 0
    }

    /// The moment as a UTC date and time; the zero value is all zeros. Seconds are taken modulo the year 9999's end.
    #[must_use]
    pub fn to_utc(&self) -> DateTime {
        let zero = DateTime { date: Date { year: 0, month: 0, day: 0 }, hour: 0, minute: 0, second: 0, micros: 0 };
        if self.is_zero() {
            return zero;
        }
        // Days to a civil date by eras of 400 years (the era begins on March 1st), 253402300800 = 10000-01-01.
        let seconds = self.seconds % 253_402_300_800;
        let (days, clock) = (seconds / 86_400 + 719_468, seconds % 86_400);
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        DateTime {
            date: Date { year: year as u16, month: month as u8, day: day as u8 },
            hour: (clock / 3600) as u8,
            minute: (clock / 60 % 60) as u8,
            second: (clock % 60) as u8,
            micros: self.micros,
        }
    }

    /// Appends the text of a session at UTC.
    pub fn write_to(&self, fsp: u8, out: &mut Vec<u8>) {
        self.to_utc().write_to(fsp, out);
    }
}

/// The fraction bytes of a column with `fsp` digits as microseconds, and as they lie there.
#[inline(always)]
fn read_fraction(fsp: u8, r: &mut Reader<'_>) -> Result<u32, ParseError> {
    let micros = match fsp {
        0 => return Ok(0),
        1 | 2 => u32::from(r.u8("fraction")?) * 10_000,
        3 | 4 => u32::from(u16::from_be_bytes(r.array("fraction")?)) * 100,
        _ => {
            let [a, b, c] = r.array("fraction")?;
            u32::from_be_bytes([0, a, b, c])
        }
    };
    if micros > 999_999 { Err(bad(r)) } else { Ok(micros) }
}

#[cold]
fn bad(r: &Reader<'_>) -> ParseError {
    r.error("temporal value", ParseErrorKind::BadLength)
}

/// Three bytes, little endian: 5 bits day, 4 month, 15 year.
#[inline(always)]
pub(crate) fn read_date(r: &mut Reader<'_>) -> Result<Date, ParseError> {
    let v = r.u24_le("DATE")?;
    let (day, month, year) = ((v & 31) as u8, ((v >> 5) & 15) as u8, (v >> 9) as u16);
    if month > 12 || year > 9999 { Err(bad(r)) } else { Ok(Date { year, month, day }) }
}

/// Three bytes and the fraction, big endian: one number, offset by half its range; 10 bits hours, 6 minutes, 6 seconds,
/// fraction. The sign belongs to the whole.
#[inline(always)]
pub(crate) fn read_time(fsp: u8, r: &mut Reader<'_>) -> Result<Time, ParseError> {
    let [a, b, c] = r.array("TIME")?;
    let whole = i64::from(u32::from_be_bytes([0, a, b, c])) - 0x80_0000;
    let (fraction_bits, fraction, unit) = match fsp {
        0 => (0, 0, 0),
        1 | 2 => (8, i64::from(r.u8("fraction")?), 10_000),
        3 | 4 => (16, i64::from(u16::from_be_bytes(r.array("fraction")?)), 100),
        _ => {
            let [a, b, c] = r.array("fraction")?;
            (24, i64::from(u32::from_be_bytes([0, a, b, c])), 1)
        }
    };
    let value = (whole << fraction_bits) + fraction;
    let size = value.unsigned_abs();
    let clock = size >> fraction_bits;
    let micros = (size & ((1 << fraction_bits) - 1)) * unit;
    Time::from_packed(value < 0, clock, micros as u32).ok_or_else(|| bad(r))
}

/// Five bytes, big endian, offset by half their range: 17 bits year * 13 + month, 5 day, 5 hour, 6 minute, 6 second;
/// then the fraction.
#[inline(always)]
pub(crate) fn read_datetime(fsp: u8, r: &mut Reader<'_>) -> Result<DateTime, ParseError> {
    let [a, b, c, d, e] = r.array("DATETIME")?;
    let v = u64::from_be_bytes([0, 0, 0, a, b, c, d, e]);
    let micros = read_fraction(fsp, r)?;
    datetime_from_packed(v ^ 0x80_0000_0000, micros).ok_or_else(|| bad(r))
}

/// The server's packed date and clock (`TIME_to_longlong_datetime_packed` without its fraction).
#[inline(always)]
pub(crate) fn datetime_from_packed(v: u64, micros: u32) -> Option<DateTime> {
    let months = v >> 22;
    let (year, month) = (months / 13, months % 13);
    let value = DateTime {
        date: Date { year: year as u16, month: month as u8, day: ((v >> 17) & 31) as u8 },
        hour: ((v >> 12) & 31) as u8,
        minute: ((v >> 6) & 63) as u8,
        second: (v & 63) as u8,
        micros,
    };
    let ok = year <= 9999 && value.hour <= 23 && value.minute <= 59 && value.second <= 59 && micros <= 999_999;
    ok.then_some(value)
}

/// Four bytes of seconds, big endian, and the fraction.
#[inline(always)]
pub(crate) fn read_timestamp(fsp: u8, r: &mut Reader<'_>) -> Result<Timestamp, ParseError> {
    let seconds = u64::from(u32::from_be_bytes(r.array("TIMESTAMP")?));
    Ok(Timestamp { seconds, micros: read_fraction(fsp, r)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(fsp: u8, bytes: &[u8]) -> String {
        let mut out = Vec::new();
        read_time(fsp, &mut Reader::new(bytes)).unwrap().write_to(fsp, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn times_keep_sign_and_fraction() {
        for (fsp, bytes, text) in [
            (6, &[0x7e, 0xfd, 0xfb, 0xff, 0xd8, 0x75][..], "-16:08:04.010123"),
            (2, &[0x7f, 0xff, 0xff, 0xff], "-00:00:00.01"),
            (0, &[0x80, 0, 0], "00:00:00"),
            (0, &[0x7f, 0xff, 0xff], "-00:00:01"),
            (0, &[0xb4, 0x6e, 0xfb], "838:59:59"),
            (0, &[0x4b, 0x91, 0x05], "-838:59:59"),
            (1, &[0x80, 0, 0, 90], "00:00:00.9"),
            (3, &[0x80, 0, 0, 0, 10], "00:00:00.001"),
        ] {
            assert_eq!(time(fsp, bytes), text);
        }
        assert!(read_time(0, &mut Reader::new(&[0xff, 0xff, 0xff])).is_err());
    }

    #[test]
    fn timestamps_in_utc() {
        for (seconds, text) in [
            (0, "0000-00-00 00:00:00"),
            (1, "1970-01-01 00:00:01"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (2_147_483_647, "2038-01-19 03:14:07"),
            (4_294_967_295, "2106-02-07 06:28:15"),
        ] {
            let mut out = Vec::new();
            Timestamp { seconds, micros: 0 }.write_to(0, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }
}
