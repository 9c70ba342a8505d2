//! The packets of a binlog dump: `00` and an event, an EOF at the end of a non-blocking one, or ERR.

use bytes::{Buf, Bytes};

use crate::error::Error;
use crate::flags::CapabilityFlags;
use crate::response::{Phase, Reply, classify, parse_err};

const DURING: &str = "reading the binlog";

/// The event in a dump's packet, without the status byte and without a copy; `None` at the end of a non-blocking dump.
///
/// # Errors
/// An ERR packet, or a packet that is neither.
pub fn event(mut packet: Bytes) -> Result<Option<Bytes>, Error> {
    let malformed = |e| Error::malformed(DURING, e);
    match classify(&packet, CapabilityFlags::empty(), Phase::Dump).map_err(malformed)? {
        Reply::Data => {
            packet.advance(1);
            Ok(Some(packet))
        }
        Reply::Eof => Ok(None),
        Reply::Err => Err(Error::server(DURING, parse_err(&packet).map_err(malformed)?)),
        _ => Err(Error::unexpected(DURING, "a packet that has no place there")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_end_and_errors() {
        let packet = Bytes::from_static(b"\0event");
        let at = packet.as_ptr() as usize;
        let got = event(packet).unwrap().unwrap();
        assert_eq!((&got[..], got.as_ptr() as usize), (&b"event"[..], at + 1));
        assert!(event(Bytes::from_static(&[0xfe, 0, 0, 2, 0])).unwrap().is_none());
        let e = event(Bytes::from_static(b"\xff\xd4\x04#HY000Could not find first log file name")).unwrap_err();
        assert!(e.is_position_lost());
        assert!(event(Bytes::new()).is_err());
        assert!(event(Bytes::from_static(b"x")).is_err());
    }
}
