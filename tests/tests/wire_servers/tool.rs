//! `millstream binlog` reading the log of each server: it shows what the server's file holds. And the wire crate's
//! examples, which read the same.

#[path = "../../../crates/wire/examples/handshake.rs"]
mod handshake;
#[path = "../../../crates/wire/examples/tail.rs"]
mod tail;

use std::net::TcpStream;
use std::time::{Duration, Instant};

use millstream_tests::engine::{Home, Output};
use millstream_tests::server::{self, Flavor, REPL_PASSWORD, Server};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);

fn home() -> Home {
    Home::new().unwrap().env("REPL", REPL_PASSWORD)
}

/// The URL as a user writes it: the password comes from the environment.
fn url(server: &Server) -> String {
    format!("mysql://repl:${{REPL}}@127.0.0.1:{}/", server.port())
}

fn lines(output: &Output) -> Vec<Value> {
    assert_eq!((output.exit.code, output.stderr.as_str()), (0, ""), "{output:?}");
    output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Changes of a table of its own and where the log stood before them.
fn changes(server: &Server, database: &str) -> (String, u64) {
    server
        .sql(&format!("CREATE DATABASE {database}; CREATE TABLE {database}.t (id BIGINT PRIMARY KEY, v VARCHAR(20))"));
    let place = server.position();
    server.sql(&format!(
        "USE {database}; INSERT INTO t VALUES (1, 'a'), (2, 'b'); UPDATE t SET v = 'ü' WHERE id = 2; DELETE FROM t WHERE id = 1"
    ));
    place
}

fn shows_what_the_file_holds(flavor: Flavor) {
    let Some(server) = server::shared_of(flavor) else { return };
    let (file, position) = changes(server, "tool_live");
    let home = home();
    let filter = ["--table", "tool_live.*", "--format", "json"];
    let from = format!("{file}:{position}");
    let live = home.finish(None, &[&["binlog", &url(server), "--from", &from], &filter[..]].concat(), LIMIT);
    let live = lines(&live);
    let path = server.data_dir().join(&file);
    let start = position.to_string();
    let args = ["binlog", path.to_str().unwrap(), "--start-pos", &start];
    let mut of_file = lines(&home.finish(None, &[&args, &filter[..]].concat(), LIMIT));
    // A server clears nothing that a table filter shows.
    of_file.retain(|line| line["file"] == file.as_str());
    assert_eq!(live, of_file);
    let ops: Vec<&str> = live.iter().filter_map(|line| line["op"].as_str()).collect();
    assert_eq!(ops, ["insert", "insert", "update", "delete"]);
    let gtids = live.iter().all(|line| line["gtid"].as_str().is_some());
    assert!(gtids, "{live:?}");
    let names = if flavor.has_row_metadata() { ["id", "v"] } else { ["@1", "@2"] };
    let update = live.iter().find(|line| line["op"] == "update").unwrap();
    assert_eq!(update["before"][names[0]], "2");
    if flavor.has_row_metadata() {
        assert_eq!((&update["before"]["v"], &update["after"]["v"]), (&"b".into(), &"ü".into()));
    }

    // The same transaction by its GTID: from the state before it on.
    let last = live.last().unwrap()["gtid"].as_str().unwrap();
    let by_gtid = home.finish(
        None,
        &["binlog", &url(server), "--from", "earliest", "--gtid", last, "--type", "delete", "--format", "json"],
        LIMIT,
    );
    assert_eq!(lines(&by_gtid), live.iter().filter(|line| line["op"] == "delete").cloned().collect::<Vec<_>>());
}

mod shows_what_the_file_holds {
    use super::Flavor;

    /// Conformance: D7
    #[test]
    fn mysql_9_7() {
        super::shows_what_the_file_holds(Flavor::Mysql97);
    }

    #[test]
    fn mysql_5_6() {
        super::shows_what_the_file_holds(Flavor::Mysql56);
    }

    #[test]
    fn mariadb_10_5() {
        super::shows_what_the_file_holds(Flavor::Mariadb105);
    }

    #[test]
    fn mariadb_10_11() {
        super::shows_what_the_file_holds(Flavor::Mariadb1011);
    }

    #[test]
    fn mariadb_11_8() {
        super::shows_what_the_file_holds(Flavor::Mariadb118);
    }
}

#[test]
fn a_dump_by_gtid_begins_behind_the_set() {
    for (flavor, state) in
        [(Flavor::Mysql97, "SELECT @@GLOBAL.gtid_executed"), (Flavor::Mariadb118, "SELECT @@GLOBAL.gtid_binlog_pos")]
    {
        let Some(server) = server::shared_of(flavor) else { continue };
        server.sql("CREATE DATABASE tool_gtid; CREATE TABLE tool_gtid.t (id INT PRIMARY KEY); INSERT INTO tool_gtid.t VALUES (1)");
        let set = server.value(state).replace('\n', "");
        server.sql("INSERT INTO tool_gtid.t VALUES (2)");
        let args = ["--table", "tool_gtid.t", "--type", "insert", "--format", "json"];
        let output = home().finish(None, &[&["binlog", &url(server), "--from-gtid", &set], &args[..]].concat(), LIMIT);
        let rows = lines(&output);
        assert_eq!(rows.len(), 1, "{flavor}: {rows:?}");
        assert_eq!(rows[0]["after"]["id"], 2, "{flavor}");
        let bad = home().finish(None, &["binlog", &url(server), "--from-gtid", "x"], LIMIT);
        assert_eq!(bad.exit.code, 2, "{bad:?}");
    }
}

#[test]
fn following_shows_changes_as_they_come_and_ends_in_order_when_interrupted() {
    let Some(server) = server::shared() else { return };
    server.sql("CREATE DATABASE tool_follow; CREATE TABLE tool_follow.t (id INT PRIMARY KEY)");
    let home = home();
    let mut run = home.spawn(None, &["binlog", &url(server), "--follow", "--stats"]).unwrap();
    let wait = |run: &millstream_tests::engine::Engine, text: &str| {
        let deadline = Instant::now() + LIMIT;
        while !run.stdout().contains(text) {
            assert!(Instant::now() < deadline, "no {text} in {}{}", run.stdout(), run.stderr());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    // The stream stands: what comes now is after its start.
    wait(&run, "FORMAT_DESCRIPTION");
    server.sql("INSERT INTO tool_follow.t VALUES (4711)");
    wait(&run, "\t+ id=4711\n");
    assert!(!run.stdout().contains("HEARTBEAT"), "{}", run.stdout());
    run.signal("INT").unwrap();
    let output = run.finish(LIMIT);
    assert_eq!((output.exit.code, output.stderr.as_str()), (0, ""), "{output:?}");
    assert!(output.stdout.contains("# table tool_follow.t: 1 inserts"), "{output:?}");
}

#[test]
fn passwords_stay_out_of_sight_and_refusals_are_told() {
    let Some(server) = server::shared() else { return };
    let at = format!("127.0.0.1:{}", server.port());
    let run = |args: &[&str]| home().env("WRONG", "hunter2").finish(None, &[&["binlog"], args].concat(), LIMIT);
    for (args, code, words) in [
        (&["mysql://repl:hunter2@127.0.0.1", "--follow"][..], 2, "everybody on this machine"),
        (&["mysql://repl:${NO_SUCH}@127.0.0.1", "--follow"], 2, "NO_SUCH is not set"),
        (&[&url(server)], 2, "--follow"),
        (&[&url(server), "--from", "now"], 2, "earliest"),
        (&[&url(server), "x", "--follow"], 2, "alone"),
        (&[&url(server), "--follow", "--stop-pos", "7"], 2, "FILE:OFFSET"),
        (&["binlog.000001", "--follow"], 2, "for servers"),
        (&[&format!("mysql://repl:${{WRONG}}@{at}"), "--from", "earliest"], 1, "Access denied"),
        (&[&url(server), "--from", "binlog.999999"], 1, "Could not find first log file name"),
        (&["mysql://repl:${WRONG}@127.0.0.1:1", "--from", "earliest"], 1, "127.0.0.1:1: cannot connect"),
    ] {
        let output = run(args);
        assert_eq!(output.exit.code, code, "{args:?}: {output:?}");
        assert!(output.stderr.contains(words), "{args:?}: {output:?}");
        assert!(!output.stderr.contains("hunter2") && output.stdout.is_empty(), "{output:?}");
        assert!(!output.stderr.contains(REPL_PASSWORD), "{output:?}");
    }
    let home = home();
    std::fs::write(home.path().join("pw"), format!("{REPL_PASSWORD}\n")).unwrap();
    let server_url = format!("mysql://repl@{at}");
    let args =
        ["binlog", &server_url, "--password-file", "pw", "--from", "binlog.000001", "--format", "none", "--stats"];
    let output = home.finish(None, &args, LIMIT);
    assert_eq!(output.exit.code, 0, "{output:?}");
    assert!(output.stdout.contains("# read: "), "{output:?}");
}

/// The examples of the wire crate.
#[tokio::test]
async fn the_examples_of_the_wire_crate_run() {
    // A login without TLS and RSA: mysql_native_password.
    if let Some(server) = server::shared_of(Flavor::Mariadb1011) {
        let at = ("127.0.0.1", server.port());
        let version = tokio::task::spawn_blocking(move || {
            let stream = TcpStream::connect(at).unwrap();
            handshake::run(stream, "repl", REPL_PASSWORD, "SELECT VERSION()").unwrap()
        });
        assert!(version.await.unwrap().contains("10.11"));
    }
    let Some(server) = server::shared() else { return };
    let options = server.connect_options("repl");
    let mut out = Vec::new();
    const WRITE_ROWS: u8 = 30;
    let writing = async {
        // Again and again: the example begins at the end of the log, whenever that is.
        tokio::task::spawn_blocking(|| {
            server.sql("CREATE DATABASE example_tail; CREATE TABLE example_tail.t (id INT)")
        })
        .await
        .unwrap();
        loop {
            tokio::task::spawn_blocking(|| server.sql("INSERT INTO example_tail.t VALUES (1)")).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let ended = tokio::time::timeout(LIMIT, async {
        tokio::select! {
            tailed = tail::run(&options, Some(WRITE_ROWS), &mut out) => tailed.unwrap(),
            () = writing => {}
        }
    });
    ended.await.unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("from binlog.") && text.lines().last().unwrap().starts_with("type 30, "), "{text}");
}
