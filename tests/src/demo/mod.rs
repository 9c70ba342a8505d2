//! The demo: a real MySQL with live writers, a simulated Doris, and the engine between them, killed again and again;
//! then a comparison of every row.
//!
//! ```text
//! workload ──▶ MySQL ══ binlog, chunks ══▶ millstream ══ Stream Load ══▶ simulator ── ods.T (upsert), ods.T_log (append)
//!                │                        (kill -9, start)                   │
//!                └────────────── mysql, mysqlbinlog ──▶ verify ◀─────────────┘
//! ```

mod cells;
mod compare;
mod drive;
mod faults;
mod history;
mod kills;
mod report;
mod show;
mod verify;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

pub use faults::Faults;
pub use kills::{Landed, Moment};
pub use report::Report;
pub use show::Show;
pub use verify::TableResult;

use crate::doris::{DorisSim, SimOptions};
use crate::engine;
use crate::server::{Endpoint, Server, ServerOptions, SessionError, StartError};
use crate::workload::Workload;
use drive::Drive;
use show::grouped;

/// The source's database.
const DATABASE: &str = "shop";
/// The database of the targets.
const TARGET: &str = "ods";
/// Connections that write.
const WRITERS: usize = 4;

/// What the demo shall do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Rows that are in the three tables at the start.
    pub rows: u64,
    /// How often the engine is killed.
    pub kills: u32,
    /// How long the writers write; they go on until every kill has landed.
    pub seconds: u64,
    /// Decides what is written and when is killed.
    pub seed: u64,
}

/// Why there is no verdict.
#[derive(Clone, Debug)]
pub enum Stopped {
    /// Something is missing on this machine.
    Missing(String),
    /// Something did not work.
    Failed(String),
}

impl Stopped {
    fn failed(what: impl Into<String>) -> Self {
        Self::Failed(what.into())
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(what) | Self::Failed(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Stopped {}

impl From<StartError> for Stopped {
    fn from(error: StartError) -> Self {
        if error.is_unavailable() { Self::Missing(error.to_string()) } else { Self::Failed(error.to_string()) }
    }
}

impl From<SessionError> for Stopped {
    fn from(error: SessionError) -> Self {
        Self::Failed(format!("MySQL: {error}"))
    }
}

impl From<std::io::Error> for Stopped {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Runs the demo. What it starts ends with it.
pub fn run(options: &Options, show: &Show) -> Result<Report, Stopped> {
    let stage = Stage::set(options, show)?;
    let driven = Drive::new(options, show, &stage.server, &stage.sim)?.run(stage.workload)?;
    show.step("comparing every row");
    let tables = verify::verify(&stage.server, &stage.sim, &stage.first, &driven.live, show)?;
    Ok(Report::new(options, driven, tables))
}

/// What stands before the engine starts.
struct Stage {
    server: Server,
    sim: DorisSim,
    workload: Workload,
    /// The first binlog file after the load.
    first: String,
    /// Keeps the simulator's tasks running.
    _runtime: tokio::runtime::Runtime,
}

impl Stage {
    fn set(options: &Options, show: &Show) -> Result<Self, Stopped> {
        show.step(&format!("building the engine (seed {})", options.seed));
        show.now(|| "cargo builds millstream in this profile, unless it is built already".to_owned());
        engine::try_binary().map_err(Stopped::failed)?;
        show.step("starting MySQL 9.7 (fetched from the distribution's packages the first time)");
        let server = Server::start(
            ServerOptions::new()
                .durable(false)
                .flag("--innodb-buffer-pool-size=512M")
                .flag("--innodb-redo-log-capacity=512M")
                .flag("--max-binlog-size=64M"),
        )?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let sim = runtime.block_on(DorisSim::start(SimOptions::default()))?;
        let endpoint = server.endpoint();
        let mut workload = Workload::new(DATABASE, options.seed, WRITERS);
        workload.create(&endpoint)?;
        load(&mut workload, &endpoint, options.rows, show)?;
        let mut session = server.session()?;
        session.sql("FLUSH BINARY LOGS")?;
        let status = session.sql("SHOW BINARY LOG STATUS")?;
        let first = status.concat().into_iter().next().ok_or_else(|| Stopped::failed("MySQL writes no binlog"))?;
        Ok(Self { server, sim, workload, first, _runtime: runtime })
    }
}

fn load(workload: &mut Workload, endpoint: &Endpoint, rows: u64, show: &Show) -> Result<(), Stopped> {
    show.step(&format!("loading {} rows into three tables", grouped(rows)));
    let (progress, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let loader = scope.spawn(|| {
            let result = workload.load(endpoint, rows, &progress);
            done.store(true, Ordering::Relaxed);
            result
        });
        while !done.load(Ordering::Relaxed) && !loader.is_finished() {
            show.now(|| format!("loaded {} of {} rows", grouped(progress.load(Ordering::Relaxed)), grouped(rows)));
            std::thread::sleep(Duration::from_millis(20));
        }
        loader.join().map_err(|_| Stopped::failed("the loader gave up"))?.map_err(Stopped::from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::or_skip;

    /// What happens to the source behind the engine's back is what a fault of the engine would look like.
    #[test]
    fn whatever_differs_is_seen() {
        let options = Options { rows: 300, kills: 0, seconds: 1, seed: 5 };
        let show = Show::plain();
        let stage = match Stage::set(&options, &show) {
            Ok(stage) => stage,
            Err(Stopped::Missing(what)) => {
                or_skip::<()>(Err(StartError::Unavailable(what)));
                return;
            }
            Err(Stopped::Failed(what)) => panic!("{what}"),
        };
        let Stage { server, sim, workload, first, _runtime } = stage;
        let driven = Drive::new(&options, &show, &server, &sim).unwrap().run(workload).unwrap();
        let faults = || -> Vec<[u64; 2]> {
            let tables = verify::verify(&server, &sim, &first, &driven.live, &show).unwrap();
            tables.iter().map(|table| [table.upsert.count(), table.append.count()]).collect()
        };
        assert_eq!(faults(), [[0, 0], [0, 0], [0, 0]]);
        // Not in the binlog: the targets and the replay differ from the source.
        server.sql("SET sql_log_bin=0; USE shop; UPDATE orders SET note='other' ORDER BY id LIMIT 1");
        assert_eq!(faults(), [[1, 1], [0, 0], [0, 0]]);
        server.sql("SET sql_log_bin=0; USE shop; DELETE FROM stock LIMIT 2");
        assert_eq!(faults(), [[1, 1], [2, 2], [0, 0]]);
        server.sql("SET sql_log_bin=0; USE shop; UPDATE events SET id=REVERSE(id) WHERE id<>REVERSE(id) LIMIT 1");
        assert_eq!(faults(), [[1, 1], [2, 2], [2, 2]]);
        // In the binlog and back again: the rows are equal, and two changes are missing.
        server
            .sql("USE shop; UPDATE events SET version=version+1 LIMIT 1; UPDATE events SET version=version-1 LIMIT 1");
        assert_eq!(faults(), [[1, 1], [2, 2], [2, 4]]);
    }
}
