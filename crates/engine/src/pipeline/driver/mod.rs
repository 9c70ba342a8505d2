//! One attempt of a run: the loop between the source, the chunk readers, the sink and the state.

mod chunks;
mod control;
mod quarantine;
mod tables;
mod xa;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use millstream_binlog::event::Checksum;
use millstream_binlog::{DecoderOptions, EventDecoder, Position};
use millstream_doris_sink::retry::Backoff;
use tokio::sync::watch;

use super::appear::Preparer;
use super::error::{RunError, RunErrorKind};
use super::events::{Core, Flow};
use super::hooks::{Hooks, Point, Subject};
use super::output::Upload;
use super::progress::Progress;
use super::session::Session;
use super::sink::{Sink, SinkEvent};
use super::weigher::{Answers, Weigher};
use super::workers::{Failure, Outcome, Workers};
use super::xa_list::Lister;
pub(super) use tables::Changes;

use crate::checkpoint::{Backend, Store};
use crate::delivery::{LoadId, Passed, PrecommitAge, Step};
use crate::merge::TableId;
use crate::stream::{Batch, SourceReader, StreamEnd, StreamPlan};

/// How long SIGTERM waits for the end of an open transaction.
const STOP_PATIENCE: Duration = Duration::from_secs(30);
/// And for the sink to finish the last epoch.
const SINK_PATIENCE: Duration = Duration::from_secs(120);
/// Events handled before the loop looks at everything else again.
const EVENTS_PER_TURN: usize = 1024;

/// While an event waits for the weights of its keys: how many of those behind it are looked at, and how many texts are asked
/// for at once.
const LOOK_AHEAD_EVENTS: usize = 2000;
const LOOK_AHEAD_TEXTS: usize = 500;

/// When the run ends by itself.
#[derive(Clone, Debug)]
pub(super) enum Goal {
    /// Never.
    None,
    /// When every table is live and these transactions are visible.
    Passed(Passed),
    /// When every table is live and everything up to there is visible.
    Position(Position),
    /// When every table is live.
    Live,
}

/// Limits of one attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Bytes of read-ahead events.
    pub(super) packets: usize,
    /// Bytes of held changes.
    pub(super) held: usize,
    /// Bytes of rows that wait for their high watermark, running readers included.
    pub(super) chunks: usize,
    /// Bytes of batches and bodies.
    pub(super) output: usize,
    /// Bytes of rows of prepared XA transactions; what is more goes to files.
    pub(super) xa: usize,
    /// Bytes of known weights of key text.
    pub(super) weights: usize,
    /// Rows of a chunk.
    pub(super) chunk_rows: u64,
    /// Bytes of a chunk.
    pub(super) chunk_bytes: usize,
    /// Greatest age of an epoch.
    pub(super) interval: Duration,
    /// How long the source may be away before another of its hosts is tried; `None`: there is no other.
    pub(super) away: Option<Duration>,
}

/// Bytes of a chunk, for so many readers that share `chunks`.
pub(super) fn chunk_bytes(chunks: usize, workers: usize) -> usize {
    chunks.checked_div(workers.max(1).saturating_mul(2)).unwrap_or(0).max(64 * 1024)
}

pub(super) struct Driver<'r, B> {
    pub(super) core: Core,
    pub(super) sink: Sink,
    pub(super) store: &'r mut Store<B>,
    pub(super) era: u32,
    pub(super) plan: StreamPlan,
    pub(super) workers: Workers,
    pub(super) weigher: Weigher,
    pub(super) lister: Lister,
    pub(super) limits: Limits,
    pub(super) goal: Goal,
    pub(super) stop: watch::Receiver<bool>,
    pub(super) progress: Progress,
    pub(super) hooks: Hooks,
    pub(super) session: &'r mut Session,
    pub(super) preparer: Arc<Preparer>,
    pub(super) loop_state: LoopState,
}

/// What the loop itself remembers.
pub(super) struct LoopState {
    source: Option<SourceReader>,
    reconnect_at: Option<Instant>,
    /// Since when nothing has come.
    lost_at: Option<Instant>,
    backoff: Backoff,
    /// Events of the current batch that are not judged yet; the batch keeps their share of the budget.
    backlog: VecDeque<Bytes>,
    batch: Option<Batch>,
    outcomes: VecDeque<Outcome>,
    /// Tables of which a range is being cut: nothing of theirs is read meanwhile.
    cutting: BTreeSet<TableId>,
    /// Tables whose first Unread range was just looked at: it is read before it is cut again.
    whole: BTreeSet<TableId>,
    /// Rows per chunk where held changes forced smaller ones.
    rows: BTreeMap<TableId, u64>,
    /// Bytes of chunks that were read and have not entered.
    pending: BTreeMap<crate::merge::ChunkId, usize>,
    chunks: BTreeMap<crate::merge::ChunkId, TableId>,
    pause_chunks_until: Option<Instant>,
    /// When prepared XA transactions are listed again, and when it is looked for old ones.
    list_xa_at: Instant,
    old_xa_at: Instant,
    told_xa: bool,
    chunk_backoff: Backoff,
    committing: BTreeSet<LoadId>,
    uploading_bytes: usize,
    /// Loads of some columns, which wait until the epoch before theirs is committed.
    waiting_uploads: Vec<Upload>,
    last_close: Instant,
    began: Instant,
    snapshot_began: Option<Instant>,
    /// The run is ending: nothing new is read, the epoch is closed.
    ending: bool,
    stop_seen: Option<Instant>,
    /// An event that cannot be followed: why the run ends once everything before it is delivered.
    stopped: Option<RunError>,
    leftovers_at: Instant,
    /// Whether it was said that loads wait for their commit for long.
    precommit_warned: bool,
    /// Rows that chunks on their way have paid for.
    paid: BTreeMap<crate::merge::ChunkId, u64>,
    pub(super) change: Changes,
    /// A change waits until everything judged is committed: nothing more is judged, no chunk begins or enters.
    pausing: bool,
}

impl LoopState {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            source: None,
            reconnect_at: Some(now),
            lost_at: None,
            backoff: Backoff::new(Duration::from_millis(100), Duration::from_secs(30)),
            backlog: VecDeque::new(),
            batch: None,
            outcomes: VecDeque::new(),
            cutting: BTreeSet::new(),
            whole: BTreeSet::new(),
            rows: BTreeMap::new(),
            pending: BTreeMap::new(),
            chunks: BTreeMap::new(),
            pause_chunks_until: None,
            list_xa_at: now,
            old_xa_at: now,
            told_xa: false,
            chunk_backoff: Backoff::new(Duration::from_millis(100), Duration::from_secs(10)),
            committing: BTreeSet::new(),
            uploading_bytes: 0,
            waiting_uploads: Vec::new(),
            last_close: now,
            began: now,
            snapshot_began: None,
            ending: false,
            stop_seen: None,
            stopped: None,
            leftovers_at: now.checked_add(Duration::from_secs(60)).unwrap_or(now),
            precommit_warned: false,
            paid: BTreeMap::new(),
            change: Changes::default(),
            pausing: false,
        }
    }
}

/// A decoder at the start of a stream.
pub(super) fn stream_decoder() -> EventDecoder {
    EventDecoder::new(DecoderOptions { stream_checksum: Some(Checksum::Crc32), ..DecoderOptions::default() })
}

impl<B: Backend> Driver<'_, B> {
    /// Runs until the goal, a stop, or an error.
    pub(super) async fn run(&mut self) -> Result<(), RunError> {
        let mut tick = tokio::time::interval(Duration::from_millis(50));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            let now = Instant::now();
            self.leave_out_poisoned()?;
            if !self.core.is_inside() {
                self.at(Point::Boundary).await?;
                self.boundary(now).await?;
            }
            self.make_room()?;
            self.send_uploads();
            self.deliver().await?;
            self.make_changes().await?;
            if self.is_finished().await? {
                return self.loop_state.stopped.take().map_or(Ok(()), Err);
            }
            self.turn(&mut tick).await?;
        }
    }

    /// A place of the driver's own is reached.
    async fn at(&self, point: Point) -> Result<(), RunError> {
        Ok(self.hooks.at(point, Subject::Stream { position: self.core.merge.position() }).await?)
    }

    async fn turn(&mut self, tick: &mut tokio::time::Interval) -> Result<(), RunError> {
        let may_read = self.may_read();
        let has_backlog = !self.loop_state.backlog.is_empty() || self.core.is_paused();
        let wants_batch = may_read && !has_backlog && self.loop_state.source.is_some();
        tokio::select! {
            biased;
            event = self.sink.next(), if self.sink.is_busy() => self.sink_event(event)?,
            outcome = self.workers.next() => self.loop_state.outcomes.push_back(outcome),
            answers = self.weigher.next(), if self.weigher.is_busy() => self.weighed(answers)?,
            asked = self.session.control.next() => self.asked(asked)?,
            (key, prepared) = self.loop_state.change.next(), if self.loop_state.change.is_preparing() => {
                self.prepared(key, prepared);
            }
            answer = self.lister.next(), if self.lister.is_busy() => self.xa_listed(answer)?,
            _ = tick.tick() => self.ticked()?,
            () = core::future::ready(()), if may_read && has_backlog && !self.core.is_waiting() => self.events()?,
            batch = next_batch(&mut self.loop_state.source), if wants_batch => self.batch(batch).await?,
        }
        Ok(())
    }

    /// Whether more of the stream may be judged now.
    fn may_read(&self) -> bool {
        let closing = self.loop_state.ending || self.loop_state.pausing || self.core.outputs.close_soon;
        if closing && !self.core.is_inside() {
            return false;
        }
        self.output_bytes() < self.limits.output && self.hooks.may_judge()
    }

    fn output_bytes(&self) -> usize {
        self.core.outputs.memory().saturating_add(self.loop_state.uploading_bytes)
    }

    /// Judges events of the backlog until something else has to be done.
    fn events(&mut self) -> Result<(), RunError> {
        for _ in 0..EVENTS_PER_TURN {
            let next = if self.core.is_paused() {
                self.core.go_on()
            } else {
                let Some(raw) = self.loop_state.backlog.pop_front() else { break };
                self.core.event(&raw)
            };
            let flow = match next {
                Ok(flow) => flow,
                Err(e) if e.kind() == RunErrorKind::Stopped && self.core.step_back() => {
                    // What came before it is delivered first.
                    self.loop_state.stopped = Some(e);
                    self.loop_state.ending = true;
                    self.loop_state.backlog.clear();
                    break;
                }
                Err(e) => return Err(e.inside(self.core.open_transaction())),
            };
            if self.core.is_waiting() {
                self.ask_for_weights();
                break;
            }
            if !self.core.outputs.uploads.is_empty() || !self.core.outputs.poisoned.is_empty() {
                break;
            }
            if flow == Flow::Boundary
                && (!self.loop_state.outcomes.is_empty()
                    || self.core.merge.entry_due().is_some()
                    || self.core.outputs.close_soon
                    || self.loop_state.ending
                    || self.loop_state.change.is_any())
            {
                break;
            }
            if self.core.merge.held_bytes() > self.limits.held {
                self.give_up_youngest();
            }
        }
        if self.loop_state.backlog.is_empty() && !self.core.is_paused() {
            self.loop_state.batch = None;
        }
        Ok(())
    }

    /// Asks for what the event that waits needs, and for what those behind it will need.
    fn ask_for_weights(&mut self) {
        let Self { core, loop_state, .. } = self;
        for raw in loop_state.backlog.iter().take(LOOK_AHEAD_EVENTS) {
            if core.weights.wanted() >= LOOK_AHEAD_TEXTS {
                break;
            }
            core.look_ahead(raw);
        }
        self.weigher.ask(|| core.weights.questions());
    }

    fn weighed(&mut self, answers: Answers) -> Result<(), RunError> {
        match answers {
            Ok(answers) => self.core.weights.answered(answers),
            Err(failure @ Failure::OtherServer(_)) => return Err(RunError::away(failure.to_string())),
            Err(failure) if failure.may_pass() => return Err(RunError::away(failure.to_string()).source_lost()),
            Err(failure) => {
                return Err(RunError::stopped(format!(
                    "the weights of keys, by which text is ordered, cannot be had: {failure}"
                )));
            }
        }
        Ok(())
    }

    async fn batch(&mut self, batch: Option<Result<Batch, StreamEnd>>) -> Result<(), RunError> {
        match batch {
            Some(Ok(mut batch)) => {
                self.loop_state.backoff.reset();
                self.loop_state.lost_at = None;
                self.loop_state.backlog.extend(core::mem::take(&mut batch.events));
                self.loop_state.batch = Some(batch);
                Ok(())
            }
            Some(Err(StreamEnd::OtherServer(uuid))) => Err(RunError::away(format!(
                "the source is another server now ({uuid} instead of {}): going back to the last durable record",
                self.plan.server_uuid
            ))),
            Some(Err(StreamEnd::Read(e))) => {
                self.source_lost(&e.to_string(), Duration::ZERO);
                Ok(())
            }
            Some(Err(StreamEnd::Wire(e))) => self.lost(e).await,
            None => {
                self.source_lost("the source ended the stream", Duration::ZERO);
                Ok(())
            }
        }
    }

    async fn lost(&mut self, e: millstream_wire::Error) -> Result<(), RunError> {
        if e.server_error().is_some_and(|e| e.message.contains("more GTIDs than")) {
            // A transaction can be sent before the source lists it as executed. The next start waits for that, and
            // stops by name if the source really lacks it.
            return Err(RunError::away(format!("the source does not list what it sent: {e}")).because(e));
        }
        if e.is_position_lost() {
            if self.limits.away.is_some() {
                return Err(RunError::away(format!("the source has purged binlogs that are needed: {e}")).source_lost());
            }
            let from = self.core.xa.book.read_from(self.core.merge.judged());
            let missing = super::start::missing_set(&self.plan, &from).await;
            return Err(RunError::stopped(format!(
                "the source has purged binlogs that this pipeline still needs (missing transactions: {}); begin again with \
                 a new state directory and on_existing = \"truncate\", and keep binlogs longer \
                 (binlog_expire_logs_seconds)",
                missing.unwrap_or_else(|| "unknown".to_owned())
            ))
            .because(e));
        }
        if e.is_auth() || e.is_access_denied() {
            return Err(RunError::stopped(format!(
                "the source refuses the stream: {e}. Grant it: GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO the user \
                 of source.url"
            ))
            .because(e));
        }
        if e.is_duplicate_replica() {
            tracing::warn!(
                server_id = self.plan.server_id,
                replica_uuid = self.plan.replica_uuid,
                "another replica uses the same server_id or uuid: is this pipeline running twice? set source.server_id, or \
                 stop the other one; trying again later"
            );
        }
        if !(e.is_retryable() || e.is_transport() || e.is_duplicate_replica() || e.is_connect()) {
            return Err(RunError::stopped(format!("the source ended the stream: {e}")).because(e));
        }
        // Two that end each other's stream must not do it many times a second.
        let least = if e.is_duplicate_replica() { Duration::from_secs(5) } else { Duration::ZERO };
        self.source_lost(&e.to_string(), least);
        Ok(())
    }

    /// The stream will be opened again from the last whole transaction, `least` from now at the earliest; chunks begin
    /// again.
    fn source_lost(&mut self, why: &str, least: Duration) {
        self.loop_state.source = None;
        self.core.connection_lost(stream_decoder());
        for chunk in self.core.merge.abandon_all() {
            self.give_up(chunk);
            self.core.report.chunks_abandoned = self.core.report.chunks_abandoned.saturating_add(1);
        }
        let pause = self.loop_state.backoff.next(&mut fastrand::Rng::new()).max(least);
        tracing::warn!(
            reason = why,
            retry_in_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
            "the source is away"
        );
        let now = Instant::now();
        self.loop_state.lost_at.get_or_insert(now);
        self.loop_state.reconnect_at = now.checked_add(pause);
    }

    fn ticked(&mut self) -> Result<(), RunError> {
        let now = Instant::now();
        if self.loop_state.reconnect_at.is_some_and(|at| now >= at)
            && (!self.loop_state.ending || self.core.is_inside())
        {
            self.loop_state.reconnect_at = None;
            let judged = self.core.xa.book.read_from(self.core.merge.judged());
            self.loop_state.source = Some(SourceReader::open(self.plan.clone(), judged, self.limits.packets));
        }
        if let (Some(since), Some(limit)) = (self.loop_state.lost_at, self.limits.away)
            && now.duration_since(since) > limit
        {
            return Err(RunError::away("the source is away: trying its next host").source_lost());
        }
        if *self.stop.borrow() && self.loop_state.stop_seen.is_none() {
            tracing::info!("stopping: finishing the epoch");
            self.loop_state.stop_seen = Some(now);
            self.loop_state.ending = true;
        }
        if let Some(seen) = self.loop_state.stop_seen
            && self.core.is_inside()
            && now.duration_since(seen) > STOP_PATIENCE
        {
            return Err(RunError::stopped(
                "stopped inside a transaction that did not end in time; it begins again at the next start",
            ));
        }
        if self.loop_state.stop_seen.is_some_and(|seen| now.duration_since(seen) > SINK_PATIENCE) {
            return Err(RunError::stopped(
                "stopped while the sink did not answer: what it has not committed is sent again at the next start",
            ));
        }
        let clock = self.clock(now);
        match self.core.delivery.precommit_age(clock) {
            PrecommitAge::Fine => self.loop_state.precommit_warned = false,
            PrecommitAge::Old { ms } if !self.loop_state.precommit_warned => {
                self.loop_state.precommit_warned = true;
                tracing::warn!(
                    minutes = ms / 60_000,
                    "loads have waited for their commit for long: Doris drops them after an hour"
                );
            }
            PrecommitAge::Old { .. } => {}
            PrecommitAge::TooOld => {
                return Err(RunError::away("an epoch has been pre-committed for too long: uploading it again"));
            }
        }
        if now >= self.loop_state.leftovers_at {
            self.loop_state.leftovers_at = now.checked_add(Duration::from_secs(600)).unwrap_or(now);
            self.sink.abort_leftovers(self.era);
        }
        self.report_xa(now);
        self.progress.show(&self.core, now);
        Ok(())
    }

    fn clock(&self, now: Instant) -> u64 {
        u64::try_from(now.duration_since(self.loop_state.began).as_millis()).unwrap_or(u64::MAX)
    }

    /// Everything that belongs between transactions.
    async fn boundary(&mut self, now: Instant) -> Result<(), RunError> {
        while let Some(outcome) = self.loop_state.outcomes.pop_front() {
            self.outcome(outcome, now)?;
            self.at(Point::Read).await?;
        }
        self.consider_changes(now);
        let pausing = self.loop_state.pausing;
        if !pausing && self.core.merge.entry_due().is_some() {
            self.at(Point::BeforeEntry).await?;
        }
        let was_live = self.core.is_live();
        let entered = if pausing { 0 } else { self.core.entries()? };
        let open = &self.core.merge;
        // Of some that are read again nobody was told.
        self.loop_state.pending.retain(|chunk, _| open.is_open(*chunk));
        if entered > 0 {
            let merge = &self.core.merge;
            self.loop_state.pending.retain(|chunk, _| merge.is_open(*chunk));
            self.loop_state.chunks.retain(|chunk, _| merge.is_open(*chunk));
            if !was_live && self.core.is_live() {
                let seconds =
                    self.loop_state.snapshot_began.take().map_or(0.0, |at| now.duration_since(at).as_secs_f64());
                self.core.report.snapshot_seconds += seconds;
                tracing::info!(rows = self.core.report.snapshot_rows, seconds, "every table is live");
            }
            self.at(Point::AfterEntry).await?;
        }
        self.leave_out_poisoned()?;
        if !self.loop_state.ending {
            if self.goal_reached() {
                self.loop_state.ending = true;
            } else if !pausing {
                self.ask_for_xa(now);
                self.assign(now);
            }
        }
        let due = now.duration_since(self.loop_state.last_close) >= self.limits.interval;
        let close = due || self.loop_state.ending || pausing || self.core.outputs.close_soon;
        if close && self.core.delivery.may_close() {
            self.sink.flush_lines(&mut self.core.outputs.lines)?;
            self.core.hold_back(self.clock(now), self.loop_state.ending || pausing);
            if self.core.close_epoch(self.sink.output_bytes())? {
                self.loop_state.last_close = now;
            }
        }
        Ok(())
    }

    fn goal_reached(&self) -> bool {
        if !self.core.is_live() || self.loop_state.change.is_any() {
            return false;
        }
        match &self.goal {
            Goal::None => false,
            Goal::Live => true,
            Goal::Passed(wanted) => self.core.merge.judged().is_superset(wanted),
            Goal::Position(at) => self.core.merge.position().is_some_and(|here| here >= at),
        }
    }

    /// Cuts loads where batches take too much.
    fn make_room(&mut self) -> Result<(), RunError> {
        while self.core.outputs.memory() > self.limits.output / 2 {
            let Some(target) = self.core.outputs.largest() else { break };
            if self.core.outputs.targets.get(target).is_some_and(|t| t.patched) && !self.core.is_inside() {
                self.core.outputs.close_soon = true;
                break;
            }
            self.core.cut(target)?;
            self.send_uploads();
        }
        if self.core.outputs.lines.len() >= self.core.outputs.flush_bytes {
            self.sink.flush_lines(&mut self.core.outputs.lines)?;
        }
        Ok(())
    }

    fn send_uploads(&mut self) {
        let new = core::mem::take(&mut self.core.outputs.uploads);
        for upload in &new {
            self.loop_state.uploading_bytes = self.loop_state.uploading_bytes.saturating_add(upload.body.len());
        }
        let waiting = core::mem::take(&mut self.loop_state.waiting_uploads);
        for upload in waiting.into_iter().chain(new) {
            // Rows that are changed in part must find the rows that earlier epochs brought.
            let delivery = &self.core.delivery;
            if upload.columns.is_some() && upload.id.epoch >= delivery.filling() && !delivery.is_idle() {
                self.loop_state.waiting_uploads.push(upload);
                continue;
            }
            let Some(target) = self.core.outputs.targets.get(upload.target) else { continue };
            self.sink.upload(target, upload);
        }
    }

    fn sink_event(&mut self, event: SinkEvent) -> Result<(), RunError> {
        match event {
            SinkEvent::Uploaded { id, bytes, result } => {
                self.loop_state.uploading_bytes = self.loop_state.uploading_bytes.saturating_sub(bytes);
                let uploaded = match result {
                    Ok(uploaded) => uploaded,
                    Err(failed) => return self.sink_failed(id, failed, bytes),
                };
                let clock = self.clock(Instant::now());
                let target = self.core.outputs.targets.iter_mut().find(|t| t.no == id.target);
                match target {
                    Some(t) if self.core.delivery.has(id) => {
                        t.pace.loaded(uploaded.too_many_versions, clock, &mut fastrand::Rng::new());
                        self.core.delivery.precommitted(id, uploaded.txn, clock);
                    }
                    // Its target was left out meanwhile.
                    Some(t) => self.sink.abort(t, uploaded.txn),
                    None => {}
                }
            }
            SinkEvent::Committed { id, result } => {
                let txn = match result {
                    Ok(txn) => txn,
                    // What was written ahead cannot be cut any more.
                    Err(failed) => return self.sink_failed(id, failed, 0),
                };
                let target = self.core.outputs.targets.iter().find(|t| t.no == id.target);
                if let (Some(target), Some(txn)) = (target, txn) {
                    self.sink.remember(target, txn);
                }
                self.loop_state.committing.remove(&id);
                self.core.delivery.committed(id);
                self.core.report.loads = self.core.report.loads.saturating_add(1);
            }
            SinkEvent::Swept | SinkEvent::Aborted => {}
        }
        Ok(())
    }

    /// Record, commit, mark: whatever the epoch's next step is.
    async fn deliver(&mut self) -> Result<(), RunError> {
        loop {
            match self.core.delivery.step() {
                Step::Write(record) => {
                    let here = Subject::Record { epoch: record.epoch };
                    self.hooks.at(Point::BeforeRecord, here).await?;
                    let permit = self.store.write_record(self.era, &record)?;
                    self.core.delivery.recorded(permit);
                    self.hooks.at(Point::AfterRecord, here).await?;
                }
                Step::Commit(loads) => {
                    let mut started = false;
                    for (id, txn) in loads {
                        if self.loop_state.committing.insert(id) {
                            let target = self.core.outputs.targets.iter().find(|t| t.no == id.target);
                            let load = self.core.delivery.label(id);
                            if let (Some(target), Some(permit), Some(load)) =
                                (target, self.core.delivery.permit(), load)
                            {
                                self.sink.commit(permit, target, id, txn, load);
                                started = true;
                            }
                        }
                    }
                    if !started {
                        return Ok(());
                    }
                }
                Step::Mark(epoch) => {
                    let here = Subject::Record { epoch };
                    self.hooks.at(Point::BeforeMark, here).await?;
                    self.store.mark_committed(self.era, epoch)?;
                    self.hooks.at(Point::AfterMark, here).await?;
                    self.sink.forget(self.core.delivery.labels(epoch));
                    self.core.delivery.marked();
                    self.core.report.epochs = self.core.report.epochs.saturating_add(1);
                }
                _ => return Ok(()),
            }
        }
    }

    async fn is_finished(&mut self) -> Result<bool, RunError> {
        let idle = self.loop_state.ending
            && !self.core.is_inside()
            && self.core.delivery.is_idle()
            && self.core.is_clean()
            && !self.sink.is_aborting()
            && self.loop_state.uploading_bytes == 0;
        if idle {
            self.sink.wait_visible().await?;
        }
        Ok(idle)
    }
}

async fn next_batch(source: &mut Option<SourceReader>) -> Option<Result<Batch, StreamEnd>> {
    match source {
        Some(source) => source.next().await,
        None => core::future::pending().await,
    }
}
