//! A MySQL server as the fences see it: row locks, and a commit in stages that are each their own step.

use std::sync::Arc;

use millstream_binlog::{Gtid, GtidSet, Position, Tag, Tsid, Uuid};
use millstream_engine::delivery::{Passed, SourceKind, TxnId};

use crate::rng::Rng;

/// A row's content. It also tells in which of two [`spelling`]s the row's key is written.
pub(crate) type Val = u32;

/// `a` or `A`: the server takes both for one key, the sink for two.
pub(crate) const fn spelling(val: Val) -> usize {
    (val % 2) as usize
}

pub(crate) const TABLES: usize = 2;
/// Keys are 1 to KEYS.
pub(crate) const KEYS: usize = 7;
/// The rows of all tables by key.
pub(crate) type Rows = [[Option<Val>; KEYS + 1]; TABLES];

/// One row change: insert, delete, update, or an update that changes the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub table: usize,
    pub before: Option<(u8, Val)>,
    pub after: Option<(u8, Val)>,
}

impl Change {
    pub(crate) fn apply(&self, rows: &mut Rows) {
        if let Some((k, _)) = self.before {
            rows[self.table][k as usize] = None;
        }
        if let Some((k, v)) = self.after {
            rows[self.table][k as usize] = Some(v);
        }
    }

    /// Whether the row stays what it is to the sink: its key has the same bytes.
    pub(crate) fn keeps_key(&self) -> bool {
        matches!((self.before, self.after), (Some((k, v)), Some((l, w))) if k == l && spelling(v) == spelling(w))
    }

    fn keys(&self) -> impl Iterator<Item = (usize, u8)> + '_ {
        [self.before, self.after].into_iter().flatten().map(|(k, _)| (self.table, k))
    }
}

/// A value that no row had, with the key written in either spelling.
fn new_value(last: Val, spellings: bool, rng: &mut Rng) -> Val {
    (last | 1) + if spellings && rng.percent(40) { 2 } else { 1 }
}

/// Commit stages in their order; `listed` (in gtid_executed) comes after Visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Running,
    Flushed,
    Synced,
    Visible,
    RolledBack,
}

#[derive(Clone, Debug)]
pub(crate) struct Txn {
    pub gtid: Option<Gtid>,
    /// By what the engine knows it, once it is flushed.
    pub id: Option<TxnId>,
    pub changes: Vec<Change>,
    pub phase: Phase,
    pub listed: bool,
    ops_left: usize,
    rolls_back: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Txn(usize),
    Rotate,
}

#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub what: What,
    pub end: Position,
}

/// What says which transactions a chunk's SELECT sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    /// `@@gtid_executed`, then a consistent read (MySQL 5.7 and later with GTIDs).
    Executed,
    /// `@@gtid_executed`, which has a transaction from its flush on, then a locking read (5.6).
    ExecutedLocking,
    /// The binlog's end, then a locking read (MySQL without GTIDs).
    EndLocking,
    /// The position of performance_schema.log_status, which waits for commits that are on their way, then a consistent read.
    LogStatus,
    /// The position of a consistent snapshot, which is LW and HW (MariaDB).
    Snapshot,
}

impl Fence {
    /// By what transactions are known.
    pub(crate) const fn kind(self) -> SourceKind {
        match self {
            Self::Executed | Self::ExecutedLocking => SourceKind::Gtid,
            _ => SourceKind::Position,
        }
    }

    /// Whether a chunk's SELECT takes locks.
    pub(crate) const fn locks(self) -> bool {
        matches!(self, Self::ExecutedLocking | Self::EndLocking)
    }
}

/// How the server behaves in one history.
#[derive(Clone, Debug)]
pub(crate) struct ServerConfig {
    pub fence: Fence,
    /// `binlog_order_commits`.
    pub order: bool,
    pub txns: usize,
    /// Weights of: begin, row operation or flush, sync, engine commit, gtid_executed.
    pub speed: [usize; 5],
    /// Keys come in two spellings.
    pub spellings: bool,
    /// gtid_executed is set at flush (MySQL 5.6).
    pub listed_at_flush: bool,
}

#[derive(Debug)]
pub(crate) struct Server {
    pub cfg: ServerConfig,
    pub base: Rows,
    pub txns: Vec<Txn>,
    pub binlog: Vec<Event>,
    /// Events that the dump may send.
    pub synced: usize,
    /// What a consistent read sees.
    pub visible: Rows,
    pub gtid_executed: GtidSet,
    /// Counts failovers.
    pub number: u8,
    locks: [[Option<usize>; KEYS + 1]; TABLES],
    next_gno: u64,
    next_val: Val,
    file: Arc<str>,
    files: u64,
    offset: u64,
}

impl Server {
    pub(crate) fn new(cfg: ServerConfig, rng: &mut Rng) -> Self {
        let mut base = Rows::default();
        let mut next_val = 0;
        let fill = [30, 60, 90][rng.below(3)];
        for row in base.iter_mut().flat_map(|t| t.iter_mut().skip(1)) {
            if rng.percent(fill) {
                next_val = new_value(next_val, cfg.spellings, rng);
                *row = Some(next_val);
            }
        }
        Self {
            cfg,
            visible: base,
            base,
            txns: Vec::new(),
            binlog: Vec::new(),
            synced: 0,
            gtid_executed: GtidSet::default(),
            number: 1,
            locks: Default::default(),
            next_gno: 1,
            next_val,
            file: "b.000001".into(),
            files: 1,
            offset: 4,
        }
    }

    /// Where the first file's first transaction begins (what precedes it was always sent).
    pub(crate) fn beginning() -> Position {
        Position::new("b.000001", 4)
    }

    /// `SHOW BINARY LOG STATUS`: the end of what is flushed.
    pub(crate) fn end(&self) -> Position {
        Position { file: self.file.clone(), offset: self.offset }
    }

    /// Every transaction that is flushed (what a position stands for).
    fn flushed(&self) -> GtidSet {
        self.txns.iter().filter_map(|t| t.gtid).collect()
    }

    /// What the binlog's end stands for.
    pub(crate) fn all_flushed(&self) -> Passed {
        match self.cfg.fence.kind() {
            SourceKind::Gtid => self.flushed().into(),
            SourceKind::Position => self.end().into(),
        }
    }

    /// Where a stream begins that is to bring all that is not visible now.
    pub(crate) fn start(&self) -> Passed {
        match self.cfg.fence.kind() {
            SourceKind::Gtid => self.gtid_executed.clone().into(),
            SourceKind::Position => self.end().into(),
        }
    }

    /// Whether every transaction in the binlog is visible.
    pub(crate) fn is_quiet(&self) -> bool {
        self.txns.iter().all(|t| !matches!(t.phase, Phase::Flushed | Phase::Synced))
    }

    /// The position of a consistent snapshot taken now: visible are all that end there or before it, as commits are in order.
    pub(crate) fn snapshot_position(&self) -> Position {
        self.end_of(|t| t.phase == Phase::Visible)
    }

    /// Whether a locking read has to wait for the key.
    pub(crate) fn is_locked(&self, table: usize, key: usize) -> bool {
        self.locks[table][key].is_some()
    }

    /// The end of the last transaction in the binlog for which `is` holds.
    pub(crate) fn end_of(&self, is: impl Fn(&Txn) -> bool) -> Position {
        let last = self.binlog.iter().rev().find(|e| match e.what {
            What::Txn(t) => is(&self.txns[t]),
            What::Rotate => false,
        });
        last.map_or_else(Self::beginning, |e| e.end.clone())
    }

    /// The tables as the transactions that were passed make them, in binlog order.
    pub(crate) fn state_of(&self, passed: &Passed) -> Rows {
        let mut rows = self.base;
        for event in &self.binlog {
            let What::Txn(t) = event.what else { continue };
            if self.txns[t].id.as_ref().is_some_and(|id| passed.contains(id)) {
                self.txns[t].changes.iter().for_each(|c| c.apply(&mut rows));
            }
        }
        rows
    }

    /// Nothing is left to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.synced == self.binlog.len()
            && self.txns.iter().all(|t| t.phase == Phase::RolledBack || (t.phase == Phase::Visible && t.listed))
    }

    /// All transactions have begun.
    pub(crate) fn is_spent(&self) -> bool {
        self.txns.len() >= self.cfg.txns
    }

    /// One random step; says what happened.
    pub(crate) fn step(&mut self, rng: &mut Rng, may_begin: bool) -> Option<String> {
        match rng.weighted(&self.cfg.speed) {
            0 if may_begin => self.begin(rng),
            0 | 1 => self.operate(rng),
            2 => self.sync(),
            3 => self.engine_commit(rng),
            _ => self.list(rng),
        }
    }

    fn in_phase(&self, phase: Phase) -> Vec<usize> {
        (0..self.txns.len()).filter(|t| self.txns[*t].phase == phase).collect()
    }

    fn begin(&mut self, rng: &mut Rng) -> Option<String> {
        let open = self.txns.iter().filter(|t| !matches!(t.phase, Phase::RolledBack) && !t.listed).count();
        if self.is_spent() || open >= 4 {
            return None;
        }
        self.txns.push(Txn {
            gtid: None,
            id: None,
            changes: Vec::new(),
            phase: Phase::Running,
            listed: false,
            ops_left: 1 + rng.below(3),
            rolls_back: rng.percent(8),
        });
        None
    }

    fn operate(&mut self, rng: &mut Rng) -> Option<String> {
        let running = self.in_phase(Phase::Running);
        if running.is_empty() {
            return None;
        }
        let t = running[rng.below(running.len())];
        if self.txns[t].ops_left > 0 {
            self.txns[t].ops_left -= 1;
            if let Some(change) = self.change(t, rng) {
                self.txns[t].changes.push(change);
            }
            return None;
        }
        if self.txns[t].rolls_back || self.txns[t].changes.is_empty() {
            self.txns[t].phase = Phase::RolledBack;
            self.unlock(t);
            return None;
        }
        if rng.percent(6) {
            self.rotate();
        }
        Some(self.flush(t))
    }

    fn free(&self, t: usize, table: usize, key: usize) -> bool {
        self.locks[table][key].is_none_or(|holder| holder == t)
    }

    fn change(&mut self, t: usize, rng: &mut Rng) -> Option<Change> {
        let table = rng.below(TABLES);
        let key = 1 + rng.below(KEYS);
        if !self.free(t, table, key) {
            return None;
        }
        // The locked keys are as committed, but for this transaction's own changes.
        let mut rows = self.visible;
        self.txns[t].changes.iter().for_each(|c| c.apply(&mut rows));
        self.next_val = new_value(self.next_val, self.cfg.spellings, rng);
        let new = self.next_val;
        let (k, old) = (key as u8, rows[table][key]);
        let (before, after) = match old {
            None => (None, Some((k, new))),
            Some(v) => match rng.below(4) {
                0 => (Some((k, v)), None),
                1 => {
                    let other = 1 + rng.below(KEYS);
                    if other == key || rows[table][other].is_some() || !self.free(t, table, other) {
                        return None;
                    }
                    self.locks[table][other] = Some(t);
                    (Some((k, v)), Some((other as u8, new)))
                }
                _ => (Some((k, v)), Some((k, new))),
            },
        };
        self.locks[table][key] = Some(t);
        Some(Change { table, before, after })
    }

    fn unlock(&mut self, t: usize) {
        for lock in self.locks.iter_mut().flatten() {
            if *lock == Some(t) {
                *lock = None;
            }
        }
    }

    fn rotate(&mut self) {
        self.files += 1;
        self.file = format!("b.{:06}", self.files).into();
        self.offset = 4;
        self.binlog.push(Event { what: What::Rotate, end: self.end() });
    }

    fn gtid(&mut self) -> Gtid {
        let gno = self.next_gno;
        self.next_gno += 1;
        Gtid { tsid: Tsid { uuid: Uuid([self.number; 16]), tag: Tag::default() }, gno }
    }

    fn flush(&mut self, t: usize) -> String {
        let gtid = self.gtid();
        let begin = self.end();
        self.offset += 1;
        let end = self.end();
        let txn = &mut self.txns[t];
        txn.gtid = Some(gtid);
        txn.id = Some(match self.cfg.fence.kind() {
            SourceKind::Gtid => gtid.into(),
            SourceKind::Position => TxnId::At(begin),
        });
        txn.phase = Phase::Flushed;
        if self.cfg.listed_at_flush {
            txn.listed = true;
            self.gtid_executed.insert(gtid);
        }
        let text = format!("server: T{t} flushed at {end}: {:?}", txn.changes);
        self.binlog.push(Event { what: What::Txn(t), end });
        text
    }

    fn sync(&mut self) -> Option<String> {
        let event = self.binlog.get(self.synced)?;
        self.synced += 1;
        let What::Txn(t) = event.what else { return None };
        self.txns[t].phase = Phase::Synced;
        Some(format!("server: T{t} synced (the dump may send it)"))
    }

    fn pick(&self, rng: &mut Rng, ready: &[usize], blocked: impl Fn(&Txn) -> bool) -> Option<usize> {
        if !self.cfg.order {
            return ready.get(rng.below(ready.len())).copied();
        }
        // In binlog order: the first transaction that has not passed this stage.
        let first = self.binlog.iter().find_map(|e| match e.what {
            What::Txn(t) if blocked(&self.txns[t]) => Some(t),
            _ => None,
        })?;
        ready.contains(&first).then_some(first)
    }

    fn engine_commit(&mut self, rng: &mut Rng) -> Option<String> {
        let ready = self.in_phase(Phase::Synced);
        let t = self.pick(rng, &ready, |t| t.phase != Phase::Visible)?;
        self.txns[t].phase = Phase::Visible;
        let changes = self.txns[t].changes.clone();
        changes.iter().for_each(|c| c.apply(&mut self.visible));
        self.unlock(t);
        Some(format!("server: T{t} visible"))
    }

    fn list(&mut self, rng: &mut Rng) -> Option<String> {
        let ready: Vec<usize> = self.in_phase(Phase::Visible).into_iter().filter(|t| !self.txns[*t].listed).collect();
        let t = self.pick(rng, &ready, |t| !t.listed)?;
        self.txns[t].listed = true;
        self.gtid_executed.extend(self.txns[t].gtid);
        Some(format!("server: T{t} in gtid_executed"))
    }

    /// Another server takes over: what was flushed is there, what was running is not; independent neighbours may have
    /// changed places, and positions are others.
    pub(crate) fn fail_over(&mut self, rng: &mut Rng) {
        for t in 0..self.txns.len() {
            match self.txns[t].phase {
                Phase::Running => self.txns[t].phase = Phase::RolledBack,
                Phase::Flushed | Phase::Synced => {
                    self.txns[t].phase = Phase::Visible;
                    self.txns[t].listed = true;
                }
                Phase::Visible => self.txns[t].listed = true,
                Phase::RolledBack => {}
            }
            self.unlock(t);
        }
        self.gtid_executed = self.flushed();
        let mut order: Vec<usize> = self
            .binlog
            .iter()
            .filter_map(|e| match e.what {
                What::Txn(t) => Some(t),
                What::Rotate => None,
            })
            .collect();
        for i in 1..order.len() {
            if rng.percent(40) && self.independent(order[i - 1], order[i]) {
                order.swap(i - 1, i);
            }
        }
        self.number += 1;
        self.next_gno = 1;
        self.file = "b.000001".into();
        self.files = 1;
        self.offset = 4;
        self.binlog.clear();
        for t in order {
            self.offset += 1;
            let end = self.end();
            self.binlog.push(Event { what: What::Txn(t), end });
        }
        self.synced = self.binlog.len();
        self.visible = self.state_of(&self.all_flushed());
    }

    fn independent(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.txns[a].changes, &self.txns[b].changes);
        !a.iter().flat_map(Change::keys).any(|key| b.iter().flat_map(Change::keys).any(|other| other == key))
    }
}
