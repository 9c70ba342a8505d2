//! A bare HTTP client and the SQL client of millstream-wire, as small as the tests need them.

use millstream_tests::doris::DorisSim;
use millstream_wire::{ConnectOptions, Connection, SslMode};
use serde_json::Value;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A response.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map_or("", |(_, v)| v.as_str())
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {:?}", self.body))
    }

    /// A field of the body as text.
    pub(crate) fn field(&self, name: &str) -> String {
        match &self.json()[name] {
            Value::String(s) => s.clone(),
            other => other.to_string(),
        }
    }
}

/// Sends one request, with exactly these headers, and reads one response; None if the server hangs up instead.
pub(crate) async fn http(addr: SocketAddr, request: &str, headers: &[(&str, &str)], body: &[u8]) -> Option<Response> {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    let mut head = format!("{request} HTTP/1.1\r\nHost: {addr}\r\n");
    for (n, v) in headers {
        head.push_str(&format!("{n}: {v}\r\n"));
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    // The server may answer, or hang up, before it has read everything.
    stream.write_all(&bytes).await.ok();
    read_response(&mut stream).await
}

pub(crate) async fn read_response(stream: &mut TcpStream) -> Option<Response> {
    let mut seen = Vec::new();
    loop {
        if let Some(end) = seen.windows(4).position(|w: &[u8]| w == b"\r\n\r\n") {
            let head = String::from_utf8(seen[..end].to_vec()).unwrap();
            let rest = seen[end + 4..].to_vec();
            let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
            if status == 100 {
                seen = rest;
                continue;
            }
            let headers: Vec<(String, String)> = head
                .lines()
                .skip(1)
                .map(|l| l.split_once(": ").map(|(n, v)| (n.to_owned(), v.to_owned())).unwrap())
                .collect();
            let mut response = Response { status, headers, body: String::new() };
            let chunked = response.header("transfer-encoding") == "chunked";
            let want: usize = if chunked { 0 } else { response.header("content-length").parse().unwrap() };
            let mut body = rest;
            while if chunked { !body.ends_with(b"0\r\n\r\n") } else { body.len() < want } {
                let mut buf = [0; 4096];
                match stream.read(&mut buf).await {
                    Ok(n) if n > 0 => body.extend_from_slice(&buf[..n]),
                    _ => return None,
                }
            }
            response.body = String::from_utf8(if chunked { joined(&body) } else { body }).unwrap();
            return Some(response);
        }
        let mut buf = [0; 4096];
        match stream.read(&mut buf).await {
            Ok(n) if n > 0 => seen.extend_from_slice(&buf[..n]),
            _ => return None,
        }
    }
}

/// The chunks of a body without their sizes.
fn joined(mut chunks: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(end) = chunks.windows(2).position(|w| w == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&chunks[..end]).unwrap(), 16).unwrap();
        out.extend_from_slice(&chunks[end + 2..end + 2 + size]);
        chunks = &chunks[end + 2 + size + 2..];
    }
    out
}

/// The simulator's credentials as a header value.
pub(crate) fn basic(sim: &DorisSim) -> String {
    use base64::Engine as _;
    let plain = format!("{}:{}", sim.user(), sim.password());
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(plain))
}

/// The front end's address.
pub(crate) fn fe(sim: &DorisSim) -> SocketAddr {
    sim.fe_url().strip_prefix("http://").unwrap().parse().unwrap()
}

/// A Stream Load straight to the first back end, with the headers a careful client sends and `more`, which replaces
/// those of the same name (an empty value removes it).
pub(crate) async fn load_raw(sim: &DorisSim, table: &str, more: &[(&str, &str)], body: &[u8]) -> Option<Response> {
    let auth = basic(sim);
    let length = body.len().to_string();
    let mut headers = vec![
        ("Authorization", auth.as_str()),
        ("Content-Length", length.as_str()),
        ("format", "json"),
        ("read_json_by_line", "true"),
        ("strip_outer_array", "false"),
        ("strict_mode", "true"),
        ("max_filter_ratio", "0"),
        ("timeout", "600"),
        ("group_commit", "off_mode"),
    ];
    for (n, v) in more {
        headers.retain(|(h, _)| !h.eq_ignore_ascii_case(n));
        if !v.is_empty() {
            headers.push((n, v));
        }
    }
    let (db, table) = table.split_once('.').unwrap();
    http(sim.be_addrs()[0], &format!("PUT /api/{db}/{table}/_stream_load"), &headers, body).await
}

/// The same, answered.
pub(crate) async fn load(sim: &DorisSim, table: &str, more: &[(&str, &str)], body: &str) -> Response {
    load_raw(sim, table, more, body.as_bytes()).await.expect("an answer")
}

/// The second phase at the first back end.
pub(crate) async fn second_phase(sim: &DorisSim, db: &str, headers: &[(&str, &str)]) -> Option<Response> {
    let auth = basic(sim);
    let mut all = vec![("Authorization", auth.as_str()), ("Content-Length", "0")];
    all.extend_from_slice(headers);
    http(sim.be_addrs()[0], &format!("PUT /api/{db}/_stream_load_2pc"), &all, b"").await
}

/// Commits or aborts by id; status and message.
pub(crate) async fn finish(sim: &DorisSim, db: &str, id: &str, op: &str) -> (String, String) {
    let r = second_phase(sim, db, &[("txn_id", id), ("txn_operation", op)]).await.expect("an answer");
    (r.field("status"), r.field("msg"))
}

/// `get_load_state` of a label.
pub(crate) async fn label_state(sim: &DorisSim, db: &str, label: &str) -> String {
    let auth = basic(sim);
    let request = format!("GET /api/{db}/get_load_state?label={label}");
    http(fe(sim), &request, &[("Authorization", &auth)], b"").await.unwrap().field("data")
}

/// A SQL connection.
pub(crate) async fn sql(sim: &DorisSim) -> Connection {
    let addr = sim.sql_addr();
    let options = ConnectOptions::tcp(addr.ip().to_string(), addr.port())
        .user(sim.user())
        .password(sim.password())
        .ssl_mode(SslMode::Disabled);
    Connection::connect(&options).await.expect("login")
}

/// Rows of a statement as text.
pub(crate) async fn rows(c: &mut Connection, statement: &str) -> Vec<Vec<Option<String>>> {
    let set = c.query_all(statement).await.unwrap_or_else(|e| panic!("{statement}: {e}"));
    set.rows().iter().map(|r| r.iter().map(|v| v.clone().map(|v| String::from_utf8(v).unwrap())).collect()).collect()
}

/// The error text of a statement.
pub(crate) async fn refusal(c: &mut Connection, statement: &str) -> String {
    match c.query_all(statement).await {
        Ok(_) => panic!("{statement} was accepted"),
        Err(e) => e.to_string(),
    }
}

/// A simulator with the database `d`.
pub(crate) async fn start() -> DorisSim {
    start_with(millstream_tests::doris::SimOptions::default()).await
}

pub(crate) async fn start_with(options: millstream_tests::doris::SimOptions) -> DorisSim {
    let sim = DorisSim::start(options).await.unwrap();
    sim.create_database("d");
    sim
}

/// Creates a UNIQUE table `d.u(k BIGINT, v VARCHAR(8), n INT NOT NULL DEFAULT 7)` with a sequence, and a DUPLICATE
/// table `d.a(k BIGINT, v VARCHAR(8))`.
pub(crate) fn tables(sim: &DorisSim) {
    sim.sql(
        "CREATE TABLE d.u (`k` BIGINT NOT NULL, `v` VARCHAR(8) NULL, `n` INT NOT NULL DEFAULT \"7\") UNIQUE KEY(`k`) \
         DISTRIBUTED BY HASH(`k`) BUCKETS AUTO PROPERTIES(\"replication_num\"=\"1\", \
         \"function_column.sequence_type\"=\"bigint\")",
    )
    .unwrap();
    sim.sql(
        "CREATE TABLE d.a (`k` BIGINT NOT NULL, `v` VARCHAR(8) NULL) DUPLICATE KEY(`k`) \
         DISTRIBUTED BY HASH(`k`) BUCKETS 4 PROPERTIES(\"replication_num\"=\"1\")",
    )
    .unwrap();
}

/// Columns of a load into `d.u`.
pub(crate) const U: &str = "k,v,__DORIS_SEQUENCE_COL__,__DORIS_DELETE_SIGN__";

/// A line for `d.u`.
pub(crate) fn line(k: i64, v: &str, seq: i64, deleted: bool) -> String {
    format!(
        "{{\"k\":{k},\"v\":\"{v}\",\"__DORIS_SEQUENCE_COL__\":{seq},\"__DORIS_DELETE_SIGN__\":{}}}\n",
        i32::from(deleted)
    )
}
