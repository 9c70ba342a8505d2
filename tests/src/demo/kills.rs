//! When the engine is killed, and the proof that it was then.

use std::fmt;

use fastrand::Rng;

/// What the engine is in the middle of when it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// Some ranges of the tables are done and some are not.
    Snapshot,
    /// All loads of an epoch are PRECOMMITTED, its record is durable, nothing of it is committed.
    Precommitted,
    /// Every table is live and the writers write.
    Streaming,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Snapshot => "some ranges done, some not",
            Self::Precommitted => "loads PRECOMMITTED, record durable",
            Self::Streaming => "streaming",
        })
    }
}

/// A kill that landed.
#[derive(Clone, Debug)]
pub struct Landed {
    /// When.
    pub moment: Moment,
    /// Seconds after the engine's first start.
    pub second: f64,
    /// What shows it.
    pub evidence: String,
    /// The highest era that was in use.
    pub(super) era: u32,
}

/// The kills of a run: those of the snapshot first, one of each kind at least when there are three.
pub(super) fn plan(kills: u32, rng: &mut Rng) -> Vec<Moment> {
    use Moment::{Precommitted, Snapshot, Streaming};
    let must = match kills {
        0 => &[][..],
        1 => &[Streaming],
        2 => &[Snapshot, Streaming],
        _ => &[Snapshot, Precommitted, Streaming],
    };
    let mut all = must.to_vec();
    while all.len() < kills as usize {
        // A snapshot has room for a few only.
        let in_snapshot = all.iter().filter(|moment| **moment == Snapshot).count();
        all.push(match rng.u8(..3) {
            0 if in_snapshot < 3 => Snapshot,
            1 => Precommitted,
            _ => Streaming,
        });
    }
    rng.shuffle(&mut all);
    all.sort_by_key(|moment| *moment != Snapshot);
    all
}

/// The part of the rows that must be there for the kill `n` of `count` in the snapshot. A small one is over in a
/// moment: its first kill comes with the first rows.
pub(super) fn part(n: usize, count: usize, small: bool, rng: &mut Rng) -> f64 {
    let within = if small { 0.0 } else { 0.2 + 0.6 * rng.f64() };
    0.6 * (n as f64 + within) / count as f64
}

/// Era and epoch in a label of the engine.
pub(super) fn era_and_epoch(label: &str) -> Option<(u32, u64)> {
    let mut parts = label.strip_prefix("ms1_")?.split('_').skip(2);
    let era = u32::from_str_radix(parts.next()?, 16).ok()?;
    let epoch = u64::from_str_radix(parts.next()?, 16).ok()?;
    Some((era, epoch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_kills_have_one_of_each_kind() {
        for seed in 0..200 {
            for kills in 0..9 {
                let plan = plan(kills, &mut Rng::with_seed(seed));
                assert_eq!(plan.len(), kills as usize);
                let in_snapshot = plan.iter().filter(|moment| **moment == Moment::Snapshot).count();
                assert!(in_snapshot <= 3 && plan[..in_snapshot].iter().all(|moment| *moment == Moment::Snapshot));
                if kills >= 3 {
                    assert!(
                        in_snapshot > 0 && plan.contains(&Moment::Precommitted) && plan.contains(&Moment::Streaming)
                    );
                }
            }
        }
        assert_eq!(plan(7, &mut Rng::with_seed(3)), plan(7, &mut Rng::with_seed(3)));
    }

    #[test]
    fn kills_of_the_snapshot_come_one_after_the_other() {
        let mut rng = Rng::with_seed(1);
        for _ in 0..100 {
            let parts: Vec<f64> = (0..3).map(|n| part(n, 3, false, &mut rng)).collect();
            assert!(parts[0] > 0.0 && parts.is_sorted() && parts[2] < 0.6, "{parts:?}");
        }
        assert!(part(0, 1, true, &mut rng) < part(1, 2, true, &mut rng));
    }

    #[test]
    fn labels_are_read() {
        assert_eq!(era_and_epoch("ms1_00000000000000aa_00000001_0000f_000000000010_0000"), Some((15, 16)));
        assert_eq!(era_and_epoch("other_1"), None);
    }
}
