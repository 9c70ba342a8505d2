//! Replicates a server while it is written to, kills the engine again and again, and compares both targets of every table.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use millstream_tests::rig::Rig;
use millstream_tests::server::{self, Flavor, Server, ServerOptions};
use millstream_tests::workload::Workload;

/// Snapshot and stream with writers, six kills, and a comparison.
fn replicate(server: &Server, database: &str, writers: usize) {
    let endpoint = server.endpoint();
    let mut workload = Workload::new(database, 17, writers);
    workload.create(&endpoint).unwrap();
    workload.load(&endpoint, 3000, &AtomicU64::new(0)).unwrap();
    let mut rig = Rig::new(server, &[&format!("{database}.*")]);
    rig.snapshot = "chunk_rows = 200".to_owned();
    let writers = workload.start(&endpoint, Some(150.0));
    let mut rng = fastrand::Rng::with_seed(5);
    for kill in 0..6 {
        let mut engine = rig.spawn();
        std::thread::sleep(Duration::from_millis(rng.u64(150..700)));
        if kill == 3 {
            server.sql("FLUSH BINARY LOGS");
        }
        engine.kill9().unwrap();
    }
    writers.stop();
    rig.run_well();
    rig.assert_exact(&endpoint, database, &Workload::TABLES);
    // Nothing is written any more: the end of the log is reached without a transaction, in a new file.
    server.sql("FLUSH BINARY LOGS");
    rig.run_well();
    rig.assert_exact(&endpoint, database, &Workload::TABLES);
}

/// A table with generated columns, stored and not, and a pipeline that has read it.
fn generated(server: &Server, database: &str) -> Rig {
    server.sql(&format!(
        "CREATE DATABASE `{database}`; CREATE TABLE `{database}`.g (id INT PRIMARY KEY, a INT, v INT AS (a + 1) VIRTUAL, \
         s INT AS (a * 2) STORED, t VARCHAR(20)); \
         INSERT INTO `{database}`.g (id, a, t) VALUES (1, 10, 'one'), (2, 20, 'two'), (3, NULL, 'three')"
    ));
    let rig = Rig::new(server, &[&format!("{database}.*")]);
    rig.run_well();
    rig
}

fn generated_columns(server: &Server, database: &str) {
    let rig = generated(server, database);
    server.sql(&format!(
        "INSERT INTO `{database}`.g (id, a, t) VALUES (4, 40, 'four'); UPDATE `{database}`.g SET a = a + 1 WHERE id < 3; \
         UPDATE `{database}`.g SET t = 'other' WHERE id = 3; UPDATE `{database}`.g SET id = 9 WHERE id = 4; \
         DELETE FROM `{database}`.g WHERE id = 2"
    ));
    rig.run_well();
    rig.assert_exact(&server.endpoint(), database, &["g"]);
}

fn own(options: ServerOptions) -> Option<Server> {
    server::or_skip(Server::start(options))
}

#[test]
fn mysql_9_7_without_gtids() {
    let Some(server) = own(ServerOptions::new().gtid_mode(false)) else { return };
    replicate(&server, "e2e", 2);
    generated_columns(&server, "e2e_generated");
}

#[test]
fn mysql_5_6_with_gtids() {
    let Some(server) = server::shared_of(Flavor::Mysql56) else { return };
    replicate(server, "e2e", 8);
}

#[test]
fn mysql_5_6_without_gtids() {
    let Some(server) = own(ServerOptions::new().flavor(Flavor::Mysql56).gtid_mode(false)) else { return };
    replicate(&server, "e2e", 8);
}

#[test]
fn mariadb_10_5() {
    let Some(server) = server::shared_of(Flavor::Mariadb105) else { return };
    replicate(server, "e2e", 2);
    generated_columns(server, "e2e_generated");
}

#[test]
fn mariadb_10_11() {
    let Some(server) = server::shared_of(Flavor::Mariadb1011) else { return };
    replicate(server, "e2e", 2);
    generated_columns(server, "e2e_generated");
}

#[test]
fn mariadb_11_8() {
    let Some(server) = server::shared_of(Flavor::Mariadb118) else { return };
    replicate(server, "e2e", 2);
    // It leaves generated columns out of the images of an UPDATE, and nobody but the server can compute them.
    let rig = generated(server, "e2e_generated");
    server.sql("UPDATE e2e_generated.g SET a = a + 1 WHERE id < 3");
    let output = rig.run();
    assert!(!output.exit.success() && output.stderr.contains("lacks the generated column v"), "{}", output.stderr);
}
