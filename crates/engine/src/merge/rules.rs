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
    /// What was delivered before a restart is dropped in every range, not in Done ones alone.
    DeliveredInDoneOnly,
    /// A Reading range is cut, and its upper part is given to another worker.
    CutUnreadOnly,
    /// Chunks are opened and enter inside a transaction that a lost connection has cut off.
    BetweenTransactions,
    /// Loads of one target are committed in any order.
    CommitInOrder,
    /// A range counts as marked only from its LW on.
    MarkBeforeLw,
    /// LW is read after the SELECT.
    LwBeforeSelect,
    /// HW is read before the SELECT.
    HwAfterSelect,
    /// A range that a chunk entered at once goes on dropping what is in its LW after a change that is not.
    SpentWatermark,
    /// An XA decision counts as in LW by its place, although LW says nothing about such.
    XaNotInLw,
}

/// Which rules are broken, if any.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    #[cfg(feature = "mutants")]
    broken: [Option<Broken>; 2],
}

impl Rules {
    /// Every rule holds.
    pub const NONE_BROKEN: Self = Self {
        #[cfg(feature = "mutants")]
        broken: [None; 2],
    };

    /// Rules with one of them broken.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub const fn without(broken: Broken) -> Self {
        Self { broken: [Some(broken), None] }
    }

    /// These rules with a second one broken (some cover for each other).
    #[cfg(feature = "mutants")]
    #[must_use]
    pub const fn and_without(self, broken: Broken) -> Self {
        let [first, _] = self.broken;
        Self { broken: [first, Some(broken)] }
    }

    /// Whether `rule` holds.
    #[cfg(feature = "mutants")]
    #[inline]
    #[must_use]
    pub fn hold(self, rule: Broken) -> bool {
        !self.broken.contains(&Some(rule))
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
