//! One line of progress on a terminal.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::events::Core;

/// Shows how far the run is, on standard error, if that is a terminal.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    next: Instant,
    last: (Instant, u64),
}

impl Progress {
    pub(super) fn new(now: Instant) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self { bar, next: now, last: (now, 0) }
    }

    pub(super) fn show(&mut self, core: &Core, now: Instant) {
        let Some(bar) = &self.bar else { return };
        if now < self.next {
            return;
        }
        self.next = now.checked_add(Duration::from_millis(250)).unwrap_or(now);
        let rows = core.report.snapshot_rows.saturating_add(core.report.changes_emitted);
        let (since, before) = self.last;
        let seconds = now.duration_since(since).as_secs_f64().max(0.001);
        #[allow(clippy::cast_precision_loss, reason = "a rate for people")]
        let rate = rows.saturating_sub(before) as f64 / seconds;
        if seconds > 2.0 {
            self.last = (now, rows);
        }
        let live = core.tables.iter().filter(|t| t.groups.iter().all(|g| core.merge.is_live(g.id))).count();
        let at = core.merge.position().map_or_else(String::new, ToString::to_string);
        bar.set_message(format!(
            "{live}/{} tables live, {} rows read, {} changes, {rate:.0}/s, at {at}",
            core.tables.len(),
            core.report.snapshot_rows,
            core.report.changes_emitted,
        ));
        bar.tick();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
