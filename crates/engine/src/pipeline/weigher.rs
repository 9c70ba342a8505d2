//! Asks the server for the weights of key text, over a connection of its own.

use std::time::{Duration, Instant};

use millstream_doris_sink::retry::Backoff;
use millstream_wire::{ConnectOptions, Connection, Value};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::hooks::{Hooks, Point, Subject};
use super::weights::Question;
use super::workers::Failure;
use crate::key::Collations;
use crate::snapshot::dialect::Dialect;
use crate::snapshot::{ReadError, reader};

/// Texts of one statement: a select list has at most 4096 columns.
const STATEMENT_TEXTS: usize = 500;
/// And their bytes.
const STATEMENT_BYTES: usize = 256 * 1024;

/// Each question with its answer, or why there is none.
pub(super) type Answers = Result<Vec<(Question, Box<[u8]>)>, Failure>;

/// The task that asks.
pub(super) struct Weigher {
    questions: mpsc::Sender<(Vec<Question>, Collations)>,
    answers: mpsc::Receiver<Answers>,
    /// Collations that the asker has not heard of.
    learned: Collations,
    busy: bool,
    task: JoinHandle<()>,
}

impl Drop for Weigher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Weigher {
    /// It connects when it is asked first.
    /// After `patience` without an answer it gives up (`None`: never).
    pub(super) fn start(
        connect: ConnectOptions,
        server_uuid: String,
        collations: Collations,
        hooks: Hooks,
        patience: Option<Duration>,
    ) -> Self {
        let (questions, asked) = mpsc::channel(1);
        let (answered, answers) = mpsc::channel(1);
        let asker = Asker { connect, server_uuid, collations, connection: None, hooks, patience };
        Self {
            questions,
            answers,
            learned: Collations::default(),
            busy: false,
            task: tokio::spawn(asker.work(asked, answered)),
        }
    }

    /// Whether an answer is awaited.
    pub(super) const fn is_busy(&self) -> bool {
        self.busy
    }

    /// Asks, unless an answer is awaited.
    pub(super) fn ask(&mut self, questions: impl FnOnce() -> Vec<Question>) {
        if !self.busy {
            let learned = core::mem::take(&mut self.learned);
            self.busy = self.questions.try_send((questions(), learned)).is_ok();
        }
    }

    /// Collations of a table that was added.
    pub(super) fn learn(&mut self, collations: Collations) {
        self.learned.extend(collations);
    }

    /// The answers to what was asked. Waits for ever when nothing was. Cancel-safe.
    pub(super) async fn next(&mut self) -> Answers {
        match self.answers.recv().await {
            Some(answers) => {
                self.busy = false;
                answers
            }
            None => core::future::pending().await,
        }
    }
}

struct Asker {
    connect: ConnectOptions,
    server_uuid: String,
    collations: Collations,
    connection: Option<Connection>,
    hooks: Hooks,
    patience: Option<Duration>,
}

impl Asker {
    async fn work(mut self, mut asked: mpsc::Receiver<(Vec<Question>, Collations)>, answered: mpsc::Sender<Answers>) {
        while let Some((questions, learned)) = asked.recv().await {
            self.collations.extend(learned);
            if answered.send(self.answers(questions).await).await.is_err() {
                return;
            }
        }
    }

    /// Asks again and again while the server is away: the stream waits for the answer.
    async fn answers(&mut self, questions: Vec<Question>) -> Answers {
        let mut answers: Vec<Box<[u8]>> = Vec::with_capacity(questions.len());
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));
        let mut away_since = None;
        while let Some(rest) = questions.get(answers.len()..).filter(|rest| !rest.is_empty()) {
            match self.some(batch(rest)).await {
                Ok(mut some) => {
                    backoff.reset();
                    away_since = None;
                    answers.append(&mut some);
                }
                Err(failure) => {
                    self.connection = None;
                    let away = away_since.get_or_insert_with(Instant::now).elapsed();
                    if !failure.may_pass() || self.patience.is_some_and(|patience| away > patience) {
                        return Err(failure);
                    }
                    tracing::warn!(reason = %failure, "the weights of keys are asked again");
                    tokio::time::sleep(backoff.next(&mut fastrand::Rng::new())).await;
                }
            }
        }
        Ok(questions.into_iter().zip(answers).collect())
    }

    /// One statement's answers, in order.
    async fn some(&mut self, questions: &[Question]) -> Result<Vec<Box<[u8]>>, Failure> {
        self.hooks.at(Point::BeforeWeights, Subject::Weights { texts: questions.len() }).await?;
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.open().await?,
        };
        let weights = weigh(&mut connection, &self.collations, questions).await?;
        self.connection = Some(connection);
        Ok(weights)
    }

    /// A connection to the stream's server: another one may weigh otherwise.
    async fn open(&self) -> Result<Connection, Failure> {
        let mut connection = Connection::connect(&self.connect).await.map_err(Failure::Wire)?;
        reader::session_setup(&mut connection, Dialect::ExecutedSet).await.map_err(Failure::Read)?;
        let uuid = reader::server_identity(&mut connection).await.map_err(Failure::Read)?;
        if uuid == self.server_uuid { Ok(connection) } else { Err(Failure::OtherServer(uuid)) }
    }
}

/// The weights of as many texts as one statement takes ([`batch`]), in order.
pub(super) async fn weigh(
    connection: &mut Connection,
    collations: &Collations,
    questions: &[Question],
) -> Result<Vec<Box<[u8]>>, Failure> {
    const DURING: &str = "asking for the weights of keys";
    let unclear = || Failure::Data("the server gives no weight for the text of a key".to_owned());
    let mut sql = String::from("SELECT ");
    for (i, Question { part, text }) in questions.iter().enumerate() {
        if i > 0 {
            sql.push(',');
        }
        sql.push_str(&collations.weight_of(part.collation, part.charset, text).ok_or_else(unclear)?);
    }
    let mut rows = connection.query(&sql).await.map_err(|e| Failure::Read(ReadError::wire(DURING, e)))?;
    let mut weights = Vec::with_capacity(questions.len());
    while let Some(row) = rows.next().await.map_err(|e| Failure::Read(ReadError::wire(DURING, e)))? {
        for value in row.values() {
            let Ok(Value::Bytes(weight)) = value else { return Err(unclear()) };
            weights.push(weight.into());
        }
    }
    if weights.len() == questions.len() { Ok(weights) } else { Err(unclear()) }
}

/// The first questions, as many as one statement takes; at least one.
pub(super) fn batch(questions: &[Question]) -> &[Question] {
    let mut bytes = 0usize;
    let fits = questions.iter().take(STATEMENT_TEXTS).take_while(|q| {
        bytes = bytes.saturating_add(q.text.len());
        bytes <= STATEMENT_BYTES
    });
    let count = fits.count().max(1);
    questions.get(..count).unwrap_or(questions)
}
