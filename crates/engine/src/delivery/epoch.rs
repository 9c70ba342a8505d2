//! The order of one epoch's steps, and of two epochs beside each other.

use std::collections::BTreeMap;

use super::{
    CommitPermit, Coordinate, EpochRecord, LoadEnd, LoadId, LoadRecord, TableMode, TargetChange, TargetNo, TargetState,
    XaChange,
};
use crate::merge::{Broken, Rules};

/// A load whose bytes are fixed and which is about to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The target's mode.
    pub mode: TableMode,
    /// First and last sequence number.
    pub seq: (i64, i64),
    /// Rows in the body.
    pub rows: u64,
    /// Where the target stands after it.
    pub end: LoadEnd,
    /// See [`LoadRecord::more`].
    pub more: bool,
}

/// What else an epoch's record keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    /// See [`EpochRecord::output_bytes`].
    pub output_bytes: Option<u64>,
    /// See [`EpochRecord::xa`].
    pub xa: XaChange,
}

#[derive(Debug)]
struct Load {
    sealed: Sealed,
    label: String,
    /// Transaction id and the caller's clock, once PRECOMMITTED.
    precommitted: Option<(u64, u64)>,
    committed: bool,
}

#[derive(Debug)]
enum Phase {
    /// Waits for its loads.
    Uploading,
    /// Its record is being written.
    Writing,
    /// The record is durable.
    Committing(CommitPermit),
    /// Everything is committed; the mark is being written.
    Marking,
}

#[derive(Debug)]
struct Closed {
    epoch: u64,
    previous: Coordinate,
    next: Coordinate,
    targets: Vec<TargetChange>,
    extra: Extra,
    phase: Phase,
}

/// Milliseconds from the first PRECOMMITTED load of an epoch to its commit: well below Doris' hour.
const PRECOMMIT_LIMIT: u64 = 1_800_000;
/// From this age on it is warned of.
const PRECOMMIT_ALARM: u64 = 600_000;

/// How old the oldest PRECOMMITTED load is that is not committed. Doris aborts it after an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "each has its consequence")]
pub enum PrecommitAge {
    /// Young, or there is none.
    Fine,
    /// Something keeps the epoch from its commit: worth a warning.
    Old {
        /// Its age in milliseconds.
        ms: u64,
    },
    /// The epoch is given up, to be uploaded again from the last durable record, while all of it can still be aborted.
    TooOld,
}

/// What the driver has to do next.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// No epoch is closed.
    Idle,
    /// Loads of the closed epoch are still on their way.
    Wait,
    /// Make this record durable, then call [`Delivery::recorded`] with the permit.
    Write(Box<EpochRecord>),
    /// Commit these (transaction id each), all together; call [`Delivery::committed`] for each. They are the first
    /// uncommitted load of every target: loads of one target are committed in order.
    Commit(Vec<(LoadId, u64)>),
    /// Mark the record of this epoch committed, then call [`Delivery::marked`].
    Mark(u64),
}

/// The epoch that fills and the one that is being made durable.
#[derive(Debug)]
pub struct Delivery {
    era: u32,
    filling: u64,
    closed: Option<Closed>,
    loads: BTreeMap<LoadId, Load>,
    rules: Rules,
}

impl Delivery {
    /// Begins with epoch `first` in era `era`.
    #[must_use]
    pub const fn new(era: u32, first: u64) -> Self {
        Self { era, filling: first, closed: None, loads: BTreeMap::new(), rules: Rules::NONE_BROKEN }
    }

    /// The same under other rules.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn with_rules(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// The epoch that is being filled.
    #[must_use]
    pub const fn filling(&self) -> u64 {
        self.filling
    }

    /// The number of the next load of a target in the filling epoch; `None` when 65,536 are there already.
    #[must_use]
    pub fn next_load(&self, target: TargetNo) -> Option<LoadId> {
        let of = |part| LoadId { epoch: self.filling, target, part };
        match self.loads.range(of(0)..=of(u16::MAX)).next_back() {
            None => Some(of(0)),
            Some((last, _)) => last.part.checked_add(1).map(of),
        }
    }

    /// Adds a sealed load under the id that [`Delivery::next_load`] gave.
    pub fn seal(&mut self, id: LoadId, label: String, sealed: Sealed) {
        self.loads.insert(id, Load { sealed, label, precommitted: None, committed: false });
    }

    /// Whether a load is (still) part of an epoch.
    #[must_use]
    pub fn has(&self, id: LoadId) -> bool {
        self.loads.contains_key(&id)
    }

    /// The label of a load.
    #[must_use]
    pub fn label(&self, id: LoadId) -> Option<&str> {
        self.loads.get(&id).map(|load| load.label.as_str())
    }

    /// The labels of an epoch's loads.
    pub fn labels(&self, epoch: u64) -> impl Iterator<Item = &str> {
        self.of_closed(epoch).map(|(_, load)| load.label.as_str())
    }

    /// Takes a target out of both epochs: the others go on without it. Its durable state must say before that it is left
    /// out, as from now on no record speaks of it. Gives the transactions that are PRECOMMITTED and not committed, which are
    /// to be aborted, and the target's state before the closed epoch, if that changes it.
    pub fn drop_target(&mut self, target: TargetNo) -> (Vec<u64>, Option<TargetState>) {
        let mut pending = Vec::new();
        self.loads.retain(|id, load| {
            let ours = id.target == target;
            if ours && !load.committed {
                pending.extend(load.precommitted.map(|(txn, _)| txn));
            }
            !ours
        });
        let mut before = None;
        if let Some(closed) = &mut self.closed {
            let previous = &closed.previous;
            closed.targets.retain(|change| {
                let ours = change.target == target;
                if ours {
                    let place = change.previous.ahead.clone().unwrap_or_else(|| previous.clone());
                    before = Some(TargetState { ahead: Some(place), ..change.previous.clone() });
                }
                !ours
            });
        }
        (pending, before)
    }

    /// A load is PRECOMMITTED under transaction `txn` at `now` (any clock that only grows).
    pub fn precommitted(&mut self, id: LoadId, txn: u64, now: u64) {
        if let Some(load) = self.loads.get_mut(&id) {
            load.precommitted = Some((txn, now));
        }
    }

    /// When the oldest load that is PRECOMMITTED and not committed became so.
    #[must_use]
    pub fn oldest_precommit(&self) -> Option<u64> {
        self.loads.values().filter(|l| !l.committed).filter_map(|l| l.precommitted.map(|(_, at)| at)).min()
    }

    /// The age of the oldest load that is PRECOMMITTED and not committed, at `now` of the same clock.
    #[must_use]
    pub fn precommit_age(&self, now: u64) -> PrecommitAge {
        let ms = self.oldest_precommit().map_or(0, |at| now.saturating_sub(at));
        match ms {
            PRECOMMIT_LIMIT.. => PrecommitAge::TooOld,
            PRECOMMIT_ALARM.. => PrecommitAge::Old { ms },
            _ => PrecommitAge::Fine,
        }
    }

    /// Whether the filling epoch may be closed: no other one is on its way.
    #[must_use]
    pub const fn may_close(&self) -> bool {
        self.closed.is_none()
    }

    /// Whether the filling epoch has loads.
    #[must_use]
    pub fn has_loads(&self) -> bool {
        self.loads.keys().any(|id| id.epoch == self.filling)
    }

    /// Closes the filling epoch at a transaction boundary; the next one fills from now on. `false` (and nothing
    /// happens) while another one is on its way.
    pub fn close(&mut self, previous: Coordinate, next: Coordinate, targets: Vec<TargetChange>, extra: Extra) -> bool {
        if !self.may_close() {
            return false;
        }
        let epoch = self.filling;
        self.filling = epoch.saturating_add(1);
        self.closed = Some(Closed { epoch, previous, next, targets, extra, phase: Phase::Uploading });
        true
    }

    fn of_closed(&self, epoch: u64) -> impl Iterator<Item = (&LoadId, &Load)> {
        self.loads.iter().filter(move |(id, _)| id.epoch == epoch)
    }

    /// What to do next. Each of `Write` and `Mark` is handed out once.
    pub fn step(&mut self) -> Step {
        let Some(closed) = &self.closed else { return Step::Idle };
        let epoch = closed.epoch;
        match &closed.phase {
            Phase::Uploading => {
                let mut loads = Vec::new();
                for (id, load) in self.of_closed(epoch) {
                    let Some((txn, _)) = load.precommitted else { return Step::Wait };
                    loads.push(LoadRecord {
                        id: *id,
                        label: load.label.clone(),
                        txn,
                        seq: load.sealed.seq,
                        rows: load.sealed.rows,
                        mode: load.sealed.mode,
                        end: load.sealed.end.clone(),
                        more: load.sealed.more,
                    });
                }
                let record = EpochRecord {
                    epoch,
                    era: self.era,
                    committed: false,
                    previous: closed.previous.clone(),
                    next: closed.next.clone(),
                    targets: closed.targets.clone(),
                    loads,
                    output_bytes: closed.extra.output_bytes,
                    xa: closed.extra.xa.clone(),
                };
                self.enter(Phase::Writing);
                Step::Write(Box::new(record))
            }
            Phase::Writing | Phase::Marking => Step::Wait,
            Phase::Committing(permit) => {
                let allowed = permit.epoch() == epoch;
                let in_order = self.rules.hold(Broken::CommitInOrder);
                let mut next: BTreeMap<(TargetNo, u16), (LoadId, u64)> = BTreeMap::new();
                for (id, load) in self.of_closed(epoch).filter(|(_, l)| !l.committed) {
                    if let Some((txn, _)) = load.precommitted {
                        let slot = if in_order { 0 } else { id.part };
                        next.entry((id.target, slot)).or_insert((*id, txn));
                    }
                }
                if !allowed {
                    return Step::Wait;
                }
                if next.is_empty() {
                    self.enter(Phase::Marking);
                    return Step::Mark(epoch);
                }
                Step::Commit(next.into_values().collect())
            }
        }
    }

    fn enter(&mut self, phase: Phase) {
        if let Some(closed) = &mut self.closed {
            closed.phase = phase;
        }
    }

    /// Whether no epoch is on its way.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.closed.is_none()
    }

    /// The permit under which the closed epoch's loads may be committed.
    #[must_use]
    pub fn permit(&self) -> Option<&CommitPermit> {
        match &self.closed.as_ref()?.phase {
            Phase::Committing(permit) => Some(permit),
            _ => None,
        }
    }

    /// The record is durable.
    pub fn recorded(&mut self, permit: CommitPermit) {
        self.enter(Phase::Committing(permit));
    }

    /// A load is committed (or visible).
    pub fn committed(&mut self, id: LoadId) {
        if let Some(load) = self.loads.get_mut(&id) {
            load.committed = true;
        }
    }

    /// The record is marked committed: the epoch is over.
    pub fn marked(&mut self) {
        if let Some(closed) = self.closed.take() {
            self.loads.retain(|id, _| id.epoch != closed.epoch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed() -> Sealed {
        let end = LoadEnd { coordinate: Coordinate::default(), done: Vec::new() };
        Sealed { mode: TableMode::Append, seq: (1, 2), rows: 2, end, more: false }
    }

    fn add(d: &mut Delivery, target: u32) -> LoadId {
        let id = d.next_load(TargetNo(target)).unwrap();
        d.seal(id, format!("label-{}-{}-{}", id.epoch, target, id.part), sealed());
        id
    }

    fn close(d: &mut Delivery) -> bool {
        d.close(Coordinate::default(), Coordinate::default(), Vec::new(), Extra::default())
    }

    #[test]
    fn nothing_is_written_before_every_load_is_precommitted_and_nothing_committed_before_the_record() {
        let mut d = Delivery::new(1, 7);
        let (a0, a1, b0) = (add(&mut d, 1), add(&mut d, 1), add(&mut d, 2));
        assert_eq!((a0.part, a1.part, b0.part), (0, 1, 0));
        assert!(close(&mut d));
        d.precommitted(a0, 10, 0);
        d.precommitted(b0, 11, 0);
        assert_eq!(d.step(), Step::Wait);
        d.precommitted(a1, 12, 0);
        let Step::Write(record) = d.step() else { panic!("no record") };
        assert_eq!(record.loads.iter().map(|l| l.txn).collect::<Vec<_>>(), [10, 12, 11]);
        assert_eq!(d.step(), Step::Wait, "the record is on its way");
        d.recorded(CommitPermit::issue(7));
        assert_eq!(d.step(), Step::Commit(vec![(a0, 10), (b0, 11)]), "loads of one target go in order");
        d.committed(b0);
        assert_eq!(d.step(), Step::Commit(vec![(a0, 10)]));
        d.committed(a0);
        assert_eq!(d.step(), Step::Commit(vec![(a1, 12)]));
        d.committed(a1);
        assert_eq!(d.step(), Step::Mark(7));
        assert_eq!(d.step(), Step::Wait);
        d.marked();
        assert_eq!(d.step(), Step::Idle);
    }

    #[test]
    fn the_next_epoch_uploads_meanwhile_but_cannot_close() {
        let mut d = Delivery::new(1, 1);
        let a = add(&mut d, 1);
        assert!(close(&mut d));
        let b = add(&mut d, 1);
        assert_eq!((b.epoch, b.part), (2, 0));
        d.precommitted(b, 20, 5);
        assert!(!close(&mut d), "one epoch at a time");
        d.precommitted(a, 10, 9);
        assert_eq!(d.oldest_precommit(), Some(5));
        assert!(matches!(d.step(), Step::Write(_)));
        d.recorded(CommitPermit::issue(1));
        d.committed(a);
        assert_eq!(d.step(), Step::Mark(1));
        d.marked();
        assert!(close(&mut d));
        assert!(matches!(d.step(), Step::Write(r) if r.loads.len() == 1 && r.epoch == 2));
    }

    #[test]
    fn a_permit_of_another_epoch_commits_nothing() {
        let mut d = Delivery::new(1, 4);
        let a = add(&mut d, 1);
        assert!(close(&mut d));
        d.precommitted(a, 1, 0);
        assert!(matches!(d.step(), Step::Write(_)));
        d.recorded(CommitPermit::issue(3));
        assert_eq!(d.step(), Step::Wait);
    }

    #[test]
    fn a_target_that_is_taken_out_keeps_nobody_waiting() {
        let mut d = Delivery::new(1, 7);
        let (bad, good) = (add(&mut d, 1), add(&mut d, 2));
        let later = add(&mut d, 1);
        let change = |n| TargetChange {
            target: TargetNo(n),
            previous: TargetState::default(),
            next: TargetState { may_hold_more: true, ..TargetState::default() },
        };
        d.close(Coordinate::default(), Coordinate::default(), vec![change(1), change(2)], Extra::default());
        let next_epoch = add(&mut d, 1);
        d.precommitted(bad, 10, 0);
        d.precommitted(good, 11, 0);
        assert_eq!(d.step(), Step::Wait, "{later:?} is on its way");
        let (pending, before) = d.drop_target(TargetNo(1));
        assert_eq!(pending, [10]);
        assert_eq!(before, Some(TargetState { ahead: Some(Coordinate::default()), ..TargetState::default() }));
        assert!(!d.has(bad) && !d.has(later) && !d.has(next_epoch) && d.has(good));
        let Step::Write(record) = d.step() else { panic!("no record") };
        assert_eq!(record.targets, [change(2)]);
        assert_eq!(record.loads.iter().map(|l| l.txn).collect::<Vec<_>>(), [11]);
        d.recorded(CommitPermit::issue(7));
        assert_eq!(d.step(), Step::Commit(vec![(good, 11)]));
        // One whose commit is refused: nothing of it is waited for either.
        assert_eq!(
            d.drop_target(TargetNo(2)),
            (vec![11], Some(TargetState { ahead: Some(Coordinate::default()), ..TargetState::default() }))
        );
        assert_eq!(d.step(), Step::Mark(7));
    }
}
