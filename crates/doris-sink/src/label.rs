//! Labels: the name of one Stream Load, by which Doris refuses to load the same bytes twice.

use core::fmt;
use core::str::FromStr;

/// Greatest era a label can carry: the era stands above 44 bits of a signed 64-bit sequence.
pub const MAX_ERA: u32 = (1 << 19) - 1;
/// Greatest epoch a label can carry (48 bits).
pub const MAX_EPOCH: u64 = (1 << 48) - 1;

/// The label of one load: `ms1_<pipeline 16>_<target 8>_<era 5>_<epoch 12>_<part 4>`, all lower-case hex of fixed width.
///
/// Fixed widths make it injective and keep it within Doris' `^[-_A-Za-z0-9:]{1,128}$` whatever the tables are called.
/// [`Display`](fmt::Display) and [`FromStr`] are exact inverses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    pipeline: u64,
    target: u32,
    era: u32,
    epoch: u64,
    part: u16,
}

/// A field of a label is too large for its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelOverflow {
    field: &'static str,
    value: u64,
}

impl fmt::Display for LabelOverflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} does not fit into a label: start a new pipeline with an empty state directory",
            self.field, self.value
        )
    }
}

impl std::error::Error for LabelOverflow {}

/// Text that is not one of our labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotALabel;

impl fmt::Display for NotALabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a label of millstream")
    }
}

impl std::error::Error for NotALabel {}

impl Label {
    /// A label of `pipeline` (64 random bits kept in the state), `target` (the state's number of the target table), the
    /// writer's `era`, the `epoch` and the load's number in it.
    ///
    /// # Errors
    /// When `era` or `epoch` exceed their widths.
    pub const fn new(pipeline: u64, target: u32, era: u32, epoch: u64, part: u16) -> Result<Self, LabelOverflow> {
        if era > MAX_ERA {
            return Err(LabelOverflow { field: "era", value: era as u64 });
        }
        if epoch > MAX_EPOCH {
            return Err(LabelOverflow { field: "epoch", value: epoch });
        }
        Ok(Self { pipeline, target, era, epoch, part })
    }

    /// The pipeline's 64 random bits.
    #[must_use]
    pub const fn pipeline(self) -> u64 {
        self.pipeline
    }

    /// The state's number of the target table.
    #[must_use]
    pub const fn target(self) -> u32 {
        self.target
    }

    /// The writer's era.
    #[must_use]
    pub const fn era(self) -> u32 {
        self.era
    }

    /// The epoch.
    #[must_use]
    pub const fn epoch(self) -> u64 {
        self.epoch
    }

    /// The load's number within its epoch and target, from 0.
    #[must_use]
    pub const fn part(self) -> u16 {
        self.part
    }

    /// What every label of `pipeline` begins with.
    #[must_use]
    pub fn prefix(pipeline: u64) -> String {
        format!("ms1_{pipeline:016x}_")
    }

    /// The beginning of this label that names its target: `ms1_<pipeline>_<target>_`.
    #[must_use]
    pub fn target_prefix(self) -> String {
        format!("ms1_{:016x}_{:08x}_", self.pipeline, self.target)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pipeline, target, era, epoch, part } = self;
        write!(f, "ms1_{pipeline:016x}_{target:08x}_{era:05x}_{epoch:012x}_{part:04x}")
    }
}

/// A field of exactly `width` lower-case hex digits.
fn hex_field(text: &str, width: usize) -> Option<u64> {
    let lower = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if text.len() != width || !text.bytes().all(lower) {
        return None;
    }
    u64::from_str_radix(text, 16).ok()
}

fn parse(text: &str) -> Option<Label> {
    let mut fields = text.strip_prefix("ms1_")?.split('_');
    let mut next = |width| fields.next().and_then(|field| hex_field(field, width));
    let (pipeline, target, era, epoch, part) = (next(16)?, next(8)?, next(5)?, next(12)?, next(4)?);
    if fields.next().is_some() {
        return None;
    }
    let (target, era, part) = (u32::try_from(target).ok()?, u32::try_from(era).ok()?, u16::try_from(part).ok()?);
    Label::new(pipeline, target, era, epoch, part).ok()
}

impl FromStr for Label {
    type Err = NotALabel;

    fn from_str(text: &str) -> Result<Self, NotALabel> {
        parse(text).ok_or(NotALabel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn text_and_label_are_inverse_and_injective() {
        let mut rng = fastrand::Rng::with_seed(6);
        let mut seen = HashSet::new();
        let mut labels = HashSet::new();
        for _ in 0..100_000 {
            // Small ranges on purpose: neighbours are where ambiguous concatenations collide.
            let label =
                Label::new(rng.u64(..3), rng.u32(..300), rng.u32(..=MAX_ERA), rng.u64(..300), rng.u16(..300)).unwrap();
            let text = label.to_string();
            assert_eq!(text.parse::<Label>(), Ok(label));
            assert!(text.len() <= 128 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'), "{text}");
            assert!(text.starts_with(&Label::prefix(label.pipeline())));
            assert!(text.starts_with(&label.target_prefix()));
            assert_eq!(labels.insert(label), seen.insert(text));
        }
    }

    #[test]
    fn the_widths_are_fixed() {
        let label = Label::new(u64::MAX, u32::MAX, MAX_ERA, MAX_EPOCH, u16::MAX).unwrap();
        assert_eq!(label.to_string(), "ms1_ffffffffffffffff_ffffffff_7ffff_ffffffffffff_ffff");
        let label = Label::new(1, 2, 3, 4, 5).unwrap();
        assert_eq!(label.to_string(), "ms1_0000000000000001_00000002_00003_000000000004_0005");
        assert!(Label::new(0, 0, MAX_ERA + 1, 0, 0).is_err());
        assert!(Label::new(0, 0, 0, MAX_EPOCH + 1, 0).is_err());
    }

    #[test]
    fn nothing_else_parses() {
        for text in [
            "",
            "ms1_",
            "ms1_0000000000000001_00000002_00003_000000000004_0005_",
            "ms1_0000000000000001_00000002_00003_000000000004_005",
            "ms1_000000000000000A_00000002_00003_000000000004_0005",
            "ms1_+000000000000001_00000002_00003_000000000004_0005",
            "ms2_0000000000000001_00000002_00003_000000000004_0005",
            "ms1_0000000000000001_00000002_fffff_000000000004_0005",
            " ms1_0000000000000001_00000002_00003_000000000004_0005",
        ] {
            assert_eq!(text.parse::<Label>(), Err(NotALabel), "{text}");
        }
    }
}
