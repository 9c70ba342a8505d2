//! One Stream Load at a back end (E2), in the order of doris.md 12.2.

use super::be::{After, proxy, proxy_page};
use super::http1::{Conn, Head};
use super::knob::{Fault, Garbage, LostAt, Op, Side};
use super::load::Loader;
use super::plan::{self, Format, GroupCommit, Refusal};
use super::reply::{LoadReply, Record, fe_text};
use super::row::Batch;
use super::table::{Model, Schema};
use super::txn::{BeginError, Selector, TxnState};
use super::world::{LoadRefused, NewLoad, Quota};
use super::{Shared, clock, lock};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A load on its way.
struct Stream<'a> {
    shared: &'a Arc<Shared>,
    head: &'a Head,
    index: usize,
    db: &'a str,
    table: &'a str,
    /// `db.table`.
    name: String,
    label: String,
    started: Instant,
    began_ms: i64,
}

/// A load that began.
struct Begun {
    id: i64,
    schema: Arc<Schema>,
    format: Format,
}

/// Serves a load.
pub(crate) async fn serve(
    conn: &mut Conn,
    head: &Head,
    shared: &Arc<Shared>,
    index: usize,
    db: &str,
    table: &str,
) -> io::Result<After> {
    let mut head = head.clone();
    if !shared.opts.json_by_line && ["read_json_by_line", "strip_outer_array"].iter().all(|n| head.header(n).is_none())
    {
        head.headers.push(("read_json_by_line".into(), "false".into()));
    }
    let head = &head;
    let label = match head.header("label") {
        Some(l) if !l.is_empty() => l.to_owned(),
        _ => random_label(),
    };
    let name = format!("{db}.{table}");
    let began_ms = shared.clock.now_ms();
    let mut stream = Stream { shared, head, index, db, table, name, label, started: Instant::now(), began_ms };
    if stream.knob(|f| (*f == Fault::RedirectAgain { at: Side::Be }).then_some(())).is_some() {
        let location = format!("http://{}{}", shared.be_addrs[index], head.path);
        conn.respond("307 Temporary Redirect", &[("Location", location.as_str())], b"").await?;
        return Ok(After::Keep);
    }
    let late = stream.knob(|f| if let Fault::LateBegin { ms } = f { Some(*ms) } else { None });
    let parked = match late {
        None => None,
        Some(ms) => {
            let mut body = Vec::new();
            while conn.read_body(&mut body).await? > 0 {}
            shared.clock.sleep(ms).await;
            Some(body)
        }
    };
    stream.run(conn, parked).await
}

impl Stream<'_> {
    fn knob<T>(&self, pick: impl Fn(&Fault) -> Option<T>) -> Option<T> {
        self.shared.knob(&self.name, &self.label, pick)
    }

    /// Whether the reply is lost now that the transaction is in this state.
    fn reached(&self, state: LostAt) -> bool {
        self.shared.reached(&self.name, &self.label, Op::Load, state, self.index)
    }

    fn abort(&self, id: i64, reason: &str) {
        let now = self.shared.clock.now_ms();
        // It may be gone or aborted by others already: nothing is left to roll back then.
        drop(self.shared.world().abort(self.db, &Selector::Id(id), reason, now));
    }

    fn client_is_gone(&self, id: i64) {
        if self.shared.opts.rollback_on_client_gone {
            self.abort(id, "client is gone");
        }
    }

    fn set_message(&self, reply: &mut LoadReply, refusal: &Refusal) {
        let dialect = self.shared.dialect(&self.name, &self.label).unwrap_or(self.shared.opts.dialect);
        reply.message = format!("[{}]{}", refusal.code, fe_text(dialect, &refusal.text));
    }

    async fn run(&mut self, conn: &mut Conn, parked: Option<Vec<u8>>) -> io::Result<After> {
        let mut reply = LoadReply {
            txn_id: -1,
            label: self.label.clone(),
            comment: self.head.header("comment").unwrap_or("").to_owned(),
            two_phase: plan::two_phase(self.head),
            status: "Fail",
            receive_time: self.shared.opts.receive_time,
            ..LoadReply::default()
        };
        let of_table = {
            let world = self.shared.world();
            world.table(self.db, self.table).and_then(|t| t.schema.property("group_commit_mode").map(str::to_owned))
        };
        let group = match plan::group_commit(self.head, of_table.as_deref()) {
            Ok(group) => group,
            Err(refusal) => {
                reply.message = format!("[{}]{}", refusal.code, refusal.text);
                return self.answer(conn, reply).await;
            }
        };
        if group != GroupCommit::Off {
            reply.group_commit = true;
            reply.label = format!("group_commit_{:016x}_{:016x}", fastrand::u64(..), fastrand::u64(..));
            self.label.clone_from(&reply.label);
        }
        let Ok(begun) = self.begin(conn, &mut reply) else { return self.answer(conn, reply).await };
        reply.txn_id = begun.id;
        let planned = plan::plan(self.head, begun.format, &begun.schema, self.shared.opts.reject_unknown_columns)
            .and_then(|plan| if self.refused_in_cloud(&begun.schema) { cloud_refusal() } else { Ok(plan) });
        let plan = match planned {
            Ok(plan) => plan,
            Err(refusal) => {
                self.set_message(&mut reply, &refusal);
                self.abort(begun.id, &refusal.text);
                return self.refused(conn, reply).await;
            }
        };
        if self.reached(LostAt::Prepare) {
            self.client_is_gone(begun.id);
            return Ok(After::Reset);
        }
        if self.head.expects_continue() && parked.is_none() {
            conn.send_continue().await?;
        }
        let filter = self.knob(|f| if let Fault::FilterRows { rows } = f { Some(*rows) } else { None });
        let now_text = clock::format_ms(self.shared.clock.now_ms()).split('.').next().unwrap_or("").to_owned();
        let counting = self.shared.opts.counting;
        let mut loader = Loader::new(begun.schema.clone(), plan, counting, filter.unwrap_or(0), now_text);
        if let Some(found) = self.shared.world().table(self.db, self.table) {
            loader.find(&found.data);
        }
        if let Some(after) = self.receive(conn, parked, &mut loader, begun.id, &mut reply).await? {
            return Ok(after);
        }
        loader.finish();
        if let Some((ms, cut)) = self.knob(|f| match f {
            Fault::HoldRunning { ms, cut } => Some((*ms, *cut)),
            _ => None,
        }) {
            if cut {
                conn.hang_up().await;
            }
            self.shared.clock.sleep(ms).await;
        }
        self.finish(conn, loader, begun.id, group, reply).await
    }

    /// Reads the body. Some: the request is over.
    async fn receive(
        &self,
        conn: &mut Conn,
        parked: Option<Vec<u8>>,
        loader: &mut Loader,
        id: i64,
        reply: &mut LoadReply,
    ) -> io::Result<Option<After>> {
        if let Some(mut body) = parked {
            loader.push(&mut body);
            return Ok(None);
        }
        let cut = self.knob(|f| if let Fault::Cut { at } = f { Some(*at) } else { None });
        let early = self.knob(|f| if let Fault::EarlyReply { at, ms } = f { Some((*at, *ms)) } else { None });
        let slow = self.knob(|f| if let Fault::SlowReader { bytes, ms } = f { Some((*bytes, *ms)) } else { None });
        let mut buf = Vec::new();
        let mut pause_at = slow.map_or(u64::MAX, |(bytes, _)| bytes);
        loop {
            if cut.is_some_and(|at| conn.body_bytes >= at) {
                self.client_is_gone(id);
                return Ok(Some(After::Reset));
            }
            if let Some((at, ms)) = early
                && conn.body_bytes >= at
            {
                reply.message = "[CANCELLED]cancelled".into();
                self.abort(id, "cancelled");
                self.write(conn, reply).await?;
                tokio::time::sleep(Duration::from_millis(ms)).await;
                return Ok(Some(After::Reset));
            }
            if let Some((bytes, ms)) = slow
                && conn.body_bytes >= pause_at
            {
                pause_at = conn.body_bytes.saturating_add(bytes);
                self.shared.clock.sleep(ms).await;
            }
            match conn.read_body(&mut buf).await {
                Ok(0) => return Ok(None),
                Ok(_) => loader.push(&mut buf),
                Err(_) => {
                    self.client_is_gone(id);
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        }
    }

    /// The body is there: judge it, precommit or commit it, answer.
    async fn finish(
        &self,
        conn: &mut Conn,
        mut loader: Loader,
        id: i64,
        group: GroupCommit,
        mut reply: LoadReply,
    ) -> io::Result<After> {
        let shared = self.shared;
        reply.load_bytes = conn.body_bytes;
        reply.read_ms = ms_since(self.started);
        reply.total = loader.total;
        reply.filtered = loader.filtered;
        if loader.filtered > 0 {
            let url = error_page(shared, self.index, &loader.errors, id);
            reply.error_url = Some(url);
            if shared.opts.first_error_msg {
                reply.first_error = loader.errors.first().cloned();
            }
        }
        let ratio = if loader.total == 0 { 0.0 } else { loader.filtered as f64 / loader.total as f64 };
        if ratio > loader.max_filter_ratio() {
            reply.message = "[DATA_QUALITY_ERROR]too many filtered rows".into();
            self.abort(id, "too many filtered rows");
            return self.refused(conn, reply).await;
        }
        if let Some(err) = self.tablet_error(loader.total) {
            reply.message =
                format!("[INTERNAL_ERROR]tablet writer write failed, tablet_id=10{id}, txn_id={id}, err={err}");
            self.abort(id, &format!("tablet writer write failed, err={err}"));
            return self.refused(conn, reply).await;
        }
        reply.loaded = loader.total - loader.filtered;
        let batch: Batch = std::mem::take(&mut loader.batch);
        let committing = Instant::now();
        let done = {
            let now = shared.clock.now_ms();
            shared.world().finish_body(self.db, id, batch, now)
        };
        let state = match done {
            Ok(state) => state,
            Err(text) => {
                self.set_message(&mut reply, &Refusal { code: "ANALYSIS_ERROR", text: text.clone() });
                reply.loaded = 0;
                self.abort(id, &text);
                return self.answer(conn, reply).await;
            }
        };
        let reached = if state == TxnState::PreCommitted { LostAt::PreCommitted } else { LostAt::Committed };
        if state == TxnState::Committed {
            let gathering =
                if group == GroupCommit::Async { shared.opts.group_commit_interval } else { Duration::ZERO };
            let delay = shared.opts.publish_delay.max(gathering);
            shared.schedule_publish(self.db, self.table, &self.label, id, clock::millis(delay));
        }
        if self.reached(reached) {
            return Ok(After::Reset);
        }
        if shared.false_fail(&self.name, &self.label, Op::Load) {
            reply.message = "[THRIFT_RPC_ERROR]failed to call frontend service".into();
            reply.loaded = 0;
            return self.answer(conn, reply).await;
        }
        let waits = state == TxnState::Committed && group != GroupCommit::Async;
        if waits && !wait_visible(shared, self.db, id).await {
            reply.status = "Publish Timeout";
            reply.message =
                "[PUBLISH_TIMEOUT]TStatus: transaction commit successfully, BUT data will be visible later".into();
        } else {
            reply.status = "Success";
            reply.message = "OK".into();
            if waits && self.reached(LostAt::Visible) {
                return Ok(After::Reset);
            }
        }
        reply.commit_ms = ms_since(committing);
        self.answer(conn, reply).await
    }

    /// F13, or a table that really has too many versions.
    fn tablet_error(&self, rows: u64) -> Option<i32> {
        let set = self.knob(|f| match f {
            Fault::TabletError { err, above_rows } if rows > *above_rows => Some(*err),
            _ => None,
        });
        let now = self.shared.clock.now_ms();
        set.or_else(|| self.shared.world().too_many_versions(self.db, self.table, now).then_some(-235))
    }

    /// F25: two phases on a merge-on-write table where storage and compute are separated.
    fn refused_in_cloud(&self, schema: &Schema) -> bool {
        let merge_on_write = match schema.property("enable_unique_key_merge_on_write") {
            Some(text) => text == "true",
            None => self.shared.opts.merge_on_write,
        };
        plan::two_phase(self.head)
            && schema.model == Model::Unique
            && merge_on_write
            && self.shared.is_cloud(&self.name)
    }

    /// The header phase up to the begin, in the order of 12.2. On an error the reply is complete.
    fn begin(&self, conn: &Conn, reply: &mut LoadReply) -> Result<Begun, ()> {
        let (shared, head) = (self.shared, self.head);
        let checked = match shared.basic_auth(head) {
            None => plan::refuse("NOT_AUTHORIZED", "no valid Basic authorization"),
            Some(known) => plan::before_begin(head).map(|(format, timeout)| (format, timeout, known)),
        };
        let (format, timeout_s, known) = match checked {
            Ok(checked) => checked,
            Err(refusal) => {
                reply.message = format!("[{}]{}", refusal.code, refusal.text);
                return Err(());
            }
        };
        let refuse = |reply: &mut LoadReply, code, text| self.set_message(reply, &Refusal { code, text });
        if let Some(text) = shared.not_master(&self.name, &self.label, Op::Load) {
            match text {
                Some(text) => refuse(reply, "ANALYSIS_ERROR", text),
                None => refuse(reply, "NOT_MASTER", "FE is not master".into()),
            }
            return Err(());
        }
        if !known {
            refuse(reply, "NOT_AUTHORIZED", access_denied(head, &conn.peer()));
            return Err(());
        }
        let full = self.knob(|f| match f {
            Fault::Quota { data } => Some(if *data { Quota::Data } else { Quota::Running }),
            _ => None,
        });
        let now = shared.clock.now_ms();
        let coordinator = shared.be_addrs[self.index].to_string();
        let load = NewLoad {
            label: &self.label,
            two_phase: reply.two_phase,
            coordinator: &coordinator,
            timeout_ms: timeout_s * 1000,
            full,
        };
        let refused = match shared.world().begin(self.db, self.table, load, now) {
            Ok((id, schema)) => return Ok(Begun { id, schema, format }),
            Err(refused) => refused,
        };
        let label = &self.label;
        let (code, text) = match refused {
            LoadRefused::UnknownDb => ("ANALYSIS_ERROR", format!("unknown database, database={}", self.db)),
            LoadRefused::UnknownTable => ("ANALYSIS_ERROR", format!("unknown table, tableName={}", self.table)),
            LoadRefused::DataQuota { db } => ("ANALYSIS_ERROR", format!("Database[{db}] data size exceeds quota")),
            LoadRefused::LabelFormat => {
                ("ANALYSIS_ERROR", format!("Label format error. regex: ^[-_A-Za-z0-9:]{{1,128}}$, label: {label}"))
            }
            LoadRefused::Begin(BeginError::LabelUsed { txn_id, status }, _) => {
                reply.status = "Label Already Exists";
                reply.existing = Some(status);
                let text = format!("Label [{label}] has already been used, relate to txn [{txn_id}]");
                ("LABEL_ALREADY_EXISTS", text)
            }
            LoadRefused::Begin(BeginError::WornOut, _) => {
                ("ANALYSIS_ERROR", format!("label {label} has too many aborted transactions"))
            }
            LoadRefused::Begin(BeginError::TooMany { running, limit }, db_id) => {
                let text = format!("current running txns on db {db_id} is {running}, larger than limit {limit}");
                ("ANALYSIS_ERROR", text)
            }
        };
        refuse(reply, code, text);
        Err(())
    }

    /// The answer to a load that was begun and rolled back.
    async fn refused(&self, conn: &mut Conn, reply: LoadReply) -> io::Result<After> {
        if self.reached(LostAt::Aborted) { Ok(After::Reset) } else { self.answer(conn, reply).await }
    }

    /// Answers, as late as F9 says.
    async fn answer(&self, conn: &mut Conn, mut reply: LoadReply) -> io::Result<After> {
        let late = self.knob(|f| match f {
            Fault::SlowReply { op: Op::Load, ms } => Some(*ms),
            _ => None,
        });
        if let Some(ms) = late {
            self.shared.clock.sleep(ms).await;
        }
        if reply.txn_id > 0 {
            reply.load_ms = ms_since(self.started);
        }
        self.write(conn, &reply).await?;
        Ok(After::Keep)
    }

    async fn write(&self, conn: &mut Conn, reply: &LoadReply) -> io::Result<()> {
        if let Some(status) = proxy(self.shared, self.head, Side::Be, true) {
            let (line, page) = proxy_page(status);
            return conn.respond(line, &[("Content-Type", "text/html")], page).await;
        }
        let text = match self.knob(|f| (*f == Fault::RecordReply).then_some(())) {
            None => reply.to_json(),
            Some(()) => reply.to_record(Record {
                db: self.db,
                table: self.table,
                user: &self.shared.opts.user,
                client: &conn.peer(),
                started: &clock::format_ms(self.began_ms),
                finished: &clock::format_ms(self.shared.clock.now_ms()),
            }),
        };
        let text = garbage(self.shared, &self.name, &self.label, Side::Be, Op::Load, &text).unwrap_or(text);
        conn.respond("200 OK", &[("Content-Type", "text/html")], text.as_bytes()).await
    }
}

fn cloud_refusal<T>() -> Result<T, Refusal> {
    plan::refuse("NOT_IMPLEMENTED_ERROR", "stream load 2pc is unsupported for mow table")
}

/// F21: what comes back instead of `text`.
pub(crate) fn garbage(shared: &Shared, table: &str, label: &str, side: Side, of: Op, text: &str) -> Option<String> {
    let body = shared.knob(table, label, |f| match f {
        Fault::Garbage { body, at, op } if (*at, *op) == (side, of) => Some(*body),
        _ => None,
    })?;
    Some(match body {
        Garbage::Html => "<!DOCTYPE html><html><body>It works!</body></html>".into(),
        Garbage::Empty => String::new(),
        Garbage::Truncated => text.chars().take(text.chars().count() / 2).collect(),
        Garbage::NoStatus => {
            let mut value: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
            if let Some(members) = value.as_object_mut() {
                members.remove("Status");
                members.remove("status");
            }
            value.to_string()
        }
    })
}

pub(crate) fn access_denied(head: &Head, peer: &str) -> String {
    use base64::Engine as _;
    let user = head
        .header("authorization")
        .and_then(|v| v.strip_prefix("Basic "))
        .and_then(|v| base64::engine::general_purpose::STANDARD.decode(v.trim()).ok())
        .and_then(|v| String::from_utf8(v).ok())
        .map(|v| v.split(':').next().unwrap_or("").to_owned())
        .unwrap_or_default();
    format!("Access denied for user '{user}@{peer}' (using password: YES)")
}

fn random_label() -> String {
    let (a, b) = (fastrand::u64(..), fastrand::u64(..));
    format!("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", a >> 32, a >> 16 & 0xffff, a & 0xffff, b >> 48, b & 0xffff_ffff_ffff)
}

fn ms_since(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Waits for VISIBLE as long as the front end does in a one-phase load.
async fn wait_visible(shared: &Shared, db: &str, id: i64) -> bool {
    let until = shared.clock.now_ms() + clock::millis(shared.opts.publish_wait);
    loop {
        let state = shared.world().txn(db, id).map(|t| t.state);
        // A purged transaction was visible before.
        if state != Some(TxnState::Committed) {
            return true;
        }
        if shared.clock.now_ms() >= until {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn error_page(shared: &Shared, index: usize, lines: &[String], id: i64) -> String {
    let file = format!("__shard_{}/error_log_insert_stmt_{:x}_{:x}", id % 10, id, fastrand::u32(..));
    let mut pages = lock(&shared.error_pages);
    if pages.len() > 1000 {
        pages.clear();
    }
    pages.insert(file.clone(), lines.join("\n") + "\n");
    format!("http://{}/api/_load_error_log?file={file}", shared.be_addrs[index])
}
