//! The snapshot's statements on a real server: every chunk is an index range scan, and the order of encoded keys is the
//! server's own.

use millstream_binlog::{Charset, Column, ColumnType, ColumnValue, Date, DateTime, TableSchema, Time, Timestamp};
use millstream_engine::key::{Collations, KeyCodec, KeyValue};
use millstream_engine::merge::Key;
use millstream_engine::snapshot::sql::TableSql;
use millstream_tests::server::{self, Flavor};
use millstream_wire::Connection;

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

const BIT: Part = Part("BIT(60)", || plain(ColumnType::Bit { bits: 60 }), "n * 57646075230342");
const TIME: Part = Part(
    "TIME(6)",
    || plain(ColumnType::Time { fsp: 6 }),
    "CASE n WHEN 0 THEN '-838:59:59' WHEN 1 THEN '838:59:59' ELSE SEC_TO_TIME((n - 10000) * 301.000001) END",
);
const YEAR: Part = Part("YEAR", || plain(ColumnType::Year), "IF(n % 200 = 0, 0, 1901 + n % 200)");
/// Labels in another order than their numbers, and the error value 0.
const ENUM: Part = Part(
    "ENUM('z','y','x','a','b','c','7','1')",
    || plain(ColumnType::Enum { labels: labels(&["z", "y", "x", "a", "b", "c", "7", "1"]), bytes: 1 }),
    "n % 9",
);
const SET: Part = Part(
    "SET('z','y','x','a','b','c')",
    || plain(ColumnType::Set { labels: labels(&["z", "y", "x", "a", "b", "c"]), bytes: 1 }),
    "n % 64",
);

fn labels(labels: &[&str]) -> std::sync::Arc<[String]> {
    labels.iter().map(|l| (*l).to_owned()).collect()
}

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
        ColumnType::Bit { .. } | ColumnType::Enum { .. } | ColumnType::Set { .. } => format!("{name} + 0"),
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
        ColumnType::Bit { .. } => KeyValue::Bit(text.parse().unwrap()),
        ColumnType::Year => KeyValue::Year(text.parse().unwrap()),
        ColumnType::Enum { .. } => KeyValue::Enum(text.parse().unwrap()),
        ColumnType::Set { .. } => KeyValue::Set(text.parse().unwrap()),
        ColumnType::Time { .. } => {
            let (negative, clock) = text.strip_prefix('-').map_or((false, text), |clock| (true, clock));
            let numbers: Vec<u32> = clock.split([':', '.']).map(|n| n.parse().unwrap()).collect();
            KeyValue::Time(Time {
                negative,
                hours: u16::try_from(numbers[0]).unwrap(),
                minutes: u8::try_from(numbers[1]).unwrap(),
                seconds: u8::try_from(numbers[2]).unwrap(),
                micros: numbers[3],
            })
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

    let e = ColumnType::Enum { labels: labels(&["x", "y", "z"]), bytes: 1 };
    let s = ColumnType::Set { labels: labels(&["a", "b", "c"]), bytes: 1 };
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
    let codec = KeyCodec::new(&schema, &Collations::default()).unwrap();
    let sql = TableSql::new(&schema, &codec, None);

    // The server's order is the order of the encoded keys.
    let keys: Vec<Key> = rows
        .iter()
        .map(|row| {
            let values: Vec<KeyValue> = row.iter().zip(&key_columns).map(|(text, c)| value(text, c)).collect();
            let mut key = Vec::new();
            codec.encode_parts(values.iter().map(KeyValue::as_value), &mut key).unwrap();
            key.into()
        })
        .collect();
    for (i, pair) in keys.windows(2).enumerate() {
        assert!(pair[0] < pair[1], "{name}: row {i} {:?} is not below {:?}", rows[i], rows[i + 1]);
    }

    // Every shape of a chunk is a scan of the primary key's range, without a sort, and holds the rows it should.
    let (low, high) = (7_000, 7_900);
    let (l, h) = (Some(&keys[low]), Some(&keys[high]));
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
    let bounds: Vec<String> = keys
        .iter()
        .enumerate()
        .filter(|(i, _)| *i < 40 || i % 997 == 0)
        .map(|(i, key)| {
            let text = sql.chunk(i.checked_sub(1).map(|j| &keys[j]), Some(key), 10).unwrap();
            format!("SELECT COUNT(*), '{i}' FROM ({text}) chunk")
        })
        .collect();
    let got = server.sql(&format!("{SESSION} {}", bounds.join(";")));
    assert_eq!(got.len(), bounds.len());
    assert!(got.iter().all(|row| row[0] == "1"), "{name}: {got:?}");

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

/// MariaDB's own types: the order of their encoded keys is the server's, and bounds are ranges of the index.
#[test]
fn uuids_and_addresses_of_mariadb() {
    // Of every version and variant that the server takes.
    let uuid =
        "CONCAT_WS('-', SUBSTR(m, 1, 8), SUBSTR(m, 9, 4), SUBSTR(m, 13, 4), SUBSTR(m, 17, 4), SUBSTR(m, 21, 12))";
    let inet4 = "CONCAT_WS('.', seq % 256, seq * 7 % 256, seq DIV 256, seq * 3 % 256)";
    let inet6 = "CONCAT_WS(':', SUBSTR(m, 1, 2), SUBSTR(m, 9, 4), '', SUBSTR(m, 17, 4), SUBSTR(m, 21, 3))";
    let parse = |ty: &ColumnType, text: &str| match ty {
        ColumnType::Inet4 => KeyValue::Inet4(text.parse::<std::net::Ipv4Addr>().unwrap().octets()),
        ColumnType::Inet6 => KeyValue::Inet6(text.parse::<std::net::Ipv6Addr>().unwrap().octets()),
        _ => KeyValue::Uuid(u128::from_str_radix(&text.replace('-', ""), 16).unwrap().to_be_bytes()),
    };
    for flavor in [Flavor::Mariadb1011, Flavor::Mariadb118] {
        let Some(server) = server::shared_of(flavor) else { continue };
        server.sql("CREATE DATABASE snapshot_sql");
        let types = [
            ("UUID", ColumnType::Uuid, uuid),
            ("INET4", ColumnType::Inet4, inet4),
            ("INET6", ColumnType::Inet6, inet6),
        ];
        for (name, ty, made) in types {
            let rows = server.sql(&format!(
                "USE snapshot_sql; CREATE TABLE {name} (k {name} PRIMARY KEY, filler VARCHAR(200));
                 INSERT IGNORE INTO {name} SELECT {made}, REPEAT('f', 100) FROM (SELECT seq, MD5(seq) AS m FROM seq_1_to_5000) s;
                 ANALYZE TABLE {name};"
            ));
            drop(rows);
            let rows = server.sql(&format!("SELECT k FROM snapshot_sql.{name} ORDER BY k"));
            assert!(rows.len() > 2000, "{flavor} {name}: {} rows", rows.len());
            let schema = TableSchema {
                database: "snapshot_sql".to_owned(),
                table: name.to_owned(),
                columns: vec![Column { name: "k".to_owned(), ..plain(ty.clone()) }],
                key: vec![0],
            };
            let codec = KeyCodec::new(&schema, &Collations::default()).unwrap();
            let sql = TableSql::new(&schema, &codec, None);
            let keys: Vec<Key> = rows
                .iter()
                .map(|row| {
                    let value = parse(&ty, &row[0]);
                    let mut key = Vec::new();
                    codec.encode_parts([value.as_value()], &mut key).unwrap();
                    assert_eq!(codec.decode(&key.as_slice().into()).unwrap(), [value]);
                    key.into()
                })
                .collect();
            for (i, pair) in keys.windows(2).enumerate() {
                assert!(pair[0] < pair[1], "{flavor} {name}: {:?} is not below {:?}", rows[i], rows[i + 1]);
            }
            let text = sql.chunk(Some(&keys[700]), Some(&keys[800]), 1000).unwrap();
            assert_eq!(server.sql(&text), rows[701..=800], "{flavor} {text}");
            let plan = server.sql(&format!("EXPLAIN {text}"));
            assert_eq!((plan[0][3].as_str(), plan[0][5].as_str()), ("range", "PRIMARY"), "{flavor} {text}: {plan:?}");
            let (first, last) = (&keys[0], keys.last().unwrap());
            for dive in sql.dives(first, last, 4).unwrap() {
                let found = server.sql(&dive.sql);
                assert!(rows.contains(&found[0]), "{flavor} {}: {found:?}", dive.sql);
            }
        }
    }
}

/// The one key that a statement selects, encoded.
fn at(server: &server::Server, text: &str, shown: &[String], columns: &[Column], codec: &KeyCodec) -> Option<Key> {
    let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
    let rows = server.sql(&format!("{SESSION} SELECT {} FROM ({text}) one ({})", shown.join(", "), names.join(", ")));
    let row = rows.first()?;
    let values: Vec<KeyValue> = row.iter().zip(columns).map(|(text, c)| value(text, c)).collect();
    let mut key = Vec::new();
    codec.encode_parts(values.iter().map(KeyValue::as_value), &mut key).unwrap();
    Some(key.into())
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
fn keys_of_numbers_and_clocks() {
    check("bits", &[BIT]);
    check("clock", &[TIME]);
    check("years", &[YEAR, INT]);
}

#[test]
fn enum_and_set_keys() {
    check("en", &[ENUM, INT]);
    check("se", &[SET, INT]);
    check("three_en", &[TENANT, ENUM, INT]);
    check("last_se", &[INT, ENUM, SET]);
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

/// Texts around everything that collations treat in their own ways: case, accents, expansions, contractions, ignorable
/// characters, what sorts below a space, and spaces at the end.
const TEXTS: [&str; 44] = [
    "",
    " ",
    "  ",
    "a",
    "a ",
    "a  ",
    "a\t",
    "a\n",
    "a!",
    "a\u{1}",
    "A",
    "A ",
    "ab",
    "Ab",
    "aB",
    "b",
    "B",
    "Z",
    "z",
    "1",
    "10",
    "2",
    "-",
    "_",
    "~",
    "a-b",
    "a b",
    "\u{e4}",
    "\u{c4}",
    "ae",
    "oe",
    "\u{f6}",
    "\u{df}",
    "ss",
    "SS",
    "s",
    "ch",
    "cz",
    "ll",
    "dz",
    "\u{e9}t\u{e9}",
    "\u{1f600}",
    "\u{65e5}\u{672c}",
    "\u{fdfa}",
];

/// What the server's own comparison says about every two texts is what our bytes say, for every collation it has.
#[test]
fn weights_order_text_as_every_collation_does() {
    let Some(server) = server::shared() else { return };
    let mut session = server.session().unwrap();
    let hex = |text: &str| text.bytes().map(|b| format!("{b:02x}")).collect::<String>();
    let texts: Vec<String> = TEXTS.iter().enumerate().map(|(i, t)| format!("({i}, X'{}')", hex(t))).collect();
    session
        .sql(&format!(
            "CREATE DATABASE snapshot_weights; USE snapshot_weights; SET SESSION group_concat_max_len = 1 << 20;
             CREATE TABLE t (i INT PRIMARY KEY, s VARCHAR(9) CHARACTER SET utf8mb4 NOT NULL); INSERT INTO t VALUES {}",
            texts.join(", ")
        ))
        .unwrap();
    let collations = session
        .sql("SELECT ID, COLLATION_NAME, CHARACTER_SET_NAME FROM information_schema.COLLATIONS WHERE COLLATION_NAME <> 'binary'")
        .unwrap();
    assert!(collations.len() > 250, "{}", collations.len());
    let schema = |ids: &[u16]| TableSchema {
        database: "d".to_owned(),
        table: "t".to_owned(),
        columns: ids
            .iter()
            .map(|id| Column {
                name: format!("k{id}"),
                ..column(ColumnType::VarChar { max_bytes: 40 }, Charset::from_collation(*id).unwrap(), *id)
            })
            .collect(),
        key: (0..ids.len()).collect(),
    };
    let ids: Vec<u16> = collations.iter().map(|row| row[0].parse().unwrap()).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let known = runtime.block_on(async {
        let mut connection = Connection::connect(&server.connect_options("repl")).await.unwrap();
        Collations::read(&mut connection, [&schema(&ids)]).await.unwrap()
    });
    let unhex = |text: &str| -> Vec<u8> {
        let pairs = text.as_bytes().chunks(2);
        pairs.map(|p| u8::from_str_radix(core::str::from_utf8(p).unwrap(), 16).unwrap()).collect()
    };
    let mut refused = Vec::new();
    for (row, id) in collations.iter().zip(ids) {
        let (name, charset) = (&row[1], &row[2]);
        let Ok(codec) = KeyCodec::new(&schema(&[id]), &known) else {
            refused.push(name.as_str());
            continue;
        };
        if codec.weighed().next().is_none() {
            continue;
        }
        let text = |of: &str| format!("CONVERT({of} USING {charset}) COLLATE {name}");
        // What the set does not have became a question mark, which is a text like any other.
        let weights = session.sql(&format!("SELECT HEX(WEIGHT_STRING({})) FROM t ORDER BY i", text("s"))).unwrap();
        let compared =
            format!("SELECT GROUP_CONCAT(STRCMP({}, {}) + 1 ORDER BY a.i, b.i SEPARATOR '')", text("a.s"), text("b.s"));
        let theirs = session.sql(&format!("{compared} FROM t a, t b")).unwrap();
        let charset = Charset::from_collation(id).unwrap();
        let encoded = |weight: &[String]| {
            let (weight, mut key) = (unhex(&weight[0]), Vec::new());
            let value = |_| Some(ColumnValue::Text { bytes: b"", charset });
            codec.encode(value, |_, _| Some(&weight), &mut key).unwrap();
            key
        };
        let ours: Vec<Vec<u8>> = weights.iter().map(|w| encoded(w)).collect();
        let orders = ours.iter().flat_map(|a| ours.iter().map(move |b| a.cmp(b) as i8 + 1));
        for (at, (ours, theirs)) in orders.zip(theirs[0][0].bytes()).enumerate() {
            let (a, b) = (TEXTS[at / TEXTS.len()], TEXTS[at % TEXTS.len()]);
            assert_eq!(ours, theirs.cast_signed() - 48, "{name}: {a:?} and {b:?}");
        }
    }
    refused.sort_unstable();
    assert_eq!(refused, ["cp1250_czech_cs", "latin2_czech_cs"]);
}
