//! The engine is killed with SIGKILL at seeded times, in every phase and under the simulator's faults, while the source
//! is written to: every change arrives once.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use millstream_tests::doris::{DorisSim, Fault, Knob, LostAt, Op, TxnState};
use millstream_tests::engine::Engine;
use millstream_tests::rig::{PATIENCE, Rig};
use millstream_tests::server::{self, Endpoint};
use millstream_tests::workload::Workload;

/// Transactions of the pipeline in this state.
fn count(sim: &DorisSim, database: &str, state: TxnState) -> usize {
    let of = |db: String| sim.transactions(&db).iter().filter(|t| t.state == state).count();
    of(format!("up_{database}")) + of(format!("log_{database}"))
}

/// Whether a commit was asked for: then the epoch's record was durable.
fn commit_asked(sim: &DorisSim) -> bool {
    sim.requests().iter().any(|r| {
        r.path.contains("_stream_load_2pc")
            && r.header("txn_operation").is_some_and(|op| op.eq_ignore_ascii_case("commit"))
    })
}

fn load_seen(sim: &DorisSim) -> bool {
    sim.requests().iter().any(|r| r.path.ends_with("/_stream_load"))
}

fn wait_until(what: &str, engine: &mut Engine, reached: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE / 4;
    while !reached() {
        assert!(engine.try_wait().unwrap().is_none(), "it ended before {what}\n{}", engine.stderr());
        assert!(Instant::now() < deadline, "no {what}\n{}", engine.stderr());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether the engine said that every table is live, or found them so.
fn is_live(engine: &Engine) -> bool {
    let log = engine.stderr();
    log.contains("every table is live") || log.contains("live=3")
}

/// The lives of a round that wait for a moment: loads PRECOMMITTED with their commits lost, and live tables.
const HELD: i32 = 4;
const LIVE: i32 = 5;

/// In which phase a kill came.
fn phase(sim: &DorisSim, database: &str, ended: bool, loaded: u64) -> &'static str {
    if ended {
        return "ended by itself";
    }
    let asked = commit_asked(sim);
    let read: u64 = Workload::TABLES.iter().map(|t| sim.row_count(&format!("log_{database}"), t)).sum();
    let snapshot = read < loaded;
    let (prepare, precommitted) =
        (count(sim, database, TxnState::Prepare) > 0, count(sim, database, TxnState::PreCommitted) > 0);
    match (read, precommitted, prepare, asked) {
        (_, true, _, true) => "loads precommitted, record durable",
        (_, true, _, false) => "loads precommitted, no record",
        (_, _, true, _) => "loads on their way",
        (0, ..) => "before the first load",
        _ if snapshot => "between chunks",
        _ => "streaming",
    }
}

/// A fault that a load or a commit meets while the engine runs.
fn fault(rng: &mut fastrand::Rng) -> Knob {
    let (op, state) = match rng.u8(0..6) {
        0 => (Op::Load, LostAt::Prepare),
        1 => (Op::Load, LostAt::PreCommitted),
        2 | 3 => (Op::Commit, LostAt::PreCommitted),
        4 => (Op::Commit, LostAt::Committed),
        _ => (Op::Commit, LostAt::Visible),
    };
    let fault = match rng.u8(0..9) {
        0 => Fault::SlowRedirect { ms: rng.u64(50..400) },
        1 => Fault::Cut { at: rng.u64(0..20_000) },
        2 => Fault::PublishDelay { ms: Some(rng.u64(50..500)) },
        3 => Fault::FilterRows { rows: rng.u64(1..5) },
        4 => Fault::FalseFail { op: if rng.bool() { Op::Load } else { Op::Commit } },
        _ => Fault::ReplyLost { op, state },
    };
    Knob::once(fault).times(rng.u32(1..6))
}

#[test]
fn killed_thirty_six_times_in_every_phase_with_faults() {
    let Some(server) = server::shared() else { return };
    let endpoint = server.endpoint();
    // MILLSTREAM_SEED tries other moments and faults.
    let seed = std::env::var("MILLSTREAM_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(20_261_130);
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut workload = Workload::new("kill1", 31, 2);
    workload.create(&endpoint).unwrap();
    workload.load(&endpoint, 2400, &AtomicU64::new(0)).unwrap();
    let mut phases: BTreeMap<&'static str, u32> = BTreeMap::new();
    let (mut fired, mut live) = (0, 0);
    // Each round begins anew, so that many kills come while rows are still being read.
    for round in 0..6 {
        let Some(mut rig) = Rig::simulated(server, &["kill1.*"]) else { return };
        rig.snapshot = "chunk_rows = 60\nworkers = 2".to_owned();
        rig.flush = "{ interval = \"100ms\" }".to_owned();
        let loaded: u64 = Workload::TABLES
            .iter()
            .map(|t| server.value(&format!("SELECT COUNT(*) FROM kill1.{t}")).parse::<u64>().unwrap())
            .sum();
        let writers = workload.start(&endpoint, Some(120.0));
        for life in 0..6 {
            rig.sim().clear_knobs();
            rig.sim().clear_requests();
            for _ in 0..rng.u8(0..4) {
                let fault = fault(&mut rng);
                if life != LIVE {
                    rig.sim().set(fault);
                }
            }
            if life == HELD {
                rig.sim().set(commits_held(""));
            }
            let mut engine = rig.spawn();
            // Mostly from the first load on: what comes before is the same at every start.
            let first_load = Instant::now() + PATIENCE / 4;
            let early = rng.u8(0..6) == 0;
            while !early && !load_seen(rig.sim()) && engine.try_wait().unwrap().is_none() {
                assert!(Instant::now() < first_load, "no load\n{}", engine.stderr());
                std::thread::sleep(Duration::from_millis(2));
            }
            // Whatever the machine's speed: one life gets to loads that wait for their commit, one to live tables.
            let is_there = |engine: &Engine| match life {
                HELD => commit_asked(rig.sim()),
                LIVE => is_live(engine),
                _ => true,
            };
            let patience = Instant::now() + PATIENCE / 4;
            while !is_there(&engine) && engine.try_wait().unwrap().is_none() {
                assert!(Instant::now() < patience, "round {round}, life {life}\n{}", engine.stderr());
                std::thread::sleep(Duration::from_millis(2));
            }
            let longest = if life < HELD { 300 } else { 600 };
            let deadline = Instant::now() + Duration::from_millis(rng.u64(0..longest));
            while Instant::now() < deadline && engine.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_millis(2));
            }
            live += u32::from(is_live(&engine));
            // Only a fault that Doris itself calls the data's fault may end it.
            let ended = engine.try_wait().unwrap();
            engine.kill9().unwrap();
            if let Some(exit) = ended {
                assert_eq!(exit.code, 1, "round {round}, life {life}\n{}", engine.stderr());
                assert!(engine.stderr().contains("filtered"), "{}", engine.stderr());
            }
            *phases.entry(phase(rig.sim(), "kill1", ended.is_some(), loaded)).or_default() += 1;
            if rng.u8(0..4) == 0 {
                rig.sim().purge();
            }
        }
        fired += rig.sim().knobs_fired();
        rig.sim().clear_knobs();
        workload = writers.stop().0;
        rig.run_well();
        rig.assert_exact(&endpoint, "kill1", &Workload::TABLES);
        assert_eq!(count(rig.sim(), "kill1", TxnState::PreCommitted), 0, "round {round}");
    }
    println!("seed {seed}, kills by phase: {phases:?}; faults that acted: {fired}; with live tables: {live}");
    let in_phase = |part: &str| phases.iter().filter(|(name, _)| name.contains(part)).map(|(_, n)| n).sum::<u32>();
    assert!(in_phase("ended") < 12 && fired > 10, "{phases:?}");
    assert!(in_phase("precommitted") > 0 && live > 0, "{phases:?}, {live} live");
}

/// A source with three tables of rows that the engine knows already, and an engine that is stopped just after it has
/// asked to commit an epoch of changes; every commit that `knobs` let through is done.
struct Stopped {
    rig: Rig,
    endpoint: Endpoint,
    database: &'static str,
}

impl Stopped {
    fn new(database: &'static str, seed: u64, knobs: &[Knob]) -> Option<Self> {
        let server = server::shared()?;
        let endpoint = server.endpoint();
        let mut workload = Workload::new(database, seed, 2);
        workload.create(&endpoint).unwrap();
        workload.load(&endpoint, 900, &AtomicU64::new(0)).unwrap();
        let mut rig = Rig::simulated(server, &[&format!("{database}.*")])?;
        rig.run_well();
        workload.run(&endpoint, 100).unwrap();
        // Long enough for the first epoch to hold changes of every table.
        rig.flush = "{ interval = \"1s\" }".to_owned();
        for knob in knobs {
            rig.sim().set(knob.clone());
        }
        rig.sim().clear_requests();
        let mut engine = rig.spawn();
        wait_until("a commit", &mut engine, || commit_asked(rig.sim()));
        engine.kill9().unwrap();
        rig.sim().clear_knobs();
        // What the next run finds is written while nobody looks.
        workload.run(&endpoint, 100).unwrap();
        Some(Self { rig, endpoint, database })
    }

    fn finish(&self) {
        self.rig.run_well();
        self.rig.assert_exact(&self.endpoint, self.database, &Workload::TABLES);
        assert_eq!(count(self.rig.sim(), self.database, TxnState::PreCommitted), 0);
    }
}

/// Commits are lost before Doris does them.
fn commits_held(table: &str) -> Knob {
    Knob::always(Fault::ReplyLost { op: Op::Commit, state: LostAt::PreCommitted }).table(table)
}

/// Doris commits, but nobody hears of it.
fn commits_unheard(table: &str) -> Knob {
    Knob::always(Fault::ReplyLost { op: Op::Commit, state: LostAt::Visible }).table(table)
}

#[test]
fn precommitted_loads_that_expire_while_the_engine_is_down() {
    let Some(stopped) = Stopped::new("kill2", 41, &[commits_held("")]) else { return };
    assert!(count(stopped.rig.sim(), "kill2", TxnState::PreCommitted) >= 2);
    stopped.rig.sim().advance(Duration::from_secs(3700));
    assert_eq!(count(stopped.rig.sim(), "kill2", TxnState::PreCommitted), 0);
    stopped.finish();
}

#[test]
fn precommitted_loads_that_are_still_there_are_committed() {
    let Some(stopped) = Stopped::new("kill3", 42, &[commits_held("")]) else { return };
    assert!(count(stopped.rig.sim(), "kill3", TxnState::PreCommitted) >= 2);
    stopped.finish();
}

#[test]
fn some_loads_expire_and_others_were_committed_unheard_and_everything_is_forgotten() {
    // One table's loads are lost, the others' are visible; of none is anything known afterwards.
    let knobs = [commits_held("orders"), commits_unheard("stock"), commits_unheard("events")];
    let Some(stopped) = Stopped::new("kill4", 43, &knobs) else { return };
    let sim = stopped.rig.sim();
    assert!(count(sim, "kill4", TxnState::PreCommitted) >= 1);
    sim.advance(Duration::from_secs(3700));
    sim.purge();
    for db in ["up_kill4", "log_kill4"] {
        assert!(sim.transactions(db).is_empty(), "{:?}", sim.transactions(db));
    }
    stopped.finish();
}

#[test]
fn labels_and_transactions_older_than_half_a_day_are_forgotten() {
    let Some(stopped) = Stopped::new("kill5", 44, &[commits_unheard("up_"), commits_held("log_")]) else { return };
    stopped.rig.sim().advance(Duration::from_secs(3700));
    stopped.rig.sim().advance(Duration::from_secs(13 * 3600));
    assert!(stopped.rig.sim().transactions("log_kill5").is_empty());
    stopped.finish();
}

#[test]
fn the_front_end_restarts_between_precommit_and_commit() {
    let Some(server) = server::shared() else { return };
    let endpoint = server.endpoint();
    let mut workload = Workload::new("kill6", 45, 2);
    workload.create(&endpoint).unwrap();
    workload.load(&endpoint, 900, &AtomicU64::new(0)).unwrap();
    let Some(rig) = Rig::simulated(server, &["kill6.*"]) else { return };
    rig.run_well();
    let mut engine = rig.spawn();
    for _ in 0..4 {
        rig.sim().clear_requests();
        rig.sim().set(commits_held(""));
        workload.run(&endpoint, 40).unwrap();
        wait_until("a commit", &mut engine, || commit_asked(rig.sim()));
        rig.sim().restart_fe();
        rig.sim().clear_knobs();
    }
    engine.sigterm().unwrap();
    let exit = engine.wait(PATIENCE).unwrap().expect("it ends");
    assert!(exit.success(), "{exit:?}\n{}", engine.stderr());
    rig.run_well();
    rig.assert_exact(&endpoint, "kill6", &Workload::TABLES);
}
