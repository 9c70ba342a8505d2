//! A back end's HTTP port: Stream Load (E2), the second phase (E3), error pages (E10), health (E11).

use super::http1::{Conn, Head};
use super::knob::{Fault, Op, Side};
use super::{Port, Shared, lock, second_phase, stream_load};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// What becomes of the connection after a request.
pub(crate) enum After {
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

/// What a request names, for the scope of knobs.
pub(crate) fn scope(head: &Head) -> (String, String) {
    let segments = head.segments();
    let table = match segments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["api", db, table, _] => format!("{db}.{table}"),
        ["api", db, _] => format!("{db}."),
        _ => String::new(),
    };
    (table, head.header("label").unwrap_or("").to_owned())
}

/// The operation a request asks for.
pub(crate) fn operation(head: &Head) -> Option<Op> {
    match head.path.trim_end_matches('/').rsplit('/').next()? {
        "_stream_load" => Some(Op::Load),
        "_stream_load_2pc" if head.header("txn_operation") == Some("abort") => Some(Op::Abort),
        "_stream_load_2pc" => Some(Op::Commit),
        _ => None,
    }
}

/// F22: the status line of a proxy that answers for the server, and its page.
pub(crate) fn proxy_page(status: u16) -> (&'static str, &'static [u8]) {
    let line = match status {
        401 => "401 Unauthorized",
        403 => "403 Forbidden",
        429 => "429 Too Many Requests",
        503 => "503 Service Unavailable",
        _ => "500 Internal Server Error",
    };
    (line, b"<html><body>said the proxy</body></html>")
}

/// F22 at a server: a proxy answers; `after` it had passed the request on.
pub(crate) fn proxy(shared: &Shared, head: &Head, side: Side, passed: bool) -> Option<u16> {
    let op = operation(head)?;
    let (table, label) = scope(head);
    shared.knob(&table, &label, |f| match f {
        Fault::Proxy { status, at, after, op: of } if (*at, *after, *of) == (side, passed, op) => Some(*status),
        _ => None,
    })
}

/// F23.
pub(crate) fn frame(shared: &Shared, head: &Head, conn: &mut Conn) {
    let (table, label) = scope(head);
    if operation(head).is_some() {
        let framing = shared.knob(&table, &label, |f| match f {
            Fault::Framing { chunked, close } => Some((*chunked, *close)),
            _ => None,
        });
        conn.framing = framing.unwrap_or_default();
    }
}

async fn request(conn: &mut Conn, head: &Head, shared: &Arc<Shared>, index: usize) -> std::io::Result<After> {
    let segments = head.segments();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    frame(shared, head, conn);
    if let Some(status) = proxy(shared, head, Side::Be, false) {
        let (line, page) = proxy_page(status);
        conn.respond(line, &[("Content-Type", "text/html")], page).await?;
        return Ok(After::Keep);
    }
    let reply = match (head.method.as_str(), segments.as_slice()) {
        ("PUT", ["api", db, table, "_stream_load"]) => {
            return stream_load::serve(conn, head, shared, index, db, table).await;
        }
        ("PUT", ["api", db, "_stream_load_2pc"]) => return second_phase::serve(conn, head, shared, index, db).await,
        ("PUT", ["api", db, _, "_stream_load_2pc"]) if shared.by_label() => {
            return second_phase::serve(conn, head, shared, index, db).await;
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
