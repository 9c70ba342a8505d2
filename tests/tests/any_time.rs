//! What may change while a pipeline lives: its tables, how they are read, and how fast.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use millstream_tests::doris::{Fault, Knob};
use millstream_tests::engine::{Engine, Output};
use millstream_tests::rig::{PATIENCE, Rig};
use millstream_tests::server;
use millstream_tests::workload::Workload;

/// Runs another command of the pipeline. An engine that starts may be reading the configuration: it is not written again.
fn command(rig: &Rig, args: &[&str]) -> Output {
    if !rig.home.path().join("millstream.toml").exists() {
        return rig.home.finish(Some(&rig.config()), args, PATIENCE);
    }
    let (first, rest) = args.split_at(1);
    rig.home.finish(None, &[first, &["-c", "millstream.toml"], rest].concat(), PATIENCE)
}

/// Runs another command, which must do well; what it prints.
#[track_caller]
fn done(rig: &Rig, args: &[&str]) -> String {
    let output = command(rig, args);
    assert!(output.exit.success(), "{args:?}: {}", output.stderr);
    output.stdout
}

/// What `millstream status` says of each table.
#[track_caller]
fn states(rig: &Rig) -> BTreeMap<String, String> {
    let status: serde_json::Value = serde_json::from_str(&done(rig, &["status", "--json"])).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    status["tables"].as_array().unwrap().iter().map(|t| (text(&t["table"]), text(&t["state"]))).collect()
}

/// Waits until `reached`, while the engine runs.
#[track_caller]
fn wait(what: &str, engine: &mut Engine, mut reached: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE / 2;
    while !reached() {
        assert!(engine.try_wait().unwrap().is_none(), "it ended before {what}\n{}", engine.stderr());
        assert!(Instant::now() < deadline, "no {what}\n{}", engine.stderr());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[track_caller]
fn stop(mut engine: Engine) -> String {
    engine.sigterm().unwrap();
    let output = engine.finish(PATIENCE);
    assert!(output.exit.success(), "{}", output.stderr);
    output.stderr
}

fn texts(rows: &[&[&str]]) -> Vec<Vec<Option<String>>> {
    rows.iter().map(|row| row.iter().map(|text| Some((*text).to_owned())).collect()).collect()
}

/// Some columns of a target's rows, in order.
fn shown(rig: &Rig, database: &str, table: &str, columns: &[&str]) -> Vec<Vec<Option<String>>> {
    let (names, rows) = rig.table(database, table).unwrap();
    let at: Vec<usize> = columns.iter().map(|c| names.iter().position(|n| n == c).unwrap()).collect();
    let mut rows: Vec<Vec<_>> = rows.iter().map(|row| at.iter().map(|i| row[*i].clone()).collect()).collect();
    rows.sort();
    rows
}

#[test]
fn what_a_table_section_says_holds_for_snapshot_stream_and_target() {
    let Some(server) = server::shared() else { return };
    server.sql(
        "CREATE DATABASE any1; USE any1;
         CREATE TABLE part (id INT PRIMARY KEY, secret VARCHAR(20) NOT NULL, kept INT, pad BLOB);
         INSERT INTO part VALUES (1,'x',1,'p'),(2,'x',2,'p'),(3,'x',3,'p'),(4,'x',4,'p');
         CREATE TABLE keyed (id INT PRIMARY KEY, code INT NOT NULL, lang CHAR(2) NOT NULL, UNIQUE KEY other (lang, code));
         INSERT INTO keyed VALUES (1, 7, 'de'), (2, 7, 'en')",
    );
    let mut rig = Rig::new(server, &["any1.*"]);
    rig.top = "[[table]]\nmatch = \"any1.part\"\nwhere = \"kept % 2 = 0 OR kept = 3 -- odd ones\"\nexclude = [\"Secret\", \"pad\"]\n\
               [[table]]\nmatch = \"any1.keyed\"\nkey = [\"code\", \"lang\"]"
        .to_owned();
    rig.run_well();
    assert_eq!(shown(&rig, "up_any1", "part", &["id", "kept"]), texts(&[&["2", "2"], &["3", "3"], &["4", "4"]]));
    let names = rig.table("log_any1", "part").unwrap().0;
    assert!(!names.iter().any(|n| n == "secret" || n == "pad"), "{names:?}");
    // Rows are one by their unique key, and the condition is of the snapshot alone.
    server.sql("UPDATE any1.keyed SET id = 9 WHERE id = 1; UPDATE any1.part SET kept = 11, secret = 'y' WHERE id < 3");
    rig.run_well();
    assert_eq!(
        shown(&rig, "up_any1", "part", &["id", "kept"]),
        texts(&[&["1", "11"], &["2", "11"], &["3", "3"], &["4", "4"]])
    );
    assert_eq!(
        shown(&rig, "up_any1", "keyed", &["lang", "code", "id"]),
        texts(&[&["de", "7", "9"], &["en", "7", "2"]])
    );
    assert_eq!(shown(&rig, "log_any1", "keyed", &["id", "_ms_op"])[2], [Some("9".to_owned()), Some("u".to_owned())]);

    // What cannot be is refused by name, before anything else happens.
    let good = rig.top.clone();
    for (from, to, want) in [
        ("\"Secret\"", "\"id\"", "the key column \"id\" cannot be excluded"),
        ("\"Secret\"", "\"secrets\"", "has no column \"secrets\""),
        ("\"code\", \"lang\"", "\"code\"", "is neither the primary key nor a unique index"),
        ("\"code\", \"lang\"", "\"id\"", "was captured with the key (lang, code), and [[table]] asks for (id)"),
        ("kept % 2", "kapt % 2", "where: the source refuses the condition"),
    ] {
        assert!(good.contains(from), "{from}");
        rig.top = good.replacen(from, to, 1);
        let output = rig.run();
        assert_eq!(output.exit.code, 2, "{to}: {}", output.stderr);
        assert!(output.stderr.contains(want), "{want}: {}", output.stderr);
    }
    rig.top = good.clone();
    rig.run_well();
    // A target that lacks a column which is not excluded any more is left out, the others go on.
    rig.top = good.replacen(", \"pad\"", "", 1);
    let output = rig.run();
    assert!(output.exit.code == 1 && output.stderr.contains("column `pad`"), "{}", output.stderr);
}

#[test]
fn the_speed_of_a_snapshot_changes_while_it_runs_and_status_follows() {
    let Some(server) = server::shared() else { return };
    let endpoint = server.endpoint();
    server.sql(
        "CREATE DATABASE any2; USE any2; CREATE TABLE t (id INT PRIMARY KEY);
         INSERT INTO t WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 300) SELECT id FROM n",
    );
    let mut rig = Rig::new(server, &["any2.*"]);
    rig.snapshot = "chunk_rows = 100\nrows_per_second = 1\nworkers = 1".to_owned();
    let output = command(&rig, &["status"]);
    assert!(output.exit.code == 2 && output.stderr.contains("has not run yet"), "{}", output.stderr);
    let mut engine = rig.spawn();
    // At a row in a second this would take minutes.
    wait("a row", &mut engine, || rig.row_count("log_any2", "t") > 0);
    assert_eq!(states(&rig)["any2.t"], "snapshot");
    let output = command(&rig, &["set", "workers=2", "rows_per_second=7"]);
    assert!(output.stdout.contains("2 reader(s), 7 rows in a second"), "{}{}", output.stdout, output.stderr);
    let text = done(&rig, &["status"]);
    assert!(text.contains("pipeline rig: running") && text.contains("readers  2, rows in a second: 7"), "{text}");
    done(&rig, &["set", "rows_per_second=0"]);
    wait("a live table", &mut engine, || states(&rig)["any2.t"] == "live");
    stop(engine);
    rig.assert_exact(&endpoint, "any2", &["t"]);
    let text = done(&rig, &["status"]);
    assert!(text.contains("no engine runs") && text.contains("any2.t  live"), "{text}");
    let output = command(&rig, &["set", "workers=1"]);
    assert!(output.exit.code == 2 && output.stderr.contains("no engine runs"), "{}", output.stderr);
}

#[test]
fn tables_are_read_again_beside_the_stream_and_after_it() {
    let Some(server) = server::shared() else { return };
    let endpoint = server.endpoint();
    let mut workload = Workload::new("any3", 17, 2);
    workload.create(&endpoint).unwrap();
    workload.load(&endpoint, 1500, &AtomicU64::new(0)).unwrap();
    let mut rig = Rig::new(server, &["any3.*"]);
    rig.snapshot = "chunk_rows = 50\nworkers = 2".to_owned();
    // Both targets of this one are upsert tables; rows are missing, as if they had been lost.
    let upsert = "[[table]]\nmatch = \"any3.orders\"\nmode = \"upsert\"".to_owned();
    rig.top = format!("{upsert}\nwhere = \"id % 3 = 0\"");
    rig.run_well();
    assert!(!rig.upsert_differences(&endpoint, "any3", "orders").is_empty());
    rig.top = upsert;
    let writers = workload.start(&endpoint, Some(100.0));
    let mut engine = rig.spawn();
    wait("an engine", &mut engine, || command(&rig, &["status"]).stdout.contains("running"));
    for (args, want) in [
        (&["resync", "any3.orders", "any3.stock"][..], "any3.stock: its append target log_any3.stock"),
        (&["resync", "any3.order"], "any3.order is not captured; captured are: any3.events, any3.orders, any3.stock"),
    ] {
        let output = command(&rig, args);
        assert!(output.exit.code == 2 && output.stderr.contains(want), "{}", output.stderr);
    }
    for _ in 0..3 {
        done(&rig, &["resync", "any3.orders"]);
        done(&rig, &["resync", "--truncate", "any3.stock"]);
        wait("live tables", &mut engine, || states(&rig).values().all(|state| state == "live"));
    }
    writers.stop().0.run(&endpoint, 20).unwrap();
    stop(engine);
    // Without an engine the request is kept.
    let text = done(&rig, &["resync", "--truncate", "any3.events"]);
    assert!(text.contains("when an engine starts"), "{text}");
    assert_eq!(states(&rig)["any3.events"], "requested");
    let output = rig.run_well();
    assert!(output.stderr.contains("emptied") && !output.stderr.contains("ERROR"), "{}", output.stderr);
    rig.assert_upsert_equal(&endpoint, "any3", &Workload::TABLES);
    rig.assert_exact(&endpoint, "any3", &["stock", "events"]);
}

#[test]
fn tables_come_and_go_without_a_restart_of_the_stream() {
    let Some(server) = server::shared() else { return };
    let endpoint = server.endpoint();
    server
        .sql("CREATE DATABASE any4; USE any4; CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1)");
    let mut rig = Rig::new(server, &["any4.*", "!any4.tmp_*"]);
    rig.run_well();
    let mut engine = rig.spawn();
    wait("an engine", &mut engine, || command(&rig, &["status"]).stdout.contains("running"));
    // It sees all of this at once: a table that is altered or dropped after it was added stops the run.
    engine.signal("STOP").unwrap();
    server.sql(
        "USE any4;
         CREATE TABLE plain (id INT PRIMARY KEY, v INT); INSERT INTO plain VALUES (1, 1), (2, 2);
         ALTER TABLE plain ADD COLUMN w VARCHAR(9); UPDATE plain SET w = 'x' WHERE id = 1; DELETE FROM plain WHERE id = 2;
         CREATE TABLE likened LIKE t; INSERT INTO likened SELECT * FROM t;
         CREATE TABLE selected (PRIMARY KEY (id)) SELECT id, v FROM t;
         CREATE TABLE tmp_moved (name VARCHAR(20) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY); INSERT INTO tmp_moved VALUES ('a');
         RENAME TABLE tmp_moved TO moved; INSERT INTO moved VALUES ('\u{e4}b');
         CREATE TABLE nokey (v INT); CREATE TABLE floats (f FLOAT PRIMARY KEY); INSERT INTO floats VALUES (1);
         CREATE TABLE gone (id INT PRIMARY KEY); INSERT INTO gone VALUES (1); DROP TABLE gone;
         INSERT INTO t VALUES (2, 2)",
    );
    engine.signal("CONT").unwrap();
    let added = ["any4.plain", "any4.likened", "any4.selected", "any4.moved"];
    let of = |states: &BTreeMap<String, String>, table: &str| states.get(table).cloned().unwrap_or_default();
    wait("added tables", &mut engine, || {
        let states = states(&rig);
        added.iter().all(|table| of(&states, table) == "live")
            && ["any4.nokey", "any4.floats"].iter().all(|table| of(&states, table) == "refused")
    });
    // A statement that mends one is noticed.
    server.sql("ALTER TABLE any4.nokey ADD PRIMARY KEY (v); INSERT INTO any4.nokey VALUES (1); INSERT INTO any4.moved VALUES ('A2')");
    wait("the mended table", &mut engine, || states(&rig).get("any4.nokey").is_some_and(|state| state == "live"));
    let text = done(&rig, &["status"]);
    assert!(text.contains("any4.floats") && text.contains("refused"), "{text}");
    let log = stop(engine);
    assert!(!log.contains("any4.gone refused") && log.contains("any4.floats"), "{log}");

    // At a restart new tables are added too, and one that cannot be captured does not keep the others from running.
    server.sql("CREATE TABLE any4.while_down (id INT PRIMARY KEY); INSERT INTO any4.while_down VALUES (7)");
    let output = rig.run_well();
    assert!(output.stderr.contains("WARN") && output.stderr.contains("any4.floats"), "{}", output.stderr);
    let all = ["t", "plain", "likened", "selected", "moved", "nokey", "while_down"];
    rig.assert_exact(&endpoint, "any4", &all);

    // One that the configuration names no more is forgotten, and new when it comes back.
    rig.tables.push("!any4.plain".to_owned());
    server.sql("INSERT INTO any4.plain VALUES (3, 3, 'y')");
    rig.run_well();
    assert_eq!(rig.row_count("up_any4", "plain"), 1, "its targets are left alone");
    assert!(!states(&rig).contains_key("any4.plain"));
    rig.tables.pop();
    rig.sink = "on_existing = \"truncate\"".to_owned();
    rig.run_well();
    rig.assert_exact(&endpoint, "any4", &all);
}

#[test]
fn a_quarantined_target_is_taken_back_by_a_resync() {
    let Some(server) = server::shared() else { return };
    server.sql(
        "CREATE DATABASE any6; USE any6; CREATE TABLE a (id INT PRIMARY KEY); CREATE TABLE b (id INT PRIMARY KEY);
         INSERT INTO a VALUES (1), (2); INSERT INTO b VALUES (1)",
    );
    let Some(rig) = Rig::simulated(server, &["any6.*"]) else { return };
    rig.run_well();
    rig.sim().set(Knob::always(Fault::FilterRows { rows: 1 }).table("log_any6.a"));
    server.sql("INSERT INTO any6.a VALUES (3); INSERT INTO any6.b VALUES (3)");
    assert_eq!(rig.run().exit.code, 1);
    let text = done(&rig, &["status"]);
    assert!(text.contains("quarantined log_any6.a (of any6.a)"), "{text}");
    rig.sim().clear_knobs();
    server.sql("INSERT INTO any6.a VALUES (4); DELETE FROM any6.a WHERE id = 1");
    let mut engine = rig.spawn();
    engine.wait_for_log("the stream", PATIENCE, |log| log.contains("running"));
    done(&rig, &["resync", "--truncate", "any6.a"]);
    engine.wait_for_log("the target", PATIENCE, |log| log.contains("taken back from quarantine"));
    wait("live tables", &mut engine, || {
        let output = command(&rig, &["status"]);
        output.exit.success() && output.stdout.contains("any6.a  live") && !output.stdout.contains("quarantined")
    });
    stop(engine);
    rig.run_well();
    rig.assert_exact(&server.endpoint(), "any6", &["a", "b"]);
}

#[test]
fn killed_while_tables_are_added_and_read_again() {
    let Some(server) = server::shared() else { return };
    let endpoint = server.endpoint();
    // MILLSTREAM_SEED tries other moments.
    let seed = std::env::var("MILLSTREAM_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(20_261_201);
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut workload = Workload::new("any5", 23, 2);
    workload.create(&endpoint).unwrap();
    workload.load(&endpoint, 900, &AtomicU64::new(0)).unwrap();
    let Some(mut rig) = Rig::simulated(server, &["any5.*"]) else { return };
    rig.snapshot = "chunk_rows = 40\nworkers = 2".to_owned();
    rig.flush = "{ interval = \"100ms\" }".to_owned();
    rig.run_well();
    let mut tables: Vec<String> = Workload::TABLES.iter().map(ToString::to_string).collect();
    let (mut emptied, mut added, mut again) = (0, 0, 0);
    let mut writers = workload.start(&endpoint, Some(80.0));
    for life in 0..10 {
        let mut engine = rig.spawn();
        if rng.bool() {
            engine.wait_for_log("the stream", PATIENCE, |log| log.contains("running"));
        }
        let table = format!("made_{life}");
        if life % 2 == 0 {
            // A table that is altered after it was added would stop the run.
            engine.signal("STOP").unwrap();
            server.sql(&format!(
                "USE any5; CREATE TABLE {table} (id INT PRIMARY KEY, v INT); INSERT INTO {table} SELECT id, 1 FROM orders LIMIT 90;
                 ALTER TABLE {table} ADD COLUMN w INT; UPDATE {table} SET w = id; DELETE FROM {table} LIMIT 5"
            ));
            engine.signal("CONT").unwrap();
            tables.push(table);
        } else {
            // An engine that is starting or was killed: the request may fail, and may be kept.
            command(&rig, &["resync", "--truncate", "any5.stock", "any5.orders"]);
        }
        std::thread::sleep(Duration::from_millis(rng.u64(0..500)));
        if rng.u8(0..4) == 0 {
            workload = writers.stop().0;
            writers = workload.start(&endpoint, Some(80.0));
        }
        engine.kill9().unwrap();
        let log = engine.stderr();
        emptied += log.matches("emptied").count();
        added += log.matches("added").count();
        again += log.matches("reading the table again").count();
    }
    writers.stop();
    rig.run_well();
    let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
    rig.assert_exact(&endpoint, "any5", &tables);
    println!("seed {seed}: {emptied} emptied, {added} added, {again} read again before kills");
    assert!(emptied > 0 && added > 0 && again > 0, "{emptied} {added} {again}");
}
