/// A rule of the snapshot or of the delivery that a model run can break, to show that the model notices.
///
/// Outside of the `mutants` feature nothing can be broken and every question is answered at compile time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Broken {
    /// LW is taken although it does not cover D.
    LwCoversD,
    /// Changes of a Reading range are dropped instead of held.
    Normalize,
    /// A chunk enters one position before its HW.
    EntryAtHw,
    /// A chunk covers its planned range although it was cut by rows.
    CoverLastRow,
    /// A change in LW leaves older held changes of its key alone.
    ForgetOlder,
    /// Chunks are opened before the stream has passed P0.
    StartFence,
    /// A checkpoint takes Reading ranges for Done.
    OnlyDoneDurable,
    /// Chunks of a table that is ahead of the stream are opened.
    BehindTable,
    /// Changes in Unread and Reading ranges of a resumed upsert table are not emitted.
    KeepEmitting,
}

/// Which rule is broken, if any.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    #[cfg(feature = "mutants")]
    broken: Option<Broken>,
}

impl Rules {
    /// Rules with one of them broken.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub const fn without(broken: Broken) -> Self {
        Self { broken: Some(broken) }
    }

    /// Whether `rule` holds.
    #[cfg(feature = "mutants")]
    #[inline]
    #[must_use]
    pub fn hold(self, rule: Broken) -> bool {
        self.broken != Some(rule)
    }

    /// Whether `rule` holds: always.
    #[cfg(not(feature = "mutants"))]
    #[inline]
    #[must_use]
    pub const fn hold(self, rule: Broken) -> bool {
        let _ = rule;
        true
    }
}
