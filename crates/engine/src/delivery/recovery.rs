//! What a restart does with the last durable record: a pure function of what Doris and the data say.

use std::collections::BTreeMap;

use super::{Coordinate, EpochRecord, LoadRecord, Passed, TableMode, TargetNo, TargetState};

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

/// Whether a restart aborts a transaction that the last record does not commit: it is open, and a run of an earlier era began
/// it. (One that is done already has its rows from a record before the last; a finished one needs nothing.)
#[must_use]
pub const fn is_leftover(fact: TxnFact, earlier_era: bool, in_record: bool) -> bool {
    matches!(fact, TxnFact::Prepare | TxnFact::PreCommitted) && earlier_era && !in_record
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
    // Loads that were cut together are lost together.
    let lost =
        lost.map(|lost| (0..lost).rev().take_while(|i| loads.get(*i).is_some_and(|l| l.more)).last().unwrap_or(lost));
    let mut may_hold_more = next.may_hold_more;
    let mut actions = Vec::with_capacity(loads.len());
    for (i, load) in loads.iter().enumerate() {
        let after_lost = lost.is_some_and(|lost| i >= lost);
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
pub fn smallest<'a>(places: impl IntoIterator<Item = &'a Coordinate>) -> Option<Passed> {
    // Places of one stream are nested; the intersection is the smallest of them and is right even if they were not.
    places.into_iter().fold(None, |least: Option<Passed>, place| {
        Some(match least {
            None => place.passed.clone(),
            Some(mut least) => {
                least.intersect(&place.passed);
                least
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use millstream_binlog::GtidSet;

    use super::*;
    use crate::delivery::{LoadEnd, LoadId, TargetChange};
    use crate::merge::KeyRange;

    const FACTS: [TxnFact; 6] = [
        TxnFact::Visible,
        TxnFact::Committed,
        TxnFact::PreCommitted,
        TxnFact::Prepare,
        TxnFact::Aborted,
        TxnFact::Gone,
    ];
    const MODES: [TableMode; 2] = [TableMode::Append, TableMode::Upsert];

    fn place(n: u64) -> Coordinate {
        Coordinate::boundary(format!("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-{n}").parse::<GtidSet>().unwrap())
    }

    fn done(hi: u8) -> Vec<KeyRange> {
        vec![KeyRange { lo: None, hi: Some(vec![hi].into()) }]
    }

    /// An epoch from place 1 to 9 with loads that end at 3 and 6 and ranges that grow with them.
    fn record(mode: TableMode) -> EpochRecord {
        let load = |part: u16, end: u8| LoadRecord {
            id: LoadId { epoch: 1, target: TargetNo(1), part },
            label: format!("load {part}"),
            txn: u64::from(part),
            seq: (0, 0),
            rows: 1,
            mode,
            end: LoadEnd { coordinate: place(u64::from(end)), done: done(end) },
            more: false,
        };
        let state = |hi| TargetState { ahead: None, done: done(hi), may_hold_more: false };
        EpochRecord {
            epoch: 1,
            era: 1,
            committed: false,
            previous: place(1),
            next: place(9),
            targets: vec![TargetChange { target: TargetNo(1), previous: state(1), next: state(9) }],
            loads: vec![load(0, 3), load(1, 6)],
            output_bytes: None,
            xa: Default::default(),
        }
    }

    #[test]
    fn loads_that_were_cut_together_are_lost_together() {
        let mut record = record(TableMode::Upsert);
        record.loads[0].more = true;
        for (fates, actions, resumes_at, more) in [
            ([LoadFate::Commit, LoadFate::Lost { maybe: false }], [LoadAction::Abort, LoadAction::Keep], 1, false),
            ([LoadFate::Done, LoadFate::Lost { maybe: false }], [LoadAction::Keep, LoadAction::Keep], 1, true),
            ([LoadFate::Done, LoadFate::Commit], [LoadAction::Keep, LoadAction::Commit], 9, false),
        ] {
            let plan = plan(&record, &BTreeMap::from([(0, fates[0]), (1, fates[1])])).unwrap().targets.remove(0);
            assert_eq!(plan.actions.iter().map(|(_, a)| *a).collect::<Vec<_>>(), actions, "{fates:?}");
            let resume = TargetState {
                ahead: Some(place(resumes_at)),
                done: done(u8::try_from(resumes_at).unwrap()),
                may_hold_more: more,
            };
            assert_eq!(plan.resume, resume, "{fates:?}");
        }
    }

    fn planned(mode: TableMode, fates: [LoadFate; 2]) -> Result<TargetPlan, Inconsistent> {
        let plan = plan(&record(mode), &BTreeMap::from([(0, fates[0]), (1, fates[1])]))?;
        Ok(plan.targets.into_iter().next().unwrap())
    }

    fn fate_name(fate: LoadFate) -> &'static str {
        match fate {
            LoadFate::Done => "done",
            LoadFate::Commit => "commit",
            LoadFate::AskData => "ask the data",
            LoadFate::Lost { maybe: false } => "lost",
            LoadFate::Lost { maybe: true } => "maybe lost",
        }
    }

    fn action_name(action: LoadAction) -> &'static str {
        match action {
            LoadAction::Keep => "-",
            LoadAction::Commit => "commit",
            LoadAction::Abort => "abort",
        }
    }

    /// Both decisions over all their inputs, as the page prints them.
    fn tables() -> String {
        let mut text = "| transaction is | append | upsert |\n|---|---|---|\n".to_owned();
        for fact in FACTS {
            write!(text, "| {fact:?} |").unwrap();
            for mode in MODES {
                let cell = match fate(mode, fact, None) {
                    LoadFate::AskData => format!(
                        "ask the data: rows seen {}, none {}",
                        fate_name(fate(mode, fact, Some(true))),
                        fate_name(fate(mode, fact, Some(false)))
                    ),
                    fate => fate_name(fate).to_owned(),
                };
                write!(text, " {cell} |").unwrap();
            }
            text.push('\n');
        }
        text.push_str(
            "\n| mode | load 0 | load 1 | then load 0 | then load 1 | the target resumes at | sink may hold more |\n\
             |---|---|---|---|---|---|---|\n",
        );
        for mode in MODES {
            let mut fates = vec![LoadFate::Done, LoadFate::Commit, LoadFate::Lost { maybe: false }];
            if mode == TableMode::Upsert {
                fates.push(LoadFate::Lost { maybe: true });
            }
            for a in &fates {
                for b in &fates {
                    let names = format!("| {mode:?} | {} | {} |", fate_name(*a), fate_name(*b));
                    match planned(mode, [*a, *b]) {
                        Err(_) => writeln!(text, "{names} stop | stop | (Doris broke its word) | |").unwrap(),
                        Ok(plan) => {
                            let at = match plan.resume.ahead {
                                Some(at) if at == place(1) => "the previous state",
                                Some(at) if at == place(3) => "the end of load 0",
                                Some(at) if at == place(9) => "the next state",
                                other => panic!("{other:?}"),
                            };
                            let [(_, first), (_, second)] = plan.actions[..] else { panic!("two loads") };
                            let more = if plan.resume.may_hold_more { "yes" } else { "no" };
                            writeln!(
                                text,
                                "{names} {} | {} | {at} | {more} |",
                                action_name(first),
                                action_name(second)
                            )
                            .unwrap();
                        }
                    }
                }
            }
        }
        text
    }

    /// What becomes of a transaction, by the last durable record.
    fn restarts() -> String {
        let mut text =
            "| last durable record | the load | Visible | Committed | PreCommitted | Prepare | Aborted | Gone |\n\
             |---|---|---|---|---|---|---|---|\n"
                .to_owned();
        let mut line = |record: &str, load: &str, decide: &dyn Fn(TxnFact) -> String| {
            let cells: Vec<String> = FACTS.iter().map(|fact| decide(*fact)).collect();
            writeln!(text, "| {record} | {load} | {} |", cells.join(" | ")).unwrap();
        };
        let swept =
            |in_record| move |fact: TxnFact| if is_leftover(fact, true, in_record) { "abort" } else { "-" }.to_owned();
        line("none", "of an earlier run", &swept(false));
        line("marked committed", "in it", &|fact| match fact {
            // The mark says that every commit was answered.
            TxnFact::PreCommitted | TxnFact::Prepare => "cannot be".to_owned(),
            _ => "-".to_owned(),
        });
        line("marked committed", "of an earlier run, not in it", &swept(false));
        for mode in MODES {
            line("not marked", &format!("in it, {mode}"), &|fact| match fate(mode, fact, None) {
                LoadFate::AskData => "ask the data".to_owned(),
                fate => fate_name(fate).to_owned(),
            });
        }
        line("not marked", "in it, its table is dropped", &|fact| {
            // The target leaves the record, so its open transactions are leftovers like any other.
            let swept = if is_leftover(fact, true, false) { "abort, " } else { "" };
            format!("{swept}table left out")
        });
        line("not marked", "of an earlier run, not in it", &swept(false));
        line("any", "of this run", &|fact| if is_leftover(fact, false, false) { "abort" } else { "-" }.to_owned());
        text
    }

    #[test]
    fn the_page_shows_what_a_restart_does_by_the_last_record() {
        let page = include_str!("../../../../docs/exactly-once.md");
        let table = restarts();
        assert!(page.contains(&table), "docs/exactly-once.md must hold this table:\n{table}");
        assert!(!is_leftover(TxnFact::PreCommitted, true, true), "what the record commits is never aborted");
    }

    #[test]
    fn the_page_shows_what_a_restart_does() {
        let page = include_str!("../../../../docs/exactly-once.md");
        let tables = tables();
        assert!(page.contains(&tables), "docs/exactly-once.md must hold these tables:\n{tables}");
    }

    #[test]
    fn ranges_resume_with_the_place() {
        let lost = LoadFate::Lost { maybe: false };
        for (fates, at, hi) in [
            ([LoadFate::Done, LoadFate::Commit], 9, 9),
            ([LoadFate::Done, lost], 3, 3),
            ([lost, LoadFate::Commit], 1, 1),
        ] {
            let resume = planned(TableMode::Append, fates).unwrap().resume;
            assert_eq!((resume.ahead, resume.done), (Some(place(at)), done(hi)), "{fates:?}");
        }
    }

    #[test]
    fn a_load_nothing_is_known_of_counts_as_maybe_lost() {
        let plan = plan(&record(TableMode::Upsert), &BTreeMap::new()).unwrap();
        assert!(plan.targets.first().unwrap().resume.may_hold_more);
    }

    #[test]
    fn a_target_that_was_ahead_goes_back_to_its_own_place() {
        let mut record = record(TableMode::Append);
        record.targets.first_mut().unwrap().previous.ahead = Some(place(2));
        let fates = BTreeMap::from([(0, LoadFate::Lost { maybe: false }), (1, LoadFate::Commit)]);
        let plan = plan(&record, &fates).unwrap();
        let target = plan.targets.first().unwrap();
        assert_eq!(target.resume.ahead, Some(place(2)));
        assert_eq!(target.actions, [(0, LoadAction::Keep), (1, LoadAction::Abort)]);
    }
}
