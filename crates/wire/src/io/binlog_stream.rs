use core::time::Duration;

use bytes::Bytes;

use super::channel::Channel;
use super::connection::Connection;
use crate::command;
use crate::dump::{BinlogDump, DumpReader};
use crate::error::Error;

const DURING: &str = "waiting for the next binlog event";

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
    /// What [`BinlogDump`] tells of starts that cannot be, the server's error, or a broken connection.
    pub async fn dump(mut self, dump: BinlogDump) -> Result<BinlogStream, Error> {
        let version = self.version();
        let request = dump.request(version)?;
        let set = dump.statement(version)?;
        self.execute(&set).await?;
        if dump.register {
            let registered = self.register_replica(dump.server_id).await;
            registered.map_err(|e| e.while_doing("registering as a replica (needs REPLICATION SLAVE)"))?;
        }
        self.drain().await?;
        self.channel.send_command(&request).await?;
        let silence = dump.silence(self.channel.timeout);
        let reader = DumpReader::new(dump.semi_sync, dump.non_blocking);
        Ok(BinlogStream { channel: self.channel, reader, silence, begun: false, wants_ack: false })
    }
}

/// Binlog events as the server sends them.
#[derive(Debug)]
pub struct BinlogStream {
    channel: Channel,
    reader: DumpReader,
    silence: Option<Duration>,
    begun: bool,
    wants_ack: bool,
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
            if self.reader.is_ended() {
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
        if self.reader.is_ended() {
            return Ok(None);
        }
        let Some(packet) = self.channel.buffered()? else {
            return Ok(None);
        };
        self.begun = true;
        match self.reader.handle(packet) {
            Ok(Some(event)) => {
                self.wants_ack = event.wants_ack;
                if event.wants_ack {
                    self.channel.begin_answer();
                }
                Ok(Some(event.bytes))
            }
            Ok(None) => Ok(None),
            Err(e) => {
                self.channel.mark_broken();
                Err(e)
            }
        }
    }

    /// Whether a commit on the source waits for an acknowledgement of the event that was read last. Only with
    /// [`BinlogDump::semi_sync`].
    #[must_use]
    pub const fn wants_ack(&self) -> bool {
        self.wants_ack
    }

    /// Acknowledges all events up to the end of the last one, a place in the log: commits that wait for it go on. What
    /// was read once counts as kept, also if it is asked for again later: acknowledge when that is safe to promise.
    ///
    /// # Errors
    /// A broken connection.
    pub async fn acknowledge(&mut self, file: &str, position: u64) -> Result<(), Error> {
        self.wants_ack = false;
        self.channel.send_apart(&command::acknowledge(file, position)).await
    }
}
