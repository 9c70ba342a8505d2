//! The snapshot's statements on a real server: every chunk is an index range scan, and the order of encoded keys is the
//! server's own.

use millstream_binlog::{Charset, Column, ColumnType, Date, DateTime, TableSchema, Timestamp};
use millstream_engine::key::{KeyCodec, KeyValue};
use millstream_engine::snapshot::sql::TableSql;
use millstream_tests::server;

const ROWS: usize = 20_000;

/// As the engine's snapshot sessions run.
const SESSION: &str = "SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00', cte_max_recursion_depth = 30000;";

/// One key column: its SQL type, our type, and a value for row `n` that is unique together with the others.
struct Part(&'static str, fn() -> Column, &'static str);

fn column(ty: ColumnType, charset: Charset, collation: u16) -> Column {
    Column { name: String::new(), ty, nullable: false, charset, collation }
}

fn plain(ty: ColumnType) -> Column {
    column(ty, Charset::Binary, 63)
}

const INT: Part = Part("INT", || plain(ColumnType::Int { unsigned: false }), "n * 7 - 50000");
const BIGINT_UNSIGNED: Part =
    Part("BIGINT UNSIGNED", || plain(ColumnType::BigInt { unsigned: true }), "18446744073709551615 - n * 3");
const TENANT: Part = Part("SMALLINT", || plain(ColumnType::SmallInt { unsigned: false }), "n % 37 - 10");
const BINARY: Part =
    Part("BINARY(16)", || plain(ColumnType::Binary { bytes: 16 }), "UNHEX(SUBSTR(SHA2(n, 256), 1, 32))");
const VARBINARY: Part = Part(
    "VARBINARY(40)",
    || plain(ColumnType::VarBinary { max_bytes: 40 }),
    "CONCAT(UNHEX(SUBSTR(SHA2(n, 256), 1, 2 * (n % 9))), X'00', n, IF(n % 3 = 0, X'0000', ''))",
);
const LATIN1: Part = Part(
    "VARCHAR(40) CHARACTER SET latin1 COLLATE latin1_bin",
    || column(ColumnType::VarChar { max_bytes: 40 }, Charset::Latin1, 47),
    "CONCAT(UNHEX(SUBSTR(SHA2(n, 256), 1, 2 * (n % 9))), n DIV 2, IF(n % 2, CHAR(9), ''), IF(n % 5 = 0, '  ', ''))",
);
const CHAR_UTF8MB4: Part = Part(
    "CHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    || column(ColumnType::Char { max_bytes: 120 }, Charset::Utf8mb4, 46),
    "CONCAT(ELT(1 + n % 5, '', 'é', '😀', 'zzzzzzz', '12345678'), n DIV 2, IF(n % 2, '\\t', ''))",
);
const NO_PAD: Part = Part(
    "VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin",
    || column(ColumnType::VarChar { max_bytes: 120 }, Charset::Utf8mb4, 309),
    "CONCAT(ELT(1 + n % 4, '', 'é', '😀', ' '), n DIV 3, SUBSTR('  ', 1, n % 3))",
);
const DECIMAL: Part =
    Part("DECIMAL(20,4)", || plain(ColumnType::Decimal { precision: 20, scale: 4 }), "(n - 10000) * 123456789.0123");
const DATETIME: Part = Part(
    "DATETIME(6)",
    || plain(ColumnType::DateTime { fsp: 6 }),
    "CASE n WHEN 0 THEN '0000-00-00' WHEN 1 THEN '2010-00-00' WHEN 2 THEN '2010-02-31 01:02:03.4' \
     ELSE '1969-12-31 23:59:59' + INTERVAL n * 1234567890 MICROSECOND END",
);
const DATE: Part = Part(
    "DATE",
    || plain(ColumnType::Date),
    "CASE n WHEN 0 THEN '0000-00-00' WHEN 1 THEN '2010-00-00' WHEN 2 THEN '2010-02-31' \
     ELSE '1950-01-01' + INTERVAL n DAY END",
);
const TIMESTAMP: Part = Part(
    "TIMESTAMP(3)",
    || plain(ColumnType::Timestamp { fsp: 3 }),
    "CASE n WHEN 0 THEN '0000-00-00' ELSE '1970-01-01 00:00:01' + INTERVAL n * 12345678 * 1000 MICROSECOND END",
);

/// The server's text of a key part: hexadecimal for strings.
fn shown(name: &str, ty: &ColumnType) -> String {
    match ty {
        ColumnType::Binary { .. }
        | ColumnType::VarBinary { .. }
        | ColumnType::Char { .. }
        | ColumnType::VarChar { .. } => {
            format!("HEX({name})")
        }
        ColumnType::Timestamp { .. } => format!("UNIX_TIMESTAMP({name})"),
        _ => name.to_owned(),
    }
}

fn value(text: &str, column: &Column) -> KeyValue {
    let part = |range: core::ops::Range<usize>| text.get(range).unwrap();
    let bytes =
        || (0..text.len()).step_by(2).map(|i| u8::from_str_radix(part(i..i + 2), 16).unwrap()).collect::<Vec<u8>>();
    let two_digits = |at: usize| part(at..at + 2).parse().unwrap();
    let date = || Date { year: part(0..4).parse().unwrap(), month: two_digits(5), day: two_digits(8) };
    match &column.ty {
        ColumnType::BigInt { unsigned: true } => KeyValue::UInt(text.parse().unwrap()),
        ColumnType::Int { .. } | ColumnType::SmallInt { .. } => KeyValue::Int(text.parse().unwrap()),
        ColumnType::Decimal { .. } => KeyValue::Decimal(text.to_owned()),
        ColumnType::Date => KeyValue::Date(date()),
        ColumnType::DateTime { .. } => KeyValue::DateTime(DateTime {
            date: date(),
            hour: two_digits(11),
            minute: two_digits(14),
            second: two_digits(17),
            micros: part(20..26).parse().unwrap(),
        }),
        ColumnType::Timestamp { .. } => {
            let (seconds, millis) = text.split_once('.').unwrap();
            let micros = millis.parse::<u32>().unwrap() * 1000;
            KeyValue::Timestamp(Timestamp { seconds: seconds.parse().unwrap(), micros })
        }
        ColumnType::Binary { .. } | ColumnType::VarBinary { .. } => KeyValue::Bytes(bytes()),
        _ => KeyValue::Text { bytes: bytes(), charset: column.charset },
    }
}

/// Fills a table with this key and checks everything about it.
fn check(name: &str, parts: &[Part]) {
    let Some(server) = server::shared() else { return };
    let mut columns: Vec<Column> = Vec::new();
    for (i, Part(_, column, _)) in parts.iter().enumerate() {
        columns.push(Column { name: format!("k{i}"), ..column() });
    }
    let names: Vec<String> = columns.iter().map(|c| c.name.clone()).collect();
    let ddl: Vec<String> = parts.iter().zip(&names).map(|(p, name)| format!("{name} {} NOT NULL", p.0)).collect();
    let values: Vec<&str> = parts.iter().map(|p| p.2).collect();
    let shown: Vec<String> = columns.iter().map(|c| shown(&c.name, &c.ty)).collect();
    let key = names.join(", ");
    let rows = server.sql(&format!(
        "{SESSION} CREATE DATABASE IF NOT EXISTS snapshot_sql; USE snapshot_sql;
         CREATE TABLE {name} ({}, e ENUM('x','y','z'), s SET('a','b','c'), v INT, filler VARCHAR(200), \
         PRIMARY KEY ({key}), KEY (v), KEY (e));
         INSERT INTO {name} WITH RECURSIVE r(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM r WHERE n + 1 < {ROWS})
         SELECT {}, 1 + n % 3, n % 8, n % 100, REPEAT('f', 100) FROM r;
         DO (SELECT COUNT(*) FROM {name});
         SELECT {} FROM {name} ORDER BY {key};",
        ddl.join(", "),
        values.join(", "),
        shown.join(", "),
    ));
    assert_eq!(rows.len(), ROWS, "{name}");
    server.sql(&format!("ANALYZE TABLE snapshot_sql.{name}"));

    let label = |labels: &[&str]| labels.iter().map(|l| (*l).to_owned()).collect::<Vec<String>>().into();
    let e = ColumnType::Enum { labels: label(&["x", "y", "z"]), bytes: 1 };
    let s = ColumnType::Set { labels: label(&["a", "b", "c"]), bytes: 1 };
    let key_columns = columns.clone();
    for (name, ty) in [("e", e), ("s", s), ("v", ColumnType::Int { unsigned: false })] {
        columns.push(Column { name: name.to_owned(), ..plain(ty) });
    }
    let schema = TableSchema {
        database: "snapshot_sql".to_owned(),
        table: name.to_owned(),
        columns,
        key: (0..parts.len()).collect(),
    };
    let codec = KeyCodec::new(&schema).unwrap();
    let sql = TableSql::new(&schema, &codec);

    // The server's order is the order of the encoded keys.
    let keys: Vec<Vec<u8>> = rows
        .iter()
        .map(|row| {
            let values: Vec<KeyValue> = row.iter().zip(&key_columns).map(|(text, c)| value(text, c)).collect();
            let mut key = Vec::new();
            codec.encode_parts(values.iter().map(KeyValue::as_value), &mut key).unwrap();
            key
        })
        .collect();
    for (i, pair) in keys.windows(2).enumerate() {
        assert!(pair[0] < pair[1], "{name}: row {i} {:?} is not below {:?}", rows[i], rows[i + 1]);
    }

    // Every shape of a chunk is a scan of the primary key's range, without a sort, and holds the rows it should.
    let (low, high) = (7_000, 7_900);
    let (l, h) = (Some(keys[low].as_slice()), Some(keys[high].as_slice()));
    for (low, high, access, limit, count) in [
        (None, None, "index", 1_000, 1_000),
        (l, None, "range", 1_000, 1_000),
        (None, h, "range", 100_000, 7_901),
        (l, h, "range", 1_000, 900),
        (l, h, "range", 10, 10),
    ] {
        let text = sql.chunk(low, high, limit).unwrap();
        let plan = server.sql(&format!("{SESSION} EXPLAIN FORMAT=TRADITIONAL {text}"));
        assert_eq!(plan.len(), 1, "{text}: {plan:?}");
        let (found, used, extra) = (plan[0][4].as_str(), plan[0][6].as_str(), plan[0][11].as_str());
        assert_eq!((found, used), (access, "PRIMARY"), "{text}: {plan:?}");
        assert!(!extra.contains("filesort") && !extra.contains("temporary"), "{text}: {plan:?}");
        let got = server.sql(&format!("{SESSION} SELECT COUNT(*) FROM ({text}) chunk"));
        assert_eq!(got, [[count.to_string()]], "{text}");
    }
    // The bounds' own rows: the low one is outside, the high one inside. Trailing spaces and invalid dates included.
    for (i, key) in keys.iter().enumerate().filter(|(i, _)| *i < 40 || i % 997 == 0) {
        let below = i.checked_sub(1).map(|j| keys[j].as_slice());
        let text = sql.chunk(below, Some(key), 10).unwrap();
        let got = server.sql(&format!("{SESSION} SELECT COUNT(*) FROM ({text}) chunk"));
        assert_eq!(got, [["1"]], "{text}");
    }

    // Dives answer with real keys that cut the table into pieces of about the same size.
    for (text, key) in [(sql.first(), &keys[0]), (sql.last(), &keys[ROWS - 1])] {
        let plan = server.sql(&format!("{SESSION} EXPLAIN FORMAT=TRADITIONAL {text}"));
        assert_eq!((plan[0][4].as_str(), plan[0][6].as_str()), ("index", "PRIMARY"), "{text}: {plan:?}");
        assert_eq!(at(server, &text, &shown, &key_columns, &codec), Some(key.clone()), "{text}");
    }
    for dive in sql.dives(&keys[0], &keys[ROWS - 1], 4).unwrap() {
        let plan = server.sql(&format!("{SESSION} EXPLAIN FORMAT=TRADITIONAL {}", dive.sql));
        assert_eq!((plan[0][4].as_str(), plan[0][6].as_str()), ("range", "PRIMARY"), "{}: {plan:?}", dive.sql);
        let found = at(server, &dive.sql, &shown, &key_columns, &codec).unwrap();
        assert!(keys.binary_search(&found).is_ok(), "{}", dive.sql);
    }
}

/// The one key that a statement selects, encoded.
fn at(server: &server::Server, text: &str, shown: &[String], columns: &[Column], codec: &KeyCodec) -> Option<Vec<u8>> {
    let rows = server.sql(&format!("{SESSION} SELECT {} FROM ({text}) one", shown.join(", ")));
    let row = rows.first()?;
    let values: Vec<KeyValue> = row.iter().zip(columns).map(|(text, c)| value(text, c)).collect();
    let mut key = Vec::new();
    codec.encode_parts(values.iter().map(KeyValue::as_value), &mut key).unwrap();
    Some(key)
}

#[test]
fn integer_keys() {
    check("ints", &[INT]);
    check("big", &[BIGINT_UNSIGNED]);
}

#[test]
fn binary_keys() {
    check("bin", &[BINARY]);
    check("varbin", &[VARBINARY]);
}

#[test]
fn text_keys() {
    check("latin", &[LATIN1]);
    check("utf", &[CHAR_UTF8MB4]);
    check("nopad", &[NO_PAD]);
}

#[test]
fn decimal_and_time_keys() {
    check("deci", &[DECIMAL]);
    check("dt", &[DATETIME]);
    check("da", &[DATE]);
    check("ts", &[TIMESTAMP]);
}

#[test]
fn composite_keys() {
    check("two", &[TENANT, INT]);
    check("three", &[TENANT, VARBINARY, DATETIME]);
    check("three_text", &[TENANT, CHAR_UTF8MB4, DECIMAL]);
    check("three_date", &[DATE, LATIN1, BINARY]);
}

#[test]
fn enum_and_set_come_as_numbers() {
    let Some(server) = server::shared() else { return };
    let rows = server.sql(
        "CREATE DATABASE snapshot_enum; USE snapshot_enum;
         CREATE TABLE t (id INT PRIMARY KEY, e ENUM('7','x'), s SET('1','b','c'));
         INSERT INTO t VALUES (1, '7', '1,c'), (2, 'x', ''), (3, NULL, NULL);
         SELECT CAST(`e` AS UNSIGNED), CAST(`s` AS UNSIGNED) FROM t ORDER BY id;",
    );
    assert_eq!(rows, [["1", "5"], ["2", "0"], ["NULL", "NULL"]]);
}
