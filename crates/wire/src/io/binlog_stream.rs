use core::time::Duration;

use bytes::Bytes;

use super::channel::Channel;
use super::connection::Connection;
use crate::command::{self, DUMP_HEARTBEAT_V2, DUMP_NON_BLOCK};
use crate::dump;
use crate::error::{Error, Kind};

/// Where a dump starts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DumpStart {
    /// All transactions the server has but those of this set, in the binary encoding of COM_BINLOG_DUMP_GTID (the binlog
    /// crate makes it). An empty set is eight zero bytes.
    Gtid(Vec<u8>),
    /// A place in a file.
    Position {
        /// The binlog file's name; empty for the server's first.
        file: String,
        /// Offset of an event, at least 4 and below 4 GiB.
        position: u64,
    },
}

/// How to open a dump. Build it with [`new`](Self::new) and change what differs.
#[derive(Clone, Debug)]
pub struct BinlogDump {
    /// Where to start.
    pub start: DumpStart,
    /// The replica's number: stable, and no other replica's. Never 0.
    pub server_id: u32,
    /// The replica's UUID as text. A later dump with the same one ends this one.
    pub replica_uuid: String,
    /// An idle server sends a heartbeat this often; zero asks for none.
    pub heartbeat: Duration,
    /// The longest silence before the stream counts as dead. `None`: three heartbeats and at least 10 s; without
    /// heartbeats, the connection's read timeout.
    pub silence: Option<Duration>,
    /// End at the end of the log instead of waiting for more.
    pub non_blocking: bool,
    /// Show up in SHOW REPLICAS.
    pub register: bool,
    /// How long the server waits for a reader that does not read (`net_write_timeout`), so that back-pressure is not
    /// taken for death; the server's default is 60 s.
    pub net_write_timeout: Duration,
}

impl BinlogDump {
    /// A blocking dump with heartbeats every second that shows up in SHOW REPLICAS.
    #[must_use]
    pub fn new(start: DumpStart, server_id: u32, replica_uuid: impl Into<String>) -> Self {
        Self {
            start,
            server_id,
            replica_uuid: replica_uuid.into(),
            heartbeat: Duration::from_secs(1),
            silence: None,
            non_blocking: false,
            register: true,
            net_write_timeout: Duration::from_secs(3600),
        }
    }

    fn silence(&self, read_timeout: Option<Duration>) -> Option<Duration> {
        match (self.silence, self.heartbeat) {
            (Some(silence), _) => Some(silence),
            (None, Duration::ZERO) => read_timeout,
            (None, heartbeat) => Some(heartbeat.saturating_mul(3).max(Duration::from_secs(10))),
        }
    }

    /// The session variables, under the old names and the new ones: servers ignore those they do not know.
    fn set_statement(&self) -> Result<String, Error> {
        let uuid = &self.replica_uuid;
        let is_uuid = uuid.len() == 36
            && uuid.bytes().enumerate().all(|(i, b)| match i {
                8 | 13 | 18 | 23 => b == b'-',
                _ => b.is_ascii_hexdigit(),
            });
        if !is_uuid {
            return Err(Error::usage("a replica uuid must be a UUID with dashes"));
        }
        let ns = u64::try_from(self.heartbeat.as_nanos()).unwrap_or(u64::MAX);
        let seconds = self.net_write_timeout.as_secs().clamp(1, 31_536_000);
        Ok(format!(
            "SET @source_binlog_checksum='CRC32', @master_binlog_checksum='CRC32', @source_heartbeat_period={ns}, \
             @master_heartbeat_period={ns}, @replica_uuid='{uuid}', @slave_uuid='{uuid}', \
             SESSION net_write_timeout={seconds}"
        ))
    }
}

const DURING: &str = "waiting for the next binlog event";

/// A dump that waits for more has no end: servers before 8.0 end it in this way when they kill it.
#[cold]
fn ended_by_server() -> std::io::Error {
    std::io::Error::new(
        std::io::ErrorKind::UnexpectedEof,
        "the server ended the dump: it is going down, or another replica has the same uuid or server id",
    )
}

/// How long a server may search its logs for the start of a dump before it sends anything.
const FIRST_EVENT_PATIENCE: Duration = Duration::from_secs(60);

impl Connection {
    /// Turns the connection into a stream of binlog events.
    ///
    /// Sets checksum, heartbeat, uuid and `net_write_timeout`, registers if asked to, and sends COM_BINLOG_DUMP_GTID or
    /// COM_BINLOG_DUMP. The server's refusal (missing right, purged position) comes with the first
    /// [`next`](BinlogStream::next).
    ///
    /// # Errors
    /// A wrong uuid, a position beyond 4 GiB, the server's error, or a broken connection.
    pub async fn dump(mut self, dump: BinlogDump) -> Result<BinlogStream, Error> {
        if dump.server_id == 0 {
            return Err(Error::usage("server_id 0 cannot replicate: choose one between 1 and 4294967295"));
        }
        let mut flags = 0;
        if dump.non_blocking {
            flags |= DUMP_NON_BLOCK;
        }
        if !self.version().is_mariadb() {
            flags |= DUMP_HEARTBEAT_V2;
        }
        let request = match &dump.start {
            DumpStart::Gtid(set) => command::binlog_dump_gtid(set, flags, dump.server_id),
            DumpStart::Position { file, position } => command::binlog_dump(file, *position, flags, dump.server_id)?,
        };
        let set = dump.set_statement()?;
        self.execute(&set).await?;
        if dump.register {
            let registered = self.register_replica(dump.server_id).await;
            registered.map_err(|e| e.while_doing("registering as a replica (needs REPLICATION SLAVE)"))?;
        }
        self.drain().await?;
        self.channel.send_command(&request).await?;
        let silence = dump.silence(self.channel.timeout);
        Ok(BinlogStream { channel: self.channel, silence, non_blocking: dump.non_blocking, begun: false, ended: false })
    }
}

/// Binlog events as the server sends them.
#[derive(Debug)]
pub struct BinlogStream {
    channel: Channel,
    silence: Option<Duration>,
    non_blocking: bool,
    begun: bool,
    ended: bool,
}

impl BinlogStream {
    /// The next event: header, body and checksum, without the protocol's status byte; `None` at the end of a
    /// non-blocking dump. Safe to cancel: no byte is lost.
    ///
    /// The event is a slice of the read buffer, not a copy, unless it came in several frames (16 MiB and more). It keeps
    /// alive up to 256 KiB around it: copy what is kept for long.
    ///
    /// # Errors
    /// The server's error (`is_position_lost`, `is_duplicate_replica`, `is_access_denied`), silence, a closed or broken
    /// connection. The stream is then of no more use.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if let Some(event) = self.try_next()? {
                return Ok(Some(event));
            }
            if self.ended {
                return Ok(None);
            }
            let patience = if self.begun { self.silence } else { self.silence.map(|s| s.max(FIRST_EVENT_PATIENCE)) };
            self.channel.fill(DURING, patience).await?;
        }
    }

    /// The next event if all of it is here already; `None` if it is not, or at the end. Never waits and never reads.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    #[inline]
    pub fn try_next(&mut self) -> Result<Option<Bytes>, Error> {
        if self.ended {
            return Ok(None);
        }
        let Some(packet) = self.channel.buffered()? else {
            return Ok(None);
        };
        self.begun = true;
        match dump::event(packet) {
            Ok(Some(event)) => Ok(Some(event)),
            Ok(None) if self.non_blocking => {
                self.ended = true;
                Ok(None)
            }
            Ok(None) => {
                self.channel.mark_broken();
                Err(Error::new(Kind::Transport { during: DURING, target: None, source: ended_by_server() }))
            }
            Err(e) => {
                self.channel.mark_broken();
                Err(e)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dump() -> BinlogDump {
        BinlogDump::new(DumpStart::Gtid(vec![0; 8]), 7, "11111111-2222-3333-4444-555555555555")
    }

    #[test]
    fn both_names_are_set_and_nothing_can_be_injected() {
        let sql = dump().set_statement().unwrap();
        for part in [
            "@source_binlog_checksum='CRC32'",
            "@master_binlog_checksum='CRC32'",
            "@source_heartbeat_period=1000000000",
            "@master_heartbeat_period=1000000000",
            "@replica_uuid='11111111-",
            "@slave_uuid='11111111-",
        ] {
            assert!(sql.contains(part), "{part}");
        }
        for uuid in ["", "x", "11111111-2222-3333-4444-55555555555'", "11111111222233334444-5555555555555555"] {
            assert!(BinlogDump { replica_uuid: uuid.into(), ..dump() }.set_statement().is_err(), "{uuid}");
        }
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
