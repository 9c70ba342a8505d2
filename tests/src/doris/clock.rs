//! The simulator's clock: real time plus whatever a test has added to it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970, movable forwards by tests.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    offset_ms: AtomicI64,
}

impl Clock {
    /// Now, in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> i64 {
        let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        millis(real) + self.offset_ms.load(Ordering::SeqCst)
    }

    /// Returns when so many milliseconds of this clock have passed.
    pub(crate) async fn sleep(&self, ms: u64) {
        let until = self.now_ms().saturating_add(i64::try_from(ms).unwrap_or(i64::MAX));
        while self.now_ms() < until {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Moves the clock forwards.
    pub(crate) fn advance(&self, by: Duration) {
        self.offset_ms.fetch_add(millis(by), Ordering::SeqCst);
    }
}

/// A span in milliseconds, as the clock counts them.
pub(crate) fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

/// `2026-11-30 15:34:17.123`, in UTC.
pub(crate) fn format_ms(ms: i64) -> String {
    let (days, rest) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    let (y, m, d) = civil_from_days(days);
    let s = rest / 1000;
    format!("{y:04}-{m:02}-{d:02} {:02}:{:02}:{:02}.{:03}", s / 3600, s / 60 % 60, s % 60, rest % 1000)
}

/// Days since 1970-01-01 of a date of the proleptic Gregorian calendar.
pub(crate) fn days_from_civil(y: i64, m: i64, d: i64) -> i64 {
    let y = if m <= 2 { y - 1 } else { y };
    let era = y.div_euclid(400);
    let yoe = y.rem_euclid(400);
    let doy = (153 * (if m > 2 { m - 3 } else { m + 9 }) + 2) / 5 + d - 1;
    let doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    era * 146_097 + doe - 719_468
}

/// The date of a day number; the inverse of [`days_from_civil`].
pub(crate) fn civil_from_days(z: i64) -> (i64, i64, i64) {
    let z = z + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let d = doy - (153 * mp + 2) / 5 + 1;
    let m = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + i64::from(m <= 2), m, d)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_are_inverse() {
        assert_eq!(days_from_civil(1970, 1, 1), 0);
        assert_eq!(days_from_civil(2000, 3, 1), 11_017);
        for day in (-719_528..3_000_000).step_by(97) {
            let (y, m, d) = civil_from_days(day);
            assert_eq!(days_from_civil(y, m, d), day);
        }
    }

    #[test]
    fn the_clock_moves_only_forwards_when_told() {
        let clock = Clock::default();
        let before = clock.now_ms();
        clock.advance(Duration::from_secs(3600));
        assert!(clock.now_ms() >= before + 3_600_000);
    }
}
