//! The connection to the source is lost at many places, inside transactions too, and the server restarts: every change
//! arrives once.

use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use millstream_tests::engine::Engine;
use millstream_tests::proxy::{Direction, Proxy};
use millstream_tests::rig::{PATIENCE, Rig};
use millstream_tests::server::{self, Server, ServerOptions};
use millstream_tests::workload::Workload;

/// A rig whose engine reaches `server` through a proxy.
fn through_proxy(server: &Server, database: &str) -> (Rig, Proxy) {
    let proxy = Proxy::to_port(server.port()).unwrap();
    let mut rig = Rig::new(server, &[&format!("{database}.*")]);
    rig.source_url = rig.source_url.replace(&format!(":{}", server.port()), &format!(":{}", proxy.port()));
    (rig, proxy)
}

/// Waits until the append table of `table` has at least `rows` rows.
fn wait_for_rows(rig: &Rig, engine: &Engine, database: &str, table: &str, rows: u64) {
    let deadline = Instant::now() + PATIENCE / 6;
    while rig.row_count(database, table) < rows {
        let there = rig.row_count(database, table);
        assert!(Instant::now() < deadline, "{database}.{table} has {there} rows\n{}", engine.stderr());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Conformance: P1
/// Bug: 85
#[test]
fn a_connection_cut_inside_a_transaction_at_many_offsets_loses_and_doubles_nothing() {
    let Some(server) = server::shared() else { return };
    let endpoint = server.endpoint();
    let mut session = endpoint.session().unwrap();
    session
        .sql(
            "CREATE DATABASE cut1; CREATE TABLE cut1.t (id INT PRIMARY KEY, v INT NOT NULL, pad VARCHAR(200) NOT NULL)",
        )
        .unwrap();
    let values: Vec<String> = (0..2000).map(|i| format!("({i}, 0, REPEAT('x', 100))")).collect();
    session.sql(&format!("INSERT INTO cut1.t VALUES {}", values.join(","))).unwrap();
    let (mut rig, proxy) = through_proxy(server, "cut1");
    // Small batches: a transaction is many loads, and some of them are cut inside it.
    rig.top = "memory = \"32MiB\"".to_owned();
    rig.flush = "{ interval = \"200ms\", bytes = \"64KiB\" }".to_owned();
    let mut engine = rig.spawn();
    wait_for_rows(&rig, &engine, "log_cut1", "t", 2000);
    // About 450 KB of row images per transaction.
    let mut rng = fastrand::Rng::with_seed(3);
    for round in 1..=25 {
        let cut = proxy.stats().cut;
        proxy.cut_after(Direction::ToClient, rng.u64(1..450_000));
        let shift = if round % 5 == 0 { "UPDATE cut1.t SET id = id + 100000 WHERE id % 50 = 0;" } else { "" };
        session
            .sql(&format!("BEGIN; UPDATE cut1.t SET v = v + 1; {shift} DELETE FROM cut1.t WHERE id = {round}; COMMIT"))
            .unwrap();
        assert!(proxy.wait_for(PATIENCE, |s| s.cut > cut), "round {round}: nothing was cut\n{}", engine.stderr());
    }
    assert!(engine.try_wait().unwrap().is_none(), "{}", engine.stderr());
    engine.sigterm().unwrap();
    let exit = engine.wait(PATIENCE).unwrap().expect("it ends");
    assert!(exit.success(), "{exit:?}\n{}", engine.stderr());
    rig.run_well();
    rig.assert_exact(&endpoint, "cut1", &["t"]);
}

#[test]
fn a_server_that_restarts_and_is_killed_loses_nothing() {
    let Some(server) = server::or_skip(Server::start(ServerOptions::new())) else { return };
    let endpoint = server.endpoint();
    let mut workload = Workload::new("cut2", 21, 2);
    workload.create(&endpoint).unwrap();
    workload.load(&endpoint, 3000, &AtomicU64::new(0)).unwrap();
    let rig = Rig::new(&server, &["cut2.*"]);
    let mut engine = rig.spawn();
    for round in 0..4 {
        workload.run(&endpoint, 60).unwrap();
        if round % 2 == 0 {
            server.restart().unwrap();
        } else {
            server.kill().unwrap();
            server.start_again().unwrap();
        }
    }
    assert!(engine.try_wait().unwrap().is_none(), "{}", engine.stderr());
    engine.sigterm().unwrap();
    let exit = engine.wait(PATIENCE).unwrap().expect("it ends");
    assert!(exit.success(), "{exit:?}\n{}", engine.stderr());
    rig.run_well();
    rig.assert_exact(&endpoint, "cut2", &Workload::TABLES);
}
