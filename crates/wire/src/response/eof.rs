use crate::codec::{ParseError, Reader, Writer};
use crate::flags::StatusFlags;

/// The end of columns or rows without DEPRECATE_EOF, and of a dump (`page_protocol_basic_eof_packet`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EofPacket {
    /// Warnings to be had with SHOW WARNINGS.
    pub warnings: u16,
    /// The session's state.
    pub status: StatusFlags,
}

impl EofPacket {
    /// Reads an EOF packet.
    ///
    /// # Errors
    /// A packet that ends early.
    pub fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut r = Reader::new(payload);
        r.skip(1, "header")?;
        let warnings = r.u16_le("warnings")?;
        Ok(Self { warnings, status: StatusFlags::from_bits_retain(r.u16_le("status")?) })
    }

    /// Writes an EOF packet.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(0xfe).u16_le(self.warnings).u16_le(self.status.bits());
        w.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let eof = EofPacket { warnings: 3, status: StatusFlags::MORE_RESULTS };
        assert_eq!(EofPacket::parse(&eof.encode()).unwrap(), eof);
        assert!(EofPacket::parse(&eof.encode()[..4]).is_err());
    }
}
