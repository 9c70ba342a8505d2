//! Random workloads over hard keys, on every server, while the engine is killed, its connections are cut and the cluster
//! fails: after each round the targets must be the source.
//!
//! Whatever happens the verdict is the same: a round ends with nobody writing and nothing failing, and both targets of every
//! table exact. A failure prints its seed; `TORTURE_SEED=n` makes the same choices again (how they fall together is up to the
//! machine). `MILLSTREAM_LONG=1` runs many more rounds from a random seed, `TORTURE_SERVER=name` one server alone.

mod tables;
mod writer;

use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use fastrand::Rng;
use millstream_tests::doris::{DorisSim, Fault, Knob, LostAt, Op, TxnState};
use millstream_tests::engine::{self, Engine};
use millstream_tests::proxy::{Direction, Proxy};
use millstream_tests::rig::{PATIENCE, Rig};
use millstream_tests::server::{self, Flavor, Server, ServerOptions};

use tables::TABLES;
use writer::{Writer, Writers};

/// A server and what is set otherwise than usual.
struct Case {
    name: &'static str,
    options: fn() -> ServerOptions,
}

/// The servers that the engine takes.
const CASES: &[Case] = &[Case { name: "mysql-9.7", options: || ServerOptions::new().flavor(Flavor::Mysql97) }];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Says how to do it again when the test fails.
struct Told {
    seed: u64,
    case: &'static str,
}

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("TORTURE_SEED={} TORTURE_SERVER={} does this again", self.seed, self.case);
        }
    }
}

#[test]
fn whatever_happens_both_targets_are_exact() {
    let long = number("MILLSTREAM_LONG").is_some();
    let usual = if long { fastrand::u64(..1 << 32) } else { 20_261_201 };
    let seed = number("TORTURE_SEED").unwrap_or(usual);
    let only = std::env::var("TORTURE_SERVER").ok();
    let rounds = if long { 40 } else { 1 };
    // Building it must not take place beside the writers.
    engine::binary();
    println!("TORTURE_SEED={seed}");
    for case in CASES.iter().filter(|case| only.as_ref().is_none_or(|name| name == case.name)) {
        let _told = Told { seed, case: case.name };
        let began = Instant::now();
        // What is written survives the server's end well enough: nobody kills it.
        let Some(server) = server::or_skip(Server::start((case.options)().durable(false))) else { continue };
        let mut rng = Rng::with_seed(seed);
        let mut sum = Sum::default();
        for round in 0..rounds {
            if !one_round(&server, round, &mut rng, &mut sum) {
                return;
            }
        }
        println!("{}: {sum:?} in {:.1} s", case.name, began.elapsed().as_secs_f32());
    }
}

#[derive(Debug, Default)]
struct Sum {
    commits: u64,
    rows: u64,
    kills: u64,
    cuts: u64,
    faults: u64,
}

/// A pipeline from the first row to the last change. `false`: not on this cluster.
fn one_round(server: &Server, round: u64, rng: &mut Rng, sum: &mut Sum) -> bool {
    let database = format!("torture{round}");
    let endpoint = server.endpoint();
    server.sql(&format!("CREATE DATABASE {database}"));
    for table in TABLES {
        server.sql(&table.create(&database, server.flavor()));
    }
    let seed = rng.u64(..);
    let (mut first, mut session) = (Writer::new(&database, !seed, 0), None);
    for _ in 0..150 {
        first.step(&endpoint, &mut session, &AtomicU64::new(0));
    }
    let proxy = Proxy::to_port(server.port()).unwrap();
    let Some(mut rig) = Rig::simulated(server, &[&format!("{database}.*")]) else { return false };
    rig.source_url = rig.source_url.replace(&format!(":{}", server.port()), &format!(":{}", proxy.port()));
    rig.top = "memory = \"32MiB\"".to_owned();
    rig.snapshot = format!("chunk_rows = {}\nworkers = {}", rng.u8(1..12), rng.u8(1..4));
    rig.flush = format!("{{ interval = \"{}ms\", bytes = \"{}KiB\" }}", rng.u16(100..400), 64 << rng.u8(..4));
    let writers = Writers::start(&endpoint, &database, seed, 3);
    for life in 0..rng.u8(3..6) {
        if rng.u8(..4) > 0 {
            rig.sim().set(fault(rng));
        }
        let mut engine = rig.spawn();
        live(&mut engine, &proxy, rng);
        let ended = engine.try_wait().unwrap();
        engine.kill9().unwrap();
        proxy.pass().unwrap();
        // Only rows that Doris itself refuses may end it.
        if ended.is_some() {
            let log = engine.stderr();
            assert!(log.contains("filtered"), "{database}, life {life}: it ended\n{log}");
        }
        sum.kills += u64::from(ended.is_none());
        sum.faults += rig.sim().knobs_fired();
        rig.sim().clear_knobs();
        if rng.u8(..4) == 0 {
            rig.sim().purge();
        }
    }
    sum.commits += writers.stop();
    sum.cuts += proxy.stats().cut;
    rig.run_well();
    let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
    rig.assert_exact(&endpoint, &database, &names);
    assert_eq!(precommitted(rig.sim(), &database), 0, "something is pending");
    sum.rows += names.iter().map(|table| rig.row_count(&format!("log_{database}"), table)).sum::<u64>();
    server.sql(&format!("DROP DATABASE {database}"));
    true
}

/// One life of the engine, with cuts once it has begun (before, it may refuse).
fn live(engine: &mut Engine, proxy: &Proxy, rng: &mut Rng) {
    let began = Instant::now();
    let is_there =
        |engine: &mut Engine| engine.try_wait().unwrap().is_some() || engine.stderr().contains("running era");
    while !is_there(engine) {
        assert!(began.elapsed() < PATIENCE / 4, "it does not begin\n{}", engine.stderr());
        std::thread::sleep(Duration::from_millis(5));
    }
    for _ in 0..rng.u8(1..4) {
        match rng.u8(..6) {
            0 => {
                proxy.cut_now();
            }
            1 | 2 => proxy.cut_after(Direction::ToClient, rng.u64(..200_000)),
            3 => proxy.cut_after(Direction::ToServer, rng.u64(..2000)),
            _ => {}
        }
        let until = Instant::now() + Duration::from_millis(rng.u64(..400));
        while Instant::now() < until && engine.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A fault that loads or commits meet.
fn fault(rng: &mut Rng) -> Knob {
    let op = if rng.bool() { Op::Load } else { Op::Commit };
    let state = match op {
        Op::Load => [LostAt::Prepare, LostAt::PreCommitted][rng.usize(..2)],
        _ => [LostAt::PreCommitted, LostAt::Committed, LostAt::Visible][rng.usize(..3)],
    };
    let fault = match rng.u8(..8) {
        0 => Fault::SlowRedirect { ms: rng.u64(50..300) },
        1 => Fault::Cut { at: rng.u64(..20_000) },
        2 => Fault::PublishDelay { ms: Some(rng.u64(50..400)) },
        3 => Fault::FilterRows { rows: rng.u64(1..5) },
        4 => Fault::FalseFail { op },
        _ => Fault::ReplyLost { op, state },
    };
    Knob::once(fault).times(rng.u32(1..5))
}

fn precommitted(sim: &DorisSim, database: &str) -> usize {
    let of = |prefix| sim.transactions(&format!("{prefix}_{database}"));
    ["up", "log"].into_iter().flat_map(of).filter(|t| t.state == TxnState::PreCommitted).count()
}
