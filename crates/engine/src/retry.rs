//! Pauses between tries.

use core::time::Duration;

/// Pauses that double up to a limit, each with a random share so that many clients do not come back together.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    limit: Duration,
    next: Duration,
}

impl Backoff {
    /// Pauses from `first` to `limit`.
    #[must_use]
    pub const fn new(first: Duration, limit: Duration) -> Self {
        Self { first, limit, next: first }
    }

    /// The next pause: between half of it and all of it, by `random` in 0..1.
    pub fn next(&mut self, random: f64) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(self.limit);
        pause.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
    }

    /// The next pause is at least this long.
    pub fn at_least(&mut self, pause: Duration) {
        self.next = self.next.max(pause.min(self.limit));
    }

    /// It worked: begin with the shortest pause again.
    pub const fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit_and_begin_again() {
        let ms = Duration::from_millis;
        let mut b = Backoff::new(ms(100), ms(350));
        assert_eq!([b.next(1.0), b.next(1.0), b.next(1.0), b.next(0.0)], [ms(100), ms(200), ms(350), ms(175)]);
        b.reset();
        assert_eq!(b.next(0.0), ms(50));
        b.at_least(ms(300));
        assert_eq!(b.next(1.0), ms(300));
    }
}
