//! Rules of the driver and of the server that a run can break (those inside the engine: `merge::Broken`).

/// One broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    /// LW is what the binlog end position stands for.
    LwIsPosition,
    /// A server that needs locking reads is read without locks.
    PlainRead,
    /// The position beside a consistent snapshot is the binlog's end, not the snapshot's own.
    PositionBesideSnapshot,
    /// HW is gtid_executed, read after the SELECT.
    HwIsGtidSet,
    /// HW is read before the SELECT.
    HwBeforeSelect,
    /// The range is marked only after LW (and D) were read.
    MarkAfterLw,
    /// A second chunk is read in the read view of the first.
    OneReadView,
    /// S0 is both columns of one status row: the set for D, the position for the dump.
    StartFromBothColumns,
    /// (max, inf) is Done without a chunk.
    AboveMaxIsLive,
    /// A key-changing update is judged by its old key alone.
    OldKeyOnly,
    /// A key-changing update is judged by its new key alone.
    NewKeyOnly,
    /// A chunk with fewer rows than asked for covers only up to its last row, and the gap is nobody's.
    ShortChunkEndsAtLastRow,
    /// Bounds and changes are compared with their key's spelling.
    SpellingCounts,
    /// An update that changes a key's spelling alone is an update of one row.
    SpellingIsNoChange,
    /// After a lost load the target resumes with the ranges of the lost epoch.
    ReplayWithNewRanges,
    /// After a lost load the target's later loads are committed.
    CommitAfterLost,
    /// A restart takes a load whose transaction is forgotten for lost without asking the data.
    ForgottenIsLost,
    /// A restart takes a load whose transaction is forgotten for committed.
    ForgottenIsDone,
    /// A table's adding is lost along with the epoch of its first load.
    AddingNotDurable,
    /// Reading chunks outlive a failover.
    ChunksOutliveFailover,
    /// The record is marked committed (and the next one written) while its commits are on their way.
    MarkBeforeCommits,
    /// Loads are committed as soon as they are precommitted.
    CommitBeforeRecord,
    /// A new start keeps the era.
    EraStays,
    /// A new start reads the state before it raises the era.
    ReadBeforeEra,
    /// A record is written whatever the stored era.
    NoEraCheck,
    /// A restart goes on where the stream stood, although a target stands before that.
    RestartAtStream,
    /// A target that is ahead of the stream does not drop what it has.
    AheadIsForgotten,
    /// A load that is cut inside a transaction ends before it.
    PartialIsForgotten,
}
