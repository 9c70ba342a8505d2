//! Real servers for tests and the demo: fetched once, started beside the system in a second or
//! two, and gone with the test that started them.
//!
//! A server has a data directory, a unix socket and a log in a temporary directory of its own, a
//! TCP port on the loopback address, `root` without a password on the socket, and the users
//! `repl` (what the engine needs) and `admin` (everything) with passwords, authenticated by
//! [`Flavor::default_plugin`], from anywhere.

mod cache;
mod error;
mod flavor;
mod install;
mod npm;
mod packages;
mod port;
mod session;
mod template;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

pub use error::{StartError, or_skip};
pub use flavor::Flavor;
pub use install::Installation;
pub(crate) use port::PortLease;
pub use session::{Endpoint, Session, SessionError};

use millstream_wire::ConnectOptions;

use crate::guard::{DirGuard, Guarded};
use crate::paths;

/// The password of `repl`: a server made for a test has no secrets.
pub const REPL_PASSWORD: &str = "repl:pw@1";
/// The password of `admin`.
pub const ADMIN_PASSWORD: &str = "admin-pw";

/// How a server is started.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    flavor: Flavor,
    gtid_mode: bool,
    full_row_metadata: bool,
    durable: bool,
    flags: Vec<String>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self { flavor: Flavor::default(), gtid_mode: true, full_row_metadata: true, durable: true, flags: Vec::new() }
    }
}

impl ServerOptions {
    /// MySQL 9.7 with gtid_mode=ON, binlog_row_metadata=FULL, sync_binlog=1. Another server has what it has of these.
    pub fn new() -> Self {
        Self::default()
    }

    /// Which server.
    pub fn flavor(mut self, flavor: Flavor) -> Self {
        self.flavor = flavor;
        self
    }

    /// Whether gtid_mode and enforce_gtid_consistency are ON, on servers that have them.
    pub fn gtid_mode(mut self, on: bool) -> Self {
        self.gtid_mode = on;
        self
    }

    /// binlog_row_metadata, on servers that have it: FULL, or MINIMAL (MySQL's own default).
    pub fn full_row_metadata(mut self, full: bool) -> Self {
        self.full_row_metadata = full;
        self
    }

    /// Whether every commit is synced (sync_binlog=1, innodb_flush_log_at_trx_commit=1, the
    /// default) or left to the system, for fast loads.
    pub fn durable(mut self, durable: bool) -> Self {
        self.durable = durable;
        self
    }

    /// One more flag of mysqld, such as `--binlog-checksum=NONE`; later flags win.
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }
}

/// A running (or stopped, or killed) server with its data. Dropping it kills the server and
/// removes the data.
#[derive(Debug)]
pub struct Server {
    // Before the directory it writes into: fields are dropped in this order.
    process: Mutex<Option<Guarded>>,
    dir: DirGuard,
    port: PortLease,
    server_id: u32,
    installation: Installation,
    options: ServerOptions,
}

/// [`shared_of`] MySQL 9.7.
pub fn shared() -> Option<&'static Server> {
    shared_of(Flavor::Mysql97)
}

/// For tests: one server of a flavor with default options for the whole test process, or nothing (with a printed line)
/// when a part is missing here. Tests that share it use databases of their own.
pub fn shared_of(flavor: Flavor) -> Option<&'static Server> {
    static SHARED: [OnceLock<Option<Server>>; Flavor::ALL.len()] = [const { OnceLock::new() }; Flavor::ALL.len()];
    let start = || or_skip(Server::start(ServerOptions::new().flavor(flavor)));
    SHARED[flavor.index()].get_or_init(start).as_ref()
}

/// The size of the redo log in MiB, by the name that the server knows.
fn redo_flags(flavor: Flavor, mib: u32) -> Vec<String> {
    match flavor {
        Flavor::Mysql97 => vec![format!("--innodb-redo-log-capacity={mib}M")],
        // Two files.
        Flavor::Mysql56 => vec![format!("--innodb-log-file-size={}M", mib.div_ceil(2))],
        _ => vec![format!("--innodb-log-file-size={mib}M")],
    }
}

/// A test that fails shows the end of the log of each server of its own: a client only sees that a connection is gone, the
/// log tells whether the server crashed.
impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the log of {} ends with:\n{}", self.flavor().name(), template::last_lines(&self.log_path()));
        }
    }
}

impl Server {
    /// Fetches what is needed, starts a server, and waits until it answers.
    pub fn start(options: ServerOptions) -> Result<Self, StartError> {
        let installation = Installation::locate(options.flavor)?;
        let dir = DirGuard::temp()?;
        template::copy_to(&installation, &dir.path().join("data"))?;
        let mut server = Self {
            process: Mutex::new(None),
            dir,
            port: PortLease::take()?,
            server_id: fastrand::u32(1..1 << 30),
            installation,
            options,
        };
        for _ in 0..5 {
            match server.start_again() {
                Err(StartError::Failed(text)) if text.contains("Address already in use") => {
                    server.port = PortLease::take()?;
                }
                other => return other.map(|()| server),
            }
        }
        Err(StartError::failed("five ports in a row were taken by other programs"))
    }

    /// Which server it is.
    pub fn flavor(&self) -> Flavor {
        self.options.flavor
    }

    /// The TCP port on 127.0.0.1; the same after a restart.
    pub fn port(&self) -> u16 {
        self.port.port()
    }

    /// The unix socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    /// `server_id` of the server.
    pub fn server_id(&self) -> u32 {
        self.server_id
    }

    /// A directory that is removed with the server. Binlog files are `data/binlog.NNNNNN`.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The data directory: binlog files, `ca.pem`, `public_key.pem`.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// The server's error log so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.log_path()).unwrap_or_default()).into_owned()
    }

    /// Where the server's programs are.
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// The process id while the server runs.
    pub fn pid(&self) -> Option<u32> {
        self.process().as_ref().map(Guarded::pid)
    }

    /// `mysql://user:password@127.0.0.1:port` of `repl` or `admin`, percent-encoded.
    pub fn url(&self, user: &str) -> String {
        let password = percent_encoding::utf8_percent_encode(password_of(user), percent_encoding::NON_ALPHANUMERIC);
        format!("mysql://{user}:{password}@127.0.0.1:{}", self.port())
    }

    /// For this project's own client: `root` over the socket, `repl` and `admin` over TCP.
    pub fn connect_options(&self, user: &str) -> ConnectOptions {
        match user {
            "root" => ConnectOptions::unix(self.socket()).user(user),
            _ => ConnectOptions::tcp("127.0.0.1", self.port()).user(user).password(password_of(user)),
        }
    }

    /// Runs statements as root over the socket and returns the rows of all results. NULL is the text `NULL`. Panics with
    /// the server's message when one fails.
    #[track_caller]
    pub fn sql(&self, statements: &str) -> Vec<Vec<String>> {
        match self.try_sql(statements) {
            Ok(rows) => rows,
            Err(message) => panic!("{message}\nin: {statements}"),
        }
    }

    /// As [`Self::sql`], with the server's message as the error.
    pub fn try_sql(&self, statements: &str) -> Result<Vec<Vec<String>>, SessionError> {
        self.session()?.sql(statements)
    }

    /// Opens a session as root over the socket that keeps its transaction and settings between
    /// calls.
    pub fn session(&self) -> Result<Session, SessionError> {
        self.endpoint().session()
    }

    /// How to reach the server as root; for threads that outlive a borrow.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint { installation: self.installation.clone(), socket: self.socket() }
    }

    /// The first column of the first row of a query.
    #[track_caller]
    pub fn value(&self, query: &str) -> String {
        let rows = self.sql(query);
        match rows.first().and_then(|row| row.first()) {
            Some(value) => value.clone(),
            None => panic!("no row from: {query}"),
        }
    }

    /// The CA that the server's certificate comes from, where there is one.
    pub fn ca(&self) -> Option<PathBuf> {
        match self.flavor() {
            Flavor::Mysql97 => Some(self.data_dir().join("ca.pem")),
            Flavor::Mariadb105 | Flavor::Mariadb1011 => Some(fixture("ca.pem")),
            _ => None,
        }
    }

    /// The end of the binlog: file and offset.
    #[track_caller]
    pub fn position(&self) -> (String, u64) {
        let rows = self.sql(self.flavor().position_statement());
        match rows.first().map(Vec::as_slice) {
            Some([file, position, ..]) => (file.clone(), position.parse().expect("a number")),
            _ => panic!("{} has no binlog", self.flavor()),
        }
    }

    /// A command for one of the server's programs (`mysql`, `mysqlbinlog`, …), connected as root
    /// over the socket.
    pub fn client(&self, program: &str) -> Command {
        self.endpoint().client(program)
    }

    /// A command for `mysqlbinlog` over files; add options and paths.
    pub fn mysqlbinlog(&self) -> Command {
        let mut command = self.installation.client("mysqlbinlog");
        command.arg("--no-defaults");
        command
    }

    /// Stops the server cleanly and keeps its data.
    pub fn stop(&self) -> Result<(), StartError> {
        let Some(mut process) = self.process().take() else {
            return Ok(());
        };
        process.signal("TERM")?;
        match process.wait(Duration::from_secs(120))? {
            Some(_) => Ok(()),
            None => Err(StartError::failed("the server did not stop within 120 s of SIGTERM")),
        }
    }

    /// Kills the server with SIGKILL and keeps its data.
    pub fn kill(&self) -> Result<(), StartError> {
        if let Some(mut process) = self.process().take() {
            process.kill()?;
        }
        Ok(())
    }

    /// Starts a stopped or killed server on its data and its port.
    pub fn start_again(&self) -> Result<(), StartError> {
        self.start_with(&[])
    }

    /// As [`Self::start_again`], with more flags for this run.
    pub fn start_with(&self, flags: &[&str]) -> Result<(), StartError> {
        let mut slot = self.process();
        if slot.is_some() {
            return Err(StartError::failed("it runs already"));
        }
        let log = self.log_path();
        let before = std::fs::metadata(&log).map_or(0, |file| file.len());
        let mut command = self.command();
        command.args(flags);
        let mut process = Guarded::spawn(&command, &self.dir.path().join("out"), &log)?;
        let deadline = Instant::now() + Duration::from_secs(120);
        while !template::answers(&self.socket()) {
            if let Some(exit) = process.try_wait()? {
                let text = std::fs::read(&log).unwrap_or_default();
                let text = text.get(usize::try_from(before).unwrap_or(0)..).unwrap_or_default();
                let text = String::from_utf8_lossy(text);
                return Err(StartError::failed(format!("exit code {}: {text}", exit.code)));
            }
            if Instant::now() > deadline {
                let text = template::last_lines(&log);
                return Err(StartError::failed(format!("no answer within 120 s: {text}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        *slot = Some(process);
        Ok(())
    }

    /// Stops the server cleanly and starts it again.
    pub fn restart(&self) -> Result<(), StartError> {
        self.stop()?;
        self.start_again()
    }

    fn command(&self) -> Command {
        let mut command = self.installation.server_command();
        let mut flag = |name: &str, value: &dyn std::fmt::Display| {
            command.arg(format!("--{name}={value}"));
        };
        let flavor = self.flavor();
        let on_off = |on: bool| if on { "ON" } else { "OFF" };
        flag("datadir", &self.data_dir().display());
        flag("socket", &self.socket().display());
        // A server that starts removes what others left in their common folder, also what another one uses.
        flag("tmpdir", &self.dir.path().display());
        flag("pid-file", &self.dir.path().join("pid").display());
        flag("port", &self.port());
        flag("bind-address", &"127.0.0.1");
        flag("server-id", &self.server_id);
        flag("log-bin", &"binlog");
        flag("sync-binlog", &u8::from(self.options.durable));
        flag("innodb-flush-log-at-trx-commit", &if self.options.durable { 1 } else { 2 });
        flag("performance-schema", &"OFF");
        flag("table-open-cache", &400);
        flag("max-connect-errors", &1_000_000);
        flag("default-time-zone", &"+00:00");
        if flavor != Flavor::Mysql97 {
            flag("binlog-format", &"ROW");
            flag("binlog-checksum", &"CRC32");
            flag("character-set-server", &"utf8mb4");
            flag("sql-mode", &"STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION");
        }
        if flavor.has_gtid_mode() {
            flag("gtid-mode", &on_off(self.options.gtid_mode));
            flag("enforce-gtid-consistency", &on_off(self.options.gtid_mode));
        }
        if flavor.has_row_metadata() {
            let metadata = if self.options.full_row_metadata { "FULL" } else { "MINIMAL" };
            flag("binlog-row-metadata", &metadata);
        }
        match flavor {
            Flavor::Mysql97 => {
                flag("mysqlx", &"OFF");
                flag("innodb-buffer-pool-size", &"64M");
            }
            Flavor::Mysql56 => {
                flag("innodb-buffer-pool-size", &"24M");
                flag("explicit-defaults-for-timestamp", &"ON");
                // gtid_mode asks for it.
                command.arg("--log-slave-updates");
            }
            _ => {
                flag("innodb-buffer-pool-size", &"24M");
                flag("aria-pagecache-buffer-size", &"8M");
                flag("key-buffer-size", &"1M");
                flag("innodb-data-file-path", &"ibdata1:1M:autoextend");
                // Some authentication plugins count as less mature than the server.
                flag("plugin-maturity", &"beta");
                if !flavor.proves_certificate() {
                    flag("ssl-cert", &fixture("server.pem").display());
                    flag("ssl-key", &fixture("server.key").display());
                }
            }
        }
        command.args(redo_flags(flavor, if flavor == Flavor::Mysql97 { 64 } else { 8 }));
        command.arg("--skip-name-resolve");
        command.args(&self.options.flags);
        command
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    fn process(&self) -> MutexGuard<'_, Option<Guarded>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A certificate or key of `tests/fixtures/tls`.
pub fn fixture(name: &str) -> PathBuf {
    paths::repo_root().join("tests/fixtures/tls").join(name)
}

fn password_of(user: &str) -> &'static str {
    match user {
        "repl" => REPL_PASSWORD,
        "admin" => ADMIN_PASSWORD,
        _ => "",
    }
}

/// Undoes what `mysql --batch` does to tabs, line ends, NUL and backslashes.
pub(crate) fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('0') => out.push('\0'),
            Some(other) => out.push(other),
            None => out.push('\\'),
        }
    }
    out
}
