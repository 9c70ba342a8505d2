//! Values of every type: what is stored comes back the same by both protocols.

use millstream_tests::server::{Flavor, Server, ServerOptions, or_skip};
use millstream_wire::{Connection, Value};

use super::{execute, on_every_server};

/// A column, its values as SQL, and what a client gets for them.
struct Case {
    column: &'static str,
    rows: Vec<(String, Value<'static>)>,
}

fn case(column: &'static str, rows: Vec<(&str, Value<'static>)>) -> Case {
    Case { column, rows: rows.into_iter().map(|(sql, value)| (sql.to_owned(), value)).collect() }
}

fn date(year: u16, month: u8, day: u8) -> Value<'static> {
    Value::Date { year, month, day }
}

fn at((year, month, day): (u16, u8, u8), (hour, minute, second): (u8, u8, u8), micros: u32) -> Value<'static> {
    Value::DateTime { year, month, day, hour, minute, second, micros }
}

fn span(negative: bool, (days, hours): (u32, u8), minutes: u8, seconds: u8, micros: u32) -> Value<'static> {
    Value::Time { negative, days, hours, minutes, seconds, micros }
}

fn text(text: &'static str) -> Value<'static> {
    Value::Bytes(text.as_bytes())
}

fn numbers() -> Vec<Case> {
    use Value::{Double, Float, Int, UInt};
    vec![
        case("TINYINT", vec![("-128", Int(-128)), ("127", Int(127))]),
        case("TINYINT UNSIGNED", vec![("255", UInt(255))]),
        case("BOOL", vec![("TRUE", Int(1)), ("FALSE", Int(0))]),
        case("SMALLINT", vec![("-32768", Int(-32768))]),
        case("SMALLINT UNSIGNED", vec![("65535", UInt(65535))]),
        case("MEDIUMINT", vec![("-8388608", Int(-8_388_608)), ("8388607", Int(8_388_607))]),
        case("MEDIUMINT UNSIGNED", vec![("16777215", UInt(16_777_215))]),
        case("INT", vec![("-2147483648", Int(i32::MIN.into()))]),
        case("INT UNSIGNED", vec![("4294967295", UInt(u32::MAX.into()))]),
        case("INT(8) ZEROFILL", vec![("42", UInt(42)), ("0", UInt(0))]),
        case("BIGINT", vec![("-9223372036854775808", Int(i64::MIN)), ("9223372036854775807", Int(i64::MAX))]),
        case("BIGINT UNSIGNED", vec![("18446744073709551615", UInt(u64::MAX))]),
        case("BIGINT(20) ZEROFILL", vec![("7", UInt(7))]),
        case("YEAR", vec![("0", UInt(0)), ("1901", UInt(1901)), ("2155", UInt(2155))]),
        case("FLOAT", vec![("1.5", Float(1.5)), ("-0.001", Float(-0.001)), ("1e30", Float(1e30))]),
        case("FLOAT(7,2)", vec![("12345.67", Float(12345.67)), ("-0.01", Float(-0.01))]),
        case(
            "DOUBLE",
            vec![
                ("0.1", Double(0.1)),
                ("-1.7976931348623157e308", Double(f64::MIN)),
                ("2.2250738585072014e-308", Double(f64::MIN_POSITIVE)),
                ("123456789.123456789", Double(123_456_789.123_456_79)),
            ],
        ),
        case("DOUBLE(12,3)", vec![("123456789.125", Double(123_456_789.125))]),
        case("DOUBLE ZEROFILL", vec![("1.5", Double(1.5))]),
        case("DECIMAL(65,30)", vec![(NINES, text(NINES)), ("-0.1", text("-0.100000000000000000000000000000"))]),
        case("DECIMAL(10,0)", vec![("-1", text("-1")), ("0", text("0"))]),
        case("DECIMAL(8,2) ZEROFILL", vec![("12.5", text("000012.50"))]),
        case("BIT(1)", vec![("1", Value::Bytes(&[1]))]),
        case("BIT(9)", vec![("257", Value::Bytes(&[1, 1])), ("0", Value::Bytes(&[0, 0]))]),
        case("BIT(64)", vec![("18446744073709551614", Value::Bytes(&[255, 255, 255, 255, 255, 255, 255, 254]))]),
    ]
}

const NINES: &str = "99999999999999999999999999999999999.999999999999999999999999999999";

fn times() -> Vec<Case> {
    let long = (34, 22);
    vec![
        case(
            "DATE",
            vec![
                ("'0000-00-00'", date(0, 0, 0)),
                ("'1000-01-01'", date(1000, 1, 1)),
                ("'2010-00-00'", date(2010, 0, 0)),
                ("'9999-12-31'", date(9999, 12, 31)),
            ],
        ),
        case(
            "TIME",
            vec![
                ("'00:00:00'", span(false, (0, 0), 0, 0, 0)),
                ("'838:59:59'", span(false, long, 59, 59, 0)),
                ("'-838:59:59'", span(true, long, 59, 59, 0)),
                ("'-00:00:01'", span(true, (0, 0), 0, 1, 0)),
            ],
        ),
        case("TIME(3)", vec![("'-00:00:00.001'", span(true, (0, 0), 0, 0, 1000))]),
        case(
            "TIME(6)",
            vec![
                ("'-16:08:04.010123'", span(true, (0, 16), 8, 4, 10123)),
                ("'24:00:00.000001'", span(false, (1, 0), 0, 0, 1)),
            ],
        ),
        case(
            "DATETIME",
            vec![
                ("'0000-00-00 00:00:00'", at((0, 0, 0), (0, 0, 0), 0)),
                ("'2024-02-29 00:00:00'", at((2024, 2, 29), (0, 0, 0), 0)),
                ("'9999-12-31 23:59:59'", at((9999, 12, 31), (23, 59, 59), 0)),
            ],
        ),
        case("DATETIME(1)", vec![("'1969-12-31 23:59:59.9'", at((1969, 12, 31), (23, 59, 59), 900_000))]),
        case("DATETIME(6)", vec![("'2010-01-01 00:00:00.000001'", at((2010, 1, 1), (0, 0, 0), 1))]),
        case(
            "TIMESTAMP NULL",
            vec![
                ("'0000-00-00 00:00:00'", at((0, 0, 0), (0, 0, 0), 0)),
                ("'1970-01-01 00:00:01'", at((1970, 1, 1), (0, 0, 1), 0)),
                ("'2038-01-19 03:14:07'", at((2038, 1, 19), (3, 14, 7), 0)),
            ],
        ),
        case("TIMESTAMP(6) NULL", vec![("'2024-06-30 12:34:56.789123'", at((2024, 6, 30), (12, 34, 56), 789_123))]),
    ]
}

fn strings(flavor: Flavor) -> Vec<Case> {
    let mut cases = vec![
        case("CHAR(10)", vec![("'ab  '", text("ab")), ("''", text(""))]),
        case("VARCHAR(50)", vec![("'naïve 🦀  '", text("naïve 🦀  "))]),
        // The results' character set is the session's, whatever the column's.
        case("VARCHAR(50) CHARACTER SET latin1", vec![("'é€'", text("é€"))]),
        case("VARCHAR(50) CHARACTER SET utf16", vec![("'é🦀'", text("é🦀"))]),
        case("BINARY(4)", vec![("X'FF00'", Value::Bytes(b"\xff\0\0\0"))]),
        case("VARBINARY(10)", vec![("X'FFFE00'", Value::Bytes(b"\xff\xfe\0")), ("''", Value::Bytes(b""))]),
        case("TEXT", vec![("'text'", text("text"))]),
        case("LONGBLOB", vec![("X'00FB00FF'", Value::Bytes(b"\0\xfb\0\xff"))]),
        case("ENUM('a','é')", vec![("'é'", text("é")), ("0", text(""))]),
        case("SET('x','y','ü')", vec![("'ü,x'", text("x,ü")), ("''", text(""))]),
        case(
            "GEOMETRY",
            vec![(
                if flavor == Flavor::Mysql97 { "ST_GeomFromText('POINT(1 2)')" } else { "GeomFromText('POINT(1 2)')" },
                Value::Bytes(b"\0\0\0\0\x01\x01\0\0\0\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\x40"),
            )],
        ),
    ];
    if flavor == Flavor::Mysql97 {
        let json = "{\"a\": [1, 1.5, null, \"é\"]}";
        cases.push(case("JSON", vec![("'{\"a\":[1,1.5,null,\"é\"]}'", text(json)), ("'null'", text("null"))]));
        let vector = Value::Bytes(b"\0\0\x80\x3f\0\0\0\xc0");
        cases.push(case("VECTOR(2)", vec![("STRING_TO_VECTOR('[1,-2]')", vector)]));
    }
    if flavor.is_mariadb() {
        cases.push(case("JSON", vec![("'{\"a\":1}'", text("{\"a\":1}"))]));
        cases.push(case("INET6", vec![("'::ffff:1.2.3.4'", text("::ffff:1.2.3.4")), ("'fe80::'", text("fe80::"))]));
    }
    if matches!(flavor, Flavor::Mariadb1011 | Flavor::Mariadb118) {
        let uuid = "7e51f3a0-0b5c-4bd1-9f5e-0d8f6f0f3a00";
        cases.push(case("UUID", vec![("'7E51F3A00B5C4BD19F5E0D8F6F0F3A00'", text(uuid))]));
        cases.push(case("INET4", vec![("'1.2.3.0'", text("1.2.3.0"))]));
    }
    if flavor == Flavor::Mariadb118 {
        cases.push(case("VECTOR(2)", vec![("VEC_FromText('[1,-2]')", Value::Bytes(b"\0\0\x80\x3f\0\0\0\xc0"))]));
    }
    cases
}

/// Stores the values in one table, a column for each case and a last row of NULLs, and reads them by both protocols.
async fn store_and_compare(c: &mut Connection, cases: &[Case], flavor: Flavor) {
    let columns: Vec<_> = cases.iter().enumerate().map(|(n, case)| format!("c{n} {}", case.column)).collect();
    execute(c, &format!("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, {})", columns.join(", "))).await;
    let names: Vec<_> = (0..cases.len()).map(|n| format!("c{n}")).collect();
    let names = names.join(", ");
    let height = cases.iter().map(|case| case.rows.len()).max().unwrap() + 1;
    for row in 0..height {
        let sql = cases.iter().map(|case| case.rows.get(row).map_or("NULL", |(sql, _)| sql.as_str()));
        let values = sql.collect::<Vec<_>>().join(", ");
        execute(c, &format!("INSERT IGNORE INTO t ({names}) VALUES ({values})")).await;
    }
    let sql = format!("SELECT {names} FROM t ORDER BY id");
    let prepared = c.prepare(&sql).await.unwrap();
    for binary in [false, true] {
        let mut rows = match binary {
            false => c.query(&sql).await.unwrap(),
            true => c.execute_statement(&prepared, &[]).await.unwrap(),
        };
        for at in 0..height {
            let row = rows.next().await.unwrap().unwrap();
            let got: Vec<_> = row.values().collect();
            assert_eq!(got.len(), cases.len());
            for (got, case) in got.into_iter().zip(cases) {
                let want = case.rows.get(at).map_or(Value::Null, |(_, value)| *value);
                assert_eq!(got, Ok(want), "{flavor} {} binary {binary}", case.column);
            }
        }
        assert!(rows.next().await.unwrap().is_none());
    }
    c.close_statement(prepared).await.unwrap();
}

/// Conformance: W11, W12
/// Bug: 1, 2, 4, 5, 7, 9, 10, 12, 16, 17, 19, 22, 25, 108
#[tokio::test]
async fn every_type_comes_back_the_same_by_both_protocols() {
    on_every_server("wire_q_values", async |server, mut c| {
        let flavor = server.flavor();
        let cases: Vec<_> = numbers().into_iter().chain(times()).chain(strings(flavor)).collect();
        store_and_compare(&mut c, &cases, flavor).await;

        // The text of a FLOAT has six digits; the binary protocol has all of them.
        execute(&mut c, "CREATE TABLE f (v FLOAT)").await;
        execute(&mut c, "INSERT INTO f VALUES (16777215)").await;
        let select = c.prepare("SELECT v FROM f").await.unwrap();
        let row = c.execute_statement(&select, &[]).await.unwrap().next().await.unwrap().unwrap();
        assert!(row.values().eq([Ok(Value::Float(16_777_215.0))]), "{flavor}");
        let row = c.query("SELECT v FROM f").await.unwrap().next().await.unwrap().unwrap();
        assert!(row.values().eq([Ok(Value::Float(16_777_200.0))]), "{flavor}");

        // Expressions, whose columns are no table's.
        let sql = "SELECT 1 + 1, -1, 1.50, 1e0, NULL, 'é', X'FF', DATE '2024-01-02', CAST(-1 AS UNSIGNED), 1 = 1";
        let select = c.prepare(sql).await.unwrap();
        let text_row = c.query(sql).await.unwrap().next().await.unwrap().unwrap();
        let binary_row = c.execute_statement(&select, &[]).await.unwrap().next().await.unwrap().unwrap();
        let values: Vec<_> = text_row.values().map(Result::unwrap).collect();
        assert_eq!(values, binary_row.values().map(Result::unwrap).collect::<Vec<_>>(), "{flavor}");
        assert_eq!((values[0], values[4], values[8]), (Value::Int(2), Value::Null, Value::UInt(u64::MAX)), "{flavor}");
        assert_eq!((values[2], values[6], values[7]), (text("1.50"), Value::Bytes(b"\xff"), date(2024, 1, 2)));
    })
    .await;
}

/// Conformance: W11, W12
#[tokio::test]
async fn times_in_the_formats_before_5_6_come_back_the_same() {
    let options = ServerOptions::new().flavor(Flavor::Mariadb105).flag("--mysql56-temporal-format=OFF");
    let Some(server) = or_skip(Server::start(options)) else { return };
    let mut c = Connection::connect(&server.connect_options("root")).await.unwrap();
    for sql in ["CREATE DATABASE old", "USE old", "SET SESSION sql_mode = '', time_zone = '+00:00'"] {
        execute(&mut c, sql).await;
    }
    store_and_compare(&mut c, &times(), Flavor::Mariadb105).await;
    // They are stored in the old format indeed.
    let old = c.query_all("SHOW CREATE TABLE t").await.unwrap();
    assert!(old.text(0, "Create Table").unwrap().contains("mariadb-5.3"), "{old:?}");
}

/// Conformance: W12
#[tokio::test]
async fn parameters_of_every_kind_come_back() {
    on_every_server("wire_q_params", async |server, mut c| {
        let flavor = server.flavor();
        execute(
            &mut c,
            "CREATE TABLE t (id INT PRIMARY KEY, i BIGINT, u BIGINT UNSIGNED, f FLOAT, d DOUBLE, n DECIMAL(20,4), \
             b VARBINARY(600), s VARCHAR(300), dt DATE, ts DATETIME(6), ti TIME(6))",
        )
        .await;
        let insert = c.prepare("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)").await.unwrap();
        assert_eq!(insert.params(), 11);
        let long = "ü".repeat(150);
        let rows = [
            [
                Value::Int(0),
                Value::Int(i64::MIN),
                Value::UInt(u64::MAX),
                Value::Float(-1.25),
                Value::Double(f64::MIN_POSITIVE),
                text("-12345678901234.5678"),
                Value::Bytes(&[0xff; 600]),
                Value::Text(&long),
                date(9999, 12, 31),
                at((2024, 2, 29), (23, 59, 59), 999_999),
                // MySQL 9.7.4 takes 838 hours as a parameter only without a fraction.
                span(true, (34, 21), 59, 58, 1),
            ],
            [
                Value::Int(1),
                Value::Int(-1),
                Value::UInt(0),
                Value::Float(f32::MAX),
                Value::Double(-0.1),
                text("0.0000"),
                Value::Bytes(b""),
                Value::Text("'; DROP TABLE t; -- \\ \0 🦀"),
                date(2024, 1, 2),
                at((1000, 1, 1), (0, 0, 0), 0),
                span(false, (0, 0), 0, 0, 0),
            ],
            [
                Value::Int(2),
                Value::Null,
                Value::Null,
                Value::Null,
                Value::Null,
                Value::Null,
                Value::Null,
                Value::Null,
                Value::Null,
                Value::Null,
                Value::Null,
            ],
        ];
        // The same statement with types that change from one time to the next.
        for row in &rows {
            c.execute_statement(&insert, row).await.unwrap();
        }
        let select = c.prepare("SELECT * FROM t WHERE id = ?").await.unwrap();
        for row in &rows {
            let want = row.map(|value| match value {
                Value::Text(text) => Value::Bytes(text.as_bytes()),
                other => other,
            });
            let got = c.execute_statement(&select, &row[..1]).await.unwrap().next().await.unwrap().unwrap();
            assert!(got.values().eq(want.map(Ok)), "{flavor} {:?}", got.values().collect::<Vec<_>>());
        }
        // By the server's own word.
        let sql = "SELECT COUNT(*) FROM t WHERE i = -9223372036854775808 AND u = 18446744073709551615 AND f = -1.25 \
                   AND n = -12345678901234.5678 AND b = REPEAT(X'FF', 600) AND s = REPEAT('ü', 150) \
                   AND dt = '9999-12-31' AND ts = '2024-02-29 23:59:59.999999' AND ti = '-837:59:58.000001'";
        assert_eq!(c.query_all(sql).await.unwrap().scalar(), Some("1"), "{flavor}");
        // A number for a text and a text for a number.
        let compare = c.prepare("SELECT id FROM t WHERE id = ?").await.unwrap();
        for param in [Value::Text("1"), Value::Double(1.0), Value::Bytes(b"1"), Value::UInt(1)] {
            let row = c.execute_statement(&compare, &[param]).await.unwrap().next().await.unwrap().unwrap();
            assert!(row.values().eq([Ok(Value::Int(1))]), "{flavor} {param:?}");
        }
        c.close_statement(compare).await.unwrap();
    })
    .await;
}
