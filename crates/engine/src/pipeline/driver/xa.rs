//! What the loop does about XA transactions beside their events.

use std::time::{Duration, Instant, SystemTime};

use super::Driver;
use crate::checkpoint::Backend;
use crate::pipeline::error::RunError;
use crate::pipeline::workers::Failure;
use crate::pipeline::xa_list::Answer;

/// While transactions that were listed stay prepared.
const LIST_EVERY: Duration = Duration::from_millis(250);
/// An XA transaction that is prepared for longer is reported; in seconds.
const OLD: u64 = 3600;
const LOOK_FOR_OLD_EVERY: Duration = Duration::from_secs(1);

impl<B: Backend> Driver<'_, B> {
    /// Has prepared transactions listed, once the stream has passed P0 and while a table waits for it.
    pub(super) fn ask_for_xa(&mut self, now: Instant) {
        if now < self.loop_state.list_xa_at || !self.core.xa.book.wants_list() {
            return;
        }
        let mut groups = self.core.tables.iter().flat_map(|t| &t.groups);
        if groups.any(|group| self.core.merge.may_open(group.id)) {
            self.loop_state.list_xa_at = now.checked_add(LIST_EVERY).unwrap_or(now);
            self.lister.ask();
        }
    }

    pub(super) fn xa_listed(&mut self, answer: Answer) -> Result<(), RunError> {
        match answer {
            Answer::Listed(xids, end) => {
                let prepared = xids.len();
                self.core.xa.book.listed(xids, end);
                if self.core.xa.book.wants_list() && !self.loop_state.told_xa {
                    self.loop_state.told_xa = true;
                    tracing::warn!(
                        prepared,
                        "XA transactions were prepared before this pipeline began: nothing is read before they are committed or \
                         rolled back (XA RECOVER lists them)"
                    );
                }
            }
            Answer::Refused(e) => {
                tracing::warn!(
                    reason = %e,
                    "prepared XA transactions cannot be seen, and one that was prepared before this start stops the run when it \
                     is committed later: GRANT XA_RECOVER_ADMIN ON *.* TO the user of source.url"
                );
                self.core.xa.book.not_listed();
            }
            Answer::Failed(failure @ Failure::OtherServer(_)) => return Err(RunError::away(failure.to_string())),
            Answer::Failed(failure) if failure.may_pass() => {
                tracing::warn!(reason = %failure, "prepared XA transactions are listed again later");
            }
            Answer::Failed(failure) => {
                return Err(RunError::stopped(format!("prepared XA transactions cannot be listed: {failure}")));
            }
        }
        Ok(())
    }

    /// Looks for transactions that stay prepared.
    pub(super) fn report_xa(&mut self, now: Instant) {
        if now < self.loop_state.old_xa_at || self.core.xa.book.undecided().next().is_none() {
            return;
        }
        self.loop_state.old_xa_at = now.checked_add(LOOK_FOR_OLD_EVERY).unwrap_or(now);
        let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.core.report_undecided(clock, OLD);
    }
}
