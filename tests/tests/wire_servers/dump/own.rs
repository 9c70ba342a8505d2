//! Dumps from servers of the test's own: what changes a server for everybody on it.

use std::time::Duration;

use millstream_binlog::event::EventBody;
use millstream_binlog::{DecoderOptions, EventDecoder, MariaGtidList};
use millstream_tests::server::{Flavor, Server, ServerOptions, or_skip};
use millstream_wire::{BinlogDump, Compression, Connection, DumpChecksum, DumpStart};

use super::log::{Log, Place, dump, eventually, everything, insert, root, table, texts, uuid};

super::on_every_server! {
    /// Conformance: D4, D6, D8
    a_server_of_its_own;
}

async fn a_server_of_its_own(flavor: Flavor) {
    let Some(server) = or_skip(Server::start(ServerOptions::new().flavor(flavor).durable(false))) else { return };
    if flavor.is_mariadb() {
        binlog_state(&server).await;
    }
    semi_sync(&server).await;
    purged(&server).await;
    without_checksums(&server).await;
    killed(&server).await;
}

/// A log of several domains and servers, as the server sums it up.
async fn binlog_state(server: &Server) {
    let mut c = table(server, "own_state").await;
    for (domain, id, sequence) in [(0, 5, 100), (7, 1, 1), (7, 5, 2), (0, 1, 101), (7, 1, 3), (9, 9, 9)] {
        c.execute(&format!("SET gtid_domain_id = {domain}, server_id = {id}, gtid_seq_no = {sequence}")).await.unwrap();
        insert(&mut c, "state-00").await;
        if domain == 7 {
            // The next file begins with what this one holds.
            c.execute("FLUSH BINARY LOGS").await.unwrap();
        }
    }
    let ask = "SELECT @@GLOBAL.gtid_binlog_state s, @@GLOBAL.gtid_binlog_pos p";
    let answer = c.query_all(ask).await.unwrap();
    let (state, pos) = (answer.text(0, "s").unwrap(), answer.text(0, "p").unwrap());
    let parsed: MariaGtidList = state.parse().unwrap();
    let mut list = MariaGtidList::new();
    let mut heads = 0;
    let mut stream = Connection::connect(&server.connect_options("repl"))
        .await
        .unwrap()
        .dump(dump(everything(server.flavor()), 6000))
        .await
        .unwrap();
    let mut decoder = EventDecoder::new(DecoderOptions {
        stream_checksum: Some(millstream_binlog::event::Checksum::Crc32),
        ..DecoderOptions::default()
    });
    while let Some(event) = stream.next().await.unwrap() {
        match decoder.decode(&event).unwrap().body {
            EventBody::MariaGtid(event) => list.insert(event.gtid),
            EventBody::GtidList(head) => {
                heads += 1;
                // An artificial one comes at the end, when the place that was asked for is reached.
                let head: MariaGtidList = head.iter().collect();
                assert_eq!(head, list, "{}", server.flavor());
            }
            _ => {}
        }
    }
    assert!(heads > 3, "{heads}");
    assert_eq!(list, parsed, "{}", server.flavor());
    let sorted = |text: &str| {
        let mut all: Vec<_> = text.split(',').map(str::to_owned).collect();
        all.sort();
        all
    };
    assert_eq!(sorted(&list.to_string()), sorted(state), "{}", server.flavor());
    assert_eq!(sorted(&list.pos().to_string()), sorted(pos), "{}", server.flavor());

    // A number that was left out, and one of another server: what is behind it is sent, unless the replica is strict.
    for gtid in ["0-5-50", "7-5-1"] {
        for gtid_strict in [false, true] {
            let hole = BinlogDump { gtid_strict, ..dump(DumpStart::MariaGtid(gtid.into()), 6000) };
            let mut log = Log::open(server, hole).await.unwrap();
            if gtid_strict {
                let e = log.failure().await;
                assert!(e.is_diverged() && e.is_position_lost() && !e.is_purged(), "{}: {e}", server.flavor());
            } else {
                assert!(!texts(&log.rest().await, "state-").is_empty(), "{} {gtid}", server.flavor());
            }
        }
    }
}

async fn semi_sync(server: &Server) {
    let mut c = table(server, "own_semi_sync").await;
    let place = Place::now(&mut c).await;
    insert(&mut c, "semi-00").await;
    // Where semi-sync is off, or not there, asking for it changes nothing. (MariaDB marks its events all the same.)
    let heartbeat = Duration::from_millis(50);
    let mut asking = BinlogDump { semi_sync: true, non_blocking: false, heartbeat, ..dump(place.start(), 6001) };
    let mut log = Log::open(server, asking.clone()).await.unwrap();
    let off = log.up_to("semi-00").await;
    // MariaDB's thread for acknowledgements does not notice that a replica left or came while it listens to others.
    drop(log);
    let dumps = "SELECT COUNT(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'";
    eventually("no dump is open", async || c.query_all(dumps).await.unwrap().scalar() == Some("0")).await;
    assert!(off.iter().all(|s| !s.wants_ack) && texts(&off, "semi-") == ["semi-00"], "{}", server.flavor());

    let (prefix, plugin) = match server.flavor() {
        Flavor::Mysql97 => ("rpl_semi_sync_source", Some("semisync_source.so")),
        Flavor::Mysql56 => {
            println!("SKIPPED: this MySQL 5.6 comes without the semi-sync plugin");
            return;
        }
        _ => ("rpl_semi_sync_master", None),
    };
    if let Some(plugin) = plugin {
        c.execute(&format!("INSTALL PLUGIN {prefix} SONAME '{plugin}'")).await.unwrap();
    }
    // Ten minutes: a commit that nobody acknowledges fails the test by its absence.
    c.execute(&format!("SET GLOBAL {prefix}_timeout = 600000")).await.unwrap();
    c.execute(&format!("SET GLOBAL {prefix}_enabled = 1")).await.unwrap();
    let status = format!("SHOW GLOBAL STATUS LIKE '{prefix}_%_tx'");
    let counts = async |c: &mut Connection| {
        let rows = c.query_all(&status).await.unwrap();
        let find =
            |what: &str| (0..rows.len()).find(|i| rows.text(*i, "Variable_name").unwrap().ends_with(what)).unwrap();
        ["_yes_tx", "_no_tx"].map(|what| rows.text(find(what), "Value").unwrap().parse::<u64>().unwrap())
    };
    let before = counts(&mut c).await;
    // MariaDB is connected to once: its thread for acknowledgements may not notice a replica that comes after another left.
    let by_compression = match server.flavor() {
        Flavor::Mysql97 => vec![Compression::None, Compression::Zlib],
        Flavor::Mariadb1011 => vec![Compression::Zlib],
        _ => vec![Compression::None],
    };
    let mut last = "semi-00".to_owned();
    let mut commits = 0;
    for compression in by_compression {
        asking.server_id += 1;
        asking.replica_uuid = uuid(asking.server_id);
        let options = server.connect_options("repl").compression(compression);
        let mut log = Log::open_at(&options, asking.clone()).await.unwrap();
        // Nobody waits for what is there already.
        let old = log.up_to(&last).await;
        assert!(old.iter().all(|s| !s.wants_ack), "{}", server.flavor());
        for n in 0..3 {
            let mut writer = root(server).await;
            writer.execute("USE own_semi_sync").await.unwrap();
            let text = format!("semi-{}{n}", 1 + commits / 3);
            let commit = tokio::spawn({
                let text = text.clone();
                async move { insert(&mut writer, &text).await }
            });
            log.until(|s| s.is_rows() && s.has(&text)).await;
            log.until(|s| s.wants_ack).await;
            assert!(!commit.is_finished(), "{}: a commit that waited for nobody", server.flavor());
            let (file, position) = (log.file.clone(), log.position);
            log.stream.acknowledge(&file, position).await.unwrap();
            commit.await.unwrap();
            commits += 1;
            last = text;
        }
    }
    let after = counts(&mut c).await;
    assert_eq!([after[0] - before[0], after[1] - before[1]], [commits, 0], "{}", server.flavor());
    c.execute(&format!("SET GLOBAL {prefix}_enabled = 0")).await.unwrap();
}

async fn purged(server: &Server) {
    let flavor = server.flavor();
    let mut c = table(server, "own_purged").await;
    insert(&mut c, "purged-00").await;
    let (file, position) = server.position();
    c.execute("FLUSH BINARY LOGS").await.unwrap();
    insert(&mut c, "purged-01").await;
    // Files that may be needed to recover stay until a checkpoint is written: MariaDB's purge takes them a moment later.
    let last = server.position().0;
    eventually("all but one file are purged", async || {
        c.execute(&format!("PURGE BINARY LOGS TO '{last}'")).await.unwrap();
        c.query_all("SHOW BINARY LOGS").await.unwrap().len() == 1
    })
    .await;
    let zero = match flavor.is_mariadb() {
        true => DumpStart::MariaGtid(String::new()),
        false => everything(flavor),
    };
    for start in [DumpStart::Position { file, position }, zero] {
        let e = Log::open(server, dump(start.clone(), 6002)).await.unwrap().failure().await;
        assert!(e.is_purged() && e.is_position_lost() && !e.is_bad_position() && !e.is_diverged(), "{flavor}: {e}");
        assert!(!e.is_retryable(), "{flavor}: {e}");
    }
}

async fn without_checksums(server: &Server) {
    let mut c = table(server, "own_checksums").await;
    c.execute("SET GLOBAL binlog_checksum = NONE").await.unwrap();
    let place = Place::now(&mut c).await;
    insert(&mut c, "plain-00").await;
    for checksum in [DumpChecksum::Crc32, DumpChecksum::None, DumpChecksum::Undeclared] {
        let mut log = Log::open(server, BinlogDump { checksum, ..dump(place.start(), 6003) }).await.unwrap();
        assert_eq!(texts(&log.rest().await, "plain-"), ["plain-00"], "{} {checksum:?}", server.flavor());
    }
    c.execute("SET GLOBAL binlog_checksum = CRC32").await.unwrap();
    insert(&mut c, "plain-01").await;
    // From one kind of log into the other.
    let all = Log::open(server, dump(place.start(), 6003)).await.unwrap().rest().await;
    assert_eq!(texts(&all, "plain-"), ["plain-00", "plain-01"], "{}", server.flavor());
}

async fn killed(server: &Server) {
    let (file, position) = server.position();
    let start = DumpStart::Position { file, position };
    let waiting = BinlogDump { non_blocking: false, ..BinlogDump::new(start, 6004, uuid(6004)) };
    let mut log = Log::open(server, waiting).await.unwrap();
    log.next().await.unwrap().unwrap();
    server.kill().unwrap();
    let e = log.failure().await;
    assert!(e.is_transport() && e.is_retryable() && !e.is_position_lost(), "{}: {e}", server.flavor());
    assert!(e.to_string().contains("waiting for the next binlog event"), "{e}");
}
