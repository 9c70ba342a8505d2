//! Loads, commits and aborts.

use core::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use tokio::time::{Instant, sleep};

use super::DorisClient;
use super::endpoint::{Endpoint, follow};
use super::http::{Connected, Reply, SendError};
use crate::classify::{
    AbortOutcome, CommitOutcome, FatalCause, LoadOutcome, classify_abort, classify_commit, classify_load,
    classify_no_redirect,
};
use crate::encode::Format;
use crate::error::{Kind, SinkError};
use crate::label::Label;
use crate::request::{GroupCommit, LoadRequest, TwoPhase, TxnOperation, TxnRef, txn_headers, txn_path};
use crate::response::{Message, excerpt, parse_load, parse_txn};
use crate::retry::Backoff;
use crate::txn::{Failure, Limits, LoadMachine, Step, TxnFact};

/// Redirects followed in a row.
const MAX_HOPS: usize = 5;

/// One load: where, under which label, and the bytes, which must be the same on every try.
#[derive(Clone, Debug)]
pub struct Load<'a> {
    /// Database.
    pub database: &'a str,
    /// Table.
    pub table: &'a str,
    /// Label.
    pub label: Label,
    /// [`TargetTable::columns_header`](crate::table::TargetTable::columns_header).
    pub columns: &'a str,
    /// See [`LoadRequest::partial`].
    pub partial: bool,
    /// Lines of JSON; never empty.
    pub body: Bytes,
    /// How many.
    pub rows: u64,
    /// One phase or two.
    pub two_phase: TwoPhase,
}

/// How a load is written, and gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[allow(clippy::exhaustive_structs, reason = "made by callers")]
pub struct LoadStyle {
    /// How the body is written.
    pub format: Format,
    /// Off where nothing may be loaded twice.
    pub group_commit: GroupCommit,
}

/// A load that is PRECOMMITTED (two phases) or committed (one phase).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Its transaction; `None` only in one phase, where an earlier try under the same label was committed.
    pub txn_id: Option<u64>,
    /// Its label.
    pub label: Label,
    /// How often Doris had too many versions of the table (`-235`): load it less often, in larger batches.
    pub too_many_versions: u32,
}

/// Where a request goes next.
enum Route {
    To(Endpoint, String),
    Outcome(LoadOutcome),
    Transport(SendError),
}

fn refused(text: String) -> LoadOutcome {
    LoadOutcome::Fatal { cause: FatalCause::BadRequest, message: Message { code: None, text }, error_url: None }
}

impl Route {
    fn refused(text: String) -> Self {
        Self::Outcome(refused(text))
    }
}

fn note(outcome: &LoadOutcome) -> String {
    match outcome {
        LoadOutcome::Retry { message, .. } | LoadOutcome::UnknownFailure { message } => message.to_string(),
        LoadOutcome::Ambiguous { message } => message.clone(),
        LoadOutcome::Exists { existing, .. } => format!("the label is taken ({existing:?})"),
        _ => String::new(),
    }
}

impl DorisClient {
    /// Loads a batch and returns once it is PRECOMMITTED, or committed in one phase. Tries again with the same bytes under
    /// the same label until it is, until Doris refuses for good, or until the time is up.
    ///
    /// # Errors
    /// `is_retryable` when the time is up, and the same call may be made again; else refused, with the way out.
    pub async fn load(&self, load: &Load<'_>) -> Result<Loaded, SinkError> {
        self.load_as(load, LoadStyle::default()).await
    }

    /// The same for a body of another style.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub async fn load_as(&self, load: &Load<'_>, style: LoadStyle) -> Result<Loaded, SinkError> {
        let what = || format!("load {} into {}.{}", load.label, load.database, load.table);
        if load.body.is_empty() || load.rows == 0 {
            return Err(SinkError::config(format!("{} is empty", what())));
        }
        let limits = Limits {
            retry_base: self.options.retry_base,
            retry_cap: self.options.retry_cap,
            running_wait: self.options.running_wait,
        };
        let mut machine = LoadMachine::new(load.two_phase, limits, self.rng());
        let started = Instant::now();
        let mut last = String::new();
        let (mut wait, mut step) = (Duration::ZERO, Step::Send);
        loop {
            if wait > Duration::ZERO {
                if started.elapsed().saturating_add(wait) > self.options.give_up {
                    return Err(SinkError::new(Kind::GaveUp { what: what(), text: last }));
                }
                tracing::debug!(label = %load.label, ?step, ?wait, reason = %last, "load is tried again");
                sleep(wait).await;
            }
            (wait, step) = match step {
                Step::Send => self.send(load, style, &mut machine, &mut last).await?,
                Step::Inspect => {
                    let fact = self.transaction(load.database, TxnRef::Label(load.label)).await;
                    if let Err(error) = &fact {
                        tracing::debug!(label = %load.label, %error, "the label's state cannot be looked up");
                    }
                    machine.on_fact(fact.ok())
                }
                Step::Abort(txn_id) => {
                    let outcome = self.operate_once(load.database, TxnOperation::Abort, TxnRef::Id(txn_id)).await;
                    machine.on_abort(match outcome? {
                        Ok(reply) => classify_abort(parse_txn(reply.status.as_u16(), &reply.body)),
                        Err(error) => AbortOutcome::Retry { message: error.to_string() },
                    })
                }
                Step::Done { txn_id } => {
                    let too_many_versions = machine.too_many_versions();
                    return Ok(Loaded { txn_id, label: load.label, too_many_versions });
                }
                Step::Fail(failure) => return Err(self.failure(what(), failure).await),
            };
        }
    }

    /// Sends the batch once.
    async fn send(
        &self,
        load: &Load<'_>,
        style: LoadStyle,
        machine: &mut LoadMachine,
        last: &mut String,
    ) -> Result<(Duration, Step), SinkError> {
        let request = LoadRequest {
            database: load.database,
            table: load.table,
            label: load.label,
            columns: load.columns,
            partial: load.partial,
            two_phase: load.two_phase,
            format: style.format,
            group_commit: style.group_commit,
            timeout: self.options.load_timeout,
        };
        let bad_header =
            |_| SinkError::config(format!("a column name of {}.{} cannot be sent", load.database, load.table));
        let path = request.path();
        let mut route = match self.configured_backend() {
            Some(backend) => Route::To(backend.clone(), path.clone()),
            None => {
                let headers = request.frontend_headers(&self.credentials).map_err(bad_header)?;
                self.route(self.frontend()?, &path, &headers).await
            }
        };
        // The BE's own redirects are followed with the body; what they lead to counts as BEs.
        for _ in 0..MAX_HOPS {
            let (endpoint, target) = match route {
                Route::To(endpoint, target) => (endpoint, target),
                Route::Outcome(outcome) => {
                    *last = note(&outcome);
                    self.next_frontend();
                    return Ok(machine.on_outcome(outcome));
                }
                Route::Transport(error) => {
                    *last = error.to_string();
                    self.next_frontend();
                    return Ok(machine.on_transport(false));
                }
            };
            let headers = request.backend_headers(&self.credentials, load.body.len()).map_err(bad_header)?;
            let connected: Connected = match self.transport.connect(&endpoint).await {
                Ok(connected) => connected,
                Err(error) => {
                    *last = error.to_string();
                    return Ok(machine.on_transport(false));
                }
            };
            // The server gives up first, so that its answer is seen.
            let timeout = self.options.load_timeout.saturating_add(self.options.connect_timeout);
            let reply = match connected.exchange(Method::PUT, &target, headers, load.body.clone(), timeout).await {
                Ok(reply) => reply,
                Err(error) => {
                    *last = error.to_string();
                    return Ok(machine.on_transport(error.reached));
                }
            };
            if !reply.is_redirect() {
                let mut parsed = parse_load(reply.status.as_u16(), &reply.body);
                if let (Ok(parsed), true) = (&mut parsed, style.group_commit != GroupCommit::Off) {
                    // As asked.
                    parsed.group_commit = false;
                }
                let outcome = classify_load(parsed, load.rows, load.two_phase);
                *last = note(&outcome);
                return Ok(machine.on_outcome(outcome));
            }
            route = match self.redirected(&endpoint, &target, &reply) {
                Ok((next, _)) if self.frontends.contains(&next) => {
                    Route::refused(format!("{endpoint} redirects a load's body to the FE {next}"))
                }
                Ok((next, target)) => Route::To(next, target),
                Err(text) => Route::refused(text),
            };
        }
        Ok(machine.on_outcome(refused("a load is redirected without end".to_owned())))
    }

    /// Asks an FE, without a body, where a request should go. An FE may first name another FE.
    async fn route(&self, frontend: &Endpoint, path: &str, headers: &HeaderMap) -> Route {
        let (mut endpoint, mut target) = (frontend.clone(), path.to_owned());
        for _ in 0..MAX_HOPS {
            let asked =
                self.transport.request(&endpoint, Method::PUT, &target, headers.clone(), self.options.reply_timeout);
            let reply = match asked.await {
                Ok(reply) => reply,
                Err(error) => return Route::Transport(error),
            };
            if !reply.is_redirect() {
                return Route::Outcome(classify_no_redirect(parse_load(reply.status.as_u16(), &reply.body)));
            }
            match self.redirected(&endpoint, &target, &reply) {
                Ok((next, next_target)) if self.frontends.contains(&next) => {
                    (endpoint, target) = (next, next_target);
                }
                Ok((backend, target)) => return Route::To(backend, target),
                Err(text) => return Route::refused(text),
            }
        }
        Route::refused(format!("the FE {frontend} redirects without end"))
    }

    /// Where a redirect leads, or why it may not be followed. Its text is never shown: it carries a password.
    fn redirected(&self, from: &Endpoint, path: &str, reply: &Reply) -> Result<(Endpoint, String), String> {
        let (to, target) = reply.redirect().and_then(|location| follow(from, path, &location)).ok_or_else(|| {
            format!("{from} answers HTTP {} with a Location that cannot be followed", reply.status.as_u16())
        })?;
        self.allows(from, &to)?;
        Ok((to, target))
    }

    async fn failure(&self, what: String, failure: Failure) -> SinkError {
        let explained = async |text: String, url: Option<String>| match url {
            Some(url) => match self.error_page(&url).await {
                Some(page) => format!("{text}; {page}"),
                None => format!("{text}; see {url}"),
            },
            None => text,
        };
        SinkError::new(match failure {
            Failure::Fatal { cause, text, error_url } => {
                Kind::Refused { what, cause, text: explained(text, error_url).await }
            }
            Failure::RowCount { text, error_url } => Kind::RowCount { what, text: explained(text, error_url).await },
            Failure::LabelWornOut => Kind::LabelWornOut { what },
        })
    }

    /// The first lines of the page that explains refused rows. Fetched without credentials.
    async fn error_page(&self, url: &str) -> Option<String> {
        let here = self.frontends.first()?;
        let (endpoint, path) = follow(here, "/api/_load_error_log", url)?;
        self.allows(here, &endpoint).ok()?;
        let timeout = self.options.reply_timeout.min(Duration::from_secs(5));
        let reply = self.transport.request(&endpoint, Method::GET, &path, HeaderMap::new(), timeout).await.ok()?;
        let text = excerpt(&reply.body);
        (reply.status.is_success() && !text.is_empty()).then_some(text)
    }

    /// Sends a commit or abort once, redirects included. The outer error is final, the inner one that of a connection.
    async fn operate_once(
        &self,
        database: &str,
        operation: TxnOperation,
        txn: TxnRef,
    ) -> Result<Result<Reply, SendError>, SinkError> {
        let refused = |text: String| {
            let what = format!("{operation:?} of {txn:?} in {database}");
            SinkError::new(Kind::Refused { what, cause: FatalCause::BadRequest, text })
        };
        let headers = txn_headers(&self.credentials, operation, txn);
        let mut endpoint = self.configured_backend().map_or_else(|| self.frontend(), Ok)?.clone();
        let mut target = txn_path(database);
        for _ in 0..MAX_HOPS {
            let asked =
                self.transport.request(&endpoint, Method::PUT, &target, headers.clone(), self.options.reply_timeout);
            let reply = match asked.await {
                Ok(reply) => reply,
                Err(error) => return Ok(Err(error)),
            };
            if !reply.is_redirect() {
                return Ok(Ok(reply));
            }
            (endpoint, target) = self.redirected(&endpoint, &target, &reply).map_err(refused)?;
        }
        Err(refused("it is redirected without end".to_owned()))
    }

    /// Tries `operation` until `decide` takes its reply or the time is up. `decide` gives back why it does not.
    async fn operate<T>(
        &self,
        database: &str,
        operation: TxnOperation,
        txn: TxnRef,
        decide: impl Fn(Reply) -> Result<T, String>,
    ) -> Result<T, SinkError> {
        let mut backoff = Backoff::new(self.options.retry_base, self.options.retry_cap);
        let mut rng = self.rng();
        let started = Instant::now();
        loop {
            let text = match self.operate_once(database, operation, txn).await? {
                Ok(reply) => match decide(reply) {
                    Ok(done) => return Ok(done),
                    Err(text) => text,
                },
                Err(error) => error.to_string(),
            };
            let wait = backoff.next(&mut rng);
            if started.elapsed().saturating_add(wait) > self.options.give_up {
                let what = format!("{operation:?} of {txn:?} in {database}").to_lowercase();
                return Err(SinkError::new(Kind::GaveUp { what, text }));
            }
            self.next_frontend();
            tracing::debug!(database, ?operation, ?txn, reason = %text, ?wait, "second phase is tried again");
            sleep(wait).await;
        }
    }

    /// Commits a PRECOMMITTED transaction. Never returns [`CommitOutcome::Retry`]; committing twice is harmless.
    ///
    /// # Errors
    /// `is_retryable` when the time is up: the transaction may or may not be committed. Else refused.
    pub async fn commit(&self, database: &str, txn_id: u64) -> Result<CommitOutcome, SinkError> {
        let outcome = self
            .operate(database, TxnOperation::Commit, TxnRef::Id(txn_id), |reply| {
                match classify_commit(parse_txn(reply.status.as_u16(), &reply.body)) {
                    CommitOutcome::Retry { message } => Err(message),
                    other => Ok(other),
                }
            })
            .await?;
        match outcome {
            CommitOutcome::Fatal { cause, message } => {
                let what = format!("commit of transaction {txn_id} in {database}");
                Err(SinkError::new(Kind::Refused { what, cause, text: message.to_string() }))
            }
            other => Ok(other),
        }
    }

    /// Aborts a transaction by id. Never returns [`AbortOutcome::Retry`].
    ///
    /// # Errors
    /// `is_retryable` when the time is up; else refused.
    pub async fn abort(&self, database: &str, txn_id: u64) -> Result<AbortOutcome, SinkError> {
        self.abort_as(database, TxnRef::Id(txn_id)).await
    }

    /// Aborts what runs under a label, PREPARE or PRECOMMITTED. FEs before 2.1, which abort by id only, are asked for it.
    ///
    /// # Errors
    /// As [`abort`](Self::abort).
    pub async fn abort_label(&self, database: &str, label: Label) -> Result<AbortOutcome, SinkError> {
        match self.abort_as(database, TxnRef::Label(label)).await? {
            AbortOutcome::NeedsId => match self.transaction(database, TxnRef::Label(label)).await? {
                TxnFact::PreCommitted(id) | TxnFact::Prepare(id) => self.abort(database, id).await,
                TxnFact::Visible(_) | TxnFact::Committed(_) => Ok(AbortOutcome::AlreadyCommitted),
                TxnFact::Aborted(_) | TxnFact::Unknown => Ok(AbortOutcome::NotFound),
            },
            other => Ok(other),
        }
    }

    async fn abort_as(&self, database: &str, txn: TxnRef) -> Result<AbortOutcome, SinkError> {
        let outcome = self
            .operate(database, TxnOperation::Abort, txn, |reply| {
                match classify_abort(parse_txn(reply.status.as_u16(), &reply.body)) {
                    AbortOutcome::Retry { message } => Err(message),
                    other => Ok(other),
                }
            })
            .await?;
        match outcome {
            AbortOutcome::Fatal { cause, message } => {
                let what = format!("abort of {txn:?} in {database}");
                Err(SinkError::new(Kind::Refused { what, cause, text: message.to_string() }))
            }
            other => Ok(other),
        }
    }
}
