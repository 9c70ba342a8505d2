//! Waiting times between tries.

use core::time::Duration;

/// Exponential back-off with full jitter: each wait is between half and the whole of a value that doubles up to `cap`.
#[derive(Clone, Debug)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    tries: u32,
}

impl Backoff {
    /// Starts at `base`.
    #[must_use]
    pub const fn new(base: Duration, cap: Duration) -> Self {
        Self { base, cap, tries: 0 }
    }

    /// The next wait.
    pub fn next(&mut self, rng: &mut fastrand::Rng) -> Duration {
        let factor = 2_u32.saturating_pow(self.tries.min(20));
        self.tries = self.tries.saturating_add(1);
        let whole = self.base.saturating_mul(factor).min(self.cap);
        let half = whole.checked_div(2).unwrap_or_default();
        half.saturating_add(half.mul_f64(rng.f64()))
    }

    /// How often [`next`](Self::next) was asked.
    #[must_use]
    pub const fn tries(&self) -> u32 {
        self.tries
    }

    /// Starts over.
    pub const fn reset(&mut self) {
        self.tries = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap_with_jitter() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
        for whole in [100, 200, 400, 800, 1600, 3200, 5000, 5000] {
            let wait = backoff.next(&mut rng).as_millis();
            assert!((whole / 2..=whole).contains(&wait), "{wait} of {whole}");
        }
        assert_eq!(backoff.tries(), 8);
        backoff.reset();
        assert!(backoff.next(&mut rng) <= Duration::from_millis(100));
        let mut long = Backoff { tries: u32::MAX, ..Backoff::new(Duration::from_secs(1), Duration::from_secs(60)) };
        assert!(long.next(&mut rng) <= Duration::from_secs(60));
    }
}
