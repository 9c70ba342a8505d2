//! Several hosts in `source.url`: the engine goes on from a real replica when its server is gone, and only if that holds
//! what was replicated.

use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use millstream_tests::engine::{self, Engine};
use millstream_tests::rig::{PATIENCE, Rig};
use millstream_tests::server::{self, REPL_PASSWORD, Server, ServerOptions};
use millstream_tests::workload::Workload;

/// Fast servers: what they lose when they are killed is a replica's gain.
fn start() -> Option<Server> {
    server::or_skip(Server::start(ServerOptions::new().durable(false)))
}

/// Makes `replica` follow `source`, by GTID.
fn follow(replica: &Server, source: &Server) {
    replica.sql(&format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {}, SOURCE_USER = 'repl', \
         SOURCE_PASSWORD = '{REPL_PASSWORD}', SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1; START REPLICA",
        source.port()
    ));
}

fn executed(server: &Server) -> String {
    server.value("SELECT @@GLOBAL.gtid_executed").replace('\n', "")
}

/// Waits until `replica` has everything that `set` names.
fn caught_up(replica: &Server, set: &str) {
    let answer = replica.value(&format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{set}', 60)"));
    assert_eq!(answer, "0", "the replica did not get {set}");
}

/// Makes a replica a server of its own.
fn promote(replica: &Server) {
    replica.sql("STOP REPLICA; RESET REPLICA ALL");
}

/// `source.url` of both.
fn both(one: &Server, other: &Server) -> String {
    format!("{},127.0.0.1:{}", one.url("repl"), other.port())
}

fn wait_until(engine: &mut Engine, what: &str, reached: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE / 4;
    while !reached() {
        assert!(engine.try_wait().unwrap().is_none(), "ended before {what}\n{}", engine.stderr());
        assert!(Instant::now() < deadline, "no {what}\n{}", engine.stderr());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_engine_goes_on_from_a_promoted_replica_and_refuses_one_that_lost_transactions() {
    let (Some(first), Some(second)) = (start(), start()) else { return };
    // Building it must not take place beside the writers.
    engine::binary();
    let mut workload = Workload::new("fo", 51, 2);
    workload.create(&first.endpoint()).unwrap();
    workload.load(&first.endpoint(), 3000, &AtomicU64::new(0)).unwrap();
    follow(&second, &first);
    let Some(mut rig) = Rig::simulated(&first, &["fo.*"]) else { return };
    rig.source_url = both(&first, &second);
    rig.snapshot = "chunk_rows = 50\nworkers = 2".to_owned();
    rig.flush = "{ interval = \"100ms\" }".to_owned();

    // In the middle of the snapshot, and of the writes.
    let writers = workload.start(&first.endpoint(), Some(300.0));
    let mut engine = rig.spawn();
    wait_until(&mut engine, "a row", || rig.row_count("log_fo", "orders") > 100);
    let (mut workload, _) = writers.stop();
    caught_up(&second, &executed(&first));
    first.kill().unwrap();
    promote(&second);
    workload.run(&second.endpoint(), 100).unwrap();
    let writers = workload.start(&second.endpoint(), Some(300.0));
    engine.wait_for_log("another server", PATIENCE / 4, |log| log.contains("the source is another server now"));
    engine.wait_for_log("live tables", PATIENCE / 4, |log| log.contains("every table is live"));
    let (mut workload, _) = writers.stop();
    engine.sigterm().unwrap();
    let output = engine.finish(PATIENCE);
    assert!(output.exit.success(), "{}", output.stderr);
    rig.run_well();
    rig.assert_exact(&second.endpoint(), "fo", &Workload::TABLES);

    // The first server comes back, follows, and loses the last transactions of the second one: not one row of what it
    // does next may be taken.
    first.start_again().unwrap();
    follow(&first, &second);
    caught_up(&first, &executed(&second));
    promote(&first);
    rig.source_url = both(&second, &first);
    let before = executed(&first);
    workload.run(&second.endpoint(), 5).unwrap();
    let lost = first.value(&format!("SELECT GTID_SUBTRACT('{}', '{before}')", executed(&second)));
    rig.run_well();
    second.kill().unwrap();
    let rows = |rig: &Rig| Workload::TABLES.map(|table| rig.row_count("log_fo", table));
    let known = rows(&rig);
    first.sql("INSERT INTO fo.orders SELECT id + 1000000, version, customer, amount, weight, price, status, flags, note, created, updated, doc FROM fo.orders LIMIT 1");
    let output = rig.run();
    assert_eq!(output.exit.code, 1, "{}", output.stderr);
    for part in
        [lost.as_str(), "lacks transactions that were replicated already", &format!("127.0.0.1:{}", first.port())]
    {
        assert!(output.stderr.contains(part), "{part:?} is not in\n{}", output.stderr);
    }
    assert_eq!(rows(&rig), known, "nothing was written");
}
