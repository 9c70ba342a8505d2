//! A back end's HTTP port: Stream Load (E2), the second phase (E3), error pages (E10), health (E11).

use super::http1::{Conn, Head};
use super::knob::{Fault, LostAt, Op};
use super::load::Loader;
use super::plan::{self, Format, Refusal};
use super::reply::{LoadReply, fe_text, two_phase_json};
use super::row::Batch;
use super::table::Schema;
use super::txn::{BeginError, Selector, TxnState};
use super::world::{LoadRefused, NewLoad};
use super::{Port, Shared, clock, lock};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// What becomes of the connection after a request.
enum After {
    Keep,
    /// Closed by a reset, without a reply: the request's reply is lost.
    Reset,
}

/// Serves one connection.
pub(crate) async fn serve(stream: TcpStream, shared: Arc<Shared>, index: usize) {
    let mut conn = Conn::new(stream);
    while let Ok(Some(head)) = conn.read_head().await {
        let after = Box::pin(request(&mut conn, &head, &shared, index)).await;
        shared.seen(Port::Be(index), &head, conn.body_bytes);
        match after {
            Ok(After::Keep) => {
                // A reply may have gone out before the body came (2.3): what is still in flight is read and dropped.
                if !conn.drain(u64::MAX, Duration::from_secs(10)).await {
                    return;
                }
            }
            Ok(After::Reset) => return conn.reset(),
            Err(_) => return,
        }
    }
}

async fn request(conn: &mut Conn, head: &Head, shared: &Arc<Shared>, index: usize) -> std::io::Result<After> {
    let segments = head.segments();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let reply = match (head.method.as_str(), segments.as_slice()) {
        ("PUT", ["api", db, table, "_stream_load"]) => {
            return stream_load(conn, head, shared, index, db, table).await;
        }
        ("PUT", ["api", db, "_stream_load_2pc"] | ["api", db, _, "_stream_load_2pc"]) => {
            match second_phase(head, shared, db) {
                Some(text) => text,
                None => return Ok(After::Reset),
            }
        }
        ("GET", ["api", "_load_error_log"]) => {
            let page = head.param("file").and_then(|f| lock(&shared.error_pages).get(&f).cloned());
            match page {
                Some(text) => text,
                None => {
                    conn.respond("404 Not Found", &[], b"Not Found").await?;
                    return Ok(After::Keep);
                }
            }
        }
        ("GET", ["api", "health"]) => r#"{"status":"OK","msg":"To Be Added"}"#.to_owned(),
        _ => {
            conn.respond("404 Not Found", &[], b"Not Found").await?;
            return Ok(After::Keep);
        }
    };
    conn.respond("200 OK", &[("Content-Type", "text/html")], reply.as_bytes()).await?;
    Ok(After::Keep)
}

/// A load that began.
struct Begun {
    id: i64,
    schema: Arc<Schema>,
    format: Format,
}

async fn stream_load(
    conn: &mut Conn,
    head: &Head,
    shared: &Arc<Shared>,
    index: usize,
    db: &str,
    table: &str,
) -> std::io::Result<After> {
    let started = Instant::now();
    let full_name = format!("{db}.{table}");
    let label = match head.header("label") {
        Some(l) if !l.is_empty() => l.to_owned(),
        _ => random_label(),
    };
    let mut reply = LoadReply {
        txn_id: -1,
        label: label.clone(),
        comment: head.header("comment").unwrap_or("").to_owned(),
        two_phase: plan::two_phase(head),
        status: "Fail",
        ..LoadReply::default()
    };
    let Ok(begun) = begin(conn, head, shared, index, db, table, &label, &mut reply) else {
        return answer(conn, &reply).await;
    };
    reply.txn_id = begun.id;
    let selector = Selector::Id(begun.id);
    let abort = |reason: &str| {
        let now = shared.clock.now_ms();
        // It may be gone or aborted by others already: nothing is left to roll back then.
        drop(shared.world().abort(db, &selector, reason, now));
    };
    let plan = match plan::plan(head, begun.format, &begun.schema, shared.opts.reject_unknown_columns) {
        Ok(plan) => plan,
        Err(refusal) => {
            set_message(&mut reply, shared, &refusal);
            abort(&refusal.text);
            return if lost(shared, &full_name, &label, Op::Load, LostAt::Aborted) {
                Ok(After::Reset)
            } else {
                answer(conn, &reply).await
            };
        }
    };
    if lost(shared, &full_name, &label, Op::Load, LostAt::Prepare) {
        if shared.opts.rollback_on_client_gone {
            abort("client is gone");
        }
        return Ok(After::Reset);
    }
    if head.expects_continue() {
        conn.send_continue().await?;
    }
    let cut = shared.knob(&full_name, &label, |f| if let Fault::Cut { at } = f { Some(*at) } else { None });
    let filter =
        shared.knob(&full_name, &label, |f| if let Fault::FilterRows { rows } = f { Some(*rows) } else { None });
    let now_text = clock::format_ms(shared.clock.now_ms()).split('.').next().unwrap_or("").to_owned();
    let counting = shared.opts.counting;
    let mut loader = Loader::new(begun.schema.clone(), plan, counting, filter.unwrap_or(0), now_text);
    if let Some(found) = shared.world().table(db, table) {
        loader.find(&found.data);
    }
    let mut buf = Vec::new();
    let received = loop {
        if cut.is_some_and(|at| conn.body_bytes >= at) {
            break Err(true);
        }
        match conn.read_body(&mut buf).await {
            Ok(0) => break Ok(()),
            Ok(_) => loader.push(&mut buf),
            Err(_) => break Err(false),
        }
    };
    if let Err(by_knob) = received {
        if shared.opts.rollback_on_client_gone {
            abort("client is gone");
        }
        return if by_knob { Ok(After::Reset) } else { Err(std::io::ErrorKind::UnexpectedEof.into()) };
    }
    loader.finish();
    reply.load_bytes = conn.body_bytes;
    reply.read_ms = ms_since(started);
    reply.total = loader.total;
    reply.filtered = loader.filtered;
    if loader.filtered > 0 {
        let url = error_page(shared, index, &loader.errors, begun.id);
        reply.error_url = Some(url);
        if shared.opts.first_error_msg {
            reply.first_error = loader.errors.first().cloned();
        }
    }
    let ratio = if loader.total == 0 { 0.0 } else { loader.filtered as f64 / loader.total as f64 };
    if ratio > loader.max_filter_ratio() {
        reply.message = "[DATA_QUALITY_ERROR]too many filtered rows".into();
        abort("too many filtered rows");
        return if lost(shared, &full_name, &label, Op::Load, LostAt::Aborted) {
            Ok(After::Reset)
        } else {
            finish_answer(conn, reply, started).await
        };
    }
    reply.loaded = loader.total - loader.filtered;
    let batch: Batch = std::mem::take(&mut loader.batch);
    let committing = Instant::now();
    let done = {
        let now = shared.clock.now_ms();
        shared.world().finish_body(db, begun.id, batch, now)
    };
    let state = match done {
        Ok(state) => state,
        Err(text) => {
            reply.message = format!("[ANALYSIS_ERROR]{}", fe_text(shared.opts.dialect, &text));
            reply.loaded = 0;
            abort(&text);
            return finish_answer(conn, reply, started).await;
        }
    };
    let reached = if state == TxnState::PreCommitted { LostAt::PreCommitted } else { LostAt::Committed };
    if state == TxnState::Committed {
        shared.schedule_publish(db, table, &label, begun.id);
    }
    if lost(shared, &full_name, &label, Op::Load, reached) {
        return Ok(After::Reset);
    }
    if false_fail(shared, &full_name, &label, Op::Load) {
        reply.message = "[THRIFT_RPC_ERROR]failed to call frontend service".into();
        reply.loaded = 0;
        return finish_answer(conn, reply, started).await;
    }
    if state == TxnState::Committed && !wait_visible(shared, db, begun.id).await {
        reply.status = "Publish Timeout";
        reply.message =
            "[PUBLISH_TIMEOUT]TStatus: transaction commit successfully, BUT data will be visible later".into();
    } else {
        reply.status = "Success";
        reply.message = "OK".into();
        if state == TxnState::Committed && lost(shared, &full_name, &label, Op::Load, LostAt::Visible) {
            return Ok(After::Reset);
        }
    }
    reply.commit_ms = ms_since(committing);
    finish_answer(conn, reply, started).await
}

/// The header phase up to the begin, in the order of 12.2. On an error the reply is complete.
#[allow(clippy::too_many_arguments)]
fn begin(
    conn: &Conn,
    head: &Head,
    shared: &Shared,
    index: usize,
    db: &str,
    table: &str,
    label: &str,
    reply: &mut LoadReply,
) -> Result<Begun, ()> {
    let checked = plan::group_commit(head).and_then(|()| match shared.basic_auth(head) {
        None => plan::refuse("NOT_AUTHORIZED", "no valid Basic authorization"),
        Some(known) => plan::before_begin(head).map(|(format, timeout)| (format, timeout, known)),
    });
    let (format, timeout_s, known) = match checked {
        Ok(checked) => checked,
        Err(refusal) => {
            reply.message = format!("[{}]{}", refusal.code, refusal.text);
            return Err(());
        }
    };
    if !known {
        let text = access_denied(head, &conn.peer());
        set_message(reply, shared, &Refusal { code: "NOT_AUTHORIZED", text });
        return Err(());
    }
    let now = shared.clock.now_ms();
    let coordinator = shared.be_addrs[index].to_string();
    let load = NewLoad { label, two_phase: reply.two_phase, coordinator: &coordinator, timeout_ms: timeout_s * 1000 };
    let refused = match shared.world().begin(db, table, load, now) {
        Ok((id, schema)) => return Ok(Begun { id, schema, format }),
        Err(refused) => refused,
    };
    let (code, text) = match refused {
        LoadRefused::UnknownDb => ("ANALYSIS_ERROR", format!("unknown database, database={db}")),
        LoadRefused::UnknownTable => ("ANALYSIS_ERROR", format!("unknown table, tableName={table}")),
        LoadRefused::DataQuota { db } => ("ANALYSIS_ERROR", format!("Database[{db}] data size exceeds quota")),
        LoadRefused::LabelFormat => {
            ("ANALYSIS_ERROR", format!("Label format error. regex: ^[-_A-Za-z0-9:]{{1,128}}$, label: {label}"))
        }
        LoadRefused::Begin(BeginError::LabelUsed { txn_id, status }, _) => {
            reply.status = "Label Already Exists";
            reply.existing = Some(status);
            ("LABEL_ALREADY_EXISTS", format!("Label [{label}] has already been used, relate to txn [{txn_id}]"))
        }
        LoadRefused::Begin(BeginError::TooMany { running, limit }, db_id) => {
            ("ANALYSIS_ERROR", format!("current running txns on db {db_id} is {running}, larger than limit {limit}"))
        }
    };
    set_message(reply, shared, &Refusal { code, text });
    Err(())
}

fn set_message(reply: &mut LoadReply, shared: &Shared, refusal: &Refusal) {
    reply.message = format!("[{}]{}", refusal.code, fe_text(shared.opts.dialect, &refusal.text));
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

async fn answer(conn: &mut Conn, reply: &LoadReply) -> std::io::Result<After> {
    conn.respond("200 OK", &[("Content-Type", "text/html")], reply.to_json().as_bytes()).await?;
    Ok(After::Keep)
}

fn ms_since(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}

async fn finish_answer(conn: &mut Conn, mut reply: LoadReply, started: Instant) -> std::io::Result<After> {
    reply.load_ms = ms_since(started);
    answer(conn, &reply).await
}

/// F8.
fn lost(shared: &Shared, table: &str, label: &str, op: Op, state: LostAt) -> bool {
    let pick = |f: &Fault| (*f == Fault::ReplyLost { op, state }).then_some(());
    shared.knob(table, label, pick).is_some()
}

/// F8 of a commit at PRECOMMITTED: it never reached the front end.
fn request_lost(shared: &Shared, db: &str, selector: &Selector) -> bool {
    let target = {
        let world = shared.world();
        let Some(txns) = world.dbs.get(db).map(|d| &d.txns) else { return false };
        txns.commit_target(selector).map(|t| (format!("{db}.{}", t.table), t.label.clone()))
    };
    target.is_ok_and(|(table, label)| lost(shared, &table, &label, Op::Commit, LostAt::PreCommitted))
}

/// F31.
fn false_fail(shared: &Shared, table: &str, label: &str, op: Op) -> bool {
    shared.knob(table, label, |f| (*f == Fault::FalseFail { op }).then_some(())).is_some()
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

/// E3 on the back end. None: the reply is lost.
fn second_phase(head: &Head, shared: &Shared, db: &str) -> Option<String> {
    let failure = |status: &str, text: &str| Some(two_phase_json(status, text));
    match shared.basic_auth(head) {
        None => return failure("NOT_AUTHORIZED", "[NOT_AUTHORIZED]no valid Basic authorization"),
        Some(false) => return failure("NOT_AUTHORIZED", &access_denied(head, "client")),
        Some(true) => {}
    }
    let id_text = head.header("txn_id").filter(|v| !v.is_empty());
    let label = head.header("label").filter(|v| !v.is_empty());
    let selector = match (id_text, label) {
        (Some(text), _) => match text.parse() {
            Ok(id) => Selector::Id(id),
            Err(e) => return failure("INTERNAL_ERROR", &format!("convert txn_id [{text}] failed, reason={e}")),
        },
        (None, Some(label)) => Selector::Label(label.to_owned()),
        (None, None) => return failure("INVALID_ARGUMENT", "no transaction id or label selected."),
    };
    let op = match head.header("txn_operation") {
        Some("commit") => Op::Commit,
        Some("abort") => Op::Abort,
        _ => return failure("INVALID_ARGUMENT", "transaction operation should be 'commit' or 'abort'"),
    };
    if op == Op::Commit && request_lost(shared, db, &selector) {
        return None;
    }
    let now = shared.clock.now_ms();
    let done = {
        let mut world = shared.world();
        let done = match op {
            Op::Commit => world.commit(db, &selector, now),
            _ => world.abort(db, &selector, "User Abort", now),
        };
        done.and_then(|id| world.txn(db, id).cloned().ok_or_else(|| format!("transaction [{id}] not found")))
    };
    let txn = match done {
        Ok(txn) => txn,
        Err(text) => return failure("ANALYSIS_ERROR", &fe_text(shared.opts.two_phase_dialect, &text)),
    };
    let table = format!("{db}.{}", txn.table);
    let reached = if op == Op::Commit { LostAt::Committed } else { LostAt::Aborted };
    if op == Op::Commit {
        shared.schedule_publish(db, &txn.table, &txn.label, txn.id);
    }
    if lost(shared, &table, &txn.label, op, reached) {
        return None;
    }
    let visible = shared.world().txn(db, txn.id).is_none_or(|t| t.state == TxnState::Visible);
    if op == Op::Commit && visible && lost(shared, &table, &txn.label, op, LostAt::Visible) {
        return None;
    }
    if false_fail(shared, &table, &txn.label, op) {
        return failure("THRIFT_RPC_ERROR", "[THRIFT_RPC_ERROR]failed to call frontend service");
    }
    let mut names = String::new();
    if let Some(id) = id_text {
        names.push_str(&format!("transaction [{id}] "));
    }
    if let Some(label) = label {
        names.push_str(&format!("label [{label}] "));
    }
    let verb = if op == Op::Commit { "commit" } else { "abort" };
    Some(two_phase_json("Success", &format!("{names}{verb} successfully.")))
}
