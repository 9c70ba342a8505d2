//! Times as people write them: RFC 3339, or seconds since 1970. Without an offset they are UTC, whatever the machine's
//! zone is: a log says the same everywhere.

use core::fmt;
use core::str::FromStr;

use millstream_binlog::Timestamp;

/// A moment: microseconds since 1970 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct When(pub u64);

const FORM: &str = "a time: 2026-11-30T12:00:00Z (UTC without an offset), 2026-11-30, or seconds since 1970";
const MICROS: u64 = 1_000_000;

impl When {
    /// From an event's header.
    #[must_use]
    pub const fn from_seconds(seconds: u32) -> Self {
        Self((seconds as u64).saturating_mul(MICROS))
    }
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        seconds(text)
            .or_else(|| rfc3339(text))
            .map(Self)
            .ok_or_else(|| format!("\"{}\" is not {FORM}", text.escape_debug()))
    }
}

impl fmt::Display for When {
    /// RFC 3339 in UTC, with a fraction only if there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Vec::with_capacity(32);
        let micros = self.0.checked_rem(MICROS).unwrap_or(0);
        let seconds = self.0.checked_div(MICROS).unwrap_or(0);
        let fsp = if micros == 0 { 0 } else { 6 };
        let shown = Timestamp { seconds: seconds.max(1), micros: u32::try_from(micros).unwrap_or(0) };
        shown.write_to(fsp, &mut out);
        // Second 0 is a column's zero date, not this moment.
        if let (0, Some(second)) = (seconds, out.get_mut(18)) {
            *second = b'0';
        }
        f.write_str(&String::from_utf8_lossy(&out).replacen(' ', "T", 1))?;
        f.write_str("Z")
    }
}

/// `1764504000` or `1764504000.25`.
fn seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').map_or((text, "0"), |parts| parts);
    if whole.is_empty() || !whole.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    whole.parse::<u64>().ok()?.checked_mul(MICROS)?.checked_add(fraction_micros(fraction)?)
}

/// Digits after the point; what is finer than a microsecond is cut off.
fn fraction_micros(digits: &str) -> Option<u64> {
    if digits.is_empty() || digits.len() > 18 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let padded: String = digits.chars().chain("000000".chars()).take(6).collect();
    padded.parse().ok()
}

/// A number of exactly `width` digits at the front, and the rest.
fn number(text: &str, width: usize) -> Option<(i64, &str)> {
    let (digits, rest) = text.split_at_checked(width)?;
    let all = digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|_| all).map(|n| (n, rest))
}

fn part<'a>(
    text: &'a str,
    before: &str,
    width: usize,
    limits: core::ops::RangeInclusive<i64>,
) -> Option<(i64, &'a str)> {
    let (n, rest) = number(text.strip_prefix(before)?, width)?;
    limits.contains(&n).then_some((n, rest))
}

fn rfc3339(text: &str) -> Option<u64> {
    let (year, rest) = part(text, "", 4, 1970..=9999)?;
    let (month, rest) = part(rest, "-", 2, 1..=12)?;
    let (day, rest) = part(rest, "-", 2, 1..=days_in(year, month))?;
    let days = days_since_1970(year, month, day)?;
    let (mut clock, mut fraction) = (0i64, 0);
    if !rest.is_empty() {
        let rest = rest.strip_prefix(['T', 't', ' '])?;
        let (hour, rest) = part(rest, "", 2, 0..=23)?;
        let (minute, rest) = part(rest, ":", 2, 0..=59)?;
        // A leap second counts as the second after it, as everywhere in Unix time.
        let (second, mut rest) = part(rest, ":", 2, 0..=60).or(Some((0, rest)))?;
        if let Some(tail) = rest.strip_prefix('.') {
            let end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
            let (digits, tail) = tail.split_at_checked(end)?;
            fraction = fraction_micros(digits)?;
            rest = tail;
        }
        clock = hour.checked_mul(3600)?.checked_add(minute.checked_mul(60)?)?.checked_add(second)?;
        clock = clock.checked_sub(offset(rest)?)?;
    }
    let seconds = days.checked_mul(86_400)?.checked_add(clock)?;
    u64::try_from(seconds).ok()?.checked_mul(MICROS)?.checked_add(fraction)
}

/// `Z`, `+02:00`, or nothing: seconds east of UTC.
fn offset(text: &str) -> Option<i64> {
    if matches!(text, "" | "Z" | "z") {
        return Some(0);
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let (hours, rest) = part(text.strip_prefix(['+', '-'])?, "", 2, 0..=23)?;
    let (minutes, rest) = part(rest, ":", 2, 0..=59)?;
    rest.is_empty().then_some(())?;
    hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?.checked_mul(sign)
}

const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

const fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_since_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    let years = (1970..year).map(|y| if is_leap(y) { 366 } else { 365 }).sum::<i64>();
    let months = (1..month).map(|m| days_in(year, m)).sum::<i64>();
    years.checked_add(months)?.checked_add(day)?.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_names_the_same_moment() {
        for text in [
            "2026-11-30T12:00:00Z",
            "2026-11-30T12:00:00",
            "2026-11-30 12:00:00.000",
            "2026-11-30 12:00",
            "2026-11-30T14:30:00+02:30",
            "2026-11-30T07:00:00-05:00",
            "1796040000",
            "1796040000.0",
        ] {
            assert_eq!(text.parse::<When>().map(|w| w.to_string()), Ok("2026-11-30T12:00:00Z".to_owned()), "{text}");
        }
        for (text, shown) in [
            ("1970-01-01", "1970-01-01T00:00:00Z"),
            ("2000-02-29", "2000-02-29T00:00:00Z"),
            ("2024-12-31T23:59:60Z", "2025-01-01T00:00:00Z"),
            ("9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.999999Z"),
            ("0.5", "1970-01-01T00:00:00.500000Z"),
        ] {
            assert_eq!(text.parse::<When>().map(|w| w.to_string()), Ok(shown.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "now",
            "-1",
            "1e9",
            "2026-13-01",
            "2026-02-29",
            "2026-11-31",
            "2026-11-30T24:00:00Z",
            "2026-11-30T12:00:00X",
            "2026-11-30T12:00:00+2",
            "2026-11-30T",
            "1969-12-31",
            "1970-01-01T00:00:00+01:00",
            "2026-11-30T12:00:00.Z",
            "99999999999999999999",
            "+12",
            "2026-1-1",
        ] {
            assert!(text.parse::<When>().is_err(), "{text}");
        }
    }
}
