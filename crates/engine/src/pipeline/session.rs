//! What outlives the attempts of a run: the control socket, and speeds that were set over it.

use std::time::{Duration, Instant};

use super::control::Control;
use super::rate::RowRate;
use crate::delivery::TxnId;

/// What outlives the attempts of a run.
pub(super) struct Session {
    pub(super) control: Control,
    pub(super) rate: RowRate,
    /// Chunk readers.
    pub(super) workers: usize,
    /// The transaction that cannot be followed: the stream ends before it.
    pub(super) barrier: Option<TxnId>,
    began: Instant,
}

impl Session {
    pub(super) fn new(control: Control, rows_per_second: u64, workers: usize) -> Self {
        let rate = RowRate::new(rows_per_second, Duration::ZERO);
        Self { control, rate, workers, barrier: None, began: Instant::now() }
    }

    /// The rate's clock.
    pub(super) fn clock(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }
}
