//! The first layer: what was typed, checked key by key; defaults and what the keys mean together come in `resolve`.

use core::time::Duration;

use millstream_doris_sink::{Binary, Format, GroupCommit};
use millstream_wire::Compression;
use toml::Table;

use super::address::{self, HostPort, HttpEndpoint, MysqlUrl};
use super::expand::Context;
use super::position::Start;
use super::route::{Route, TableMode};
use super::section::{Reading, Section};
use super::table::TableRule;
use super::{
    Backfill, Delivery, OnExisting, OnInvalidDate, OnPoison, Password, Pattern, SnapshotMode, SslMode, TablePatterns,
};

/// Budgets below this cannot hold a few packets and buffers.
pub(super) const MIN_MEMORY: u64 = 32 << 20;
/// Doris closes a precommitted load after 3600 s; half of it is the most an epoch may wait (design 4.2).
const MAX_FLUSH_INTERVAL: Duration = Duration::from_secs(1800);

pub(super) struct Typed {
    pub(super) name: Option<String>,
    pub(super) memory: Option<u64>,
    pub(super) source: Source,
    pub(super) snapshot: Snapshot,
    pub(super) sink: Sink,
    pub(super) routes: Vec<Route>,
    pub(super) any_route: bool,
    pub(super) tables: Vec<TableRule>,
    pub(super) state_dir: Option<String>,
}

pub(super) struct Source {
    pub(super) url: Option<MysqlUrl>,
    pub(super) url_given: bool,
    pub(super) socket: Option<String>,
    pub(super) user: Option<String>,
    pub(super) password: Option<Password>,
    pub(super) ssl_mode: Option<SslMode>,
    pub(super) ssl_ca: Option<String>,
    pub(super) server_id: Option<u32>,
    pub(super) server_public_key: Option<String>,
    pub(super) allow_public_key_retrieval: Option<bool>,
    pub(super) compression: Option<Compression>,
    pub(super) tables: Option<TablePatterns>,
    pub(super) start: Option<Start>,
}

pub(super) struct Snapshot {
    pub(super) mode: Option<SnapshotMode>,
    pub(super) workers: Option<i64>,
    pub(super) chunk_rows: Option<i64>,
    pub(super) rows_per_second: Option<i64>,
    pub(super) backfill: Option<Backfill>,
    pub(super) allow_duplicates: Option<bool>,
}

pub(super) enum Sink {
    /// No valid `type`: the problem is noted.
    Unknown,
    Jsonl(Jsonl),
    Doris(Box<Doris>),
}

pub(super) struct Jsonl {
    pub(super) path: Option<String>,
    pub(super) flush: Flush,
}

pub(super) struct Doris {
    pub(super) fe: Option<Vec<HttpEndpoint>>,
    pub(super) be: Option<Vec<HttpEndpoint>>,
    pub(super) sql: Option<Vec<HostPort>>,
    pub(super) sql_ssl_mode: Option<SslMode>,
    pub(super) tls_ca: Option<String>,
    pub(super) allow_plain_be: Option<bool>,
    pub(super) allow_hosts: Option<Vec<String>>,
    pub(super) user: Option<String>,
    pub(super) password: Option<Password>,
    pub(super) mode: Option<TableMode>,
    pub(super) delivery: Option<Delivery>,
    pub(super) group_commit: Option<GroupCommit>,
    pub(super) allow_duplicates: Option<bool>,
    pub(super) on_existing: Option<OnExisting>,
    pub(super) on_invalid_date: Option<OnInvalidDate>,
    pub(super) on_poison: Option<OnPoison>,
    pub(super) format: Option<Format>,
    pub(super) binary: Option<Binary>,
    pub(super) string_limit: Option<u64>,
    pub(super) replication_num: Option<Option<i64>>,
    pub(super) buckets: Option<Option<i64>>,
    pub(super) flush: Flush,
}

pub(super) struct Flush {
    pub(super) interval: Option<Duration>,
    pub(super) bytes: Option<u64>,
}

const DORIS_KEYS: [&str; 22] = [
    "fe",
    "be",
    "sql",
    "sql_ssl_mode",
    "tls_ca",
    "allow_plain_be",
    "allow_hosts",
    "user",
    "password",
    "mode",
    "delivery",
    "group_commit",
    "allow_duplicates",
    "on_existing",
    "on_invalid_date",
    "on_poison",
    "format",
    "binary",
    "string_limit",
    "replication_num",
    "buckets",
    "time_zone",
];
const SSL_MODES: [(&str, SslMode); 5] = [
    ("disabled", SslMode::Disabled),
    ("preferred", SslMode::Preferred),
    ("required", SslMode::Required),
    ("verify-ca", SslMode::VerifyCa),
    ("verify-identity", SslMode::VerifyIdentity),
];
const MODES: [(&str, TableMode); 2] = [("upsert", TableMode::Upsert), ("append", TableMode::Append)];

pub(super) fn read(r: &mut Reading<'_>, table: Table) -> Typed {
    let mut top = Section::new("", table);
    let name = top.string(r, "name");
    let memory = top.size(r, "memory", MIN_MEMORY, 1 << 40);
    let source = source(top.section(r, "source"), r);
    let snapshot = snapshot(top.section(r, "snapshot"), r);
    let sink = sink(top.section(r, "sink"), r);
    let route_sections = top.sections(r, "route");
    let any_route = !route_sections.is_empty();
    let routes = route_sections.into_iter().filter_map(|s| route(r, s)).collect();
    let tables = top.sections(r, "table").into_iter().filter_map(|s| table_rule(r, s)).collect();
    let mut state = top.section(r, "state");
    let state_dir = state.string(r, "dir");
    state.finish(r);
    top.finish(r);
    Typed { name, memory, source, snapshot, sink, routes, any_route, tables, state_dir }
}

fn source(mut s: Section, r: &mut Reading<'_>) -> Source {
    let url = s.url(r, "url");
    let url_given = url.is_some();
    let url = url.and_then(|text| noted(r, s.key("url"), address::mysql_url(&text)));
    let socket = s.string(r, "socket");
    let user = s.string(r, "user");
    let password = s.string(r, "password").map(Password::new);
    let tables = s.strings(r, "tables", Context::Plain).and_then(|list| match TablePatterns::parse(&list) {
        Ok(patterns) => Some(patterns),
        Err(errors) => {
            for (i, message) in errors {
                r.problems.push(s.key(&format!("tables[{i}]")), message);
            }
            None
        }
    });
    let start = s.string(r, "start").and_then(|text| noted(r, s.key("start"), text.parse::<Start>()));
    let ssl_mode = s.choice(r, "ssl_mode", &SSL_MODES);
    let ssl_ca = s.string(r, "ssl_ca");
    let server_id = s.integer(r, "server_id", 1, i64::from(u32::MAX)).and_then(|n| u32::try_from(n).ok());
    let server_public_key = s.string(r, "server_public_key");
    let allow_public_key_retrieval = s.boolean(r, "allow_public_key_retrieval");
    let compression = s.choice(
        r,
        "compression",
        &[("none", Compression::None), ("zlib", Compression::Zlib), ("zstd", Compression::Zstd { level: 3 })],
    );
    s.finish(r);
    Source {
        url,
        url_given,
        socket,
        user,
        password,
        ssl_mode,
        ssl_ca,
        server_id,
        server_public_key,
        allow_public_key_retrieval,
        compression,
        tables,
        start,
    }
}

fn snapshot(mut s: Section, r: &mut Reading<'_>) -> Snapshot {
    let modes = [("initial", SnapshotMode::Initial), ("never", SnapshotMode::Never), ("only", SnapshotMode::Only)];
    let snapshot = Snapshot {
        mode: s.choice(r, "mode", &modes),
        workers: s.integer(r, "workers", 1, 64),
        chunk_rows: s.integer(r, "chunk_rows", 1, 1_000_000),
        rows_per_second: s.integer(r, "rows_per_second", 0, i64::from(u32::MAX)),
        backfill: s.choice(r, "backfill", &[("exact", Backfill::Exact), ("skip", Backfill::Skip)]),
        allow_duplicates: s.boolean(r, "allow_duplicates"),
    };
    s.finish(r);
    snapshot
}

fn sink(mut s: Section, r: &mut Reading<'_>) -> Sink {
    let kind = s.string(r, "type");
    let sink = match kind.as_deref() {
        Some("doris") => {
            s.elsewhere(r, &["path"], "belongs to sink.type = \"jsonl\"");
            Sink::Doris(Box::new(doris(r, &mut s)))
        }
        Some("jsonl") => {
            s.elsewhere(r, &DORIS_KEYS, "belongs to sink.type = \"doris\"");
            Sink::Jsonl(Jsonl { path: s.string(r, "path"), flush: flush(r, &mut s) })
        }
        other => {
            let message = match other {
                Some(other) => format!("\"{other}\" is not allowed: \"doris\" | \"jsonl\""),
                None => "is missing: \"doris\" | \"jsonl\"".to_owned(),
            };
            r.problems.push(s.key("type"), message);
            // Which keys are right is not known without a type.
            return Sink::Unknown;
        }
    };
    s.finish(r);
    sink
}

fn doris(r: &mut Reading<'_>, s: &mut Section) -> Doris {
    let fe = endpoints(r, s, "fe", 8030);
    let be = endpoints(r, s, "be", 8040);
    let sql = s.one_or_more(r, "sql").map(|texts| {
        let all = texts.iter().filter_map(|text| noted(r, s.key("sql"), address::host_port(text, Some(9030))));
        all.collect()
    });
    let delivery = s.choice(
        r,
        "delivery",
        &[
            ("exactly-once", Delivery::ExactlyOnce),
            ("label", Delivery::Label),
            ("at-least-once", Delivery::AtLeastOnce),
        ],
    );
    if let Some(zone) = s.string(r, "time_zone")
        && zone != "UTC"
    {
        r.problems.push(s.key("time_zone"), format!("\"{zone}\" is not built yet; TIMESTAMP is written in \"UTC\""));
    }
    Doris {
        fe,
        be,
        sql,
        sql_ssl_mode: s.choice(r, "sql_ssl_mode", &SSL_MODES),
        tls_ca: s.string(r, "tls_ca"),
        allow_plain_be: s.boolean(r, "allow_plain_be"),
        allow_hosts: s.strings(r, "allow_hosts", Context::Plain),
        user: s.string(r, "user"),
        password: s.string(r, "password").map(Password::new),
        mode: s.choice(r, "mode", &MODES),
        delivery,
        group_commit: s.choice(
            r,
            "group_commit",
            &[("off", GroupCommit::Off), ("sync", GroupCommit::Sync), ("async", GroupCommit::Async)],
        ),
        allow_duplicates: s.boolean(r, "allow_duplicates"),
        on_existing: s.choice(
            r,
            "on_existing",
            &[("fail", OnExisting::Fail), ("truncate", OnExisting::Truncate), ("keep", OnExisting::Keep)],
        ),
        on_invalid_date: s.choice(
            r,
            "on_invalid_date",
            &[("fail", OnInvalidDate::Fail), ("null", OnInvalidDate::Null), ("epoch", OnInvalidDate::Epoch)],
        ),
        on_poison: s.choice(r, "on_poison", &[("quarantine", OnPoison::Quarantine), ("stop", OnPoison::Stop)]),
        format: s.choice(r, "format", &[("json", Format::Json), ("csv", Format::Csv)]),
        binary: s.choice(r, "binary", &[("hex", Binary::Hex), ("base64", Binary::Base64)]),
        string_limit: s.size(r, "string_limit", 1 << 10, 0x7fff_fffb),
        replication_num: s.auto_or_integer(r, "replication_num", 1, 32),
        buckets: s.auto_or_integer(r, "buckets", 1, 768),
        flush: flush(r, s),
    }
}

fn endpoints(r: &mut Reading<'_>, s: &mut Section, key: &'static str, port: u16) -> Option<Vec<HttpEndpoint>> {
    let texts = s.strings(r, key, Context::Url)?;
    let parsed = texts.iter().enumerate();
    Some(
        parsed
            .filter_map(|(i, text)| noted(r, s.key(&format!("{key}[{i}]")), address::http_endpoint(text, port)))
            .collect(),
    )
}

fn flush(r: &mut Reading<'_>, s: &mut Section) -> Flush {
    let mut f = s.section(r, "flush");
    let flush = Flush {
        interval: f.duration(r, "interval", Duration::from_millis(10), MAX_FLUSH_INTERVAL),
        bytes: f.size(r, "bytes", 64 << 10, 4 << 30),
    };
    f.finish(r);
    flush
}

fn route(r: &mut Reading<'_>, mut s: Section) -> Option<Route> {
    let pattern = s.string(r, "match");
    let to = s.string(r, "to");
    let mode = s.choice(r, "mode", &MODES);
    for (key, missing, form) in [
        ("match", pattern.is_none(), "the source tables it is about (\"shop.orders\", \"shop.*\")"),
        ("to", to.is_none(), "the target table (\"ods.{table}_log\")"),
    ] {
        if missing {
            r.problems.push(s.key(key), format!("is missing: {form}"));
        }
    }
    let pattern = pattern.and_then(|text| noted(r, s.key("match"), Pattern::parse(&text)));
    let to = to.and_then(|text| noted(r, s.key("to"), Route::parse_to(&text)));
    s.finish(r);
    let (database, table) = to?;
    Some(Route { pattern: pattern?, database, table, mode })
}

fn table_rule(r: &mut Reading<'_>, mut s: Section) -> Option<TableRule> {
    let pattern = s.string(r, "match");
    if pattern.is_none() {
        r.problems.push(s.key("match"), "is missing: the source tables it is about (\"shop.orders\", \"shop.*\")");
    }
    let pattern = pattern.and_then(|text| noted(r, s.key("match"), Pattern::parse(&text)));
    let filter = s.string(r, "where");
    if filter.as_deref().is_some_and(|text| text.trim().is_empty() || text.contains(['\0', ';'])) {
        r.problems.push(
            s.key("where"),
            "must be one condition in SQL without \";\", such as \"created >= '2024-01-01'\"; leave the key out to read every \
             row",
        );
    }
    let exclude = columns(r, &mut s, "exclude");
    let key = columns(r, &mut s, "key");
    let mode = s.choice(r, "mode", &MODES);
    s.finish(r);
    Some(TableRule { pattern: pattern?, filter, exclude, key, mode })
}

/// A list of columns, none of them empty or named twice.
fn columns(r: &mut Reading<'_>, s: &mut Section, key: &'static str) -> Option<Vec<String>> {
    let names = s.strings(r, key, Context::Plain)?;
    let twice = |i: usize, name: &String| names.iter().take(i).any(|n| n.to_lowercase() == name.to_lowercase());
    if names.is_empty() || names.iter().any(String::is_empty) {
        r.problems.push(s.key(key), "must name columns, such as [\"id\"]; leave the key out to name none");
    } else if let Some((_, name)) = names.iter().enumerate().find(|(i, name)| twice(*i, name)) {
        r.problems.push(s.key(key), format!("names \"{name}\" twice"));
    }
    Some(names)
}

fn noted<T>(r: &mut Reading<'_>, key: String, result: Result<T, String>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(message) => {
            r.problems.push(key, message);
            None
        }
    }
}
