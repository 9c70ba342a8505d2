//! What the sink does with tables that Doris will not fill, and with secrets, end to end.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use millstream_tests::doris::{Fault, Knob, LostAt, Op, TxnState};
use millstream_tests::engine::{Home, Output};
use millstream_tests::rig::{PATIENCE, Rig};
use millstream_tests::server;
use millstream_tests::workload::Workload;

/// The targets that the last line of `run --json` calls quarantined, each with its reason.
fn quarantined(output: &Output) -> Vec<(String, String)> {
    let report: serde_json::Value = serde_json::from_str(output.stdout.lines().last().unwrap_or_default())
        .unwrap_or_else(|e| panic!("{e}: {}\n{}", output.stdout, output.stderr));
    let text = |v: &serde_json::Value| v.as_str().unwrap().to_owned();
    let mut all: Vec<_> =
        report["quarantined"].as_array().unwrap().iter().map(|q| (text(&q["target"]), text(&q["reason"]))).collect();
    all.sort();
    all
}

fn assert_nothing_pending(rig: &Rig, databases: &[&str]) {
    for database in databases {
        let open: Vec<_> = rig
            .sim()
            .transactions(database)
            .into_iter()
            .filter(|t| matches!(t.state, TxnState::Prepare | TxnState::PreCommitted))
            .collect();
        assert!(open.is_empty(), "{database}: {open:?}");
    }
}

/// A dropped table, rows that Doris filters, a column that is gone, a value that no date can be: each is left out by name,
/// stays so over restarts, and the others are exact all the time.
#[test]
fn a_poisoned_table_is_left_out_and_the_others_go_on() {
    let Some(server) = server::shared() else { return };
    let endpoint = server.endpoint();
    server.sql(
        "CREATE DATABASE sf_q;
         CREATE TABLE sf_q.dropped (id INT PRIMARY KEY, v VARCHAR(20));
         CREATE TABLE sf_q.filtered (id INT PRIMARY KEY, v VARCHAR(20));
         CREATE TABLE sf_q.altered (id INT PRIMARY KEY, v VARCHAR(20));
         CREATE TABLE sf_q.dates (id INT PRIMARY KEY, v DATE);
         CREATE TABLE sf_q.fine (id INT PRIMARY KEY, v VARCHAR(20));",
    );
    let all = ["dropped", "filtered", "altered", "dates", "fine"];
    let fill = |from: i32| {
        for table in all {
            let value = if table == "dates" { "'2024-01-01'" } else { "'x'" };
            let rows: Vec<String> = (from..from + 50).map(|id| format!("({id}, {value})")).collect();
            server.sql(&format!("INSERT INTO sf_q.{table} VALUES {}", rows.join(", ")));
        }
    };
    fill(0);
    let Some(rig) = Rig::simulated(server, &["sf_q.*"]) else { return };
    rig.run_well();
    rig.assert_exact(&endpoint, "sf_q", &all);

    // While it is away a table is dropped; another one refuses rows; a value comes that cannot be stored.
    let sim = rig.sim();
    sim.sql("DROP TABLE up_sf_q.dropped").unwrap();
    sim.set(Knob::always(Fault::FilterRows { rows: 1 }).table("log_sf_q.filtered"));
    fill(100);
    server.sql("SET sql_mode = ''; INSERT INTO sf_q.dates VALUES (777, '0000-00-00')");
    fill(200);
    let output = rig.run();
    assert_eq!(output.exit.code, 1, "{}", output.stderr);
    let out = quarantined(&output);
    let names: Vec<&str> = out.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["log_sf_q.dates", "log_sf_q.filtered", "up_sf_q.dates", "up_sf_q.dropped"]);
    for (word, (name, reason)) in ["id=777", "Reason", "id=777", "gone from Doris"].iter().zip(&out) {
        assert!(reason.contains(word), "{name}: {reason}");
        assert!(output.stderr.contains("quarantined") && output.stderr.contains(name), "{}", output.stderr);
    }
    assert_nothing_pending(&rig, &["up_sf_q", "log_sf_q"]);
    rig.assert_exact(&endpoint, "sf_q", &["altered", "fine"]);
    rig.assert_upsert_equal(&endpoint, "sf_q", &["filtered"]);
    assert_eq!(rig.append_faults(&endpoint, "sf_q", "dropped"), Vec::<String>::new());
    // What is left out stays as it was: at a place that was committed.
    assert_eq!(rig.row_count("log_sf_q", "filtered"), 50);
    assert_eq!(rig.row_count("up_sf_q", "dates"), 50);

    // The cause is gone, the quarantine is not; its source table may do what it likes; a table is altered under a run.
    sim.clear_knobs();
    server.sql("ALTER TABLE sf_q.dates ADD COLUMN w INT");
    let mut engine = rig.spawn();
    sim.sql("DROP TABLE up_sf_q.altered").unwrap();
    sim.sql(
        "CREATE TABLE up_sf_q.altered (id INT NOT NULL, w VARCHAR(80)) UNIQUE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 1 \
         PROPERTIES(\"replication_num\" = \"1\", \"enable_unique_key_merge_on_write\" = \"true\", \
         \"function_column.sequence_type\" = \"bigint\")",
    )
    .unwrap();
    server.sql("INSERT INTO sf_q.altered VALUES (300, 'y'); INSERT INTO sf_q.filtered VALUES (300, 'y')");
    server.sql("INSERT INTO sf_q.dates VALUES (300, NULL, 1)");
    let deadline = std::time::Instant::now() + PATIENCE / 2;
    while !engine.stderr().contains("up_sf_q.altered") || rig.row_count("log_sf_q", "altered") < 151 {
        assert!(std::time::Instant::now() < deadline, "{}", engine.stderr());
        assert!(engine.try_wait().unwrap().is_none(), "it ended\n{}", engine.stderr());
        std::thread::sleep(Duration::from_millis(10));
    }
    engine.kill9().unwrap();
    let output = rig.run();
    assert_eq!((output.exit.code, quarantined(&output).len()), (1, 5), "{}", output.stderr);
    rig.assert_exact(&endpoint, "sf_q", &["fine"]);
    rig.assert_upsert_equal(&endpoint, "sf_q", &["filtered"]);
    assert_eq!(rig.append_faults(&endpoint, "sf_q", "altered"), Vec::<String>::new());
    assert_eq!(rig.row_count("log_sf_q", "filtered"), 50);
    assert_nothing_pending(&rig, &["up_sf_q", "log_sf_q"]);
}

/// With `on_poison = "stop"` nothing is left out: the run ends, and goes on when the cause is gone.
#[test]
fn a_poisoned_table_stops_the_run_where_that_is_asked_for() {
    let Some(server) = server::shared() else { return };
    let endpoint = server.endpoint();
    server.sql(
        "CREATE DATABASE sf_s; CREATE TABLE sf_s.a (id INT PRIMARY KEY); CREATE TABLE sf_s.b (id INT PRIMARY KEY);
         INSERT INTO sf_s.a VALUES (1); INSERT INTO sf_s.b VALUES (1)",
    );
    let Some(mut rig) = Rig::simulated(server, &["sf_s.*"]) else { return };
    rig.sink = "on_poison = \"stop\"".to_owned();
    rig.sim().set(Knob::always(Fault::FilterRows { rows: 1 }).table("up_sf_s.a"));
    let output = rig.run();
    assert_eq!(output.exit.code, 1, "{}", output.stderr);
    assert!(output.stderr.contains("up_sf_s.a") && output.stderr.contains("Reason"), "{}", output.stderr);
    rig.sim().clear_knobs();
    rig.run_well();
    rig.assert_exact(&endpoint, "sf_s", &["a", "b"]);
    assert_nothing_pending(&rig, &["up_sf_s", "log_sf_s"]);
}

/// The password is in no output at any level, whatever goes wrong, and in no list of processes.
#[test]
fn the_password_is_nowhere_at_any_level() {
    let Some(server) = server::shared() else { return };
    server.sql("CREATE DATABASE sf_p; CREATE TABLE sf_p.t (id INT PRIMARY KEY); INSERT INTO sf_p.t VALUES (1), (2)");
    let Some(mut rig) = Rig::simulated(server, &["sf_p.*"]) else { return };
    let home = || Home::new().unwrap().env("RUST_LOG", "trace");
    let right = rig.cluster.password.clone();
    let wrong = "w:@%/rong-geheim".to_owned();
    let source = rig.source_url.split("//").nth(1).and_then(|s| s.split('@').next()).unwrap().to_owned();
    let source = source.split_once(':').map(|(_, password)| password.to_owned()).filter(|p| !p.is_empty());
    let secrets = |passwords: &[&str]| -> Vec<String> {
        use base64::Engine as _;
        let mut all: Vec<String> = source.iter().cloned().collect();
        for password in passwords {
            all.push((*password).to_owned());
            all.push(base64::engine::general_purpose::STANDARD.encode(format!("root:{password}")));
            all.push(percent_encoding::utf8_percent_encode(password, percent_encoding::NON_ALPHANUMERIC).to_string());
        }
        all
    };
    let userinfo = "root:sim%3A%40%25%2F%C3%A9%20pass";
    let all = secrets(&[&right, &wrong]);
    let clean = |what: &str, output: &Output| {
        for secret in all.iter().map(String::as_str).chain([userinfo, "sim:@", "rong-geheim"]) {
            for (name, text) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
                let at = text.find(secret);
                assert!(
                    at.is_none(),
                    "{what}: {secret:?} in {name}: {:?}",
                    at.map(|at| text.get(at.saturating_sub(200)..at))
                );
            }
        }
    };
    // All is well, with every redirect carrying the credentials, a reply that is lost, and a load that fails.
    rig.home = home();
    rig.sim().set(
        Knob::always(Fault::RedirectForm { userinfo: Some(userinfo.to_owned()), trailing_question: true, host: None })
            .times(3),
    );
    rig.sim().set(Knob::once(Fault::Cut { at: 3 }));
    let output = rig.run_well();
    assert!(output.stderr.contains("TRACE"), "the lowest level is on");
    clean("a run", &output);
    let output = rig.home.finish(Some(&rig.config()), &["check"], PATIENCE);
    clean("check", &output);
    // The list of processes.
    let mut engine = rig.spawn();
    let shown = std::fs::read(format!("/proc/{}/cmdline", engine.pid())).unwrap();
    let shown = String::from_utf8_lossy(&shown).into_owned();
    assert!(shown.contains("run") && all.iter().all(|secret| !shown.contains(secret.as_str())), "{shown}");
    engine.sigterm().unwrap();
    clean("a stopped run", &engine.finish(PATIENCE));
    // Doris refuses the login; then everything is misconfigured.
    let config = rig.config();
    for (what, from, to) in [
        ("a wrong password", right.as_str(), wrong.as_str()),
        ("TLS to a plain port", "fe = [\"http:", "fe = [\"https:"),
        ("a password in fe", "fe = [\"http://", &format!("fe = [\"http://root:{right}@")),
        ("a syntax error", "password = \"", "password = = \""),
        ("a source that refuses", "[source]\nurl = \"mysql://", "[source]\nurl = \"mysql://nobody-"),
    ] {
        assert!(config.contains(from), "{what}");
        let output =
            home().finish(Some(&config.replacen(from, to, 1)), &["run", "--until", "current", "--json"], PATIENCE);
        assert_eq!(output.exit.code, 2, "{what}: {}", output.stderr);
        clean(what, &output);
    }
}

/// A table with too many versions is loaded later, one whose loads have too many segments in halves; both arrive.
#[test]
fn versions_are_waited_for_and_segments_halved() {
    let Some(server) = server::shared() else { return };
    let endpoint = server.endpoint();
    server.sql(
        "CREATE DATABASE sf_v; CREATE TABLE sf_v.wide (id INT PRIMARY KEY, v VARCHAR(600));
         CREATE TABLE sf_v.other (id INT PRIMARY KEY);
         INSERT INTO sf_v.wide WITH RECURSIVE r(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM r WHERE n < 599)
         SELECT n, REPEAT('v', 500) FROM r; INSERT INTO sf_v.other VALUES (1), (2)",
    );
    let Some(mut rig) = Rig::simulated(server, &["sf_v.*"]) else { return };
    rig.snapshot = "chunk_rows = 50".to_owned();
    let sim = rig.sim();
    sim.set(Knob::always(Fault::TabletError { err: -238, above_rows: 200 }).table("up_sf_v.wide"));
    sim.set(Knob::once(Fault::TabletError { err: -235, above_rows: 0 }).table("log_sf_v.other"));
    let output = rig.run_well();
    assert!(output.stderr.contains("sending loads of at most"), "{}", output.stderr);
    rig.assert_exact(&endpoint, "sf_v", &["wide", "other"]);
    // By the stream too: one transaction that is more than such a load takes.
    server.sql("UPDATE sf_v.wide SET v = REPEAT('w', 500)");
    rig.run_well();
    rig.assert_exact(&endpoint, "sf_v", &["wide", "other"]);
    assert_nothing_pending(&rig, &["up_sf_v", "log_sf_v"]);
}

fn killed_again_and_again(rig: &Rig, seed: u64, times: usize) {
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..times {
        let mut engine = rig.spawn();
        std::thread::sleep(Duration::from_millis(rng.u64(200..900)));
        engine.kill9().unwrap();
    }
}

/// A cluster that has no two-phase commit for upsert tables: said by name, and with `delivery = "label"` every change is
/// there once, whatever is killed or lost.
#[test]
fn delivery_by_label_is_exact_where_two_phases_are_refused() {
    let Some(server) = server::shared() else { return };
    let endpoint = server.endpoint();
    let mut workload = Workload::new("sf_l", 21, 2);
    workload.create(&endpoint).unwrap();
    workload.load(&endpoint, 1000, &AtomicU64::new(0)).unwrap();
    let Some(mut rig) = Rig::simulated(server, &["sf_l.*"]) else { return };
    rig.sim().set(Knob::always(Fault::Cloud));
    let output = rig.run();
    assert_eq!(output.exit.code, 1, "{}", output.stderr);
    assert!(output.stderr.contains("delivery = \"label\""), "{}", output.stderr);
    rig.sink = "delivery = \"label\"".to_owned();
    let writers = workload.start(&endpoint, Some(100.0));
    for state in [LostAt::Prepare, LostAt::Committed, LostAt::Visible] {
        rig.sim().set(Knob::always(Fault::ReplyLost { op: Op::Load, state }).times(4));
    }
    rig.sim().set(Knob::always(Fault::FalseFail { op: Op::Load }).times(4));
    killed_again_and_again(&rig, 5, 5);
    writers.stop();
    let output = rig.run_well();
    assert!(output.stderr.contains("every load once") && !output.stderr.contains("exactly once"), "{}", output.stderr);
    rig.assert_exact(&endpoint, "sf_l", &Workload::TABLES);
    assert_nothing_pending(&rig, &["up_sf_l", "log_sf_l"]);
    let kept = std::fs::read_dir(rig.home.path().join("state/loads")).map_or(0, Iterator::count);
    assert_eq!(kept, 0, "what was written ahead is forgotten when it is in");
}

/// At least once says so, refuses append targets that nobody allowed, and its upsert tables equal the source all the same.
#[test]
fn delivery_at_least_once_ends_equal() {
    let Some(server) = server::shared() else { return };
    let endpoint = server.endpoint();
    let mut workload = Workload::new("sf_a", 22, 2);
    workload.create(&endpoint).unwrap();
    workload.load(&endpoint, 1000, &AtomicU64::new(0)).unwrap();
    let Some(mut rig) = Rig::simulated(server, &["sf_a.*"]) else { return };
    rig.sink = "delivery = \"at-least-once\"".to_owned();
    let output = rig.run();
    assert_eq!(output.exit.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("allow_duplicates"), "{}", output.stderr);
    rig.sink.push_str("\nallow_duplicates = true");
    let writers = workload.start(&endpoint, Some(100.0));
    killed_again_and_again(&rig, 6, 4);
    writers.stop();
    let output = rig.run_well();
    assert!(output.stderr.contains("at least once") && !output.stderr.contains("exactly once"), "{}", output.stderr);
    rig.assert_upsert_equal(&endpoint, "sf_a", &Workload::TABLES);
}
