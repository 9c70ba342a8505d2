//! Rows that are not logged whole: `binlog_row_image` MINIMAL and NOBLOB. What can be completed exactly arrives, everything else
//! stops by name, and no column becomes NULL because the log lacked it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use millstream_tests::engine::Output;
use millstream_tests::rig::{PATIENCE, Rig};
use millstream_tests::server::{self, Server, ServerOptions};

/// A server whose sessions log rows in part.
fn server() -> Option<&'static Server> {
    static SERVER: std::sync::OnceLock<Option<Server>> = std::sync::OnceLock::new();
    let options = ServerOptions::new().flag("--binlog-row-image=MINIMAL");
    SERVER.get_or_init(|| server::or_skip(Server::start(options))).as_ref()
}

/// Every table goes to an upsert target alone.
fn upsert(rig: &Rig) -> String {
    let config = rig.config();
    let mut parts = config.split("[[route]]");
    let (head, first) = (parts.next().unwrap(), parts.next().unwrap());
    let (_, state) = config.split_once("[state]").unwrap();
    format!("{head}[[route]]{first}[state]{state}")
}

fn run(rig: &Rig, config: &str) -> Output {
    rig.home.finish(Some(config), &["run", "--until", "current", "--json"], PATIENCE)
}

#[track_caller]
fn run_well(rig: &Rig, config: &str) {
    let output = run(rig, config);
    assert!(output.exit.success(), "{:?}\n{}", output.exit, output.stderr);
}

#[track_caller]
fn stops(output: &Output, words: &[&str]) {
    assert_eq!(output.exit.code, 1, "{}", output.stderr);
    for word in words {
        assert!(output.stderr.contains(word), "{word:?} is missing in:\n{}", output.stderr);
    }
}

/// One transaction of a writer.
fn transaction(rng: &mut fastrand::Rng) -> String {
    let mut statements = vec!["BEGIN".to_owned()];
    for _ in 0..rng.u32(1..6) {
        let (k, j) = (rng.u32(0..300), rng.u32(0..300));
        statements.push(match rng.u32(0..10) {
            0 => format!("INSERT IGNORE INTO t (k, must) VALUES ('K{k}', {j})"),
            1 => format!("INSERT INTO t (k, must, b) VALUES ('K{k}', {j}, 'x') ON DUPLICATE KEY UPDATE n = {j}"),
            2 => format!("REPLACE INTO t (k, must, d) VALUES ('K{k}', {j}, '2020-02-0{}')", k % 9 + 1),
            3 => format!("DELETE FROM t WHERE k = 'k{k}'"),
            4 => format!("UPDATE t SET n = NULL, s = 'b' WHERE k = 'K{k}'"),
            5 => format!("UPDATE t SET b = REPEAT('{j}', 50) WHERE must BETWEEN {j} AND {j} + 20"),
            6 => format!("UPDATE t SET a = a + 1 WHERE k IN ('k{k}', 'k{j}')"),
            7 => format!("UPDATE t SET n = {j}, must = {k} WHERE k = 'k{k}'"),
            8 => format!("UPDATE u SET v = {j} WHERE id % 7 = {}", k % 7),
            _ => format!("INSERT INTO u (id, w) VALUES ({k}, '{j}') ON DUPLICATE KEY UPDATE w = 'o{j}', v = v + 1"),
        });
    }
    statements.push("COMMIT".to_owned());
    statements.join("; ")
}

/// Writers at work, chunks of a few rows, small loads, and an engine that is killed again and again.
///
/// Conformance: E7
#[test]
fn partial_images_make_whole_rows() {
    let Some(server) = server() else { return };
    server.sql(
        "CREATE DATABASE ri_mix; USE ri_mix;
         CREATE TABLE t (a INT NOT NULL DEFAULT 7, must INT NOT NULL, k VARCHAR(10) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, n INT,
           s ENUM('a','b') DEFAULT 'a', d DATE NOT NULL DEFAULT '2000-01-01', ts TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
           b BLOB, x VARCHAR(40) DEFAULT (UUID()), v INT AS (n + 1) VIRTUAL, g INT AS (must + 2) STORED NOT NULL, f DECIMAL(9,2) DEFAULT 1.50);
         CREATE TABLE u (id INT PRIMARY KEY, v BIGINT UNSIGNED DEFAULT 5, w TEXT);
         SET cte_max_recursion_depth = 1000;
         INSERT INTO t (k, must, n) WITH RECURSIVE r(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM r WHERE i < 250) SELECT CONCAT('k', i), i, i FROM r;
         INSERT INTO u (id) WITH RECURSIVE r(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM r WHERE i < 200) SELECT i FROM r",
    );
    let mut rig = Rig::new(server, &["ri_mix.*"]);
    rig.snapshot = "chunk_rows = 20".to_owned();
    rig.flush = "{ interval = \"100ms\", bytes = \"64KiB\" }".to_owned();
    let config = upsert(&rig);
    /// Writers end when their test does, however it does.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        for seed in [1, 2] {
            let stop = &stop;
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(seed);
                let mut session = server.session().unwrap();
                session.sql("USE ri_mix").unwrap();
                while !stop.load(Ordering::Relaxed) {
                    // Two writers may lock each other out.
                    if session.sql(&transaction(&mut rng)).is_err() {
                        session = server.session().unwrap();
                        session.sql("USE ri_mix").unwrap();
                    }
                    if rng.u32(0..40) == 0 {
                        let image = rng.choice(["MINIMAL", "NOBLOB", "FULL"]).unwrap();
                        session.sql(&format!("SET SESSION binlog_row_image = '{image}'")).unwrap();
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
        }
        for rows in [20, 150, 200] {
            let mut engine = rig.home.spawn(Some(&config), &["run"]).unwrap();
            let deadline = std::time::Instant::now() + PATIENCE / 2;
            while rig.row_count("up_ri_mix", "t") < rows {
                assert!(engine.try_wait().unwrap().is_none(), "it ended\n{}", engine.stderr());
                assert!(std::time::Instant::now() < deadline, "{}", engine.stderr());
                std::thread::sleep(Duration::from_millis(10));
            }
            std::thread::sleep(Duration::from_millis(300));
            engine.kill9().unwrap();
        }
    });
    run_well(&rig, &config);
    rig.assert_upsert_equal(&server.endpoint(), "ri_mix", &["t", "u"]);
}

#[test]
fn what_cannot_be_completed_stops_by_name() {
    // Its global settings change.
    let options = ServerOptions::new().flag("--binlog-row-image=MINIMAL");
    let Some(server) = server::or_skip(Server::start(options)) else { return };
    let server = &server;
    server.sql(
        "CREATE DATABASE ri_stop; USE ri_stop; CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL, j JSON);
         INSERT INTO t VALUES (1, 1, JSON_OBJECT('a', 1, 'pad', REPEAT('x', 500))), (2, 2, '{}')",
    );
    // Every change is to be kept: rows must be whole, and `check` says so.
    let mut rig = Rig::new(server, &["ri_stop.*"]);
    let output = rig.run();
    assert_eq!(output.exit.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("where every change is kept (ri_stop.t"), "{}", output.stderr);
    server.sql("SET GLOBAL binlog_row_image = 'FULL'");
    rig.run_well();
    server.sql("USE ri_stop; SET SESSION binlog_row_image = 'MINIMAL'; INSERT INTO t (id, v) VALUES (3, 3); DELETE FROM t WHERE id = 3");
    stops(&rig.run(), &["ri_stop.t", "binlog_row_image = FULL"]);
    server.sql("SET GLOBAL binlog_row_image = 'MINIMAL'");

    for (statement, words) in [
        ("UPDATE t SET id = 9 WHERE id = 1", &["ri_stop.t", "key was changed", "binlog_row_image = FULL"][..]),
        (
            "SET SESSION binlog_row_value_options = 'PARTIAL_JSON'; UPDATE t SET j = JSON_SET(j, '$.a', 2) WHERE id = 1",
            &["ri_stop.t", "difference", "before image does not have it", "binlog_row_value_options = ''"],
        ),
    ] {
        rig = Rig::new(server, &["ri_stop.*"]);
        let config = upsert(&rig);
        run_well(&rig, &config);
        server.sql(&format!("USE ri_stop; UPDATE t SET v = v + 1; {statement}"));
        stops(&run(&rig, &config), words);
        // What came before is delivered.
        let rows = rig.rows("up_ri_stop", "t");
        let seen = server.sql("SELECT v FROM ri_stop.t ORDER BY v");
        assert_eq!(rows.iter().map(|r| vec![r[1].clone().unwrap()]).collect::<Vec<_>>(), seen);
        server.sql("UPDATE ri_stop.t SET id = 1 WHERE id = 9");
    }
}

/// Updates of some columns that fill many loads of one transaction find their rows; behind inserts of the same transaction that
/// fill a load they cannot.
#[test]
fn large_transactions() {
    let Some(server) = server() else { return };
    server.sql("CREATE DATABASE ri_big; CREATE TABLE ri_big.t (id INT PRIMARY KEY, a VARCHAR(300) NOT NULL, b VARCHAR(300) NOT NULL)");
    let mut rig = Rig::new(server, &["ri_big.*"]);
    rig.flush = "{ interval = \"100ms\", bytes = \"64KiB\" }".to_owned();
    let config = upsert(&rig);
    let insert = |from: u32| {
        format!(
            "INSERT INTO t WITH RECURSIVE r(i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM r WHERE i < {from} + 999) \
             SELECT i, REPEAT('a', 200), REPEAT('b', 200) FROM r"
        )
    };
    server.sql(&format!("USE ri_big; {}", insert(0)));
    run_well(&rig, &config);
    server.sql(&format!(
        "USE ri_big; {}; BEGIN; UPDATE t SET a = REPEAT('c', 250); UPDATE t SET b = CONCAT(id, REPEAT('d', 200)); DELETE FROM t WHERE id % 10 = 0;
         UPDATE t SET a = 'e' WHERE id % 3 = 0; COMMIT",
        insert(5000)
    ));
    run_well(&rig, &config);
    rig.assert_upsert_equal(&server.endpoint(), "ri_big", &["t"]);
    server.sql(&format!(
        "USE ri_big; BEGIN; {}; UPDATE t SET a = 'f' WHERE id BETWEEN 20000 AND 20010; COMMIT",
        insert(20_000)
    ));
    stops(
        &run(&rig, &config),
        &["ri_big.t", "one transaction inserts rows and changes rows in part", "sink.flush.bytes"],
    );
}
