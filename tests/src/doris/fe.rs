//! The front end's HTTP port: the redirects of E1 and E3, E4, E5, E6, E11, and the simulator's own admin path.

use super::be::{frame, operation, proxy, proxy_page, scope};
use super::http1::{Conn, Head};
use super::knob::{Fault, Side};
use super::reply::{envelope, rest_base_failure};
use super::stream_load::garbage;
use super::table::Model;
use super::{Port, Shared, admin};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::TcpStream;

/// Body bytes the front end reads after its 307 before it gives the connection up.
const DRAIN: u64 = 16 << 20;

/// What stays as it is in a URL's userinfo.
const USERINFO: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'~')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b',')
    .remove(b';')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b'=');

/// Serves one connection.
pub(crate) async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let mut conn = Conn::new(stream);
    while let Ok(Some(head)) = conn.read_head().await {
        let served = Box::pin(request(&mut conn, &head, &shared)).await;
        let drained = served.is_ok() && conn.drain(DRAIN, Duration::from_millis(200)).await;
        shared.seen(Port::Fe, &head, conn.body_bytes);
        if !drained {
            return;
        }
    }
}

async fn request(conn: &mut Conn, head: &Head, shared: &Arc<Shared>) -> std::io::Result<()> {
    let segments = head.segments();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let json = [("Content-Type", "application/json")];
    if let ["sim", what] = segments.as_slice() {
        let mut body = Vec::new();
        while conn.read_body(&mut body).await? > 0 {}
        // The admin path is no part of Doris: its bodies do not count as bytes that reached the front end.
        conn.body_bytes = 0;
        let (status, text) = admin::handle(shared, &head.method, what, &body);
        return conn.respond(status, &[("Content-Type", "application/json")], text.as_bytes()).await;
    }
    let answer = |text: String| text.into_bytes();
    frame(shared, head, conn);
    if let Some(status) = proxy(shared, head, Side::Fe, false) {
        let (line, page) = proxy_page(status);
        return conn.respond(line, &[("Content-Type", "text/html")], page).await;
    }
    let (scope_table, scope_label) = scope(head);
    if let Some(op) = operation(head)
        && let Some(text) = garbage(shared, &scope_table, &scope_label, Side::Fe, op, "{\"msg\":\"what a load is\"}")
    {
        return conn.respond("200 OK", &json, text.as_bytes()).await;
    }
    let public = matches!(segments.as_slice(), ["api", "bootstrap" | "health"]);
    if !public && shared.basic_auth(head) != Some(true) {
        return conn.respond("200 OK", &json, &answer(unauthorized())).await;
    }
    let body = match (head.method.as_str(), segments.as_slice()) {
        ("PUT", ["api", db, table, "_stream_load"]) => match load_refusal(head, db, table) {
            Some(text) => rest_base_failure(&text),
            None => match load_fault(head, shared) {
                Some(text) => text,
                None => return redirect(conn, head, shared, &format!("{db}.{table}")).await,
            },
        },
        ("PUT", ["api", _, _, "_stream_load_2pc"]) if !shared.by_label() => {
            return conn.respond("404 Not Found", &[], b"Not Found").await;
        }
        ("PUT", ["api", _, "_stream_load_2pc"] | ["api", _, _, "_stream_load_2pc"]) => {
            let given = |name: &str| head.header(name).is_some_and(|v| !v.is_empty());
            if !given("txn_id") && !shared.by_label() {
                rest_base_failure("No transaction id selected.")
            } else if !given("txn_id") && !given("label") {
                rest_base_failure("No transaction id or label selected.")
            } else if !given("txn_operation") {
                rest_base_failure("No transaction operation('commit' or 'abort') selected.")
            } else {
                return redirect(conn, head, shared, "").await;
            }
        }
        ("GET", ["api", db, "get_load_state"])
            if shared.knob(&format!("{db}."), "", |f| (*f == Fault::StateRedirect).then_some(())).is_some() =>
        {
            let location = format!("http://{}{}?{}", shared.fe_addr, head.path, head.query);
            return conn.respond("307 Temporary Redirect", &[("Location", location.as_str())], b"").await;
        }
        ("GET", ["api", db, "get_load_state"]) => match head.param("label").filter(|l| !l.is_empty()) {
            None => envelope("Bad Request", 403, &json!("No label selected")),
            Some(label) => match shared.world().dbs.get(*db) {
                None => envelope("Error", 1, &json!(format!("unknown database, database={db}"))),
                Some(db) => envelope("success", 0, &json!(db.txns.label_state(&label))),
            },
        },
        ("GET", ["api", "backends"]) => {
            let listed =
                |a: &std::net::SocketAddr| json!({"ip": a.ip().to_string(), "http_port": a.port(), "is_alive": true});
            let mut backends: Vec<_> = shared.be_addrs.iter().map(listed).collect();
            if shared.standing("", |f| (*f == Fault::DeadBackend).then_some(())).is_some() {
                backends.insert(0, listed(&shared.dead_addr));
            }
            envelope("success", 0, &json!({ "backends": backends }))
        }
        ("GET", ["api", db, table, "_schema"]) => match shared.world().table(db, table) {
            None => envelope("Error", 1, &json!(format!("unknown table, tableName={table}"))),
            Some(t) => {
                let properties: Vec<_> = t
                    .schema
                    .visible()
                    .map(|c| json!({"name": c.name, "type": c.ty.base_name().to_uppercase(), "comment": c.comment}))
                    .collect();
                let keys = if t.schema.model == Model::Unique { "UNIQUE_KEYS" } else { "DUP_KEYS" };
                envelope("success", 0, &json!({"keysType": keys, "properties": properties, "status": 200}))
            }
        },
        ("GET", ["api", "bootstrap"]) => {
            let (sql, fe) = (shared.sql_addr.port(), shared.fe_addr.port());
            envelope("success", 0, &json!({"replayedJournalId": 0, "queryPort": sql, "httpPort": fe, "version": "sim"}))
        }
        ("GET", ["api", "health"]) => {
            let n = shared.be_addrs.len();
            envelope("success", 0, &json!({"total_backend_num": n, "online_backend_num": n}))
        }
        _ => {
            return conn.respond("404 Not Found", &[], b"Not Found").await;
        }
    };
    conn.respond("200 OK", &json, &answer(body)).await
}

/// The refusals of E1, in order.
fn load_refusal(head: &Head, db: &str, table: &str) -> Option<String> {
    if head.header("expect").is_none() {
        return Some("There is no 100-continue header".into());
    }
    if db.is_empty() {
        return Some("No database selected.".into());
    }
    if table.is_empty() {
        return Some("No table selected.".into());
    }
    let mode = head.header("group_commit").map(str::to_ascii_lowercase);
    if mode.is_some_and(|m| !matches!(m.as_str(), "sync_mode" | "async_mode" | "off_mode")) {
        return Some("Header `group_commit` can only be `sync_mode`, `async_mode` or `off_mode`.".into());
    }
    None
}

/// F5 and F6: the text of a refusal.
fn load_fault(head: &Head, shared: &Shared) -> Option<String> {
    let (table, label) = scope(head);
    shared.knob(&table, &label, |f| match f {
        Fault::FrontendRefuses { text } => Some(rest_base_failure(text)),
        Fault::FrontendUnauthorized => Some(unauthorized()),
        _ => None,
    })
}

fn unauthorized() -> String {
    envelope("Unauthorized", 401, &json!("Need auth information or access denied"))
}

async fn redirect(conn: &mut Conn, head: &Head, shared: &Shared, table: &str) -> std::io::Result<()> {
    let label = head.header("label").unwrap_or("").to_owned();
    let wait = shared.knob(table, &label, |f| if let Fault::SlowRedirect { ms } = f { Some(*ms) } else { None });
    if let Some(ms) = wait {
        shared.clock.sleep(ms).await;
    }
    let form = shared.knob(table, &label, |f| match f {
        Fault::RedirectForm { userinfo, trailing_question, host } => {
            Some((userinfo.clone(), *trailing_question, host.clone()))
        }
        _ => None,
    });
    let (userinfo, question, host) = match form {
        Some((Some(userinfo), question, host)) => (userinfo, question, host),
        Some((None, question, host)) => (configured_userinfo(shared), question, host),
        None => (configured_userinfo(shared), shared.opts.trailing_question, None),
    };
    let again = shared.knob(table, &label, |f| (*f == Fault::RedirectAgain { at: Side::Fe }).then_some(()));
    let dead = shared.knob(table, &label, |f| (*f == Fault::DeadBackend).then_some(()));
    let be = match (again, dead) {
        (Some(()), _) => shared.fe_addr,
        (None, Some(())) => shared.dead_addr,
        (None, None) => shared.be_addrs[shared.next_be.fetch_add(1, Ordering::SeqCst) % shared.be_addrs.len()],
    };
    let be = host.unwrap_or_else(|| be.to_string());
    let at = if userinfo.is_empty() { "" } else { "@" };
    let query = match (head.query.is_empty(), question) {
        (false, _) => format!("?{}", head.query),
        (true, true) => "?".into(),
        (true, false) => String::new(),
    };
    let location = format!("http://{userinfo}{at}{be}{}{query}", head.path);
    let headers = [("Content-Type", "text/html;charset=utf-8"), ("Location", location.as_str())];
    conn.respond("307 Temporary Redirect", &headers, b"").await
}

fn configured_userinfo(shared: &Shared) -> String {
    let part = |s: &str| utf8_percent_encode(s, USERINFO).to_string();
    format!("{}{}:{}", part(&shared.opts.user), shared.opts.userinfo_suffix, part(&shared.opts.password))
}
