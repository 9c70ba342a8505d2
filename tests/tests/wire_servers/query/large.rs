//! Packets around and beyond 16 MiB, plain and in compressed frames.

use millstream_tests::server::{Flavor, Server};
use millstream_wire::{Compression, ConnectOptions, Connection, SslMode, Value};

use super::{execute, on_every_server};

const MIB: usize = 1024 * 1024;
/// The longest payload of a frame.
const FRAME: usize = 0xff_ffff;

/// New sessions may send and get packets of this size.
async fn allow_large(c: &mut Connection) {
    execute(c, "SET GLOBAL max_allowed_packet = 128 * 1024 * 1024").await;
}

/// Text of that length that shrinks, but not to nothing.
fn text(len: usize) -> String {
    let line: String = (0..600u32).map(|n| n.wrapping_mul(n).to_string()).collect();
    line.chars().cycle().take(len).collect()
}

/// Conformance: W8, W10
/// Bug: 82
#[tokio::test]
async fn frames_are_split_at_sixteen_mebibytes_both_ways() {
    on_every_server("wire_q_frames", async |server, mut c| {
        allow_large(&mut c).await;
        let flavor = server.flavor();
        let mut c = Connection::connect(&server.connect_options("root")).await.unwrap();
        // One frame that is full and an empty one behind it. The command byte is one of the payload.
        let sql = format!("SELECT LENGTH('{}')", "x".repeat(FRAME - 1 - "SELECT LENGTH('')".len()));
        let answer = c.query_all(&sql).await.unwrap();
        assert_eq!(answer.scalar(), Some(&*(sql.len() - "SELECT LENGTH('')".len()).to_string()), "{flavor}");
        // The same the other way, with one and with two full frames. A row is its value behind a length of 4 bytes, of 9
        // bytes from 16 MiB on: then its first byte is that of an EOF or of the OK that ends rows.
        for len in [FRAME - 4, FRAME + 1, 2 * FRAME - 9] {
            let answer = c.query_all(&format!("SELECT REPEAT('x', {len})")).await.unwrap();
            assert!(answer.len() == 1 && answer.scalar().unwrap().len() == len, "{flavor} {len}");
        }
        // The same in a binary row, and two such rows.
        let repeat = c.prepare("SELECT REPEAT('y', ?) FROM (SELECT 1 UNION SELECT 2) two").await.unwrap();
        let len = i64::try_from(FRAME + 1).unwrap();
        let mut rows = c.execute_statement(&repeat, &[Value::Int(len)]).await.unwrap();
        for _ in 0..2 {
            let row = rows.next().await.unwrap().unwrap();
            assert!(row.values().all(|v| matches!(v, Ok(Value::Bytes(b)) if b.len() == FRAME + 1)), "{flavor}");
        }
        assert!(rows.next().await.unwrap().is_none());
        c.ping().await.unwrap();
    })
    .await;
}

fn ways(server: &'static Server) -> Vec<(Compression, ConnectOptions)> {
    let mut all = vec![(Compression::Zlib, server.connect_options("root"))];
    if server.flavor() == Flavor::Mysql97 {
        // The default level, and over TLS.
        let tls = server.connect_options("admin").ssl_mode(SslMode::Required);
        all.push((Compression::Zstd { level: 3 }, server.connect_options("root")));
        all.push((Compression::Zlib, tls));
    }
    all
}

/// Conformance: W9
/// Bug: 97
#[tokio::test]
async fn compressed_sessions_carry_what_plain_ones_do() {
    on_every_server("wire_q_compressed", async |server, mut c| {
        let flavor = server.flavor();
        allow_large(&mut c).await;
        execute(&mut c, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200))").await;
        for (compression, options) in ways(server) {
            let mut c = Connection::connect(&options.compression(compression)).await.unwrap();
            assert_eq!(c.compression(), compression);
            execute(&mut c, "USE wire_q_compressed").await;
            let status = c.query_all("SHOW STATUS LIKE 'Compression'").await.unwrap();
            assert_eq!(status.text(0, "Value"), Some("ON"), "{flavor}");

            // 20 MiB there and back; text; many small rows; commands of a few bytes.
            let large = text(20 * MIB);
            let echo = c.prepare("SELECT ?").await.unwrap();
            let mut rows = c.execute_statement(&echo, &[Value::Text(&large)]).await.unwrap();
            let row = rows.next().await.unwrap().unwrap();
            assert!(row.values().map(Result::unwrap).eq([Value::Bytes(large.as_bytes())]), "{flavor}");
            drop(rows);
            let small = text(100_000);
            let answer = c.query_all(&format!("SELECT '{small}'")).await.unwrap();
            assert!(answer.scalar() == Some(&small), "{flavor}");
            execute(&mut c, "DELETE FROM t").await;
            let insert = c.prepare("INSERT INTO t VALUES (?, ?)").await.unwrap();
            execute(&mut c, "BEGIN").await;
            for id in 0..300 {
                let value = text(usize::try_from(id).unwrap() % 200);
                c.execute_statement(&insert, &[Value::Int(id), Value::Text(&value)]).await.unwrap();
            }
            execute(&mut c, "COMMIT").await;
            let answer = c.query_all("SELECT id, v FROM t ORDER BY id").await.unwrap();
            assert!(answer.len() == 300 && (0..300).all(|id| answer.text(id, "v") == Some(&*text(id % 200))));
            // An error, a goodbye.
            assert_eq!(c.execute("SELEC 1").await.unwrap_err().server_error().unwrap().code, 1064);
            c.ping().await.unwrap();
            c.close().await;
        }
        if flavor != Flavor::Mysql97 {
            let options = server.connect_options("root").compression(Compression::Zstd { level: 3 });
            let e = Connection::connect(&options).await.unwrap_err();
            assert!(e.to_string().contains("offers no zstd"), "{flavor}: {e}");
        }
    })
    .await;
}
