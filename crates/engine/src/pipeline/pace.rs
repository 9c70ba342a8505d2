//! How often, and in how large loads, a target is loaded: slower where its table has too many versions, smaller where a
//! load had too many segments. Pure; time is milliseconds of a clock that only grows.

use std::collections::BTreeMap;

use crate::delivery::TargetNo;

/// The first and the greatest interval between two loads of a table that has too many versions (`-235`).
const FIRST_INTERVAL: u64 = 5_000;
const MAX_INTERVAL: u64 = 300_000;
/// The smallest load that is asked for.
const MIN_BYTES: usize = 64 << 10;
/// After so many loads of a lowered limit twice as much is tried.
const CLEAN_LOADS: u32 = 64;

/// One target's pace. A new one is as fast as epochs are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pace {
    /// Least time between two loads; 0: every epoch.
    interval: u64,
    /// No load before.
    held_until: u64,
    /// Greatest load in bytes, where it was lowered.
    bytes: Option<usize>,
    /// Loads since it was lowered or raised.
    clean: u32,
}

impl Pace {
    /// A load has gone in after `too_many_versions` refusals (`-235`): widens the interval, or narrows it again.
    pub(super) fn loaded(&mut self, too_many_versions: u32, now: u64, rng: &mut fastrand::Rng) {
        self.interval = if too_many_versions > 0 {
            self.interval.saturating_mul(2).clamp(FIRST_INTERVAL, MAX_INTERVAL)
        } else {
            let narrower = self.interval.saturating_mul(3) / 4;
            if narrower < FIRST_INTERVAL / 2 { 0 } else { narrower }
        };
        // Tables that were refused together do not come back together.
        let half = self.interval / 2;
        self.held_until = now.saturating_add(half).saturating_add(rng.u64(0..=half));
        self.clean = self.clean.saturating_add(1);
        if self.clean >= CLEAN_LOADS {
            self.clean = 0;
            self.bytes = self.bytes.map(|bytes| bytes.saturating_mul(2));
        }
    }

    /// A load of `bytes` had too many segments or bytes: half of it is the limit from now on. `None` when that is too small
    /// to help.
    pub(super) fn too_large(&mut self, bytes: usize) -> Option<usize> {
        let half = self.limit(bytes) / 2;
        self.clean = 0;
        self.bytes = Some(half.max(MIN_BYTES));
        (half >= MIN_BYTES).then_some(half)
    }

    /// Whether the table is to wait for a later epoch.
    pub(super) const fn is_held(&self, now: u64) -> bool {
        self.interval > 0 && now < self.held_until
    }

    /// The greatest load in bytes, where `full` is what the configuration allows.
    pub(super) fn limit(&self, full: usize) -> usize {
        self.bytes.map_or(full, |bytes| bytes.min(full))
    }

    /// What a later attempt keeps; its clock begins again.
    pub(super) fn carried(&self) -> Self {
        Self { held_until: 0, ..self.clone() }
    }
}

/// The paces that outlive an attempt.
pub(super) type Paces = BTreeMap<TargetNo, Pace>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_versions_widen_the_interval_and_quiet_loads_narrow_it() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut pace = Pace::default();
        assert!(!pace.is_held(0));
        pace.loaded(0, 100, &mut rng);
        assert!(!pace.is_held(100), "a load that goes well changes nothing");
        let mut now = 0;
        for interval in [5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000] {
            pace.loaded(1, now, &mut rng);
            assert_eq!(pace.interval, interval);
            let waits = pace.held_until - now;
            assert!((interval / 2..=interval).contains(&waits), "{waits} of {interval}");
            assert!(pace.is_held(now + interval / 2 - 1) && !pace.is_held(now + interval));
            now += interval;
        }
        let mut narrowed = Vec::new();
        while pace.interval > 0 {
            pace.loaded(0, now, &mut rng);
            narrowed.push(pace.interval);
        }
        assert_eq!(narrowed[..3], [225_000, 168_750, 126_562]);
        assert_eq!(narrowed.len(), 17, "{narrowed:?}");
        assert!(!pace.is_held(now));
        assert_eq!(pace.carried(), Pace { held_until: 0, ..pace });
    }

    #[test]
    fn too_many_segments_halve_the_load_and_many_good_ones_double_it() {
        let mut rng = fastrand::Rng::with_seed(1);
        let full = 1 << 20;
        let mut pace = Pace::default();
        assert_eq!(pace.limit(full), full);
        for half in [512 << 10, 256 << 10, 128 << 10, 64 << 10] {
            assert_eq!(pace.too_large(full), Some(half));
            assert_eq!(pace.limit(full), half);
        }
        assert_eq!(pace.too_large(full), None, "smaller does not help");
        assert_eq!(pace.limit(full), MIN_BYTES);
        for doubled in [128 << 10, 256 << 10, 512 << 10, 1 << 20, 1 << 20] {
            (0..CLEAN_LOADS).for_each(|_| pace.loaded(0, 0, &mut rng));
            assert_eq!(pace.limit(full), doubled);
        }
        assert_eq!(pace.interval, 0);
    }
}
