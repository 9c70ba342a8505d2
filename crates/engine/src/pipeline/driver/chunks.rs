//! Chunks: who reads what next, what came of it, and when one is given up.

use std::sync::Arc;
use std::time::Instant;

use super::Driver;
use crate::checkpoint::Backend;
use crate::merge::{ChunkId, KeyRange, TableId};
use crate::pipeline::error::RunError;
use crate::pipeline::events::HeldRow;
use crate::pipeline::workers::{Access, Failure, Job, Outcome};

impl<B: Backend> Driver<'_, B> {
    pub(super) fn give_up_youngest(&mut self) {
        let Some(chunk) = self.core.merge.youngest_holding() else { return };
        self.smaller_chunks(chunk);
        self.give_up(chunk);
    }

    /// From now on chunks of this one's table have half as many rows.
    fn smaller_chunks(&mut self, chunk: ChunkId) {
        if let Some(table) = self.loop_state.chunks.get(&chunk).copied() {
            let rows = self.loop_state.rows.entry(table).or_insert(self.limits.chunk_rows);
            *rows = (*rows / 2).max(1);
        }
    }

    pub(super) fn give_up(&mut self, chunk: ChunkId) {
        self.loop_state.pending.remove(&chunk);
        self.loop_state.chunks.remove(&chunk);
        if self.core.merge.abandon(chunk) {
            self.core.report.chunks_abandoned = self.core.report.chunks_abandoned.saturating_add(1);
        }
    }

    pub(super) fn outcome(&mut self, outcome: Outcome, now: Instant) -> Result<(), RunError> {
        let (read, rows) = match &outcome {
            Outcome::Chunk { chunk, rows, .. } => (Some(*chunk), u64::try_from(rows.len()).unwrap_or(u64::MAX)),
            Outcome::Failed { chunk, .. } => (*chunk, 0),
            Outcome::Cut { .. } => (None, 0),
        };
        if let Some(paid) = read.and_then(|chunk| self.loop_state.paid.remove(&chunk)) {
            self.session.rate.give_back(paid.saturating_sub(rows));
        }
        match outcome {
            Outcome::Chunk { chunk, lw, rows, bytes, covered, hw } => {
                if !self.core.merge.is_open(chunk) {
                    return Ok(());
                }
                self.loop_state.chunk_backoff.reset();
                let rows = rows.into_iter().map(|(key, row)| (key, HeldRow::Select(row))).collect();
                let merge = &mut self.core.merge;
                let taken = merge.fence(chunk, lw)
                    && match hw {
                        Some(hw) => merge.read(chunk, rows, covered, hw),
                        None => merge.read_at_once(chunk, rows, covered),
                    };
                if !taken {
                    self.give_up(chunk);
                    return Ok(());
                }
                self.loop_state.pending.insert(chunk, bytes);
            }
            Outcome::Cut { id, keys } => {
                self.loop_state.cutting.remove(&id);
                self.loop_state.whole.insert(id);
                for key in keys {
                    self.core.merge.cut(id, &key);
                }
            }
            Outcome::Failed { chunk, id, error } => {
                if let Some(id) = id {
                    // The ranges stay as they are; one reader walks them.
                    self.loop_state.cutting.remove(&id);
                    self.loop_state.whole.insert(id);
                }
                if let Some(chunk) = chunk {
                    if matches!(error, Failure::Locked(_)) {
                        self.smaller_chunks(chunk);
                    }
                    self.give_up(chunk);
                }
                self.chunk_failed(error, now)?;
            }
        }
        Ok(())
    }

    pub(super) fn chunk_failed(&mut self, error: Failure, now: Instant) -> Result<(), RunError> {
        let text = match error {
            Failure::Locked(_) => error.to_string(),
            Failure::OtherServer(uuid) => format!("the source answered as another server ({uuid})"),
            Failure::Data(text) => return Err(RunError::stopped(format!("a snapshot row cannot be read: {text}"))),
            Failure::Read(e) if e.connection().is_none() => {
                return Err(RunError::stopped(format!("a snapshot row cannot be read: {e}")).because(e));
            }
            Failure::Read(e) if e.is_retryable() => e.to_string(),
            Failure::Read(e) => {
                return Err(RunError::stopped(format!(
                    "the source refuses the snapshot: {e}. If a right is missing: GRANT SELECT on the captured tables"
                ))
                .because(e));
            }
            Failure::Wire(e) if e.is_auth() || e.is_access_denied() => {
                return Err(RunError::stopped(format!(
                    "the source refuses the snapshot: {e}; GRANT SELECT on the table"
                ))
                .because(e));
            }
            Failure::Wire(e) if e.server_error().is_some() && !e.is_retryable() => {
                return Err(RunError::stopped(format!("the source refuses the snapshot: {e}")).because(e));
            }
            Failure::Wire(e) => e.to_string(),
            Failure::Hook(broken) => broken.to_string(),
        };
        let pause = self.loop_state.chunk_backoff.next(&mut fastrand::Rng::new());
        tracing::warn!(reason = text, "a chunk is read again later");
        self.loop_state.pause_chunks_until = now.checked_add(pause);
        Ok(())
    }

    /// Gives idle readers their next range.
    pub(super) fn assign(&mut self, now: Instant) {
        if self.loop_state.pause_chunks_until.is_some_and(|until| now < until) || self.loop_state.source.is_none() {
            return;
        }
        while let Some(worker) = self.workers.idle() {
            let pending = self.loop_state.pending.values().fold(0usize, |sum, b| sum.saturating_add(*b));
            let running = self.workers.running().saturating_add(1);
            let need = pending.saturating_add(running.saturating_mul(self.limits.chunk_bytes));
            if need > self.limits.chunks && running > 1 || pending > self.limits.chunks {
                return;
            }
            let Some(job) = self.next_job(now) else { return };
            if !self.workers.give(worker, job) {
                return;
            }
            self.loop_state.snapshot_began.get_or_insert(now);
        }
    }

    /// The next range to read or to cut: the first Unread one. Where there are fewer ranges than idle readers, the range
    /// is cut first, so that the others have work too.
    pub(super) fn next_job(&mut self, now: Instant) -> Option<Job> {
        let idle = self.workers.count().saturating_sub(self.workers.running());
        let mut ranges = 0usize;
        let mut first: Option<(TableId, Arc<Access>, KeyRange)> = None;
        for captured in &self.core.tables {
            for group in &captured.groups {
                let id = group.id;
                if self.loop_state.cutting.contains(&id)
                    || self.core.merge.is_live(id)
                    || !self.core.merge.may_open(id)
                    || !self.core.xa.book.may_open(id)
                {
                    continue;
                }
                let unread = self.core.merge.unread(id);
                ranges = ranges.saturating_add(unread.len());
                if first.is_none() {
                    let schema = &captured.schema;
                    let may = |range: &KeyRange| self.hooks.may_open(&schema.database, &schema.table, range);
                    first = unread.into_iter().find(may).map(|range| (id, Arc::clone(&captured.access), range));
                }
                if first.is_some() && ranges >= idle {
                    break;
                }
            }
        }
        let (id, access, range) = first?;
        if ranges < idle && !self.loop_state.whole.contains(&id) {
            self.loop_state.cutting.insert(id);
            let pieces = idle.saturating_sub(ranges).saturating_add(1);
            return Some(Job::Cut { id, access, range, pieces });
        }
        let rows = self.loop_state.rows.get(&id).copied().unwrap_or(self.limits.chunk_rows);
        // A chunk that nobody pays for is not marked: its changes would be held for nothing.
        let rows = self.session.rate.take(rows, self.session.clock(now))?;
        let Some(opening) = self.core.merge.open(id, range.clone()) else {
            self.session.rate.give_back(rows);
            return None;
        };
        self.loop_state.paid.insert(opening.chunk, rows);
        self.loop_state.chunks.insert(opening.chunk, id);
        // What is left of the range may be cut again.
        self.loop_state.whole.remove(&id);
        Some(Job::Chunk {
            chunk: opening.chunk,
            access,
            range,
            covers: opening.covers,
            decided: self.core.xa.decided(),
            rows,
            bytes: self.limits.chunk_bytes,
        })
    }
}
