use super::SessionChanges;
use crate::codec::{ParseError, Reader, Writer};
use crate::error::escape;
use crate::flags::{CapabilityFlags, StatusFlags};

/// A command is done (`page_protocol_basic_ok_packet`). Also ends rows under DEPRECATE_EOF, then with first byte 0xfe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OkPacket {
    /// Rows changed.
    pub affected_rows: u64,
    /// First AUTO_INCREMENT value given.
    pub last_insert_id: u64,
    /// The session's state.
    pub status: StatusFlags,
    /// Warnings to be had with SHOW WARNINGS.
    pub warnings: u16,
    /// The server's remark, such as `Rows matched: 1  Changed: 1`; control bytes escaped.
    pub info: String,
    /// What changed in the session; nothing without SESSION_TRACK.
    pub changes: SessionChanges,
}

impl OkPacket {
    /// Reads an OK packet.
    ///
    /// # Errors
    /// A packet that ends early.
    pub fn parse(payload: &[u8], capabilities: CapabilityFlags) -> Result<Self, ParseError> {
        let mut r = Reader::new(payload);
        r.skip(1, "header")?;
        let affected_rows = r.lenenc("affected rows")?;
        let last_insert_id = r.lenenc("last insert id")?;
        let status = StatusFlags::from_bits_retain(r.u16_le("status")?);
        let warnings = r.u16_le("warnings")?;
        // With SESSION_TRACK the remark has a length and the session's changes follow; without it, it is the rest.
        // Some servers leave the empty remark out altogether, some the empty block of changes.
        let mut changes = SessionChanges::default();
        let info = if capabilities.contains(CapabilityFlags::SESSION_TRACK) && !r.is_empty() {
            let info = r.lenenc_bytes("info")?;
            if status.contains(StatusFlags::SESSION_STATE_CHANGED) && !r.is_empty() {
                changes = SessionChanges::parse(r.lenenc_bytes("session changes")?)?;
            }
            info
        } else {
            r.rest()
        };
        Ok(Self { affected_rows, last_insert_id, status, warnings, info: escape(info, 512), changes })
    }

    /// The remark as the server sent it.
    pub(crate) fn info_bytes(payload: &[u8], capabilities: CapabilityFlags) -> Result<&[u8], ParseError> {
        let mut r = Reader::new(payload);
        r.skip(1, "header")?;
        r.lenenc("affected rows")?;
        r.lenenc("last insert id")?;
        r.skip(4, "status, warnings")?;
        if capabilities.contains(CapabilityFlags::SESSION_TRACK) && !r.is_empty() {
            return r.lenenc_bytes("info");
        }
        Ok(r.rest())
    }

    /// Writes an OK packet for a client without SESSION_TRACK.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(0).lenenc(self.affected_rows).lenenc(self.last_insert_id).u16_le(self.status.bits()).u16_le(self.warnings);
        w.bytes(self.info.as_bytes());
        w.into_bytes()
    }

    /// The same as the end of rows under DEPRECATE_EOF: the first byte is 0xfe.
    #[must_use]
    pub fn encode_end_of_rows(&self) -> Vec<u8> {
        let mut bytes = self.encode();
        if let Some(first) = bytes.first_mut() {
            *first = 0xfe;
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::super::SessionChange;
    use super::*;

    /// Conformance: W10
    /// Bug: 107
    #[test]
    fn round_trip_and_session_track() {
        let ok = OkPacket {
            affected_rows: 300,
            last_insert_id: 7,
            status: StatusFlags::AUTOCOMMIT,
            warnings: 1,
            info: "Records: 300".into(),
            changes: SessionChanges::default(),
        };
        assert_eq!(OkPacket::parse(&ok.encode(), CapabilityFlags::empty()).unwrap(), ok);
        for cut in 0..9 {
            assert!(OkPacket::parse(&ok.encode()[..cut], CapabilityFlags::empty()).is_err());
        }
        // Status 0x4000 with an empty block of changes (mysql_common a2d7dac), and none at all.
        for bytes in [&[0, 0, 0, 2, 0x40, 0, 0, 1, b'i', 0][..], &[0, 0, 0, 2, 0x40, 0, 0, 1, b'i']] {
            let ok = OkPacket::parse(bytes, CapabilityFlags::SESSION_TRACK).unwrap();
            assert_eq!((&*ok.info, ok.changes.is_empty()), ("i", true));
        }
        let changed = [&[0, 0, 0, 2, 0x40, 0, 0, 0, 7, 1, 5, 4][..], b"shop"].concat();
        let ok = OkPacket::parse(&changed, CapabilityFlags::SESSION_TRACK).unwrap();
        assert!(ok.changes.iter().eq([SessionChange::Schema("shop".into())]));
        assert!(OkPacket::parse(&changed[..15], CapabilityFlags::SESSION_TRACK).is_err());
        assert_eq!(OkPacket::parse(&[0, 0, 0, 2, 0, 0, 0], CapabilityFlags::SESSION_TRACK).unwrap().info, "");
    }
}
