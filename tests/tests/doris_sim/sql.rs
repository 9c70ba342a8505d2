//! The SQL port, through the project's own MySQL client.

use crate::client::*;
use millstream_tests::doris::{DorisSim, SimOptions};
use millstream_wire::{ConnectOptions, Connection, SslMode, Value};
use std::time::Duration;

fn text(s: &str) -> Option<String> {
    Some(s.to_owned())
}

/// Ten rows in `d.a`, keys 10 down to 1 with `v` NULL at every third.
async fn fill(sim: &DorisSim) {
    tables(sim);
    let body: String = (1..=10)
        .rev()
        .map(|k| if k % 3 == 0 { format!("{{\"k\":{k}}}\n") } else { format!("{{\"k\":{k},\"v\":\"v{}\"}}\n", k % 4) })
        .collect();
    let r = load(sim, "d.a", &[("columns", "k,v")], &body).await;
    assert_eq!(r.field("Status"), "Success", "{}", r.body);
}

#[tokio::test]
async fn selects_filter_order_and_count() {
    let sim = start().await;
    fill(&sim).await;
    let mut c = sql(&sim).await;
    for (statement, want) in [
        ("SELECT k FROM d.a", "10 9 8 7 6 5 4 3 2 1"),
        ("SELECT k FROM `d`.`a` ORDER BY k", "1 2 3 4 5 6 7 8 9 10"),
        ("select k from d.a where k >= 3 and k < 7 order by k desc", "6 5 4 3"),
        ("SELECT k FROM d.a WHERE k BETWEEN 4 AND '5' ORDER BY k", "4 5"),
        ("SELECT k FROM d.a WHERE (k > 1 AND k <= 2)", "2"),
        ("SELECT k FROM d.a WHERE v IS NULL ORDER BY k LIMIT 2", "3 6"),
        ("SELECT k FROM d.a WHERE v IS NOT NULL AND v <> 'v1' ORDER BY k", "2 4 7 8 10"),
        ("SELECT k FROM d.a WHERE v LIKE 'v%' AND k IN (1, 2, 3) ORDER BY k", "1 2"),
        ("SELECT v, k FROM d.a WHERE k < 4 ORDER BY v DESC, k", "v2,2 v1,1 NULL,3"),
        ("SELECT COUNT(*) FROM d.a", "10"),
        ("SELECT COUNT(1) AS n FROM d.a WHERE k = 99", "0"),
        ("SELECT COUNT(v), MIN(k), MAX(k), COUNT(*) FROM d.a WHERE k <> -1", "7,1,10,10"),
        ("SELECT MAX(k) FROM d.a WHERE k > 100", "NULL"),
        ("SELECT 1 FROM d.a WHERE k >= 5 LIMIT 1", "1"),
        ("SELECT 1, 'x', NULL, version(), @@version, @@autocommit", "1,x,NULL,5.7.99,5.7.99,1"),
        ("SELECT `k` FROM d.a WHERE v = NULL", ""),
        ("SELECT * FROM d.a WHERE k = 1;", "1,v1"),
        ("SELECT k FROM d.a WHERE k = -5", ""),
    ] {
        let got = rows(&mut c, statement).await;
        let shown: Vec<String> = got
            .iter()
            .map(|r| r.iter().map(|v| v.clone().unwrap_or_else(|| "NULL".into())).collect::<Vec<_>>().join(","))
            .collect();
        assert_eq!(shown.join(" "), want, "{statement}");
    }
}

#[tokio::test]
async fn what_it_does_not_know_is_refused_by_name() {
    let sim = start().await;
    fill(&sim).await;
    let mut c = sql(&sim).await;
    for (statement, want) in [
        ("INSERT INTO d.a VALUES (1, 'x')", "a statement the simulator knows expected at Word(\"INSERT\")"),
        ("ALTER TABLE d.a ADD COLUMN x INT", "in: ALTER TABLE d.a ADD COLUMN x INT"),
        ("SELECT k FROM d.a GROUP BY k", "what follows Word(\"a\")"),
        ("SELECT SUM(k) FROM d.a", "the function sum()"),
        ("SELECT nope FROM d.a", "Unknown column 'nope'"),
        ("SELECT k FROM d.a WHERE k = 'abc'", "cannot compare column k with 'abc'"),
        ("SELECT k FROM d.nope", "Table [nope] does not exist in database [d]"),
        ("SELECT k FROM nope.a", "Unknown database 'nope'"),
        ("SELECT k FROM a", "No database selected"),
        ("SHOW PROC '/'", "a SHOW the simulator knows"),
        ("SHOW TRANSACTION FROM d WHERE ID = 5", "transaction with id 5 does not exist"),
        ("SET no_such = 1", "Unknown system variable 'no_such'"),
        ("SET version = '8'", "read only"),
        ("CREATE DATABASE d", "database exists"),
        ("DROP TABLE d.zz", "does not exist"),
        ("USE zz", "Unknown database 'zz'"),
        ("SELECT 'open", "an open quote"),
        ("", "expected at the end"),
    ] {
        let got = refusal(&mut c, statement).await;
        assert!(got.contains(want), "{statement}: {got}");
    }
    c.ping().await.unwrap();
    assert_eq!(rows(&mut c, "SELECT COUNT(*) FROM d.a").await, [[text("10")]]);
}

#[tokio::test]
async fn tables_are_made_by_the_rules_of_section_8() {
    let sim = start().await;
    let mut c = sql(&sim).await;
    let tail = "DISTRIBUTED BY HASH(a) BUCKETS AUTO PROPERTIES(\"replication_num\"=\"1\")";
    for (body, want) in [
        ("t (v INT, a INT NOT NULL) UNIQUE KEY(a) TAIL", "Key columns should be a ordered prefix of the schema."),
        ("t (a INT, b INT, c INT) UNIQUE KEY(b, a) TAIL", "ordered prefix"),
        ("t (a INT) UNIQUE KEY(zz) TAIL", "Key column[zz] doesn't exist."),
        ("t (a STRING NOT NULL) UNIQUE KEY(a) TAIL", "String Type should not be used in key column[a]."),
        ("t (a JSON) DUPLICATE KEY(a) TAIL", "Json Type should not be used in key column[a]."),
        ("t (a DOUBLE) DUPLICATE KEY(a) TAIL", "Double Type should not be used in key column[a]."),
        ("t (b INT, a INT) UNIQUE KEY(b) TAIL", "Distribution column[a] is not key column"),
        ("t (b INT) UNIQUE KEY(b) TAIL", "Distribution column(a) doesn't exist."),
        ("t (a INT, A INT) UNIQUE KEY(a) TAIL", "Duplicate column name 'A'"),
        ("t (a VARCHAR(65534)) UNIQUE KEY(a) TAIL", "Varchar size must be <= 65533: 65534"),
        ("t (a CHAR(256)) UNIQUE KEY(a) TAIL", "Char size must be <= 255: 256"),
        ("t (a DECIMAL(39,0)) UNIQUE KEY(a) TAIL", "decimal precision must be between 1 and 38"),
        ("t (a DECIMAL(10,11)) UNIQUE KEY(a) TAIL", "decimal scale must be between 0 and precision 10"),
        ("t (a DATETIME(7)) UNIQUE KEY(a) TAIL", "Scale of Datetime must between 0 and 6."),
        ("t (a INT UNSIGNED) UNIQUE KEY(a) TAIL", "Syntax error"),
        ("t (a BIT(3)) UNIQUE KEY(a) TAIL", "the type BIT takes no such parameters"),
        ("t (a INT DEFAULT \"x\") UNIQUE KEY(a) TAIL", "Invalid default value 'x'"),
        ("t (a INT NOT NULL DEFAULT NULL) UNIQUE KEY(a) TAIL", "Can not set null default value"),
        ("t (a INT, __DORIS_X INT) UNIQUE KEY(a) TAIL", "Incorrect column name '__DORIS_X'"),
        ("t (a INT) TAIL", "wants UNIQUE KEY or DUPLICATE KEY"),
        ("1t (a INT) UNIQUE KEY(a) TAIL", "expected at Number"),
        ("`t.x` (a INT) UNIQUE KEY(a) TAIL", "Incorrect table name 't.x'"),
        (
            "t (a INT) UNIQUE KEY(a) DISTRIBUTED BY HASH(a) BUCKETS 1",
            "replication num is 3, available backend num is 1",
        ),
        (
            "t (a INT) UNIQUE KEY(a) DISTRIBUTED BY HASH(a) BUCKETS 1 PROPERTIES(\"replication_num\"=\"1\", \
             \"enable_batch_delete_by_default\"=\"true\")",
            "Unknown properties: {enable_batch_delete_by_default=true}",
        ),
        (
            "t (a INT) DUPLICATE KEY(a) DISTRIBUTED BY HASH(a) BUCKETS 1 PROPERTIES(\"replication_num\"=\"1\", \
             \"function_column.sequence_type\"=\"bigint\")",
            "sequence column only support UNIQUE_KEYS",
        ),
        (
            "t (a INT) UNIQUE KEY(a) DISTRIBUTED BY HASH(a) BUCKETS 1 PROPERTIES(\"replication_num\"=\"1\", \
             \"function_column.sequence_type\"=\"varchar\")",
            "sequence type only support integer types and date types",
        ),
        ("t (a INT) UNIQUE KEY(a) DISTRIBUTED BY RANDOM BUCKETS 1", "should not contain random distribution"),
        ("t (a INT) UNIQUE KEY(a)", "DISTRIBUTED BY expected"),
    ] {
        let statement = format!("CREATE TABLE {}", body.replace("TAIL", tail));
        let c = &mut c;
        let got = refusal(c, &statement.replacen("TABLE ", "TABLE d.", 1)).await;
        assert!(got.contains(want), "{statement}: {got}");
    }
    assert!(sim.tables("d").is_empty());
    let all = "CREATE TABLE IF NOT EXISTS `d`.`all-1` (`k2` DECIMAL(38,10) NOT NULL, `k1` DATETIME(6) NOT NULL, \
        `k3` VARCHAR(65533), `b` BOOLEAN, `l` LARGEINT, `f` FLOAT, `s` STRING DEFAULT 'a\"b' COMMENT 'it''s', \
        `at` DATETIME DEFAULT CURRENT_TIMESTAMP) ENGINE=OLAP UNIQUE KEY(`k2`, `k1`, `k3`) COMMENT 'c' \
        DISTRIBUTED BY HASH(`k2`) BUCKETS AUTO PROPERTIES(\"replication_num\" = \"1\", \
        \"enable_unique_key_merge_on_write\"=\"true\", \"light_schema_change\"=\"true\", \
        \"function_column.sequence_type\"=\"bigint\")";
    c.execute(all).await.unwrap();
    c.execute(all).await.unwrap();
    assert!(refusal(&mut c, &all.replace("IF NOT EXISTS ", "")).await.contains("already exists"));
    let described = rows(&mut c, "DESC d.`all-1`").await;
    assert_eq!(described[0], [text("k2"), text("decimal(38,10)"), text("No"), text("true"), None, text("")]);
    assert_eq!(described[6], [text("s"), text("text"), text("Yes"), text("false"), text("a\"b"), text("NONE")]);
    assert_eq!(described.len(), 8);
    let full = rows(&mut c, "SHOW FULL COLUMNS FROM `all-1` FROM d").await;
    assert_eq!((full[6][8].as_deref(), full[0][4].as_deref()), (Some("it's"), Some("YES")));
    // What SHOW CREATE TABLE prints makes the same table.
    let printed = rows(&mut c, "SHOW CREATE TABLE d.`all-1`").await[0][1].clone().unwrap();
    let first = sim.schema("d", "all-1").unwrap();
    c.execute("DROP TABLE d.`all-1`").await.unwrap();
    c.execute("USE d").await.unwrap();
    c.execute(&printed).await.unwrap();
    let second = sim.schema("d", "all-1").unwrap();
    assert_eq!(first.columns, second.columns);
    assert_eq!((first.keys, &first.distribution, first.buckets), (second.keys, &second.distribution, second.buckets));
    assert_eq!(second.property("function_column.sequence_type"), Some("bigint"));
    assert_eq!(rows(&mut c, "SHOW CREATE TABLE `all-1`").await[0][1].as_deref(), Some(printed.as_str()));
}

#[tokio::test]
async fn hidden_columns_show_when_asked_for() {
    let sim = start().await;
    tables(&sim);
    let body = line(1, "a", 5, false) + &line(2, "", 6, true);
    load(&sim, "d.u", &[("columns", U)], &body).await;
    let mut c = sql(&sim).await;
    assert_eq!(rows(&mut c, "SELECT * FROM d.u").await, [[text("1"), text("a"), text("7")]]);
    assert!(refusal(&mut c, "SELECT __DORIS_DELETE_SIGN__ FROM d.u").await.contains("Unknown column"));
    c.execute("SET show_hidden_columns = true").await.unwrap();
    let names: Vec<String> = rows(&mut c, "DESC d.u").await.into_iter().map(|r| r[0].clone().unwrap()).collect();
    assert_eq!(names, ["k", "v", "n", "__DORIS_DELETE_SIGN__", "__DORIS_SEQUENCE_COL__", "__DORIS_VERSION_COL__"]);
    assert_eq!(
        rows(&mut c, "SELECT * FROM d.u ORDER BY k").await,
        [["1", "a", "7", "0", "5", "2"].map(text), ["2", "", "7", "1", "6", "2"].map(text),]
    );
    assert_eq!(rows(&mut c, "SELECT MAX(__DORIS_SEQUENCE_COL__) FROM d.u").await, [[text("6")]]);
    assert_eq!(rows(&mut c, "SELECT COUNT(*) FROM d.u").await, [[text("2")]]);
    c.execute("SET show_hidden_columns = false").await.unwrap();
    assert_eq!(rows(&mut c, "SELECT COUNT(*) FROM d.u").await, [[text("1")]]);
    // It belongs to the session.
    let mut other = sql(&sim).await;
    assert_eq!(rows(&mut other, "SELECT COUNT(*) FROM d.u").await, [[text("1")]]);
}

#[tokio::test]
async fn what_the_cluster_shows_of_itself() {
    let sim = start_with(SimOptions { be_ports: vec![0, 0], ..SimOptions::default() }).await;
    tables(&sim);
    let mut c = sql(&sim).await;
    c.execute("CREATE DATABASE IF NOT EXISTS d").await.unwrap();
    c.execute("CREATE DATABASE `e-2`").await.unwrap();
    let names = |rows: Vec<Vec<Option<String>>>| rows.into_iter().map(|r| r[0].clone().unwrap()).collect::<Vec<_>>();
    assert_eq!(names(rows(&mut c, "SHOW DATABASES").await), ["d", "e-2", "information_schema"]);
    assert_eq!(names(rows(&mut c, "SHOW TABLES FROM d LIKE 'u%'").await), ["u"]);
    let set = c.query_all("SHOW TABLES FROM d").await.unwrap();
    assert_eq!(set.columns(), ["Tables_in_d"]);
    c.execute("USE d").await.unwrap();
    assert_eq!(names(rows(&mut c, "SHOW TABLES").await), ["a", "u"]);
    let backends = c.query_all("SHOW BACKENDS").await.unwrap();
    assert_eq!(backends.len(), 2);
    assert_eq!(backends.text(1, "HttpPort"), Some(sim.be_addrs()[1].port().to_string().as_str()));
    assert_eq!(backends.text(1, "Alive"), Some("true"));
    assert_eq!(c.query_all("SHOW FRONTENDS").await.unwrap().text(0, "IsMaster"), Some("true"));
    let config = c.query_all("ADMIN SHOW FRONTEND CONFIG LIKE 'label_num_threshold'").await.unwrap();
    assert_eq!((config.len(), config.text(0, "Value")), (1, Some("2000")));
    let config = c.query_all("ADMIN SHOW FRONTEND CONFIG LIKE '%keep_max_second'").await.unwrap();
    assert_eq!((config.len(), config.text(1, "Value")), (2, Some("43200")));
    let none = c.query_all("SHOW ALTER TABLE COLUMN FROM d WHERE TableName='u' ORDER BY CreateTime DESC LIMIT 1").await;
    let none = none.unwrap();
    assert!(none.is_empty() && none.column("State").is_some());
    let q = "SELECT TABLE_NAME, TABLE_ROWS FROM information_schema.tables WHERE TABLE_SCHEMA = 'd' ORDER BY TABLE_NAME";
    assert_eq!(rows(&mut c, q).await, [["a", "0"].map(text), ["u", "0"].map(text)]);
    let q = "SELECT column_name, data_type, column_type, is_nullable, column_key, character_maximum_length \
             FROM information_schema.columns WHERE table_schema = 'd' AND table_name = 'u' ORDER BY ordinal_position";
    let got = rows(&mut c, q).await;
    assert_eq!(got[0], [text("k"), text("bigint"), text("bigint"), text("NO"), text("UNI"), None]);
    assert_eq!(got[1], ["v", "varchar", "varchar(8)", "YES", "", "8"].map(text));
    assert_eq!(
        rows(&mut c, "SHOW VARIABLES LIKE 'lower_case_table_names'").await,
        [["lower_case_table_names", "0"].map(text)]
    );
    c.execute("DROP DATABASE IF EXISTS `e-2` FORCE").await.unwrap();
    assert_eq!(names(rows(&mut c, "SHOW DATABASES LIKE 'e%'").await), Vec::<String>::new());
}

#[tokio::test]
async fn transactions_are_shown_by_label_prefix_and_id() {
    let sim = start().await;
    tables(&sim);
    for label in ["ms1_a", "ms1_b", "ms1xc"] {
        load(&sim, "d.a", &[("label", label), ("two_phase_commit", "true")], "{\"k\":1}\n").await;
    }
    sim.sql("DROP TABLE d.u").unwrap();
    let mut c = sql(&sim).await;
    let set = c.query_all("SHOW TRANSACTION FROM d WHERE LABEL LIKE 'ms1\\_%'").await.unwrap();
    let want = "TransactionId Label Coordinator TransactionStatus LoadJobSourceType PrepareTime PreCommitTime CommitTime \
                PublishTime FinishTime Reason ErrorReplicasCount ListenerId TimeoutMs ErrMsg";
    assert_eq!(set.columns().join(" "), want);
    assert_eq!(set.len(), 2);
    assert_eq!(set.text(0, "TimeoutMs"), Some("600000"));
    assert_eq!(set.text(0, "CommitTime"), Some("\\N"));
    assert_ne!(set.text(0, "PreCommitTime"), Some("\\N"));
    let id = set.text(1, "TransactionId").unwrap().to_owned();
    finish(&sim, "d", &id, "abort").await;
    let set = c.query_all(&format!("SHOW TRANSACTION FROM `d` WHERE ID = {id}")).await.unwrap();
    assert_eq!((set.text(0, "TransactionStatus"), set.text(0, "Reason")), (Some("ABORTED"), Some("User Abort")));
    assert_eq!(c.query_all("SHOW TRANSACTION FROM d WHERE LABEL = 'zz'").await.unwrap().len(), 0);
    assert_eq!(c.query_all("SHOW TRANSACTION FROM d WHERE STATUS = 'precommitted'").await.unwrap().len(), 2);
}

#[tokio::test]
async fn prepared_statements_and_databases_at_login() {
    let sim = start().await;
    fill(&sim).await;
    let addr = sim.sql_addr();
    let options = ConnectOptions::tcp(addr.ip().to_string(), addr.port())
        .user(format!("{}#group", sim.user()))
        .password(sim.password())
        .database("d")
        .ssl_mode(SslMode::Preferred)
        .connect_timeout(Duration::from_secs(5));
    let mut c = Connection::connect(&options).await.unwrap();
    assert_eq!(c.server_version(), "5.7.99");
    assert_eq!(rows(&mut c, "SELECT database()").await, [[text("d")]]);
    let statement = c.prepare("SELECT k, v FROM a WHERE k >= ? AND k < ? ORDER BY k").await.unwrap();
    for (low, want) in [(7i64, 2), (1, 8)] {
        let mut got = c.execute_statement(&statement, &[Value::Int(low), Value::Bytes(b"9")]).await.unwrap();
        let mut n = 0;
        while let Some(row) = got.next().await.unwrap() {
            drop(row);
            n += 1;
        }
        assert_eq!(n, want);
    }
    c.close_statement(statement).await.unwrap();
    let wrong = ConnectOptions::tcp(addr.ip().to_string(), addr.port())
        .user(sim.user())
        .password("wrong")
        .ssl_mode(SslMode::Disabled);
    let error = Connection::connect(&wrong).await.map(drop).unwrap_err().to_string();
    assert!(error.contains("Access denied for user 'root@127.0.0.1'"), "{error}");
}

#[tokio::test]
async fn a_large_result_keeps_what_it_began_with() {
    let sim = start().await;
    tables(&sim);
    let body: String = (0..50_000).map(|k| line(k, "x", 1, false)).collect();
    let r = load(&sim, "d.u", &[("columns", U)], &body).await;
    assert_eq!(r.field("Status"), "Success", "{}", r.body);
    let mut c = sql(&sim).await;
    let mut got = c.query("SELECT * FROM d.u ORDER BY k").await.unwrap();
    got.next().await.unwrap().unwrap();
    // Every row is deleted while the result is being read.
    let body: String = (0..50_000).map(|k| line(k, "", 2, true)).collect();
    load(&sim, "d.u", &[("columns", U)], &body).await;
    assert_eq!(sim.row_count("d", "u"), 0);
    let mut n = 1;
    while got.next().await.unwrap().is_some() {
        n += 1;
    }
    assert_eq!(n, 50_000);
    assert_eq!(rows(&mut c, "SELECT COUNT(*) FROM d.u").await, [[text("0")]]);
}
