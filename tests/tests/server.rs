//! The server harness itself: servers start, keep their data, and go with their test.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use millstream_tests::server::{self, ADMIN_PASSWORD, Flavor, REPL_PASSWORD, Server, ServerOptions, or_skip};

/// Set in a test process that another test starts, to hold a server until it is killed.
const HOLD: &str = "MILLSTREAM_TEST_HOLD_SERVER";

#[test]
fn sql_runs_and_errors_are_the_servers() {
    let Some(server) = server::shared() else { return };
    assert_eq!(server.value("SELECT @@gtid_mode"), "ON");
    assert_eq!(server.value("SELECT @@binlog_row_metadata"), "FULL");
    assert_eq!(server.value("SELECT @@server_id"), server.server_id().to_string());
    let rows = server.sql(r"SELECT 1, 'a\tb\\c', NULL; SELECT 2");
    assert_eq!(rows, [vec!["1", "a\tb\\c", "NULL"], vec!["2"]]);
    let error = server.try_sql("SELECT nonsense").unwrap_err();
    assert!(error.to_string().contains("ERROR 1054"), "{error}");
}

#[test]
fn a_session_keeps_its_transaction() {
    let Some(server) = server::shared() else { return };
    let mut session = server.session().unwrap();
    session.sql("CREATE DATABASE s; CREATE TABLE s.t (id INT PRIMARY KEY); BEGIN").unwrap();
    assert_eq!(session.sql("INSERT INTO s.t VALUES (1)").unwrap(), Vec::<Vec<String>>::new());
    assert_eq!(session.sql("SELECT * FROM s.t").unwrap(), [["1"]]);
    assert_eq!(server.value("SELECT COUNT(*) FROM s.t"), "0", "not committed yet");
    let error = session.sql("INSERT INTO s.t VALUES (1)").unwrap_err();
    assert!(error.to_string().contains("Duplicate entry"), "{error}");
    assert!(session.sql("SELECT 1").is_err(), "an error ends the session");
    drop(session);
    assert_eq!(server.value("SELECT COUNT(*) FROM s.t"), "0");
}

#[test]
fn users_log_in_over_tcp() {
    let Some(server) = server::shared() else { return };
    for (user, password) in [("repl", REPL_PASSWORD), ("admin", ADMIN_PASSWORD)] {
        let output = server
            .installation()
            .client("mysql")
            .args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "-N", "-B"])
            .arg(format!("--port={}", server.port()))
            .arg(format!("--user={user}"))
            .arg(format!("--password={password}"))
            .args(["-e", "SELECT CURRENT_USER()"])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.trim(), format!("{user}@%"), "{output:?}");
    }
    let plugins = server.sql("SELECT DISTINCT plugin FROM mysql.user WHERE user IN ('repl', 'admin')");
    assert_eq!(plugins, [["caching_sha2_password"]]);
    assert_eq!(server.url("repl"), format!("mysql://repl:repl%3Apw%401@127.0.0.1:{}", server.port()));
}

#[test]
fn data_gtids_and_port_survive_a_restart_and_a_kill() {
    let options = ServerOptions::new().flag("--binlog-row-metadata=MINIMAL");
    let Some(server) = or_skip(Server::start(options)) else { return };
    assert_eq!(server.value("SELECT @@binlog_row_metadata"), "MINIMAL", "a later flag wins");
    assert_eq!(server.value("SELECT @@gtid_executed"), "", "a new server has no history");
    server.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); INSERT INTO d.t VALUES (1)");
    let uuid = server.value("SELECT @@server_uuid");
    let port = server.port();

    server.restart().unwrap();
    assert_eq!(server.value("SELECT @@gtid_executed"), format!("{uuid}:1-3"));
    server.sql("INSERT INTO d.t VALUES (2)");

    server.kill().unwrap();
    assert!(server.try_sql("SELECT 1").is_err());
    server.start_with(&["--read-only=ON"]).unwrap();
    assert_eq!(server.value("SELECT @@read_only"), "1");
    assert_eq!(server.value("SELECT COUNT(*) FROM d.t"), "2");
    assert_eq!(server.value("SELECT @@gtid_executed"), format!("{uuid}:1-4"));
    assert_eq!((server.value("SELECT @@server_uuid"), server.port()), (uuid, port));
    assert_eq!(server.value("SELECT @@port"), port.to_string());

    let file = server.data_dir().join("binlog.000001");
    let dump = server.mysqlbinlog().arg(file).output().unwrap();
    assert!(String::from_utf8_lossy(&dump.stdout).contains("CREATE DATABASE d"));
}

/// What every server does, on one of them.
fn starts_writes_restarts_and_is_killed(flavor: Flavor) {
    let options = ServerOptions::new().flavor(flavor).durable(false).flag("--max-connections=33");
    let Some(server) = or_skip(Server::start(options)) else { return };
    assert_eq!(server.flavor(), flavor);
    let (major, minor) = flavor.version();
    let version = server.value("SELECT VERSION()");
    assert!(version.starts_with(&format!("{major}.{minor}.")), "{version}");
    assert_eq!(version.contains("MariaDB"), flavor.is_mariadb(), "{version}");
    let expected = [server.server_id().to_string(), server.port().to_string(), "33".into(), "ROW".into()];
    let variables = "SELECT @@server_id, @@port, @@max_connections, @@binlog_format";
    assert_eq!(server.sql(variables), [expected]);
    if flavor.has_gtid_mode() {
        assert_eq!(server.value("SELECT @@gtid_mode"), "ON");
    }
    if flavor.has_row_metadata() {
        assert_eq!(server.value("SELECT @@binlog_row_metadata"), "FULL");
    }
    let users = server.sql("SELECT user FROM mysql.user WHERE host IN ('%', 'localhost') ORDER BY 1").concat();
    for user in ["admin", "repl", "root"] {
        assert!(users.iter().any(|have| have == user), "{users:?}");
    }
    assert!(!users.iter().any(String::is_empty), "an anonymous user catches logins from localhost");

    // Many statements in one call, text that must be carried as it is, and the server's own error.
    let rows = server.sql(
        "CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20)); -- a comment\n
         INSERT INTO t VALUES (1, 'a\\t\u{1F40B};'), (2, NULL); SELECT * FROM t ORDER BY 1; SELECT 3; -- the end",
    );
    assert_eq!(rows, [vec!["1", "a\t\u{1F40B};"], vec!["2", "NULL"], vec!["3"]]);
    let error = server.try_sql("SELECT 1; SELECT nonsense; SELECT 2").unwrap_err().to_string();
    assert!(error.contains("ERROR 1054") && error.contains("nonsense"), "{error}");
    let mut session = server.session().unwrap();
    session.sql("BEGIN; INSERT INTO d.t VALUES (3, 'lost')").unwrap();
    let duplicate = session.sql("INSERT INTO d.t VALUES (1, '')").unwrap_err().to_string();
    assert!(duplicate.contains("ERROR 1062"), "{duplicate}");
    assert!(session.sql("SELECT 1").is_err(), "an error ends the session");
    drop(session);
    assert_eq!(server.value("SELECT COUNT(*) FROM d.t"), "2");

    let (file, offset) = server.position();
    assert!(file == "binlog.000001" && offset > 4, "{file} {offset}");
    assert!(server.data_dir().join(&file).is_file());
    server.restart().unwrap();
    server.sql("INSERT INTO d.t VALUES (4, 'after a restart')");
    assert_eq!(server.position().0, "binlog.000002");
    server.kill().unwrap();
    assert!(server.try_sql("SELECT 1").is_err());
    server.start_with(&["--read-only=1"]).unwrap();
    assert_eq!(server.value("SELECT @@read_only"), "1");
    assert_eq!(server.sql("SELECT id FROM d.t ORDER BY id").concat(), ["1", "2", "4"]);
    assert!(server.log().contains("ready for connections"));
}

#[test]
fn mysql_5_6() {
    starts_writes_restarts_and_is_killed(Flavor::Mysql56);
}

#[test]
fn mysql_9_7() {
    starts_writes_restarts_and_is_killed(Flavor::Mysql97);
}

#[test]
fn mariadb_10_5() {
    starts_writes_restarts_and_is_killed(Flavor::Mariadb105);
}

#[test]
fn mariadb_10_11() {
    starts_writes_restarts_and_is_killed(Flavor::Mariadb1011);
}

#[test]
fn mariadb_11_8() {
    starts_writes_restarts_and_is_killed(Flavor::Mariadb118);
}

/// Not a test of its own: the process that [`a_killed_test_leaves_nothing_behind`] starts.
#[test]
fn hold_a_server_until_killed() {
    if std::env::var_os(HOLD).is_none() {
        return;
    }
    let server = or_skip(Server::start(ServerOptions::new()));
    match &server {
        Some(server) => println!("\nHELD {} {} {}", server.pid().unwrap(), server.port(), server.dir().display()),
        None => println!("\nHELD nothing"),
    }
    // Ends with the test that started this one.
    let _ = std::io::stdin().lines().count();
}

struct Holder {
    process: Child,
    server: Option<(u32, u16, PathBuf)>,
}

fn start_holders(count: usize) -> Vec<Holder> {
    let start = |_| {
        Command::new(std::env::current_exe().unwrap())
            .args(["hold_a_server_until_killed", "--exact", "--nocapture"])
            .env(HOLD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let started: Vec<Child> = (0..count).map(start).collect();
    started
        .into_iter()
        .map(|mut process| {
            let lines = BufReader::new(process.stdout.take().unwrap()).lines();
            let line = lines.map_while(Result::ok).find(|line| line.starts_with("HELD ")).unwrap();
            let words: Vec<&str> = line.split(' ').collect();
            let server = match words[..] {
                [_, pid, port, dir] => Some((pid.parse().unwrap(), port.parse().unwrap(), PathBuf::from(dir))),
                _ => None,
            };
            Holder { process, server }
        })
        .collect()
}

#[test]
fn a_killed_test_leaves_nothing_behind() {
    // Started at the same moment: they share the caches and must not share a port.
    let mut holders = start_holders(2);
    let servers: Vec<_> = holders.iter().filter_map(|holder| holder.server.clone()).collect();
    for (pid, _, dir) in &servers {
        assert!(Path::new(&format!("/proc/{pid}")).exists());
        assert!(dir.join("data").is_dir());
    }
    if let [(_, first, _), (_, second, _)] = &servers[..] {
        assert_ne!(first, second);
    }
    for holder in &mut holders {
        holder.process.kill().unwrap();
        holder.process.wait().unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    for (pid, _, dir) in &servers {
        while Path::new(&format!("/proc/{pid}")).exists() || dir.exists() {
            assert!(Instant::now() < deadline, "process {pid} or {} is still there", dir.display());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
