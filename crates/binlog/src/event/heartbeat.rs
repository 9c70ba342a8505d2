use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

use super::file_name;
use crate::header::EventHeader;

/// A sign of life (27 or 41) with the place the sender has reached. It is not in any file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Heartbeat<'a> {
    /// The sender's file.
    pub file: &'a str,
    /// The sender's offset; only its low 32 bits unless `is_whole`.
    pub position: u64,
    /// Whether the position has 64 bits.
    pub is_whole: bool,
}

impl<'a> Heartbeat<'a> {
    /// The file's name; the position is the header's. MariaDB past 4 GiB has 0 there and the position before the name.
    pub(crate) fn parse_v1(header: &EventHeader, mariadb: bool, mut r: Reader<'a>) -> Result<Self, ParseError> {
        let is_whole = mariadb && header.log_pos == 0;
        let position = if is_whole { r.u64_le("heartbeat position")? } else { u64::from(header.log_pos) };
        Ok(Self { file: file_name(&mut r, "heartbeat file")?, position, is_whole })
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
