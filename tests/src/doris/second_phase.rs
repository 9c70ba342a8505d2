//! Commit and abort at a back end (E3, doris.md 4.3).

use super::be::{After, proxy, proxy_page};
use super::http1::{Conn, Head};
use super::knob::{Fault, LostAt, Op, Side};
use super::reply::{fe_text, two_phase_json};
use super::stream_load::{access_denied, garbage};
use super::txn::{Selector, TxnState};
use super::{Shared, clock};
use std::io;
use std::sync::Arc;

/// A reply, and the table and label it speaks of, as far as they are known.
struct Said {
    text: String,
    table: String,
    label: String,
}

pub(crate) async fn serve(
    conn: &mut Conn,
    head: &Head,
    shared: &Arc<Shared>,
    index: usize,
    db: &str,
) -> io::Result<After> {
    let op = if head.header("txn_operation") == Some("abort") { Op::Abort } else { Op::Commit };
    let Some(said) = operate(head, shared, index, db) else { return Ok(After::Reset) };
    let late = shared.knob(&said.table, &said.label, |f| match f {
        Fault::SlowReply { op: of, ms } if *of == op => Some(*ms),
        _ => None,
    });
    if let Some(ms) = late {
        shared.clock.sleep(ms).await;
    }
    if let Some(status) = proxy(shared, head, Side::Be, true) {
        let (line, page) = proxy_page(status);
        conn.respond(line, &[("Content-Type", "text/html")], page).await?;
        return Ok(After::Keep);
    }
    let text = garbage(shared, &said.table, &said.label, Side::Be, op, &said.text).unwrap_or(said.text);
    conn.respond("200 OK", &[("Content-Type", "text/html")], text.as_bytes()).await?;
    Ok(After::Keep)
}

/// F8 of a commit at PRECOMMITTED: it never reached the front end.
fn request_lost(shared: &Shared, db: &str, selector: &Selector) -> bool {
    let target = {
        let world = shared.world();
        let Some(txns) = world.dbs.get(db).map(|d| &d.txns) else { return false };
        txns.commit_target(selector).map(|t| (format!("{db}.{}", t.table), t.label.clone()))
    };
    target.is_ok_and(|(table, label)| shared.lost(&table, &label, Op::Commit, LostAt::PreCommitted))
}

/// None: the reply is lost.
fn operate(head: &Head, shared: &Arc<Shared>, index: usize, db: &str) -> Option<Said> {
    let unnamed = |text: String| Said { text, table: format!("{db}."), label: String::new() };
    let failure = |status: &str, text: &str| Some(unnamed(two_phase_json(status, text)));
    let dialect = shared.dialect(db, "").unwrap_or(shared.opts.two_phase_dialect);
    let code = if shared.opts.two_phase_code { "[ANALYSIS_ERROR]" } else { "" };
    let refused = |text: &str| failure("ANALYSIS_ERROR", &format!("{code}{}", fe_text(dialect, text)));
    match shared.basic_auth(head) {
        None => return failure("NOT_AUTHORIZED", "[NOT_AUTHORIZED]no valid Basic authorization"),
        Some(false) => return failure("NOT_AUTHORIZED", &access_denied(head, "client")),
        Some(true) => {}
    }
    let id_text = head.header("txn_id").filter(|v| !v.is_empty());
    let label = head.header("label").filter(|v| !v.is_empty() && shared.by_label());
    let selector = match (id_text, label) {
        (Some(text), _) => match text.parse() {
            Ok(id) => Selector::Id(id),
            Err(e) => return failure("INTERNAL_ERROR", &format!("convert txn_id [{text}] failed, reason={e}")),
        },
        (None, Some(label)) => Selector::Label(label.to_owned()),
        (None, None) if !shared.by_label() => return failure("INVALID_ARGUMENT", "no transaction id selected."),
        (None, None) => return failure("INVALID_ARGUMENT", "no transaction id or label selected."),
    };
    let op = match head.header("txn_operation") {
        Some("commit") => Op::Commit,
        Some("abort") => Op::Abort,
        _ => return failure("INVALID_ARGUMENT", "transaction operation should be 'commit' or 'abort'"),
    };
    let scope = match &selector {
        Selector::Id(id) => shared.world().txn(db, *id).map(|t| (t.table.clone(), t.label.clone())),
        Selector::Label(label) => Some((String::new(), label.clone())),
    };
    let (table, label_of) = scope.unwrap_or_default();
    let name = format!("{db}.{table}");
    if let Some(text) = shared.not_master(&name, &label_of, op) {
        return match text {
            Some(text) => refused(&text),
            None => failure("NOT_MASTER", &format!("[NOT_MASTER]{}", fe_text(dialect, "FE is not master"))),
        };
    }
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
        Err(text) => return refused(&text),
    };
    let table = format!("{db}.{}", txn.table);
    let reached = if op == Op::Commit { LostAt::Committed } else { LostAt::Aborted };
    if op == Op::Commit {
        shared.schedule_publish(db, &txn.table, &txn.label, txn.id, clock::millis(shared.opts.publish_delay));
    }
    if shared.reached(&table, &txn.label, op, reached, index) {
        return None;
    }
    let visible = shared.world().txn(db, txn.id).is_none_or(|t| t.state == TxnState::Visible);
    if op == Op::Commit && visible && shared.reached(&table, &txn.label, op, LostAt::Visible, index) {
        return None;
    }
    let text = if shared.false_fail(&table, &txn.label, op) {
        two_phase_json("THRIFT_RPC_ERROR", "[THRIFT_RPC_ERROR]failed to call frontend service")
    } else {
        let mut names = String::new();
        if let Some(id) = id_text {
            names.push_str(&format!("transaction [{id}] "));
        }
        if let Some(label) = label {
            names.push_str(&format!("label [{label}] "));
        }
        let verb = if op == Op::Commit { "commit" } else { "abort" };
        two_phase_json("Success", &format!("{names}{verb} successfully."))
    };
    Some(Said { text, table, label: txn.label })
}
