//! Which transactions lie before a position: what a file says of earlier ones, and those in it.

use std::sync::Arc;

use millstream_binlog::event::{Checksum, EventBody};
use millstream_binlog::{DecoderOptions, EventDecoder, GtidSet, Position, PositionTracker};
use millstream_wire::{BinlogDump, BinlogStream, ConnectOptions, Connection, DumpStart};

/// Why a position could not be turned into a set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// The connection or the server.
    #[error(transparent)]
    Wire(#[from] millstream_wire::Error),
    /// An event.
    #[error(transparent)]
    Binlog(#[from] millstream_binlog::Error),
    /// The file does not say which transactions came before it.
    #[error("{0} does not say which transactions came before it (no PREVIOUS_GTIDS event)")]
    NoPrevious(String),
    /// The position is not the end of a transaction.
    #[error("{0} is not between two transactions; the nearest place before it is {1}")]
    Inside(String, String),
    /// The file ends before the position.
    #[error("the log ends at {0}")]
    Beyond(String),
}

/// A dump of a file from its start that does not wait at the end of the log.
async fn dump(connect: &ConnectOptions, server_id: u32, file: &str) -> Result<(BinlogStream, EventDecoder), ScanError> {
    let connection = Connection::connect(connect).await?;
    let start = DumpStart::Position { file: file.to_owned(), position: 4 };
    // A UUID of its own: the pipeline's would end a running dump.
    let mut dump = BinlogDump::new(start, server_id, "00000000-0000-4000-8000-000000000001");
    dump.non_blocking = true;
    dump.register = false;
    let decoder =
        EventDecoder::new(DecoderOptions { stream_checksum: Some(Checksum::Crc32), ..DecoderOptions::default() });
    Ok((connection.dump(dump).await?, decoder))
}

/// The timestamp of a file's FORMAT_DESCRIPTION, in seconds of Unix time.
///
/// # Errors
/// [`ScanError`].
pub async fn file_created(connect: &ConnectOptions, server_id: u32, file: &str) -> Result<u32, ScanError> {
    let (mut stream, mut decoder) = dump(connect, server_id, file).await?;
    while let Some(raw) = stream.next().await? {
        let event = decoder.decode(&raw)?;
        if matches!(event.body, EventBody::FormatDescription(_)) {
            return Ok(event.header.timestamp);
        }
    }
    Err(ScanError::Beyond(format!("{file}:4")))
}

/// The transactions that ended at or before `at`: reads the file from its start on a connection of its own, without
/// waiting at its end.
///
/// # Errors
/// [`ScanError`].
pub async fn gtids_at(connect: &ConnectOptions, server_id: u32, at: &Position) -> Result<GtidSet, ScanError> {
    let (mut stream, mut decoder) = dump(connect, server_id, &at.file).await?;
    let mut set: Option<GtidSet> = None;
    let mut open = None;
    let mut place = PositionTracker::new(Position { file: Arc::clone(&at.file), offset: 4 });
    let mut offset = 4u64;
    while let Some(raw) = stream.next().await? {
        let event = decoder.decode(&raw)?;
        let boundary = matches!(event.body, EventBody::Gtid(_) | EventBody::Rotate(_) | EventBody::Stop);
        if boundary && offset >= at.offset && set.is_some() {
            break;
        }
        match event.body {
            EventBody::PreviousGtids(previous) => {
                let previous = previous.decode().map_err(|_| ScanError::NoPrevious(at.file.to_string()))?;
                set = Some(previous);
            }
            EventBody::Rotate(rotate) if *rotate.file != *at.file => {
                return Err(ScanError::Beyond(format!("{}:{offset}", at.file)));
            }
            EventBody::Gtid(gtid) => {
                if let (Some(set), Some(done)) = (&mut set, open.take()) {
                    let _: bool = set.insert(done);
                }
                open = gtid.gtid;
            }
            _ => {}
        }
        place.follow(&event);
        offset = place.position().offset;
        if offset > at.offset && open.is_some() {
            return Err(ScanError::Inside(at.to_string(), format!("{}:{}", at.file, at.offset)));
        }
    }
    let mut set = set.ok_or_else(|| ScanError::NoPrevious(at.file.to_string()))?;
    if let Some(done) = open
        && offset <= at.offset
    {
        let _: bool = set.insert(done);
    }
    if offset < at.offset {
        return Err(ScanError::Beyond(format!("{}:{offset}", at.file)));
    }
    Ok(set)
}
