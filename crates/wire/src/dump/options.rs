use core::time::Duration;

use crate::command::{self, DUMP_ANNOTATE_ROWS, DUMP_HEARTBEAT_V2, DUMP_NON_BLOCK};
use crate::error::Error;
use crate::version::{Flavor, ServerVersion};

/// Where a dump starts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DumpStart {
    /// MySQL: all transactions the server has but those of this set, in the binary encoding of COM_BINLOG_DUMP_GTID (the
    /// binlog crate makes it). An empty set is eight zero bytes.
    Gtid(Vec<u8>),
    /// MariaDB: what comes after these GTIDs, the last one of each domain, as text (`0-1-42,7-3-9`); all of a domain that
    /// is not named. Empty for all that the server has.
    MariaGtid(String),
    /// A place in a file.
    Position {
        /// The binlog file's name; empty for the server's first.
        file: String,
        /// Offset of an event, at least 4 and below 4 GiB.
        position: u64,
    },
}

/// What a replica says about checksums (`@source_binlog_checksum`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum DumpChecksum {
    /// It reads CRC32: what a server with `binlog_checksum=CRC32` asks for. The first artificial ROTATE has one.
    #[default]
    Crc32,
    /// It reads none, and yet takes the events of a log that has them with their checksums. Only the first artificial
    /// ROTATE differs: it has none.
    None,
    /// It says nothing, as a replica older than checksums: a server whose log has them refuses the dump.
    Undeclared,
}

/// How to open a dump. Build it with [`new`](Self::new) and change what differs.
#[derive(Clone, Debug)]
pub struct BinlogDump {
    /// Where to start.
    pub start: DumpStart,
    /// The replica's number: stable, and no other replica's. Never 0.
    pub server_id: u32,
    /// The replica's UUID as text. A later dump with the same one ends this one. MariaDB does not look at it.
    pub replica_uuid: String,
    /// What to say about checksums.
    pub checksum: DumpChecksum,
    /// An idle server sends a heartbeat this often; zero asks for none.
    pub heartbeat: Duration,
    /// The longest silence before the stream counts as dead. `None`: three heartbeats and at least 10 s; without
    /// heartbeats, the connection's read timeout.
    pub silence: Option<Duration>,
    /// End at the end of the log instead of waiting for more.
    pub non_blocking: bool,
    /// Show up in SHOW REPLICAS.
    pub register: bool,
    /// Take part in semi-synchronous replication: a commit on the source waits until a replica acknowledges. Off by
    /// default. Whoever turns it on acknowledges each event that asks for it, or the source's commits wait until
    /// `rpl_semi_sync_source_timeout`. Not for a non-blocking dump: nobody should wait for a replica that leaves, and
    /// MariaDB since 10.11 never ends it.
    pub semi_sync: bool,
    /// MariaDB: send ANNOTATE_ROWS, the statements that made rows. MySQL sends its ROWS_QUERY unasked.
    pub annotate_rows: bool,
    /// MariaDB: refuse to start by a GTID that is missing between others of its domain (`gtid_strict_mode`).
    pub gtid_strict: bool,
    /// How long the server waits for a reader that does not read (`net_write_timeout`), so that back-pressure is not
    /// taken for death; the server's default is 60 s.
    pub net_write_timeout: Duration,
}

impl BinlogDump {
    /// A blocking dump with heartbeats every second and checksums that shows up in SHOW REPLICAS.
    #[must_use]
    pub fn new(start: DumpStart, server_id: u32, replica_uuid: impl Into<String>) -> Self {
        Self {
            start,
            server_id,
            replica_uuid: replica_uuid.into(),
            checksum: DumpChecksum::Crc32,
            heartbeat: Duration::from_secs(1),
            silence: None,
            non_blocking: false,
            register: true,
            semi_sync: false,
            annotate_rows: false,
            gtid_strict: false,
            net_write_timeout: Duration::from_secs(3600),
        }
    }

    /// The statement that sets what the server reads before a dump.
    ///
    /// For MySQL each variable is set under its old name and its new one (8.0.26): versions as proxies tell them are not
    /// to be relied on, and nothing happens to a name that the server does not know.
    ///
    /// # Errors
    /// A wrong UUID, or a text that is no list of MariaDB's GTIDs.
    pub fn statement(&self, version: ServerVersion) -> Result<String, Error> {
        if !is_uuid(&self.replica_uuid) {
            return Err(Error::usage("a replica uuid must be a UUID with dashes"));
        }
        let mut set: Vec<(&str, String)> = Vec::new();
        let mut both = |old, new, value: String| {
            if !version.is_mariadb() {
                set.push((new, value.clone()));
            }
            set.push((old, value));
        };
        match self.checksum {
            DumpChecksum::Crc32 => both("@master_binlog_checksum", "@source_binlog_checksum", "'CRC32'".into()),
            DumpChecksum::None => both("@master_binlog_checksum", "@source_binlog_checksum", "'NONE'".into()),
            DumpChecksum::Undeclared => {}
        }
        let nanoseconds = u64::try_from(self.heartbeat.as_nanos()).unwrap_or(u64::MAX);
        both("@master_heartbeat_period", "@source_heartbeat_period", nanoseconds.to_string());
        both("@slave_uuid", "@replica_uuid", format!("'{}'", self.replica_uuid));
        if self.semi_sync {
            both("@rpl_semi_sync_slave", "@rpl_semi_sync_replica", "1".into());
        }
        if version.is_mariadb() {
            // MARIA_SLAVE_CAPABILITY_GTID: without it, GTIDs come as BEGIN, or end the dump.
            set.push(("@mariadb_slave_capability", "4".into()));
        }
        if let DumpStart::MariaGtid(gtids) = &self.start {
            if !gtids.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b',')) {
                return Err(Error::usage("a start by MariaDB's GTIDs is domain-server-sequence, …"));
            }
            set.push(("@slave_connect_state", format!("'{gtids}'")));
            set.push(("@slave_gtid_strict_mode", u8::from(self.gtid_strict).to_string()));
        }
        let seconds = self.net_write_timeout.as_secs().clamp(1, 31_536_000);
        set.push(("SESSION net_write_timeout", seconds.to_string()));
        let set: Vec<_> = set.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Ok(format!("SET {}", set.join(", ")))
    }

    /// The command that begins the dump.
    ///
    /// # Errors
    /// A server id of 0, a position beyond 4 GiB, semi-sync in a non-blocking dump, or a start that servers of this version do not know.
    pub fn request(&self, version: ServerVersion) -> Result<Vec<u8>, Error> {
        if self.server_id == 0 {
            return Err(Error::usage("server_id 0 cannot replicate: choose one between 1 and 4294967295"));
        }
        if self.semi_sync && self.non_blocking {
            return Err(Error::usage("a dump that ends at the end of the log cannot be semi-synchronous"));
        }
        let mut flags = 0;
        if self.non_blocking {
            flags |= DUMP_NON_BLOCK;
        }
        if version.is_at_least(Flavor::MySql, (8, 0, 26)) {
            flags |= DUMP_HEARTBEAT_V2;
        } else if version.is_mariadb() && self.annotate_rows {
            flags |= DUMP_ANNOTATE_ROWS;
        }
        match &self.start {
            DumpStart::Gtid(_) if version.is_mariadb() => {
                Err(Error::usage("MariaDB has no sets of MySQL's GTIDs: start by its own GTIDs, or by a position"))
            }
            DumpStart::Gtid(set) if set.get(7) == Some(&1) && !version.is_at_least(Flavor::MySql, (8, 3, 0)) => {
                Err(Error::usage("GTIDs with tags are not known to servers before 8.3"))
            }
            DumpStart::Gtid(set) => Ok(command::binlog_dump_gtid(set, flags, self.server_id)),
            DumpStart::MariaGtid(_) if !version.is_mariadb() => {
                Err(Error::usage("MySQL has none of MariaDB's GTIDs: start by a set of its own, or by a position"))
            }
            DumpStart::MariaGtid(_) => command::binlog_dump("", 4, flags, self.server_id),
            DumpStart::Position { file, position } => command::binlog_dump(file, *position, flags, self.server_id),
        }
    }

    /// The longest silence before the stream counts as dead, where the connection's own limit is `read_timeout`.
    #[must_use]
    pub fn silence(&self, read_timeout: Option<Duration>) -> Option<Duration> {
        match (self.silence, self.heartbeat) {
            (Some(silence), _) => Some(silence),
            (None, Duration::ZERO) => read_timeout,
            (None, heartbeat) => Some(heartbeat.saturating_mul(3).max(Duration::from_secs(10))),
        }
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dump() -> BinlogDump {
        BinlogDump::new(DumpStart::Gtid(vec![0; 8]), 7, "11111111-2222-3333-4444-555555555555")
    }

    fn version(text: &str) -> ServerVersion {
        ServerVersion::parse(text)
    }

    const OLD: &str = "5.6.24";
    const NEW: &str = "9.7.4";
    const MARIA: &str = "5.5.5-10.11.18-MariaDB";

    /// Conformance: D4, D5, D6
    /// Bug: 69, 114
    #[test]
    fn each_server_hears_what_it_reads() {
        let maria = BinlogDump { start: DumpStart::MariaGtid("0-1-42,7-3-9".into()), gtid_strict: true, ..dump() };
        for (dump, server, set) in [
            (
                dump(),
                NEW,
                "SET @source_binlog_checksum='CRC32', @master_binlog_checksum='CRC32', \
                 @source_heartbeat_period=1000000000, @master_heartbeat_period=1000000000, \
                 @replica_uuid='11111111-2222-3333-4444-555555555555', \
                 @slave_uuid='11111111-2222-3333-4444-555555555555', SESSION net_write_timeout=3600",
            ),
            (
                BinlogDump {
                    checksum: DumpChecksum::None,
                    semi_sync: true,
                    heartbeat: Duration::ZERO,
                    net_write_timeout: Duration::ZERO,
                    ..dump()
                },
                OLD,
                "SET @source_binlog_checksum='NONE', @master_binlog_checksum='NONE', @source_heartbeat_period=0, \
                 @master_heartbeat_period=0, @replica_uuid='11111111-2222-3333-4444-555555555555', \
                 @slave_uuid='11111111-2222-3333-4444-555555555555', @rpl_semi_sync_replica=1, \
                 @rpl_semi_sync_slave=1, SESSION net_write_timeout=1",
            ),
            (
                BinlogDump { checksum: DumpChecksum::Undeclared, semi_sync: true, ..maria },
                MARIA,
                "SET @master_heartbeat_period=1000000000, @slave_uuid='11111111-2222-3333-4444-555555555555', \
                 @rpl_semi_sync_slave=1, @mariadb_slave_capability=4, @slave_connect_state='0-1-42,7-3-9', \
                 @slave_gtid_strict_mode=1, SESSION net_write_timeout=3600",
            ),
        ] {
            assert_eq!(dump.statement(version(server)).unwrap(), set, "{server}");
        }
    }

    #[test]
    fn nothing_can_be_injected() {
        for uuid in ["", "x", "11111111-2222-3333-4444-55555555555'", "11111111222233334444-5555555555555555"] {
            assert!(BinlogDump { replica_uuid: uuid.into(), ..dump() }.statement(version(NEW)).is_err(), "{uuid}");
        }
        for gtids in ["0-1-1'", "0-1-1, 1-1-1", "x", "0-1-1\\"] {
            let start = DumpStart::MariaGtid(gtids.into());
            assert!(BinlogDump { start, ..dump() }.statement(version(MARIA)).is_err(), "{gtids}");
        }
    }

    /// Conformance: D1, D2, D3, D9
    /// Bug: 81, 92
    #[test]
    fn requests_and_what_cannot_be_asked() {
        let request = |dump: BinlogDump, server| dump.request(version(server)).map_err(|e| e.to_string());
        let at = |position| DumpStart::Position { file: "b.1".into(), position };
        let by_file = |flags: u8| [&[0x12, 9, 0, 0, 0, flags, 0, 7, 0, 0, 0][..], b"b.1"].concat();
        let by_set = |flags: u8| {
            [
                &[0x1e, flags, 0, 7, 0, 0, 0, 0, 0, 0, 0][..],
                &[4, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            ]
            .concat()
        };
        let file = || BinlogDump { start: at(9), annotate_rows: true, ..dump() };
        let by_maria = [0x12, 4, 0, 0, 0, 1, 0, 7, 0, 0, 0].to_vec();
        let maria = || BinlogDump { start: DumpStart::MariaGtid(String::new()), non_blocking: true, ..dump() };
        assert_eq!(request(file(), OLD), Ok(by_file(0)));
        assert_eq!(request(file(), NEW), Ok(by_file(2)));
        assert_eq!(request(file(), MARIA), Ok(by_file(2)));
        assert_eq!(request(BinlogDump { annotate_rows: false, ..file() }, MARIA), Ok(by_file(0)));
        assert_eq!(request(dump(), OLD), Ok(by_set(0)));
        assert_eq!(request(BinlogDump { non_blocking: true, ..dump() }, NEW), Ok(by_set(3)));
        assert_eq!(request(maria(), MARIA), Ok(by_maria));
        let tagged = DumpStart::Gtid(vec![1, 0, 0, 0, 0, 0, 0, 1]);
        for (dump, server, why) in [
            (BinlogDump { server_id: 0, ..dump() }, NEW, "server_id 0"),
            (BinlogDump { start: at(1 << 32), ..dump() }, NEW, "beyond 4 GiB"),
            (BinlogDump { start: at(1 << 32), ..dump() }, MARIA, "beyond 4 GiB"),
            (BinlogDump { semi_sync: true, ..maria() }, MARIA, "cannot be semi-synchronous"),
            (dump(), MARIA, "MariaDB has no sets"),
            (maria(), NEW, "MySQL has none"),
            (BinlogDump { start: tagged.clone(), ..dump() }, "8.0.44", "before 8.3"),
        ] {
            let e = request(dump, server).unwrap_err();
            assert!(e.contains(why), "{server}: {e}");
        }
        assert!(request(BinlogDump { start: tagged, ..dump() }, "8.4.7").is_ok());
    }

    #[test]
    fn silence_follows_the_heartbeat() {
        let s = Duration::from_secs;
        assert_eq!(dump().silence(None), Some(s(10)));
        assert_eq!(BinlogDump { heartbeat: s(30), ..dump() }.silence(None), Some(s(90)));
        assert_eq!(BinlogDump { heartbeat: Duration::ZERO, ..dump() }.silence(Some(s(5))), Some(s(5)));
        assert_eq!(BinlogDump { silence: Some(s(2)), ..dump() }.silence(None), Some(s(2)));
    }
}
