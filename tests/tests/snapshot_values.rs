//! A row read by a chunk's SELECT and the same row read from the binlog give the same bytes, for every type.

use millstream_binlog::event::EventBody;
use millstream_binlog::{BinlogFile, ColumnValue, DecoderOptions, EventDecoder, RowChange, TableSchema};
use millstream_doris_sink::{EncodeOptions, Format, InvalidDate, Mode, Op, RowEncoder, RowMeta, TargetTable};
use millstream_engine::config::TablePatterns;
use millstream_engine::key::{Collations, KeyCodec};
use millstream_engine::merge::{Covered, Key};
use millstream_engine::schema::catalog;
use millstream_engine::snapshot::dialect::Dialect;
use millstream_engine::snapshot::reader::{
    ChunkTable, high_watermark, low_watermark, read_chunk, server_identity, session_setup,
};
use millstream_engine::snapshot::sql::TableSql;
use millstream_engine::snapshot::values::select_values;
use millstream_tests::server::{self, Server};
use millstream_wire::{ConnectOptions, Connection};

const TABLE: &str = "
CREATE DATABASE snapshot_values; USE snapshot_values;
CREATE TABLE t (
  id INT NOT NULL, b BINARY(4) NOT NULL,
  i8 TINYINT, u8 TINYINT UNSIGNED, i16 SMALLINT, u16 SMALLINT UNSIGNED, i24 MEDIUMINT, u24 MEDIUMINT UNSIGNED,
  i32 INT, u32 INT UNSIGNED, i64 BIGINT, u64 BIGINT UNSIGNED,
  f FLOAT, d DOUBLE, n DECIMAL(30,10), n0 DECIMAL(9,0), n1 DECIMAL(10,10),
  b1 BIT(1), b9 BIT(9), b64 BIT(64), y YEAR,
  da DATE, t0 TIME, t6 TIME(6), dt0 DATETIME, dt6 DATETIME(6), ts0 TIMESTAMP NULL, ts3 TIMESTAMP(3) NULL,
  c CHAR(10) CHARACTER SET latin1, vc VARCHAR(300) CHARACTER SET utf8mb4, vc2 VARCHAR(20) CHARACTER SET utf8mb3,
  tt TINYTEXT, mt MEDIUMTEXT CHARACTER SET latin1, bi BINARY(5), vb VARBINARY(20), bl BLOB, lb LONGBLOB,
  e ENUM('a','b','\u{e9}') CHARACTER SET latin1, s SET('x','y','z'), j JSON,
  g INT GENERATED ALWAYS AS (i8 + 1) VIRTUAL, gs INT GENERATED ALWAYS AS (i16 + 1) STORED,
  inv INT DEFAULT 5 INVISIBLE, geo GEOMETRY DEFAULT (ST_GeomFromText('POINT(1 2)', 4326)),
  vec VECTOR(3) DEFAULT (TO_VECTOR('[1,2.5,-3]')),
  PRIMARY KEY (id, b)
) CHARACTER SET utf8mb4;
SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00';
INSERT INTO t (id, b) VALUES (-1, X'00');
INSERT INTO t (id,b,i8,u8,i16,u16,i24,u24,i32,u32,i64,u64,f,d,n,n0,n1,b1,b9,b64,y,da,t0,t6,dt0,dt6,ts0,ts3,c,vc,vc2,
  tt,mt,bi,vb,bl,lb,e,s,j) VALUES
 (0, X'01020000', -128, 255, -32768, 65535, -8388608, 16777215, -2147483648, 4294967295, -9223372036854775808,
  18446744073709551615, 16107050, 1e300, -12345678901234567890.0123456789, -999999999, -0.1234567890, b'1', b'101010101',
  b'1111111111111111111111111111111111111111111111111111111111111111', 2155, '9999-12-31', '-838:59:59',
  '-00:00:00.000001', '1000-01-01 00:00:00', '9999-12-31 23:59:59.999999', '1970-01-01 00:00:01',
  '2038-01-19 03:14:07.999', 'caf\u{e9}  ', 'gr\u{fc}n \u{1f600}  ', '\u{20ac}', '', 'tab\\tquote\"', X'0100', X'00ff00',
  X'00', REPEAT(X'ff00', 200), '\u{e9}', 'x,z', '{\"a\": [1, 2.50, 1e20, \"\u{1f600}\\\\n\", null, true], \"b\": -0.0}'),
 (1, X'ff', 127, 0, 32767, 0, 8388607, 0, 2147483647, 0, 9223372036854775807, 0, -0.1, 0.1, 0.0000000001, 0, 0, b'0',
  b'0', b'0', 1901, '1000-01-01', '838:59:59', '838:59:59.000000', '2024-02-29 12:00:00', '2000-01-01 00:00:00.5',
  '2024-02-29 23:59:59', '1999-12-31 23:59:59.5', '', '', '', 'x', '\u{fc}', X'', X'', X'', '', 'a', '', '[]'),
 (2, X'00000001', 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 3.4028235e38, -2.2250738585072014e-308, 1, 1, 0.1, b'1', b'1', b'1', 0,
  '0000-00-00', '00:00:00', '12:34:56.789', '0000-00-00 00:00:00', '2010-02-31 00:00:00', '0000-00-00 00:00:00',
  '2024-01-01 00:00:00.001', ' x', ' y ', 'z', ' ', ' ', 'ab', 'cd', 'ef', 'gh', 0, 'x,y,z', '\"s\"'),
 (3, X'7f', 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1.17549435e-38, 5e-324, 99999999999999999999.9999999999, 123456789,
  0.9999999999, b'1', b'111111111', b'10', 2024, '2024-01-01', '00:00:01', '-12:00:00.5', '2024-01-01', '2024-01-01',
  '2024-01-01', '2024-01-01', 'a', REPEAT('\u{e4}', 300), 'b', REPEAT('t', 255), REPEAT('m', 70000), '12345', 'v', 'b',
  REPEAT('l', 70000), 'b', 'y', JSON_ARRAY(CAST('2024-01-01 00:00:00.5' AS DATETIME(6)), CAST(1.50 AS DECIMAL(5,2)), CAST('-01:02:03' AS TIME), X'00ff'));
";

/// Rows of the table in the server's current binlog files, in order, through `each`.
fn binlog_rows(server: &Server, mut each: impl FnMut(&TableSchema, Vec<(usize, ColumnValue<'_>)>)) {
    for row in server.sql("SHOW BINARY LOGS") {
        let input = std::fs::File::open(server.data_dir().join(&row[0])).unwrap();
        let mut file = BinlogFile::new(input, 1 << 30).unwrap();
        let mut decoder = EventDecoder::new(DecoderOptions::default());
        let mut schema: Option<(u64, TableSchema)> = None;
        while let Some(raw) = file.next().unwrap() {
            match decoder.decode(raw.bytes).unwrap().body {
                EventBody::TableMap(map) => {
                    let found = map.schema().unwrap();
                    schema =
                        (found.database == "snapshot_values" && found.table == "t").then_some((map.table_id, found));
                }
                EventBody::Rows(rows) => {
                    let Some((_, schema)) = schema.as_ref().filter(|(id, _)| *id == rows.table_id) else { continue };
                    for change in rows.rows(schema) {
                        let RowChange::Insert(row) = change.unwrap() else { panic!("only inserts were made") };
                        each(schema, row.values().collect());
                    }
                }
                _ => {}
            }
        }
    }
}

async fn connect(server: &Server) -> Connection {
    let options = ConnectOptions::tcp("127.0.0.1", server.port()).user("admin").password(server::ADMIN_PASSWORD);
    let mut connection = Connection::connect(&options).await.unwrap();
    session_setup(&mut connection, Dialect::ExecutedSet).await.unwrap();
    connection
}

#[tokio::test]
async fn both_ways_give_the_same_bytes() {
    let Some(server) = server::shared() else { return };
    server.sql(TABLE);
    let mut connection = connect(server).await;

    // The schema as the log's full metadata gives it.
    let mut schema: Option<TableSchema> = None;
    binlog_rows(server, |found, _| schema = Some(found.clone()));
    let schema = schema.unwrap();
    let codec = KeyCodec::new(&schema, &Collations::default()).unwrap();
    let sql = TableSql::new(&schema, &codec, None);
    let table = ChunkTable { schema: &schema, codec: &codec, sql: &sql, dialect: Dialect::ExecutedSet };
    let chunk = read_chunk(&mut connection, table, None, None, 100, 1 << 30).await.unwrap();
    assert_eq!((chunk.rows.len(), &chunk.covered, chunk.abandon_connection), (5, &Covered::ToEnd, false));

    let meta = RowMeta { seq: 1, op: Op::Read, gtid: None, file: "binlog.000001", pos: 4, row: 0, ts_micros: Some(1) };
    for (mode, format) in [
        (Mode::Upsert, Format::Json),
        (Mode::Append, Format::Json),
        (Mode::Upsert, Format::Csv),
        (Mode::Append, Format::Csv),
    ] {
        let options = EncodeOptions { invalid_date: InvalidDate::Epoch, format, ..EncodeOptions::default() };
        let target = TargetTable::plan(&schema, "d", "t", mode).unwrap();
        let mut encoder = RowEncoder::new(&schema, &target, &options);
        let mut selected: Vec<(Vec<u8>, String)> = Vec::new();
        for (key, row) in &chunk.rows {
            let values: Vec<ColumnValue<'_>> = select_values(&schema, row).map(|v| v.unwrap()).collect();
            let mut out = Vec::new();
            encoder.encode(values.iter().copied().enumerate(), &meta, &mut out).unwrap();
            selected.push((key.to_vec(), String::from_utf8(out).unwrap()));
        }
        let mut logged: Vec<(Vec<u8>, String)> = Vec::new();
        binlog_rows(server, |_, values| {
            let mut key = Vec::new();
            codec.encode(|ordinal| values.get(ordinal).map(|(_, v)| *v), |_, _| None, &mut key).unwrap();
            let mut out = Vec::new();
            encoder.encode(values.iter().copied(), &meta, &mut out).unwrap();
            logged.push((key, String::from_utf8(out).unwrap()));
        });
        logged.sort();
        assert_eq!(selected.len(), logged.len());
        for (a, b) in selected.iter().zip(&logged) {
            assert_eq!(a.1, b.1);
            assert_eq!(a.0, b.0);
        }
        assert!(selected[1].1.contains("gr\u{fc}n \u{1f600}"), "{}", selected[1].1);
    }
}

#[tokio::test]
async fn chunks_are_cut_by_rows_by_bytes_and_by_the_end() {
    let Some(server) = server::shared() else { return };
    server.sql(
        "CREATE DATABASE snapshot_cut; USE snapshot_cut;
         CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(1000));
         INSERT INTO t WITH RECURSIVE r(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM r WHERE n < 99)
         SELECT n * 10, REPEAT('v', 900) FROM r;",
    );
    let mut connection = connect(server).await;
    let column = |name: &str, ty, charset, collation| millstream_binlog::Column {
        name: name.to_owned(),
        ty,
        nullable: name != "id",
        charset,
        collation,
    };
    let schema = TableSchema {
        database: "snapshot_cut".to_owned(),
        table: "t".to_owned(),
        columns: vec![
            column(
                "id",
                millstream_binlog::ColumnType::Int { unsigned: false },
                millstream_binlog::Charset::Binary,
                63,
            ),
            column(
                "v",
                millstream_binlog::ColumnType::VarChar { max_bytes: 4000 },
                millstream_binlog::Charset::Utf8mb4,
                255,
            ),
        ],
        key: vec![0],
    };
    let codec = KeyCodec::new(&schema, &Collations::default()).unwrap();
    let sql = TableSql::new(&schema, &codec, None);
    let table = ChunkTable { schema: &schema, codec: &codec, sql: &sql, dialect: Dialect::ExecutedSet };
    let key = |id: i64| {
        let mut key = Vec::new();
        codec.encode_parts([ColumnValue::Int(id)], &mut key).unwrap();
        Key::from(key)
    };
    for (low, high, rows, bytes, want_rows, want_end, abandon) in [
        (None, None, 30, 1 << 20, 30, Some(290), false),
        (Some(290), None, 200, 1 << 20, 70, None, false),
        (Some(290), Some(390), 200, 1 << 20, 10, None, false),
        (Some(290), Some(390), 10, 1 << 20, 10, Some(390), false),
        (Some(990), None, 10, 1 << 20, 0, None, false),
        (Some(-1), Some(-1), 10, 1 << 20, 0, None, false),
        (None, None, 30, 5_000, 5, Some(40), true),
        (None, None, 1, 1, 1, Some(0), false),
    ] {
        let (low, high) = (low.map(key), high.map(key));
        let chunk = read_chunk(&mut connection, table, low.as_ref(), high.as_ref(), rows, bytes).await.unwrap();
        let covered = want_end.map_or(Covered::ToEnd, |id| Covered::UpTo(key(id)));
        assert_eq!((chunk.rows.len(), chunk.covered, chunk.abandon_connection), (want_rows, covered, abandon));
        if chunk.abandon_connection {
            connection = connect(server).await;
        }
    }
}

#[tokio::test]
async fn watermarks_move_with_the_server() {
    let Some(server) = server::shared() else { return };
    let mut connection = connect(server).await;
    let uuid = server_identity(&mut connection).await.unwrap();
    assert_eq!(uuid, server.value("SELECT @@server_uuid"));
    let (low, high) = (low_watermark(&mut connection).await.unwrap(), high_watermark(&mut connection).await.unwrap());
    server.sql("CREATE DATABASE snapshot_watermarks");
    let (later, end) = (low_watermark(&mut connection).await.unwrap(), high_watermark(&mut connection).await.unwrap());
    assert!(later.is_superset(&low) && later != low);
    assert!(end > high, "{end} {high}");
}

/// What a walk over a table met.
#[derive(Debug, Default)]
struct Walked {
    chunks: usize,
    rows: usize,
    most_rows: usize,
    most_bytes: usize,
}

/// Walks a whole table as a reader does, one chunk after the other; `meanwhile` runs behind each.
async fn walk(
    connection: &mut Connection,
    server: &Server,
    table: &str,
    (limit_rows, limit_bytes): (u64, usize),
    mut meanwhile: impl FnMut(usize),
) -> Walked {
    let patterns = TablePatterns::parse(&[&format!("snapshot_walk.{table}")]).unwrap();
    let catalog = catalog::read(connection, &patterns).await.unwrap();
    session_setup(connection, Dialect::ExecutedSet).await.unwrap();
    let schema = &catalog.tables[0].schema;
    let codec = catalog.tables[0].key_codec(&catalog.collations).unwrap();
    let sql = TableSql::new(schema, &codec, catalog.tables[0].index.as_deref());
    let table = ChunkTable { schema, codec: &codec, sql: &sql, dialect: Dialect::ExecutedSet };
    let mut walked = Walked::default();
    let mut low: Option<Key> = None;
    loop {
        let chunk = read_chunk(connection, table, low.as_ref(), None, limit_rows, limit_bytes).await.unwrap();
        walked.chunks += 1;
        walked.rows += chunk.rows.len();
        walked.most_rows = walked.most_rows.max(chunk.rows.len());
        walked.most_bytes = walked.most_bytes.max(chunk.bytes);
        if chunk.abandon_connection {
            *connection = connect(server).await;
        }
        assert!(walked.chunks < 10_000, "no end");
        match chunk.covered {
            Covered::UpTo(key) => {
                assert!(low.is_none_or(|low| low < key));
                low = Some(key);
            }
            _ => return walked,
        }
        meanwhile(walked.chunks);
    }
}

#[tokio::test]
async fn a_chunk_has_its_rows_and_bytes_at_most_whatever_lies_where() {
    let Some(server) = server::shared() else { return };
    let mut session = server.session().unwrap();
    let numbers =
        |n: u32| format!("WITH RECURSIVE r(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM r WHERE n + 1 < {n}) ");
    session
        .sql(&format!(
            "CREATE DATABASE snapshot_walk; USE snapshot_walk; SET cte_max_recursion_depth = 100000;
             CREATE TABLE tenant (t INT NOT NULL, id INT NOT NULL, PRIMARY KEY (t, id)); INSERT INTO tenant {r} SELECT 7, n FROM r;
             CREATE TABLE clusters (id BIGINT UNSIGNED PRIMARY KEY);
             INSERT INTO clusters {r} SELECT IF(n % 2, n, 10000000000000000000 + n) FROM r;
             INSERT INTO clusters VALUES (18446744073709551615);
             CREATE TABLE word (w VARCHAR(20) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY);
             INSERT INTO word {r} SELECT CONCAT('same beginning', n) FROM r;
             CREATE TABLE wide (id INT PRIMARY KEY, v MEDIUMTEXT NOT NULL); INSERT INTO wide {hundred} SELECT n, REPEAT('x', 400000) FROM r;
             CREATE TABLE shrinks (id INT PRIMARY KEY); INSERT INTO shrinks {hundred} SELECT n FROM r;
             CREATE TABLE empties (id INT PRIMARY KEY); INSERT INTO empties {hundred} SELECT n FROM r;
             CREATE TABLE grows (id INT PRIMARY KEY); INSERT INTO grows {hundred} SELECT n FROM r",
            r = numbers(5000),
            hundred = numbers(100)
        ))
        .unwrap();
    let mut connection = connect(server).await;
    let small = (100, 1 << 20);
    for (table, rows) in [("tenant", 5000), ("clusters", 5001), ("word", 5000)] {
        let walked = walk(&mut connection, server, table, small, |_| {}).await;
        assert_eq!((walked.rows, walked.most_rows), (rows, 100), "{table}");
        assert!(walked.chunks <= rows / 100 + 1, "{table}: {walked:?}");
    }
    // 40 MB in 100 rows: a chunk ends with the row that fills it.
    let walked = walk(&mut connection, server, "wide", (1000, 2_000_000), |_| {}).await;
    assert_eq!((walked.rows, walked.most_rows), (100, 5));
    assert!(walked.most_bytes < 2_000_000 + 400_200, "{walked:?}");
    // The greatest row goes, and then all of them, while the table is walked.
    let walked = walk(&mut connection, server, "shrinks", (10, 1 << 20), |chunk| {
        server.sql(&format!("DELETE FROM snapshot_walk.shrinks WHERE id = {}", 100 - chunk));
    })
    .await;
    assert_eq!((walked.rows, walked.most_rows), (91, 10), "{walked:?}");
    let walked = walk(&mut connection, server, "empties", (10, 1 << 20), |chunk| {
        if chunk == 3 {
            server.sql("DELETE FROM snapshot_walk.empties");
        }
    })
    .await;
    assert_eq!((walked.rows, walked.chunks), (30, 4), "{walked:?}");
    // Rows are added ahead of the walk faster than it goes, for a while.
    let walked = walk(&mut connection, server, "grows", (10, 1 << 20), |chunk| {
        if chunk <= 5 {
            let rows: Vec<String> = (0..20).map(|n| format!("({})", chunk * 1000 + n)).collect();
            server.sql(&format!("INSERT INTO snapshot_walk.grows VALUES {}", rows.join(",")));
        }
    })
    .await;
    assert_eq!((walked.rows, walked.most_rows), (200, 10), "{walked:?}");
}
