//! The server harness itself: servers start, keep their data, and go with their test.

use millstream_tests::server::{Server, ServerOptions, or_skip};

#[test]
fn a_server_starts_and_runs_sql() {
    let Some(server) = or_skip(Server::start(ServerOptions::new())) else { return };
    let version = server.value("SELECT VERSION()");
    println!("version {version}");
    assert_eq!(server.value("SELECT @@gtid_mode"), "ON");
    let rows = server.sql(r"SELECT 1, 'a\tb\\c', NULL; SELECT 2");
    assert_eq!(rows, [vec!["1", "a\tb\\c", "NULL"], vec!["2"]]);
    assert!(server.try_sql("SELECT nonsense").unwrap_err().contains("ERROR 1054"));
}
