//! The sinks' drivers: loads and commits run beside the loop and tell it how they ended.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use millstream_doris_sink::classify::CommitOutcome;
use millstream_doris_sink::client::{DorisClient, Load, LoadStyle, Loaded};
use millstream_doris_sink::request::{TwoPhase, TxnRef};
use millstream_doris_sink::retry::Backoff;
use millstream_doris_sink::txn::{TxnFact as Seen, TxnStatus};
use millstream_doris_sink::{Format, GroupCommit, Label, SinkError};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::error::RunError;
use super::hooks::{Hooks, Point, Subject};
use super::output::{Target, Upload};
use super::spill::{Head, Spill};
use crate::config::{self, Config};
use crate::delivery::{CommitPermit, LoadId, LoadRecord, TargetNo, TxnFact, is_leftover};

/// Loads on their way at the same time.
const CONCURRENT_LOADS: usize = 8;
/// Loads that are read back from the state directory at the same time.
const CONCURRENT_AHEAD: usize = 2;
/// How often a load is sent that Doris refuses for its rows or its table.
const TABLE_TRIES: u32 = 3;
/// How long the end of a run waits for its last transactions to become visible.
const VISIBLE_PATIENCE: Duration = Duration::from_secs(120);

/// Something a sink finished.
#[derive(Debug)]
pub(super) enum SinkEvent {
    /// A load is PRECOMMITTED under this transaction, or failed for good.
    Uploaded { id: LoadId, bytes: usize, result: Result<Uploaded, Failed> },
    /// A transaction is committed, or cannot be.
    Committed { id: LoadId, result: Result<Option<u64>, Failed> },
    /// A transaction was aborted.
    Aborted,
    /// Old transactions were looked for.
    Swept,
}

/// A load that is PRECOMMITTED.
#[derive(Clone, Copy, Debug)]
pub(super) struct Uploaded {
    pub(super) txn: u64,
    /// How often the table had too many versions.
    pub(super) too_many_versions: u32,
}

/// Why a load or a commit did not work.
#[derive(Debug)]
pub(super) enum Failed {
    /// It is nothing that the table did.
    Run(RunError),
    /// The load must be smaller.
    TooLarge(String),
    /// The table, or what is in the rows: again and again.
    OfTable(String),
}

impl Failed {
    fn of(table: &str, e: SinkError) -> Self {
        if e.wants_split() {
            Self::TooLarge(format!("{table}: {e}"))
        } else if e.is_of_table() {
            Self::OfTable(format!("{table}: {e}"))
        } else {
            Self::Run(failed(table, e))
        }
    }
}

impl<E: Into<RunError>> From<E> for Failed {
    fn from(e: E) -> Self {
        Self::Run(e.into())
    }
}

/// Where rows go.
pub(super) enum Sink {
    Doris(DorisSink),
    Jsonl(JsonlSink),
}

/// How loads become visible.
#[derive(Clone, Debug)]
pub(super) enum Promise {
    /// In two phases: PRECOMMITTED, record, commit.
    TwoPhases,
    /// In one phase, under a label and with bytes that are durable before: kept, record, load.
    Ahead(Spill),
    /// In one phase, then the record.
    AtLeastOnce(GroupCommit),
}

impl Promise {
    pub(super) fn of(config: &Config) -> Self {
        match &config.sink {
            config::Sink::Doris(doris) if doris.delivery == config::Delivery::Label => {
                Self::Ahead(Spill::new(&config.state_dir))
            }
            config::Sink::Doris(doris) if doris.delivery == config::Delivery::AtLeastOnce => {
                Self::AtLeastOnce(doris.group_commit)
            }
            _ => Self::TwoPhases,
        }
    }
}

/// Stream Loads.
pub(super) struct DorisSink {
    client: Arc<DorisClient>,
    promise: Promise,
    pipeline: u64,
    databases: Vec<String>,
    tasks: JoinSet<SinkEvent>,
    /// Aborts among them.
    aborts: usize,
    slots: Arc<Semaphore>,
    ahead_slots: Arc<Semaphore>,
    last: BTreeMap<TargetNo, (String, u64)>,
    hooks: Hooks,
}

/// Lines to a file or to standard output.
pub(super) struct JsonlSink {
    out: Box<dyn std::io::Write + Send>,
    file: Option<std::fs::File>,
    written: u64,
}

impl Sink {
    pub(super) fn is_busy(&self) -> bool {
        match self {
            Self::Doris(doris) => !doris.is_empty(),
            Self::Jsonl(_) => false,
        }
    }

    /// The last transaction of a target, which the end of the run waits for.
    pub(super) fn remember(&mut self, target: &Target, txn: u64) {
        if let Self::Doris(doris) = self {
            doris.last.insert(target.no, (target.database.clone(), txn));
        }
    }

    /// Whether transactions are being aborted.
    pub(super) fn is_aborting(&self) -> bool {
        matches!(self, Self::Doris(doris) if doris.aborts > 0)
    }

    /// What finished next. Cancel-safe.
    pub(super) async fn next(&mut self) -> SinkEvent {
        match self {
            Self::Doris(doris) => match doris.tasks.join_next().await {
                Some(Ok(event)) => {
                    if matches!(event, SinkEvent::Aborted) {
                        doris.aborts = doris.aborts.saturating_sub(1);
                    }
                    event
                }
                // A task never panics by itself; a cancelled one belongs to an attempt that is over.
                Some(Err(_)) | None => core::future::pending().await,
            },
            Self::Jsonl(_) => core::future::pending().await,
        }
    }

    pub(super) fn upload(&mut self, target: &Target, upload: Upload) {
        let Self::Doris(doris) = self else { return };
        let (client, slots) = (Arc::clone(&doris.client), Arc::clone(&doris.slots));
        let hooks = doris.hooks.clone();
        let (database, table) = (target.database.clone(), target.table.clone());
        let partial = upload.columns.is_some();
        let columns = upload.columns.unwrap_or_else(|| target.columns.clone());
        // What the rows of such a load lack is read from the table, which must show everything that came before.
        let before = doris.last.get(&target.no).filter(|_| partial).cloned();
        let promise = doris.promise.clone();
        let format = target.format;
        doris.tasks.spawn(async move {
            let bytes = upload.body.len();
            if let Promise::Ahead(spill) = promise {
                let here = Subject::Load { load: upload.id, database: &database, table: &table };
                let result = async {
                    hooks.at(Point::BeforeLoad, here).await?;
                    let head = Head { columns, csv: format == Format::Csv, partial, rows: upload.rows };
                    keep(spill, upload.label, head, upload.body).await?;
                    hooks.at(Point::AfterLoad, here).await?;
                    Ok(Uploaded { txn: LoadRecord::AHEAD, too_many_versions: 0 })
                };
                let result = result.await;
                return SinkEvent::Uploaded { id: upload.id, bytes, result };
            }
            if let Some((database, txn)) = &before
                && let Err(error) = visible(&client, database, *txn).await
            {
                return SinkEvent::Uploaded { id: upload.id, bytes, result: Err(error.into()) };
            }
            let _slot = slots.acquire_owned().await;
            let load = Load {
                database: &database,
                table: &table,
                label: upload.label,
                columns: &columns,
                partial,
                body: upload.body,
                rows: upload.rows,
                two_phase: if matches!(promise, Promise::TwoPhases) { TwoPhase::Yes } else { TwoPhase::No },
            };
            let group_commit = if let Promise::AtLeastOnce(group) = promise { group } else { GroupCommit::Off };
            let style = LoadStyle { format, group_commit };
            let here = Subject::Load { load: upload.id, database: &database, table: &table };
            let result = async {
                hooks.at(Point::BeforeLoad, here).await?;
                let loaded = patient_load(&client, &load, style).await?;
                hooks.at(Point::AfterLoad, here).await?;
                let txn = loaded.txn_id.ok_or_else(|| {
                    RunError::away(format!("{database}.{table}: load {} has no transaction", upload.label))
                })?;
                Ok(Uploaded { txn, too_many_versions: loaded.too_many_versions })
            };
            let result = result.await;
            SinkEvent::Uploaded { id: upload.id, bytes, result }
        });
    }

    /// Commits one load. The permit proves that its epoch's record is durable.
    pub(super) fn commit(&mut self, permit: &CommitPermit, target: &Target, id: LoadId, txn: u64, label: &str) {
        let Self::Doris(doris) = self else { return };
        if permit.epoch() != id.epoch {
            return;
        }
        match &doris.promise {
            Promise::TwoPhases => {}
            Promise::Ahead(spill) => return doris.load_ahead(spill.clone(), target, id, label.to_owned()),
            // It is visible since it was loaded.
            Promise::AtLeastOnce(_) => {
                doris.tasks.spawn(async move { SinkEvent::Committed { id, result: Ok(Some(txn)) } });
                return;
            }
        }
        let (client, hooks) = (Arc::clone(&doris.client), doris.hooks.clone());
        let (database, table) = (target.database.clone(), target.table.clone());
        doris.tasks.spawn(async move {
            let here = Subject::Load { load: id, database: &database, table: &table };
            let result = async {
                hooks.at(Point::BeforeCommit, here).await?;
                let name = format!("{database}.{table}");
                let outcome = client.commit(&database, txn).await.map_err(|e| Failed::of(&name, e))?;
                is_committed(&name, txn, outcome)?;
                hooks.at(Point::AfterCommit, here).await?;
                Ok(Some(txn))
            };
            SinkEvent::Committed { id, result: result.await }
        });
    }

    /// The epoch of these loads is marked: their bytes are not needed any more.
    pub(super) fn forget<'l>(&self, labels: impl Iterator<Item = &'l str>) {
        if let Self::Doris(DorisSink { promise: Promise::Ahead(spill), .. }) = self {
            labels.for_each(|label| spill.forget(label));
        }
    }

    /// Aborts a transaction that nobody will commit, beside everything else. One that stays goes by itself within the hour.
    pub(super) fn abort(&mut self, target: &Target, txn: u64) {
        let Self::Doris(doris) = self else { return };
        if !matches!(doris.promise, Promise::TwoPhases) {
            return;
        }
        let client = Arc::clone(&doris.client);
        let (database, table) = (target.database.clone(), target.table.clone());
        doris.aborts = doris.aborts.saturating_add(1);
        doris.tasks.spawn(async move {
            if let Err(e) = client.abort(&database, txn).await {
                tracing::warn!(table = format!("{database}.{table}"), txn, reason = %e, "a transaction could not be aborted");
            }
            SinkEvent::Aborted
        });
    }

    /// Aborts transactions of earlier eras that are still open, beside everything else.
    pub(super) fn abort_leftovers(&mut self, era: u32) {
        let Self::Doris(doris) = self else { return };
        let client = Arc::clone(&doris.client);
        let (databases, pipeline) = (doris.databases.clone(), doris.pipeline);
        doris.tasks.spawn(async move {
            if let Err(e) = sweep(&client, &databases, pipeline, era, &[]).await {
                tracing::warn!(reason = %e, "old transactions could not be looked for; trying again later");
            }
            SinkEvent::Swept
        });
    }

    /// jsonl: writes and empties `lines`.
    pub(super) fn flush_lines(&mut self, lines: &mut Vec<u8>) -> Result<(), RunError> {
        let Self::Jsonl(jsonl) = self else { return Ok(()) };
        if lines.is_empty() {
            return Ok(());
        }
        let written = jsonl.out.write_all(lines).and_then(|()| jsonl.out.flush());
        written.and_then(|()| jsonl.file.as_ref().map_or(Ok(()), std::fs::File::sync_data)).map_err(|e| {
            if e.kind() == std::io::ErrorKind::BrokenPipe {
                RunError::stopped("nobody reads the output any more").because(e)
            } else {
                RunError::stopped(format!("the output cannot be written: {e}")).because(e)
            }
        })?;
        jsonl.written = jsonl.written.saturating_add(u64::try_from(lines.len()).unwrap_or(u64::MAX));
        lines.clear();
        Ok(())
    }

    /// Bytes of the output file so far, if there is one.
    pub(super) fn output_bytes(&self) -> Option<u64> {
        match self {
            Self::Jsonl(jsonl) if jsonl.file.is_some() => Some(jsonl.written),
            _ => None,
        }
    }

    /// Waits until the last committed load of every target can be read.
    pub(super) async fn wait_visible(&mut self) -> Result<(), RunError> {
        let Self::Doris(doris) = self else { return Ok(()) };
        let wait = async {
            for (database, txn) in doris.last.values() {
                visible(&doris.client, database, *txn).await?;
            }
            Ok(())
        };
        match tokio::time::timeout(VISIBLE_PATIENCE, wait).await {
            Ok(result) => result,
            Err(_) => {
                tracing::warn!("the last transactions are committed but not visible yet");
                Ok(())
            }
        }
    }
}

impl Sink {
    /// Empties a target table of which nothing is on its way.
    pub(super) async fn truncate(&self, database: &str, table: &str) -> Result<(), RunError> {
        let Self::Doris(doris) = self else { return Ok(()) };
        truncate(&doris.client, database, table).await
    }

    /// A target lies in this database from now on.
    pub(super) fn add_database(&mut self, database: &str) {
        if let Self::Doris(doris) = self
            && !doris.databases.iter().any(|d| d == database)
        {
            doris.databases.push(database.to_owned());
        }
    }
}

impl DorisSink {
    /// `last`: the last transaction of each target, as (database, id).
    pub(super) fn new(
        promise: Promise,
        client: Arc<DorisClient>,
        pipeline: u64,
        databases: Vec<String>,
        last: BTreeMap<TargetNo, (String, u64)>,
        hooks: Hooks,
    ) -> Self {
        Self {
            client,
            promise,
            ahead_slots: Arc::new(Semaphore::new(CONCURRENT_AHEAD)),
            pipeline,
            databases,
            tasks: JoinSet::new(),
            aborts: 0,
            slots: Arc::new(Semaphore::new(CONCURRENT_LOADS)),
            last,
            hooks,
        }
    }

    fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Sends a load whose label and bytes are durable.
    fn load_ahead(&mut self, spill: Spill, target: &Target, id: LoadId, label: String) {
        let (client, hooks, slots) = (Arc::clone(&self.client), self.hooks.clone(), Arc::clone(&self.ahead_slots));
        let before = self.last.get(&target.no).cloned();
        let ahead = Ahead { database: target.database.clone(), table: target.table.clone(), label };
        self.tasks.spawn(async move {
            // Bodies come back into memory here.
            let _slot = slots.acquire_owned().await;
            let here = Subject::Load { load: id, database: &ahead.database, table: &ahead.table };
            let result = async {
                hooks.at(Point::BeforeCommit, here).await?;
                let txn = ahead.send(&client, &spill, before.as_ref()).await?;
                hooks.at(Point::AfterCommit, here).await?;
                Ok(txn)
            };
            SinkEvent::Committed { id, result: result.await }
        });
    }
}

impl JsonlSink {
    /// Standard output.
    pub(super) fn stdout() -> Self {
        Self { out: Box::new(std::io::stdout()), file: None, written: 0 }
    }

    /// A file whose first `keep` bytes belong to committed epochs; what is behind them goes.
    pub(super) fn file(path: &std::path::Path, keep: u64) -> std::io::Result<Self> {
        use std::io::Seek as _;
        let mut file = std::fs::OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)?;
        file.set_len(keep)?;
        file.seek(std::io::SeekFrom::End(0))?;
        Ok(Self { out: Box::new(file.try_clone()?), file: Some(file), written: keep })
    }
}

/// Waits until a transaction's rows can be read. COMMITTED becomes VISIBLE by itself; one that is forgotten by now was final.
async fn visible(client: &DorisClient, database: &str, txn: u64) -> Result<(), RunError> {
    let mut pause = Duration::from_millis(10);
    while matches!(client.transaction(database, TxnRef::Id(txn)).await.map_err(away)?, Seen::Committed(_)) {
        tokio::time::sleep(pause).await;
        pause = pause.saturating_mul(2).min(Duration::from_secs(1));
    }
    Ok(())
}

fn away(e: SinkError) -> RunError {
    RunError::away(format!("Doris is away: {e}")).because(e)
}

/// A load or a commit that did not work.
fn failed(table: &str, e: SinkError) -> RunError {
    let text = format!("{table}: {e}");
    if e.is_retryable() { RunError::away(text).because(e) } else { RunError::stopped(text).because(e) }
}

async fn keep(spill: Spill, label: Label, head: Head, body: bytes::Bytes) -> Result<(), RunError> {
    let kept = tokio::task::spawn_blocking(move || spill.keep(&label.to_string(), &head, &body)).await;
    kept.unwrap_or_else(|e| Err(std::io::Error::other(e))).map_err(|e| {
        RunError::stopped(format!("a load cannot be written ahead to the state directory: {e}")).because(e)
    })
}

/// A load that was written ahead.
pub(super) struct Ahead {
    pub(super) database: String,
    pub(super) table: String,
    pub(super) label: String,
}

impl Ahead {
    /// Sends it, in one phase. Doris loads the same bytes under the same label once. Gives its transaction, if it is known.
    /// `before` is the target's last transaction: what the rows of some columns lack is read from the table, which must show
    /// everything that came before.
    pub(super) async fn send(
        &self,
        client: &DorisClient,
        spill: &Spill,
        before: Option<&(String, u64)>,
    ) -> Result<Option<u64>, Failed> {
        let name = format!("{}.{}", self.database, self.table);
        let (head, body) = spill.body(&self.label).map_err(|e| {
            RunError::stopped(format!("{name}: the bytes of load {} are not in the state directory: {e}", self.label))
        })?;
        let label = self.label.parse::<Label>().map_err(|e| RunError::stopped(format!("{name}: {e:?}")))?;
        if let Some((database, txn)) = before.filter(|_| head.partial) {
            visible(client, database, *txn).await?;
        }
        let format = if head.csv { Format::Csv } else { Format::Json };
        let load = Load {
            database: &self.database,
            table: &self.table,
            label,
            columns: &head.columns,
            partial: head.partial,
            body,
            rows: head.rows,
            two_phase: TwoPhase::No,
        };
        patient_load(client, &load, LoadStyle { format, ..LoadStyle::default() }).await.map(|loaded| loaded.txn_id)
    }
}

/// Loads a batch. What lies in the table may mend itself (a schema change that is under way), so it is tried some times.
async fn patient_load(client: &DorisClient, load: &Load<'_>, style: LoadStyle) -> Result<Loaded, Failed> {
    let name = format!("{}.{}", load.database, load.table);
    let mut backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(5));
    loop {
        match client.load_as(load, style).await {
            Ok(loaded) => return Ok(loaded),
            Err(e) if e.is_of_table() && backoff.tries().saturating_add(1) < TABLE_TRIES => {
                tracing::warn!(table = name, label = %load.label, reason = %e, "Doris refuses a load; it is sent again");
                tokio::time::sleep(backoff.next(&mut fastrand::Rng::new())).await;
            }
            Err(e) => return Err(Failed::of(&name, e)),
        }
    }
}

/// Commits a transaction by id and tells what it means if that cannot be done.
pub(super) async fn commit(client: &DorisClient, database: &str, table: &str, txn: u64) -> Result<(), RunError> {
    let name = format!("{database}.{table}");
    let outcome = client.commit(database, txn).await.map_err(|e| failed(&name, e))?;
    is_committed(&name, txn, outcome)
}

fn is_committed(table: &str, txn: u64, outcome: CommitOutcome) -> Result<(), RunError> {
    match outcome {
        CommitOutcome::Done | CommitOutcome::AlreadyDone => Ok(()),
        // The record is durable: the recovery finds out what became of it.
        other => Err(RunError::away(format!(
            "{table}: transaction {txn} could not be committed ({other:?}): going back to the last durable record"
        ))),
    }
}

/// Empties a target table. What goes wrong is tried again from the last durable state, which says that it is to be emptied.
pub(super) async fn truncate(client: &DorisClient, database: &str, table: &str) -> Result<(), RunError> {
    client.truncate(database, table).await.map_err(|e| failed(&format!("emptying {database}.{table}"), e))
}

/// What Doris knows of a transaction.
pub(super) async fn fact(client: &DorisClient, database: &str, txn: u64) -> Result<TxnFact, RunError> {
    client.transaction(database, TxnRef::Id(txn)).await.map(fact_of).map_err(away)
}

const fn fact_of(fact: Seen) -> TxnFact {
    match fact {
        Seen::Visible(_) => TxnFact::Visible,
        Seen::Committed(_) => TxnFact::Committed,
        Seen::PreCommitted(_) => TxnFact::PreCommitted,
        Seen::Prepare(_) => TxnFact::Prepare,
        Seen::Aborted(_) => TxnFact::Aborted,
        Seen::Unknown => TxnFact::Gone,
    }
}

/// Aborts every open transaction of this pipeline that is neither of era `era` nor in `keep`.
pub(super) async fn sweep(
    client: &DorisClient,
    databases: &[String],
    pipeline: u64,
    era: u32,
    keep: &[u64],
) -> Result<u64, RunError> {
    let mut aborted = 0u64;
    for database in databases {
        for ours in client.list_ours(database, &Label::prefix(pipeline)).await.map_err(away)? {
            let fact = match ours.status {
                TxnStatus::Prepare => TxnFact::Prepare,
                TxnStatus::PreCommitted => TxnFact::PreCommitted,
                // Finished ones need nothing.
                _ => continue,
            };
            let earlier = ours.label.parse::<Label>().is_ok_and(|l| l.era() < era);
            if is_leftover(fact, earlier, keep.contains(&ours.id)) {
                tracing::info!(label = ours.label, txn = ours.id, "aborting a transaction that an earlier run left");
                client.abort(database, ours.id).await.map_err(away)?;
                aborted = aborted.saturating_add(1);
            }
        }
    }
    Ok(aborted)
}
