//! How fast snapshots read: rows in a second, over all readers.

use std::time::Duration;

/// Millionths of a row, so that a slow rate refills between two looks.
const PARTS: i128 = 1_000_000;

/// A bucket of rows that fills with time. Pure: the clock comes with every call.
///
/// A chunk is paid when it is begun, with the most rows it may read; what it did not read is given back. One may begin while
/// the bucket is not in debt, so the mean never exceeds the rate, and a pause never earns more than one second's rows.
#[derive(Clone, Debug)]
pub(super) struct RowRate {
    /// Rows in a second; 0: no limit.
    rows_per_second: u64,
    /// What may be read now, in millionths of a row; negative: owed.
    balance: i128,
    at: Duration,
}

impl RowRate {
    /// A full bucket at `now` (any clock that only grows).
    pub(super) fn new(rows_per_second: u64, now: Duration) -> Self {
        Self { rows_per_second, balance: i128::from(rows_per_second).saturating_mul(PARTS), at: now }
    }

    /// Rows in a second; 0: no limit.
    pub(super) const fn rows_per_second(&self) -> u64 {
        self.rows_per_second
    }

    /// Another rate from `now` on. Debt of the old one is forgiven beyond one second's rows of the new one.
    pub(super) fn set(&mut self, rows_per_second: u64, now: Duration) {
        self.fill(now);
        self.rows_per_second = rows_per_second;
        let second = i128::from(rows_per_second).saturating_mul(PARTS);
        self.balance = self.balance.clamp(second.saturating_neg(), second);
    }

    fn fill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.at);
        self.at = self.at.max(now);
        let micros = i128::try_from(passed.as_micros()).unwrap_or(i128::MAX);
        let rate = i128::from(self.rows_per_second);
        // Rows in a second are millionths of a row in a microsecond.
        self.balance = self.balance.saturating_add(micros.saturating_mul(rate)).min(rate.saturating_mul(PARTS));
    }

    /// How many rows a chunk that begins now may read, of `wanted`; they are paid. `None`: not now.
    pub(super) fn take(&mut self, wanted: u64, now: Duration) -> Option<u64> {
        if self.rows_per_second == 0 {
            return Some(wanted);
        }
        self.fill(now);
        if self.balance <= 0 {
            return None;
        }
        // A chunk of many seconds would be one long burst.
        let rows = wanted.min(self.rows_per_second).max(1);
        self.balance = self.balance.saturating_sub(i128::from(rows).saturating_mul(PARTS));
        Some(rows)
    }

    /// Rows that were paid and not read.
    pub(super) fn give_back(&mut self, rows: u64) {
        let second = i128::from(self.rows_per_second).saturating_mul(PARTS);
        self.balance = self.balance.saturating_add(i128::from(rows).saturating_mul(PARTS)).min(second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn without_a_rate_everything_goes() {
        let mut rate = RowRate::new(0, ms(0));
        for _ in 0..3 {
            assert_eq!(rate.take(16_384, ms(0)), Some(16_384));
        }
    }

    #[test]
    fn chunks_are_cut_to_a_second_and_wait_until_they_are_paid() {
        let mut rate = RowRate::new(100, ms(0));
        assert_eq!(rate.take(16_384, ms(0)), Some(100), "the bucket is full at first");
        assert_eq!(rate.take(16_384, ms(0)), None);
        assert_eq!(rate.take(30, ms(9)), Some(30), "a look earns what passed, however little");
        assert_eq!(rate.take(30, ms(299)), None);
        assert_eq!(rate.take(30, ms(301)), Some(30));
        // A long pause earns one second.
        assert_eq!(rate.take(500, ms(100_000)), Some(100));
        assert_eq!(rate.take(500, ms(100_000)), None);
        // A clock that goes back earns nothing.
        assert_eq!(rate.take(500, ms(99_000)), None);
    }

    #[test]
    fn what_was_not_read_is_given_back() {
        let mut rate = RowRate::new(100, ms(0));
        assert_eq!(rate.take(80, ms(0)), Some(80));
        rate.give_back(79);
        assert_eq!(rate.take(90, ms(0)), Some(90));
        assert_eq!(rate.take(1, ms(0)), Some(1), "nine were left");
        rate.give_back(1000);
        assert_eq!(rate.take(200, ms(0)), Some(100));
        assert_eq!(rate.take(1, ms(0)), None, "giving back earns no more than a second");
    }

    #[test]
    fn the_mean_is_the_rate_whoever_looks_how_often() {
        for step in [1, 7, 50, 333] {
            let mut rate = RowRate::new(1000, ms(0));
            let mut read = 0;
            for at in (0..60_000).step_by(step) {
                while let Some(rows) = rate.take(64, ms(at)) {
                    read += rows;
                }
            }
            assert!((60_000..=61_100).contains(&read), "{step}: {read}");
        }
    }

    #[test]
    fn another_rate_holds_at_once() {
        let mut rate = RowRate::new(1_000_000, ms(0));
        assert_eq!(rate.take(1_000_000, ms(0)), Some(1_000_000));
        rate.set(10, ms(0));
        assert_eq!(rate.rows_per_second(), 10);
        assert_eq!(rate.take(100, ms(0)), None);
        assert_eq!(rate.take(100, ms(101)), Some(10), "an old debt is no burden of the new rate");
        rate.set(0, ms(101));
        assert_eq!(rate.take(100, ms(101)), Some(100));
        rate.set(10, ms(101));
        assert_eq!(rate.take(100, ms(101)), None, "no limit leaves no riches");
    }
}
