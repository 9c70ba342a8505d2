//! The wire client against a real server: every way to log in, large packets, statements.

use std::time::Duration;

use millstream_tests::server::{self, Server, ServerOptions};
use millstream_wire::{ConnectOptions, Connection, Error, SslMode, Value};

const PASSWORD: &str = "a pässword of more than twenty bytes";

async fn root(server: &Server) -> Connection {
    Connection::connect(&server.connect_options("root")).await.unwrap()
}

/// A user of the test's own: what is cached of its password is then known.
async fn user(server: &Server, name: &str, identified: &str) -> ConnectOptions {
    let mut root = root(server).await;
    root.execute(&format!("DROP USER IF EXISTS {name}")).await.unwrap();
    root.execute(&format!("CREATE USER {name} IDENTIFIED {identified}")).await.unwrap();
    root.close().await;
    ConnectOptions::tcp("127.0.0.1", server.port()).user(name).password(PASSWORD)
}

async fn refused(options: &ConnectOptions) -> Error {
    Connection::connect(options).await.map(|_| ()).unwrap_err()
}

#[tokio::test]
async fn caching_sha2_in_full_and_fast_on_every_transport() {
    let Some(server) = server::shared() else { return };
    let by = format!("BY '{PASSWORD}'");
    let plain = user(server, "wire_sha2", &by).await.ssl_mode(SslMode::Disabled);

    // Nothing is cached: the whole password is asked for, and not given to a plain connection.
    let e = refused(&plain).await;
    assert!(e.is_auth() && e.to_string().contains("allow_public_key_retrieval"), "{e}");
    let c = Connection::connect(&plain.clone().allow_public_key_retrieval(true)).await.unwrap();
    assert!(!c.tls());
    // Now it is cached.
    Connection::connect(&plain).await.unwrap();

    let tls = user(server, "wire_sha2", &by).await;
    for _full_then_fast in 0..2 {
        assert!(Connection::connect(&tls).await.unwrap().tls());
    }
    user(server, "wire_sha2", &by).await;
    let socket = ConnectOptions::unix(server.socket()).user("wire_sha2").password(PASSWORD);
    assert!(!Connection::connect(&socket).await.unwrap().tls());
    assert!(Connection::connect(&socket.ssl_mode(SslMode::Required)).await.unwrap().tls());
}

#[tokio::test]
async fn other_plugins_by_auth_switch() {
    let Some(server) = server::shared() else { return };
    let o = user(server, "wire_sha256", &format!("WITH sha256_password BY '{PASSWORD}'")).await;
    assert!(Connection::connect(&o).await.unwrap().tls());
    let plain = o.ssl_mode(SslMode::Disabled);
    assert!(refused(&plain).await.is_auth());
    Connection::connect(&plain.allow_public_key_retrieval(true)).await.unwrap();
    for identified in ["BY ''", "WITH sha256_password BY ''"] {
        let o = user(server, "wire_empty", identified).await;
        assert!(refused(&o).await.is_auth());
        for mode in [SslMode::Disabled, SslMode::Required] {
            Connection::connect(&o.clone().password("").ssl_mode(mode)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn tls_is_verified_when_asked_for_and_never_given_up() {
    let Some(server) = server::shared() else { return };
    let o = server.connect_options("repl").ssl_mode(SslMode::VerifyCa);
    assert!(Connection::connect(&o.clone().ssl_ca(server.data_dir().join("ca.pem"))).await.unwrap().tls());
    // A certificate of this CA, but no CA itself.
    let e = refused(&o.clone().ssl_ca(server.data_dir().join("client-cert.pem"))).await;
    assert!(e.is_tls() && !e.is_retryable(), "{e}");
    let e = refused(&o.clone().ssl_ca(server.data_dir().join("public_key.pem"))).await;
    assert!(e.is_tls() && e.to_string().contains("no certificate"), "{e}");
    assert!(refused(&o).await.to_string().contains("ssl_ca"));

    // A server without TLS.
    let Some(other) = server::or_skip(Server::start(ServerOptions::new().flag("--tls-version="))) else { return };
    let e = refused(&other.connect_options("admin").ssl_mode(SslMode::Required)).await;
    assert!(e.is_tls() && e.to_string().contains("offers none"), "{e}");
    let plain = other.connect_options("admin").allow_public_key_retrieval(true);
    assert!(!Connection::connect(&plain).await.unwrap().tls());
    let ca = other.data_dir().join("ca.pem");
    if ca.exists() && std::fs::read(&ca).unwrap() != std::fs::read(server.data_dir().join("ca.pem")).unwrap() {
        let e = refused(&o.ssl_ca(ca)).await;
        assert!(e.is_tls(), "{e}");
    }
}

#[tokio::test]
async fn refusals_say_what_is_wrong() {
    let Some(server) = server::shared() else { return };
    let o = server.connect_options("repl");
    let e = refused(&o.clone().password("wrong")).await;
    assert!(e.is_auth() && !e.is_retryable() && !e.is_access_denied(), "{e}");
    assert_eq!((e.server_error().unwrap().code, e.server_error().unwrap().sqlstate()), (1045, "28000"));
    assert!(!format!("{e} {e:?}").contains("wrong"));
    let e = refused(&o.database("no_such_database")).await;
    assert_eq!((e.server_error().unwrap().code, e.is_auth()), (1049, false));
    let e = refused(&ConnectOptions::unix(server.dir().join("nothing"))).await;
    assert!(e.is_connect() && e.is_retryable(), "{e}");
}

#[tokio::test]
async fn forty_mebibytes_in_one_row_both_ways() {
    let Some(server) = server::shared() else { return };
    let mut root = root(server).await;
    root.execute("CREATE DATABASE IF NOT EXISTS wire_big").await.unwrap();
    root.execute("DROP TABLE IF EXISTS wire_big.t").await.unwrap();
    root.execute("CREATE TABLE wire_big.t (id INT PRIMARY KEY, b LONGBLOB)").await.unwrap();
    root.execute("SET GLOBAL max_allowed_packet = 128 * 1024 * 1024").await.unwrap();
    let big = vec![0xfe; 40 << 20];
    for mode in [SslMode::Disabled, SslMode::Required] {
        let o = server.connect_options("admin").ssl_mode(mode).allow_public_key_retrieval(true);
        let mut c = Connection::connect(&o).await.unwrap();
        c.execute("SET sql_log_bin = 0").await.unwrap();
        let insert = c.prepare("REPLACE INTO wire_big.t VALUES (?, ?)").await.unwrap();
        let mut none = c.execute_statement(&insert, &[Value::Int(-7), Value::Bytes(&big)]).await.unwrap();
        assert!(none.columns().is_empty() && none.next().await.unwrap().is_none());
        let select = c.prepare("SELECT b, id FROM wire_big.t").await.unwrap();
        let mut rows = c.execute_statement(&select, &[]).await.unwrap();
        let row = rows.next().await.unwrap().unwrap();
        let values: Vec<_> = row.values().map(Result::unwrap).collect();
        assert!(values == [Value::Bytes(&big), Value::Int(-7)]);
        assert!(rows.next().await.unwrap().is_none());
        // As text, twice in one row, its first byte that of an EOF packet.
        let mut rows = c.query("SELECT b, b FROM wire_big.t").await.unwrap();
        let row = rows.next().await.unwrap().unwrap();
        assert!(row.values().all(|v| v.unwrap() == Value::Bytes(&big)));
    }
    root.execute("DROP DATABASE wire_big").await.unwrap();
}

#[tokio::test]
async fn parameters_of_every_kind_come_back() {
    let Some(server) = server::shared() else { return };
    let mut c = root(server).await;
    let statement = c.prepare("SELECT ?, ?, ?, ?, ?, ?, ?, ?").await.unwrap();
    let (year, month, day) = (2024, 2, 29);
    let sent = [
        Value::Null,
        Value::Int(i64::MIN),
        Value::UInt(u64::MAX),
        Value::Double(-2.25),
        Value::Bytes(&[0, 0xff, b'\\']),
        Value::Text("grüße"),
        Value::DateTime { year, month, day, hour: 1, minute: 2, second: 3, micros: 4 },
        Value::Time { negative: true, days: 3, hours: 4, minutes: 5, seconds: 6, micros: 7 },
    ];
    let mut rows = c.execute_statement(&statement, &sent).await.unwrap();
    let row = rows.next().await.unwrap().unwrap();
    let mut expected = sent;
    expected[5] = Value::Bytes("grüße".as_bytes());
    assert_eq!(row.values().map(Result::unwrap).collect::<Vec<_>>(), expected);
    assert_eq!(row.columns()[5].charset, 255, "text parameters are utf8mb4");
    assert_eq!(row.columns()[4].charset, 63, "byte parameters are binary");
}

#[tokio::test]
async fn several_results_errors_and_unread_rows_leave_the_session_in_order() {
    let Some(server) = server::shared() else { return };
    let mut c = root(server).await;
    c.execute("CREATE DATABASE IF NOT EXISTS wire_proc").await.unwrap();
    c.execute("DROP PROCEDURE IF EXISTS wire_proc.p").await.unwrap();
    c.execute("CREATE PROCEDURE wire_proc.p() BEGIN SELECT 1; SELECT 2, 3; END").await.unwrap();
    assert_eq!(c.query_all("CALL wire_proc.p()").await.unwrap().scalar(), Some("1"));
    let call = c.prepare("CALL wire_proc.p()").await.unwrap();
    assert!(c.execute_statement(&call, &[]).await.unwrap().next().await.unwrap().is_some());
    // Two statements in one are refused by the server: the capability is never set.
    assert_eq!(c.execute("SELECT 1; SELECT 2").await.unwrap_err().server_error().unwrap().code, 1064);
    assert_eq!(c.prepare("SELEC").await.unwrap_err().server_error().unwrap().code, 1064);
    let many = "SELECT a.help_topic_id FROM mysql.help_topic a JOIN mysql.help_topic b LIMIT 50000";
    drop(c.query(many).await.unwrap());
    let mut rows = c.query(many).await.unwrap();
    let mut count = 0;
    while rows.next().await.unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, 50_000);
    // An error in the middle of rows.
    let e = c.query_all(
        "SELECT IF(id < 500, id, (SELECT id FROM (SELECT 1 id UNION SELECT 2) x)) FROM \
         (WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 900) SELECT id FROM n) y",
    );
    assert_eq!(e.await.unwrap_err().server_error().unwrap().code, 1242);
    c.ping().await.unwrap();
    c.execute("DROP DATABASE wire_proc").await.unwrap();
    c.close().await;
}

#[tokio::test]
async fn a_killed_or_idle_session_is_told_as_retryable() {
    let Some(server) = server::shared() else { return };
    let mut root = root(server).await;
    let mut c = Connection::connect(&server.connect_options("repl")).await.unwrap();
    root.execute(&format!("KILL {}", c.connection_id())).await.unwrap();
    // The server closes the socket in its own time; until then it may still answer.
    let e = loop {
        match c.ping().await {
            Ok(()) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(e) => break e,
        }
    };
    assert!(e.is_retryable() && !c.is_usable(), "{e}");
    let mut c = Connection::connect(&server.connect_options("repl")).await.unwrap();
    c.execute("SET wait_timeout = 1").await.unwrap();
    let id = c.connection_id();
    // Harmless to an idle session, and refused with "unknown thread" once it is gone. (The process list cannot be asked: it
    // fails on the bytes of other tests' statements.)
    let gone = loop {
        match root.execute(&format!("KILL QUERY {id}")).await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(e) => break e,
        }
    };
    assert!(gone.server_error().is_some_and(|e| e.code == 1094), "{gone}");
    let e = c.ping().await.unwrap_err();
    assert!(e.is_retryable() && e.server_error().is_some_and(|e| e.code == 4031), "{e}");
}
