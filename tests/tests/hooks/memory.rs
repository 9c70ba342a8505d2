//! Walked chunks: never more than their rows and bytes, whatever the distribution and whatever is written meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_engine::pipeline::hooks::Point;
use millstream_tests::rig::Rig;
use millstream_tests::server;

use crate::script::Run;

const MIB: usize = 1 << 20;
/// Rows of a chunk.
const CHUNK: usize = 50;

#[test]
fn chunks_keep_to_their_rows_and_bytes_whatever_lies_there_and_is_written_meanwhile() {
    let Some(server) = server::shared() else { return };
    let rows = |count: u32, row: &str| {
        format!("WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < {count}) SELECT {row} FROM r")
    };
    server.sql(&format!(
        "CREATE DATABASE walked; USE walked; SET cte_max_recursion_depth = 5000;
         CREATE TABLE apart (id BIGINT UNSIGNED PRIMARY KEY, v INT); INSERT INTO apart {};
         CREATE TABLE tenant (t INT, id INT, v INT, PRIMARY KEY (t, id)); INSERT INTO tenant {};
         CREATE TABLE fat (id INT PRIMARY KEY, a MEDIUMTEXT, b MEDIUMTEXT); INSERT INTO fat {};
         CREATE TABLE gone (id INT PRIMARY KEY, v INT); INSERT INTO gone {};
         CREATE TABLE top (id INT PRIMARY KEY, v INT); INSERT INTO top {};
         CREATE TABLE tail (id INT AUTO_INCREMENT PRIMARY KEY, v INT); INSERT INTO tail {}",
        rows(1200, "IF(n <= 600, n, 10000000000000000000 + n), n"),
        rows(1200, "IF(n = 1, 1, 7), n, n"),
        rows(5, "n, REPEAT(n, 400000), REPEAT(n, 400000)"),
        rows(600, "n, n"),
        rows(600, "n, n"),
        rows(600, "n, n"),
    ));
    let mut rig = Rig::new(server, &["walked.*"]);
    rig.top = "memory = \"32MiB\"".to_owned();
    rig.snapshot = format!("chunk_rows = {CHUNK}\nworkers = 2");
    rig.flush = "{ interval = \"100ms\" }".to_owned();
    let run = Run::start(&rig);
    let mut session = server.session().unwrap();
    let mut seen_of: BTreeMap<String, u32> = BTreeMap::new();
    run.script.at_each(move |seen| {
        if !matches!(seen.point, Point::BeforeSelect | Point::AfterSelect) {
            return;
        }
        let nth = seen_of.entry(seen.table.clone()).or_default();
        *nth += 1;
        let sql = match (seen.table.as_str(), *nth) {
            ("gone", 5) => "DELETE FROM walked.gone".to_owned(),
            ("top", n) if n % 3 == 0 => "DELETE FROM walked.top ORDER BY id DESC LIMIT 30".to_owned(),
            // The end moves away faster than it is walked to.
            ("tail", 1..=12) => {
                let values = vec!["(1)"; 2 * CHUNK].join(",");
                format!("INSERT INTO walked.tail (v) VALUES {values}")
            }
            _ => return,
        };
        session.sql(&sql).unwrap();
    });
    let script = Arc::clone(&run.script);
    let report = run.finish().unwrap();
    assert!(report.balances(), "{report:?}");
    // With two readers a chunk has a quarter of the eighth that chunks have.
    let most = 32 * MIB / 8 / 4 + 900_000;
    let chunks = script.chunks();
    for chunk in &chunks {
        assert!(chunk.rows <= CHUNK && chunk.bytes < most, "{chunk:?}");
    }
    let of = |table: &str| chunks.iter().filter(|chunk| chunk.table == table).count();
    for (table, least) in [("apart", 24), ("tenant", 24), ("fat", 3), ("gone", 2), ("top", 5), ("tail", 30)] {
        assert!(of(table) >= least, "{table}: {} chunks", of(table));
    }
    Run::start(&rig).finish().unwrap();
    rig.assert_exact(&server.endpoint(), "walked", &["apart", "tenant", "fat", "gone", "top", "tail"]);
}
