//! Where a run begins, where it ends, and what it leaves behind.

use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use millstream_tests::doris::{DorisSim, TxnState};
use millstream_tests::engine::{Engine, Output};
use millstream_tests::rig::{PATIENCE, Rig};
use millstream_tests::server::{self, Server};
use millstream_tests::workload::Workload;

/// What an idle source may cost, with room for a busy machine (the promise is 5 s).
const SOON: Duration = Duration::from_secs(15);

/// The counts that `--json` prints at the end.
fn report(output: &Output) -> serde_json::Value {
    let line = output.stdout.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line:?}\n{}", output.stderr))
}

fn run_until(rig: &Rig, until: &str) -> Output {
    let output = rig.home.finish(Some(&rig.config()), &["run", "--until", until, "--json"], PATIENCE);
    assert!(output.exit.success(), "{until}: {:?}\n{}", output.exit, output.stderr);
    output
}

/// (op, id, v) of an append table in the order of delivery.
fn log(sim: &DorisSim, database: &str, table: &str) -> Vec<(String, String, String)> {
    let schema = sim.schema(database, table).unwrap();
    let at = |name: &str| schema.columns.iter().position(|c| c.name == name).unwrap();
    let (seq, op, id, v) = (at("_ms_seq"), at("_ms_op"), at("id"), at("v"));
    let mut rows = sim.rows(database, table);
    rows.sort_by_key(|row| row[seq].as_deref().unwrap().parse::<i64>().unwrap());
    let text = |value: &Option<String>| value.clone().unwrap();
    rows.iter().map(|row| (text(&row[op]), text(&row[id]), text(&row[v]))).collect()
}

fn ops(log: &[(String, String, String)]) -> Vec<String> {
    log.iter().map(|(op, id, v)| format!("{op} {id} {v}")).collect()
}

fn table(server: &Server, database: &str) {
    server.sql(&format!(
        "CREATE DATABASE {database}; CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT NOT NULL);
         INSERT INTO {database}.t VALUES (1, 10), (2, 20)"
    ));
}

/// `FILE:POS` of the end of the log.
fn end_of_log(server: &Server) -> String {
    let status = server.sql("SHOW BINARY LOG STATUS");
    format!("{}:{}", status[0][0], status[0][1])
}

fn executed(server: &Server) -> String {
    server.value("SELECT REPLACE(@@GLOBAL.gtid_executed, '\\n', '')")
}

fn pending(sim: &DorisSim, database: &str) -> usize {
    let open = |db: String| {
        sim.transactions(&db)
            .iter()
            .filter(|t| matches!(t.state, TxnState::Prepare | TxnState::PreCommitted | TxnState::Committed))
            .count()
    };
    open(format!("up_{database}")) + open(format!("log_{database}"))
}

fn wait_for_rows(sim: &DorisSim, engine: &mut Engine, database: &str, table: &str, rows: u64) {
    let deadline = Instant::now() + PATIENCE / 4;
    while sim.row_count(database, table) < rows {
        assert!(engine.try_wait().unwrap().is_none(), "it ended\n{}", engine.stderr());
        assert!(Instant::now() < deadline, "{} rows\n{}", sim.row_count(database, table), engine.stderr());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn only_takes_the_rows_and_ends_and_a_later_run_goes_on_from_there() {
    let Some(server) = server::shared() else { return };
    table(server, "su_only");
    let Some(mut rig) = Rig::simulated(server, &["su_only.*"]) else { return };
    rig.snapshot = "mode = \"only\"".to_owned();
    let output = rig.home.finish(Some(&rig.config()), &["run", "--json"], PATIENCE);
    assert!(output.exit.success(), "{}", output.stderr);
    assert_eq!(report(&output)["snapshot_rows"], 2);
    assert_eq!(ops(&log(rig.sim(), "log_su_only", "t")), ["r 1 10", "r 2 20"]);
    server.sql("UPDATE su_only.t SET v = 11 WHERE id = 1; DELETE FROM su_only.t WHERE id = 2");
    rig.snapshot = String::new();
    rig.run_well();
    assert_eq!(ops(&log(rig.sim(), "log_su_only", "t")), ["r 1 10", "r 2 20", "u 1 11", "d 2 20"]);
    rig.assert_exact(&server.endpoint(), "su_only", &["t"]);
}

#[test]
fn never_begins_where_start_says() {
    let Some(server) = server::shared() else { return };
    server.sql("CREATE DATABASE su_never; CREATE TABLE su_never.t (id INT PRIMARY KEY, v INT NOT NULL)");
    server.sql("INSERT INTO su_never.t VALUES (1, 10), (2, 20)");
    let (set, position) = (executed(server), end_of_log(server));
    server.sql("UPDATE su_never.t SET v = 11 WHERE id = 1");
    let from = |start: &str| {
        let mut rig = Rig::simulated(server, &["su_never.t"])?;
        rig.snapshot = "mode = \"never\"".to_owned();
        // `start` belongs to [source], whose last line in the rig is `tables`.
        let config = rig.config().replace("[snapshot]", &format!("start = \"{start}\"\n[snapshot]"));
        Some((rig, config))
    };
    let all = ["c 1 10", "c 2 20", "u 1 11"];
    for (start, want) in [("current", &all[3..]), ("earliest", &all[..]), (&*set, &all[2..]), (&*position, &all[2..])] {
        let Some((rig, config)) = from(start) else { return };
        let output = rig.home.finish(Some(&config), &["run", "--until", "current", "--json"], PATIENCE);
        assert!(output.exit.success(), "{start}: {}", output.stderr);
        assert_eq!(ops(&log(rig.sim(), "log_su_never", "t")), want, "{start}");
        assert_eq!(report(&output)["snapshot_rows"], 0, "{start}");
    }
    // From now on: what happens while nobody looks is caught up, `start` is of the first run alone.
    let Some((rig, config)) = from("current") else { return };
    for (v, want) in [(12, &[][..]), (13, &["u 1 13"][..]), (14, &["u 1 13", "u 1 14"][..])] {
        server.sql(&format!("UPDATE su_never.t SET v = {v} WHERE id = 1"));
        let output = rig.home.finish(Some(&config), &["run", "--until", "current", "--json"], PATIENCE);
        assert!(output.exit.success(), "{}", output.stderr);
        assert_eq!(ops(&log(rig.sim(), "log_su_never", "t")), want);
    }
}

#[test]
fn a_start_that_the_log_does_not_have_is_refused() {
    let Some(server) = server::shared() else { return };
    table(server, "su_nowhere");
    for (start, want) in [("binlog.777777:4", "binlog.777777"), ("binlog.000001:99999999", "binlog.000001:99999999")] {
        let Some(mut rig) = Rig::simulated(server, &["su_nowhere.t"]) else { return };
        rig.snapshot = "mode = \"never\"".to_owned();
        let config = rig.config().replace("[snapshot]", &format!("start = \"{start}\"\n[snapshot]"));
        let output = rig.home.finish(Some(&config), &["run", "--until", "current"], PATIENCE);
        assert_eq!(output.exit.code, 2, "{start}: {}", output.stderr);
        assert!(output.stderr.contains("source.start") && output.stderr.contains(want), "{}", output.stderr);
    }
}

#[test]
fn until_ends_soon_on_an_idle_source() {
    // Of its own: on a shared one other tests write.
    let Some(server) = server::or_skip(Server::start(server::ServerOptions::new())) else { return };
    table(&server, "su_idle");
    let Some(rig) = Rig::simulated(&server, &["su_idle.*"]) else { return };
    run_until(&rig, "current");
    rig.assert_exact(&server.endpoint(), "su_idle", &["t"]);
    let (set, position) = (executed(&server), end_of_log(&server));
    for until in ["current", &set, &position] {
        let began = Instant::now();
        run_until(&rig, until);
        println!("until {until} on an idle source: {:?}", began.elapsed());
        assert!(began.elapsed() < SOON, "{until}: {:?}", began.elapsed());
    }
    // Just after a new file has begun, with nothing in it.
    server.sql("FLUSH BINARY LOGS");
    let began = Instant::now();
    run_until(&rig, &end_of_log(&server));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    // A new pipeline too: rows, then the end.
    server.sql("FLUSH BINARY LOGS");
    let Some(rig) = Rig::simulated(&server, &["su_idle.*"]) else { return };
    let began = Instant::now();
    run_until(&rig, "current");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    rig.assert_exact(&server.endpoint(), "su_idle", &["t"]);
}

#[test]
fn until_a_set_or_a_position_delivers_what_is_before_it() {
    let Some(server) = server::shared() else { return };
    table(server, "su_until");
    let Some(rig) = Rig::simulated(server, &["su_until.*"]) else { return };
    rig.run_well();
    server.sql("UPDATE su_until.t SET v = 11 WHERE id = 1");
    let set = executed(server);
    server.sql("UPDATE su_until.t SET v = 12 WHERE id = 1");
    let position = end_of_log(server);
    server.sql("UPDATE su_until.t SET v = 13 WHERE id = 1");
    run_until(&rig, &set);
    assert!(ops(&log(rig.sim(), "log_su_until", "t")).contains(&"u 1 11".to_owned()));
    run_until(&rig, &position);
    assert!(ops(&log(rig.sim(), "log_su_until", "t")).contains(&"u 1 12".to_owned()));
    rig.run_well();
    rig.assert_exact(&server.endpoint(), "su_until", &["t"]);
    // A set that the source has not reached: the run waits for it.
    let uuid = server.value("SELECT @@GLOBAL.server_uuid");
    let next: u64 = executed(server).rsplit(['-', ':']).next().unwrap().parse().unwrap();
    let until = format!("{uuid}:{}", next + 3);
    let mut engine = rig.home.spawn(Some(&rig.config()), &["run", "--until", &until]).unwrap();
    engine.wait_for_log("its start", PATIENCE / 4, |log| log.contains("running"));
    let mut v = 20;
    while engine.try_wait().unwrap().is_none() {
        server.sql(&format!("UPDATE su_until.t SET v = {v} WHERE id = 1"));
        v += 1;
        assert!(v < 2000, "{}", engine.stderr());
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = engine.finish(PATIENCE);
    assert!(output.exit.success(), "{}", output.stderr);
    rig.run_well();
    rig.assert_exact(&server.endpoint(), "su_until", &["t"]);
}

#[test]
fn sigterm_leaves_nothing_pending() {
    let Some(server) = server::shared() else { return };
    let endpoint = server.endpoint();
    let mut workload = Workload::new("su_term", 61, 2);
    workload.create(&endpoint).unwrap();
    workload.load(&endpoint, 6000, &AtomicU64::new(0)).unwrap();
    let Some(mut rig) = Rig::simulated(server, &["su_term.*"]) else { return };
    // Six hundred chunks one after the other: reading lasts far longer than a signal takes.
    rig.snapshot = "chunk_rows = 10\nworkers = 1".to_owned();
    let writers = workload.start(&endpoint, Some(150.0));
    let mut while_reading = 0;
    // Early, while rows are read, and late, while changes stream.
    for wait in [1, 500, 2000, 6000, 6200, 6400] {
        let mut engine = rig.spawn();
        // Before it has looked at everything a signal simply ends it.
        engine.wait_for_log("its start", PATIENCE / 4, |log| log.contains("running"));
        let rows = |rig: &Rig| Workload::TABLES.iter().map(|t| rig.sim().row_count("log_su_term", t)).sum::<u64>();
        let deadline = Instant::now() + PATIENCE / 4;
        while rows(&rig) < wait {
            assert!(Instant::now() < deadline, "{} rows\n{}", rows(&rig), engine.stderr());
            std::thread::sleep(Duration::from_millis(5));
        }
        engine.sigterm().unwrap();
        let output = engine.finish(PATIENCE);
        assert_eq!(output.exit.code, 0, "{}", output.stderr);
        assert_eq!(pending(rig.sim(), "su_term"), 0);
        while_reading += u32::from(rows(&rig) < 6000);
    }
    assert!(while_reading > 0, "every SIGTERM came after the snapshot");
    writers.stop();
    rig.run_well();
    rig.assert_exact(&endpoint, "su_term", &Workload::TABLES);
    assert_eq!(pending(rig.sim(), "su_term"), 0);
}

#[test]
fn a_table_added_to_the_configuration_gets_its_rows_at_the_restart() {
    let Some(server) = server::shared() else { return };
    table(server, "su_add");
    server.sql(
        "CREATE TABLE su_add.late (id INT PRIMARY KEY, v INT NOT NULL); INSERT INTO su_add.late VALUES (7, 70), (8, 80)",
    );
    let Some(mut rig) = Rig::simulated(server, &["su_add.t"]) else { return };
    rig.run_well();
    assert!(rig.sim().schema("up_su_add", "late").is_none());
    server.sql("UPDATE su_add.t SET v = v + 1; UPDATE su_add.late SET v = 71 WHERE id = 7");
    rig.tables = vec!["su_add.t".to_owned(), "su_add.late".to_owned()];
    let output = rig.run_well();
    assert_eq!(report(&output)["snapshot_rows"], 2, "the old table is not read again");
    rig.assert_exact(&server.endpoint(), "su_add", &["t", "late"]);
    server.sql("DELETE FROM su_add.late WHERE id = 8; INSERT INTO su_add.t VALUES (3, 30)");
    rig.run_well();
    rig.assert_exact(&server.endpoint(), "su_add", &["t", "late"]);
}

#[test]
fn rows_of_a_table_that_appears_are_skipped_by_name_until_it_is_added() {
    let Some(server) = server::shared() else { return };
    table(server, "su_new");
    let Some(rig) = Rig::simulated(server, &["su_new.*"]) else { return };
    let mut engine = rig.home.spawn(Some(&rig.config()), &["run", "--json"]).unwrap();
    wait_for_rows(rig.sim(), &mut engine, "log_su_new", "t", 2);
    server.sql(
        "CREATE TABLE su_new.born (id INT NOT NULL, v FLOAT PRIMARY KEY); INSERT INTO su_new.born VALUES (1, 1), (2, 2);
         UPDATE su_new.born SET id = id + 10; INSERT INTO su_new.t VALUES (3, 30)",
    );
    wait_for_rows(rig.sim(), &mut engine, "log_su_new", "t", 3);
    engine.wait_for_log("a warning", PATIENCE, |log| log.contains("cannot be captured"));
    server.sql("ALTER TABLE su_new.born DROP PRIMARY KEY, ADD PRIMARY KEY (id)");
    wait_for_rows(rig.sim(), &mut engine, "log_su_new", "born", 2);
    engine.sigterm().unwrap();
    let output = engine.finish(PATIENCE);
    assert!(output.exit.success(), "{}", output.stderr);
    let report = report(&output);
    let skipped = report["skipped"]["table_appeared_later"].as_u64();
    assert_eq!(skipped, Some(2), "{}", output.stdout);
    assert_eq!(report["tables_refused"], 1, "{report}");
    rig.run_well();
    rig.assert_exact(&server.endpoint(), "su_new", &["t", "born"]);
}
