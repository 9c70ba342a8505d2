//! What went in, what came out, and by which rule the rest was dropped.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::checkpoint::StoredTarget;
use crate::delivery::Coordinate;

/// A target that is left out.
#[derive(Clone, Debug, Serialize)]
pub struct Quarantined {
    /// Its source, `database.table`.
    pub source: String,
    /// The table in Doris, `database.table`.
    pub target: String,
    /// The transactions up to which its rows are true.
    pub at: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Quarantined {
    pub(super) fn new(source: String, target: String, at: &Coordinate, reason: String) -> Self {
        Self { source, target, at: at.passed.to_string(), reason }
    }

    /// What the state says of a target.
    pub(super) fn of(target: &StoredTarget) -> Option<Self> {
        let why = target.quarantine.as_ref()?;
        let name = |(database, table): &(String, String)| format!("{database}.{table}");
        Some(Self::new(name(&target.source), name(&target.sink), &why.at, why.reason.clone()))
    }

    /// Says so in the log.
    pub(super) fn tell(&self) {
        tracing::error!(
            source = self.source,
            target = self.target,
            at = self.at,
            reason = self.reason,
            "quarantined: this table is left out while the others go on; when its cause is gone, `millstream resync` heals it"
        );
    }
}

/// Counters of one run. Row changes in = emitted + dropped by each named rule.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// What the configuration promises: `exactly-once`, or `at-least-once`.
    pub guarantee: &'static str,
    /// Row changes of captured tables that the stream carried (a key change counts twice: d and c).
    pub changes_in: u64,
    /// Of these, how many went to the sink (once, whatever the number of targets).
    pub changes_emitted: u64,
    /// Of these, how many were dropped, by rule.
    pub changes_dropped: BTreeMap<&'static str, u64>,
    /// Rows that chunks brought into the output.
    pub snapshot_rows: u64,
    /// Chunks that entered, and chunks that were given up and read again.
    pub chunks: u64,
    /// Chunks that were given up and read again.
    pub chunks_abandoned: u64,
    /// Rows sent to targets.
    pub rows_sent: u64,
    /// Rows that a later change of the same key replaced within one load.
    pub rows_collapsed: u64,
    /// Times a table that appeared could not be captured.
    pub tables_refused: u64,
    /// Loads that are committed.
    pub loads: u64,
    /// Epochs that are committed.
    pub epochs: u64,
    /// Transactions judged.
    pub transactions: u64,
    /// Events skipped, by rule.
    pub skipped: BTreeMap<&'static str, u64>,
    /// How often an XA transaction was reported that had been prepared, and not decided, for an hour or longer.
    pub xa_overdue: u64,
    /// Events of tables that are not captured, skipped undecoded.
    pub filtered_events: u64,
    /// Restarts from the last durable record within this process.
    pub restarts: u64,
    /// Seconds from the first chunk to the moment when every table was live; 0 if none was read.
    pub snapshot_seconds: f64,
    /// Where the stream stands.
    pub position: Option<String>,
    /// What `sink.delivery` promises, in words.
    pub delivery: Option<&'static str>,
    /// Targets that are left out: what came after `at` is not in them.
    pub quarantined: Vec<Quarantined>,
    /// The durable set of transactions.
    pub gtids: String,
}

impl Report {
    /// Counts one skipped event.
    pub fn skip(&mut self, rule: &'static str) {
        let n = self.skipped.entry(rule).or_default();
        *n = n.saturating_add(1);
    }

    /// Counts skipped events.
    pub fn skip_many(&mut self, rule: &'static str, count: u64) {
        if count > 0 {
            let n = self.skipped.entry(rule).or_default();
            *n = n.saturating_add(count);
        }
    }

    /// Counts one dropped change.
    pub fn drop_change(&mut self, rule: &'static str) {
        let n = self.changes_dropped.entry(rule).or_default();
        *n = n.saturating_add(1);
    }

    /// Whether every change that came in is accounted for.
    #[must_use]
    pub fn balances(&self) -> bool {
        let dropped = self.changes_dropped.values().fold(0u64, |a, b| a.saturating_add(*b));
        self.changes_in == self.changes_emitted.saturating_add(dropped)
    }
}
