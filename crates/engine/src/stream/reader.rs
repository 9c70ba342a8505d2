//! One connection's worth of the binlog: a task that reads events ahead, bounded by bytes.

use std::sync::Arc;

use bytes::Bytes;
use millstream_wire::{BinlogDump, ConnectOptions, Connection, DumpStart, Error};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;

use crate::delivery::Passed;
use crate::snapshot::ReadError;
use crate::snapshot::reader::server_identity;

/// Bytes per unit of the budget.
const UNIT: usize = 1024;
/// A batch ends at this many bytes.
const BATCH_BYTES: usize = 256 * 1024;
/// And at this many events.
const BATCH_EVENTS: usize = 4096;

/// How to open the stream.
#[derive(Clone, Debug)]
pub struct StreamPlan {
    /// The source.
    pub connect: ConnectOptions,
    /// Our number among its replicas.
    pub server_id: u32,
    /// Our UUID among its replicas.
    pub replica_uuid: String,
    /// The only server that may answer, as `server_identity` names it.
    pub server_uuid: String,
}

/// Raw events in order, with the share of the memory budget that they take until dropped.
#[derive(Debug)]
pub struct Batch {
    /// Events without the protocol's status byte.
    pub events: Vec<Bytes>,
    _memory: OwnedSemaphorePermit,
}

/// Why a stream ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum StreamEnd {
    /// The connection or the server.
    Wire(Error),
    /// The server did not say which it is.
    Read(ReadError),
    /// Another server answered.
    OtherServer(String),
}

/// The reading end of one connection. Dropping it closes the connection.
#[derive(Debug)]
pub struct SourceReader {
    batches: mpsc::Receiver<Result<Batch, StreamEnd>>,
    task: JoinHandle<()>,
}

impl Drop for SourceReader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl SourceReader {
    /// Connects and asks for everything but `judged`. `memory` is the budget in bytes for events that
    /// were read and not yet dropped; one event may exceed it.
    #[must_use]
    pub fn open(plan: StreamPlan, judged: Passed, memory: usize) -> Self {
        let (sender, batches) = mpsc::channel(64);
        let units = (memory / UNIT).clamp(1, Semaphore::MAX_PERMITS);
        let task = tokio::spawn(async move {
            if let Err(end) = read(&plan, judged, units, &sender).await {
                // The receiver may be gone; then nobody wants to know.
                drop(sender.send(Err(end)).await);
            }
        });
        Self { batches, task }
    }

    /// The next batch; `None` once the end was told. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Batch, StreamEnd>> {
        self.batches.recv().await
    }
}

fn dump_start(judged: &Passed) -> DumpStart {
    match judged {
        Passed::Gtids(set) => DumpStart::Gtid(set.encode()),
        Passed::Position(place) => {
            DumpStart::Position { file: place.position.file.to_string(), position: place.position.offset }
        }
    }
}

async fn read(
    plan: &StreamPlan,
    judged: Passed,
    units: usize,
    sender: &mpsc::Sender<Result<Batch, StreamEnd>>,
) -> Result<(), StreamEnd> {
    let mut connection = Connection::connect(&plan.connect).await.map_err(StreamEnd::Wire)?;
    let server = server_identity(&mut connection).await.map_err(StreamEnd::Read)?;
    if server != plan.server_uuid {
        return Err(StreamEnd::OtherServer(server));
    }
    let mut dump = BinlogDump::new(dump_start(&judged), plan.server_id, plan.replica_uuid.as_str());
    // Places that a MariaDB does not state are counted from lengths: nothing must be left out.
    dump.annotate_rows = true;
    let mut stream = connection.dump(dump).await.map_err(StreamEnd::Wire)?;
    let budget = Arc::new(Semaphore::new(units));
    loop {
        let Some(first) = stream.next().await.map_err(StreamEnd::Wire)? else { return Ok(()) };
        let mut bytes = first.len();
        let mut events = vec![first];
        let mut end = Ok(());
        while bytes < BATCH_BYTES && events.len() < BATCH_EVENTS {
            match stream.try_next() {
                Ok(Some(event)) => {
                    bytes = bytes.saturating_add(event.len());
                    events.push(event);
                }
                Ok(None) => break,
                Err(e) => {
                    // What came before it may say why.
                    end = Err(StreamEnd::Wire(e));
                    break;
                }
            }
        }
        let need = bytes.div_ceil(UNIT).min(units);
        let need = u32::try_from(need).unwrap_or(u32::MAX);
        let Ok(memory) = Arc::clone(&budget).acquire_many_owned(need).await else { return Ok(()) };
        if sender.send(Ok(Batch { events, _memory: memory })).await.is_err() {
            return Ok(());
        }
        end?;
    }
}
