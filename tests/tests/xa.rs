//! XA transactions on a real server: rows appear at XA COMMIT, once, and never at XA PREPARE.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use millstream_tests::engine::Engine;
use millstream_tests::rig::{PATIENCE, Rig};
use millstream_tests::server::{self, Server};

/// What is prepared for one test is listed for all: they take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn server() -> Option<&'static Server> {
    let server = server::shared()?;
    server.sql("GRANT XA_RECOVER_ADMIN ON *.* TO repl@'%'");
    Some(server)
}

/// A database with `t (id, v)` of ten rows and an empty `other`.
fn tables(server: &Server, database: &str) {
    server.sql(&format!(
        "CREATE DATABASE {database}; USE {database}; CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL);
         INSERT INTO t VALUES (1,1),(2,2),(3,3),(4,4),(5,5),(6,6),(7,7),(8,8),(9,9),(10,10);
         CREATE TABLE other (id INT PRIMARY KEY, v INT NOT NULL)"
    ));
}

fn prepare(server: &Server, xid: &str, statements: &str) {
    server.sql(&format!("XA START {xid}; {statements}; XA END {xid}; XA PREPARE {xid}"));
}

/// The GTID of the newest transaction.
fn last_gtid(server: &Server) -> String {
    let set = server.value("SELECT REPLACE(@@GLOBAL.gtid_executed, '\\n', '')");
    let (uuid, numbers) = set.rsplit(',').next().unwrap().split_once(':').unwrap();
    format!("{uuid}:{}", numbers.rsplit(['-', ':']).next().unwrap())
}

/// Inserts a row into `other`, and waits until the target has it.
#[track_caller]
fn pass(rig: &Rig, server: &Server, engine: &mut Engine, database: &str, id: u32) {
    server.sql(&format!("INSERT INTO {database}.other VALUES ({id}, 0)"));
    wait_for(engine, "a row that came later", || {
        rig.rows(&format!("up_{database}"), "other").iter().any(|row| row[0].as_deref() == Some(&*id.to_string()))
    });
}

#[track_caller]
fn wait_for(engine: &mut Engine, what: &str, reached: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE / 2;
    while !reached() {
        assert!(engine.try_wait().unwrap().is_none(), "it ended before {what}\n{}", engine.stderr());
        assert!(Instant::now() < deadline, "no {what}\n{}", engine.stderr());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The `v` of a row of `t` in the upsert target.
fn value(rig: &Rig, database: &str, id: &str) -> Option<String> {
    let rows = rig.rows(&format!("up_{database}"), "t");
    rows.iter().find(|row| row[0].as_deref() == Some(id)).and_then(|row| row[1].clone())
}

#[track_caller]
fn ended(engine: &mut Engine) {
    engine.sigterm().unwrap();
    let exit = engine.wait(PATIENCE).unwrap().expect("an end");
    assert!(exit.success(), "{exit:?}\n{}", engine.stderr());
}

fn kept_files(rig: &Rig) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(rig.home.path().join("state")).unwrap();
    entries.map(|e| e.unwrap().path()).filter(|path| path.extension().is_some_and(|end| end == "rows")).collect()
}

fn report(stdout: &str) -> serde_json::Value {
    serde_json::from_str(stdout.lines().last().unwrap()).unwrap()
}

/// Conformance: E11
#[test]
fn rows_appear_at_the_commit_and_never_at_the_prepare() {
    let _turn = turn();
    let Some(server) = server() else { return };
    tables(server, "xa1");
    let rig = Rig::new(server, &["xa1.*"]);
    rig.run_well();
    let mut engine = rig.spawn();
    prepare(
        server,
        "'xa1', 'b', 7",
        "USE xa1; UPDATE t SET v = 100 WHERE id < 3; DELETE FROM t WHERE id = 3; INSERT INTO t VALUES (11, 11)",
    );
    prepare(server, "'xa1-gone'", "UPDATE xa1.t SET v = 200 WHERE id = 5");
    prepare(server, "'xa1-other'", "INSERT INTO mysql.help_keyword VALUES (65000, 'xa1')");
    server.sql("XA START 'one'; UPDATE xa1.t SET v = 300 WHERE id = 6; XA END 'one'; XA COMMIT 'one' ONE PHASE");
    let one = last_gtid(server);
    pass(&rig, server, &mut engine, "xa1", 1);
    assert_eq!(["1", "5", "6"].map(|id| value(&rig, "xa1", id).unwrap()), ["1", "5", "300"]);
    server.sql("XA COMMIT 'xa1', 'b', 7");
    let commit = last_gtid(server);
    server.sql("XA ROLLBACK 'xa1-gone'; XA ROLLBACK 'xa1-other'");
    pass(&rig, server, &mut engine, "xa1", 2);
    assert_eq!(["1", "5", "11"].map(|id| value(&rig, "xa1", id).unwrap()), ["100", "5", "11"]);
    ended(&mut engine);
    rig.run_well();
    rig.assert_exact(&server.endpoint(), "xa1", &["t", "other"]);

    // Every row is one of the transaction that commits.
    let (names, log) = rig.table("log_xa1", "t").unwrap();
    let at = |name: &str| names.iter().position(|n| n == name).unwrap();
    let (gtid, row) = (at("_ms_gtid"), at("_ms_row"));
    let mut of: Vec<(String, String)> =
        log.iter().filter_map(|r| Some((r[gtid].clone()?, r[row].clone().unwrap()))).collect();
    of.sort();
    let want = [(&commit, "0"), (&commit, "1"), (&commit, "2"), (&commit, "3"), (&one, "0")];
    let mut want: Vec<(String, String)> = want.iter().map(|(g, r)| ((*g).clone(), (*r).to_owned())).collect();
    want.sort();
    assert_eq!(of, want);
}

#[test]
fn an_engine_killed_between_prepare_and_commit_delivers_the_rows_once() {
    let _turn = turn();
    let Some(server) = server() else { return };
    tables(server, "xa2");
    let rig = Rig::new(server, &["xa2.*"]);
    rig.run_well();
    let mut engine = rig.spawn();
    prepare(server, "'xa2-a'", "UPDATE xa2.t SET v = v + 100 WHERE id <= 5; INSERT INTO xa2.other VALUES (900, 1)");
    prepare(server, "'xa2-b'", "INSERT INTO xa2.t VALUES (50, 50)");
    prepare(server, "'xa2-c'", "INSERT INTO xa2.t VALUES (60, 60)");
    // What came later is durable.
    pass(&rig, server, &mut engine, "xa2", 1);
    engine.kill9().unwrap();
    // Decided while it is away, in another file of the log.
    server.sql("FLUSH BINARY LOGS; XA COMMIT 'xa2-a'");
    let mut engine = rig.spawn();
    wait_for(&mut engine, "the rows", || value(&rig, "xa2", "1").as_deref() == Some("101"));
    pass(&rig, server, &mut engine, "xa2", 2);
    engine.kill9().unwrap();
    let mut engine = rig.spawn();
    // Decided while it runs.
    pass(&rig, server, &mut engine, "xa2", 3);
    server.sql("XA COMMIT 'xa2-b'");
    wait_for(&mut engine, "the row", || value(&rig, "xa2", "50").is_some());
    server.sql("XA ROLLBACK 'xa2-c'");
    pass(&rig, server, &mut engine, "xa2", 4);
    engine.kill9().unwrap();
    rig.run_well();
    rig.assert_exact(&server.endpoint(), "xa2", &["t", "other"]);
    // The logs that were needed are needed no more.
    assert!(rig.run_well().stderr.contains("running"));
}

#[test]
fn what_was_prepared_before_the_start_is_waited_for() {
    let _turn = turn();
    let Some(server) = server() else { return };
    tables(server, "xa3");
    prepare(server, "'xa3-commit'", "UPDATE xa3.t SET v = 100 WHERE id = 1");
    prepare(server, "'xa3-back'", "UPDATE xa3.t SET v = 200 WHERE id = 2");
    server.sql("SET sql_log_bin = 0; XA START 'xa3-no'; UPDATE xa3.t SET v = 0 WHERE id = 9; XA END 'xa3-no'; XA PREPARE 'xa3-no'");
    let rig = Rig::new(server, &["xa3.*"]);
    let mut engine = rig.spawn();
    engine.wait_for_log("that it waits", PATIENCE / 4, |log| log.contains("were prepared before this pipeline began"));
    server.sql("XA COMMIT 'xa3-commit'");
    prepare(server, "'xa3-later'", "UPDATE xa3.t SET v = 300 WHERE id = 3");
    // Known by nothing but its xid: a restart waits for it too.
    engine.kill9().unwrap();
    assert_eq!(rig.row_count("up_xa3", "t"), 0);
    let mut engine = rig.spawn();
    engine.wait_for_log("that it waits", PATIENCE / 4, |log| log.contains("were prepared before this pipeline began"));
    server.sql("XA ROLLBACK 'xa3-back'; XA ROLLBACK 'xa3-no'");
    engine.wait_for_log("the snapshot", PATIENCE / 4, |log| log.contains("every table is live"));
    wait_for(&mut engine, "its rows", || value(&rig, "xa3", "3").is_some());
    assert_eq!(value(&rig, "xa3", "3").as_deref(), Some("3"));
    server.sql("XA COMMIT 'xa3-later'");
    wait_for(&mut engine, "the row", || value(&rig, "xa3", "3").as_deref() == Some("300"));
    ended(&mut engine);
    rig.run_well();
    rig.assert_exact(&server.endpoint(), "xa3", &["t", "other"]);
}

#[test]
fn without_the_right_to_see_them_an_unseen_commit_stops_the_run_by_name() {
    let _turn = turn();
    let Some(server) = server() else { return };
    tables(server, "xa4");
    server.sql(
        "CREATE USER xa4@'%' IDENTIFIED BY 'xa4'; GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO xa4@'%'",
    );
    let mut rig = Rig::new(server, &["xa4.*"]);
    rig.source_url = format!("mysql://xa4:xa4@127.0.0.1:{}", server.port());
    prepare(server, "'xa4'", "UPDATE xa4.t SET v = 100 WHERE id = 1");
    let first = rig.run_well();
    let right = "GRANT XA_RECOVER_ADMIN ON *.* TO";
    assert!(first.stderr.contains(right), "{}", first.stderr);
    let check = rig.home.finish(Some(&rig.config()), &["check"], PATIENCE);
    assert!(check.stdout.contains(right) || check.stderr.contains(right), "{}{}", check.stdout, check.stderr);
    server.sql("INSERT INTO xa4.other VALUES (1, 1); XA COMMIT 'xa4'");
    let output = rig.run();
    assert_eq!(output.exit.code, 1, "{}", output.stderr);
    for words in ["XA COMMIT X'786134',X'',1", "XA PREPARE was not seen", "xa4.", right] {
        assert!(output.stderr.contains(words), "{words}: {}", output.stderr);
    }
    assert_eq!(rig.row_count("up_xa4", "other"), 1, "what came before it is delivered");

    // Without a snapshot there is nothing to wait for.
    let mut rig = Rig::new(server, &["xa4.*"]);
    rig.snapshot = "mode = \"never\"".to_owned();
    prepare(server, "'xa4-never'", "UPDATE xa4.t SET v = 200 WHERE id = 2");
    let output = rig.run();
    assert_eq!(output.exit.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("such as X'7861342d6e65766572',X'',1"), "{}", output.stderr);
    server.sql("XA ROLLBACK 'xa4-never'");
}

#[test]
fn a_restart_needs_the_log_from_the_oldest_prepare_on_and_old_ones_are_reported() {
    let _turn = turn();
    let Some(server) = server() else { return };
    tables(server, "xa5");
    let rig = Rig::new(server, &["xa5.*"]);
    rig.run_well();
    server.sql("FLUSH BINARY LOGS");
    prepare(server, "'xa5'", "SET timestamp = UNIX_TIMESTAMP() - 7200; UPDATE xa5.t SET v = 100 WHERE id = 1");
    let mut engine = rig.spawn();
    engine.wait_for_log("the report", PATIENCE / 4, |log| {
        log.contains("an XA transaction stays prepared") && log.contains("X'786135',X'',1")
    });
    pass(&rig, server, &mut engine, "xa5", 1);
    ended(&mut engine);
    server.sql("FLUSH BINARY LOGS; INSERT INTO xa5.other VALUES (2, 2)");
    let file = server.position().0;
    server.sql(&format!("PURGE BINARY LOGS TO '{file}'"));
    let output = rig.run();
    assert_eq!(output.exit.code, 1, "{}", output.stderr);
    let missing = "has purged binlogs with rows of XA transactions that were still prepared (missing transactions: ";
    assert!(output.stderr.contains(missing), "{}", output.stderr);
    server.sql("XA ROLLBACK 'xa5'");
}

#[test]
fn chunks_are_read_while_transactions_are_prepared_and_text_keys_are_weighed() {
    let _turn = turn();
    let Some(server) = server() else { return };
    server.sql(
        "CREATE DATABASE xa6; USE xa6;
         CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL);
         CREATE TABLE other (id INT PRIMARY KEY, v INT NOT NULL);
         CREATE TABLE words (k VARCHAR(40) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, v INT NOT NULL);
         SET cte_max_recursion_depth = 10000;
         INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) SELECT i, i FROM n;
         INSERT INTO words SELECT CONCAT(IF(id % 2, 'Ä', 'a'), id), id FROM t",
    );
    let mut rig = Rig::new(server, &["xa6.*"]);
    rig.snapshot = "chunk_rows = 40\nworkers = 2".to_owned();
    // Prepared before the start is waited for; everything below is prepared while chunks are read.
    let mut engine = rig.spawn();
    engine.wait_for_log("its start", PATIENCE / 4, |log| log.contains("running"));
    let mut rng = fastrand::Rng::with_seed(6);
    let mut undecided = Vec::new();
    for n in 0..60u32 {
        let (low, fresh) = ((n * 37) % 60 * 30 + 1, 10_000 + n);
        let xid = format!("'xa6-{n}'");
        server.sql(&format!(
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; USE xa6; XA START {xid};
             UPDATE t SET v = v + 1 WHERE id BETWEEN {low} AND {low} + 3; DELETE FROM t WHERE id = {low} + 4;
             INSERT INTO t VALUES ({fresh}, 0); UPDATE words SET v = v + 1, k = CONCAT(k, 'x') WHERE v BETWEEN {low} AND {low} + 1;
             INSERT INTO words VALUES ('ä-{fresh}', {fresh}); XA END {xid}; XA PREPARE {xid}"
        ));
        undecided.push(xid);
        while undecided.len() > rng.usize(0..4) {
            let xid = undecided.swap_remove(rng.usize(0..undecided.len()));
            let word = if rng.u8(0..3) == 0 { "ROLLBACK" } else { "COMMIT" };
            server.sql(&format!("XA {word} {xid}"));
        }
        if n == 30 {
            engine.kill9().unwrap();
            engine = rig.spawn();
        }
    }
    for xid in undecided {
        server.sql(&format!("XA COMMIT {xid}"));
    }
    pass(&rig, server, &mut engine, "xa6", 1);
    engine.kill9().unwrap();
    rig.run_well();
    rig.assert_exact(&server.endpoint(), "xa6", &["t", "words", "other"]);
}

#[test]
fn a_prepared_transaction_larger_than_its_share_of_memory_goes_to_a_file() {
    let _turn = turn();
    let Some(server) = server() else { return };
    server.sql(
        "CREATE DATABASE xa7; USE xa7; CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(2000));
         CREATE TABLE other (id INT PRIMARY KEY, v INT NOT NULL); INSERT INTO t VALUES (0, 'x')",
    );
    let mut rig = Rig::new(server, &["xa7.*"]);
    rig.top = "memory = \"32MiB\"".to_owned();
    rig.flush = "{ interval = \"200ms\", bytes = \"1MiB\" }".to_owned();
    rig.run_well();
    let mut engine = rig.spawn();
    prepare(
        server,
        "'xa7'",
        "SET cte_max_recursion_depth = 10000; INSERT INTO xa7.t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n \
         WHERE i < 4000) SELECT i, REPEAT('y', 1500) FROM n",
    );
    pass(&rig, server, &mut engine, "xa7", 1);
    assert_eq!(kept_files(&rig).len(), 1);
    engine.kill9().unwrap();
    assert_eq!(kept_files(&rig).len(), 1);
    let mut engine = rig.spawn();
    pass(&rig, server, &mut engine, "xa7", 2);
    assert_eq!(kept_files(&rig).len(), 1, "the old one is gone");
    server.sql("XA COMMIT 'xa7'");
    wait_for(&mut engine, "the rows", || rig.row_count("up_xa7", "t") == 4001);
    // They went out in several loads, and nothing is left.
    pass(&rig, server, &mut engine, "xa7", 3);
    assert_eq!(kept_files(&rig), Vec::<PathBuf>::new());
    ended(&mut engine);
    rig.run_well();
    rig.assert_exact(&server.endpoint(), "xa7", &["t", "other"]);
}

#[test]
fn a_table_that_is_added_waits_for_transactions_that_were_prepared_before_it() {
    let _turn = turn();
    let Some(server) = server() else { return };
    tables(server, "xa8");
    server
        .sql("CREATE TABLE xa8.late (id INT PRIMARY KEY, v INT NOT NULL); INSERT INTO xa8.late VALUES (1, 1), (2, 2)");
    let mut rig = Rig::new(server, &["xa8.t", "xa8.other"]);
    rig.run_well();
    prepare(server, "'xa8-late'", "UPDATE xa8.late SET v = 100 WHERE id = 1");
    prepare(server, "'xa8-both'", "UPDATE xa8.late SET v = 200 WHERE id = 2; UPDATE xa8.t SET v = 200 WHERE id = 2");
    server.sql("INSERT INTO xa8.other VALUES (1, 1)");
    let output = rig.run_well();
    assert!(report(&output.stdout)["skipped"]["xa_prepare"].as_u64() >= Some(2), "{}", output.stdout);
    rig.tables.push("xa8.late".to_owned());
    let mut engine = rig.spawn();
    pass(&rig, server, &mut engine, "xa8", 2);
    assert_eq!(rig.row_count("up_xa8", "late"), 0, "one may have rows of it that nobody kept");
    server.sql("XA COMMIT 'xa8-late'");
    pass(&rig, server, &mut engine, "xa8", 3);
    assert_eq!(rig.row_count("up_xa8", "late"), 0, "the other was prepared before the table was captured, too");
    server.sql("XA COMMIT 'xa8-both'");
    wait_for(&mut engine, "the snapshot", || rig.row_count("up_xa8", "late") == 2);
    wait_for(&mut engine, "the row", || value(&rig, "xa8", "2").as_deref() == Some("200"));
    ended(&mut engine);
    rig.run_well();
    rig.assert_exact(&server.endpoint(), "xa8", &["t", "other", "late"]);
}
