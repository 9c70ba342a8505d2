//! Change events as lines of JSON: their exact form, to stdout and to a file, and a file that kills do not spoil.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use millstream_tests::engine::{Engine, Home, Output, binary};
use millstream_tests::rig::PATIENCE;
use millstream_tests::server::{self, Server};
use millstream_tests::source::SourceTable;
use millstream_tests::workload::Workload;
use serde_json::{Value, json};

fn config(server: &Server, tables: &str, path: &str, snapshot: &str) -> String {
    format!(
        "name = \"lines\"\n[source]\nurl = \"{}\"\ntables = [\"{tables}\"]\n[snapshot]\n{snapshot}\n[sink]\n\
         type = \"jsonl\"\npath = \"{path}\"\nflush = {{ interval = \"100ms\" }}\n[state]\ndir = \"state\"\n",
        server.url("repl")
    )
}

fn run(home: &Home, config: &str) -> Output {
    let output = home.finish(Some(config), &["run", "--until", "current"], PATIENCE);
    assert!(output.exit.success(), "{}", output.stderr);
    output
}

fn parse(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

/// The same with every fraction as a string: reading one as a number may change its last digit.
fn parse_exactly(text: &str) -> Vec<Value> {
    let mut quoted = String::new();
    for line in text.lines() {
        let (mut inside, mut escaped, mut number) = (false, false, String::new());
        for c in line.chars() {
            if !inside && (c.is_ascii_digit() || (!number.is_empty() && "+-.eE".contains(c)) || c == '-') {
                number.push(c);
                continue;
            }
            let fraction = number.contains(['.', 'e', 'E']);
            let quote = if fraction { "\"" } else { "" };
            quoted.push_str(&format!("{quote}{}{quote}", std::mem::take(&mut number)));
            quoted.push(c);
            inside ^= c == '"' && !escaped;
            escaped = inside && c == '\\' && !escaped;
        }
        quoted.push('\n');
    }
    parse(&quoted)
}

fn wait_for_lines(engine: &mut Engine, path: &Path, lines: usize) {
    let deadline = Instant::now() + PATIENCE / 4;
    loop {
        let there = std::fs::read_to_string(path).unwrap_or_default().lines().count();
        if there >= lines {
            return;
        }
        assert!(engine.try_wait().unwrap().is_none(), "it ended\n{}", engine.stderr());
        assert!(Instant::now() < deadline, "{there} lines\n{}", engine.stderr());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn every_operation_has_its_line() {
    // Of its own: the transactions' numbers are compared.
    let Some(server) = server::or_skip(Server::start(server::ServerOptions::new())) else { return };
    let server = &server;
    server.sql(
        "CREATE DATABASE jl_ops;
         CREATE TABLE jl_ops.t (id BIGINT UNSIGNED PRIMARY KEY, name VARCHAR(20), n INT, price DECIMAL(8,2), raw VARBINARY(8),
           doc JSON, at DATETIME(3), day DATE, t TIME(1), ok BIT(1), f DOUBLE, e ENUM('x','ü'), big BIGINT);
         INSERT INTO jl_ops.t VALUES (18446744073709551615, 'a\"b\\\\c\\nü😀', -1, 12.50, 0x00FF, '{\"k\": [1, 2.0]}',
           '2026-11-30 01:02:03.456', '2026-02-28', '-12:34:56.7', 1, 1.5, 'ü', -9223372036854775808)",
    );
    let home = Home::new().unwrap();
    let config = config(server, "jl_ops.t", "out.jsonl", "");
    let first = run(&home, &config);
    assert_eq!(first.stdout, "", "stdout is not the sink");
    let uuid = server.value("SELECT @@GLOBAL.server_uuid");
    let mut session = server.session().unwrap();
    let mut gtids = Vec::new();
    let mut change = |sql: &str| {
        session.sql(&format!("BEGIN; {sql}; COMMIT")).unwrap();
        let set = session.sql("SELECT REPLACE(@@GLOBAL.gtid_executed, '\\n', '')").unwrap()[0][0].clone();
        gtids.push(set.rsplit(['-', ':']).next().unwrap().to_owned());
    };
    change("INSERT INTO jl_ops.t (id, name) VALUES (1, 'one'), (2, NULL)");
    change("UPDATE jl_ops.t SET n = id + 1, name = 'changed' WHERE id < 3");
    change("UPDATE jl_ops.t SET id = 3 WHERE id = 2; DELETE FROM jl_ops.t WHERE id = 1");
    run(&home, &config);
    let text = std::fs::read_to_string(home.path().join("out.jsonl")).unwrap();

    // The members come in a fixed order and are written as here.
    let full = r#"{"id":"18446744073709551615","name":"a\"b\\c\nü😀","n":-1,"price":"12.50","raw":"00ff","doc":"{\"k\": [1, 2.0]}","at":"2026-11-30 01:02:03.456","day":"2026-02-28","t":"-12:34:56.7","ok":1,"f":1.5,"e":"ü","big":"-9223372036854775808"}"#;
    let read = text.lines().next().unwrap();
    let head = format!(
        r#"{{"op":"r","db":"jl_ops","table":"t","before":null,"after":{full},"source":{{"gtid":null,"file":"binlog."#
    );
    assert!(read.starts_with(&head), "{read}\n{head}");

    let lines = parse(&text);
    let row = |id: &str, name: Value, n: Value| {
        let mut row = json!({"id": id, "name": name, "n": n});
        for nothing in ["price", "raw", "doc", "at", "day", "t", "ok", "f", "e", "big"] {
            row[nothing] = Value::Null;
        }
        row
    };
    let (one, two) = (row("1", json!("one"), Value::Null), row("2", Value::Null, Value::Null));
    let (one2, two2) = (row("1", json!("changed"), json!(2)), row("2", json!("changed"), json!(3)));
    let three = row("3", json!("changed"), json!(3));
    let gtid = |n: usize| format!("{uuid}:{}", gtids[n]);
    let want = [
        ("c", 0, 0, Value::Null, one.clone()),
        ("c", 0, 1, Value::Null, two.clone()),
        ("u", 1, 0, one, one2.clone()),
        ("u", 1, 1, two, two2.clone()),
        // A key change is two operations.
        ("d", 2, 0, two2, Value::Null),
        ("c", 2, 1, Value::Null, three),
        ("d", 2, 2, one2, Value::Null),
    ];
    assert_eq!(lines.len(), want.len() + 1, "{text}");
    let mut last = 0u64;
    let mut position = 0;
    for (line, (op, transaction, row, before, after)) in lines[1..].iter().zip(want) {
        assert_eq!((line["op"].as_str(), &line["before"], &line["after"]), (Some(op), &before, &after), "{line}");
        assert_eq!((&line["db"], &line["table"]), (&json!("jl_ops"), &json!("t")));
        let source = &line["source"];
        assert_eq!(source["gtid"], gtid(transaction), "{line}");
        assert_eq!((&source["row"], &source["snapshot"]), (&json!(row), &json!(false)), "{line}");
        assert!(source["file"].as_str().unwrap().starts_with("binlog."), "{line}");
        assert!(source["pos"].as_u64().unwrap() >= position, "{line}");
        position = source["pos"].as_u64().unwrap();
        let age = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis().cast_signed()
            - i128::from(source["ts_ms"].as_i64().unwrap());
        assert!((-1000..600_000).contains(&age), "{line}");
        let seq: u64 = line["seq"].as_str().unwrap().parse().unwrap();
        assert!(seq > last, "{line}");
        last = seq;
    }
    let source = &lines[0]["source"];
    assert_eq!((&source["gtid"], &source["ts_ms"], &source["snapshot"]), (&Value::Null, &Value::Null, &json!(true)));
}

#[test]
fn stdout_carries_nothing_but_lines() {
    let Some(server) = server::shared() else { return };
    server.sql(
        "CREATE DATABASE jl_out; CREATE TABLE jl_out.t (id INT PRIMARY KEY); INSERT INTO jl_out.t VALUES (1), (2), (3)",
    );
    let home = Home::new().unwrap();
    let config = config(server, "jl_out.*", "-", "");
    let output = home.finish(Some(&config), &["run", "--until", "current", "--json"], PATIENCE);
    assert!(output.exit.success(), "{}", output.stderr);
    let ids: Vec<Value> = parse(&output.stdout).iter().map(|l| l["after"]["id"].clone()).collect();
    assert_eq!(ids, [1, 2, 3]);
    // The counts go to stderr: stdout is the sink.
    let counts: Value = serde_json::from_str(output.stderr.lines().last().unwrap()).unwrap();
    assert_eq!(counts["snapshot_rows"], 3);
    server.sql("DELETE FROM jl_out.t WHERE id = 2");
    let lines = parse(&run(&home, &config).stdout);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!((&lines[0]["op"], &lines[0]["before"]), (&json!("d"), &json!({"id": 2})));
}

#[test]
fn a_reader_that_goes_away_ends_the_run_cleanly() {
    let Some(server) = server::shared() else { return };
    server.sql("CREATE DATABASE jl_pipe; CREATE TABLE jl_pipe.t (id INT PRIMARY KEY, pad VARCHAR(200))");
    let values: Vec<String> = (0..5000).map(|i| format!("({i}, REPEAT('x', 150))")).collect();
    server.sql(&format!("INSERT INTO jl_pipe.t VALUES {}", values.join(",")));
    let home = Home::new().unwrap();
    std::fs::write(home.path().join("millstream.toml"), config(server, "jl_pipe.*", "-", "")).unwrap();
    let mut command = Command::new(binary());
    command.args(["run", "-c", "millstream.toml"]).current_dir(home.path());
    let mut engine = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Reads a little and closes the pipe, as `head` does.
    let mut first = [0u8; 100];
    std::io::Read::read_exact(&mut engine.stdout.take().unwrap(), &mut first).unwrap();
    assert!(first.starts_with(b"{\"op\":\"r\",\"db\":\"jl_pipe\""));
    let deadline = Instant::now() + PATIENCE / 2;
    let status = loop {
        if let Some(status) = engine.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            engine.kill().unwrap();
            panic!("it still runs");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut log = String::new();
    std::io::Read::read_to_string(&mut engine.stderr.take().unwrap(), &mut log).unwrap();
    assert!(status.code().is_some_and(|code| code <= 1), "{status}\n{log}");
    assert!(!log.contains("panicked") && log.contains("nobody reads the output any more"), "{log}");
}

/// What is wrong with the lines of a table; the replay must end at the source.
fn faults(lines: &[Value], source: &SourceTable, rows: &[Vec<Option<String>>]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut state: BTreeMap<String, Value> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let key = |row: &Value| {
        source.key.iter().map(|i| row[&source.columns[*i].name].to_string()).collect::<Vec<_>>().join("|")
    };
    for line in lines.iter().filter(|l| l["table"] == source.name.as_str()) {
        let at = &line["source"];
        if !at["gtid"].is_null() && !seen.insert((at["gtid"].to_string(), at["row"].to_string())) {
            faults.push(format!("twice: {line}"));
        }
        let (before, after) = (&line["before"], &line["after"]);
        let fits = match line["op"].as_str().unwrap() {
            "r" | "c" => state.insert(key(after), after.clone()).is_none(),
            "u" => key(before) == key(after) && state.insert(key(after), after.clone()).as_ref() == Some(before),
            "d" => state.remove(&key(before)).as_ref() == Some(before),
            other => panic!("{other}"),
        };
        if !fits {
            faults.push(format!("cannot be: {line}"));
        }
    }
    if state.len() != rows.len() {
        faults.push(format!("{} rows in the replay, {} in the source", state.len(), rows.len()));
    }
    for row in rows {
        let key: Vec<&str> = source.key.iter().map(|i| row[*i].as_deref().unwrap()).collect();
        let found = state.values().any(|there| {
            source
                .key
                .iter()
                .zip(&key)
                .all(|(i, text)| plain(&there[&source.columns[*i].name]).as_deref() == Some(*text))
                && source
                    .columns
                    .iter()
                    .zip(row)
                    .all(|(column, text)| plain(&there[&column.name]).map(|t| column.normal(t)) == *text)
        });
        if !found {
            faults.push(format!("not in the replay: {row:?}"));
        }
    }
    faults
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

#[test]
fn a_file_is_exact_after_kills() {
    let Some(server) = server::shared() else { return };
    let endpoint = server.endpoint();
    let mut workload = Workload::new("jl_kill", 71, 2);
    workload.create(&endpoint).unwrap();
    workload.load(&endpoint, 900, &AtomicU64::new(0)).unwrap();
    let home = Home::new().unwrap();
    let config = config(server, "jl_kill.*", "out.jsonl", "chunk_rows = 50\nworkers = 2");
    let path = home.path().join("out.jsonl");
    let writers = workload.start(&endpoint, Some(100.0));
    let mut rng = fastrand::Rng::with_seed(8);
    let mut lines = 0;
    for _ in 0..8 {
        let mut engine = home.spawn(Some(&config), &["run"]).unwrap();
        // At least one line more than last time, so that the kill hits a run at work.
        wait_for_lines(&mut engine, &path, lines + 1);
        std::thread::sleep(Duration::from_millis(rng.u64(0..400)));
        engine.kill9().unwrap();
        lines = std::fs::read_to_string(&path).unwrap().lines().count();
    }
    writers.stop();
    run(&home, &config);
    let lines = parse_exactly(&std::fs::read_to_string(&path).unwrap());
    let mut last = 0u64;
    for line in &lines {
        let seq = line["seq"].as_str().unwrap().parse().unwrap();
        assert!(seq > last, "{line}");
        last = seq;
    }
    for table in Workload::TABLES {
        let source = SourceTable::describe(&endpoint, "jl_kill", table).unwrap();
        let found = faults(&lines, &source, &source.read(&endpoint).unwrap());
        assert!(found.is_empty(), "{table}: {} faults, such as {:#?}", found.len(), &found[..found.len().min(3)]);
    }
}

/// Conformance: E8
/// Bug: 59
#[test]
fn documents_that_are_logged_as_differences_come_whole() {
    let Some(server) = server::shared() else { return };
    server.sql(
        "CREATE DATABASE jl_diff; CREATE TABLE jl_diff.t (id INT PRIMARY KEY, doc JSON, n INT, other JSON);
         INSERT INTO jl_diff.t VALUES (1, JSON_OBJECT('a', 1, 'pad', REPEAT('p', 100), 'list', JSON_ARRAY(1, 2)), 0, '[]')",
    );
    let home = Home::new().unwrap();
    let config = config(server, "jl_diff.*", "out.jsonl", "");
    run(&home, &config);
    let mut session = server.session().unwrap();
    session.sql("SET SESSION binlog_row_value_options = 'PARTIAL_JSON', binlog_row_image = 'FULL'").unwrap();
    let mut expected = Vec::new();
    for change in [
        "doc = JSON_SET(doc, '$.a', 'two')",
        "doc = JSON_SET(doc, '$.\"b c\"', JSON_OBJECT('x', 1.5)), n = n + 1",
        "doc = JSON_REMOVE(doc, '$.list[0]'), id = 2",
        "doc = JSON_SET(doc, '$.list[last]', '\u{e9}'), other = JSON_ARRAY(1)",
    ] {
        session.sql(&format!("UPDATE jl_diff.t SET {change}")).unwrap();
        expected.push(session.sql("SELECT doc, other FROM jl_diff.t").unwrap().remove(0));
    }
    run(&home, &config);
    let lines = parse(&std::fs::read_to_string(home.path().join("out.jsonl")).unwrap());
    let after =
        |line: &Value| vec![&line["after"]["doc"], &line["after"]["other"]].into_iter().cloned().collect::<Vec<_>>();
    let ours: Vec<_> = lines[1..].iter().filter(|line| !line["after"].is_null()).map(after).collect();
    let expected: Vec<_> =
        expected.into_iter().map(|row| row.into_iter().map(Value::from).collect::<Vec<_>>()).collect();
    assert_eq!(ours, expected);
}

#[test]
fn a_file_that_is_not_ours_is_not_touched() {
    let Some(server) = server::shared() else { return };
    server
        .sql("CREATE DATABASE jl_file; CREATE TABLE jl_file.t (id INT PRIMARY KEY); INSERT INTO jl_file.t VALUES (1)");
    let home = Home::new().unwrap();
    let config = config(server, "jl_file.*", "out.jsonl", "");
    let path = home.path().join("out.jsonl");
    std::fs::write(&path, "somebody's\n").unwrap();
    for _ in 0..2 {
        let output = home.finish(Some(&config), &["run", "--until", "current"], PATIENCE);
        assert_eq!(output.exit.code, 2, "{}", output.stderr);
        assert!(output.stderr.contains("out.jsonl is not empty: name another file in sink.path"), "{}", output.stderr);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "somebody's\n");
    }
    std::fs::remove_file(&path).unwrap();
    run(&home, &config);
    assert_eq!(parse(&std::fs::read_to_string(&path).unwrap()).len(), 1);
    // Lines of ours that somebody removed cannot be made again.
    server.sql("INSERT INTO jl_file.t VALUES (2)");
    std::fs::write(&path, "").unwrap();
    let output = home.finish(Some(&config), &["run", "--until", "current"], PATIENCE);
    assert_eq!(output.exit.code, 1, "{}", output.stderr);
    assert!(output.stderr.contains("begin with a new file and a new state directory"), "{}", output.stderr);
}
