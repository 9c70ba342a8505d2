//! `millstream check` against real servers: what is wrong is named, all at once, with the way out.

use std::time::Duration;

use millstream_tests::doris::{DorisSim, SimOptions};
use millstream_tests::engine::{Home, Output};
use millstream_tests::server::{self, Server, ServerOptions, or_skip};

const LIMIT: Duration = Duration::from_secs(60);

fn check(config: &str) -> Output {
    Home::new().unwrap().finish(Some(config), &["check"], LIMIT)
}

fn jsonl(url: &str, tables: &str) -> String {
    format!(
        "name = \"check\"\n[source]\nurl = \"{url}\"\ntables = [{tables}]\n[sink]\ntype = \"jsonl\"\n[state]\n\
         dir = \"./state\"\n"
    )
}

fn doris(url: &str, tables: &str, sim: &DorisSim, more: &str) -> String {
    format!(
        "name = \"check\"\n[source]\nurl = \"{url}\"\ntables = [{tables}]\n[state]\ndir = \"./state\"\n[sink]\n\
         type = \"doris\"\nfe = [\"{}\"]\nsql = \"{}\"\nuser = \"{}\"\npassword = \"{}\"\n{more}",
        sim.fe_url(),
        sim.sql_addr(),
        sim.user(),
        sim.password()
    )
}

/// Refused with these words in its messages, one problem a line, and no secret.
#[track_caller]
fn refused(output: &Output, wants: &[&str]) {
    assert_eq!(output.exit.code, 2, "{output:?}");
    for want in wants {
        assert!(output.stderr.contains(want), "{want:?} is missing in:\n{}", output.stderr);
    }
    let lines = output.stderr.lines().filter(|l| l.starts_with("error: ")).count();
    assert_eq!(lines, wants.len(), "{}", output.stderr);
    for secret in [server::REPL_PASSWORD, "repl%3Apw%401", "wrong-secret"] {
        assert!(!output.stderr.contains(secret) && !output.stdout.contains(secret), "{output:?}");
    }
}

/// A foreign key that cascades is no reason to warn where the server logs the cascade.
///
/// Conformance: E16
#[test]
fn a_good_source_is_described() {
    let Some(server) = server::shared() else { return };
    server.sql(
        "CREATE DATABASE check_good; CREATE TABLE check_good.p (id INT PRIMARY KEY); CREATE TABLE check_good.t (id INT \
         PRIMARY KEY, CONSTRAINT k FOREIGN KEY (id) REFERENCES check_good.p (id) ON DELETE CASCADE)",
    );
    let output = check(&jsonl(&server.url("repl"), "\"check_good.*\", \"check_none.*\""));
    assert_eq!(output.exit.code, 0, "{output:?}");
    let wants =
        ["MySQL 9.7", "as 'repl'@'%'", "2 table(s)", "JSON lines to stdout", "no table matches \"check_none.*\""];
    for want in wants {
        assert!(output.stdout.contains(want), "{want} in {output:?}");
    }
    assert!(!output.stdout.contains("foreign key"), "{output:?}");
}

#[test]
fn a_broken_config_is_refused() {
    let output = check("name = \"x\"\n[surce]\n");
    assert_eq!(output.exit.code, 2);
    assert!(
        output.stderr.contains("error: millstream.toml: surce: unknown key; did you mean \"source\"?"),
        "{output:?}"
    );
}

#[test]
fn logins_and_addresses_that_do_not_work_are_named() {
    let Some(server) = server::shared() else { return };
    let port = server.port();
    let url = format!("mysql://repl:wrong-secret@127.0.0.1:{port}");
    refused(&check(&jsonl(&url, "\"a.*\"")), &["check the user and the password in source.url"]);
    refused(&check(&jsonl("mysql://u:wrong-secret@127.0.0.1:1", "\"a.*\"")), &["check the address in source.url"]);
    let ssl =
        jsonl(&server.url("repl"), "\"a.*\"").replace("tables", "ssl_mode = \"verify-ca\"\nssl_ca = \"/none\"\ntables");
    refused(&check(&ssl), &["check source.ssl_mode and source.ssl_ca"]);
}

#[test]
fn missing_grants_are_named_with_the_statement_to_run() {
    let Some(server) = server::shared() else { return };
    server.sql(
        "CREATE DATABASE check_grants;
         CREATE TABLE check_grants.a (id INT PRIMARY KEY, secret INT); CREATE TABLE check_grants.b (id INT PRIMARY KEY);
         CREATE USER 'poor'@'127.0.0.1' IDENTIFIED BY 'x'; GRANT INSERT ON check_grants.a TO 'poor'@'127.0.0.1';
         GRANT INSERT ON check_grants.b TO 'poor'@'127.0.0.1';
         CREATE USER 'rich'@'127.0.0.1' IDENTIFIED BY 'x'; CREATE ROLE reader;
         GRANT SELECT ON `check\\_grants`.* TO reader; GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO reader;
         GRANT reader TO 'rich'@'127.0.0.1'; SET DEFAULT ROLE ALL TO 'rich'@'127.0.0.1';
         CREATE USER 'half'@'127.0.0.1' IDENTIFIED BY 'x'; GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'half'@'127.0.0.1';
         GRANT SELECT (id) ON check_grants.a TO 'half'@'127.0.0.1';",
    );
    let url = |user: &str| format!("mysql://{user}:x@127.0.0.1:{}", server.port());
    refused(
        &check(&jsonl(&url("poor"), "\"check_grants.*\"")),
        &[
            "GRANT REPLICATION CLIENT ON *.* TO 'poor'@'127.0.0.1'",
            "GRANT REPLICATION SLAVE ON *.* TO 'poor'@'127.0.0.1'",
            "GRANT SELECT ON `check_grants`.`a` TO 'poor'@'127.0.0.1'",
            "GRANT SELECT ON `check_grants`.`b` TO 'poor'@'127.0.0.1'",
        ],
    );
    refused(
        &check(&jsonl(&url("half"), "\"check_grants.a\", \"check_grants.b\"")),
        &["the table check_grants.b does not exist, or this user may not see it"],
    );
    refused(&check(&jsonl(&url("half"), "\"check_grants.a\"")), &["GRANT SELECT ON `check_grants`.`a` TO 'half'"]);
    let output = check(&jsonl(&url("rich"), "\"check_grants.*\""));
    assert_eq!(output.exit.code, 0, "{output:?}");
}

#[test]
fn settings_that_will_not_do_are_named_all_at_once() {
    let options =
        ServerOptions::new().gtid_mode(false).flag("--binlog-row-image=MINIMAL").flag("--binlog-format=MIXED");
    let Some(server) = or_skip(Server::start(options)) else { return };
    server.sql(
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); CREATE TABLE d.m (id INT PRIMARY KEY) ENGINE=MyISAM;
                CREATE TABLE d.n (id INT); CREATE TABLE d.c (k DOUBLE PRIMARY KEY)",
    );
    refused(
        &check(&jsonl(&server.url("repl"), "\"d.*\"")),
        &[
            "SET PERSIST binlog_format = 'ROW'",
            "SET PERSIST binlog_row_image = 'FULL'",
            "d.c: key column k is a floating-point number",
            "d.m has the engine MyISAM",
            "d.n has no primary key",
        ],
    );
    server.stop().unwrap();
    server.start_with(&["--skip-log-bin"]).unwrap();
    refused(
        &check(&jsonl(&server.url("repl"), "\"d.t\"")),
        &["log_bin = OFF", "SET PERSIST binlog_row_image = 'FULL'"],
    );
}

/// What works and may surprise: each is a warning of its own. A replica that logs nothing of its source is refused.
#[test]
fn what_may_surprise_is_told() {
    let options = ServerOptions::new().flag("--log-replica-updates=OFF").flag("--binlog-expire-logs-seconds=300");
    let options = options.flag("--performance-schema=ON");
    let Some(server) = or_skip(Server::start(options)) else { return };
    server.sql(
        "CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE u (id INT PRIMARY KEY);
         CREATE TABLE _u_gho (id INT PRIMARY KEY); CREATE TRIGGER pt_osc_d_t_ins AFTER INSERT ON t FOR EACH ROW SET @x = 1;
         CREATE USER app@'%'; GRANT SESSION_VARIABLES_ADMIN ON *.* TO app@'%'",
    );
    let mut session = server.session().unwrap();
    session.sql("SET SESSION binlog_format = 'MIXED'").unwrap();
    let config = jsonl(&server.url("admin"), "\"d.t\", \"d.u\"");
    let output = check(&config);
    assert_eq!(output.exit.code, 0, "{output:?}");
    let wants = [
        "log_replica_updates = OFF on the source: if it becomes a replica",
        "1 session(s) of the source have binlog_format = MIXED",
        "may set binlog_format for their sessions",
        "'app'@'%'",
        "pt-online-schema-change seems to be changing d.t (pt_osc_d_t_ins)",
        "gh-ost seems to be changing d.u (_u_gho)",
        "keeps its binary logs for 300 s only (binlog_expire_logs_seconds), and the snapshot may take longer (about 10 min",
    ];
    for want in wants {
        assert!(output.stdout.contains(want), "{want:?} is missing in:\n{}", output.stdout);
    }
    assert_eq!(output.stdout.lines().filter(|l| l.starts_with("warning: ")).count(), 6, "{}", output.stdout);
    // A run says the same at its start.
    let home = Home::new().unwrap();
    let run = format!("{config}[snapshot]\nmode = \"never\"\n");
    let output = home.finish(Some(&run), &["run", "--until", "current"], LIMIT);
    assert_eq!(output.exit.code, 0, "{output:?}");
    assert!(output.stderr.contains("gh-ost seems to be changing d.u"), "{output:?}");
    assert!(output.stderr.contains("300 s only (binlog_expire_logs_seconds): a longer pause"), "{output:?}");
    server.sql("CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1");
    refused(&check(&config), &["the source is a replica, and log_replica_updates = OFF"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn targets_are_looked_at() {
    let Some(server) = server::shared() else { return };
    server.sql(
        "CREATE DATABASE check_doris; USE check_doris; CREATE TABLE a (id INT PRIMARY KEY, v INT);
         CREATE TABLE b (id INT PRIMARY KEY, _ms_x INT);",
    );
    let sim = DorisSim::start(SimOptions::default()).await.unwrap();
    let url = server.url("repl");
    let good = doris(
        &url,
        "\"check_doris.a\"",
        &sim,
        "[[route]]\nmatch = \"*.a\"\nto = \"ods.a_log\"\nmode = \"append\"\n\
                                                       [[route]]\nmatch = \"*.a\"\nto = \"dw.a\"\n",
    );
    let output = tokio::task::spawn_blocking(move || check(&good)).await.unwrap();
    assert_eq!(output.exit.code, 0, "{output:?}");
    for want in ["check_doris.a -> ods.a_log (Append, will be created)", "check_doris.a -> dw.a (Upsert", "dw, ods"] {
        assert!(output.stdout.contains(want), "{want} in {output:?}");
    }
    let clash = doris(
        &url,
        "\"check_doris.*\"",
        &sim,
        "replication_num = 9\n[[route]]\nmatch = \"check_doris.*\"\nto = \"ods.x\"\n",
    );
    let output = tokio::task::spawn_blocking(move || check(&clash)).await.unwrap();
    refused(
        &output,
        &[
            "check_doris.a and check_doris.b would both write to ods.x",
            "cannot replicate check_doris.b to ods.x",
            "sink.replication_num: 9 replicas need 9 live BEs",
        ],
    );
    let password = doris(&url, "\"check_doris.a\"", &sim, "").replace("password = \"", "password = \"wrong-secret");
    let output = tokio::task::spawn_blocking(move || check(&password)).await.unwrap();
    refused(&output, &["check sink.user and sink.password"]);
}
