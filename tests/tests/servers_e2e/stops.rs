//! Without GTIDs a place means something in one log alone: when that is not there any more, the run stops by name.

use std::time::{Duration, Instant};

use millstream_tests::rig::Rig;
use millstream_tests::server::{self, Flavor, Server, ServerOptions};

const STOPPED: i32 = 1;

fn table(server: &Server, database: &str) {
    server.sql(&format!(
        "CREATE DATABASE `{database}`; CREATE TABLE `{database}`.t (id INT PRIMARY KEY, v VARCHAR(2000)); \
         INSERT INTO `{database}`.t VALUES (1, 'one'), (2, 'two')"
    ));
}

/// A pipeline that has read everything.
fn rig(server: &Server, database: &str) -> Rig {
    table(server, database);
    let rig = Rig::new(server, &[&format!("{database}.*")]);
    rig.run_well();
    rig.assert_exact(&server.endpoint(), database, &["t"]);
    rig
}

/// It stops with these words, and does so again.
#[track_caller]
fn stops(rig: &Rig, words: &[&str]) {
    for _ in 0..2 {
        let output = rig.run();
        assert_eq!(output.exit.code, STOPPED, "{}", output.stderr);
        for word in words {
            assert!(output.stderr.contains(word), "{word:?} is missing in {}", output.stderr);
        }
    }
}

/// So that a file that is made now has another timestamp than those before.
fn next_second(server: &Server) {
    let now = || server.value("SELECT UNIX_TIMESTAMP()");
    let (before, deadline) = (now(), Instant::now() + Duration::from_secs(30));
    while now() == before {
        assert!(Instant::now() < deadline, "time stands still");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn a_log_that_is_not_the_same(server: &Server) {
    let purged = rig(server, "purged");
    server.sql("INSERT INTO purged.t VALUES (3, 'three'); FLUSH BINARY LOGS; INSERT INTO purged.t VALUES (4, 'four')");
    let newest = server.position().0;
    // A dump that has not ended yet keeps its file.
    let deadline = Instant::now() + Duration::from_secs(30);
    while server.sql("SHOW BINARY LOGS").len() > 1 {
        assert!(Instant::now() < deadline, "the logs before {newest} stay");
        server.sql(&format!("PURGE BINARY LOGS TO '{newest}'"));
    }
    stops(&purged, &["has purged binlogs", "missing: what follows", "new state directory"]);

    let reset = rig(server, "reset_short");
    server.sql(server.flavor().reset_statement());
    stops(&reset, &["the source's log ends at", "the log was reset", "new state directory"]);

    let replaced = rig(server, "replaced");
    let place = server.position();
    next_second(server);
    server.sql(server.flavor().reset_statement());
    let mut id = 10;
    while server.position().1 <= place.1 {
        server.sql(&format!("INSERT INTO replaced.t VALUES ({id}, REPEAT('x', 1500))"));
        id += 1;
    }
    assert_eq!(server.position().0, place.0);
    stops(&replaced, &["is another file than before", "log was reset", "new state directory"]);
}

#[test]
fn mysql_9_7() {
    let Some(server) = server::or_skip(Server::start(ServerOptions::new().gtid_mode(false))) else { return };
    a_log_that_is_not_the_same(&server);
    let Some(other) = server::shared() else { return };
    let mut elsewhere = rig(&server, "elsewhere");
    table(other, "elsewhere");
    elsewhere.source_url = other.url("repl");
    stops(&elsewhere, &["the source is another server", "without GTIDs", "new state directory"]);
}

#[test]
fn mariadb_10_11() {
    let options = ServerOptions::new().flavor(Flavor::Mariadb1011);
    let Some(server) = server::or_skip(Server::start(options)) else { return };
    a_log_that_is_not_the_same(&server);
}
