//! B and D: one table of 31 columns of mixed types, 10,000 rows a transaction.

use std::fmt::Write as _;

use super::{LabError, Size, Workload, connect};
use crate::server::Server;

/// Transactions at full size.
const TRANSACTIONS: u32 = 120;
const ROWS: u32 = 10_000;

const COLUMNS: &str = "id BIGINT UNSIGNED NOT NULL PRIMARY KEY, t TINYINT, s SMALLINT UNSIGNED, m MEDIUMINT, i INT, b BIGINT, \
    d1 DECIMAL(10,2), d2 DECIMAL(20,6), d3 DECIMAL(38,10), f FLOAT, g DOUBLE, dt DATE, tm TIME(3), dtm DATETIME, \
    dtm6 DATETIME(6), ts TIMESTAMP(3) NULL, y YEAR, c1 CHAR(20) CHARACTER SET latin1, v1 VARCHAR(40), v2 VARCHAR(200), \
    v3 VARCHAR(60) CHARACTER SET latin1, e ENUM('new','paid','sent','returned'), st SET('red','green','blue','white'), \
    bt BIT(12), bn BINARY(16), vb VARBINARY(40), bl BLOB, tx TEXT, js JSON, fl TINYINT(1), n1 INT";

pub(super) async fn prepare(server: &Server, workload: Workload) -> Result<(), LabError> {
    let mut session = connect(server, workload).await?;
    session.execute(&format!("CREATE TABLE base ({COLUMNS})")).await?;
    session.execute("CREATE TABLE wide LIKE base").await?;
    let mut rng = fastrand::Rng::with_seed(31);
    for first in (0..ROWS).step_by(500) {
        let mut sql = String::from("INSERT INTO base VALUES ");
        for id in first..first + 500 {
            sql.push_str(if id == first { "" } else { "," });
            row(&mut sql, id, &mut rng);
        }
        session.execute(&sql).await?;
    }
    session.close().await;
    Ok(())
}

/// Words, so that it compresses as text does.
fn text(rng: &mut fastrand::Rng, lengths: std::ops::Range<usize>) -> String {
    const WORDS: [&str; 16] = [
        "order",
        "customer",
        "große",
        "delivered",
        "café",
        "warehouse",
        "street",
        "the",
        "and",
        "returned",
        "blue",
        "paid",
        "pending",
        "with",
        "note",
        "express",
    ];
    let length = rng.usize(lengths);
    let mut text = String::new();
    while text.chars().count() < length {
        text.push_str(rng.choice(WORDS).unwrap_or("x"));
        text.push(' ');
    }
    text.chars().take(length).collect()
}

fn row(sql: &mut String, id: u32, rng: &mut fastrand::Rng) {
    let (a, b, c) = (rng.u32(0..100_000_000), rng.u64(0..1 << 40), rng.u32(0..1000));
    let hex = format!("{:032x}", rng.u128(..));
    let day = rng.u32(1..29);
    let second = rng.u32(0..60);
    write!(
        sql,
        "({id},{},{},{},{},{},{a}.{:02},-{b}.{c:06},{b}{a}.{c:010},{}.5,{b}.{c:03},'20{:02}-0{}-{day:02}',\
         '1{}:20:{second:02}.{c:03}','2025-06-{day:02} 1{}:30:{second:02}','2025-06-{day:02} 02:30:{second:02}.{a:06}',\
         '2024-02-{day:02} 03:04:{second:02}.{c:03}',{},'{}','{}','{}','{}',{},{},{},x'{hex}',x'{}','{}','{}',\
         '{{\"price\": {a}.{:02}, \"tags\": [\"x\", {c}], \"at\": {{\"lat\": 1{c}.25, \"on\": true}}, \"note\": \"{}\"}}',{},{})",
        rng.i8(..),
        rng.u16(..),
        rng.i32(-8_000_000..8_000_000),
        rng.i32(..),
        rng.i64(..),
        a % 100,
        a / 7,
        a % 30,
        1 + a % 9,
        a % 10,
        a % 10,
        1990 + c % 60,
        text(rng, 5..20).replace(|c: char| !c.is_ascii(), "x"),
        text(rng, 5..30),
        text(rng, 20..100),
        text(rng, 5..50),
        1 + a % 4,
        a % 16,
        a % 4096,
        hex.get(..16).unwrap_or_default(),
        text(rng, 20..80),
        text(rng, 60..240),
        a % 100,
        text(rng, 5..25),
        a % 2,
        if a % 5 == 0 { "NULL".to_owned() } else { a.to_string() },
    )
    .ok();
}

pub(super) async fn write(server: &Server, workload: Workload, size: Size) -> Result<(), LabError> {
    let mut session = connect(server, workload).await?;
    let columns: Vec<&str> = COLUMNS.split(", ").filter_map(|c| c.trim().split(' ').next()).collect();
    let rest = columns.get(1..).unwrap_or_default().join(", ");
    for transaction in 0..size.of(TRANSACTIONS) {
        let first = u64::from(transaction) * u64::from(ROWS);
        session.execute(&format!("INSERT INTO wide SELECT id + {first}, {rest} FROM base")).await?;
    }
    session.close().await;
    Ok(())
}
