//! What a restart does with the last durable record: a pure function of what Doris and the data say.

use std::collections::BTreeMap;

use millstream_binlog::GtidSet;

use super::{Coordinate, EpochRecord, LoadRecord, TableMode, TargetNo, TargetState};

/// What is known of a transaction, by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "every state of Doris' state machine must be decided")]
pub enum TxnFact {
    /// Its rows can be read.
    Visible,
    /// It will be visible.
    Committed,
    /// It waits for commit or abort.
    PreCommitted,
    /// Its load never finished.
    Prepare,
    /// Its rows are dropped.
    Aborted,
    /// Nothing is known of it any more: purged, or never begun.
    Gone,
}

/// What became of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "every fate must be decided")]
pub enum LoadFate {
    /// Its rows are (or will be) in the table.
    Done,
    /// It can be committed now.
    Commit,
    /// Ask the table whether a row within the load's sequence range exists.
    AskData,
    /// Its rows are not in the table, unless `maybe`.
    Lost {
        /// It may have been committed and then forgotten.
        maybe: bool,
    },
}

/// The fate of a load in a table of `mode`. `rows_seen`: the answer to [`LoadFate::AskData`].
#[must_use]
pub const fn fate(mode: TableMode, fact: TxnFact, rows_seen: Option<bool>) -> LoadFate {
    match (fact, mode, rows_seen) {
        (TxnFact::Visible | TxnFact::Committed, _, _) => LoadFate::Done,
        (TxnFact::PreCommitted, _, _) => LoadFate::Commit,
        (TxnFact::Prepare, _, _) => LoadFate::Lost { maybe: false },
        (TxnFact::Aborted | TxnFact::Gone, TableMode::Append, None) => LoadFate::AskData,
        (TxnFact::Aborted | TxnFact::Gone, TableMode::Append, Some(true)) => LoadFate::Done,
        (TxnFact::Aborted | TxnFact::Gone, TableMode::Append, Some(false))
        | (TxnFact::Aborted, TableMode::Upsert, _) => LoadFate::Lost { maybe: false },
        (TxnFact::Gone, TableMode::Upsert, _) => LoadFate::Lost { maybe: true },
    }
}

/// What to do with one load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "every action must be carried out")]
pub enum LoadAction {
    /// Nothing.
    Keep,
    /// Commit it by id.
    Commit,
    /// Abort it by id: an earlier load of its table is lost.
    Abort,
}

/// One target after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetPlan {
    /// The target.
    pub target: TargetNo,
    /// Its loads in order, each with what to do. Commits come before the state is made durable.
    pub actions: Vec<(u64, LoadAction)>,
    /// Where it resumes, always with its own place.
    pub resume: TargetState,
}

/// What a restart does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryPlan {
    /// Every target of the record.
    pub targets: Vec<TargetPlan>,
}

/// A load is visible although an earlier load of the same append table is lost: rows would come twice or never.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inconsistent {
    /// The table.
    pub target: TargetNo,
    /// The label that is lost.
    pub lost: String,
    /// The label that is visible.
    pub visible: String,
}

/// The plan for `record`, given the fate of each of its loads (by transaction id).
///
/// # Errors
/// [`Inconsistent`], which no correct Doris and no correct state can cause.
pub fn plan(record: &EpochRecord, fates: &BTreeMap<u64, LoadFate>) -> Result<RecoveryPlan, Inconsistent> {
    let mut targets = Vec::with_capacity(record.targets.len());
    for change in &record.targets {
        let loads: Vec<&LoadRecord> = record.loads.iter().filter(|l| l.id.target == change.target).collect();
        targets.push(plan_target(record, change.target, &change.previous, &change.next, &loads, fates)?);
    }
    Ok(RecoveryPlan { targets })
}

fn plan_target(
    record: &EpochRecord,
    target: TargetNo,
    previous: &TargetState,
    next: &TargetState,
    loads: &[&LoadRecord],
    fates: &BTreeMap<u64, LoadFate>,
) -> Result<TargetPlan, Inconsistent> {
    let fate_of = |l: &LoadRecord| fates.get(&l.txn).copied().unwrap_or(LoadFate::Lost { maybe: true });
    let lost = loads.iter().position(|l| matches!(fate_of(l), LoadFate::Lost { .. } | LoadFate::AskData));
    let mut may_hold_more = next.may_hold_more;
    let mut actions = Vec::with_capacity(loads.len());
    for (i, load) in loads.iter().enumerate() {
        let after_lost = lost.is_some_and(|lost| i > lost);
        let action = match (fate_of(load), after_lost) {
            (LoadFate::Done, false) | (LoadFate::Lost { maybe: false } | LoadFate::AskData, _) => LoadAction::Keep,
            (LoadFate::Commit, false) => LoadAction::Commit,
            (LoadFate::Commit, true) => LoadAction::Abort,
            (LoadFate::Lost { maybe: true }, _) => {
                may_hold_more = true;
                LoadAction::Keep
            }
            (LoadFate::Done, true) if load.mode == TableMode::Upsert => {
                may_hold_more = true;
                LoadAction::Keep
            }
            (LoadFate::Done, true) => {
                let lost = lost.and_then(|i| loads.get(i)).map_or_else(String::new, |l| l.label.clone());
                return Err(Inconsistent { target, lost, visible: load.label.clone() });
            }
        };
        actions.push((load.txn, action));
    }
    let resume = match lost {
        None => TargetState {
            ahead: Some(next.ahead.clone().unwrap_or_else(|| record.next.clone())),
            done: next.done.clone(),
            may_hold_more,
        },
        Some(0) => TargetState {
            ahead: Some(previous.ahead.clone().unwrap_or_else(|| record.previous.clone())),
            done: previous.done.clone(),
            may_hold_more: may_hold_more || previous.may_hold_more,
        },
        Some(i) => {
            let end = i.checked_sub(1).and_then(|i| loads.get(i)).map(|l| &l.end);
            TargetState {
                ahead: end.map(|e| e.coordinate.clone()),
                done: end.map_or_else(Vec::new, |e| e.done.clone()),
                may_hold_more: may_hold_more || previous.may_hold_more,
            }
        }
    };
    Ok(TargetPlan { target, actions, resume })
}

/// The place at which the one stream restarts: what every target has behind it.
#[must_use]
pub fn smallest<'a>(places: impl IntoIterator<Item = &'a Coordinate>) -> Option<GtidSet> {
    // Places of one stream are nested; the intersection is the smallest of them and is right even if they were not.
    places.into_iter().fold(None, |least: Option<GtidSet>, place| {
        Some(match least {
            None => place.gtids.clone(),
            Some(mut least) => {
                let mut beyond = least.clone();
                beyond.subtract(&place.gtids);
                least.subtract(&beyond);
                least
            }
        })
    })
}
