//! A target whose rows Doris will not have is left out, while the others go on.

use std::time::{SystemTime, UNIX_EPOCH};

use super::Driver;
use crate::checkpoint::{Backend, Quarantine};
use crate::delivery::{LoadId, TargetState};
use crate::pipeline::error::RunError;
use crate::pipeline::report::Quarantined;
use crate::pipeline::sink::Failed;

impl<B: Backend> Driver<'_, B> {
    /// Leaves out the targets that the output could not write to. Before an epoch is closed or a record written.
    pub(super) fn leave_out_poisoned(&mut self) -> Result<(), RunError> {
        for (target, reason) in core::mem::take(&mut self.core.outputs.poisoned) {
            self.quarantine(target, reason)?;
        }
        Ok(())
    }

    /// What a load or a commit that failed means for the run.
    pub(super) fn sink_failed(&mut self, id: LoadId, failed: Failed, bytes: usize) -> Result<(), RunError> {
        let target = self.core.outputs.targets.iter().position(|t| t.no == id.target);
        // Of a target that is left out already, or of an epoch that it is not part of any more.
        let Some(target) = target.filter(|_| self.core.delivery.has(id)) else { return Ok(()) };
        match failed {
            Failed::Run(e) => Err(e),
            Failed::TooLarge(text) => {
                let half = self.core.outputs.targets.get_mut(target).and_then(|t| t.pace.too_large(bytes));
                match half {
                    Some(bytes) => Err(RunError::away(format!("{text}: sending loads of at most {bytes} bytes"))),
                    None => self.poisoned(target, text),
                }
            }
            Failed::OfTable(text) => self.poisoned(target, text),
        }
    }

    fn poisoned(&mut self, target: usize, text: String) -> Result<(), RunError> {
        self.core.outputs.poison(target, text)?;
        self.leave_out_poisoned()
    }

    fn quarantine(&mut self, index: usize, reason: String) -> Result<(), RunError> {
        let Some(t) = self.core.outputs.targets.get(index) else { return Ok(()) };
        let (no, source) = (t.no, t.source);
        let stands = TargetState {
            ahead: Some(t.last.ahead.clone().unwrap_or_else(|| self.core.closed_at.clone())),
            ..t.last.clone()
        };
        let (pending, before) = self.core.delivery.drop_target(no);
        let stands = before.unwrap_or(stands);
        let at = stands.ahead.clone().unwrap_or_default();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        // Durable before any record that no longer speaks of it.
        self.store.quarantine(self.era, no, stands, Quarantine { at: at.clone(), reason: reason.clone(), since })?;
        if let Some(t) = self.core.outputs.targets.get(index) {
            for txn in pending {
                self.sink.abort(t, txn);
            }
            let source =
                self.core.tables.get(source).map_or_else(String::new, |captured| {
                    format!("{}.{}", captured.schema.database, captured.schema.table)
                });
            let found = Quarantined::new(source, format!("{}.{}", t.database, t.table), &at, reason);
            found.tell();
            self.core.report.quarantined.push(found);
        }
        self.loop_state.committing.retain(|id| id.target != no);
        self.core.leave_out(index);
        let merge = &self.core.merge;
        self.loop_state.pending.retain(|chunk, _| merge.is_open(*chunk));
        self.loop_state.chunks.retain(|chunk, _| merge.is_open(*chunk));
        Ok(())
    }
}
