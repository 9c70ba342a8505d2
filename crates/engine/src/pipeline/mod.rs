//! Runs a pipeline: starts it, keeps it going over lost connections, and ends it cleanly.
//!
//! [`run`] repeats attempts. Each attempt begins at the last durable record (`start`), then loops (`driver`) between
//! the source, the chunk readers, the sink and the state. Events become rows of loads in `events` and `output`.

mod appear;
pub mod control;
mod driver;
mod error;
mod events;
pub mod hooks;
mod hosts;
mod output;
mod pace;
mod progress;
mod rate;
mod report;
mod resync;
mod session;
mod sink;
mod spill;
mod start;
mod weigher;
mod weights;
mod workers;
pub(crate) mod xa_list;
mod xa_rows;

use std::time::{Duration, Instant};

use millstream_binlog::TableSchema;
use millstream_doris_sink::retry::Backoff;
use tokio::sync::watch;

pub use error::{RunError, RunErrorKind};
pub use report::{Quarantined, Report};

use control::Control;
use hooks::Hooks;
use session::Session;

use crate::checkpoint::{FileBackend, Store, StoreError};
use crate::config::{Config, Until};
use crate::delivery::TxnId;
use crate::merge::Rules;
#[cfg(feature = "mutants")]
use crate::snapshot::dialect::Dialect;
use crate::snapshot::fence::Fence;

/// A source table as its targets know it: without the columns with these ordinals (ascending, none of the key).
pub(crate) fn shown_schema(schema: &TableSchema, excluded: &[usize]) -> TableSchema {
    output::Shown::new(schema, excluded).schema
}

/// How `run` was called.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Where the run ends; `None`: never.
    pub until: Option<Until>,
    /// Where a test looks, waits, or breaks something; by default nowhere.
    pub hooks: Hooks,
    /// Rules of the snapshot that are broken.
    #[cfg(feature = "mutants")]
    pub rules: Rules,
    /// Chunks are read in this way, which the server must be able to, instead of the best one.
    #[cfg(feature = "mutants")]
    pub dialect: Option<Dialect>,
    /// Chunks are read plainly, without a fence ([`Fence::broken`]).
    #[cfg(feature = "mutants")]
    pub unfenced: bool,
}

impl RunOptions {
    #[cfg(feature = "mutants")]
    const fn rules(&self) -> Rules {
        self.rules
    }

    #[cfg(not(feature = "mutants"))]
    #[allow(clippy::unused_self, reason = "as with the feature")]
    const fn rules(&self) -> Rules {
        Rules::NONE_BROKEN
    }

    #[cfg(feature = "mutants")]
    pub(super) const fn fence(&self, fence: Fence) -> Fence {
        match self.dialect {
            _ if self.unfenced => Fence { dialect: Dialect::ExecutedSet, kind: fence.kind, broken: true },
            Some(dialect) => Fence::new(dialect, fence.kind),
            None => fence,
        }
    }

    #[cfg(not(feature = "mutants"))]
    #[allow(clippy::unused_self, reason = "as with the feature")]
    pub(super) const fn fence(&self, fence: Fence) -> Fence {
        fence
    }
}

/// Runs the pipeline until its end, a signal (SIGTERM, SIGINT), or an error that needs a person.
///
/// # Errors
/// [`RunErrorKind::Refused`] before anything was changed, [`RunErrorKind::Stopped`] after.
pub async fn run(config: &Config, options: &RunOptions) -> Result<Report, RunError> {
    let stop = stop_on_signals()?;
    let backend = open_state(config).await?;
    let mut store = Store::new(backend);
    let snapshot = &config.snapshot;
    let mut session = Session::new(Control::open(&config.state_dir), snapshot.rows_per_second, snapshot.workers);
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(30));
    let mut carried = start::Carried::new(&config.source);
    carried.total.guarantee = config.guarantee();
    // The transaction that cannot be followed, and why.
    let mut barrier: Option<(TxnId, RunError)> = None;
    loop {
        let began = Instant::now();
        session.barrier = barrier.as_ref().map(|(txn, _)| txn.clone());
        let attempt = start::attempt(config, options, &mut store, &mut session, &mut carried, stop.clone());
        let ended = tokio::select! {
            ended = Box::pin(attempt) => ended,
            () = options.hooks.death() => return Err(RunError::stopped("a hook ended the run")),
            () = overdue(stop.clone()) => Err(RunError::stopped(
                "stopped while the source or the sink did not answer; the next start goes on from the last durable record",
            )),
        };
        let error = match (ended, barrier.take()) {
            (Err(e), barred) if e.kind() == RunErrorKind::Away => {
                barrier = barred;
                e
            }
            // However it ended: nothing behind the barrier can be delivered.
            (_, Some((_, stopped))) => return Err(stopped),
            (Ok(()), None) => return Ok(carried.total),
            (Err(e), None) => {
                let Some(txn) = e.stopped_inside() else { return Err(e) };
                // Rows of the transaction are among those of earlier ones: once more, and only up to it, so that what came
                // before is delivered.
                barrier = Some((txn, e));
                continue;
            }
        };
        if *stop.borrow() {
            return Err(error.for_good());
        }
        if error.is_source_lost() {
            carried.hosts.next();
        }
        if began.elapsed() > Duration::from_secs(60) {
            backoff.reset();
        }
        carried.total.restarts = carried.total.restarts.saturating_add(1);
        let pause = backoff.next(&mut fastrand::Rng::new());
        tracing::warn!(
            reason = %error,
            retry_in_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
            "beginning again from the last durable record"
        );
        session.control.set_phase(format!("waits, and will begin again from the last durable record ({error})"));
        let mut stop = stop.clone();
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stop.changed() => return Err(error.for_good()),
        }
        session.control.set_phase("is starting");
    }
}

/// Opens the state. `millstream status` and `resync` hold it for a moment where no engine runs.
async fn open_state(config: &Config) -> Result<FileBackend, RunError> {
    let mut tries = 0u32;
    loop {
        match FileBackend::open(&config.state_dir) {
            Err(StoreError::Locked { .. }) if tries < 20 => {
                tries = tries.saturating_add(1);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            opened => return opened.map_err(|e| RunError::refused(e.to_string())),
        }
    }
}

/// Long after a stop was asked for: an attempt ends by itself well before, unless a peer keeps it waiting.
async fn overdue(mut stop: watch::Receiver<bool>) {
    // The sender lives as long as the process.
    if stop.wait_for(|stop| *stop).await.is_err() {
        return std::future::pending().await;
    }
    tokio::time::sleep(Duration::from_secs(150)).await;
}

fn stop_on_signals() -> Result<watch::Receiver<bool>, RunError> {
    use tokio::signal::unix::{SignalKind, signal};
    let (sender, receiver) = watch::channel(false);
    let failed = |e: std::io::Error| RunError::refused(format!("signals cannot be handled: {e}"));
    let mut term = signal(SignalKind::terminate()).map_err(failed)?;
    let mut int = signal(SignalKind::interrupt()).map_err(failed)?;
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        sender.send_replace(true);
        // The sender stays: a receiver would take its end for a change.
        core::future::pending::<()>().await;
        drop(sender);
    });
    Ok(receiver)
}
