use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

use super::{RowsEvent, RowsKind};

/// What a row event of version 2 says beside its rows (`Rows_event::Extra_row_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowsExtra<'a> {
    /// NDB's own: about conflicts between clusters.
    Ndb {
        /// Layout of the data.
        format: u8,
        /// The data.
        data: &'a [u8],
    },
    /// The partition that holds the rows of a partitioned table.
    Partition {
        /// Its number, from 0; of an UPDATE the one after it.
        id: u16,
        /// Of an UPDATE, the partition before it.
        source: Option<u16>,
    },
}

impl<'a> RowsEvent<'a> {
    /// The parts of [`extra`](Self::extra).
    ///
    /// # Errors
    /// A part that is cut off, and one of a later server; then nothing more comes. The rows are found in any case.
    pub fn extra_parts(&self) -> impl Iterator<Item = Result<RowsExtra<'a>, ParseError>> + use<'a> {
        let (mut r, kind) = (Reader::new(self.extra), self.kind);
        core::iter::from_fn(move || {
            if r.is_empty() {
                return None;
            }
            let part = RowsExtra::parse(kind, &mut r);
            if part.is_err() {
                r.rest();
            }
            Some(part)
        })
    }
}

impl<'a> RowsExtra<'a> {
    fn parse(kind: RowsKind, r: &mut Reader<'a>) -> Result<Self, ParseError> {
        let left = r.left();
        match r.u8("extra row info type")? {
            0 => {
                // The length counts itself and the format.
                let length = usize::from(r.u8("ndb info length")?);
                let format = r.u8("ndb info format")?;
                let Some(length) = length.checked_sub(2) else {
                    return Err(r.error("ndb info length", ParseErrorKind::BadLength));
                };
                Ok(Self::Ndb { format, data: r.bytes(length, "ndb info")? })
            }
            1 => {
                let id = r.u16_le("partition id")?;
                let source = if kind == RowsKind::Update { Some(r.u16_le("source partition id")?) } else { None };
                Ok(Self::Partition { id, source })
            }
            _ => Err(ParseError::new("extra row info type", ParseErrorKind::Unsupported, left)),
        }
    }
}
