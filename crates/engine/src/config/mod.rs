//! The configuration file, in two layers: what was typed (`file`), and what it means with every default filled in
//! ([`Config`]). All problems of a file are reported at once, each with its key and what is allowed.

mod address;
mod connect;
mod error;
mod expand;
mod file;
mod password;
mod pattern;
mod position;
mod resolve;
mod route;
mod section;
mod source_url;
mod table;
mod units;

use core::time::Duration;
use std::path::{Path, PathBuf};

use millstream_doris_sink::{Binary, Format, GroupCommit};
use millstream_wire::Compression;

pub use address::{HostPort, HttpEndpoint};
pub use error::{ConfigError, Problem};
pub use password::Password;
pub use pattern::{NameCase, Pattern, TablePatterns};
pub use position::{Start, Until};
pub use route::{Route, Routes, TableMode, Target, TargetClash, Template};
pub use source_url::SourceUrl;
pub use table::{TableRule, TableRules};
pub(crate) use table::{column_names, is_key};

/// A whole configuration: checked, and nothing left to default.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it was read from.
    pub file: PathBuf,
    /// The pipeline's name.
    pub name: String,
    /// Budget in bytes for packets, held changes, buffers and bodies kept for retry.
    pub memory: u64,
    /// The MySQL server.
    pub source: Source,
    /// How existing rows are read.
    pub snapshot: Snapshot,
    /// Where changes go.
    pub sink: Sink,
    /// Which targets a table has.
    pub routes: Routes,
    /// What holds for single tables.
    pub table_rules: TableRules,
    /// The state directory.
    pub state_dir: PathBuf,
}

/// `[source]`.
#[derive(Clone, Debug)]
pub struct Source {
    /// Where the server listens.
    pub address: Address,
    /// Further servers of the same GTID history, one of which is used when the first one is away.
    pub others: Vec<HostPort>,
    /// Login name.
    pub user: String,
    /// Its password; empty for none.
    pub password: Password,
    /// Whether and how TLS is used.
    pub ssl_mode: SslMode,
    /// A PEM file of certificate authorities; only with `verify-ca` and `verify-identity`.
    pub ssl_ca: Option<PathBuf>,
    /// Our id among the server's replicas.
    pub server_id: u32,
    /// A PEM file with the server's RSA key, for connections without TLS.
    pub server_public_key: Option<PathBuf>,
    /// Whether the server's RSA key may be asked for over a connection without TLS.
    pub allow_public_key_retrieval: bool,
    /// What connections to the server are compressed with.
    pub compression: Compression,
    /// Which tables are captured.
    pub tables: TablePatterns,
    /// Where the stream begins; anything but [`Start::Current`] only without a snapshot.
    pub start: Start,
}

/// How the server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the engine must be able to connect to each")]
pub enum Address {
    /// TCP.
    Tcp(HostPort),
    /// Unix socket.
    Socket(PathBuf),
}

impl core::fmt::Display for Address {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Tcp(at) => at.fmt(f),
            Self::Socket(path) => path.display().fmt(f),
        }
    }
}

/// `source.ssl_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the engine must map each")]
pub enum SslMode {
    /// Never TLS.
    Disabled,
    /// TLS when the server offers it.
    Preferred,
    /// TLS or no connection; the certificate is not checked.
    Required,
    /// TLS, and the certificate must come from `ssl_ca`.
    VerifyCa,
    /// The same, and the certificate must be for the host of the URL.
    VerifyIdentity,
}

/// `[snapshot]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Whether existing rows are read, and whether changes follow.
    pub mode: SnapshotMode,
    /// Chunk readers beside each other.
    pub workers: usize,
    /// Rows of a chunk at most.
    pub chunk_rows: u64,
    /// Rows that all readers together read in a second at most; 0: as fast as they can.
    pub rows_per_second: u64,
    /// How chunks are made consistent.
    pub backfill: Backfill,
    /// With [`Backfill::Skip`]: append targets may hold a change twice.
    pub allow_duplicates: bool,
}

/// `snapshot.mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the engine must handle every mode")]
pub enum SnapshotMode {
    /// Existing rows, then changes.
    Initial,
    /// Changes alone.
    Never,
    /// Existing rows alone; the run ends when every table is done.
    Only,
}

/// `snapshot.backfill`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the engine must handle every mode")]
pub enum Backfill {
    /// Changes between a chunk's watermarks are applied to it: exactly once.
    Exact,
    /// They follow it: at least once.
    Skip,
}

/// `[sink]`.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_enums, reason = "the engine must handle every sink")]
#[allow(clippy::large_enum_variant, reason = "there is one in a process")]
pub enum Sink {
    /// Apache Doris.
    Doris(Doris),
    /// One JSON object per line.
    Jsonl(Jsonl),
}

impl Sink {
    /// What becomes of a target that cannot be written to. The jsonl sink has but one output.
    #[must_use]
    pub const fn on_poison(&self) -> OnPoison {
        match self {
            Self::Doris(doris) => doris.on_poison,
            Self::Jsonl(_) => OnPoison::Stop,
        }
    }

    /// When an epoch is cut.
    #[must_use]
    pub const fn flush(&self) -> Flush {
        match self {
            Self::Doris(doris) => doris.flush,
            Self::Jsonl(jsonl) => jsonl.flush,
        }
    }
}

/// `[sink] type = "jsonl"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jsonl {
    /// The file; None is stdout.
    pub path: Option<PathBuf>,
    /// When an epoch is cut.
    pub flush: Flush,
}

/// `[sink] type = "doris"`.
#[derive(Clone, Debug)]
pub struct Doris {
    /// Frontends, at least one.
    pub fe: Vec<HttpEndpoint>,
    /// Backends to send to instead of those that redirects name; empty to follow redirects.
    pub be: Vec<HttpEndpoint>,
    /// SQL ports of frontends, at least one: where one cannot be reached the next is asked.
    pub sql: Vec<HostPort>,
    /// Whether and how TLS is used on the SQL port.
    pub sql_ssl_mode: SslMode,
    /// A PEM file of certificate authorities, for https and for the SQL port; None is the public ones.
    pub tls_ca: Option<PathBuf>,
    /// Whether an https frontend may send loads, which carry user and password, to a backend over http.
    pub allow_plain_be: bool,
    /// Hosts that redirects may name; empty for any.
    pub allow_hosts: Vec<String>,
    /// Login name.
    pub user: String,
    /// Its password; empty for none.
    pub password: Password,
    /// What is promised.
    pub delivery: Delivery,
    /// Whether Doris gathers loads; only with [`Delivery::AtLeastOnce`].
    pub group_commit: GroupCommit,
    /// What to do with a target that is not empty at the first start.
    pub on_existing: OnExisting,
    /// What to do with zero and invalid dates.
    pub on_invalid_date: OnInvalidDate,
    /// How rows are written.
    pub format: Format,
    /// How bytes that are no text are written.
    pub binary: Binary,
    /// Longest value of a STRING column in bytes, as the BEs are configured.
    pub string_limit: u32,
    /// What to do with a target whose rows Doris refuses.
    pub on_poison: OnPoison,
    /// Replicas of created tables; None is the smaller of 3 and the live backends.
    pub replication_num: Option<u16>,
    /// Buckets of created tables; None is AUTO.
    pub buckets: Option<u16>,
    /// When an epoch is cut.
    pub flush: Flush,
}

/// `sink.flush`, in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// Greatest age of an epoch.
    pub interval: Duration,
    /// Greatest size of an epoch's buffers in bytes: the smaller of what was asked for and an eighth of `memory`.
    pub bytes: u64,
}

/// `sink.delivery`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the engine must handle every promise")]
pub enum Delivery {
    /// Two-phase commit.
    ExactlyOnce,
    /// One-phase loads whose labels and bytes are durable before they are sent.
    Label,
    /// One-phase loads that are repeated after a failure.
    AtLeastOnce,
}

impl Delivery {
    /// What it promises, in words: nothing calls itself exactly once that is not.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::ExactlyOnce => "exactly once, by two-phase commits",
            Self::Label => "every load once, by its label; the loads of one epoch become visible one after the other",
            Self::AtLeastOnce => "at least once: loads are repeated after a failure",
        }
    }
}

/// `sink.on_existing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the engine must handle every answer")]
pub enum OnExisting {
    /// Refuse, naming the table.
    Fail,
    /// Empty the table first.
    Truncate,
    /// Write on top of what is there.
    Keep,
}

/// `sink.on_invalid_date`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the engine must handle every answer")]
pub enum OnInvalidDate {
    /// Stop, naming the row's key.
    Fail,
    /// Write NULL.
    Null,
    /// Write 1970-01-01.
    Epoch,
}

/// `sink.on_poison`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the engine must handle every answer")]
pub enum OnPoison {
    /// Leave it out while the others go on.
    Quarantine,
    /// Stop the run.
    Stop,
}

impl Config {
    /// What the targets can rely on: `exactly-once`, or `at-least-once`.
    #[must_use]
    pub fn guarantee(&self) -> &'static str {
        let repeats = matches!(&self.sink, Sink::Doris(doris) if doris.delivery == Delivery::AtLeastOnce);
        if repeats || self.skips_backfill() { "at-least-once" } else { "exactly-once" }
    }

    /// Whether chunks enter without waiting for the stream.
    pub(crate) fn skips_backfill(&self) -> bool {
        self.snapshot.backfill == Backfill::Skip && self.snapshot.mode != SnapshotMode::Never
    }

    /// Reads and checks `file`, with variables from the process environment.
    ///
    /// # Errors
    /// The file cannot be read, or every problem found in it.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(file).map_err(|e| ConfigError::unreadable(file, e))?;
        Self::parse(file, &text, &|name| std::env::var(name).ok())
    }

    /// Checks the text of a configuration; `env` gives variables.
    ///
    /// # Errors
    /// Every problem found in it.
    pub fn parse(path: &Path, text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let table = match text.parse::<toml::Table>() {
            Ok(table) => table,
            Err(e) => return Err(ConfigError::new(path, vec![syntax_problem(text, &e)])),
        };
        let mut reading = section::Reading { env, problems: error::Problems::default() };
        let typed = file::read(&mut reading, table);
        resolve::resolve(path, typed, reading.problems)
    }
}

/// Names line and column; never quotes the text, which may hold a password.
fn syntax_problem(text: &str, e: &toml::de::Error) -> Problem {
    let before = e.span().and_then(|span| text.get(..span.start)).unwrap_or("");
    let line = before.matches('\n').count().saturating_add(1);
    let column = before.rsplit('\n').next().unwrap_or("").chars().count().saturating_add(1);
    Problem { key: String::new(), message: format!("line {line}, column {column}: not TOML: {}", e.message()) }
}
