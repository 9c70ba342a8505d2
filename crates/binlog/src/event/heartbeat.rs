use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

use super::file_name;
use crate::header::EventHeader;

/// A sign of life (27 or 41) with the place the sender has reached. It is not in any file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat<'a> {
    /// The sender's file.
    pub file: &'a str,
    /// The sender's offset; of version 1 only the low 32 bits.
    pub position: u64,
    /// Whether the position has 64 bits.
    pub is_whole: bool,
}

impl<'a> Heartbeat<'a> {
    pub(crate) fn parse_v1(header: &EventHeader, mut r: Reader<'a>) -> Result<Self, ParseError> {
        let file = file_name(&mut r, "heartbeat file")?;
        Ok(Self { file, position: u64::from(header.log_pos), is_whole: false })
    }

    /// `(u8 type, lenenc length, value)` until type 0; 1 is the file, 2 the position as a lenenc number.
    pub(crate) fn parse_v2(mut r: Reader<'a>) -> Result<Self, ParseError> {
        let (mut file, mut position) = (None, None);
        while !r.is_empty() {
            let ty = r.u8("heartbeat field type")?;
            if ty == 0 {
                break;
            }
            let n = r.lenenc_len("heartbeat field length")?;
            let mut value = r.sub(n, "heartbeat field")?;
            match ty {
                1 => file = Some(file_name(&mut value, "heartbeat file")?),
                2 => position = Some(value.lenenc("heartbeat position")?),
                _ => {}
            }
        }
        match (file, position) {
            (Some(file), Some(position)) => Ok(Self { file, position, is_whole: true }),
            _ => Err(r.error("heartbeat field", ParseErrorKind::BadLength)),
        }
    }
}
