//! A dump whose events are decoded as they come.

use std::time::{Duration, Instant};

use bytes::Bytes;
use millstream_binlog::event::{Checksum, EventBody};
use millstream_binlog::{DecoderOptions, EventDecoder, EventType, Gtid, GtidSet, MariaGtid, MariaGtidPos};
use millstream_tests::server::{Flavor, Server};
use millstream_wire::{BinlogDump, BinlogStream, ConnectOptions, Connection, DumpChecksum, DumpStart, Error};

pub(super) async fn root(server: &Server) -> Connection {
    Connection::connect(&server.connect_options("root")).await.unwrap()
}

/// A dump that ends at the end of the log, by a replica of its own.
pub(super) fn dump(start: DumpStart, server_id: u32) -> BinlogDump {
    let mut dump = BinlogDump::new(start, server_id, uuid(server_id));
    dump.non_blocking = true;
    dump
}

pub(super) fn uuid(n: u32) -> String {
    format!("{n:08x}-2222-3333-4444-555555555555")
}

/// A table of the test's own: rows are found again by their texts.
pub(super) async fn table(server: &Server, name: &str) -> Connection {
    let mut c = root(server).await;
    c.execute(&format!("DROP DATABASE IF EXISTS {name}")).await.unwrap();
    c.execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    c.execute(&format!("USE {name}")).await.unwrap();
    c.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(60)) ENGINE=InnoDB").await.unwrap();
    c
}

/// One transaction.
pub(super) async fn insert(c: &mut Connection, text: &str) {
    c.execute(&format!("INSERT INTO t (v) VALUES ('{text}')")).await.unwrap();
}

/// GTIDs of either kind that a replica has.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Place {
    MySql(GtidSet),
    Maria(MariaGtidPos),
}

impl Place {
    /// All that the server has.
    pub(super) async fn now(c: &mut Connection) -> Self {
        let maria = c.version().is_mariadb();
        let query = if maria { "SELECT @@GLOBAL.gtid_binlog_pos" } else { "SELECT @@GLOBAL.gtid_executed" };
        let text = c.query_all(query).await.unwrap().scalar().unwrap().to_owned();
        if maria { Self::Maria(text.parse().unwrap()) } else { Self::MySql(text.parse().unwrap()) }
    }

    pub(super) fn start(&self) -> DumpStart {
        match self {
            Self::MySql(set) => DumpStart::Gtid(set.encode()),
            Self::Maria(pos) => DumpStart::MariaGtid(pos.to_string()),
        }
    }

    pub(super) fn add(&mut self, id: Id) {
        match (self, id) {
            (Self::MySql(set), Id::MySql(gtid)) => assert!(set.insert(gtid), "{gtid} came again"),
            (Self::Maria(pos), Id::Maria(gtid)) => {
                assert!(pos.is_followed_by(gtid), "{gtid} came again");
                pos.advance(gtid);
            }
            (place, id) => panic!("{id:?} at {place:?}"),
        }
    }
}

/// Waits until something is so.
pub(super) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_so().await {
        assert!(Instant::now() < deadline, "{what}: not within 120 s");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// From the server's first log on.
pub(super) fn everything(flavor: Flavor) -> DumpStart {
    if flavor.is_mariadb() { DumpStart::MariaGtid(String::new()) } else { DumpStart::Gtid(vec![0; 8]) }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Id {
    MySql(Gtid),
    Maria(MariaGtid),
}

/// What an event was.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) event_type: EventType,
    pub(super) artificial: bool,
    /// Of the event that begins a group.
    pub(super) id: Option<Id>,
    pub(super) wants_ack: bool,
    pub(super) bytes: Bytes,
}

impl Seen {
    /// Whether a text is in the event.
    pub(super) fn has(&self, text: &str) -> bool {
        self.bytes.windows(text.len()).any(|w| w == text.as_bytes())
    }

    pub(super) fn is_heartbeat(&self) -> bool {
        [EventType::HEARTBEAT, EventType::HEARTBEAT_V2].contains(&self.event_type)
    }

    pub(super) fn is_rows(&self) -> bool {
        matches!(
            self.event_type,
            EventType::WRITE_ROWS
                | EventType::UPDATE_ROWS
                | EventType::DELETE_ROWS
                | EventType::WRITE_ROWS_V1
                | EventType::UPDATE_ROWS_V1
                | EventType::DELETE_ROWS_V1
        )
    }
}

pub(super) struct Log {
    pub(super) stream: BinlogStream,
    decoder: EventDecoder,
    /// Where the log is: the end of the last event that has a place.
    pub(super) file: String,
    pub(super) position: u64,
}

impl Log {
    pub(super) async fn open(server: &Server, dump: BinlogDump) -> Result<Self, Error> {
        Self::open_at(&server.connect_options("repl"), dump).await
    }

    pub(super) async fn open_at(options: &ConnectOptions, dump: BinlogDump) -> Result<Self, Error> {
        Self::over(Connection::connect(options).await?, dump).await
    }

    pub(super) async fn over(connection: Connection, dump: BinlogDump) -> Result<Self, Error> {
        let stream_checksum = (dump.checksum == DumpChecksum::Crc32).then_some(Checksum::Crc32);
        let decoder = EventDecoder::new(DecoderOptions { stream_checksum, ..DecoderOptions::default() });
        let stream = connection.dump(dump).await?;
        Ok(Self { stream, decoder, file: String::new(), position: 0 })
    }

    /// The next event, decoded, its checksum verified; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Seen>, Error> {
        let Some(bytes) = self.stream.next().await? else { return Ok(None) };
        let event = self.decoder.decode(&bytes).unwrap();
        let mut id = None;
        match event.body {
            EventBody::Rotate(rotate) => {
                (self.file, self.position) = (rotate.file.to_owned(), rotate.position);
            }
            EventBody::Gtid(gtid) => id = gtid.gtid.map(Id::MySql),
            EventBody::MariaGtid(gtid) => id = Some(Id::Maria(gtid.gtid)),
            _ => {}
        }
        let header = event.header;
        if header.log_pos != 0 && !header.is_artificial() && header.event_type != EventType::ROTATE {
            self.position = u64::from(header.log_pos);
        }
        let (event_type, artificial) = (header.event_type, header.is_artificial());
        Ok(Some(Seen { event_type, artificial, id, wants_ack: self.stream.wants_ack(), bytes }))
    }

    /// Everything to the end.
    pub(super) async fn rest(&mut self) -> Vec<Seen> {
        let mut all = Vec::new();
        while let Some(seen) = self.next().await.unwrap() {
            all.push(seen);
        }
        all
    }

    /// Everything up to the rows with a text.
    pub(super) async fn up_to(&mut self, text: &str) -> Vec<Seen> {
        let mut all = Vec::new();
        loop {
            all.push(self.until(|_| true).await);
            if all.last().is_some_and(|s| s.is_rows() && s.has(text)) {
                return all;
            }
        }
    }

    /// How the dump fails.
    pub(super) async fn failure(&mut self) -> Error {
        loop {
            match self.next().await {
                Ok(seen) => assert!(seen.is_some(), "the dump ended"),
                Err(e) => return e,
            }
        }
    }

    /// Waits for an event.
    pub(super) async fn until(&mut self, what: impl Fn(&Seen) -> bool) -> Seen {
        loop {
            let seen = self.next().await.unwrap().expect("the dump ended");
            if what(&seen) {
                return seen;
            }
        }
    }
}

/// The texts that begin with `prefix` and two digits, in the order of their rows.
pub(super) fn texts(seen: &[Seen], prefix: &str) -> Vec<String> {
    let mut found = Vec::new();
    for event in seen.iter().filter(|s| s.is_rows()) {
        let len = prefix.len() + 2;
        let here = event.bytes.windows(len).filter(|w| w.starts_with(prefix.as_bytes()));
        found.extend(here.map(|w| String::from_utf8_lossy(w).into_owned()));
    }
    found
}
