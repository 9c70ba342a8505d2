use bytes::{Buf, Bytes};

use crate::error::{Error, Kind};
use crate::flags::CapabilityFlags;
use crate::response::{Phase, Reply, classify, parse_err};

/// An event of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpEvent {
    /// Header, body and checksum, without the protocol's own bytes and without a copy.
    pub bytes: Bytes,
    /// The source's commit waits for an acknowledgement of this event. Its packets then begin again at sequence id 1.
    pub wants_ack: bool,
}

/// Reads the packets of a dump: `00` and an event, an EOF at the end of a non-blocking one, or ERR.
#[derive(Clone, Debug)]
pub struct DumpReader {
    semi_sync: bool,
    non_blocking: bool,
    ended: bool,
}

/// Marks an event, and an acknowledgement (`kPacketMagicNum` in `plugin/semisync/semisync.cc`).
const SEMI_SYNC: u8 = 0xef;
const DURING: &str = "reading the binlog";
/// Where an event's header has the event's length, and how long the header is.
const LENGTH_AT: usize = 9;

impl DumpReader {
    /// A reader for a dump that asked for semi-sync, or did not, and ends at the log's end, or waits there.
    #[must_use]
    pub const fn new(semi_sync: bool, non_blocking: bool) -> Self {
        Self { semi_sync, non_blocking, ended: false }
    }

    /// Whether the end was read.
    #[must_use]
    pub const fn is_ended(&self) -> bool {
        self.ended
    }

    /// What a packet is: an event, or `None` at the end of a non-blocking dump.
    ///
    /// # Errors
    /// An ERR packet, a packet that is neither, or the end of a dump that should have none. Nothing comes after any of
    /// them.
    pub fn handle(&mut self, mut packet: Bytes) -> Result<Option<DumpEvent>, Error> {
        let malformed = |e| Error::malformed(DURING, e);
        // The end of a dump is the classic EOF whatever was agreed.
        match classify(&packet, CapabilityFlags::empty(), Phase::Dump).map_err(malformed)? {
            Reply::Data => {
                packet.advance(1);
                let mark = if self.semi_sync { mark(&packet) } else { None };
                if mark.is_some() {
                    packet.advance(2);
                }
                Ok(Some(DumpEvent { bytes: packet, wants_ack: mark == Some(true) }))
            }
            Reply::Eof if self.non_blocking => {
                self.ended = true;
                Ok(None)
            }
            Reply::Eof => Err(Error::new(Kind::Transport { during: DURING, target: None, source: ended_by_server() })),
            Reply::Err => Err(Error::server(DURING, parse_err(&packet).map_err(malformed)?)),
            _ => Err(Error::unexpected(DURING, "a packet that has no place there")),
        }
    }
}

/// Whether an event has two bytes more in front, and then whether it wants an acknowledgement.
///
/// It is not said anywhere. MySQL marks events only while semi-sync is on at the source, which changes in the middle of a
/// dump when a commit waited too long; MariaDB marks all events of a replica that asked, also while semi-sync is off. So
/// each packet is looked at: a header that begins behind the mark tells the length that is left.
fn mark(packet: &[u8]) -> Option<bool> {
    let (&[magic, flag], event) = packet.split_first_chunk::<2>()?;
    let length = event.get(LENGTH_AT..)?.first_chunk::<4>()?;
    let fits = usize::try_from(u32::from_le_bytes(*length)) == Ok(event.len());
    (magic == SEMI_SYNC && flag <= 1 && fits).then_some(flag == 1)
}

/// A dump that waits for more has no end: servers before 8.0 end it in this way when they kill it.
#[cold]
fn ended_by_server() -> std::io::Error {
    std::io::Error::new(
        std::io::ErrorKind::UnexpectedEof,
        "the server ended the dump: it is going down, or another replica has the same uuid or server id",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(body: usize) -> Vec<u8> {
        let mut event = [&[0x55; 19][..], &vec![0x55; body]].concat();
        let length = u32::try_from(event.len()).unwrap();
        event[9..13].copy_from_slice(&length.to_le_bytes());
        event
    }

    fn packet(parts: &[&[u8]]) -> Bytes {
        Bytes::from(parts.concat())
    }

    /// Conformance: D7
    /// Bug: 83
    #[test]
    fn events_ends_and_errors() {
        let mut reader = DumpReader::new(false, true);
        let bytes = packet(&[&[0], &event(0)]);
        let at = bytes.as_ptr() as usize;
        let got = reader.handle(bytes).unwrap().unwrap();
        assert_eq!((&got.bytes[..], got.bytes.as_ptr() as usize, got.wants_ack), (&event(0)[..], at + 1, false));
        let eof = Bytes::from_static(&[0xfe, 0, 0, 2, 0]);
        assert!(!reader.is_ended() && reader.handle(eof.clone()).unwrap().is_none() && reader.is_ended());
        let e = DumpReader::new(false, false).handle(eof).unwrap_err();
        assert!(e.is_transport() && e.is_retryable() && e.to_string().contains("the server ended the dump"), "{e}");
        let missing = Bytes::from_static(b"\xff\xd4\x04#HY000Could not find first log file name");
        assert!(reader.handle(missing).unwrap_err().is_position_lost());
        assert!(reader.handle(Bytes::new()).is_err());
        assert!(reader.handle(Bytes::from_static(b"x")).is_err());
    }

    /// Conformance: D6
    /// Bug: 96
    #[test]
    fn semi_sync_marks_are_seen_packet_by_packet() {
        let (mut asked, mut unasked) = (DumpReader::new(true, false), DumpReader::new(false, false));
        // An event whose own first bytes are the mark's: a timestamp that ends in ef 01.
        let mut like = event(8);
        like[..2].copy_from_slice(&[0xef, 1]);
        for (mark, event, wants_ack) in [
            (&[0xef, 1][..], event(4), true),
            (&[0xef, 0], event(4), false),
            (&[], event(4), false),
            (&[], like.clone(), false),
            (&[0xef, 1], like.clone(), true),
        ] {
            let got = asked.handle(packet(&[&[0], mark, &event])).unwrap().unwrap();
            assert_eq!((&got.bytes[..], got.wants_ack), (&event[..], wants_ack), "{mark:02x?}");
        }
        let got = unasked.handle(packet(&[&[0, 0xef, 1], &event(4)])).unwrap().unwrap();
        assert_eq!((got.bytes.len(), got.wants_ack), (25, false));
        for short in [&[0xef, 1][..], &[0xef], &[0xef, 1, 0, 0, 0]] {
            assert!(!asked.handle(packet(&[&[0], short])).unwrap().unwrap().wants_ack);
        }
    }
}
