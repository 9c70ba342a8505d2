//! Chunk readers: each owns a connection and does one job at a time, in the order the fence demands.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use millstream_binlog::{Position, TableSchema};
use millstream_wire::{ConnectOptions, Connection, Error, Row};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::hooks::{Broken, Hooks, Point, Subject};
use crate::config::Backfill;
use crate::delivery::Passed;
use crate::key::KeyCodec;
use crate::merge::{Broken as Rule, ChunkId, Covered, Key, KeyRange, Rules, TableId, Xid};
use crate::snapshot::ReadError;
use crate::snapshot::dialect::Dialect;
use crate::snapshot::fence::Fence;
use crate::snapshot::reader::{self, ChunkRows, ChunkTable};
use crate::snapshot::sql::TableSql;

/// How often a chunk whose rows are locked is read before it is given up.
const LOCKED_TRIES: u32 = 3;
/// Readers at most.
pub(super) const MAX_WORKERS: usize = 64;

/// What a table is read by.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) schema: Arc<TableSchema>,
    pub(super) codec: KeyCodec,
    pub(super) sql: TableSql,
}

impl Access {
    fn table(&self, dialect: Dialect) -> ChunkTable<'_> {
        ChunkTable { schema: &self.schema, codec: &self.codec, sql: &self.sql, dialect }
    }
}

/// What a reader has to do.
#[derive(Debug)]
pub(super) enum Job {
    /// Read one chunk.
    Chunk {
        chunk: ChunkId,
        access: Arc<Access>,
        range: KeyRange,
        /// D: LW must cover it.
        covers: Passed,
        /// XA transactions that were decided in D and may not be visible yet.
        decided: Arc<BTreeSet<Xid>>,
        rows: u64,
        bytes: usize,
    },
    /// Find keys that cut a range into about equal pieces.
    Cut { id: TableId, access: Arc<Access>, range: KeyRange, pieces: usize },
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Outcome {
    /// A chunk's rows with their watermarks.
    Chunk {
        chunk: ChunkId,
        lw: Passed,
        rows: Vec<(Key, Row)>,
        bytes: usize,
        covered: Covered,
        /// `None`: the chunk waits for none.
        hw: Option<Position>,
    },
    /// Keys to cut at.
    Cut { id: TableId, keys: Vec<Key> },
    /// It failed; a chunk is to be given up.
    Failed { chunk: Option<ChunkId>, id: Option<TableId>, error: Failure },
}

/// Why a job failed.
#[derive(Debug)]
pub(super) enum Failure {
    Wire(Error),
    Read(ReadError),
    /// Rows of the chunk stayed locked by others, again and again.
    Locked(ReadError),
    /// Another server answered.
    OtherServer(String),
    /// Rows that cannot be understood.
    Data(String),
    /// A test broke it.
    Hook(Broken),
}

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Self {
        Self::Hook(broken)
    }
}

impl Failure {
    /// Whether the same job may succeed later on the same server.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Wire(e) => e.is_retryable() || e.is_connect() || e.is_transport(),
            Self::Read(e) => e.connection().is_some_and(|e| e.is_retryable() || e.is_transport()),
            Self::Locked(_) => true,
            Self::OtherServer(_) | Self::Data(_) => false,
            Self::Hook(_) => true,
        }
    }
}

impl core::fmt::Display for Failure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Wire(e) => e.fmt(f),
            Self::Read(e) => match e.connection() {
                Some(cause) => write!(f, "{e}: {cause}"),
                None => e.fmt(f),
            },
            Self::Locked(e) => write!(f, "rows stay locked by other transactions: {e}"),
            Self::OtherServer(uuid) => write!(f, "the source answered as another server ({uuid})"),
            Self::Data(text) => f.write_str(text),
            Self::Hook(broken) => broken.fmt(f),
        }
    }
}

/// How long a reader keeps its connection without a job.
const IDLE_CONNECTION: Duration = Duration::from_secs(60);

/// The readers.
pub(super) struct Workers {
    slots: Vec<Slot>,
    /// Readers that may have a job; those above end when theirs is done.
    limit: usize,
    results: mpsc::Receiver<(usize, Outcome)>,
    sender: mpsc::Sender<(usize, Outcome)>,
    tasks: JoinSet<()>,
    connect: ConnectOptions,
    server_uuid: String,
    fence: Fence,
    backfill: Backfill,
    hooks: Hooks,
    rules: Rules,
}

struct Slot {
    /// Gone while there is no reader.
    jobs: Option<mpsc::Sender<Job>>,
    busy: bool,
}

impl Workers {
    /// So many readers; each connects when it gets its first job.
    pub(super) fn start(
        count: usize,
        connect: &ConnectOptions,
        server_uuid: &str,
        (fence, backfill): (Fence, Backfill),
        hooks: &Hooks,
        rules: Rules,
    ) -> Self {
        let (sender, results) = mpsc::channel(MAX_WORKERS);
        let mut workers = Self {
            slots: Vec::new(),
            limit: 0,
            results,
            sender,
            tasks: JoinSet::new(),
            connect: connect.clone(),
            server_uuid: server_uuid.to_owned(),
            fence,
            backfill,
            hooks: hooks.clone(),
            rules,
        };
        workers.resize(count);
        workers
    }

    /// More or fewer readers from now on; a job that runs is finished.
    pub(super) fn resize(&mut self, count: usize) {
        self.limit = count.min(MAX_WORKERS);
        while self.slots.len() < self.limit {
            self.slots.push(Slot { jobs: None, busy: false });
        }
        for (worker, slot) in self.slots.iter_mut().enumerate() {
            if worker >= self.limit {
                // Without a sender it ends once it waits for its next job.
                slot.jobs = None;
            } else if slot.jobs.is_none() && !slot.busy {
                let (job_sender, job_receiver) = mpsc::channel(1);
                let reader = Reader {
                    connect: self.connect.clone(),
                    server_uuid: self.server_uuid.clone(),
                    fence: self.fence,
                    backfill: self.backfill,
                    connection: None,
                    hooks: self.hooks.clone(),
                    rules: self.rules,
                };
                self.tasks.spawn(reader.work(worker, job_receiver, self.sender.clone()));
                slot.jobs = Some(job_sender);
            }
        }
        while self.tasks.try_join_next().is_some() {}
    }

    /// A reader without a job.
    pub(super) fn idle(&self) -> Option<usize> {
        self.slots.iter().position(|slot| !slot.busy && slot.jobs.is_some())
    }

    /// All readers.
    pub(super) const fn count(&self) -> usize {
        self.limit
    }

    /// Readers with a job.
    pub(super) fn running(&self) -> usize {
        self.slots.iter().filter(|slot| slot.busy).count()
    }

    /// Gives an idle reader a job. `false` if it is gone.
    pub(super) fn give(&mut self, worker: usize, job: Job) -> bool {
        let Some(slot) = self.slots.get_mut(worker) else { return false };
        slot.busy = slot.jobs.as_ref().is_some_and(|jobs| jobs.try_send(job).is_ok());
        slot.busy
    }

    /// The next result; waits for ever when no reader has a job. Cancel-safe.
    pub(super) async fn next(&mut self) -> Outcome {
        match self.results.recv().await {
            Some((worker, outcome)) => {
                let slot = self.slots.get_mut(worker);
                let ended = slot.is_some_and(|slot| {
                    slot.busy = false;
                    slot.jobs.is_none()
                });
                if ended && worker < self.limit {
                    self.resize(self.limit);
                }
                outcome
            }
            None => core::future::pending().await,
        }
    }
}

struct Reader {
    connect: ConnectOptions,
    server_uuid: String,
    fence: Fence,
    connection: Option<Connection>,
    backfill: Backfill,
    hooks: Hooks,
    rules: Rules,
}

impl Reader {
    async fn work(mut self, worker: usize, mut jobs: mpsc::Receiver<Job>, results: mpsc::Sender<(usize, Outcome)>) {
        loop {
            let job = match tokio::time::timeout(IDLE_CONNECTION, jobs.recv()).await {
                Ok(Some(job)) => job,
                Ok(None) => return,
                Err(_) => {
                    self.connection = None;
                    match jobs.recv().await {
                        Some(job) => job,
                        None => return,
                    }
                }
            };
            let (chunk, id) = match &job {
                Job::Chunk { chunk, .. } => (Some(*chunk), None),
                Job::Cut { id, .. } => (None, Some(*id)),
            };
            let outcome = match self.job(job).await {
                Ok(outcome) => outcome,
                Err(error) => {
                    self.connection = None;
                    Outcome::Failed { chunk, id, error }
                }
            };
            if results.send((worker, outcome)).await.is_err() {
                return;
            }
        }
    }

    async fn connection(&mut self) -> Result<Connection, Failure> {
        if let Some(connection) = self.connection.take() {
            return Ok(connection);
        }
        let mut connection = Connection::connect(&self.connect).await.map_err(Failure::Wire)?;
        reader::session_setup(&mut connection, self.fence.dialect).await.map_err(Failure::Read)?;
        let uuid = reader::server_identity(&mut connection).await.map_err(Failure::Read)?;
        if uuid == self.server_uuid { Ok(connection) } else { Err(Failure::OtherServer(uuid)) }
    }

    async fn job(&mut self, job: Job) -> Result<Outcome, Failure> {
        let mut connection = self.connection().await?;
        match job {
            Job::Chunk { chunk, access, range, covers, decided, rows, bytes } => {
                let hooks = self.hooks.clone();
                let table = access.table(self.fence.dialect);
                let here = |rows, bytes| Subject::Chunk {
                    chunk,
                    database: &access.schema.database,
                    table: &access.schema.table,
                    range: &range,
                    rows,
                    bytes,
                };
                let (low, high) = (range.lo.as_ref(), range.hi.as_ref());
                let mut tries = LOCKED_TRIES;
                let (mut lw, early, read) = loop {
                    hooks.at(Point::BeforeLowWatermark, here(0, 0)).await?;
                    let lw = self.fence.low(&mut connection, &covers, &decided).await.map_err(Failure::Read)?;
                    hooks.at(Point::AfterLowWatermark, here(0, 0)).await?;
                    let early = if self.rules.hold(Rule::HwAfterSelect) {
                        None
                    } else {
                        Some(reader::high_watermark(&mut connection).await.map_err(Failure::Read)?)
                    };
                    hooks.at(Point::BeforeSelect, here(0, 0)).await?;
                    match reader::read_chunk(&mut connection, table, low, high, rows, bytes).await {
                        Ok(read) => break (lw, early, read),
                        Err(e) if e.is_locked() && tries > 1 => tries = tries.saturating_sub(1),
                        Err(e) if e.is_locked() => return Err(Failure::Locked(e)),
                        Err(e) => return Err(Failure::Read(e)),
                    }
                };
                let here = here(read.rows.len(), read.bytes);
                hooks.at(Point::AfterSelect, here).await?;
                if self.backfill == Backfill::Skip {
                    if !read.abandon_connection {
                        self.fence.leave(&mut connection).await.map_err(Failure::Read)?;
                        self.connection = Some(connection);
                    }
                    let ChunkRows { rows, covered, bytes, .. } = read;
                    return Ok(Outcome::Chunk { chunk, lw, rows, bytes, covered, hw: None });
                }
                if read.abandon_connection {
                    // Cut by bytes in the middle of the result: the rest is not worth reading.
                    connection = self.connection().await?;
                }
                hooks.at(Point::BeforeHighWatermark, here).await?;
                if !self.rules.hold(Rule::LwBeforeSelect) {
                    lw = Passed::from(reader::low_watermark(&mut connection).await.map_err(Failure::Read)?);
                }
                let hw = match early {
                    Some(hw) => hw,
                    None => self.fence.high(&mut connection, &lw).await.map_err(Failure::Read)?,
                };
                hooks.at(Point::AfterHighWatermark, here).await?;
                self.connection = Some(connection);
                let ChunkRows { rows, covered, bytes, .. } = read;
                Ok(Outcome::Chunk { chunk, lw, rows, bytes, covered, hw: Some(hw) })
            }
            Job::Cut { id, access, range, pieces } => {
                let keys = cut_points(&mut connection, &access, range, pieces).await?;
                self.connection = Some(connection);
                Ok(Outcome::Cut { id, keys })
            }
        }
    }
}

/// Real keys that cut a range into about `pieces` stretches of values; none where that cannot be told.
async fn cut_points(
    connection: &mut Connection,
    access: &Access,
    range: KeyRange,
    pieces: usize,
) -> Result<Vec<Key>, Failure> {
    let first = match range.lo {
        Some(key) => Some(key),
        None => key(connection, access, &access.sql.first()).await?,
    };
    let last = match range.hi {
        Some(key) => Some(key),
        None => key(connection, access, &access.sql.last()).await?,
    };
    let (Some(first), Some(last)) = (first, last) else { return Ok(Vec::new()) };
    let dives = access.sql.dives(&first, &last, pieces).map_err(|e| Failure::Data(e.to_string()))?;
    let mut keys: Vec<Key> = Vec::new();
    for dive in dives {
        keys.extend(key(connection, access, &dive.sql).await?);
    }
    keys.sort_unstable();
    keys.dedup();
    keys.retain(|key| first < *key && *key < last);
    Ok(spread(keys, pieces))
}

async fn key(connection: &mut Connection, access: &Access, sql: &str) -> Result<Option<Key>, Failure> {
    reader::read_key(connection, access.table(Dialect::ExecutedSet), sql).await.map_err(Failure::Read)
}

/// Of many keys those that cut into `pieces`.
fn spread(keys: Vec<Key>, pieces: usize) -> Vec<Key> {
    let wanted = pieces.saturating_sub(1);
    if keys.len() <= wanted {
        return keys;
    }
    let at = |i: usize| i.saturating_mul(keys.len()).checked_div(pieces.max(1));
    (1..=wanted).filter_map(at).filter_map(|i| keys.get(i)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_spread_evenly() {
        let keys = |n: u8| (0..n).map(|k| Key::from([k])).collect::<Vec<_>>();
        assert_eq!(spread(keys(2), 4), keys(2));
        assert_eq!(spread(keys(40), 4), [10, 20, 30].map(|k| Key::from([k])));
        assert_eq!(spread(keys(9), 1), Vec::new());
    }
}
