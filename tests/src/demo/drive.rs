//! Runs the engine: starts it, watches it, kills it in the right moments, and lets it finish.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::faults::Faults;
use super::kills::{self, Landed, Moment};
use super::show::{Show, grouped};
use super::verify::{log_name, transaction_number};
use super::{DATABASE, Options, Stopped, TARGET};
use crate::doris::{DorisSim, Fault, Knob, LostAt, Op, Txn, TxnState};
use crate::engine::{Engine, Home};
use crate::server::{Endpoint, REPL_PASSWORD, Server};
use crate::workload::{Counts, Running, Workload};

/// Transactions a second of all writers, as far as the machine goes along, and those of a small demo.
const RATES: [f64; 2] = [1000.0, 400.0];
/// Nothing new in any target for so long: something is wrong.
const STALL: Duration = Duration::from_secs(120);
/// For SIGTERM, and for the run that ends by itself.
const LAST_RUN: Duration = Duration::from_secs(600);
/// The exit code of a process that was killed.
const KILLED: i32 = 128 + 9;
/// Between two looks.
const LOOK: Duration = Duration::from_millis(3);
/// How often the moment before an epoch's first commit is waited for.
const TRIES: u32 = 50;

/// What was done and seen.
#[derive(Debug)]
pub(super) struct Driven {
    pub(super) kills: Vec<Landed>,
    /// What speaks against the moment of a kill.
    pub(super) doubts: Faults,
    pub(super) counts: Counts,
    pub(super) writing: Duration,
    /// Running time of engines until every table was live.
    pub(super) until_live: Duration,
    /// Running time from then until everything was visible.
    pub(super) streaming: Duration,
    /// Per table: the number of a transaction after which it was live.
    pub(super) live: BTreeMap<&'static str, u64>,
    pub(super) peak_rss: u64,
    pub(super) restarts: u32,
    /// Transactions that the engine left open in Doris.
    pub(super) left: Faults,
}

pub(super) struct Drive<'d> {
    options: &'d Options,
    show: &'d Show,
    sim: &'d DorisSim,
    endpoint: Endpoint,
    home: Home,
    config: String,
    rng: Rng,
    began: Instant,
    running: Option<Run>,
    /// Running time of the engines that are gone.
    up: Duration,
    until_live: Option<Duration>,
    writers: Option<Running>,
    grown: (u64, Instant),
    driven: Driven,
}

/// A run of the engine.
struct Run {
    engine: Engine,
    since: Instant,
    /// Rows of the append targets at its start.
    rows: u64,
    /// Bytes of its log that were read.
    read: usize,
}

impl<'d> Drive<'d> {
    pub(super) fn new(
        options: &'d Options,
        show: &'d Show,
        server: &Server,
        sim: &'d DorisSim,
    ) -> Result<Self, Stopped> {
        let home = Home::new()?.env("MYSQL_PASSWORD", REPL_PASSWORD).env("DORIS_PASSWORD", sim.password());
        Ok(Self {
            options,
            show,
            sim,
            endpoint: server.endpoint(),
            home,
            config: config(options, server.port(), sim),
            rng: Rng::with_seed(options.seed ^ 0x6b69_6c6c),
            began: Instant::now(),
            running: None,
            up: Duration::ZERO,
            until_live: None,
            writers: None,
            grown: (0, Instant::now()),
            driven: Driven {
                kills: Vec::new(),
                doubts: Faults::default(),
                counts: Counts::default(),
                writing: Duration::ZERO,
                until_live: Duration::ZERO,
                streaming: Duration::ZERO,
                live: BTreeMap::new(),
                peak_rss: 0,
                restarts: 0,
                left: Faults::default(),
            },
        })
    }

    pub(super) fn run(mut self, workload: Workload) -> Result<Driven, Stopped> {
        let plan = kills::plan(self.options.kills, &mut self.rng);
        let in_snapshot = plan.iter().filter(|moment| **moment == Moment::Snapshot).count();
        self.show.step("the writers and the engine start");
        self.began = Instant::now();
        self.writers = Some(workload.start(&self.endpoint, Some(RATES[usize::from(is_small(self.options))])));
        self.start(&["run"])?;
        let mut rest = plan[in_snapshot..].to_vec();
        for n in 0..in_snapshot {
            let part = kills::part(n, in_snapshot, is_small(self.options), &mut self.rng);
            if !self.kill_in_snapshot(part)? {
                rest.push(Moment::Streaming);
            }
        }
        self.until_durably_live()?;
        let first = self.began.elapsed();
        let gap = self.writing_time().saturating_sub(first) / u32::try_from(rest.len() + 1).expect("few kills");
        for (n, moment) in (1..).zip(&rest) {
            let at = first + gap * n;
            self.look_until(|drive| drive.began.elapsed() >= at)?;
            match moment {
                Moment::Precommitted => self.kill_precommitted()?,
                _ => self.kill_streaming()?,
            }
        }
        self.look_until(|drive| drive.began.elapsed() >= drive.writing_time())?;
        self.stop_writers();
        self.finish()?;
        Ok(self.driven)
    }

    fn writing_time(&self) -> Duration {
        Duration::from_secs(self.options.seconds)
    }

    fn start(&mut self, args: &[&str]) -> Result<(), Stopped> {
        let engine = self.home.spawn(Some(&self.config), args)?;
        let since = Instant::now();
        self.running = Some(Run { engine, since, rows: self.log_rows(), read: 0 });
        Ok(())
    }

    /// Rows that are visible in all append targets.
    fn log_rows(&self) -> u64 {
        Workload::TABLES.iter().map(|table| self.sim.row_count(TARGET, &log_name(table))).sum()
    }

    /// The part of the loaded rows that is visible at least in the append targets.
    fn part_visible(&self) -> f64 {
        self.log_rows() as f64 / self.options.rows.max(1) as f64
    }

    fn run_mut(&mut self) -> Result<&mut Run, Stopped> {
        self.running.as_mut().ok_or_else(|| Stopped::failed("no engine runs"))
    }

    /// Looks at the engine: it must run, and its targets must grow. Then waits a moment.
    fn look(&mut self) -> Result<(), Stopped> {
        let run = self.run_mut()?;
        if let Some(exit) = run.engine.try_wait()? {
            let log = tail(&run.engine.stderr());
            return Err(Stopped::failed(format!("the engine ended by itself with exit code {}:\n{log}", exit.code)));
        }
        self.read_log()?;
        let rows = self.log_rows();
        if rows != self.grown.0 {
            self.grown = (rows, Instant::now());
        }
        if self.grown.1.elapsed() > STALL {
            let log = tail(&self.run_mut()?.engine.stderr());
            return Err(Stopped::failed(format!("nothing reached Doris for {STALL:?}; the engine's log:\n{log}")));
        }
        let written = self.writers.as_ref().map_or(0, |writers| writers.counts().changes());
        self.show.now(|| {
            let phase = if self.until_live.is_some() { "streaming" } else { "snapshot" };
            format!(
                "{phase}: {} changes written, {} rows visible in the append targets, {} of {} kills",
                grouped(written),
                grouped(rows),
                self.driven.kills.len(),
                self.options.kills
            )
        });
        std::thread::sleep(LOOK);
        Ok(())
    }

    fn look_until(&mut self, mut reached: impl FnMut(&Self) -> bool) -> Result<(), Stopped> {
        while !reached(self) {
            self.look()?;
        }
        Ok(())
    }

    /// Takes in what the engine has logged since: which tables are live.
    fn read_log(&mut self) -> Result<(), Stopped> {
        let run = self.run_mut()?;
        let length = std::fs::metadata(run.engine.stderr_path()).map_or(0, |file| file.len());
        if length <= run.read as u64 {
            return Ok(());
        }
        let log = run.engine.stderr();
        let complete = log.rfind('\n').map_or(0, |at| at + 1);
        let new = log.get(run.read..complete).unwrap_or_default().to_owned();
        run.read = complete;
        let news = News::of(&new);
        if news.tables.is_empty() && !news.all {
            return Ok(());
        }
        // Asked after the log was written, so it names every transaction from before.
        let executed = self.endpoint.session()?.sql("SELECT @@gtid_executed")?.concat().concat();
        let now = transaction_number(&executed);
        for table in news.tables {
            self.driven.live.insert(table, now);
        }
        if news.all {
            for table in Workload::TABLES {
                self.driven.live.entry(table).or_insert(now);
            }
            if self.until_live.is_none() {
                self.until_live = Some(self.up_time());
                self.show.step("every table is live");
            }
        }
        Ok(())
    }

    /// Running time of all engines so far.
    fn up_time(&self) -> Duration {
        self.up + self.running.as_ref().map_or(Duration::ZERO, |run| run.since.elapsed())
    }

    fn transactions(&self) -> Vec<Txn> {
        self.sim.transactions(TARGET)
    }

    /// kill -9; an error when the engine had ended by itself before.
    fn kill(&mut self, moment: Moment, evidence: impl FnOnce(&Self) -> String) -> Result<(), Stopped> {
        let era = self.transactions().iter().filter_map(|t| kills::era_and_epoch(&t.label)).map(|(era, _)| era).max();
        let second = self.began.elapsed().as_secs_f64();
        let mut run = self.running.take().ok_or_else(|| Stopped::failed("no engine runs"))?;
        let exit = run.engine.kill9()?;
        if exit.code != KILLED {
            let log = tail(&run.engine.stderr());
            return Err(Stopped::failed(format!("the engine ended by itself with exit code {}:\n{log}", exit.code)));
        }
        self.ended(&run);
        let evidence = evidence(self);
        self.show.step(&format!("kill -9 number {}: {moment} ({evidence})", self.driven.kills.len() + 1));
        self.driven.kills.push(Landed { moment, second, evidence, era: era.unwrap_or(0) });
        Ok(())
    }

    fn ended(&mut self, run: &Run) {
        self.up += run.since.elapsed();
        self.driven.peak_rss = self.driven.peak_rss.max(run.engine.peak_rss());
    }

    fn restart(&mut self) -> Result<(), Stopped> {
        self.driven.restarts += 1;
        self.start(&["run"])
    }

    /// Kills once this part of the rows is visible; false if the snapshot was over before. Whether some ranges were not
    /// done is seen at the end: by rows that a later run read, see [`super::report`].
    fn kill_in_snapshot(&mut self, part: f64) -> Result<bool, Stopped> {
        let rows = self.run_mut()?.rows;
        self.look_until(|drive| {
            (drive.part_visible() >= part && drive.log_rows() > rows) || drive.until_live.is_some()
        })?;
        if self.until_live.is_some() {
            return Ok(false);
        }
        let loaded = self.options.rows;
        self.kill(Moment::Snapshot, |drive| {
            format!("{} rows visible of about {}", grouped(drive.log_rows()), grouped(loaded))
        })?;
        self.restart()?;
        Ok(true)
    }

    /// Waits until every table is live and a crash cannot take that back: two more epochs are visible.
    fn until_durably_live(&mut self) -> Result<(), Stopped> {
        self.look_until(|drive| drive.until_live.is_some())?;
        let newest = |drive: &Self, state: Option<TxnState>| {
            let all = drive.transactions();
            let of_state = all.iter().filter(|txn| state.is_none_or(|state| txn.state == state));
            of_state.filter_map(|txn| kills::era_and_epoch(&txn.label)).max()
        };
        let Some((era, epoch)) = newest(self, None) else { return Ok(()) };
        self.look_until(|drive| newest(drive, Some(TxnState::Visible)) >= Some((era, epoch + 2)))
    }

    /// The engine has brought something, and the writers write.
    fn until_busy(&mut self) -> Result<(), Stopped> {
        let rows = self.run_mut()?.rows;
        self.look_until(|drive| drive.log_rows() > rows)?;
        let written = |drive: &Self| drive.writers.as_ref().map_or(0, |writers| writers.counts().changes());
        let before = written(self);
        self.look_until(|drive| written(drive) > before)
    }

    fn kill_streaming(&mut self) -> Result<(), Stopped> {
        self.until_busy()?;
        let more = Duration::from_millis(self.rng.u64(0..300));
        let since = Instant::now();
        self.look_until(|_| since.elapsed() >= more)?;
        let rows = self.run_mut()?.rows;
        self.kill(Moment::Streaming, |drive| {
            format!("it had brought {} rows since its start", grouped(drive.log_rows().saturating_sub(rows)))
        })?;
        self.restart()
    }

    /// Loses every commit until the kill, so that an epoch stands between its record and its commits.
    fn kill_precommitted(&mut self) -> Result<(), Stopped> {
        for _ in 0..TRIES {
            self.until_busy()?;
            let before = self.sim.knobs_fired();
            self.sim.set(Knob::always(Fault::ReplyLost { op: Op::Commit, state: LostAt::PreCommitted }));
            // The first request to commit tells that the record is durable.
            self.look_until(|drive| drive.sim.knobs_fired() > before)?;
            if !precommitted(&self.transactions()).is_empty() {
                break;
            }
            // It came among the commits of an epoch, some of which were done: that epoch ends, and the next one is taken. A
            // knob that is set again at once would meet the engine's next try of the same commit, for ever.
            self.sim.clear_knobs();
            if let Some(begun) = oldest_waiting(&self.transactions()) {
                self.look_until(|drive| oldest_waiting(&drive.transactions()).is_none_or(|oldest| oldest > begun))?;
            }
        }
        let mut ids = Vec::new();
        self.kill(Moment::Precommitted, |drive| {
            ids = precommitted(&drive.transactions());
            format!("{} loads of an epoch", ids.len())
        })?;
        self.sim.clear_knobs();
        if ids.is_empty() {
            self.driven.doubts.add(|| "an epoch was not whole when its first commit came".to_owned());
        }
        self.restart()?;
        // A load without a record is aborted: that these become visible shows that there was one.
        let states = |drive: &Self| -> Vec<TxnState> {
            drive.transactions().iter().filter(|txn| ids.contains(&txn.id)).map(|txn| txn.state).collect()
        };
        self.look_until(|drive| states(drive).iter().all(|state| state.is_final()))?;
        if states(self).contains(&TxnState::Aborted) {
            self.driven
                .doubts
                .add(|| "a precommitted load was aborted after the kill: its record was missing".to_owned());
        }
        Ok(())
    }

    fn stop_writers(&mut self) {
        if let Some(writers) = self.writers.take() {
            (_, self.driven.counts) = writers.stop();
            self.driven.writing = self.began.elapsed();
        }
    }

    /// SIGTERM, then a run that ends when everything is visible.
    fn finish(&mut self) -> Result<(), Stopped> {
        self.show.step("the writers have stopped; SIGTERM, and a last run until everything is visible");
        // A program that has just begun does not know yet what to do at a SIGTERM.
        self.look_until(|drive| drive.running.as_ref().is_none_or(|run| run.engine.stderr().contains(" running ")))?;
        self.run_mut()?.engine.sigterm()?;
        self.end_of_run("after SIGTERM")?;
        let open = self.transactions().into_iter().filter(|txn| !txn.state.is_final());
        for txn in open {
            self.driven.left.add(|| format!("{} is {} after SIGTERM", txn.label, txn.state));
        }
        self.driven.restarts += 1;
        self.start(&["run", "--until", "current"])?;
        self.end_of_run("with --until current")?;
        for txn in self.transactions().into_iter().filter(|txn| !txn.state.is_final()) {
            self.driven.left.add(|| format!("{} is {} at the end", txn.label, txn.state));
        }
        self.driven.until_live = self.until_live.unwrap_or(self.up);
        self.driven.streaming = self.up.saturating_sub(self.driven.until_live);
        Ok(())
    }

    fn end_of_run(&mut self, how: &str) -> Result<(), Stopped> {
        let deadline = Instant::now() + LAST_RUN;
        let exit = loop {
            if let Some(exit) = self.run_mut()?.engine.try_wait()? {
                break exit;
            }
            if Instant::now() > deadline {
                let log = tail(&self.run_mut()?.engine.stderr());
                return Err(Stopped::failed(format!("the engine {how} did not end within {LAST_RUN:?}:\n{log}")));
            }
            let rows = self.log_rows();
            self.show.now(|| format!("finishing: {} rows visible in the append targets", grouped(rows)));
            std::thread::sleep(LOOK);
        };
        let Some(run) = self.running.take() else { return Ok(()) };
        self.ended(&run);
        if exit.success() {
            return Ok(());
        }
        let log = tail(&run.engine.stderr());
        Err(Stopped::failed(format!("the engine {how} ended with exit code {}:\n{log}", exit.code)))
    }
}

/// The oldest epoch, with its era, of which a load waits for its commit.
fn oldest_waiting(all: &[Txn]) -> Option<(u32, u64)> {
    let waiting = all.iter().filter(|txn| txn.state == TxnState::PreCommitted);
    waiting.filter_map(|txn| kills::era_and_epoch(&txn.label)).min()
}

/// The loads of the oldest epoch that waits for its commits, if all of them do.
fn precommitted(all: &[Txn]) -> Vec<i64> {
    let of = |txn: &Txn| kills::era_and_epoch(&txn.label);
    let waiting = |txn: &&Txn| txn.state == TxnState::PreCommitted;
    let Some(epoch) = oldest_waiting(all) else { return Vec::new() };
    let loads: Vec<&Txn> = all.iter().filter(|txn| of(txn) == Some(epoch) && txn.state != TxnState::Aborted).collect();
    if loads.iter().all(waiting) { loads.iter().map(|txn| txn.id).collect() } else { Vec::new() }
}

/// What lines of the engine's log say of tables.
#[derive(Debug, Default, PartialEq, Eq)]
struct News {
    tables: Vec<&'static str>,
    all: bool,
}

impl News {
    fn of(lines: &str) -> Self {
        let mut news = Self::default();
        for line in plain(lines).lines() {
            if line.contains("every table is live") || is_resumed_live(line) {
                news.all = true;
            } else if line.contains("table is live") {
                let named = |table: &&str| line.contains(&format!("{DATABASE}.{table}"));
                news.tables.extend(Workload::TABLES.into_iter().filter(|table| named(table)));
            }
        }
        news
    }
}

/// `running era=2 tables=3 live=3`: nothing is left of the snapshot.
fn is_resumed_live(line: &str) -> bool {
    let field = |name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    line.contains(" running ") && field("live").is_some() && field("live") == field("tables")
}

/// Without the colours that are meant for a terminal.
fn plain(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str(part.split_once('m').map_or(part, |(_, rest)| rest));
    }
    out
}

/// The last lines of a log.
fn tail(log: &str) -> String {
    let log = plain(log);
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// Whether the snapshot is over in a moment unless it is made slow.
fn is_small(options: &Options) -> bool {
    options.rows < 100_000
}

/// The engine's configuration, made for the size of the demo: a small one is cut as finely as a large one.
fn config(options: &Options, port: u16, sim: &DorisSim) -> String {
    let (chunk_rows, interval) = ((options.rows / 100).clamp(10, 16_384), (options.rows / 1000).clamp(20, 1000));
    let workers = if is_small(options) { 1 } else { 4 };
    let (fe, sql, user) = (sim.fe_url(), sim.sql_addr(), sim.user());
    format!(
        r#"name = "demo"
[source]
url = "mysql://repl:${{MYSQL_PASSWORD}}@127.0.0.1:{port}"
tables = ["{DATABASE}.*"]
[snapshot]
workers = {workers}
chunk_rows = {chunk_rows}
[sink]
type = "doris"
fe = ["{fe}"]
sql = "{sql}"
user = "{user}"
password = "${{DORIS_PASSWORD}}"
flush = {{ interval = "{interval}ms" }}
[[route]]
match = "{DATABASE}.*"
to = "{TARGET}.{{table}}"
mode = "upsert"
[[route]]
match = "{DATABASE}.*"
to = "{TARGET}.{{table}}_log"
mode = "append"
[state]
dir = "./state"
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_tells_which_tables_are_live() {
        for (log, tables, all) in [
            ("INFO running era=1 tables=3 live=2\n", &[][..], false),
            ("INFO x: running era=1 tables=3 live=3\n", &[], true),
            (
                "INFO x: \u{1b}[3mrunning\u{1b}[0m era=1 \u{1b}[3mtables\u{1b}[0m\u{1b}[2m=\u{1b}[0m3 live=3\n",
                &[],
                true,
            ),
            (
                "INFO table is live table=\"shop.stock\"\nINFO table is live table=\"shop.orders\"\n",
                &["stock", "orders"],
                false,
            ),
            ("INFO every table is live rows=7\n", &[], true),
        ] {
            assert_eq!(News::of(log), News { tables: tables.to_vec(), all }, "{log}");
        }
    }
}
