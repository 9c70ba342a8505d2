//! What is said and asked while no engine runs.

use crate::checkpoint::{Backend, Store, StoredState};
use crate::config::{self, Config, NameCase};
use crate::merge::{RangeSet, RangeState};
use crate::pipeline::control::protocol::{Resync, Status, TableState, TableStatus};
use crate::pipeline::report::Quarantined;
use crate::pipeline::resync;

/// Where a pipeline stands by its stored state alone.
#[must_use]
pub fn stored_status(state: &StoredState) -> Status {
    let table = |schema: &millstream_binlog::TableSchema| {
        let targets = || state.targets.iter().filter(|t| t.source.0 == schema.database && t.source.1 == schema.table);
        let mut ranges = [0usize; 3];
        let mut live = true;
        for target in targets() {
            let set = RangeSet::with_done(&target.state.done);
            let [done, _, unread] = &mut ranges;
            *done = done.saturating_add(set.done().len());
            *unread = unread.saturating_add(set.matching(|s| *s == RangeState::Unread).len());
            live &= set.is_live();
        }
        let requested = state.resync.iter().any(|r| r.database == schema.database && r.table == schema.table);
        TableStatus {
            table: format!("{}.{}", schema.database, schema.table),
            state: match (live, targets().any(|t| t.state.may_hold_more)) {
                _ if requested => TableState::Requested,
                (true, _) => TableState::Live,
                (false, true) => TableState::Resync,
                (false, false) => TableState::Snapshot,
            },
            targets: targets().map(|t| format!("{}.{} ({})", t.sink.0, t.sink.1, t.mode)).collect(),
            ranges,
            snapshot_rows: None,
            reason: None,
        }
    };
    Status {
        pipeline: state.name.clone(),
        running: false,
        era: state.era,
        position: None,
        durable: state.stream.passed.to_string(),
        undecided: state.xa.without_rows.iter().map(ToString::to_string).collect(),
        rows_per_second: None,
        workers: None,
        left_out: state
            .targets
            .iter()
            .filter_map(Quarantined::of)
            .map(|q| left_out(&q.source, &q.target, &q.reason))
            .collect(),
        tables: state.tables.iter().map(|t| table(&t.schema)).collect(),
    }
}

/// What a status says of a target that is quarantined.
pub(in crate::pipeline) fn left_out(source: &str, target: &str, reason: &str) -> String {
    format!("{target} (of {source}): {reason}")
}

/// Keeps a request for the next start; what will happen. The caller holds the state.
///
/// # Errors
/// Which table cannot be read again, and why; or the state cannot be written.
pub fn request_when_stopped<B: Backend>(
    config: &Config,
    store: &mut Store<B>,
    state: &StoredState,
    resync: &Resync,
) -> Result<String, String> {
    let jsonl = matches!(config.sink, config::Sink::Jsonl(_));
    // How the server compares names is not known here.
    let requests = resync::requests(resync, &resync::known(state), NameCase::Sensitive, jsonl)?;
    store.request_resync(&requests).map_err(|e| e.to_string())?;
    Ok(resync::accepted(&requests, false))
}
