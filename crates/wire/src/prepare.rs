//! The answer to COM_STMT_PREPARE (`page_protocol_com_stmt_prepare`): a head, parameter definitions, column definitions,
//! each list with an EOF unless DEPRECATE_EOF was agreed.

use std::sync::Arc;

use crate::codec::{ParseError, Reader};
use crate::error::Error;
use crate::flags::CapabilityFlags;
use crate::response::{ColumnDefinition, Phase, Reply, classify, parse_err};

const DURING: &str = "preparing a statement";

/// A prepared statement, known by the session that made it.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Its number in the session.
    pub id: u32,
    /// Placeholders.
    pub params: u16,
    /// Columns of its result; the ones sent with the rows are what counts.
    pub columns: Arc<[ColumnDefinition]>,
}

/// Follows the answer to one COM_STMT_PREPARE.
#[derive(Debug)]
pub struct PrepareReader {
    capabilities: CapabilityFlags,
    head: Option<(u32, u16, u16)>,
    /// Packets of the parameter list still to come, and of the column list.
    left: (u32, u32),
    columns: Vec<ColumnDefinition>,
}

impl PrepareReader {
    /// A reader for the first packet of an answer.
    #[must_use]
    pub const fn new(capabilities: CapabilityFlags) -> Self {
        Self { capabilities, head: None, left: (0, 0), columns: Vec::new() }
    }

    /// Takes the next packet; the statement once all of the answer has come.
    ///
    /// # Errors
    /// An ERR packet or a malformed one.
    pub fn handle(&mut self, packet: &[u8]) -> Result<Option<Prepared>, Error> {
        let malformed = |e| Error::malformed(DURING, e);
        let phase = if self.head.is_none() { Phase::Prepare } else { Phase::Column };
        match classify(packet, self.capabilities, phase).map_err(malformed)? {
            Reply::Err => return Err(Error::server(DURING, parse_err(packet).map_err(malformed)?)),
            Reply::Data if self.head.is_none() => {
                let (id, columns, params) = head(packet).map_err(malformed)?;
                self.head = Some((id, columns, params));
                let eof = u32::from(!self.capabilities.contains(CapabilityFlags::DEPRECATE_EOF));
                let list = |n: u16| if n == 0 { 0 } else { u32::from(n).saturating_add(eof) };
                self.left = (list(params), list(columns));
            }
            reply => {
                let eof_due = !self.capabilities.contains(CapabilityFlags::DEPRECATE_EOF)
                    && (self.left.0 == 1 || (self.left.0 == 0 && self.left.1 == 1));
                if (reply == Reply::Eof) != eof_due {
                    return Err(Error::unexpected(DURING, "a packet that has no place there"));
                }
                if self.left.0 > 0 {
                    self.left.0 = self.left.0.saturating_sub(1);
                } else {
                    self.left.1 = self.left.1.saturating_sub(1);
                    if !eof_due {
                        self.columns.push(ColumnDefinition::parse(packet).map_err(malformed)?);
                    }
                }
            }
        }
        Ok(match (self.head, self.left) {
            (Some((id, _, params)), (0, 0)) => {
                Some(Prepared { id, params, columns: core::mem::take(&mut self.columns).into() })
            }
            _ => None,
        })
    }
}

/// `00`, `u32` id, `u16` columns, `u16` parameters; a filler and warnings may follow or be missing.
fn head(packet: &[u8]) -> Result<(u32, u16, u16), ParseError> {
    let mut r = Reader::new(packet);
    r.skip(1, "header")?;
    Ok((r.u32_le("statement id")?, r.u16_le("columns")?, r.u16_le("parameters")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::EofPacket;

    /// Bug: 109
    #[test]
    fn with_and_without_eof() {
        let column = |name| ColumnDefinition::text(name).encode();
        let eof = EofPacket::default().encode();
        let old = [vec![0, 9, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0], column("?"), column("?"), eof.clone(), column("a"), eof];
        // The warnings may be missing.
        let new = [vec![0, 9, 0, 0, 0, 1, 0, 2, 0], column("?"), column("?"), column("a")];
        for (caps, packets) in [(CapabilityFlags::empty(), &old[..]), (CapabilityFlags::DEPRECATE_EOF, &new[..])] {
            let mut r = PrepareReader::new(caps);
            let (last, first) = packets.split_last().unwrap();
            for p in first {
                assert!(r.handle(p).unwrap().is_none());
            }
            let s = r.handle(last).unwrap().unwrap();
            assert_eq!((s.id, s.params, &*s.columns[0].name), (9, 2, "a"));
        }
        let none = PrepareReader::new(CapabilityFlags::empty()).handle(&[0, 1, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        assert_eq!(none.unwrap().params, 0);
        assert!(PrepareReader::new(CapabilityFlags::empty()).handle(&[0, 1, 0, 0, 0, 0, 0, 0]).is_err());
    }

    #[test]
    fn an_eof_out_of_place_is_refused() {
        let mut r = PrepareReader::new(CapabilityFlags::empty());
        r.handle(&[0, 9, 0, 0, 0, 1, 0, 0, 0]).unwrap();
        assert!(r.handle(&EofPacket::default().encode()).is_err());
    }
}
