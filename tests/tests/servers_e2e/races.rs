//! A commit that is in the log, and not visible for as long as a test wants: semi-synchronous replication that waits after
//! the sync of the log (AFTER_SYNC) for a replica that is not there.
//!
//! With its fence a chunk waits for it, or holds it; without, the row is lost. Nothing here depends on who is faster: the
//! commit is released by the test.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millstream_engine::pipeline::RunOptions;
use millstream_engine::pipeline::hooks::{Action, Point};
use millstream_engine::snapshot::dialect::Dialect;
use millstream_tests::rig::Rig;
use millstream_tests::server::{self, Flavor, Server, ServerOptions};

use crate::script::Run;

/// An INSERT that waits for a replica.
struct Held<'s> {
    server: &'s Server,
    insert: JoinHandle<()>,
}

/// The names of semi-sync's variables: `rpl_semi_sync_{role}_…` and `…_wait_no_{replica}`.
fn words(server: &Server) -> (&'static str, &'static str) {
    if server.flavor().is_mariadb() { ("master", "slave") } else { ("source", "replica") }
}

impl<'s> Held<'s> {
    /// Inserts row 1000 into `database.t`: when this returns the log has it, and nobody sees it.
    fn insert(server: &'s Server, database: &str) -> Self {
        let (role, replica) = words(server);
        server.sql(&format!(
            "SET GLOBAL rpl_semi_sync_{role}_wait_point = 'AFTER_SYNC', GLOBAL rpl_semi_sync_{role}_timeout = 600000, GLOBAL \
             rpl_semi_sync_{role}_wait_no_{replica} = ON, GLOBAL rpl_semi_sync_{role}_enabled = ON"
        ));
        let before = server.position();
        let (endpoint, statement) = (server.endpoint(), format!("INSERT INTO `{database}`.t VALUES (1000, 'held')"));
        let insert = std::thread::spawn(move || {
            endpoint.session().unwrap().sql(&statement).unwrap();
        });
        let deadline = Instant::now() + Duration::from_secs(60);
        while server.position() == before {
            assert!(Instant::now() < deadline, "the INSERT does not reach the log");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(server.value(&format!("SELECT COUNT(*) FROM `{database}`.t WHERE id = 1000")), "0");
        Self { server, insert }
    }

    fn release(self) {
        self.server.sql(&format!("SET GLOBAL rpl_semi_sync_{}_enabled = OFF", words(self.server).0));
        self.insert.join().unwrap();
    }
}

fn table(server: &Server, database: &str) -> Rig {
    let rows: Vec<String> = (0..200).map(|id| format!("({id}, 'row')")).collect();
    server.sql(&format!(
        "CREATE DATABASE `{database}`; CREATE TABLE `{database}`.t (id INT PRIMARY KEY, v VARCHAR(20)); \
         INSERT INTO `{database}`.t VALUES {}",
        rows.join(",")
    ));
    let mut rig = Rig::new(server, &[&format!("{database}.*")]);
    rig.snapshot = "chunk_rows = 1000\nworkers = 1".to_owned();
    rig
}

/// Waits until the engine runs a statement with these words.
fn runs(server: &Server, words: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let statement =
        format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'repl' AND INFO LIKE '%{words}%'");
    while server.value(&statement) == "0" {
        assert!(Instant::now() < deadline, "no statement with {words}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The chunk with the row is at its fence while the commit is held.
fn held_commit_is_not_lost(server: &Server, database: &str, dialect: Dialect) {
    let rig = table(server, database);
    let held = Held::insert(server, database);
    let run = Run::with(&rig, RunOptions { dialect: Some(dialect), ..RunOptions::default() });
    match dialect {
        // Each waits in the statement, again and again.
        Dialect::LockingRead => runs(server, " SHARE"),
        Dialect::LogStatus => runs(server, "log_status"),
        _ => {
            let fence = run.script.gate(|seen| seen.point == Point::BeforeLowWatermark);
            run.script.reached(fence);
            run.script.open(fence, Action::GoOn);
        }
    }
    held.release();
    run.finish().unwrap();
    rig.run_well();
    rig.assert_exact(&server.endpoint(), database, &["t"]);
}

/// The same without a fence, which ends while the commit is held: the row never comes.
fn without_the_fence_it_is_lost(server: &Server, database: &str) {
    let rig = table(server, database);
    let held = Held::insert(server, database);
    Run::with(&rig, RunOptions { unfenced: true, ..RunOptions::default() }).finish().unwrap();
    held.release();
    rig.run_well();
    let differences = rig.upsert_differences(&server.endpoint(), database, "t");
    assert_eq!(differences, [r#"[Some("1000")] is missing"#]);
}

fn mysql(gtid_mode: bool) -> Option<Server> {
    let options = ServerOptions::new().gtid_mode(gtid_mode).flag("--performance-schema=ON");
    let server = server::or_skip(Server::start(options))?;
    server.sql("INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'");
    Some(server)
}

#[test]
fn mysql_9_7_with_gtids() {
    let Some(server) = mysql(true) else { return };
    held_commit_is_not_lost(&server, "fenced", Dialect::ExecutedSet);
    without_the_fence_it_is_lost(&server, "unfenced");
}

#[test]
fn mysql_9_7_without_gtids() {
    let Some(server) = mysql(false) else { return };
    held_commit_is_not_lost(&server, "locked", Dialect::LockingRead);
    // Before the grant: log_status itself waits for a commit that is held.
    without_the_fence_it_is_lost(&server, "unfenced");
    server.sql("GRANT BACKUP_ADMIN, XA_RECOVER_ADMIN ON *.* TO 'repl'@'%'");
    held_commit_is_not_lost(&server, "status", Dialect::LogStatus);
}

fn mariadb(flavor: Flavor) {
    let Some(server) = server::or_skip(Server::start(ServerOptions::new().flavor(flavor))) else { return };
    held_commit_is_not_lost(&server, "snapshot", Dialect::ConsistentSnapshot);
    held_commit_is_not_lost(&server, "locked", Dialect::LockingRead);
    without_the_fence_it_is_lost(&server, "unfenced");
}

#[test]
fn mariadb_10_5() {
    mariadb(Flavor::Mariadb105);
}

#[test]
fn mariadb_10_11() {
    mariadb(Flavor::Mariadb1011);
}

#[test]
fn mariadb_11_8() {
    mariadb(Flavor::Mariadb118);
}
