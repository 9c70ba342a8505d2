//! A simulated Apache Doris cluster: one front end, some back ends, the SQL port.
//!
//! It is built from the project's protocol notes on Doris (called doris.md in comments: Stream Load, two-phase commit,
//! label and transaction rules, table models, the SQL port's quirks) and from nothing of the client it is meant to
//! judge. It is strict: what the notes do not list is refused by name.
//!
//! ```text
//!  client ──PUT──▶ FE (fe.rs) ──307──▶ client ──PUT body──▶ BE (be.rs ▶ load.rs ▶ json.rs, types.rs, row.rs)
//!  client ──MySQL──▶ SQL port (sql/)                          │
//!                      │                                      ▼
//!                      └────────────▶ World (world.rs): databases ▶ TxnManager (txn.rs), Table (table.rs)
//! ```
//!
//! Time is [`DorisSim::advance`]d by tests; faults are [`Knob`]s, also settable by other processes over HTTP
//! (admin.rs).

mod admin;
mod be;
mod clock;
mod fe;
mod http1;
mod json;
mod knob;
mod load;
mod options;
mod partial;
mod plan;
mod reply;
mod row;
mod scan;
mod second_phase;
mod sql;
mod stream_load;
mod table;
mod target;
mod txn;
#[cfg(test)]
mod txn_table;
mod types;
mod world;

pub use knob::{Fault, Garbage, Knob, LostAt, Op, Side};
pub use options::{Dialect, Profile, SimOptions};
pub use scan::{Row, Visible};
pub use table::{Column, DELETE_SIGN, Model, SEQUENCE_COL, Schema, VERSION_COL};
pub use target::DorisTarget;
pub use txn::{Begin, BeginError, Limits, Selector, Txn, TxnManager, TxnState};
pub use types::ColType;

use clock::Clock;
use knob::Knobs;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use table::Data;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use world::World;

/// Which port a request came in on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// The front end.
    Fe,
    /// The back end of that index.
    Be(usize),
}

/// A request that was seen. It is logged when it has been answered or given up.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct SeenRequest {
    pub port: Port,
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    /// Body bytes that arrived.
    pub body_bytes: u64,
}

impl SeenRequest {
    /// The first header of that name, in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }
}

/// Requests kept in the log.
const LOG_LIMIT: usize = 20_000;

pub(crate) struct Shared {
    opts: SimOptions,
    clock: Clock,
    world: Mutex<World>,
    knobs: Mutex<Knobs>,
    log: Mutex<Vec<SeenRequest>>,
    error_pages: Mutex<HashMap<String, String>>,
    fe_body_bytes: AtomicU64,
    next_be: AtomicUsize,
    fe_addr: SocketAddr,
    sql_addr: SocketAddr,
    be_addrs: Vec<SocketAddr>,
    /// An address that refuses connections: it is bound, and nobody listens.
    dead_addr: SocketAddr,
    _dead: TcpSocket,
    fe_restart: tokio::sync::Notify,
    be_restart: Vec<tokio::sync::Notify>,
    publish_held: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Shared {
    /// The world, with everything due published.
    fn world(&self) -> MutexGuard<'_, World> {
        let mut world = lock(&self.world);
        world.tick(self.clock.now_ms());
        world
    }

    fn knob<T>(&self, table: &str, label: &str, pick: impl Fn(&Fault) -> Option<T>) -> Option<T> {
        lock(&self.knobs).take(table, label, self.clock.now_ms(), pick)
    }

    /// A knob that says how the cluster is, and is never spent.
    fn standing<T>(&self, table: &str, pick: impl Fn(&Fault) -> Option<T>) -> Option<T> {
        lock(&self.knobs).standing(table, self.clock.now_ms(), pick)
    }

    fn is_cloud(&self, table: &str) -> bool {
        self.opts.cloud || self.standing(table, |f| (*f == Fault::Cloud).then_some(())).is_some()
    }

    /// Whether the second phase may name a label (F27).
    fn by_label(&self) -> bool {
        self.opts.by_label && self.standing("", |f| (*f == Fault::NoLabels).then_some(())).is_none()
    }

    /// F20.
    fn dialect(&self, table: &str, label: &str) -> Option<Dialect> {
        self.knob(table, label, |f| if let Fault::Dialect { dialect } = f { Some(*dialect) } else { None })
    }

    /// F8 alone.
    fn lost(&self, table: &str, label: &str, op: Op, state: LostAt) -> bool {
        self.knob(table, label, |f| (*f == Fault::ReplyLost { op, state }).then_some(())).is_some()
    }

    /// A transaction reached a state: what is set to happen then happens (F16, F17, F18). Whether the reply is lost
    /// (F8), or goes with its back end.
    fn reached(&self, table: &str, label: &str, op: Op, state: LostAt, index: usize) -> bool {
        let set = |fault: Fault| self.knob(table, label, |f| (*f == fault).then_some(())).is_some();
        if set(Fault::RestartFrontend { after: state }) {
            self.restart_fe();
        }
        if set(Fault::Purge { after: state }) {
            self.purge();
        }
        let restarts = set(Fault::RestartBackend { after: state });
        if restarts {
            self.restart_be(index);
        }
        self.lost(table, label, op, state) || restarts
    }

    /// F15: another text, or the usual one.
    fn not_master(&self, table: &str, label: &str, of: Op) -> Option<Option<String>> {
        self.knob(table, label, |f| match f {
            Fault::NotMaster { op, text } if *op == of => Some(text.clone()),
            _ => None,
        })
    }

    /// F31.
    fn false_fail(&self, table: &str, label: &str, op: Op) -> bool {
        self.knob(table, label, |f| (*f == Fault::FalseFail { op }).then_some(())).is_some()
    }

    fn seen(&self, port: Port, head: &http1::Head, body_bytes: u64) {
        if port == Port::Fe {
            self.fe_body_bytes.fetch_add(body_bytes, Ordering::SeqCst);
        }
        let mut log = lock(&self.log);
        if log.len() >= LOG_LIMIT {
            log.drain(..LOG_LIMIT / 2);
        }
        log.push(SeenRequest {
            port,
            method: head.method.clone(),
            path: head.path.clone(),
            headers: head.headers.clone(),
            body_bytes,
        });
    }

    /// Whether the request's Basic credentials are the configured ones; None if there are none at all.
    fn basic_auth(&self, head: &http1::Head) -> Option<bool> {
        use base64::Engine as _;
        let encoded = head.header("authorization")?.strip_prefix("Basic ")?;
        let plain = base64::engine::general_purpose::STANDARD.decode(encoded.trim()).ok()?;
        let (user, password) = std::str::from_utf8(&plain).ok()?.split_once(':')?;
        // Doris strips `#group` from a user name.
        let user = user.split('#').next().unwrap_or(user);
        Some(user == self.opts.user && password == self.opts.password)
    }

    /// A committed transaction becomes visible after so many milliseconds, or as a knob says.
    fn schedule_publish(&self, db: &str, table: &str, label: &str, id: i64, after: i64) {
        let delay = self.knob(&format!("{db}.{table}"), label, |f| match f {
            Fault::PublishDelay { ms } => Some(ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX))),
            _ => None,
        });
        let now = self.clock.now_ms();
        let at = match delay {
            Some(Some(ms)) => now.saturating_add(ms),
            Some(None) => i64::MAX,
            None if self.publish_held.load(Ordering::SeqCst) => i64::MAX,
            None => now.saturating_add(after),
        };
        let mut world = lock(&self.world);
        if let Some(db) = world.dbs.get_mut(db) {
            db.txns.publish_at(id, at);
            db.tick(now);
        }
    }

    /// A restarted front end knows no PREPARE.
    fn forget_prepare(&self) {
        for db in lock(&self.world).dbs.values_mut() {
            db.txns.fe_restart();
        }
    }

    /// The front end is gone for a moment: PREPARE is forgotten, its connections are reset.
    fn restart_fe(&self) {
        self.forget_prepare();
        self.fe_restart.notify_one();
    }

    /// A back end is gone for a moment: its PREPARE transactions are aborted, its connections are reset.
    fn restart_be(&self, index: usize) {
        let now = self.clock.now_ms();
        let coordinator = self.be_addrs[index].to_string();
        for db in lock(&self.world).dbs.values_mut() {
            db.txns.be_restart(&coordinator, now);
        }
        self.be_restart[index].notify_one();
    }

    /// Finished transactions and their labels are forgotten now.
    fn purge(&self) {
        for db in lock(&self.world).dbs.values_mut() {
            db.txns.purge();
        }
    }
}

/// A running cluster. Dropping it ends it.
pub struct DorisSim {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for DorisSim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DorisSim")
            .field("fe", &self.shared.fe_addr)
            .field("sql", &self.shared.sql_addr)
            .field("be", &self.shared.be_addrs)
            .finish_non_exhaustive()
    }
}

impl Drop for DorisSim {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl DorisSim {
    /// Opens the ports and serves them from tasks of the current tokio runtime.
    pub async fn start(opts: SimOptions) -> std::io::Result<Self> {
        let fe = TcpListener::bind((opts.host.as_str(), opts.fe_port)).await?;
        let sql = TcpListener::bind((opts.host.as_str(), opts.sql_port)).await?;
        let mut bes = Vec::new();
        for port in &opts.be_ports {
            bes.push(TcpListener::bind((opts.host.as_str(), *port)).await?);
        }
        let ip = fe.local_addr()?.ip();
        let dead = if ip.is_ipv6() { TcpSocket::new_v6()? } else { TcpSocket::new_v4()? };
        dead.bind(SocketAddr::new(ip, 0))?;
        let shared = Arc::new(Shared {
            clock: Clock::default(),
            world: Mutex::new(World::new(opts.limits)),
            knobs: Mutex::default(),
            log: Mutex::default(),
            error_pages: Mutex::default(),
            fe_body_bytes: AtomicU64::new(0),
            next_be: AtomicUsize::new(0),
            fe_addr: fe.local_addr()?,
            sql_addr: sql.local_addr()?,
            be_addrs: bes.iter().map(TcpListener::local_addr).collect::<Result<_, _>>()?,
            dead_addr: dead.local_addr()?,
            _dead: dead,
            fe_restart: tokio::sync::Notify::new(),
            be_restart: bes.iter().map(|_| tokio::sync::Notify::new()).collect(),
            publish_held: AtomicBool::new(false),
            opts,
        });
        let mut tasks = Vec::new();
        for (i, listener) in bes.into_iter().enumerate() {
            let shared = shared.clone();
            tasks.push(tokio::spawn(async move {
                loop {
                    tokio::select! {
                        () = accept(&listener, |s| be::serve(s, shared.clone(), i)) => {}
                        () = shared.be_restart[i].notified() => {}
                    }
                }
            }));
        }
        let front = shared.clone();
        tasks.push(tokio::spawn(async move {
            loop {
                // A restart drops every connection of the front end: the futures that own them end here.
                tokio::select! {
                    () = accept(&fe, |s| fe::serve(s, front.clone())) => {}
                    () = accept(&sql, |s| sql::serve(s, front.clone())) => {}
                    () = front.fe_restart.notified() => {}
                }
            }
        }));
        let cleaner = shared.clone();
        tasks.push(tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(20)).await;
                let now = cleaner.clock.now_ms();
                lock(&cleaner.world).clean(now);
            }
        }));
        Ok(Self { shared, tasks })
    }

    /// `http://host:port` of the front end.
    pub fn fe_url(&self) -> String {
        format!("http://{}", self.shared.fe_addr)
    }

    /// The SQL port.
    pub fn sql_addr(&self) -> SocketAddr {
        self.shared.sql_addr
    }

    /// The back ends' HTTP ports.
    pub fn be_addrs(&self) -> &[SocketAddr] {
        &self.shared.be_addrs
    }

    /// The user that may log in.
    pub fn user(&self) -> &str {
        &self.shared.opts.user
    }

    /// Its password.
    pub fn password(&self) -> &str {
        &self.shared.opts.password
    }

    /// Sets a fault.
    pub fn set(&self, knob: Knob) {
        lock(&self.shared.knobs).add(knob, self.shared.clock.now_ms());
    }

    /// Takes back every fault, and publishes what one of them held.
    pub fn clear_knobs(&self) {
        lock(&self.shared.knobs).clear();
        self.release_publish();
    }

    /// How often a fault acted.
    pub fn knobs_fired(&self) -> u64 {
        lock(&self.shared.knobs).fired
    }

    /// F12 for everything: committed loads stay COMMITTED until [`Self::release_publish`].
    pub fn hold_publish(&self) {
        self.shared.publish_held.store(true, Ordering::SeqCst);
    }

    /// What is committed becomes visible now.
    pub fn release_publish(&self) {
        self.shared.publish_held.store(false, Ordering::SeqCst);
        for db in lock(&self.shared.world).dbs.values_mut() {
            db.txns.release_publish();
        }
        drop(self.shared.world());
    }

    /// Moves the cluster's clock forwards and lets the cleaner run.
    pub fn advance(&self, by: Duration) {
        self.shared.clock.advance(by);
        let now = self.shared.clock.now_ms();
        lock(&self.shared.world).clean(now);
    }

    /// F16: the front end restarts. PREPARE is forgotten, later states stay; connections to it are reset.
    pub fn restart_fe(&self) {
        self.shared.restart_fe();
    }

    /// F17: a back end restarts. The PREPARE transactions it coordinates are aborted; connections to it are reset.
    pub fn restart_be(&self, index: usize) {
        self.shared.restart_be(index);
    }

    /// F18: finished transactions and their labels are forgotten now.
    pub fn purge(&self) {
        self.shared.purge();
    }

    /// So many transactions of others come and finish in a database.
    pub fn others_finish(&self, db: &str, count: usize) {
        let now = self.shared.clock.now_ms();
        let mut world = lock(&self.shared.world);
        for i in 0..count {
            world.finish_foreign(db, &format!("other-{now}-{i}"), now);
        }
        world.clean(now);
    }

    /// Whether a database is over its data quota (loads do not begin).
    pub fn set_quota_full(&self, db: &str, full: bool) {
        if let Some(db) = lock(&self.shared.world).dbs.get_mut(db) {
            db.quota_full = full;
        }
    }

    /// Creates a database without the SQL port; nothing happens if it exists.
    pub fn create_database(&self, name: &str) {
        lock(&self.shared.world).create_db(name);
    }

    /// Runs one statement as the SQL port would, without a connection. The rows, as text.
    pub fn sql(&self, statement: &str) -> Result<Vec<Vec<Option<String>>>, String> {
        sql::run_local(&self.shared, statement)
    }

    /// The tables of a database.
    pub fn tables(&self, db: &str) -> Vec<String> {
        self.shared.world().dbs.get(db).map(|d| d.tables.keys().cloned().collect()).unwrap_or_default()
    }

    /// A table's definition.
    pub fn schema(&self, db: &str, table: &str) -> Option<Arc<Schema>> {
        self.shared.world().table(db, table).map(|t| t.schema.clone())
    }

    /// Every transaction of a database that is remembered, by id.
    pub fn transactions(&self, db: &str) -> Vec<Txn> {
        self.shared.world().dbs.get(db).map(|d| d.txns.txns().cloned().collect()).unwrap_or_default()
    }

    /// Visible rows of a table.
    pub fn row_count(&self, db: &str, table: &str) -> u64 {
        self.shared.world().table(db, table).map_or(0, |t| t.rows)
    }

    /// Rows that came with the sequence of a live row of other content: a client with correct sequences causes none.
    pub fn sequence_conflicts(&self, db: &str, table: &str) -> u64 {
        self.shared.world().table(db, table).map_or(0, |t| t.sequence_conflicts)
    }

    /// The visible rows of a table, visible columns in order: by key, or in the order they became visible.
    pub fn rows(&self, db: &str, table: &str) -> Vec<Vec<Option<String>>> {
        let Some((schema, data, _)) = self.shared.world().snapshot(db, table) else { return Vec::new() };
        let width = schema.visible().count();
        let text = |v: Option<&[u8]>| v.map(|v| String::from_utf8_lossy(v).into_owned());
        data.iter(false).map(|(row, _)| row::Values(row).take(width).map(text).collect()).collect()
    }

    /// The requests seen so far.
    pub fn requests(&self) -> Vec<SeenRequest> {
        lock(&self.shared.log).clone()
    }

    /// Forgets the requests seen so far.
    pub fn clear_requests(&self) {
        lock(&self.shared.log).clear();
    }

    /// Body bytes that ever reached the front end: a two-step client sends none.
    pub fn fe_body_bytes(&self) -> u64 {
        self.shared.fe_body_bytes.load(Ordering::SeqCst)
    }
}

impl Data {
    /// Each live row (deleted ones too if asked) with its version: by key, or in the order they became visible.
    pub(crate) fn iter(&self, deleted_too: bool) -> Box<dyn Iterator<Item = (&[u8], u32)> + Send + '_> {
        match self {
            Self::Unique(map) => {
                Box::new(map.values().filter(move |e| deleted_too || !e.mark.deleted).map(|e| (&*e.row, e.version)))
            }
            Self::Duplicate(loads) => Box::new(
                loads.iter().flat_map(|(version, batch)| (0..batch.len()).map(move |i| (batch.row(i), *version))),
            ),
        }
    }
}

async fn accept<F: Future<Output = ()> + Send + 'static>(listener: &TcpListener, serve: impl Fn(TcpStream) -> F) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(serve(stream));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}
