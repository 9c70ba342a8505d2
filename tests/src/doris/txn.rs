//! The transaction manager of one database: the state machine of doris.md 4 and 12.1, as a value without I/O or clock.
//!
//! Times are milliseconds of the caller's clock. What a committed load does to its table is the caller's business:
//! [`TxnManager::take_due`] hands out the loads to apply, in commit order.

use super::row::Batch;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

/// Where a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum TxnState {
    Prepare,
    PreCommitted,
    Committed,
    Visible,
    Aborted,
}

impl TxnState {
    /// The name in `get_load_state` and SHOW TRANSACTION.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prepare => "PREPARE",
            Self::PreCommitted => "PRECOMMITTED",
            Self::Committed => "COMMITTED",
            Self::Visible => "VISIBLE",
            Self::Aborted => "ABORTED",
        }
    }

    /// The state of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Prepare, Self::PreCommitted, Self::Committed, Self::Visible, Self::Aborted]
            .into_iter()
            .find(|s| s.name().eq_ignore_ascii_case(name))
    }

    /// Whether nothing can happen to it any more but being forgotten.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Visible | Self::Aborted)
    }
}

impl fmt::Display for TxnState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A transaction. Times are milliseconds since 1970, None until the event happened.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Txn {
    pub id: i64,
    pub label: String,
    pub table: String,
    pub table_id: i64,
    pub two_phase: bool,
    pub state: TxnState,
    pub coordinator: String,
    pub prepared_ms: i64,
    pub precommitted_ms: Option<i64>,
    pub committed_ms: Option<i64>,
    pub visible_ms: Option<i64>,
    pub finished_ms: Option<i64>,
    pub timeout_ms: i64,
    pub reason: String,
    /// Rows accepted by the load.
    pub loaded_rows: u64,
    pub(crate) data: Option<Arc<Batch>>,
    pub(crate) publish_at: Option<i64>,
}

/// The limits of doris.md 4.1.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// PREPARE + PRECOMMITTED + COMMITTED per database.
    pub running: usize,
    /// Lifetime of PRECOMMITTED, milliseconds.
    pub precommit_timeout_ms: i64,
    /// How long a finished transaction is remembered, milliseconds.
    pub keep_ms: i64,
    /// How many finished transactions are remembered.
    pub keep_count: usize,
    /// Aborted transactions a label may have (the cloud's meta-service counts them).
    pub aborts_per_label: usize,
    /// Versions a table may have before a load into it fails with -235.
    pub max_versions: u64,
    /// Versions of a table that compaction merges away in a second.
    pub compaction_per_second: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            running: 10_000,
            precommit_timeout_ms: 3_600_000,
            keep_ms: 43_200_000,
            keep_count: 2000,
            aborts_per_label: usize::MAX,
            max_versions: 2000,
            compaction_per_second: 100,
        }
    }
}

/// Why a load could not begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeginError {
    /// The label has a transaction that is not aborted.
    LabelUsed {
        /// That transaction.
        txn_id: i64,
        /// RUNNING, PRECOMMITTED or FINISHED.
        status: &'static str,
    },
    /// The label was aborted too often.
    WornOut,
    /// The running limit is reached.
    TooMany {
        /// Transactions running now.
        running: usize,
        /// The limit.
        limit: usize,
    },
}

/// How a two-phase operation names its transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// By id.
    Id(i64),
    /// By label.
    Label(String),
}

/// Which sides of a transaction a label lookup sees.
const RUNNING_ABORT: &[TxnState] = &[TxnState::PreCommitted, TxnState::Prepare];
const RUNNING_COMMIT: &[TxnState] = &[TxnState::PreCommitted];

/// The transactions of one database.
#[derive(Debug, Default)]
pub struct TxnManager {
    txns: BTreeMap<i64, Txn>,
    labels: HashMap<String, Vec<i64>>,
    running: usize,
    /// Finished transactions, oldest first.
    finished: VecDeque<i64>,
    /// Committed ones that wait to become visible, in commit order.
    committed: VecDeque<i64>,
    /// The limits in force.
    pub limits: Limits,
}

/// What a load begins with.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Begin {
    pub id: i64,
    pub label: String,
    pub table: String,
    pub table_id: i64,
    pub two_phase: bool,
    pub coordinator: String,
    pub timeout_ms: i64,
}

impl TxnManager {
    /// Begins a load under a label (4.2).
    pub fn begin(&mut self, begin: Begin, now: i64) -> Result<(), BeginError> {
        if let Some(txn) = self.live(&begin.label) {
            let status = match txn.state {
                TxnState::Prepare => "RUNNING",
                TxnState::PreCommitted => "PRECOMMITTED",
                _ => "FINISHED",
            };
            return Err(BeginError::LabelUsed { txn_id: txn.id, status });
        }
        if self.labels.get(&begin.label).is_some_and(|ids| ids.len() >= self.limits.aborts_per_label) {
            return Err(BeginError::WornOut);
        }
        if self.running >= self.limits.running {
            return Err(BeginError::TooMany { running: self.running, limit: self.limits.running });
        }
        self.running += 1;
        self.labels.entry(begin.label.clone()).or_default().push(begin.id);
        let txn = Txn {
            id: begin.id,
            label: begin.label,
            table: begin.table,
            table_id: begin.table_id,
            two_phase: begin.two_phase,
            state: TxnState::Prepare,
            coordinator: begin.coordinator,
            prepared_ms: now,
            precommitted_ms: None,
            committed_ms: None,
            visible_ms: None,
            finished_ms: None,
            timeout_ms: begin.timeout_ms,
            reason: String::new(),
            loaded_rows: 0,
            data: None,
            publish_at: None,
        };
        self.txns.insert(txn.id, txn);
        Ok(())
    }

    /// The newest transaction of a label that is not aborted.
    fn live(&self, label: &str) -> Option<&Txn> {
        let ids = self.labels.get(label)?;
        ids.iter().rev().filter_map(|id| self.txns.get(id)).find(|t| t.state != TxnState::Aborted)
    }

    fn not_found(id: i64) -> String {
        format!("transaction [{id}] not found")
    }

    /// The body of a load arrived: `two_phase` loads are precommitted, others committed (12.1). Idempotent for a
    /// transaction that is precommitted already.
    pub(crate) fn finish_body(&mut self, id: i64, data: Arc<Batch>, now: i64) -> Result<TxnState, String> {
        let txn = self.txns.get_mut(&id).ok_or_else(|| Self::not_found(id))?;
        match txn.state {
            TxnState::Prepare => {}
            TxnState::PreCommitted => return Ok(TxnState::PreCommitted),
            TxnState::Committed => return Err(format!("transaction [{id}] is already committed")),
            TxnState::Visible => return Err(format!("transaction [{id}] is already visible")),
            TxnState::Aborted => {
                return Err(format!("transaction [{id}] is already aborted. abort reason: {}", txn.reason));
            }
        }
        txn.loaded_rows = data.len() as u64 + data.counted;
        txn.data = Some(data);
        if txn.two_phase {
            txn.state = TxnState::PreCommitted;
            txn.precommitted_ms = Some(now);
        } else {
            txn.state = TxnState::Committed;
            txn.committed_ms = Some(now);
            self.committed.push_back(id);
        }
        Ok(txn.state)
    }

    fn select(&self, selector: &Selector, states: &[TxnState]) -> Result<i64, String> {
        match selector {
            Selector::Id(id) if self.txns.contains_key(id) => Ok(*id),
            Selector::Id(id) => Err(Self::not_found(*id)),
            Selector::Label(label) => self
                .labels
                .get(label)
                .into_iter()
                .flatten()
                .rev()
                .find(|id| self.txns.get(id).is_some_and(|t| states.contains(&t.state)))
                .copied()
                .ok_or_else(|| format!("running transaction not found, label={label}")),
        }
    }

    /// The transaction a commit would act on (4.3).
    pub fn commit_target(&self, selector: &Selector) -> Result<&Txn, String> {
        let id = self.select(selector, RUNNING_COMMIT)?;
        self.txns.get(&id).ok_or_else(|| Self::not_found(id))
    }

    /// The transaction an abort would act on (4.3).
    pub fn abort_target(&self, selector: &Selector) -> Result<&Txn, String> {
        let id = self.select(selector, RUNNING_ABORT)?;
        self.txns.get(&id).ok_or_else(|| Self::not_found(id))
    }

    /// The second phase (4.3).
    pub fn commit(&mut self, selector: &Selector, now: i64) -> Result<i64, String> {
        let id = self.select(selector, RUNNING_COMMIT)?;
        let txn = self.txns.get_mut(&id).ok_or_else(|| Self::not_found(id))?;
        match txn.state {
            TxnState::PreCommitted => {
                txn.state = TxnState::Committed;
                txn.committed_ms = Some(now);
                self.committed.push_back(id);
                Ok(id)
            }
            TxnState::Prepare => Err(format!("transaction [{id}] is prepare, not pre-committed.")),
            TxnState::Committed => Err(format!("transaction [{id}] is already committed, not pre-committed.")),
            TxnState::Visible => Err(format!("transaction [{id}] is already visible, not pre-committed.")),
            TxnState::Aborted => Err(format!("transaction [{id}] is already aborted. abort reason: {}", txn.reason)),
        }
    }

    /// Aborts a transaction that is not committed yet (4.3).
    pub fn abort(&mut self, selector: &Selector, reason: &str, now: i64) -> Result<i64, String> {
        let id = self.select(selector, RUNNING_ABORT)?;
        let txn = self.txns.get_mut(&id).ok_or_else(|| Self::not_found(id))?;
        match txn.state {
            TxnState::Prepare | TxnState::PreCommitted => {
                self.set_aborted(id, reason, now);
                Ok(id)
            }
            TxnState::Committed | TxnState::Visible => {
                Err(format!("transaction [{id}] is already {}, could not abort.", txn.state))
            }
            TxnState::Aborted => Err(format!("transaction [{id}] is already aborted, abort reason: {}", txn.reason)),
        }
    }

    fn set_aborted(&mut self, id: i64, reason: &str, now: i64) {
        if let Some(txn) = self.txns.get_mut(&id) {
            txn.state = TxnState::Aborted;
            txn.reason = reason.to_owned();
            txn.finished_ms = Some(now);
            txn.data = None;
            self.running -= 1;
            self.finished.push_back(id);
        }
    }

    /// When a committed transaction may become visible.
    pub(crate) fn publish_at(&mut self, id: i64, at: i64) {
        if let Some(txn) = self.txns.get_mut(&id) {
            txn.publish_at = Some(at);
        }
    }

    /// The next committed transaction whose publish is due; it is VISIBLE from now on. Commit order is kept per table.
    pub(crate) fn take_due(&mut self, now: i64) -> Option<(i64, Option<Arc<Batch>>)> {
        let mut blocked: Vec<i64> = Vec::new();
        let at = self.committed.iter().position(|id| {
            let Some(txn) = self.txns.get(id) else { return true };
            let due = txn.publish_at.is_some_and(|at| at <= now) && !blocked.contains(&txn.table_id);
            if !due {
                blocked.push(txn.table_id);
            }
            due
        })?;
        let id = self.committed.remove(at)?;
        let txn = self.txns.get_mut(&id)?;
        txn.state = TxnState::Visible;
        txn.visible_ms = Some(now);
        txn.finished_ms = Some(now);
        self.running -= 1;
        self.finished.push_back(id);
        Some((txn.table_id, txn.data.take()))
    }

    /// Whether something waits to become visible.
    pub(crate) fn has_committed(&self) -> bool {
        !self.committed.is_empty()
    }

    /// Every wait for publishing is over.
    pub(crate) fn release_publish(&mut self) {
        for id in &self.committed {
            if let Some(txn) = self.txns.get_mut(id) {
                txn.publish_at = Some(i64::MIN);
            }
        }
    }

    /// The cleaner: timeouts, then retention (4.1).
    pub fn clean(&mut self, now: i64) {
        let expired: Vec<i64> = self
            .txns
            .values()
            .filter(|t| match t.state {
                TxnState::Prepare => t.prepared_ms + t.timeout_ms <= now,
                TxnState::PreCommitted => {
                    t.precommitted_ms.is_some_and(|at| at + self.limits.precommit_timeout_ms <= now)
                }
                _ => false,
            })
            .map(|t| t.id)
            .collect();
        for id in expired {
            self.set_aborted(id, "timeout by txn manager", now);
        }
        while let Some(id) = self.finished.front().copied() {
            let old = self.txns.get(&id).and_then(|t| t.finished_ms).is_none_or(|at| at + self.limits.keep_ms <= now);
            if !old && self.finished.len() <= self.limits.keep_count {
                break;
            }
            self.finished.pop_front();
            self.forget(id);
        }
    }

    /// Forgets every finished transaction now.
    pub fn purge(&mut self) {
        while let Some(id) = self.finished.pop_front() {
            self.forget(id);
        }
    }

    fn forget(&mut self, id: i64) {
        if let Some(txn) = self.txns.remove(&id)
            && let Some(ids) = self.labels.get_mut(&txn.label)
        {
            ids.retain(|x| *x != id);
            if ids.is_empty() {
                self.labels.remove(&txn.label);
            }
        }
    }

    /// The front end restarts: PREPARE is not in its log (4.1).
    pub fn fe_restart(&mut self) {
        let forgotten: Vec<i64> = self.txns.values().filter(|t| t.state == TxnState::Prepare).map(|t| t.id).collect();
        for id in forgotten {
            self.running -= 1;
            self.forget(id);
        }
    }

    /// A back end restarts: its PREPARE transactions are aborted (4.1).
    pub fn be_restart(&mut self, coordinator: &str, now: i64) {
        let lost: Vec<i64> = self
            .txns
            .values()
            .filter(|t| t.state == TxnState::Prepare && t.coordinator == coordinator)
            .map(|t| t.id)
            .collect();
        for id in lost {
            self.set_aborted(id, "coordinate BE restart", now);
        }
    }

    /// The answer of `get_load_state` (E4): the live transaction's state, else ABORTED if any, else UNKNOWN.
    pub fn label_state(&self, label: &str) -> &'static str {
        match (self.live(label), self.labels.contains_key(label)) {
            (Some(txn), _) => txn.state.name(),
            (None, true) => "ABORTED",
            (None, false) => "UNKNOWN",
        }
    }

    /// A transaction by id.
    pub fn txn(&self, id: i64) -> Option<&Txn> {
        self.txns.get(&id)
    }

    /// All transactions, by id.
    pub fn txns(&self) -> impl Iterator<Item = &Txn> {
        self.txns.values()
    }

    /// Transactions that count against the running limit.
    pub fn running(&self) -> usize {
        self.running
    }

    /// Finished transactions still remembered.
    pub fn finished(&self) -> usize {
        self.finished.len()
    }
}
