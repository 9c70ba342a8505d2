//! The second layer: defaults, and what keys mean together.

use core::time::Duration;
use std::path::{Path, PathBuf};

use millstream_doris_sink::GroupCommit;
use millstream_doris_sink::encode::STRING_LIMIT;
use sha2::{Digest, Sha256};

use super::error::Problems;
use super::file::{self, Typed};
use super::position::Start;
use super::route::{Routes, TableMode};
use super::table::TableRules;
use super::{
    Address, Backfill, Config, ConfigError, Delivery, Doris, Flush, Jsonl, OnExisting, OnInvalidDate, OnPoison, Sink,
    Snapshot, SnapshotMode, Source, SslMode, TablePatterns,
};

const DEFAULT_MEMORY: u64 = 128 << 20;
const DEFAULT_FLUSH_BYTES: u64 = 64 << 20;
const DEFAULT_FLUSH_INTERVAL: Duration = Duration::from_secs(2);

pub(super) fn resolve(path: &Path, typed: Typed, mut problems: Problems) -> Result<Config, ConfigError> {
    let p = &mut problems;
    let memory = typed.memory.unwrap_or(DEFAULT_MEMORY);
    let name = name(p, typed.name);
    let snapshot = Snapshot {
        mode: typed.snapshot.mode.unwrap_or(SnapshotMode::Initial),
        workers: typed.snapshot.workers.and_then(|n| usize::try_from(n).ok()).unwrap_or(4),
        chunk_rows: typed.snapshot.chunk_rows.and_then(|n| u64::try_from(n).ok()).unwrap_or(16_384),
        rows_per_second: typed.snapshot.rows_per_second.and_then(|n| u64::try_from(n).ok()).unwrap_or(0),
        backfill: typed.snapshot.backfill.unwrap_or(Backfill::Exact),
        allow_duplicates: typed.snapshot.allow_duplicates.unwrap_or(false),
    };
    let source = source(p, typed.source, &name, snapshot.mode);
    if matches!(typed.sink, file::Sink::Jsonl(_)) && typed.any_route {
        p.push("route", "routes belong to sink.type = \"doris\"; the jsonl sink writes every change once");
    }
    if matches!(typed.sink, file::Sink::Jsonl(_)) {
        for (i, _) in typed.tables.iter().enumerate().filter(|(_, rule)| rule.mode.is_some()) {
            p.push(
                format!("table[{i}].mode"),
                "belongs to sink.type = \"doris\"; the jsonl sink writes every change once",
            );
        }
    }
    let is_jsonl = matches!(typed.sink, file::Sink::Jsonl(_));
    let allows = matches!(&typed.sink, file::Sink::Doris(doris) if doris.allow_duplicates == Some(true));
    let (sink, default_mode) = sink(p, typed.sink, memory);
    if snapshot.backfill == Backfill::Skip && snapshot.mode != SnapshotMode::Never && !snapshot.allow_duplicates {
        let append = |mode: Option<TableMode>| mode == Some(TableMode::Append);
        let place = if is_jsonl {
            Some("the jsonl sink".to_owned())
        } else if append(Some(default_mode)) {
            Some("sink.mode = \"append\"".to_owned())
        } else if let Some(i) = typed.routes.iter().position(|route| append(route.mode)) {
            Some(format!("route[{i}].mode = \"append\""))
        } else {
            let i = typed.tables.iter().position(|rule| append(rule.mode));
            i.map(|i| format!("table[{i}].mode = \"append\""))
        };
        if let Some(place) = place {
            p.push(
                "snapshot.backfill",
                format!(
                    "\"skip\" brings some changes twice, and {place} keeps both: use \"exact\", or set \
                     snapshot.allow_duplicates = true"
                ),
            );
        }
    }
    let appends = default_mode == TableMode::Append || typed.routes.iter().any(|r| r.mode == Some(TableMode::Append));
    if matches!(&sink, Some(Sink::Doris(doris)) if doris.delivery == Delivery::AtLeastOnce) && appends && !allows {
        p.push(
            "sink.delivery",
            "\"at-least-once\" repeats rows of append targets after a failure: set sink.allow_duplicates = true if that may \
             be, or use \"exactly-once\" or \"label\"",
        );
    }
    let state_dir = match typed.state_dir {
        Some(dir) if dir.is_empty() => {
            p.push("state.dir", "must not be empty: a directory, such as \"./state\"");
            PathBuf::new()
        }
        Some(dir) => PathBuf::from(dir),
        None => {
            p.push("state.dir", "is missing: the directory that keeps what a restart needs, such as \"./state\"");
            PathBuf::new()
        }
    };
    match (source, sink) {
        (Some(source), Some(sink)) if problems.is_empty() => Ok(Config {
            file: path.to_owned(),
            name,
            memory,
            source,
            snapshot,
            sink,
            routes: Routes {
                list: typed.routes,
                default_mode,
                modes: typed.tables.iter().filter_map(|rule| Some((rule.pattern.clone(), rule.mode?))).collect(),
            },
            table_rules: TableRules(typed.tables),
            state_dir,
        }),
        _ => Err(ConfigError::new(path, problems.into_vec())),
    }
}

fn name(p: &mut Problems, name: Option<String>) -> String {
    let form = "1 to 64 letters, digits, _ or -";
    match name {
        Some(name)
            if (1..=64).contains(&name.len())
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-') =>
        {
            name
        }
        Some(name) => {
            p.push("name", format!("\"{}\" is not allowed: {form}", name.escape_debug()));
            String::new()
        }
        // Said already if it could not be read.
        None if p.mentions("name") => String::new(),
        None => {
            p.push("name", format!("is missing: the pipeline's name, {form}"));
            String::new()
        }
    }
}

fn source(p: &mut Problems, typed: file::Source, name: &str, mode: SnapshotMode) -> Option<Source> {
    let mut user = typed.user;
    let mut password = typed.password;
    let mut others = Vec::new();
    let address = match (typed.url_given, typed.socket) {
        (true, Some(_)) => {
            p.push("source.socket", "cannot stand beside source.url: give one of them");
            None
        }
        (false, None) => {
            p.push("source.url", "is missing: mysql://user:password@host:3306, or give source.socket");
            None
        }
        (false, Some(socket)) => Some(Address::Socket(PathBuf::from(socket))),
        // A URL that does not parse is noted already.
        (true, None) => typed.url.map(|url| {
            merge(p, "source.user", &mut user, url.user);
            merge(p, "source.password", &mut password, url.password);
            others = url.others;
            Address::Tcp(url.at)
        }),
    };
    let user = match user.filter(|u| !u.is_empty()) {
        Some(user) => user,
        None if address.is_some() => {
            p.push("source.user", "is missing: a user name, here or in source.url");
            String::new()
        }
        None => String::new(),
    };
    let tables = match typed.tables {
        Some(tables) if tables.include().is_empty() => {
            p.push("source.tables", "names no table to capture: for example [\"shop.*\", \"!shop.tmp_*\"]");
            tables
        }
        Some(tables) => tables,
        None => {
            // Bad patterns are noted already; only a missing key is news.
            if !p.mentions("source.tables") {
                p.push("source.tables", "is missing: for example [\"shop.*\", \"!shop.tmp_*\"]");
            }
            TablePatterns::default()
        }
    };
    if typed.start.is_some() && mode != SnapshotMode::Never {
        p.push(
            "source.start",
            "is allowed with snapshot.mode = \"never\" only: a snapshot begins at the server's current position",
        );
    }
    let ssl_mode = typed.ssl_mode.unwrap_or(SslMode::Preferred);
    match (&typed.ssl_ca, ssl_mode) {
        (None, SslMode::VerifyCa | SslMode::VerifyIdentity) => {
            p.push("source.ssl_ca", "is missing: this ssl_mode needs the authority's PEM file");
        }
        (Some(_), SslMode::Disabled | SslMode::Preferred | SslMode::Required) => {
            p.push(
                "source.ssl_ca",
                "is only used with source.ssl_mode = \"verify-ca\" or \"verify-identity\": set one, or remove ssl_ca",
            );
        }
        _ => {}
    }
    Some(Source {
        address: address?,
        others,
        user,
        password: password.unwrap_or_default(),
        ssl_mode,
        ssl_ca: typed.ssl_ca.map(PathBuf::from),
        server_id: typed.server_id.unwrap_or_else(|| default_server_id(name)),
        server_public_key: typed.server_public_key.map(PathBuf::from),
        allow_public_key_retrieval: typed.allow_public_key_retrieval.unwrap_or(false),
        compression: typed.compression.unwrap_or_default(),
        tables,
        start: typed.start.unwrap_or(Start::Current),
    })
}

fn merge<T>(p: &mut Problems, key: &str, from_key: &mut Option<T>, from_url: Option<T>) {
    match (from_key.is_some(), from_url) {
        (true, Some(_)) => p.push(key, "is given in source.url too: give it once"),
        (false, Some(value)) => *from_key = Some(value),
        (_, None) => {}
    }
}

/// From 2^30 up to 2^31: away from the small numbers that people give their servers.
fn default_server_id(name: &str) -> u32 {
    let digest = Sha256::digest(name.as_bytes());
    let head = digest.first_chunk::<4>().copied().unwrap_or_default();
    (u32::from_be_bytes(head) & 0x3fff_ffff) | 0x4000_0000
}

fn sink(p: &mut Problems, typed: file::Sink, memory: u64) -> (Option<Sink>, TableMode) {
    match typed {
        file::Sink::Unknown => (None, TableMode::Upsert),
        file::Sink::Jsonl(jsonl) => {
            let path = jsonl.path.filter(|path| path != "-").map(PathBuf::from);
            (Some(Sink::Jsonl(Jsonl { path, flush: flush(jsonl.flush, memory) })), TableMode::Upsert)
        }
        file::Sink::Doris(doris) => {
            let mode = doris.mode.unwrap_or(TableMode::Upsert);
            (Some(Sink::Doris(resolve_doris(p, *doris, memory))), mode)
        }
    }
}

fn resolve_doris(p: &mut Problems, typed: file::Doris, memory: u64) -> Doris {
    let fe = typed.fe.unwrap_or_default();
    if fe.is_empty() && !p.mentions("sink.fe") {
        p.push("sink.fe", "is missing: the frontends, such as [\"http://127.0.0.1:8030\"]");
    }
    let sql = typed.sql.unwrap_or_default();
    if sql.is_empty() && !p.mentions("sink.sql") {
        p.push("sink.sql", "is missing: a frontend's SQL port, such as \"127.0.0.1:9030\"");
    }
    if typed.user.as_deref().is_none_or(str::is_empty) && !p.mentions("sink.user") {
        p.push("sink.user", "is missing: Doris' user name");
    }
    let delivery = typed.delivery.unwrap_or(Delivery::ExactlyOnce);
    let group_commit = typed.group_commit.unwrap_or_default();
    if group_commit != GroupCommit::Off && delivery != Delivery::AtLeastOnce {
        p.push(
            "sink.group_commit",
            "loads without labels are not loaded once: only with sink.delivery = \"at-least-once\"",
        );
    }
    let sql_ssl_mode = typed.sql_ssl_mode.unwrap_or(SslMode::Preferred);
    if matches!(sql_ssl_mode, SslMode::VerifyCa | SslMode::VerifyIdentity) && typed.tls_ca.is_none() {
        p.push("sink.tls_ca", "is missing: this sql_ssl_mode needs the authority's PEM file");
    }
    Doris {
        fe,
        be: typed.be.unwrap_or_default(),
        sql,
        sql_ssl_mode,
        tls_ca: typed.tls_ca.map(PathBuf::from),
        allow_plain_be: typed.allow_plain_be.unwrap_or(false),
        allow_hosts: typed.allow_hosts.unwrap_or_default(),
        user: typed.user.unwrap_or_default(),
        password: typed.password.unwrap_or_default(),
        delivery,
        group_commit,
        on_existing: typed.on_existing.unwrap_or(OnExisting::Fail),
        on_invalid_date: typed.on_invalid_date.unwrap_or(OnInvalidDate::Fail),
        format: typed.format.unwrap_or_default(),
        binary: typed.binary.unwrap_or_default(),
        string_limit: typed.string_limit.and_then(|n| u32::try_from(n).ok()).unwrap_or(STRING_LIMIT),
        on_poison: typed.on_poison.unwrap_or(OnPoison::Quarantine),
        replication_num: typed.replication_num.flatten().and_then(|n| u16::try_from(n).ok()),
        buckets: typed.buckets.flatten().and_then(|n| u16::try_from(n).ok()),
        flush: flush(typed.flush, memory),
    }
}

fn flush(typed: file::Flush, memory: u64) -> Flush {
    let asked = typed.bytes.unwrap_or(DEFAULT_FLUSH_BYTES);
    Flush { interval: typed.interval.unwrap_or(DEFAULT_FLUSH_INTERVAL), bytes: asked.min(memory >> 3) }
}
