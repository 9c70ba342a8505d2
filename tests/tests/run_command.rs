//! `millstream run` and `millstream binlog` as a user types them: exit codes and where output goes.

use std::time::Duration;

use millstream_tests::engine::Home;
use millstream_tests::server;

const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn a_run_until_now_ends_with_its_counts() {
    let Some(server) = server::shared() else { return };
    server.sql(
        "CREATE DATABASE run_command; CREATE TABLE run_command.t (id INT PRIMARY KEY, v VARCHAR(20));
         INSERT INTO run_command.t VALUES (1, 'a'), (2, 'b'), (3, NULL)",
    );
    let home = Home::new().unwrap();
    let config = format!(
        "name = \"run\"\n[source]\nurl = \"{}\"\ntables = [\"run_command.*\"]\n[sink]\ntype = \"jsonl\"\n\
         path = \"out.jsonl\"\n[state]\ndir = \"./state\"\n",
        server.url("repl")
    );
    let output = home.finish(Some(&config), &["run", "--until", "current", "--json"], LIMIT);
    assert_eq!(output.exit.code, 0, "{output:?}");
    let report: serde_json::Value = serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(report["snapshot_rows"], 3, "{report}");
    let written = std::fs::read_to_string(home.path().join("out.jsonl")).unwrap();
    assert_eq!(written.lines().count(), 3, "{written}");

    server.sql("UPDATE run_command.t SET v = 'c' WHERE id = 2; DELETE FROM run_command.t WHERE id = 3");
    let output = home.finish(Some(&config), &["run", "--until", "current"], LIMIT);
    assert_eq!(output.exit.code, 0, "{output:?}");
    assert!(output.stderr.contains("2 change(s) in = 2 emitted"), "{output:?}");
    assert_eq!(output.stdout, "");
    let written = std::fs::read_to_string(home.path().join("out.jsonl")).unwrap();
    let ops: Vec<String> = written
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["op"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ops, ["r", "r", "r", "u", "d"], "{written}");
}

#[test]
fn what_is_refused_before_any_change_exits_with_2() {
    let Some(server) = server::shared() else { return };
    server.sql("CREATE DATABASE run_refused; CREATE TABLE run_refused.t (id INT)");
    let config = format!(
        "name = \"run\"\n[source]\nurl = \"{}\"\ntables = [\"run_refused.*\"]\n[sink]\ntype = \"jsonl\"\n[state]\n\
         dir = \"./state\"\n",
        server.url("repl")
    );
    let home = Home::new().unwrap();
    let output = home.finish(Some(&config), &["run"], LIMIT);
    assert_eq!(output.exit.code, 2, "{output:?}");
    assert!(output.stderr.contains("run_refused.t has no primary key"), "{output:?}");
    assert!(!home.path().join("state").exists(), "nothing was changed");
    assert_eq!(home.finish(Some(&config), &["run", "--until", "tomorrow"], LIMIT).exit.code, 2);
    assert_eq!(home.finish(None, &["frobnicate"], LIMIT).exit.code, 2);
}

#[test]
fn binlog_files_are_counted_and_faults_are_named() {
    let Some(server) = server::shared() else { return };
    let home = Home::new().unwrap();
    let file = server.data_dir().join("binlog.000001");
    let output = home.finish(None, &["binlog", file.to_str().unwrap(), "--format", "none", "--stats"], LIMIT);
    assert_eq!(output.exit.code, 0, "{output:?}");
    assert!(output.stdout.contains("FORMAT_DESCRIPTION"), "{output:?}");
    let output = home.finish(None, &["binlog", "/nonexistent/binlog.000001"], LIMIT);
    assert_eq!(output.exit.code, 1, "{output:?}");
    assert!(output.stderr.contains("error: /nonexistent/binlog.000001: cannot be opened"), "{output:?}");
    assert!(output.stderr.contains("  because: No such file"), "{output:?}");
}
