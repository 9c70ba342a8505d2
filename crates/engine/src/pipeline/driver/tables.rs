//! Tables that are added or read again while the stream goes on.
//!
//! Both happen at a place where everything judged is committed: the stream pauses for as long as one epoch takes. Then the
//! change is made durable, by a write of its own, and only then is anything of it done. A crash before the write leaves the
//! request (or the table's appearance, which the next start finds in the catalog), a crash after it is a restart with the new
//! state; and no restart ever goes back to before that place, so statements about a table that came before its adding are never
//! seen again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_binlog::Position;
use tokio::task::JoinSet;

use super::Driver;
use crate::checkpoint::{Backend, ResyncRequest, StoredTable, StoredTarget};
use crate::config::SnapshotMode;
use crate::delivery::{TargetNo, TargetState};
use crate::merge::KeyRange;
use crate::pipeline::appear::{Prepared, TableKey, Unprepared};
use crate::pipeline::control::protocol::{TableState, TableStatus};
use crate::pipeline::error::RunError;
use crate::pipeline::events::Captured;
use crate::pipeline::resync;
use crate::pipeline::start::output;

/// After which pause a table is prepared again.
const PAUSE: Duration = Duration::from_secs(1);
/// Tables that are prepared beside each other.
const PREPARING: usize = 2;

/// Changes that wait for their place.
#[derive(Default)]
pub(in crate::pipeline) struct Changes {
    resync: Vec<ResyncRequest>,
    adding: BTreeMap<TableKey, Adding>,
    preparing: JoinSet<(TableKey, Result<Prepared, Unprepared>)>,
}

/// A table on its way to being captured.
#[derive(Default)]
struct Adding {
    /// It must be looked at: it is new, or a statement about it has passed since.
    stale: bool,
    running: bool,
    prepared: Option<Box<Prepared>>,
    refused: Option<String>,
    not_before: Option<Instant>,
}

impl Changes {
    pub(super) fn request(&mut self, requests: &[ResyncRequest]) {
        for request in requests {
            let same = |r: &&mut ResyncRequest| r.database == request.database && r.table == request.table;
            match self.resync.iter_mut().find(same) {
                Some(known) => known.truncate |= request.truncate,
                None => self.resync.push(request.clone()),
            }
        }
    }

    pub(super) fn is_requested(&self, database: &str, table: &str) -> bool {
        self.resync.iter().any(|r| r.database == database && r.table == table)
    }

    /// A table has appeared, or a statement about it has passed: what is known of it counts no more.
    pub(in crate::pipeline) fn appear(&mut self, key: TableKey) {
        let adding = self.adding.entry(key).or_default();
        *adding = Adding { stale: true, running: adding.running, ..Adding::default() };
    }

    /// Whether a table is on its way, or a request waits.
    pub(super) fn is_any(&self) -> bool {
        !self.resync.is_empty() || self.adding.values().any(|a| a.refused.is_none())
    }

    pub(super) fn is_preparing(&self) -> bool {
        !self.preparing.is_empty()
    }

    /// The next table that is prepared, or is not. Waits for ever when none is being prepared. Cancel-safe.
    pub(super) async fn next(&mut self) -> (TableKey, Result<Prepared, Unprepared>) {
        match self.preparing.join_next().await {
            Some(Ok(prepared)) => prepared,
            // A task never panics by itself.
            Some(Err(_)) | None => core::future::pending().await,
        }
    }

    /// Whether the stream, at `here` between transactions, is where a change can be made.
    fn wants_place(&self, here: Option<&Position>, may_add: bool) -> bool {
        !self.resync.is_empty() || may_add && self.adding.values().any(|a| a.is_ready(here))
    }

    pub(super) fn adding(&self) -> impl Iterator<Item = TableStatus> + '_ {
        self.adding.iter().map(|((database, table), adding)| TableStatus {
            table: format!("{database}.{table}"),
            state: if adding.refused.is_some() { TableState::Refused } else { TableState::Adding },
            targets: Vec::new(),
            ranges: [0, 0, 0],
            snapshot_rows: None,
            reason: adding.refused.clone(),
        })
    }
}

impl Adding {
    fn is_ready(&self, here: Option<&Position>) -> bool {
        !self.stale && self.prepared.as_ref().is_some_and(|p| here.is_some_and(|here| *here >= p.fence))
    }
}

impl<B: Backend> Driver<'_, B> {
    /// Between transactions: looks at tables that appeared, and says whether the stream has to pause for a change.
    pub(super) fn consider_changes(&mut self, now: Instant) {
        for key in self.core.take_appeared() {
            tracing::info!(table = format!("{}.{}", key.0, key.1), "a table that source.tables names has appeared");
            self.loop_state.change.appear(key);
        }
        let change = &mut self.loop_state.change;
        for (key, adding) in &mut change.adding {
            let wait = adding.running || !adding.stale || adding.not_before.is_some_and(|at| now < at);
            if wait || change.preparing.len() >= PREPARING {
                continue;
            }
            *adding = Adding { running: true, ..Adding::default() };
            let (preparer, key) = (Arc::clone(&self.preparer), key.clone());
            let taken: Vec<TableKey> =
                self.core.outputs.targets.iter().map(|t| (t.database.clone(), t.table.clone())).collect();
            change.preparing.spawn(async move {
                let prepared = preparer.prepare(&key, &taken).await;
                (key, prepared)
            });
        }
        self.loop_state.pausing = !self.loop_state.ending
            && change.wants_place(
                self.core.merge.position(),
                self.core.may_add_table(self.preparer.config.snapshot.mode == SnapshotMode::Never),
            );
    }

    /// A table is prepared, or is not.
    pub(super) fn prepared(&mut self, key: TableKey, result: Result<Prepared, Unprepared>) {
        let Some(adding) = self.loop_state.change.adding.get_mut(&key) else { return };
        adding.running = false;
        if adding.stale {
            return;
        }
        match result {
            Ok(prepared) => adding.prepared = Some(Box::new(prepared)),
            Err(reason) => self.unprepared(key, reason),
        }
    }

    fn unprepared(&mut self, key: TableKey, reason: Unprepared) {
        let table = format!("{}.{}", key.0, key.1);
        let adding = self.loop_state.change.adding.entry(key.clone()).or_default();
        match reason {
            Unprepared::Gone => {
                // Another statement about it brings it back; rows alone (which this user may not read) do not.
                tracing::info!(table, "a table that appeared is not there any more, or may not be seen by this user");
                self.loop_state.change.adding.remove(&key);
            }
            Unprepared::Later(reason) => {
                tracing::warn!(table, reason, "a table that appeared is looked at again later");
                adding.stale = true;
                adding.not_before = Instant::now().checked_add(PAUSE);
            }
            Unprepared::Refused(reason) => {
                tracing::warn!(
                    table,
                    reason,
                    "a table that source.tables names cannot be captured: its rows are skipped; it is tried again after a \
                     statement changes it, and at the next start"
                );
                self.core.report.tables_refused = self.core.report.tables_refused.saturating_add(1);
                adding.refused = Some(reason);
            }
        }
    }

    /// Makes the changes that wait, once everything judged is committed.
    pub(super) async fn make_changes(&mut self) -> Result<(), RunError> {
        let settled = self.loop_state.pausing
            && !self.core.is_inside()
            && self.core.delivery.is_idle()
            && self.core.is_clean()
            && self.loop_state.uploading_bytes == 0;
        if !settled {
            return Ok(());
        }
        self.loop_state.pausing = false;
        let requests = core::mem::take(&mut self.loop_state.change.resync);
        if !requests.is_empty() {
            self.read_again(&requests).await?;
        }
        if self.core.may_add_table(self.preparer.config.snapshot.mode == SnapshotMode::Never) {
            let here = self.core.merge.position().cloned();
            let change = &mut self.loop_state.change;
            let ready: Vec<TableKey> =
                change.adding.iter().filter(|(_, a)| a.is_ready(here.as_ref())).map(|(key, _)| key.clone()).collect();
            for key in ready {
                if let Some(prepared) = self.loop_state.change.adding.remove(&key).and_then(|a| a.prepared) {
                    self.add(key, *prepared).await?;
                }
            }
        }
        Ok(())
    }

    async fn read_again(&mut self, requests: &[ResyncRequest]) -> Result<(), RunError> {
        let left_out = |t: &StoredTarget| {
            t.quarantine.is_some() && requests.iter().any(|r| r.database == t.source.0 && r.table == t.source.1)
        };
        if self.store.read()?.is_some_and(|state| state.targets.iter().any(left_out)) {
            return Err(RunError::away("a target is taken back from quarantine, to be read again"));
        }
        let mut targets: Vec<(TargetNo, TargetState, bool)> = Vec::new();
        let mut tables: Vec<(usize, bool)> = Vec::new();
        let mut emptied: Vec<(TargetNo, String, String)> = Vec::new();
        for request in requests {
            let Some(table) = self.core.find(&request.database, &request.table) else { continue };
            tables.push((table, !request.truncate));
            for group in self.core.tables.get(table).into_iter().flat_map(|t| &t.groups) {
                let before = self.core.merge.checkpoint(group.id);
                for target in group.targets.iter().filter_map(|i| self.core.outputs.targets.get(*i)) {
                    let state = resync::restarted(target.mode, &before, request.truncate);
                    targets.push((target.no, state, request.truncate));
                    if request.truncate {
                        emptied.push((target.no, target.database.clone(), target.table.clone()));
                    }
                }
            }
        }
        self.store.begin_again(self.era, &targets, requests)?;
        if !emptied.is_empty() {
            // What is committed must not become visible in a table that was emptied.
            self.sink.wait_visible().await?;
            for (_, database, table) in &emptied {
                self.sink.truncate(database, table).await?;
                tracing::info!(table = format!("{database}.{table}"), "emptied");
            }
            let numbers: Vec<TargetNo> = emptied.iter().map(|(no, ..)| *no).collect();
            self.store.emptied(self.era, &numbers)?;
        }
        for (table, keep_emitting) in tables {
            for group in self
                .core
                .tables
                .get(table)
                .map(|t| t.groups.iter().map(|g| g.id).collect::<Vec<_>>())
                .unwrap_or_default()
            {
                let chunks: Vec<_> =
                    self.loop_state.chunks.iter().filter(|(_, id)| **id == group).map(|(chunk, _)| *chunk).collect();
                for chunk in chunks {
                    self.give_up(chunk);
                }
                self.loop_state.rows.remove(&group);
                self.loop_state.whole.remove(&group);
            }
            self.core.restart_table(table, keep_emitting);
            tracing::info!(table = self.core.table_name(table), "reading the table again");
        }
        Ok(())
    }

    async fn add(&mut self, key: TableKey, prepared: Prepared) -> Result<(), RunError> {
        let schema = Arc::clone(&prepared.table.schema);
        if self.core.find(&schema.database, &schema.table).is_some() {
            return Ok(());
        }
        let outputs = &self.core.outputs.targets;
        if prepared.targets.iter().any(|t| outputs.iter().any(|o| o.database == t.sink.0 && o.table == t.sink.1)) {
            // Two tables were prepared beside each other; the next look says which target it is.
            self.loop_state.change.appear(key);
            return Ok(());
        }
        let floor = match self.preparer.make_targets(&prepared).await {
            Ok(floor) => floor,
            Err(reason) => {
                self.unprepared(key, reason);
                return Ok(());
            }
        };
        let Prepared { table, access, collations, targets, .. } = prepared;
        let outputs = &self.core.outputs.targets;
        if floor > self.era {
            return Err(RunError::away(format!(
                "{}.{} is added to a target whose rows have greater sequence numbers: going on with a later era",
                schema.database, schema.table
            )));
        }
        let live = self.preparer.config.snapshot.mode == SnapshotMode::Never;
        let done = if live { vec![KeyRange::default()] } else { Vec::new() };
        let state = TargetState { ahead: None, done, may_hold_more: false };
        let first = outputs.iter().map(|t| t.no.0).max().map_or(1, |n| n.saturating_add(1));
        let targets: Vec<StoredTarget> = (first..)
            .zip(targets)
            .map(|(no, target)| StoredTarget { target: TargetNo(no), state: state.clone(), ..target })
            .collect();
        let stored =
            StoredTable { schema: (*schema).clone(), index: table.index.clone(), defaults: table.defaults.to_vec() };
        let id = self.core.next_group();
        let outputs = targets
            .iter()
            .map(|t| output(&self.preparer.config, &table, t, 0, id, state.clone(), core::slice::from_ref(&table)))
            .collect::<Result<Vec<_>, _>>()?;
        self.store.add_tables(self.era, &[stored], &targets)?;
        self.weigher.learn(collations);
        for target in &targets {
            self.sink.add_database(&target.sink.0);
        }
        let captured = Captured {
            schema: Arc::clone(&schema),
            index: table.index,
            defaults: table.defaults,
            access: Arc::new(access),
            groups: Vec::new(),
            snapshot_rows: 0,
        };
        self.core.add_table(captured, id, outputs, live);
        tracing::info!(table = format!("{}.{}", schema.database, schema.table), live, "added");
        Ok(())
    }
}
