//! Where dumps start, and what they carry from there.

use std::time::Duration;

use millstream_binlog::{EventType, GtidSet};
use millstream_tests::proxy::{Direction, Proxy};
use millstream_tests::server::{self, Flavor};
use millstream_wire::statements::{Ask, statement};
use millstream_wire::{BinlogDump, ConnectOptions, Connection, DumpChecksum, DumpStart, SslMode};

use super::log::{Id, Log, Place, dump, insert, root, table, texts, uuid};

super::on_every_server! {
    /// Conformance: D1, D2, D3, D7, E1
    /// Bug: 77, 85, 92
    starts_by_position_and_by_gtid;
    /// Conformance: D4
    /// Bug: 77, 78
    checksums_are_as_declared;
    /// Conformance: D5
    heartbeats_come_while_nothing_happens;
    /// Conformance: W8
    /// Bug: 82
    forty_mebibytes_in_one_event;
    /// Conformance: P1
    /// Bug: 85
    a_cut_in_the_middle_of_a_group_loses_and_repeats_nothing;
}

async fn starts_by_position_and_by_gtid(flavor: Flavor) {
    let Some(server) = server::shared_of(flavor) else { return };
    let mut c = table(server, "dump_starts").await;
    let (first, mut first_place) = (server.position(), Place::now(&mut c).await);
    insert(&mut c, "starts-00").await;
    insert(&mut c, "starts-01").await;
    let (second, second_place) = (server.position(), Place::now(&mut c).await);
    insert(&mut c, "starts-02").await;
    let at = |(file, position): (String, u64)| DumpStart::Position { file, position };
    let all = ["starts-00", "starts-01", "starts-02"];
    for (start, asked, want) in [
        (at(first.clone()), Some(first), &all[..]),
        (at(second.clone()), Some(second), &all[2..]),
        (first_place.start(), None, &all),
        (second_place.start(), None, &all[2..]),
    ] {
        let mut log = Log::open(server, dump(start.clone(), 5001)).await.unwrap();
        // The artificial ROTATE names the place where the dump begins.
        let rotate = log.next().await.unwrap().unwrap();
        assert!(rotate.event_type == EventType::ROTATE && rotate.artificial, "{start:?}");
        match asked {
            Some(asked) => assert_eq!((log.file.clone(), log.position), asked),
            // MariaDB finds the place in the file by an index.
            None => assert!(log.position == 4 || flavor == Flavor::Mariadb118, "{flavor} {}", log.position),
        }
        let seen = log.rest().await;
        assert_eq!(seen[0].event_type, EventType::FORMAT_DESCRIPTION);
        assert_eq!(texts(&seen, "starts-"), want, "{flavor} {start:?}");
        assert!(log.next().await.unwrap().is_none());
    }

    // On with what was read to its end: the first transaction.
    let mut log = Log::open(server, dump(first_place.start(), 5001)).await.unwrap();
    let mut id = None;
    loop {
        let seen = log.next().await.unwrap().unwrap();
        if seen.id.is_some() {
            // Other tests' transactions may lie between.
            if let Some(done) = core::mem::replace(&mut id, seen.id) {
                first_place.add(done);
            }
        }
        if seen.is_rows() && seen.has("starts-00") {
            first_place.add(id.unwrap());
            break;
        }
    }
    let seen = Log::open(server, dump(first_place.start(), 5001)).await.unwrap().rest().await;
    assert_eq!(texts(&seen, "starts-"), all[1..], "{flavor}");

    let annotated = |seen: &[super::log::Seen]| seen.iter().any(|s| s.event_type == EventType::ANNOTATE_ROWS);
    assert!(!annotated(&seen));
    if flavor.is_mariadb() {
        let asked = BinlogDump { annotate_rows: true, ..dump(second_place.start(), 5001) };
        assert!(annotated(&Log::open(server, asked).await.unwrap().rest().await), "{flavor}");
    }
    if flavor.has_payload_events() {
        tagged(&mut c, server).await;
    }
}

/// A dump that has transactions with tags.
async fn tagged(c: &mut Connection, server: &server::Server) {
    c.execute("SET gtid_next = 'AUTOMATIC:millstream_1'").await.unwrap();
    let mut place = Place::now(c).await;
    insert(c, "starts-10").await;
    insert(c, "starts-11").await;
    c.execute("SET gtid_next = 'AUTOMATIC'").await.unwrap();
    let mut log = Log::open(server, dump(place.start(), 5001)).await.unwrap();
    let seen = log.until(|s| s.event_type == EventType::GTID_TAGGED).await;
    let Some(Id::MySql(gtid)) = seen.id else { panic!("{seen:?}") };
    assert_eq!(gtid.tsid.tag.as_str(), "millstream_1");
    place.add(Id::MySql(gtid));
    let seen = Log::open(server, dump(place.start(), 5001)).await.unwrap().rest().await;
    assert_eq!(texts(&seen, "starts-"), ["starts-11"]);
}

async fn checksums_are_as_declared(flavor: Flavor) {
    let Some(server) = server::shared_of(flavor) else { return };
    let mut c = table(server, "dump_checksums").await;
    let place = Place::now(&mut c).await;
    insert(&mut c, "checksum-00").await;
    for checksum in [DumpChecksum::Crc32, DumpChecksum::None] {
        // The log verifies each checksum. `None` says nothing about events that have one already: only the first
        // artificial ROTATE differs.
        let mut log = Log::open(server, BinlogDump { checksum, ..dump(place.start(), 5002) }).await.unwrap();
        let first = log.next().await.unwrap().unwrap();
        let crc = if checksum == DumpChecksum::Crc32 { 4 } else { 0 };
        assert_eq!(first.bytes.len(), 19 + 8 + log.file.len() + crc, "{flavor} {checksum:?}");
        assert_eq!(texts(&log.rest().await, "checksum-"), ["checksum-00"], "{flavor} {checksum:?}");
    }
    let undeclared = BinlogDump { checksum: DumpChecksum::Undeclared, ..dump(place.start(), 5002) };
    let e = Log::open(server, undeclared).await.unwrap().failure().await;
    assert!(e.is_checksum_undeclared() && !e.is_position_lost() && !e.is_retryable(), "{flavor}: {e}");
}

async fn heartbeats_come_while_nothing_happens(flavor: Flavor) {
    let Some(server) = server::shared_of(flavor) else { return };
    let (file, position) = server.position();
    let mut idle = dump(DumpStart::Position { file, position }, 5003);
    (idle.non_blocking, idle.heartbeat) = (false, Duration::from_millis(20));
    let mut log = Log::open(server, idle).await.unwrap();
    let version = if flavor == Flavor::Mysql97 { EventType::HEARTBEAT_V2 } else { EventType::HEARTBEAT };
    for _ in 0..3 {
        let beat = log.until(|s| s.is_heartbeat()).await;
        assert_eq!(beat.event_type, version, "{flavor}");
        assert!(beat.has(&log.file), "{flavor}");
    }
    // It shows up among the replicas.
    let mut c = root(server).await;
    let ask = statement(Ask::Replicas, c.version());
    let replicas = c.query_all(ask).await.unwrap();
    let ours = (0..replicas.len()).find(|i| replicas.text(*i, "Server_id") == Some("5003"));
    let ours = ours.unwrap_or_else(|| panic!("{flavor}: {replicas:?}"));
    let shown = replicas.text(ours, "Replica_UUID").or_else(|| replicas.text(ours, "Slave_UUID"));
    assert!(flavor.is_mariadb() || shown == Some(&uuid(5003)), "{flavor}: {shown:?}");
}

async fn forty_mebibytes_in_one_event(flavor: Flavor) {
    let Some(server) = server::shared_of(flavor) else { return };
    let mut c = root(server).await;
    for sql in [
        "SET GLOBAL max_allowed_packet = 128 * 1024 * 1024",
        "CREATE DATABASE IF NOT EXISTS dump_big",
        "DROP TABLE IF EXISTS dump_big.t",
        // Other engines would log it once more, or (5.6) refuse what is larger than a tenth of their log.
        "CREATE TABLE dump_big.t (b LONGBLOB) ENGINE=MyISAM",
    ] {
        c.execute(sql).await.unwrap();
    }
    let mut c = root(server).await;
    let place = Place::now(&mut c).await;
    let big = vec![b'x'; 40 << 20];
    c.execute(&format!("INSERT INTO dump_big.t VALUES (REPEAT('x', {}))", big.len())).await.unwrap();
    let mut log = Log::open(server, dump(place.start(), 5004)).await.unwrap();
    let rows = log.until(|s| s.is_rows() && s.bytes.len() > big.len()).await;
    // Behind it is the checksum.
    assert!(rows.bytes[..rows.bytes.len() - 4].ends_with(&big), "{flavor}");
    // The next one is in order again.
    log.rest().await;
    c.execute("DROP TABLE dump_big.t").await.unwrap();
}

async fn a_cut_in_the_middle_of_a_group_loses_and_repeats_nothing(flavor: Flavor) {
    let Some(server) = server::shared_of(flavor) else { return };
    let mut c = table(server, "dump_cuts").await;
    let mut place = Place::now(&mut c).await;
    let want: Vec<_> = (10..30).map(|n| format!("cut-{n}")).collect();
    for group in want.chunks(4) {
        c.execute("BEGIN").await.unwrap();
        for text in group {
            insert(&mut c, text).await;
        }
        c.execute("COMMIT").await.unwrap();
    }
    let proxy = Proxy::to_port(server.port()).unwrap();
    let through = ConnectOptions::tcp("127.0.0.1", proxy.port())
        .user("repl")
        .password(server::REPL_PASSWORD)
        .ssl_mode(SslMode::Disabled)
        .allow_public_key_retrieval(true);
    let (mut got, mut cuts) = (Vec::new(), 0);
    'again: loop {
        let connection = Connection::connect(&through).await.unwrap();
        if cuts < 12 {
            // Wherever this many bytes end: mostly between the rows of a group, and often inside an event.
            proxy.cut_after(Direction::ToClient, 450 + 61 * cuts);
        }
        let mut log = match Log::over(connection, dump(place.start(), 5005)).await {
            Ok(log) => log,
            Err(e) => panic!("{flavor}: cut too early: {e}"),
        };
        // A group is done when the next one begins, or at the end.
        let mut group: Option<(Id, Vec<String>)> = None;
        let mut done = |group: Option<(Id, Vec<String>)>| {
            if let Some((id, texts)) = group {
                place.add(id);
                got.extend(texts);
            }
        };
        loop {
            match log.next().await {
                Ok(Some(seen)) => {
                    if let Some(id) = seen.id {
                        done(group.replace((id, Vec::new())));
                    }
                    if let Some((_, here)) = &mut group {
                        here.extend(texts(&[seen], "cut-"));
                    }
                }
                Ok(None) => {
                    done(group);
                    break 'again;
                }
                Err(e) => {
                    assert!(e.is_transport() && e.is_retryable(), "{flavor}: {e}");
                    cuts += 1;
                    continue 'again;
                }
            }
        }
    }
    assert_eq!(got, want, "{flavor} {cuts} cuts");
    assert_eq!(cuts, 12, "{flavor}");
}

/// The server's own arithmetic, on sets that have everything: UUIDs, tags, gaps.
///
/// Conformance: D2
/// Bug: 90, 91
#[tokio::test]
async fn gtid_sets_are_what_mysql_says() {
    for flavor in [Flavor::Mysql97, Flavor::Mysql56] {
        let Some(server) = server::shared_of(flavor) else { continue };
        let mut c = root(server).await;
        let mut rng = fastrand::Rng::with_seed(7);
        let mut set = || {
            let mut text = String::new();
            for _ in 0..rng.u8(0..12) {
                let uuid = ["3e11fa47-71ca-11e1-9e33-c80aa9429562", "4E11FA47-71CA-11E1-9E33-C80AA9429562"];
                text += uuid[rng.usize(..2)];
                if flavor == Flavor::Mysql97 {
                    text += ["", ":a", ":_b2"][rng.usize(..3)];
                }
                let start = rng.u64(1..40);
                text += &format!(":{start}-{},\n", start + rng.u64(0..9));
            }
            text
        };
        // Every other one is a part of the one it is compared with.
        let pairs: Vec<_> = (0..40)
            .map(|i| {
                let (a, b) = (set(), set());
                if i % 2 == 0 { (a, b) } else { (a.clone(), a + &b) }
            })
            .collect();
        let select: Vec<_> = pairs
            .iter()
            .map(|(a, b)| {
                format!("SELECT GTID_SUBTRACT('{a}', '') a, GTID_SUBTRACT('{a}', '{b}') d, GTID_SUBSET('{a}', '{b}') s")
            })
            .collect();
        let answer = c.query_all(&select.join(" UNION ALL ")).await.unwrap();
        let mut subsets = 0;
        for (i, (a, b)) in pairs.iter().enumerate() {
            let (a, b): (GtidSet, GtidSet) = (a.parse().unwrap(), b.parse().unwrap());
            assert_eq!(Some(format!("{a:#}").as_str()), answer.text(i, "a"), "{flavor}");
            let mut difference = a.clone();
            difference.subtract(&b);
            assert_eq!(Some(format!("{difference:#}").as_str()), answer.text(i, "d"), "{flavor}");
            assert_eq!(Some(if a.is_subset(&b) { "1" } else { "0" }), answer.text(i, "s"), "{flavor} {a} {b}");
            subsets += u32::from(a.is_subset(&b));
        }
        assert!((20..40).contains(&subsets), "{subsets}");
    }
}
