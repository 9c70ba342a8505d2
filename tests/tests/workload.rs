//! The workload: loads fast, repeats itself by seed, counts what the server really did.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use millstream_tests::oracle::{ListedKind, Listing};
use millstream_tests::server::{Endpoint, Server, ServerOptions, or_skip};
use millstream_tests::source::{SourceTable, TextRow};
use millstream_tests::workload::Workload;

fn server() -> Option<Server> {
    or_skip(Server::start(ServerOptions::new().durable(false)))
}

fn contents(endpoint: &Endpoint, database: &str) -> Vec<Vec<TextRow>> {
    let read = |table: &str| {
        let table = SourceTable::describe(endpoint, database, table).unwrap();
        table.read(endpoint).unwrap()
    };
    Workload::TABLES.iter().map(|table| read(table)).collect()
}

/// How many changes of each kind the server's own mysqlbinlog lists for a database.
fn listed(server: &Server, database: &str) -> HashMap<ListedKind, u64> {
    let keys = Workload::TABLES.map(|table| {
        let source = SourceTable::describe(&server.endpoint(), database, table).unwrap();
        (format!("{database}.{table}"), source.key)
    });
    let mut counts = HashMap::new();
    for change in Listing::of(server, "binlog.000001", HashMap::from(keys)).unwrap() {
        let change = change.unwrap();
        if change.database == database {
            *counts.entry(change.kind).or_default() += 1;
        }
    }
    counts
}

fn rows_scanned(server: &Server) -> u64 {
    let status = server.sql("SHOW GLOBAL STATUS LIKE 'Handler_read_rnd_next'");
    status[0][1].parse().unwrap()
}

#[test]
fn the_same_seed_does_the_same() {
    let Some(server) = server() else { return };
    let endpoint = server.endpoint();
    let mut all = Vec::new();
    for (database, seed) in [("one", 7), ("two", 7), ("three", 8)] {
        let mut workload = Workload::new(database, seed, 3);
        workload.create(&endpoint).unwrap();
        let progress = AtomicU64::new(0);
        workload.load(&endpoint, 4_000, &progress).unwrap();
        assert_eq!(progress.into_inner(), 4_000);
        let loaded = contents(&endpoint, database);
        assert_eq!(loaded.iter().map(Vec::len).collect::<Vec<_>>(), [1334, 1333, 1333]);
        let scanned = rows_scanned(&server);
        let counts = workload.run(&endpoint, 200).unwrap();
        let scanned = rows_scanned(&server) - scanned;
        // Asking for the counter reads some hundred; one scan of a table reads more than 1,300.
        assert!(scanned < 1000, "statements find their rows by key, yet {scanned} rows were scanned");
        assert_eq!(counts.transactions + counts.rollbacks, 200);
        assert!(counts.rollbacks > 0 && counts.key_changes > 0 && counts.deletes > 0);
        let expected = HashMap::from([
            (ListedKind::Insert, 4_000 + counts.inserts),
            (ListedKind::Update, counts.updates),
            (ListedKind::KeyChange, counts.key_changes),
            (ListedKind::Delete, counts.deletes),
        ]);
        assert_eq!(listed(&server, database), expected, "what is counted is in the binlog, and no more");
        let rows = 4_000 + counts.inserts - counts.deletes;
        let now = contents(&endpoint, database);
        assert_eq!(now.iter().map(Vec::len).sum::<usize>() as u64, rows);
        all.push((loaded, counts, now));
    }
    assert!(all[0] == all[1], "the same seed");
    assert!(all[0] != all[2], "another seed");
}

#[test]
fn running_writers_survive_a_restart_of_the_server() {
    let Some(server) = server() else { return };
    let endpoint = server.endpoint();
    let workload = Workload::new("w", 1, 2);
    workload.create(&endpoint).unwrap();
    let running = workload.start(&endpoint, Some(400.0));
    let wait_for = |more: u64| {
        let (start, deadline) = (running.counts(), Instant::now() + Duration::from_secs(30));
        while running.counts().transactions < start.transactions + more {
            assert!(Instant::now() < deadline, "the writers do not write");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    wait_for(50);
    server.restart().unwrap();
    wait_for(50);
    let (workload, counts) = running.stop();
    // A server on its way down may still take a connection, and then refuse the transaction.
    assert!(counts.unknown <= 10, "{counts:?}");
    assert!(counts.changes() > counts.transactions);
    // And on, from where it stopped.
    let running = workload.start(&endpoint, None);
    let deadline = Instant::now() + Duration::from_secs(30);
    while running.counts().transactions < 100 {
        assert!(Instant::now() < deadline, "the writers do not write again");
        std::thread::sleep(Duration::from_millis(5));
    }
    let (_, counts) = running.stop();
    assert_eq!(counts.unknown, 0, "{counts:?}");
}
