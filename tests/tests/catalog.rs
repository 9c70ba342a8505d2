//! The catalog on a real server: it says the same as the log's own metadata, and names what cannot be captured.

use millstream_binlog::event::EventBody;
use millstream_binlog::{BinlogFile, DecoderOptions, EventDecoder, TableSchema};
use millstream_engine::config::TablePatterns;
use millstream_engine::schema::catalog;
use millstream_tests::server::{self, Server};
use millstream_wire::{ConnectOptions, Connection};

async fn connect(server: &Server) -> Connection {
    let options = ConnectOptions::tcp("127.0.0.1", server.port()).user("admin").password(server::ADMIN_PASSWORD);
    Connection::connect(&options).await.unwrap()
}

/// The schema of a table as the log carries it.
fn logged(server: &Server, database: &str, table: &str) -> TableSchema {
    let mut schema = None;
    for row in server.sql("SHOW BINARY LOGS") {
        let input = std::fs::File::open(server.data_dir().join(&row[0])).unwrap();
        let mut file = BinlogFile::new(input, 1 << 30).unwrap();
        let mut decoder = EventDecoder::new(DecoderOptions::default());
        while let Some(raw) = file.next().unwrap() {
            if let EventBody::TableMap(map) = decoder.decode(raw.bytes).unwrap().body {
                let found = map.schema().unwrap();
                if found.database == database && found.table == table {
                    schema = Some(found);
                }
            }
        }
    }
    schema.unwrap()
}

#[tokio::test]
async fn the_catalog_says_what_the_log_says() {
    let Some(server) = server::shared() else { return };
    server.sql(
        "CREATE DATABASE catalog_types CHARACTER SET utf8mb4; USE catalog_types;
         CREATE TABLE t (
           i8 TINYINT, u8 TINYINT UNSIGNED, z8 TINYINT(3) ZEROFILL, b BOOL, i16 SMALLINT, i24 MEDIUMINT UNSIGNED, i32 INT,
           i64 BIGINT UNSIGNED, f FLOAT, d DOUBLE UNSIGNED, n DECIMAL(30,10), n0 DECIMAL, b1 BIT, b64 BIT(64), y YEAR,
           da DATE, t0 TIME, t6 TIME(6), dt0 DATETIME, dt3 DATETIME(3), ts0 TIMESTAMP NULL, ts6 TIMESTAMP(6) NULL,
           c CHAR(10) CHARACTER SET latin1, c255 CHAR(255), vc VARCHAR(300), v0 VARCHAR(0),
           v3 VARCHAR(20) CHARACTER SET utf8mb3, vb VARCHAR(9) COLLATE utf8mb4_bin, vj VARCHAR(5) CHARACTER SET sjis,
           v9 VARCHAR(9) COLLATE utf8mb4_0900_bin, a VARCHAR(5) CHARACTER SET ascii COLLATE ascii_bin,
           tt TINYTEXT, tx TEXT CHARACTER SET latin1 COLLATE latin1_bin, mt MEDIUMTEXT, lt LONGTEXT,
           bi BINARY(5), bi1 BINARY, vbi VARBINARY(20), tb TINYBLOB, bl BLOB, mb MEDIUMBLOB, lb LONGBLOB,
           e ENUM('a','it''s','é','','x,y') , e1 ENUM('ä') CHARACTER SET latin1, s SET('x','y','back\\\\slash'),
           s33 SET('1','2','3','4','5','6','7','8','9','10','11','12','13','14','15','16','17','18','19','20','21','22',
             '23','24','25','26','27','28','29','30','31','32','33'),
           j JSON, p POINT, g GEOMETRY, gc GEOMETRYCOLLECTION, v VECTOR(3),
           gv INT GENERATED ALWAYS AS (i8 + 1) VIRTUAL, gs VARCHAR(9) GENERATED ALWAYS AS (i16) STORED, inv INT INVISIBLE,
           k1 INT NOT NULL, k2 BINARY(4) NOT NULL, `we``ird näme` INT, PRIMARY KEY (k2, k1), KEY ((i32 + 1))
         );
         INSERT INTO t (k1, k2) VALUES (1, X'01');
         SET sql_generate_invisible_primary_key = ON;
         CREATE TABLE gipk (a INT);
         INSERT INTO gipk VALUES (1);
         CREATE TABLE prefix (a VARCHAR(100) COLLATE utf8mb4_bin, PRIMARY KEY (a(10)));
         CREATE VIEW v AS SELECT 1;",
    );
    let mut connection = connect(server).await;
    let patterns = TablePatterns::parse(&["catalog_types.*"]).unwrap();
    let found = catalog::read(&mut connection, &patterns).await.unwrap();
    assert_eq!(found.warnings, ["\"catalog_types.*\": 1 view(s) or sequence(s) are left out"]);
    let names: Vec<&str> = found.tables.iter().map(|t| t.schema.table.as_str()).collect();
    assert_eq!(names, ["gipk", "prefix", "t"]);
    for table in [&found.tables[0], &found.tables[2]] {
        let schema = logged(server, "catalog_types", &table.schema.table);
        for (ours, log) in table.schema.columns.iter().zip(&schema.columns) {
            assert_eq!(ours, log);
        }
        assert_eq!(table.schema, schema);
        assert_eq!(table.engine, "InnoDB");
        table.key_codec(&found.collations).unwrap();
    }
    assert_eq!(found.tables[0].schema.columns[0].name, "my_row_id");
    let refused = found.tables[1].key_codec(&found.collations).unwrap_err().to_string();
    assert!(refused.starts_with("catalog_types.prefix: key column a is only in the key with"), "{refused}");
}

#[tokio::test]
async fn what_is_not_there_is_named() {
    let Some(server) = server::shared() else { return };
    server.sql("CREATE DATABASE catalog_missing; CREATE TABLE catalog_missing.a (id INT PRIMARY KEY)");
    let mut connection = connect(server).await;
    let patterns = TablePatterns::parse(&["catalog_missing.a", "catalog_missing.b", "catalog_none.*"]).unwrap();
    let e = catalog::read(&mut connection, &patterns).await.unwrap_err();
    assert_eq!(e.problems().len(), 1, "{e}");
    assert!(e.problems()[0].contains("the table catalog_missing.b does not exist"), "{e}");
    let none = TablePatterns::parse(&["catalog_none.*"]).unwrap();
    let e = catalog::read(&mut connection, &none).await.unwrap_err();
    assert!(e.problems()[0].contains("no table to capture"), "{e}");
}
