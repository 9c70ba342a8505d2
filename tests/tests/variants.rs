//! Servers, tables and rows of many kinds, all of which must arrive exactly.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millstream_tests::engine::Engine;
use millstream_tests::rig::{PATIENCE, Rig};
use millstream_tests::server::{self, Server, ServerOptions};
use millstream_tests::workload::Workload;

const MIB: u64 = 1 << 20;

fn wait_for_rows(rig: &Rig, engine: &mut Engine, database: &str, table: &str, rows: u64) {
    let deadline = Instant::now() + PATIENCE / 2;
    while rig.row_count(database, table) < rows {
        assert!(engine.try_wait().unwrap().is_none(), "it ended\n{}", engine.stderr());
        assert!(Instant::now() < deadline, "{} rows\n{}", rig.row_count(database, table), engine.stderr());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn stop_well(engine: Engine) -> u64 {
    let mut engine = engine;
    engine.sigterm().unwrap();
    let output = engine.finish(PATIENCE);
    assert!(output.exit.success(), "{:?}\n{}", output.exit, output.stderr);
    output.peak_rss
}

/// A server whose log names no columns and whose transactions are compressed.
fn minimal() -> Option<&'static Server> {
    static SERVER: std::sync::OnceLock<Option<Server>> = std::sync::OnceLock::new();
    let options = ServerOptions::new().full_row_metadata(false).flag("--binlog-transaction-compression=ON");
    SERVER.get_or_init(|| server::or_skip(Server::start(options))).as_ref()
}

#[test]
fn minimal_metadata_and_compressed_transactions() {
    let Some(server) = minimal() else { return };
    let endpoint = server.endpoint();
    let mut workload = Workload::new("va_min", 81, 2);
    workload.create(&endpoint).unwrap();
    workload.load(&endpoint, 1500, &AtomicU64::new(0)).unwrap();
    let mut rig = Rig::new(server, &["va_min.*"]);
    rig.snapshot = "chunk_rows = 100".to_owned();
    let writers = workload.start(&endpoint, Some(100.0));
    for wait in [200, 500, 600] {
        let mut engine = rig.spawn();
        wait_for_rows(&rig, &mut engine, "log_va_min", "orders", wait);
        engine.kill9().unwrap();
    }
    writers.stop();
    rig.run_well();
    rig.assert_exact(&endpoint, "va_min", &Workload::TABLES);
}

/// Every type, with a row that is read by the snapshot and the same one that comes by the stream.
#[test]
fn both_ways_give_every_type_the_same_value() {
    let of = |server, database, format| Some(same_both_ways(server?, database, format));
    let json = of(server::shared(), "va_types", "json");
    let csv = of(minimal(), "va_mtypes", "csv");
    if let (Some(json), Some(csv)) = (json, csv) {
        assert_eq!(json, csv, "what Doris has does not depend on how it was sent");
    }
}

/// The rows of every target but for what the server chose.
fn same_both_ways(server: &Server, database: &str, format: &str) -> Vec<Vec<Option<String>>> {
    server.sql(&format!(
        "CREATE DATABASE {database}; USE {database};
         CREATE TABLE t (
           id INT PRIMARY KEY, i8 TINYINT, u8 TINYINT UNSIGNED, i16 SMALLINT, u16 SMALLINT UNSIGNED, i24 MEDIUMINT,
           u24 MEDIUMINT UNSIGNED, i32 INT, u32 INT UNSIGNED, i64 BIGINT, u64 BIGINT UNSIGNED, f FLOAT, d DOUBLE,
           n DECIMAL(30,10), b1 BIT(1), b9 BIT(9), b64 BIT(64), y YEAR, da DATE, t0 TIME, t6 TIME(6), dt0 DATETIME,
           dt6 DATETIME(6), ts0 TIMESTAMP NULL, ts3 TIMESTAMP(3) NULL, c CHAR(10) CHARACTER SET latin1,
           vc VARCHAR(300), vc2 VARCHAR(20) CHARACTER SET utf8mb3, tt TINYTEXT, mt MEDIUMTEXT CHARACTER SET latin1,
           bi BINARY(5), vb VARBINARY(20), bl BLOB, lb LONGBLOB, e ENUM('a','b','\u{e9}') CHARACTER SET latin1,
           s SET('x','y','z'), j JSON, g INT GENERATED ALWAYS AS (i8 + 1) VIRTUAL, gs INT GENERATED ALWAYS AS (i16 + 1) STORED
         ) CHARACTER SET utf8mb4;
         CREATE TABLE old (id INT PRIMARY KEY, v VARCHAR(20), `sp\u{e4}t` TEXT) CHARACTER SET latin1"
    ));
    let insert = |from: i32| {
        server.sql(&format!(
            "USE {database}; SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES';
             INSERT INTO t (id) VALUES ({from});
             INSERT INTO t (id,i8,u8,i16,u16,i24,u24,i32,u32,i64,u64,f,d,n,b1,b9,b64,y,da,t0,t6,dt0,dt6,ts0,ts3,c,vc,vc2,tt,mt,
               bi,vb,bl,lb,e,s,j) VALUES
             ({from}+1, -128, 255, -32768, 65535, -8388608, 16777215, -2147483648, 4294967295, -9223372036854775808,
              18446744073709551615, 16107050, 1e300, -12345678901234567890.0123456789, b'1', b'101010101',
              b'1111111111111111111111111111111111111111111111111111111111111111', 2155, '9999-12-31', '-838:59:59',
              '-00:00:00.000001', '1000-01-01 00:00:00', '9999-12-31 23:59:59.999999', '1970-01-01 00:00:01',
              '2038-01-19 03:14:07.999', 'caf\u{e9}  ', 'gr\u{fc}n \u{1f600}  ', '\u{20ac}', '', 'tab\\tquote\"', X'0100',
              X'00ff00', X'00', REPEAT(X'ff00', 200), '\u{e9}', 'x,z', '{{\"a\": [1, 2.50, 1e20, \"\u{1f600}\\\\n\", null], \"b\": -0.0}}'),
             ({from}+2, 127, 0, 32767, 0, 8388607, 0, 2147483647, 0, 9223372036854775807, 0, -0.1, 0.1, 0.0000000001, b'0',
              b'0', b'0', 1901, '1000-01-01', '838:59:59', '838:59:59.000000', '2024-02-29 12:00:00', '2000-01-01 00:00:00.5',
              '2024-02-29 23:59:59', '1999-12-31 23:59:59.5', '', '', '', 'x', '\u{fc}', X'', X'', X'', '', 'a', '', '[]'),
             ({from}+3, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 3.4028235e38, -2.2250738585072014e-308, 1, b'1', b'1', b'1', 0,
              '0000-00-00', '00:00:00', '12:34:56.789', '0000-00-00 00:00:00', '2010-02-31 00:00:00', '0000-00-00 00:00:00',
              '2024-01-01 00:00:00.001', ' x', ' y ', 'z', ' ', ' ', 'ab', 'cd', 'ef', 'gh', 0, 'x,y,z', '\"s\"'),
             ({from}+4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1.17549435e-38, 5e-324, 99999999999999999999.9999999999, b'1',
              b'111111111', b'10', 2024, '2024-01-01', '00:00:01', '-12:00:00.5', '2024-01-01', '2024-01-01', '2024-01-01',
              '2024-01-01', 'a', REPEAT('\u{e4}', 300), 'b', REPEAT('t', 255), REPEAT('m', 70000), '12345', 'v', 'b',
              REPEAT('l', 70000), 'b', 'y', JSON_ARRAY(CAST('2024-01-01 00:00:00.5' AS DATETIME(6)),
              CAST(1.50 AS DECIMAL(5,2)), CAST('-01:02:03' AS TIME), X'00ff'));
             INSERT INTO old VALUES ({from}, '\u{e9}\u{20ac}\u{2122}', '\u{df}'), ({from}+1, NULL, ''), ({from}+2, 'plain', NULL)"
        ));
    };
    insert(0);
    let mut rig = Rig::new(server, &[&format!("{database}.*")]);
    rig.sink = format!("on_invalid_date = \"epoch\"\nformat = \"{format}\"");
    rig.run_well();
    insert(100);
    rig.run_well();
    let mut everything = Vec::new();
    for (table, rows) in [("t", 5), ("old", 3)] {
        for target in ["up", "log"] {
            let target = format!("{target}_{database}");
            let (columns, all) = rig.table(&target, table).unwrap();
            let id = columns.iter().position(|c| c == "id").unwrap();
            let values: Vec<usize> =
                (0..columns.len()).filter(|i| *i != id && !columns[*i].starts_with("_ms_")).collect();
            let row = |n: i32| {
                let row = all.iter().find(|r| r[id].as_deref() == Some(&*n.to_string()));
                row.unwrap_or_else(|| panic!("{target}.{table}: no row {n}"))
            };
            for n in 0..rows {
                everything.push(values.iter().map(|i| row(n)[*i].clone()).collect());
                for i in &values {
                    let name = &columns[*i];
                    assert_eq!(row(n)[*i], row(100 + n)[*i], "{target}.{table}.{name} of row {n}");
                }
            }
        }
    }
    let up = |table: &str, id: &str, column: &str| {
        let database = format!("up_{database}");
        let (columns, rows) = rig.table(&database, table).unwrap();
        let at = |name: &str| columns.iter().position(|c| c == name).unwrap();
        rows.iter().find(|r| r[at("id")].as_deref() == Some(id)).unwrap()[at(column)].clone()
    };
    assert_eq!(up("old", "100", "v").as_deref(), Some("\u{e9}\u{20ac}\u{2122}"));
    assert_eq!(up("old", "0", "sp\u{e4}t").as_deref(), Some("\u{df}"));
    assert_eq!(up("t", "101", "u64").as_deref(), Some("18446744073709551615"));
    assert_eq!(up("t", "1", "lb"), Some("ff00".repeat(200)));
    assert_eq!(up("t", "103", "da").as_deref(), Some("1970-01-01"));
    everything
}

#[test]
fn zero_dates_stop_become_null_or_the_epoch() {
    let Some(server) = server::shared() else { return };
    server.sql(
        "CREATE DATABASE va_zero; CREATE TABLE va_zero.t (id INT PRIMARY KEY, d DATE, at DATETIME);
         SET sql_mode = ''; INSERT INTO va_zero.t VALUES (1, '2024-01-01', '2024-01-01 00:00:00'), (7, '0000-00-00', '2024-00-01 00:00:00')",
    );
    let run = |rig: &mut Rig, how: &str| {
        rig.sink = format!("on_invalid_date = \"{how}\"");
        rig.run()
    };
    let row = |rig: &Rig, id: &str| {
        let rows = rig.rows("up_va_zero", "t");
        rows.into_iter().find(|r| r[0].as_deref() == Some(id)).map(|mut r| r.split_off(1))
    };
    let text = |texts: [&str; 2]| Some(texts.map(|t| Some(t.to_owned())).to_vec());
    let mut rig = Rig::new(server, &["va_zero.*"]);
    for _ in 0..2 {
        let output = run(&mut rig, "fail");
        assert_eq!(output.exit.code, 1, "{}", output.stderr);
        for word in ["va_zero.t", "column `d`", "id=7", "on_invalid_date"] {
            assert!(output.stderr.contains(word), "{word}: {}", output.stderr);
        }
    }
    let output = run(&mut rig, "null");
    assert!(output.exit.success(), "{}", output.stderr);
    assert_eq!(row(&rig, "7"), Some(vec![None, None]));
    assert_eq!(row(&rig, "1"), text(["2024-01-01", "2024-01-01 00:00:00"]));
    // By the stream: first it stops, then it goes on as told, and nothing is missing.
    server.sql("SET sql_mode = ''; INSERT INTO va_zero.t VALUES (2, '2024-02-02', NULL); INSERT INTO va_zero.t VALUES (8, '0000-00-00', '0000-00-00 00:00:00'); INSERT INTO va_zero.t VALUES (3, '2024-03-03', NULL)");
    let output = run(&mut rig, "fail");
    assert_eq!(output.exit.code, 1, "{}", output.stderr);
    assert!(output.stderr.contains("on_invalid_date") && output.stderr.contains("id=8"), "{}", output.stderr);
    assert_eq!(rig.row_count("log_va_zero", "t"), 3, "what came before is delivered");
    let output = run(&mut rig, "epoch");
    assert!(output.exit.success(), "{}", output.stderr);
    assert_eq!(row(&rig, "8"), text(["1970-01-01", "1970-01-01 00:00:00"]));
    assert_eq!(rig.row_count("up_va_zero", "t"), 5);
    assert_eq!(rig.row_count("log_va_zero", "t"), 5);
}

#[test]
fn transactions_much_larger_than_the_memory_budget() {
    // 100 MiB of rows in one transaction, plain and (much smaller in the log) compressed.
    for (server, database) in [(server::shared(), "va_big"), (minimal(), "va_mbig")] {
        let Some(server) = server else { return };
        server.sql(&format!(
            "CREATE DATABASE {database}; CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT NOT NULL, pad VARCHAR(2000) NOT NULL)"
        ));
        let mut rig = Rig::new(server, &[&format!("{database}.*")]);
        rig.top = "memory = \"32MiB\"".to_owned();
        rig.snapshot = String::new();
        let mut session = server.session().unwrap();
        session.sql("SET cte_max_recursion_depth = 100000").unwrap();
        let insert = |from: u32| {
            format!(
                "INSERT INTO {database}.t WITH RECURSIVE r(n) AS (SELECT {from} UNION ALL SELECT n + 1 FROM r WHERE n < {from} + 49999) \
                 SELECT n, 0, CONCAT(n, REPEAT('x', 1990)) FROM r"
            )
        };
        // The first is read by chunks, the second streams.
        session.sql(&insert(0)).unwrap();
        let mut engine = rig.spawn();
        wait_for_rows(&rig, &mut engine, &format!("log_{database}"), "t", 50_000);
        session
            .sql(&format!("BEGIN; {}; UPDATE {database}.t SET v = 1 WHERE id < 100; COMMIT", insert(100_000)))
            .unwrap();
        wait_for_rows(&rig, &mut engine, &format!("log_{database}"), "t", 100_100);
        let peak = stop_well(engine);
        println!("{database}: peak RSS {} MiB", peak / MIB);
        assert!(peak < (32 + 128 + 32) * MIB, "{database}: {} MiB", peak / MIB);
        assert_eq!(rig.row_count(&format!("log_{database}"), "t"), 100_100);
        assert_eq!(rig.row_count(&format!("up_{database}"), "t"), 100_000);
        rig.assert_exact(&server.endpoint(), database, &["t"]);
    }
}

#[test]
fn three_hundred_tables() {
    let Some(server) = server::shared() else { return };
    let mut session = server.session().unwrap();
    session.sql("CREATE DATABASE va_many; USE va_many").unwrap();
    let create: Vec<String> = (0..300)
        .map(|n| {
            let rows: Vec<String> = (0..n % 4).map(|id| format!("({id}, {n})")).collect();
            let insert =
                if rows.is_empty() { String::new() } else { format!("INSERT INTO t{n} VALUES {};", rows.join(",")) };
            format!("CREATE TABLE t{n} (id INT PRIMARY KEY, v INT NOT NULL); {insert}")
        })
        .collect();
    session.sql(&create.concat()).unwrap();
    let rig = Rig::new(server, &["va_many.*"]);
    rig.run_well();
    let check = |session: &mut server::Session| {
        for n in 0..300 {
            let here: BTreeSet<Vec<String>> =
                session.sql(&format!("SELECT id, v FROM t{n}")).unwrap().into_iter().collect();
            let there = rig.rows("up_va_many", &format!("t{n}"));
            let there: BTreeSet<Vec<String>> =
                there.into_iter().map(|row| row.into_iter().map(|v| v.unwrap_or_default()).collect()).collect();
            assert_eq!(here, there, "t{n}");
        }
    };
    check(&mut session);
    let rows: u64 = (0..300).map(|n| rig.row_count("log_va_many", &format!("t{n}"))).sum();
    assert_eq!(rows, 75 * 6);
    // One transaction over all of them.
    let changes: Vec<String> =
        (0..300).map(|n| format!("INSERT INTO t{n} VALUES (9, {n}); DELETE FROM t{n} WHERE id = 1;")).collect();
    session.sql(&format!("BEGIN; {} COMMIT", changes.concat())).unwrap();
    rig.run_well();
    check(&mut session);
    let rows: u64 = (0..300).map(|n| rig.row_count("log_va_many", &format!("t{n}"))).sum();
    assert_eq!(rows, 75 * 6 + 300 + 150);
}

#[test]
fn empty_tables_one_row_and_rows_of_eight_mebibytes() {
    let Some(server) = server::shared() else { return };
    let columns: Vec<String> = (0..8).map(|n| format!("c{n} MEDIUMTEXT")).collect();
    let values = |letter: &str| {
        let values: Vec<String> = (0..8).map(|n| format!("REPEAT('{letter}{n}', 500000)")).collect();
        values.join(", ")
    };
    server.sql(&format!(
        "CREATE DATABASE va_sizes; USE va_sizes;
         CREATE TABLE nothing (id INT PRIMARY KEY); CREATE TABLE one (id INT PRIMARY KEY); INSERT INTO one VALUES (5);
         CREATE TABLE wide (id INT PRIMARY KEY, {}); INSERT INTO wide VALUES (1, {}), (2, {})",
        columns.join(", "),
        values("a"),
        values("b")
    ));
    let mut rig = Rig::new(server, &["va_sizes.*"]);
    rig.top = "memory = \"64MiB\"".to_owned();
    let tables = ["nothing", "one", "wide"];
    rig.run_well();
    rig.assert_exact(&server.endpoint(), "va_sizes", &tables);
    server.sql(&format!(
        "USE va_sizes; INSERT INTO wide VALUES (3, {}); UPDATE wide SET c0 = 'small' WHERE id = 1; UPDATE wide SET id = 4 WHERE id = 2;
         DELETE FROM one; INSERT INTO nothing VALUES (1); DELETE FROM nothing",
        values("c")
    ));
    let output = rig.run_well();
    rig.assert_exact(&server.endpoint(), "va_sizes", &tables);
    println!("rows of 8 MiB: peak RSS {} MiB", output.peak_rss / MIB);
    // A value that Doris does not take stops by name, and goes when the row is changed and the state begins anew.
    server.sql("UPDATE va_sizes.wide SET c1 = REPEAT('x', 1048577) WHERE id = 1");
    let output = rig.run();
    assert_eq!(output.exit.code, 1, "{}", output.stderr);
    for word in ["va_sizes.wide", "c1", "1048576"] {
        assert!(output.stderr.contains(word), "{word}: {}", output.stderr);
    }
}

/// A key column's type, and keys in it: all different, but for those joined by `=`, which are spellings of one key for the
/// server and different keys for the sink.
const KEYS: [(&str, &[&str]); 34] = [
    ("TINYINT", &["-128", "-1", "0", "1", "2", "127"]),
    ("SMALLINT UNSIGNED", &["0", "1", "255", "256", "65535"]),
    ("MEDIUMINT", &["-8388608", "-256", "0", "255", "8388607"]),
    ("INT", &["-2147483648", "-65536", "0", "65535", "2147483647"]),
    ("BIGINT", &["-9223372036854775808", "-9223372036854775807", "-1", "0", "1", "9223372036854775807"]),
    (
        "BIGINT UNSIGNED",
        &["0", "1", "9223372036854775807", "9223372036854775808", "18446744073709551614", "18446744073709551615"],
    ),
    (
        "BINARY(4)",
        &["X'00000000'", "X'00000001'", "X'00FF0000'", "X'61000000'", "X'61000020'", "X'FF000000'", "X'FFFFFFFF'"],
    ),
    (
        "VARBINARY(8)",
        &["X''", "X'00'", "X'0000'", "X'00FF'", "X'61'", "X'6100'", "X'6120'", "X'FF'", "X'FF00'", "X'FFFF'"],
    ),
    (
        "VARCHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        &["''", "'a'", "'a\\t'", "'a\\tb'", "'a!'", "'ab'", "'A'", "'ä'", "'\u{1f600}'", "'\u{1f600}b'"],
    ),
    (
        "VARCHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin",
        &["''", "' '", "'a'", "'a '", "'a  '", "'a\\t'", "'A'", "'é'", "'\u{1f600}'"],
    ),
    ("VARCHAR(10) CHARACTER SET latin1 COLLATE latin1_bin", &["''", "'a'", "'a\\t'", "'é'", "'€'", "'ÿ'"]),
    ("CHAR(5) CHARACTER SET ascii COLLATE ascii_bin", &["''", "'a'", "'a\\t'", "'a!'", "'zzzzz'"]),
    ("DATE", &["'1000-01-01'", "'1969-12-31'", "'1970-01-01'", "'2024-02-29'", "'9999-12-31'"]),
    (
        "DATETIME(6)",
        &[
            "'1000-01-01 00:00:00'",
            "'1969-12-31 23:59:59.999999'",
            "'2024-02-29 00:00:00.000001'",
            "'9999-12-31 23:59:59.999999'",
        ],
    ),
    (
        "TIMESTAMP(3)",
        &[
            "'1970-01-01 00:00:01'",
            "'2024-02-29 12:00:00.001'",
            "'2024-02-29 12:00:00.002'",
            "'2038-01-19 03:14:07.999'",
        ],
    ),
    (
        "DECIMAL(20,5)",
        &["-999999999999999.99999", "-1.00001", "-0.00001", "0", "0.00001", "10", "999999999999999.99999"],
    ),
    ("BIT(64)", &["0", "1", "255", "256", "9223372036854775808", "18446744073709551615"]),
    ("BIT(1)", &["0", "1"]),
    ("YEAR", &["0", "1901", "1970", "2000", "2155"]),
    (
        "TIME(6)",
        &["'-838:59:59'", "'-00:00:01'", "'-00:00:00.000001'", "'00:00:00'", "'00:00:00.000001'", "'838:59:59'"],
    ),
    ("ENUM('z','y','a','b','1')", &["'z'", "'y'", "'a'", "'b'", "'1'"]),
    ("SET('z','y','a')", &["''", "'z'", "'y'", "'z,y'", "'a'", "'z,a'", "'z,y,a'"]),
    (
        "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci",
        &[
            "''",
            "' '",
            "'a'='A'='ä'",
            "'a '='Ä '",
            "'a\\t'",
            "'a!'",
            "'ab'='AB'",
            "'ß'='ss'='SS'",
            "'z'",
            "'\u{1f600}'",
            "'\u{65e5}\u{672c}'",
        ],
    ),
    (
        "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_as_cs",
        &["''", "' '", "'a'", "'A'", "'ä'", "'a '", "'a\\t'", "'a!'", "'ß'", "'ss'", "'\u{1f600}'"],
    ),
    (
        "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
        &["''=' '", "'a'='A'='ä'='a '='A  '", "'a\\t'", "'a!'", "'ab'", "'ß'='s'", "'ss'", "'\u{1f600}'='\u{1f601}'"],
    ),
    (
        "CHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci",
        &["''", "'a'='A'='ä'", "'a\\t'", "'a!'", "'ab'", "'ß'='ss'='SS'", "'ßa'='ssa'", "'z'", "'\u{1f600}'"],
    ),
    (
        "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci",
        &["''=' '", "'a'='A '", "'a\\t'", "'\u{fdfa}'", "'ß'='ss'", "'\u{1f600}'"],
    ),
    (
        "VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_swedish_ci",
        &["''=' '", "'a'='A'='a '", "'a\\t'", "'ä'='Ä'", "'ö'", "'z'"],
    ),
    (
        "VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german2_ci",
        &["'a'='A'", "'ae'='ä'", "'af'", "'ß'='ss'='ss '", "'st'"],
    ),
    (
        "VARCHAR(20) CHARACTER SET gbk COLLATE gbk_chinese_ci",
        &["''", "'a'='A'", "'a\\t'", "'\u{4e2d}'", "'\u{6587}'", "'a\u{4e2d}'"],
    ),
    (
        "CHAR(20) CHARACTER SET cp932 COLLATE cp932_japanese_ci",
        &["''", "'a'='A'", "'a\\t'", "'\u{65e5}'", "'\u{672c}a'"],
    ),
    (
        "VARCHAR(20) CHARACTER SET utf16 COLLATE utf16_general_ci",
        &["''=' '", "'a'='A'='ä'", "'a\\t'", "'\u{65e5}'", "'\u{1f600}'"],
    ),
    ("VARCHAR(20) CHARACTER SET cp1251 COLLATE cp1251_bin", &["''=' '", "'a'", "'A'", "'a\\t'", "'ж'", "'Ж'"]),
    ("DECIMAL(3,0)", &["-999", "-10", "-9", "0", "9", "10", "999"]),
];

/// Inserts, updates, deletes, key changes and new spellings over a set of keys.
struct Keys {
    name: String,
    /// Each key as its columns' literals.
    keys: Vec<String>,
    /// Which keys are one for the server.
    same: Vec<usize>,
    there: Vec<bool>,
    columns: String,
}

impl Keys {
    fn new(name: String, keys: &[String], columns: &str) -> Self {
        let spellings = keys.iter().enumerate().flat_map(|(n, key)| key.split('=').map(move |one| (n, one.to_owned())));
        let (same, keys): (Vec<usize>, Vec<String>) = spellings.unzip();
        Self { name, there: vec![false; keys.len()], keys, same, columns: columns.to_owned() }
    }

    /// The key that is there for the server when `i` is asked for.
    fn other(&self, i: usize) -> Option<usize> {
        (0..self.keys.len()).find(|j| self.there[*j] && self.same[*j] == self.same[i])
    }

    fn change(&mut self, rng: &mut fastrand::Rng) -> String {
        let i = rng.usize(0..self.keys.len());
        let j = rng.usize(0..self.keys.len());
        let other = self.other(i);
        let from = other.unwrap_or(i);
        let free = self.other(j).is_none_or(|k| k == from);
        let Self { name, keys, there, columns, .. } = self;
        let (a, b) = (&keys[i], &keys[j]);
        if other.is_none() {
            there[i] = true;
            return format!("INSERT INTO {name} ({columns}, v) VALUES ({a}, 0)");
        }
        if rng.bool() && free {
            there[from] = false;
            there[j] = true;
            let set: Vec<String> = columns.split(", ").zip(b.split(", ")).map(|(c, v)| format!("{c} = {v}")).collect();
            return format!("UPDATE {name} SET {}, v = v + 1 WHERE ({columns}) = ({a})", set.join(", "));
        }
        if rng.u8(0..3) == 0 {
            there[from] = false;
            return format!("DELETE FROM {name} WHERE ({columns}) = ({a})");
        }
        format!("UPDATE {name} SET v = v + 1 WHERE ({columns}) = ({a})")
    }
}

#[test]
fn every_key_type_with_changes_while_the_rows_are_read() {
    let Some(server) = server::shared() else { return };
    let mut rng = fastrand::Rng::with_seed(17);
    let mut session = server.session().unwrap();
    session.sql("CREATE DATABASE va_keys; USE va_keys; SET time_zone = '+00:00'").unwrap();
    let mut tables = Vec::new();
    for (n, (kind, keys)) in KEYS.iter().enumerate() {
        let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
        session.sql(&format!("CREATE TABLE k{n} (k {kind} NOT NULL PRIMARY KEY, v INT NOT NULL)")).unwrap();
        tables.push(Keys::new(format!("k{n}"), &keys, "k"));
    }
    // Composites: every part decides somewhere, prefixes are shared, and the key's order is not the columns' order.
    let mut composite = Vec::new();
    for a in ["-1", "0", "2147483647"] {
        for b in ["''", "'a'", "'a\\t'", "'\u{1f600}'"] {
            for c in ["X'00'", "X'0001'", "X'FF'"] {
                for d in ["'1000-01-01'", "'2024-02-29'"] {
                    composite.push(format!("{a}, {b}, {c}, {d}"));
                }
            }
        }
    }
    session
        .sql(
            "CREATE TABLE comp (d DATE NOT NULL, v INT NOT NULL, c VARBINARY(2) NOT NULL, a INT NOT NULL, \
             b VARCHAR(3) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, PRIMARY KEY (a, b, c, d))",
        )
        .unwrap();
    tables.push(Keys::new("comp".to_owned(), &composite, "a, b, c, d"));
    // The same with parts that the server weighs, lists and counts.
    let mut mixed = Vec::new();
    for a in ["'x'", "'y'", "'z'"] {
        for b in ["''", "'a'", "'a\\t'", "'ß'"] {
            for c in ["'-00:00:01'", "'12:00:00'"] {
                for d in ["'a'", "'b '", "'\u{1f600}'"] {
                    mixed.push(format!("{a}, {b}, {c}, {d}"));
                }
            }
        }
    }
    mixed.push("'x', 'A', '01:00:00', 'c'='x', 'ä', '01:00:00', 'C'='x', 'a', '01:00:00', 'c'".to_owned());
    session
        .sql(
            "CREATE TABLE mixed (d VARCHAR(4) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci NOT NULL, v INT NOT NULL, \
             c TIME NOT NULL, a ENUM('z','y','x') NOT NULL, b VARCHAR(3) CHARACTER SET latin1 COLLATE latin1_german1_ci NOT NULL, \
             PRIMARY KEY (a, b, c, d))",
        )
        .unwrap();
    tables.push(Keys::new("mixed".to_owned(), &mixed, "a, b, c, d"));
    for table in &mut tables {
        for i in 0..table.keys.len() {
            if table.other(i).is_none() && rng.u8(0..4) > 0 {
                table.there[i] = true;
                session
                    .sql(&format!("INSERT INTO {} ({}, v) VALUES ({}, 0)", table.name, table.columns, table.keys[i]))
                    .unwrap();
            }
        }
    }
    let names: Vec<String> = tables.iter().map(|t| t.name.clone()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let done = AtomicBool::new(false);
    let mut rigs = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let changes: Vec<String> = (0..rng.u8(1..6))
                    .map(|_| rng.usize(0..tables.len()))
                    .collect::<Vec<_>>()
                    .into_iter()
                    .map(|t| tables[t].change(&mut rng))
                    .collect();
                session.sql(&format!("BEGIN; {}; COMMIT", changes.join("; "))).unwrap();
            }
        });
        // Several snapshots of the same tables, with small chunks and with kills.
        for (rows, workers, kill) in [(1, 4, false), (2, 3, true), (5, 4, true)] {
            let mut rig = Rig::new(server, &["va_keys.*"]);
            rig.snapshot = format!("chunk_rows = {rows}\nworkers = {workers}");
            rig.flush = "{ interval = \"100ms\" }".to_owned();
            if kill {
                let mut engine = rig.spawn();
                wait_for_rows(&rig, &mut engine, "log_va_keys", "k0", 1);
                engine.kill9().unwrap();
            }
            rig.run_well();
            rigs.push(rig);
        }
        done.store(true, Ordering::Relaxed);
    });
    // Where spaces at the end do not count the two are one key for the server, and two for the sink.
    let mut session = server.session().unwrap();
    session
        .sql("USE va_keys; DELETE FROM k8 WHERE k = 'pad'; INSERT INTO k8 VALUES ('pad', 1); UPDATE k8 SET k = 'pad ' WHERE k = 'pad'")
        .unwrap();
    for rig in rigs {
        rig.run_well();
        rig.assert_exact(&server.endpoint(), "va_keys", &names);
    }
}

/// Without a primary key a unique one serves, or the one that the server makes; without any the table is refused.
#[test]
fn tables_without_a_primary_key() {
    let Some(server) = server::shared() else { return };
    let mut session = server.session().unwrap();
    session
        .sql(
            "CREATE DATABASE va_unique; USE va_unique; SET cte_max_recursion_depth = 10000;
             CREATE TABLE u (n INT, code VARCHAR(10) NOT NULL, v INT NOT NULL, b INT NOT NULL, UNIQUE KEY nullable (n),
               UNIQUE KEY wide (code, b), UNIQUE KEY `c``ode` (code));
             SET SESSION sql_generate_invisible_primary_key = ON; CREATE TABLE g (code VARCHAR(10), v INT NOT NULL);
             SET SESSION sql_generate_invisible_primary_key = OFF;
             INSERT INTO u WITH RECURSIVE r(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM r WHERE n < 999)
               SELECT IF(n % 2, n, NULL), CONCAT('c', n), 0, n FROM r;
             INSERT INTO g SELECT 'twice', 1 FROM u",
        )
        .unwrap();
    let mut rig = Rig::new(server, &["va_unique.*"]);
    rig.snapshot = "chunk_rows = 50".to_owned();
    let mut engine = rig.spawn();
    for round in 0..40 {
        session
            .sql(&format!(
                "UPDATE u SET v = v + 1 WHERE code LIKE 'c%{round}'; UPDATE u SET code = UPPER(code) WHERE b = {round};
                 DELETE FROM u WHERE b = 999 - {round}; INSERT INTO u VALUES (NULL, 'new{round}', 0, {round});
                 UPDATE g SET v = v + 1 LIMIT 3; DELETE FROM g LIMIT 1; INSERT INTO g VALUES (NULL, {round})"
            ))
            .unwrap();
        if round == 20 {
            wait_for_rows(&rig, &mut engine, "up_va_unique", "u", 100);
            engine.kill9().unwrap();
            engine = rig.spawn();
        }
    }
    stop_well(engine);
    rig.run_well();
    for (table, key) in [("u", "code"), ("g", "my_row_id")] {
        assert_same(&rig, server, "va_unique", table, key);
    }
    // The index goes: nothing may be matched by it any more.
    session.sql("DROP INDEX `c``ode` ON u").unwrap();
    let output = rig.run();
    assert_eq!(output.exit.code, 1, "{}", output.stderr);
    assert!(output.stderr.contains("va_unique.u") && output.stderr.contains("unique index c`ode"), "{}", output.stderr);

    session
        .sql("CREATE DATABASE va_keyless; CREATE TABLE va_keyless.t (a INT UNIQUE, f DOUBLE NOT NULL UNIQUE, v INT)")
        .unwrap();
    session.sql("CREATE TABLE va_keyless.none (a INT)").unwrap();
    let output = Rig::new(server, &["va_keyless.*"]).run();
    assert_eq!(output.exit.code, 2, "{}", output.stderr);
    for words in [
        "va_keyless.t: key column f is a floating-point number",
        "va_keyless.none has no primary key and no unique key",
    ] {
        assert!(output.stderr.contains(words), "{words}: {}", output.stderr);
    }
}

/// Fails unless the upsert target has the rows of the source.
fn assert_same(rig: &Rig, server: &Server, database: &str, table: &str, key: &str) {
    let columns = if table == "u" { "code, n, v, b" } else { "my_row_id, code, v" };
    let here: BTreeSet<Vec<String>> =
        server.sql(&format!("SELECT {columns} FROM {database}.{table}")).into_iter().collect();
    let (names, rows) = rig.table(&format!("up_{database}"), table).unwrap();
    assert_eq!(names[0], key);
    let order: Vec<usize> = columns.split(", ").map(|c| names.iter().position(|n| n == c).unwrap()).collect();
    let text = |row: &[Option<String>]| -> Vec<String> {
        order.iter().map(|i| row[*i].clone().unwrap_or_else(|| "NULL".to_owned())).collect()
    };
    let there: BTreeSet<Vec<String>> = rows.iter().map(|row| text(row)).collect();
    assert_eq!(here, there, "{table}");
}

#[test]
fn a_composite_key_is_walked_in_small_chunks_under_writes() {
    let Some(server) = server::shared() else { return };
    let mut session = server.session().unwrap();
    session
        .sql(
            "CREATE DATABASE va_walk; USE va_walk; SET cte_max_recursion_depth = 10000;
             CREATE TABLE t (a SMALLINT NOT NULL, b VARCHAR(6) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, c BINARY(2) NOT NULL,
               v INT NOT NULL, PRIMARY KEY (a, b, c));
             INSERT INTO t WITH RECURSIVE r(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM r WHERE n < 2999)
               SELECT n MOD 7 - 3, CONCAT('p', n DIV 7 MOD 40, IF(n MOD 2, '\\t', '')), UNHEX(LPAD(HEX(n DIV 280), 4, '0')), 0 FROM r",
        )
        .unwrap();
    let mut rig = Rig::new(server, &["va_walk.t"]);
    rig.snapshot = "chunk_rows = 37".to_owned();
    let mut engine = rig.spawn();
    let mut rng = fastrand::Rng::with_seed(4);
    let deadline = Instant::now() + PATIENCE / 2;
    while rig.row_count("up_va_walk", "t") < 2500 {
        let (a, b) = (rng.i32(-3..4), rng.u8(0..40));
        session
            .sql(&format!(
                "UPDATE t SET v = v + 1 WHERE a = {a} AND b LIKE 'p{b}%'; DELETE FROM t WHERE a = {a} AND b = 'p{b}' LIMIT 1;
                 UPDATE t SET a = a + 100 WHERE a = {a} AND b = 'p{}' LIMIT 1; UPDATE t SET a = a - 100 WHERE a > 90 LIMIT 1",
                rng.u8(0..40)
            ))
            .unwrap();
        assert!(engine.try_wait().unwrap().is_none() && Instant::now() < deadline, "{}", engine.stderr());
    }
    stop_well(engine);
    rig.run_well();
    rig.assert_exact(&server.endpoint(), "va_walk", &["t"]);
}
