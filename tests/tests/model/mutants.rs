//! Broken rules. The model must notice each; `docs/exactly-once.md` tells why.
//!
//! The rules that the first model of the algorithm found necessary, and the mutants that stand for them here:
//!
//! | rule | mutant |
//! |---|---|
//! | LW covers D | `lw_covers_d`, `lw_covers_d_log_status`, `lw_covers_d_snapshot` |
//! | LW is no position beside a plain SELECT | `lw_is_position` |
//! | LW is no set that is updated at flush; such a server, and a position, need locking reads | `gtid_set_at_flush`, `plain_read_5_6`; `plain_read_at_end` |
//! | LW of a snapshot is its own position | `end_beside_snapshot` |
//! | HW is no set; HW is read after the SELECT | `hw_is_gtid_set`; `hw_before_select` |
//! | the mark comes before LW | `mark_after_lw` |
//! | held changes normalize; entry at HW | `normalize`; `entry_at_hw` |
//! | what a chunk covers | `cover_last_row`, `short_chunk` |
//! | no cut under a running SELECT; one read view per chunk | `cut_unread_only`; `one_read_view` |
//! | (max, inf) is a chunk | `above_max_is_live` |
//! | S0 and the dump's start; the start fence | `start_from_both_columns`; `start_fence` |
//! | both keys of an UPDATE are judged | `old_key_only`, `new_key_only` |
//! | a change in LW forgets older ones | `forget_older`, `forget_older_smaller_lw` |
//! | a checkpoint holds Done ranges alone | `only_done_durable` |
//! | replay begins with the old ranges | `replay_with_new_ranges` |
//! | no chunk while a table is ahead | `behind_and_delivered` |
//! | loads of one table in order | `commit_in_order`, `commit_after_lost` |
//! | emit all in a replay, in a resync; adding is durable | `keep_emitting_replay`, `keep_emitting_resync`; `adding_not_durable` |
//! | Reading chunks end at a failover | `chunks_outlive_failover` |
//!
//! Without a mutant yet: the five rules of XA (rows at COMMIT, undecided at S0 or at an adding, survival of a restart, the
//! watermarks of `log_status` and of a snapshot), as the server here has no XA. Not noticed alone, as then: `already_delivered`
//! outside of Done ranges, chunks of a table that is ahead, and held changes emitted again behind their chunk.

use millstream_engine::delivery::TableMode::{Append, Upsert};
use millstream_engine::merge::{Broken, Rules};

use crate::flaws::Flaw;
use crate::server::{Fence, TABLES};
use crate::world::{Config, TargetConfig};

/// One broken rule with the settings under which its violation is not too rare.
pub(crate) struct Mutant {
    pub name: &'static str,
    pub tune: fn(&mut Config),
    /// The first seed that is tried, and how many. A rare violation begins near a seed that shows it.
    pub first: u64,
    pub budget: u64,
}

fn rule(c: &mut Config, broken: Broken) {
    c.rules = Rules::without(broken);
}

fn flaw(c: &mut Config, flaw: Flaw) {
    c.flaw = flaw;
}

/// No crash, no failover.
fn calm(c: &mut Config) {
    c.crashes = 0;
    c.failovers = 0;
}

fn all(c: &mut Config, mode: millstream_engine::delivery::TableMode) {
    c.targets = (0..TABLES).map(|source| TargetConfig { source, mode }).collect();
}

/// The stream, and the last stage of the commits, lag behind.
fn slow_stream(c: &mut Config) {
    c.late_lw = false;
    c.speed = [8, 1, 8, 1];
    c.server.speed = [3, 8, 6, 6, 2];
    c.server.txns = 15;
}

/// Crashes that lose and forget loads.
fn stormy(c: &mut Config) {
    c.crashes = 3;
    c.lose = 60;
    c.forget = 60;
}

/// Targets of one table end up at different places, while commits are slow.
pub(crate) fn torn_apart(c: &mut Config) {
    c.crashes = 3;
    c.lose = 50;
    c.forget = 0;
    c.failovers = 0;
    c.resync = false;
    c.server.speed = [6, 12, 12, 1, 1];
    c.server.txns = 15;
    c.speed = [5, 6, 8, 10];
    c.chunk_rows = 1;
}

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "lw_covers_d",
        tune: |c| {
            calm(c);
            rule(c, Broken::LwCoversD)
        },
        first: 1,
        budget: 2000,
    },
    Mutant {
        name: "lw_is_position",
        tune: |c| {
            calm(c);
            flaw(c, Flaw::LwIsPosition)
        },
        first: 1,
        budget: 2000,
    },
    Mutant {
        name: "gtid_set_at_flush",
        tune: |c| {
            calm(c);
            c.server.listed_at_flush = true
        },
        first: 1,
        budget: 2000,
    },
    Mutant {
        name: "plain_read_5_6",
        tune: |c| {
            calm(c);
            c.serve(Fence::ExecutedLocking);
            flaw(c, Flaw::PlainRead)
        },
        first: 1,
        budget: 2000,
    },
    Mutant {
        name: "plain_read_at_end",
        tune: |c| {
            calm(c);
            c.serve(Fence::EndLocking);
            flaw(c, Flaw::PlainRead)
        },
        first: 1,
        budget: 2000,
    },
    Mutant {
        name: "end_beside_snapshot",
        tune: |c| {
            calm(c);
            c.serve(Fence::Snapshot);
            flaw(c, Flaw::PositionBesideSnapshot)
        },
        first: 1,
        budget: 2000,
    },
    Mutant {
        name: "lw_covers_d_log_status",
        tune: |c| {
            calm(c);
            c.serve(Fence::LogStatus);
            rule(c, Broken::LwCoversD)
        },
        first: 1,
        budget: 2000,
    },
    Mutant {
        name: "lw_covers_d_snapshot",
        tune: |c| {
            calm(c);
            c.serve(Fence::Snapshot);
            rule(c, Broken::LwCoversD)
        },
        first: 1,
        budget: 2000,
    },
    Mutant {
        name: "hw_is_gtid_set",
        tune: |c| {
            calm(c);
            flaw(c, Flaw::HwIsGtidSet)
        },
        first: 1,
        budget: 2000,
    },
    Mutant {
        name: "hw_before_select",
        tune: |c| {
            calm(c);
            flaw(c, Flaw::HwBeforeSelect)
        },
        first: 1,
        budget: 2000,
    },
    Mutant {
        name: "mark_after_lw",
        tune: |c| {
            calm(c);
            rule(c, Broken::LwCoversD);
            flaw(c, Flaw::MarkAfterLw)
        },
        first: 1,
        budget: 2000,
    },
    Mutant {
        name: "normalize",
        tune: |c| {
            calm(c);
            rule(c, Broken::Normalize)
        },
        first: 1,
        budget: 2000,
    },
    Mutant {
        name: "entry_at_hw",
        tune: |c| {
            calm(c);
            rule(c, Broken::EntryAtHw)
        },
        first: 1,
        budget: 2000,
    },
    Mutant {
        name: "cover_last_row",
        tune: |c| {
            calm(c);
            rule(c, Broken::CoverLastRow)
        },
        first: 1,
        budget: 2000,
    },
    Mutant {
        name: "short_chunk",
        tune: |c| {
            calm(c);
            flaw(c, Flaw::ShortChunkEndsAtLastRow)
        },
        first: 1,
        budget: 2000,
    },
    Mutant {
        name: "cut_unread_only",
        tune: |c| {
            calm(c);
            rule(c, Broken::CutUnreadOnly)
        },
        first: 1,
        budget: 2000,
    },
    Mutant {
        name: "one_read_view",
        tune: |c| {
            calm(c);
            flaw(c, Flaw::OneReadView)
        },
        first: 1,
        budget: 2000,
    },
    Mutant {
        name: "above_max_is_live",
        tune: |c| {
            calm(c);
            c.add_later = true;
            flaw(c, Flaw::AboveMaxIsLive)
        },
        first: 1,
        budget: 2000,
    },
    Mutant {
        name: "start_from_both_columns",
        tune: |c| {
            calm(c);
            flaw(c, Flaw::StartFromBothColumns)
        },
        first: 1,
        budget: 2000,
    },
    Mutant {
        name: "old_key_only",
        tune: |c| {
            calm(c);
            flaw(c, Flaw::OldKeyOnly)
        },
        first: 1,
        budget: 2000,
    },
    Mutant {
        name: "new_key_only",
        tune: |c| {
            calm(c);
            flaw(c, Flaw::NewKeyOnly)
        },
        first: 1,
        budget: 2000,
    },
    Mutant {
        name: "spelling_counts",
        tune: |c| {
            calm(c);
            c.server.spellings = true;
            flaw(c, Flaw::SpellingCounts)
        },
        first: 1,
        budget: 2000,
    },
    Mutant {
        name: "spelling_is_no_change",
        tune: |c| {
            calm(c);
            c.server.spellings = true;
            flaw(c, Flaw::SpellingIsNoChange)
        },
        first: 1,
        budget: 2000,
    },
    Mutant {
        name: "forget_older",
        tune: |c| {
            calm(c);
            c.server.order = false;
            c.smaller_lw = false;
            slow_stream(c);
            rule(c, Broken::ForgetOlder)
        },
        first: 1,
        budget: 5000,
    },
    Mutant {
        name: "forget_older_smaller_lw",
        tune: |c| {
            calm(c);
            c.server.order = true;
            c.smaller_lw = true;
            slow_stream(c);
            rule(c, Broken::ForgetOlder)
        },
        first: 1,
        budget: 5000,
    },
    Mutant {
        name: "start_fence",
        tune: |c| {
            calm(c);
            c.server.order = false;
            c.add_later = false;
            c.warm_up = 60;
            slow_stream(c);
            rule(c, Broken::StartFence)
        },
        first: 1,
        budget: 20000,
    },
    Mutant {
        name: "only_done_durable",
        tune: |c| {
            c.crashes = 3;
            rule(c, Broken::OnlyDoneDurable)
        },
        first: 1,
        budget: 5000,
    },
    Mutant {
        name: "replay_with_new_ranges",
        tune: |c| {
            stormy(c);
            flaw(c, Flaw::ReplayWithNewRanges)
        },
        first: 1,
        budget: 5000,
    },
    Mutant {
        name: "behind_and_delivered",
        tune: |c| {
            torn_apart(c);
            c.rules = Rules::without(Broken::BehindTable).and_without(Broken::DeliveredInDoneOnly);
        },
        first: 1,
        budget: 20000,
    },
    Mutant {
        name: "commit_in_order",
        tune: |c| {
            stormy(c);
            all(c, Append);
            c.cut_load = 20;
            rule(c, Broken::CommitInOrder)
        },
        first: 1,
        budget: 5000,
    },
    Mutant {
        name: "keep_emitting_replay",
        tune: |c| {
            stormy(c);
            all(c, Upsert);
            c.resync = false;
            rule(c, Broken::KeepEmitting)
        },
        first: 1,
        budget: 20000,
    },
    Mutant {
        name: "keep_emitting_resync",
        tune: |c| {
            calm(c);
            all(c, Upsert);
            c.resync = true;
            rule(c, Broken::KeepEmitting)
        },
        first: 1,
        budget: 5000,
    },
    Mutant {
        name: "adding_not_durable",
        tune: |c| {
            stormy(c);
            all(c, Upsert);
            c.resync = false;
            flaw(c, Flaw::AddingNotDurable)
        },
        first: 1,
        budget: 20000,
    },
    Mutant {
        name: "chunks_outlive_failover",
        tune: |c| {
            c.crashes = 0;
            c.failovers = 2;
            flaw(c, Flaw::ChunksOutliveFailover)
        },
        first: 1,
        budget: 5000,
    },
    Mutant {
        name: "mark_before_commits",
        tune: |c| {
            c.crashes = 3;
            flaw(c, Flaw::MarkBeforeCommits)
        },
        first: 1,
        budget: 5000,
    },
    Mutant {
        name: "commit_before_record",
        tune: |c| {
            c.crashes = 3;
            flaw(c, Flaw::CommitBeforeRecord)
        },
        first: 1,
        budget: 5000,
    },
    Mutant {
        name: "commit_after_lost",
        tune: |c| {
            stormy(c);
            all(c, Append);
            c.cut_load = 20;
            flaw(c, Flaw::CommitAfterLost)
        },
        first: 1,
        budget: 5000,
    },
    Mutant {
        name: "forgotten_is_lost",
        tune: |c| {
            stormy(c);
            flaw(c, Flaw::ForgottenIsLost)
        },
        first: 1,
        budget: 5000,
    },
    Mutant {
        name: "forgotten_is_done",
        tune: |c| {
            stormy(c);
            flaw(c, Flaw::ForgottenIsDone)
        },
        first: 1,
        budget: 5000,
    },
    Mutant {
        name: "era_stays",
        tune: |c| {
            c.crashes = 3;
            all(c, Upsert);
            flaw(c, Flaw::EraStays)
        },
        first: 1,
        budget: 5000,
    },
    Mutant {
        name: "read_before_era",
        tune: |c| {
            c.crashes = 3;
            c.zombies = true;
            flaw(c, Flaw::ReadBeforeEra)
        },
        first: 1,
        budget: 20000,
    },
    Mutant {
        name: "no_era_check",
        tune: |c| {
            stormy(c);
            c.zombies = true;
            flaw(c, Flaw::NoEraCheck)
        },
        first: 1,
        budget: 5000,
    },
    Mutant {
        name: "restart_at_stream",
        tune: |c| {
            stormy(c);
            flaw(c, Flaw::RestartAtStream)
        },
        first: 1,
        budget: 5000,
    },
    Mutant {
        name: "ahead_is_forgotten",
        tune: |c| {
            stormy(c);
            flaw(c, Flaw::AheadIsForgotten)
        },
        first: 1,
        budget: 5000,
    },
    Mutant {
        name: "partial_is_forgotten",
        tune: |c| {
            stormy(c);
            c.cut_load = 20;
            flaw(c, Flaw::PartialIsForgotten)
        },
        first: 1,
        budget: 5000,
    },
    Mutant {
        name: "between_transactions",
        tune: |c| {
            calm(c);
            c.cut_connection = 10;
            rule(c, Broken::BetweenTransactions)
        },
        first: 1,
        budget: 5000,
    },
];
