//! Requests of the control socket.

use std::time::Instant;

use super::{Driver, chunk_bytes};
use crate::checkpoint::Backend;
use crate::config;
use crate::merge::RangeState;
use crate::pipeline::control::protocol::{Reply, Request, Resync, Speed, Status, TableState, TableStatus};
use crate::pipeline::control::{Asked, left_out};
use crate::pipeline::error::RunError;
use crate::pipeline::resync;

impl<B: Backend> Driver<'_, B> {
    /// Carries a request out, or begins to.
    pub(super) fn asked(&mut self, asked: Asked) -> Result<(), RunError> {
        let Asked { request, reply } = asked;
        if reply.is_closed() {
            return Ok(());
        }
        let answer = match request {
            Request::Status => Reply::Status(Box::new(self.status())),
            Request::Set(speed) => self.set_speed(speed),
            Request::Resync(resync) => self.request_resync(&resync)?,
        };
        // Whoever asked may be gone by now.
        reply.send(answer).ok();
        Ok(())
    }

    fn set_speed(&mut self, speed: Speed) -> Reply {
        let now = self.session.clock(Instant::now());
        if let Some(rows) = speed.rows_per_second {
            self.session.rate.set(rows, now);
        }
        if let Some(workers) = speed.workers {
            self.session.workers = workers;
            self.workers.resize(workers);
            self.limits.chunk_bytes = chunk_bytes(self.limits.chunks, workers);
        }
        let text = match self.session.rate.rows_per_second() {
            0 => format!("{} reader(s), as fast as they can", self.session.workers),
            rows => format!("{} reader(s), {rows} rows in a second at most", self.session.workers),
        };
        tracing::info!("snapshots are read by {text}");
        Reply::Done(format!("{text}, until the engine ends; for longer change [snapshot] in the configuration"))
    }

    /// Keeps the request, durably; it is carried out when everything judged so far is committed.
    fn request_resync(&mut self, resync: &Resync) -> Result<Reply, RunError> {
        if self.loop_state.ending {
            return Ok(Reply::Error("the engine is ending; ask again".to_owned()));
        }
        let known = self.store.read()?.map_or_else(Vec::new, |state| resync::known(&state));
        let jsonl = matches!(self.preparer.config.sink, config::Sink::Jsonl(_));
        let requests = match resync::requests(resync, &known, self.preparer.case, jsonl) {
            Ok(requests) => requests,
            Err(problem) => return Ok(Reply::Error(problem)),
        };
        self.store.request_resync(&requests)?;
        for request in &requests {
            tracing::info!(
                table = format!("{}.{}", request.database, request.table),
                truncate = request.truncate,
                "asked to read a table again"
            );
        }
        self.loop_state.change.request(&requests);
        Ok(Reply::Done(resync::accepted(&requests, true)))
    }

    fn status(&self) -> Status {
        let change = &self.loop_state.change;
        let mut tables: Vec<TableStatus> = self
            .core
            .tables
            .iter()
            .enumerate()
            .map(|(i, captured)| {
                let mut ranges = [0usize; 3];
                let mut live = true;
                let mut again = false;
                let mut targets = Vec::new();
                for group in &captured.groups {
                    live &= self.core.merge.is_live(group.id);
                    again |= self.core.merge.keeps_emitting(group.id);
                    for (_, state) in self.core.merge.ranges(group.id).into_iter().flat_map(|r| r.iter()) {
                        let [done, reading, unread] = &mut ranges;
                        let count = match state {
                            RangeState::Done(_) => done,
                            RangeState::Reading(_) => reading,
                            RangeState::Unread => unread,
                        };
                        *count = count.saturating_add(1);
                    }
                    let of_group = group.targets.iter().filter_map(|i| self.core.outputs.targets.get(*i));
                    targets.extend(of_group.map(|t| format!("{}.{} ({})", t.database, t.table, t.mode)));
                }
                let schema = &captured.schema;
                let state = match (live, again) {
                    _ if change.is_requested(&schema.database, &schema.table) => TableState::Requested,
                    (true, _) => TableState::Live,
                    (false, true) => TableState::Resync,
                    (false, false) => TableState::Snapshot,
                };
                let table = self.core.table_name(i);
                let snapshot_rows = Some(captured.snapshot_rows);
                TableStatus { table, state, targets, ranges, snapshot_rows, reason: None }
            })
            .collect();
        tables.extend(change.adding());
        tables.sort_by(|a, b| a.table.cmp(&b.table));
        Status {
            pipeline: self.preparer.config.name.clone(),
            running: true,
            era: self.era,
            position: self.core.merge.position().map(ToString::to_string),
            durable: self.core.closed_at.passed.to_string(),
            undecided: self.core.undecided(),
            rows_per_second: Some(self.session.rate.rows_per_second()),
            workers: Some(self.session.workers),
            left_out: self.core.report.quarantined.iter().map(|q| left_out(&q.source, &q.target, &q.reason)).collect(),
            tables,
        }
    }
}
