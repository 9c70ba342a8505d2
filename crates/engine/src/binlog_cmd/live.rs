//! The log of a running server.

use std::io::Write;

use millstream_binlog::event::{Checksum, Event, EventBody};
use millstream_binlog::{DecoderOptions, EventDecoder, EventType, GtidSet, MariaGtidPos, Position, PositionTracker};
use millstream_wire::statements::{Ask, statement};
use millstream_wire::{BinlogDump, BinlogStream, ConnectOptions, Connection, DumpStart};
use tokio::signal::unix::{SignalKind, signal};

use super::error::Error;
use super::walk::{Flow, Walk};
use super::{Options, Place};

/// A server as the source.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Live {
    /// How to connect.
    pub connect: ConnectOptions,
    /// Where the server is, without the login; for messages.
    pub at: String,
    /// Where to start.
    pub start: LiveStart,
    /// Wait for more at the end, until told to stop.
    pub follow: bool,
    /// The number under which the server knows this replica: no other replica's.
    pub server_id: u32,
}

/// Where a server's log is read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LiveStart {
    /// The end of the log.
    #[default]
    Current,
    /// The first file that the server still has.
    Earliest,
    /// An event of a file; 4 is the file's start.
    Position(Position),
    /// All transactions but these (MySQL), or what comes after them (MariaDB). As text: which of both, the server decides.
    Gtids(String),
}

impl core::str::FromStr for LiveStart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "current" => return Ok(Self::Current),
            "earliest" => return Ok(Self::Earliest),
            _ => {}
        }
        let (file, offset) = match text.trim().rsplit_once(':') {
            Some((file, offset)) => (file, offset.parse().ok().filter(|n| *n >= 4)),
            None => (text.trim(), Some(4)),
        };
        let numbered = file.rsplit_once('.').is_some_and(|(_, n)| n.parse::<u64>().is_ok());
        match offset {
            Some(offset) if numbered => Ok(Self::Position(Position::new(file, offset))),
            _ => Err(format!("\"{}\" is not current, earliest, FILE or FILE:OFFSET", text.escape_debug())),
        }
    }
}

pub(super) fn read<W: Write>(live: &Live, options: &Options, walk: &mut Walk<'_, W>) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(Box::pin(follow(live, options, walk)))
}

async fn follow<W: Write>(live: &Live, options: &Options, walk: &mut Walk<'_, W>) -> Result<(), Error> {
    let failed = |doing: &'static str| move |source| Error::Server { at: live.at.clone(), doing, source };
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    // Before the stream there is nothing to end in order.
    let mut stream = tokio::select! {
        biased;
        _ = interrupt.recv() => return Ok(()),
        _ = terminate.recv() => return Ok(()),
        opened = open(live) => opened?,
    };
    let mut reader = Reader::new(options);
    walk.begin(DecoderOptions { stream_checksum: Some(Checksum::Crc32), ..DecoderOptions::default() });
    let reading = failed("reading the log");
    loop {
        let raw = match stream.try_next().map_err(&reading)? {
            Some(raw) => raw,
            None => {
                // Whoever looks on sees everything before the wait.
                walk.flush()?;
                let next = tokio::select! {
                    biased;
                    _ = interrupt.recv() => return Ok(()),
                    _ = terminate.recv() => return Ok(()),
                    next = stream.next() => next.map_err(&reading)?,
                };
                match next {
                    Some(raw) => raw,
                    None => return Ok(()),
                }
            }
        };
        if reader.event(&raw, walk)? == Flow::Stop {
            return Ok(());
        }
    }
}

async fn open(live: &Live) -> Result<BinlogStream, Error> {
    let failed = |doing: &'static str| move |source| Error::Server { at: live.at.clone(), doing, source };
    let mut connection = Connection::connect(&live.connect).await.map_err(failed("cannot connect"))?;
    let version = connection.version();
    let start = match &live.start {
        LiveStart::Earliest => DumpStart::Position { file: String::new(), position: 4 },
        LiveStart::Position(at) => DumpStart::Position { file: at.file.to_string(), position: at.offset },
        LiveStart::Gtids(text) if version.is_mariadb() => {
            let pos: MariaGtidPos = text.parse().map_err(|e| Error::Usage(format!("--from-gtid: {e}")))?;
            DumpStart::MariaGtid(pos.to_string())
        }
        LiveStart::Gtids(text) => {
            let set: GtidSet = text.parse().map_err(|e| Error::Usage(format!("--from-gtid: {e}")))?;
            DumpStart::Gtid(set.encode())
        }
        LiveStart::Current => {
            let status = connection.query_all(statement(Ask::BinlogStatus, version)).await;
            let status = status.map_err(failed("cannot ask for the end of the log (needs REPLICATION CLIENT)"))?;
            let file = status.text(0, "File").unwrap_or_default().to_owned();
            let position = status.text(0, "Position").and_then(|n| n.parse().ok());
            match position {
                Some(position) => DumpStart::Position { file, position },
                None => return Err(Error::Usage(format!("{}: the server writes no binlog (log_bin)", live.at))),
            }
        }
    };
    let mut dump = BinlogDump::new(start, live.server_id, one_time_uuid());
    dump.non_blocking = !live.follow;
    dump.register = false;
    dump.annotate_rows = true;
    connection.dump(dump).await.map_err(failed("cannot read the log"))
}

/// A UUID that no replica has, so that none is thrown out.
fn one_time_uuid() -> String {
    let mut hex = format!("{:032x}", fastrand::u128(..));
    for at in [8, 13, 18, 23] {
        hex.insert(at, '-');
    }
    hex
}

/// Follows where in the log the stream is.
struct Reader {
    /// Beside the one that checks and shows: it only knows how events end.
    decoder: EventDecoder,
    tracker: PositionTracker,
    stop: Option<Position>,
}

impl Reader {
    fn new(options: &Options) -> Self {
        let checksum = DecoderOptions { stream_checksum: Some(Checksum::Crc32), ..DecoderOptions::default() };
        let stop = options.stop_pos.as_ref();
        Self {
            decoder: EventDecoder::new(checksum),
            tracker: PositionTracker::new(Position::new("", 4)),
            stop: stop.and_then(|stop| Some(Position::new(stop.file.as_deref()?, stop.pos))),
        }
    }

    fn event<W: Write>(&mut self, raw: &[u8], walk: &mut Walk<'_, W>) -> Result<Flow, Error> {
        let before = self.tracker.position().clone();
        let decoded = match raw.get(4).map(|code| EventType(*code)) {
            Some(EventType::FORMAT_DESCRIPTION) => self.decoder.decode(raw),
            _ => self.decoder.decode_again(raw),
        };
        let length = raw.len() as u64;
        let mut is_shown = true;
        // One that does not decode is told by the walk, at the place behind the one before it.
        let (at, end) = match &decoded {
            Ok(event) if is_made_for_stream(event) => {
                self.tracker.follow(event);
                is_shown = !matches!(event.body, EventBody::Rotate(_));
                (self.tracker.position().clone(), None)
            }
            Ok(Event { body: EventBody::Rotate(_), .. }) | Err(_) => {
                if let Ok(event) = &decoded {
                    self.tracker.follow(event);
                }
                let end = before.offset.saturating_add(length);
                (before, Some(end))
            }
            Ok(event) => {
                self.tracker.follow(event);
                let end = self.tracker.position().offset;
                (Position::new(self.tracker.position().file.clone(), end.saturating_sub(length)), Some(end))
            }
        };
        if is_shown && self.stop.as_ref().is_some_and(|stop| at >= *stop) {
            return Ok(Flow::Stop);
        }
        let place =
            Place { file: &at.file, offset: at.offset, end: end.unwrap_or(at.offset), bytes: length, inner: false };
        walk.raw(raw, place, is_shown)
    }
}

/// Whether the server made the event for the stream: it lies nowhere in the log.
fn is_made_for_stream(event: &Event<'_>) -> bool {
    event.header.is_made_for_stream()
        || (event.header.log_pos == 0 && matches!(event.body, EventBody::FormatDescription(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_told_apart() {
        assert_eq!("current".parse(), Ok(LiveStart::Current));
        assert_eq!("earliest".parse(), Ok(LiveStart::Earliest));
        assert_eq!("b.log.000007".parse(), Ok(LiveStart::Position(Position::new("b.log.000007", 4))));
        assert_eq!("b.000007:194".parse(), Ok(LiveStart::Position(Position::new("b.000007", 194))));
        for bad in ["", "binlog", "b.000001:0", "b.000001:x", ":4", "now"] {
            assert!(bad.parse::<LiveStart>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_one_time_uuid_is_one() {
        let uuid = one_time_uuid();
        assert_eq!(uuid.len(), 36);
        assert_eq!(uuid.parse::<millstream_binlog::Uuid>().unwrap().to_string(), uuid);
    }
}
