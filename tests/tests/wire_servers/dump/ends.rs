//! How dumps end that were not meant to.

use std::time::Duration;

use millstream_binlog::event::Checksum;
use millstream_binlog::{DecoderOptions, EventDecoder};
use millstream_tests::server::{self, Flavor};
use millstream_wire::{BinlogDump, ConnectOptions, Connection, DumpStart};

use super::log::{Log, dump, everything, root, table, uuid};

super::on_every_server! {
    /// Conformance: D8
    /// Bug: 95
    the_same_replica_twice;
    /// Conformance: D8
    positions_that_are_none;
    /// Conformance: D8, P3
    a_place_inside_an_event_is_told_or_refused_by_the_decoder;
    /// Conformance: D8
    a_killed_dump_and_a_missing_right_say_so;
}

fn waiting(server_id: u32, uuid: &str) -> BinlogDump {
    let mut dump = BinlogDump::new(DumpStart::Position { file: String::new(), position: 4 }, server_id, uuid);
    dump.heartbeat = Duration::from_millis(50);
    dump
}

async fn the_same_replica_twice(flavor: Flavor) {
    let Some(server) = server::shared_of(flavor) else { return };
    let mut next = 5100;
    for (same_id, same_uuid) in [(true, true), (false, true), (true, false)] {
        let (id, other) = (next, if same_id { next } else { next + 1 });
        let mut old = Log::open(server, waiting(id, &uuid(id))).await.unwrap();
        old.next().await.unwrap().unwrap();
        let mut new = Log::open(server, waiting(other, &uuid(if same_uuid { id } else { id + 1 }))).await.unwrap();
        new.next().await.unwrap().unwrap();
        let ends = if flavor.is_mariadb() { same_id } else { same_uuid };
        if ends {
            let e = old.failure().await;
            assert!(e.is_retryable() && !e.is_position_lost(), "{flavor}: {e}");
            if flavor == Flavor::Mysql56 {
                // It says nothing, and ends the stream in good order.
                assert!(e.to_string().contains("another replica has the same uuid or server id"), "{flavor}: {e}");
            } else {
                assert!(e.is_duplicate_replica() && e.to_string().contains("a UUID of its own"), "{flavor}: {e}");
            }
        } else {
            old.until(|s| s.is_heartbeat()).await;
        }
        new.until(|s| s.is_heartbeat()).await;
        next += 10;
    }
}

async fn positions_that_are_none(flavor: Flavor) {
    let Some(server) = server::shared_of(flavor) else { return };
    // MariaDB asks for a GTID only in a domain that its log has something of.
    table(server, "dump_positions").await;
    let (file, _) = server.position();
    let at = |file: &str, position| DumpStart::Position { file: file.into(), position };
    let future = match flavor.is_mariadb() {
        true => DumpStart::MariaGtid(format!("0-{}-99999999", server.server_id())),
        false => {
            let own = server.value("SELECT @@server_uuid");
            DumpStart::Gtid(format!("{own}:1-99999999").parse::<millstream_binlog::GtidSet>().unwrap().encode())
        }
    };
    for (start, kind) in [
        (at("binlog.999999", 4), "purged"),
        (at(&file, 1), "position"),
        (at(&file, 4_000_000_000), "position"),
        (at(&file, 9), "position"),
        (future, "diverged"),
    ] {
        let e = Log::open(server, dump(start.clone(), 5200)).await.unwrap().failure().await;
        let kinds = [("purged", e.is_purged()), ("position", e.is_bad_position()), ("diverged", e.is_diverged())];
        for (name, is) in kinds {
            assert_eq!(is, name == kind, "{flavor} {start:?}: {name}: {e}");
        }
        assert!(e.is_position_lost() && !e.is_retryable() && !e.is_duplicate_replica(), "{flavor}: {e}");
    }
}

/// A server does not know where events begin: it takes what lies at the place for one, and sends it if the bytes allow.
async fn a_place_inside_an_event_is_told_or_refused_by_the_decoder(flavor: Flavor) {
    let Some(server) = server::shared_of(flavor) else { return };
    let (file, _) = server.position();
    let mut told = 0;
    // All of these are inside FORMAT_DESCRIPTION, and behind the time and the server id, which are others each time.
    for position in 9..60 {
        let start = DumpStart::Position { file: file.clone(), position };
        let connection = Connection::connect(&server.connect_options("root")).await.unwrap();
        let mut stream = connection.dump(dump(start, 5400)).await.unwrap();
        let stream_checksum = Some(Checksum::Crc32);
        let mut decoder = EventDecoder::new(DecoderOptions { stream_checksum, ..DecoderOptions::default() });
        loop {
            match stream.next().await {
                Ok(Some(bytes)) => {
                    if decoder.decode(&bytes).is_err() {
                        break;
                    }
                }
                Ok(None) => panic!("{flavor}: {position} was taken"),
                Err(e) => {
                    assert!(e.is_bad_position() && !e.is_retryable(), "{flavor} {position}: {e}");
                    told += 1;
                    break;
                }
            }
        }
    }
    assert!(told > 40, "{flavor}: {told}");
}

async fn a_killed_dump_and_a_missing_right_say_so(flavor: Flavor) {
    let Some(server) = server::shared_of(flavor) else { return };
    let mut c = root(server).await;
    let connection = Connection::connect(&server.connect_options("repl")).await.unwrap();
    let id = connection.connection_id();
    let mut stream = connection.dump(waiting(5301, &uuid(5301))).await.unwrap();
    stream.next().await.unwrap().unwrap();
    c.execute(&format!("KILL {id}")).await.unwrap();
    let e = loop {
        match stream.next().await {
            Ok(event) => assert!(event.is_some()),
            Err(e) => break e,
        }
    };
    assert!(e.is_retryable() && !e.is_position_lost(), "{flavor}: {e}");

    c.execute("GRANT USAGE ON *.* TO dump_nobody@'%' IDENTIFIED BY 'x'").await.ok();
    c.execute("CREATE USER dump_nobody@'%' IDENTIFIED BY 'x'").await.ok();
    let nobody = ConnectOptions::tcp("127.0.0.1", server.port()).user("dump_nobody").password("x");
    for register in [true, false] {
        let refused = BinlogDump { register, ..dump(everything(flavor), 5302) };
        let e = match Log::open_at(&nobody, refused).await {
            Err(e) => e,
            Ok(mut log) => log.failure().await,
        };
        assert!(e.is_access_denied() && !e.is_auth(), "{flavor}: {e}");
    }
    c.execute("DROP USER dump_nobody@'%'").await.unwrap();
}
