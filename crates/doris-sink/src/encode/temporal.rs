//! Dates and times as Doris reads them: `yyyy-MM-dd`, `yyyy-MM-dd HH:mm:ss[.ffffff]`.

use millstream_binlog::{Date, DateTime, Time, Timestamp};

const SECONDS_PER_DAY: u64 = 86_400;
/// 9999-12-31 23:59:59.
const MAX_SECONDS: u64 = 253_402_300_799;

const fn digit(n: u32) -> u8 {
    #[allow(clippy::cast_possible_truncation, reason = "a remainder of ten fits")]
    let n = (n % 10) as u8;
    b'0'.wrapping_add(n)
}

fn push2(out: &mut Vec<u8>, n: u32) {
    out.extend_from_slice(&[digit(n / 10), digit(n)]);
}

/// Up to six digits of a fraction of a second; nothing for 0 digits.
fn push_fraction(out: &mut Vec<u8>, micros: u32, fsp: u8) {
    if fsp == 0 {
        return;
    }
    let digits = [
        digit(micros / 100_000),
        digit(micros / 10_000),
        digit(micros / 1000),
        digit(micros / 100),
        digit(micros / 10),
        digit(micros),
    ];
    out.push(b'.');
    out.extend(digits.iter().take(usize::from(fsp)));
}

fn push_date(out: &mut Vec<u8>, date: Date) {
    let year = u32::from(date.year);
    push2(out, year / 100);
    push2(out, year % 100);
    out.push(b'-');
    push2(out, u32::from(date.month));
    out.push(b'-');
    push2(out, u32::from(date.day));
}

/// Whether Doris has this day. (Year 0 counts as no leap year, as with MySQL.)
pub(crate) const fn is_valid_date(date: Date) -> bool {
    let year = date.year;
    let leap = year != 0 && year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match date.month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return false,
    };
    year <= 9999 && date.day >= 1 && date.day <= days
}

/// Appends a date; false, and nothing written, when Doris has no such date.
pub(crate) fn push_valid_date(out: &mut Vec<u8>, date: Date) -> bool {
    let valid = is_valid_date(date);
    if valid {
        push_date(out, date);
    }
    valid
}

/// Appends a date and time with `fsp` digits of fraction; false, and nothing written, when Doris has no such moment.
pub(crate) fn push_valid_datetime(out: &mut Vec<u8>, at: &DateTime, fsp: u8) -> bool {
    let valid = is_valid_date(at.date) && at.hour <= 23 && at.minute <= 59 && at.second <= 59 && at.micros <= 999_999;
    if valid {
        push_date(out, at.date);
        out.push(b' ');
        push_clock(out, u32::from(at.hour), u32::from(at.minute), u32::from(at.second));
        push_fraction(out, at.micros, fsp);
    }
    valid
}

fn push_clock(out: &mut Vec<u8>, hour: u32, minute: u32, second: u32) {
    push2(out, hour);
    out.push(b':');
    push2(out, minute);
    out.push(b':');
    push2(out, second);
}

/// Appends a TIMESTAMP in UTC; false for MySQL's zero value and for what lies beyond year 9999.
pub(crate) fn push_valid_timestamp(out: &mut Vec<u8>, at: Timestamp, fsp: u8) -> bool {
    let zero = at.seconds == 0 && at.micros == 0;
    !zero && push_utc(out, at.seconds, at.micros, fsp)
}

/// Appends `seconds` since 1970 UTC; false beyond year 9999.
#[allow(
    clippy::arithmetic_side_effects,
    reason = "seconds are at most MAX_SECONDS here, so every intermediate value is below 2^40"
)]
pub(crate) fn push_utc(out: &mut Vec<u8>, seconds: u64, micros: u32, fsp: u8) -> bool {
    if seconds > MAX_SECONDS || micros > 999_999 {
        return false;
    }
    // Days to a date of the proleptic Gregorian calendar, counted in 400-year eras from 0000-03-01.
    let days = seconds / SECONDS_PER_DAY + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let clock = seconds % SECONDS_PER_DAY;
    let small = |n: u64| u8::try_from(n).unwrap_or_default();
    let at = DateTime {
        date: Date { year: u16::try_from(year).unwrap_or_default(), month: small(month), day: small(day) },
        hour: small(clock / 3600),
        minute: small(clock / 60 % 60),
        second: small(clock % 60),
        micros,
    };
    push_valid_datetime(out, &at, fsp)
}

/// Appends a TIME: `[-]hh:mm:ss[.ffffff]`, three digits of hours when needed; false when it is malformed.
pub(crate) fn push_valid_time(out: &mut Vec<u8>, at: Time, fsp: u8) -> bool {
    if at.hours > 838 || at.minutes > 59 || at.seconds > 59 || at.micros > 999_999 {
        return false;
    }
    if at.negative {
        out.push(b'-');
    }
    let hours = u32::from(at.hours);
    if hours >= 100 {
        out.push(digit(hours / 100));
    }
    push_clock(out, hours % 100, u32::from(at.minutes), u32::from(at.seconds));
    push_fraction(out, at.micros, fsp);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>) -> bool) -> Option<String> {
        let mut out = Vec::new();
        let ok = write(&mut out);
        assert!(ok || out.is_empty());
        ok.then(|| String::from_utf8(out).unwrap())
    }

    #[test]
    fn dates() {
        #[rustfmt::skip]
        let cases = [
            ((0, 0, 0), None), ((2024, 0, 1), None), ((2024, 1, 0), None), ((2023, 2, 29), None), ((1900, 2, 29), None),
            ((0, 2, 29), None), ((2024, 13, 1), None), ((2024, 4, 31), None), ((10000, 1, 1), None),
            ((2024, 2, 29), Some("2024-02-29")), ((2000, 2, 29), Some("2000-02-29")), ((0, 1, 1), Some("0000-01-01")),
            ((9999, 12, 31), Some("9999-12-31")), ((987, 6, 5), Some("0987-06-05")),
        ];
        for ((year, month, day), expected) in cases {
            let found = text(|out| push_valid_date(out, Date { year, month, day }));
            assert_eq!(found.as_deref(), expected, "{year}-{month}-{day}");
        }
    }

    #[test]
    fn moments() {
        let at = |hour, micros| DateTime {
            date: Date { year: 2026, month: 11, day: 30 },
            hour,
            minute: 7,
            second: 9,
            micros,
        };
        let all: Vec<_> = (0..=6).map(|fsp| text(|o| push_valid_datetime(o, &at(3, 120_340), fsp)).unwrap()).collect();
        assert_eq!(all[0], "2026-11-30 03:07:09");
        assert_eq!(all[3], "2026-11-30 03:07:09.120");
        assert_eq!(all[6], "2026-11-30 03:07:09.120340");
        assert_eq!(text(|o| push_valid_datetime(o, &at(24, 0), 0)), None);
        assert_eq!(text(|o| push_valid_datetime(o, &at(23, 1_000_000), 0)), None);
    }

    #[test]
    fn timestamps_are_utc() {
        // The expected texts are those of `date -u -d @N '+%F %T'`.
        #[rustfmt::skip]
        let cases = [
            (1, "1970-01-01 00:00:01"), (951_782_400, "2000-02-29 00:00:00"), (951_868_799, "2000-02-29 23:59:59"),
            (1_709_164_799, "2024-02-28 23:59:59"), (1_709_251_200, "2024-03-01 00:00:00"),
            (2_147_483_647, "2038-01-19 03:14:07"), (32_536_771_199, "3001-01-18 23:59:59"),
            (4_107_542_400, "2100-03-01 00:00:00"), (MAX_SECONDS, "9999-12-31 23:59:59"),
        ];
        for (seconds, expected) in cases {
            let found = text(|o| push_valid_timestamp(o, Timestamp { seconds, micros: 0 }, 0));
            assert_eq!(found.as_deref(), Some(expected));
        }
        assert_eq!(text(|o| push_valid_timestamp(o, Timestamp { seconds: 0, micros: 0 }, 0)), None);
        let fraction = text(|o| push_valid_timestamp(o, Timestamp { seconds: 0, micros: 1 }, 6));
        assert_eq!(fraction.as_deref(), Some("1970-01-01 00:00:00.000001"));
        assert_eq!(text(|o| push_valid_timestamp(o, Timestamp { seconds: MAX_SECONDS + 1, micros: 0 }, 0)), None);
        assert_eq!(text(|o| push_valid_timestamp(o, Timestamp { seconds: u64::MAX, micros: 0 }, 0)), None);
    }

    #[test]
    fn times() {
        let time = |negative, hours, micros| Time { negative, hours, minutes: 5, seconds: 6, micros };
        assert_eq!(text(|o| push_valid_time(o, time(true, 838, 7), 6)).as_deref(), Some("-838:05:06.000007"));
        assert_eq!(text(|o| push_valid_time(o, time(false, 4, 7), 0)).as_deref(), Some("04:05:06"));
        assert_eq!(text(|o| push_valid_time(o, time(false, 839, 7), 0)), None);
    }
}
