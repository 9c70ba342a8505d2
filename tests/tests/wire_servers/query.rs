//! Statements: values, parameters, results, errors, cursors, session changes, words by version, large packets.

mod large;
mod values;

use millstream_tests::server::{self, Flavor, Server};
use millstream_wire::flags::StatusFlags;
use millstream_wire::statements::{Ask, statement};
use millstream_wire::{Connection, Error, OkPacket, Rows, SessionChange, TransactionStart, Value};

/// A session on the socket of each server that is there, in an empty database of the test's own.
async fn on_every_server(name: &str, test: impl AsyncFn(&'static Server, Connection)) {
    for flavor in Flavor::ALL {
        let Some(server) = server::shared_of(flavor) else { continue };
        let mut c = Connection::connect(&server.connect_options("root")).await.unwrap();
        for sql in [
            format!("DROP DATABASE IF EXISTS {name}"),
            format!("CREATE DATABASE {name} DEFAULT CHARACTER SET utf8mb4"),
            format!("USE {name}"),
            "SET SESSION sql_mode = '', time_zone = '+00:00'".to_owned(),
        ] {
            c.execute(&sql).await.unwrap();
        }
        test(server, c).await;
        let mut c = Connection::connect(&server.connect_options("root")).await.unwrap();
        c.execute(&format!("DROP DATABASE {name}")).await.unwrap();
        c.close().await;
    }
}

async fn execute(c: &mut Connection, sql: &str) -> OkPacket {
    c.execute(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"))
}

/// `n` rows: `id` from 1, and a `pad` of 100 bytes.
async fn table_of(c: &mut Connection, n: u32) {
    execute(c, "CREATE TABLE t (id INT PRIMARY KEY, pad VARCHAR(100))").await;
    for chunk in (1..=n).collect::<Vec<_>>().chunks(500) {
        let rows: Vec<String> = chunk.iter().map(|id| format!("({id}, REPEAT('x', 100))")).collect();
        execute(c, &format!("INSERT INTO t VALUES {}", rows.join(", "))).await;
    }
}

/// The first values of rows up to their end or an error.
async fn ids(rows: &mut Rows<'_>) -> (Vec<i64>, Option<Error>) {
    let mut ids = Vec::new();
    loop {
        match rows.next().await {
            Ok(Some(row)) => match row.values().next() {
                Some(Ok(Value::Int(id))) => ids.push(id),
                other => panic!("{other:?}"),
            },
            Ok(None) => return (ids, None),
            Err(e) => return (ids, Some(e)),
        }
    }
}

/// Conformance: W10
#[tokio::test]
async fn errors_leave_the_session_in_order() {
    on_every_server("wire_q_errors", async |server, mut c| {
        let e = c.execute("SELEC 1").await.unwrap_err();
        assert_eq!((e.server_error().unwrap().code, e.server_error().unwrap().sqlstate()), (1064, "42000"));
        let e = c.prepare("SELECT * FROM nowhere").await.unwrap_err();
        assert_eq!(e.server_error().unwrap().code, 1146);
        let select = c.prepare("SELECT ?, ?").await.unwrap();
        assert!(c.execute_statement(&select, &[Value::Null]).await.unwrap_err().to_string().contains("number of"));

        // In the middle of the rows: the subquery has two rows where the 900th is made.
        table_of(&mut c, 1000).await;
        let sql = "SELECT id, pad, IF(id < 900, 0, (SELECT b.id FROM t b WHERE b.id < t.id LIMIT 2)) FROM t";
        let flavor = server.flavor();
        let (text, e) = ids(&mut c.query(sql).await.unwrap()).await;
        assert_eq!(e.unwrap().server_error().unwrap().code, 1242, "{flavor}");
        let prepared = c.prepare(sql).await.unwrap();
        let (binary, e) = ids(&mut c.execute_statement(&prepared, &[]).await.unwrap()).await;
        assert_eq!(e.unwrap().server_error().unwrap().code, 1242, "{flavor}");
        let want: Vec<i64> = (1..900).collect();
        assert!(text == want && binary == want, "{flavor}: {} {}", text.len(), binary.len());
        // What is left of an answer that ends in an error does not disturb the next statement.
        drop(c.query(sql).await.unwrap());
        c.close_statement(prepared).await.unwrap();
        assert_eq!(c.query_all("SELECT COUNT(*) FROM t").await.unwrap().scalar(), Some("1000"));
        assert!(c.is_usable());
    })
    .await;
}

#[tokio::test]
async fn a_call_gives_every_result_and_its_out_parameters() {
    on_every_server("wire_q_call", async |server, mut c| {
        execute(&mut c, "CREATE TABLE t (id INT PRIMARY KEY)").await;
        execute(&mut c, "INSERT INTO t VALUES (1), (2), (3)").await;
        execute(
            &mut c,
            "CREATE PROCEDURE p(IN low INT, INOUT n BIGINT, OUT name VARCHAR(20)) BEGIN
                SELECT id FROM t WHERE id > low ORDER BY id;
                UPDATE t SET id = id + 10 WHERE id <= low;
                SELECT COUNT(*) FROM t WHERE id > 1000;
                SET n = n * 2, name = 'ümlaut';
             END",
        )
        .await;
        let flavor = server.flavor();

        // As text the OUT parameters are variables.
        execute(&mut c, "SET @n = 21").await;
        let mut rows = c.query("CALL p(1, @n, @name)").await.unwrap();
        assert_eq!(ids(&mut rows).await.0, [2, 3]);
        assert!(rows.next_result().await.unwrap());
        assert_eq!(ids(&mut rows).await.0, [0]);
        assert!(rows.next_result().await.unwrap());
        assert!(rows.columns().is_empty() && rows.end().is_some() && !rows.next_result().await.unwrap(), "{flavor}");
        let out = c.query_all("SELECT @n AS n, @name AS name").await.unwrap();
        assert_eq!((out.text(0, "n"), out.text(0, "name")), (Some("42"), Some("ümlaut")), "{flavor}");

        // Prepared, they are a result of their own.
        let call = c.prepare("CALL p(?, ?, ?)").await.unwrap();
        let params = [Value::Int(2), Value::Int(4), Value::Null];
        let mut rows = c.execute_statement(&call, &params).await.unwrap();
        assert_eq!(ids(&mut rows).await.0, [3, 11]);
        assert!(rows.next_result().await.unwrap());
        assert_eq!(ids(&mut rows).await.0, [0]);
        assert!(rows.next_result().await.unwrap());
        let row = rows.next().await.unwrap().unwrap();
        let out: Vec<_> = row.values().map(Result::unwrap).collect();
        assert_eq!(out, [Value::Int(8), Value::Bytes("ümlaut".as_bytes())], "{flavor}");
        assert!(rows.next().await.unwrap().is_none());
        assert!(rows.end().unwrap().status.contains(StatusFlags::PS_OUT_PARAMS), "{flavor}");
        assert!(rows.next_result().await.unwrap() && rows.columns().is_empty());
        assert!(!rows.next_result().await.unwrap());
        // Results that nobody reads.
        drop(c.execute_statement(&call, &params).await.unwrap());
        c.ping().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn cursors_give_the_rows_in_batches() {
    on_every_server("wire_q_cursor", async |server, mut c| {
        let flavor = server.flavor();
        table_of(&mut c, 100).await;
        let select = c.prepare("SELECT id, pad FROM t WHERE id > ? ORDER BY id").await.unwrap();
        // Batches that end with the rows, before them and after them.
        for batch in [0, 7, 50, 100, 101] {
            let mut cursor = c.open_cursor(&select, &[Value::Int(0)], batch).await.unwrap();
            assert_eq!(cursor.columns().len(), 2);
            for id in 1..=100 {
                let row = cursor.next().await.unwrap().unwrap();
                let values: Vec<_> = row.values().map(Result::unwrap).collect();
                assert_eq!(values, [Value::Int(id), Value::Bytes(&[b'x'; 100])], "{flavor} {batch}");
            }
            assert!(cursor.next().await.unwrap().is_none() && cursor.next().await.unwrap().is_none());
        }
        // Left early: closed, dropped, reset, opened again, forgotten.
        let mut cursor = c.open_cursor(&select, &[Value::Int(0)], 10).await.unwrap();
        assert!(cursor.next().await.unwrap().is_some());
        cursor.close().await.unwrap();
        let mut cursor = c.open_cursor(&select, &[Value::Int(90)], 3).await.unwrap();
        cursor.next().await.unwrap();
        drop(cursor);
        c.reset_statement(&select).await.unwrap();
        let mut cursor = c.open_cursor(&select, &[Value::Int(98)], 3).await.unwrap();
        for id in [99, 100] {
            assert_eq!(cursor.next().await.unwrap().unwrap().values().next(), Some(Ok(Value::Int(id))), "{flavor}");
        }
        assert!(cursor.next().await.unwrap().is_none());
        drop(c.open_cursor(&select, &[Value::Int(0)], 10).await.unwrap());
        // Without a cursor MySQL 9.7 would answer in a way that no client can follow.
        let e = c.execute_statement(&select, &[Value::Int(0)]).await.unwrap_err();
        assert!(e.to_string().contains("had a cursor") && e.is_connection_usable(), "{e}");
        c.close_statement(select).await.unwrap();
        // First without one, then with one.
        let select = c.prepare("SELECT id FROM t WHERE id > ? ORDER BY id").await.unwrap();
        assert_eq!(ids(&mut c.execute_statement(&select, &[Value::Int(99)]).await.unwrap()).await.0, [100]);
        let mut cursor = c.open_cursor(&select, &[Value::Int(99)], 3).await.unwrap();
        assert_eq!(cursor.next().await.unwrap().unwrap().values().next(), Some(Ok(Value::Int(100))), "{flavor}");
        drop(cursor);
        // No rows, and statements that have no cursor.
        let none = c.prepare("SELECT id FROM t WHERE id > 1000").await.unwrap();
        assert!(c.open_cursor(&none, &[], 5).await.unwrap().next().await.unwrap().is_none());
        let show = c.prepare("SHOW TABLES").await.unwrap();
        let mut cursor = c.open_cursor(&show, &[], 5).await.unwrap();
        let row = cursor.next().await.unwrap().unwrap();
        assert!(row.values().eq([Ok(Value::Bytes(b"t"))]), "{flavor}");
        assert!(cursor.next().await.unwrap().is_none());
        let update = c.prepare("UPDATE t SET pad = '' WHERE id = 1").await.unwrap();
        assert!(c.open_cursor(&update, &[], 5).await.unwrap().next().await.unwrap().is_none());
        c.ping().await.unwrap();
    })
    .await;
}

/// Conformance: W13
#[tokio::test]
async fn no_local_file_is_read() {
    on_every_server("wire_q_infile", async |server, mut c| {
        execute(&mut c, "CREATE TABLE t (line TEXT)").await;
        let e = c.execute("LOAD DATA LOCAL INFILE '/etc/hostname' INTO TABLE t").await.unwrap_err();
        // The capability was not agreed on, so the server does not even ask: the number is its own.
        let code = e.server_error().unwrap().code;
        assert!(matches!(code, 1148 | 3948 | 4166), "{}: {e}", server.flavor());
        assert_eq!(c.query_all("SELECT COUNT(*) FROM t").await.unwrap().scalar(), Some("0"));
    })
    .await;
}

/// Conformance: W10
#[tokio::test]
async fn the_session_tells_what_changed_in_it() {
    on_every_server("wire_q_track", async |server, c| {
        drop(c);
        let flavor = server.flavor();
        let options = server.connect_options("root").session_tracking(true);
        let mut c = Connection::connect(&options).await.unwrap();
        if flavor == Flavor::Mysql56 {
            // Came with 5.7.
            assert!(execute(&mut c, "USE wire_q_track").await.changes.is_empty());
            return;
        }
        execute(&mut c, "SET SESSION session_track_system_variables = '*', session_track_state_change = ON").await;
        execute(&mut c, "SET SESSION session_track_transaction_info = 'CHARACTERISTICS'").await;
        if flavor.is_mysql() {
            execute(&mut c, "SET SESSION session_track_gtids = OWN_GTID").await;
        }
        let ok = execute(&mut c, "USE wire_q_track").await;
        let schema = SessionChange::Schema("wire_q_track".into());
        assert!(ok.changes.iter().any(|change| change == schema), "{flavor}: {ok:?}");
        assert!(ok.changes.iter().any(|change| change == SessionChange::StateChanged(true)), "{flavor}: {ok:?}");
        let ok = execute(&mut c, "SET SESSION time_zone = '+03:00'").await;
        let zone = SessionChange::SystemVariable { name: "time_zone".into(), value: "+03:00".into() };
        assert!(ok.changes.iter().any(|change| change == zone), "{flavor}: {ok:?}");

        execute(&mut c, "CREATE TABLE t (id INT PRIMARY KEY) ENGINE = InnoDB").await;
        let ok = execute(&mut c, "START TRANSACTION WITH CONSISTENT SNAPSHOT").await;
        let begun = "START TRANSACTION WITH CONSISTENT SNAPSHOT;";
        let begun = SessionChange::TransactionCharacteristics(begun.into());
        assert!(ok.changes.iter().any(|change| change == begun), "{flavor}: {ok:?}");
        // The end of rows tells too, and so does an OK with a remark in front of the changes.
        let mut rows = c.query("SELECT COUNT(*) FROM t").await.unwrap();
        while rows.next().await.unwrap().is_some() {}
        let ends = [rows.end().unwrap().clone(), execute(&mut c, "INSERT INTO t VALUES (1), (2)").await];
        assert_eq!(ends[1].info, "Records: 2  Duplicates: 0  Warnings: 0");
        for (ok, wrote) in ends.iter().zip([false, true]) {
            let state = ok.changes.iter().find_map(|change| match change {
                SessionChange::TransactionState(state) => Some(state),
                _ => None,
            });
            let state = state.unwrap_or_else(|| panic!("{flavor}: {ok:?}"));
            assert_eq!((state.start, state.wrote), (TransactionStart::Explicit, wrote), "{flavor}: {ok:?}");
            assert!(state.read || wrote);
        }
        let ok = execute(&mut c, "COMMIT").await;
        if flavor.is_mysql() {
            let uuid = c.query_all("SELECT @@server_uuid").await.unwrap();
            assert!(ok.changes.gtids().unwrap().starts_with(uuid.scalar().unwrap()), "{ok:?}");
        } else {
            let gtid = c.query_all("SELECT @@last_gtid").await.unwrap();
            let last = SessionChange::SystemVariable { name: "last_gtid".into(), value: gtid.scalar().unwrap().into() };
            assert!(ok.changes.iter().any(|change| change == last), "{flavor}: {ok:?}");
        }
    })
    .await;
}

/// Conformance: W14
/// Bug: 113
#[tokio::test]
async fn every_server_knows_the_words_of_its_version() {
    on_every_server("wire_q_words", async |server, mut c| {
        let (flavor, version) = (server.flavor(), c.version());
        let number = (u16::from(flavor.version().0), u16::from(flavor.version().1));
        assert_eq!(((version.major, version.minor), version.is_mariadb()), (number, flavor.is_mariadb()), "{version}");

        let status = c.query_all(statement(Ask::BinlogStatus, version)).await.unwrap();
        let file = status.text(0, "File").unwrap().to_owned();
        assert!(status.text(0, "Position").unwrap().parse::<u64>().unwrap() >= 4, "{flavor}");
        assert_eq!(status.column("Executed_Gtid_Set").is_some(), flavor.is_mysql(), "{flavor}");
        let files = c.query_all(statement(Ask::BinlogFiles, version)).await.unwrap();
        assert!((0..files.len()).any(|row| files.text(row, "Log_name") == Some(&file)), "{flavor}");
        c.query_all(statement(Ask::Replicas, version)).await.unwrap();
        execute(&mut c, "CREATE TABLE t (id INT)").await;
        let gtids = c.query_all(statement(Ask::GtidPosition, version)).await.unwrap();
        let (mark, text) = if flavor.is_mysql() { (':', gtids.scalar()) } else { ('-', gtids.scalar()) };
        assert!(text.unwrap().contains(mark), "{flavor}: {text:?}");
        // Emptying the log would disturb other tests: it is only prepared.
        let reset = c.prepare(statement(Ask::ResetBinlog, version)).await.unwrap();
        c.close_statement(reset).await.unwrap();
        // What the others say is not understood here.
        let others: &[&str] = match flavor {
            Flavor::Mysql97 => &["SHOW MASTER STATUS", "SHOW SLAVE HOSTS", "RESET MASTER", "SHOW BINLOG STATUS"],
            Flavor::Mysql56 => &["SHOW BINARY LOG STATUS", "SHOW REPLICAS", "RESET BINARY LOGS AND GTIDS"],
            _ => &["SHOW REPLICAS", "RESET BINARY LOGS AND GTIDS"],
        };
        for other in others {
            let e = c.prepare(other).await.map(|_| ()).unwrap_err();
            assert_eq!(e.server_error().unwrap().code, 1064, "{flavor} {other}");
        }
    })
    .await;
}
