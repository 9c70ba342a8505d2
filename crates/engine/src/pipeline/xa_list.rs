//! Asks the server which XA transactions are prepared, over a connection of its own.

use std::collections::BTreeSet;

use millstream_binlog::Position;
use millstream_wire::{ConnectOptions, Connection, Error, Flavor, ServerVersion};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::workers::Failure;
use crate::merge::Xid;
use crate::snapshot::dialect::Dialect;
use crate::snapshot::fence::prepared_xa;
use crate::snapshot::{ReadError, reader};

/// The server's answer to XA RECOVER without the privilege (ER_XAER_RMERR).
const REFUSED: u16 = 1401;

/// What came of it.
#[derive(Debug)]
pub(super) enum Answer {
    /// The prepared transactions, and the end of the log after they were listed.
    Listed(BTreeSet<Xid>, Position),
    /// The account may not ask.
    Refused(ReadError),
    /// It failed.
    Failed(Failure),
}

/// The task that asks.
pub(super) struct Lister {
    asks: mpsc::Sender<()>,
    answers: mpsc::Receiver<Answer>,
    busy: bool,
    task: JoinHandle<()>,
}

impl Drop for Lister {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Lister {
    /// It connects when it is asked first.
    pub(super) fn start(connect: ConnectOptions, server_uuid: String) -> Self {
        let (asks, mut asked) = mpsc::channel(1);
        let (answered, answers) = mpsc::channel(1);
        let task = tokio::spawn(async move {
            let mut connection = None;
            while asked.recv().await.is_some() {
                let answer = answer(&connect, &server_uuid, &mut connection).await;
                if !matches!(answer, Answer::Listed(..)) {
                    connection = None;
                }
                if answered.send(answer).await.is_err() {
                    return;
                }
            }
        });
        Self { asks, answers, busy: false, task }
    }

    /// Whether an answer is awaited.
    pub(super) const fn is_busy(&self) -> bool {
        self.busy
    }

    /// Asks, unless an answer is awaited.
    pub(super) fn ask(&mut self) {
        if !self.busy {
            self.busy = self.asks.try_send(()).is_ok();
        }
    }

    /// The answer. Waits for ever when nothing was asked. Cancel-safe.
    pub(super) async fn next(&mut self) -> Answer {
        match self.answers.recv().await {
            Some(answer) => {
                self.busy = false;
                answer
            }
            None => core::future::pending().await,
        }
    }
}

async fn answer(connect: &ConnectOptions, server_uuid: &str, connection: &mut Option<Connection>) -> Answer {
    match ask(connect, server_uuid, connection).await {
        Ok((xids, end)) => Answer::Listed(xids, end),
        Err(Failure::Read(e)) if e.connection().is_some_and(is_refused) => Answer::Refused(e),
        Err(failure) => Answer::Failed(failure),
    }
}

async fn ask(
    connect: &ConnectOptions,
    server_uuid: &str,
    connection: &mut Option<Connection>,
) -> Result<(BTreeSet<Xid>, Position), Failure> {
    let open = match connection {
        Some(open) => open,
        None => {
            let mut open = Connection::connect(connect).await.map_err(Failure::Wire)?;
            reader::session_setup(&mut open, Dialect::ExecutedSet).await.map_err(Failure::Read)?;
            let uuid = reader::server_identity(&mut open).await.map_err(Failure::Read)?;
            if uuid != server_uuid {
                return Err(Failure::OtherServer(uuid));
            }
            connection.insert(open)
        }
    };
    let xids = prepared_xa(open).await.map_err(Failure::Read)?;
    let end = reader::high_watermark(open).await.map_err(Failure::Read)?;
    Ok((xids, end))
}

/// Whether the account may not ask for prepared transactions.
pub(crate) fn is_refused(e: &Error) -> bool {
    e.is_access_denied() || e.server_error().is_some_and(|e| e.code == REFUSED)
}

/// Whether the server logs XA PREPARE. Older ones log the transaction as a whole when it is committed.
pub(crate) fn logs_prepare(version: ServerVersion) -> bool {
    version.is_at_least(Flavor::MariaDb, (10, 5, 0)) || version.is_at_least(Flavor::MySql, (5, 7, 7))
}
