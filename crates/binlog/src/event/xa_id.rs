use core::fmt;

use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

/// An XA transaction's id (`XID`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XaId<'a> {
    /// Format of the id; the server never writes -1, its null value.
    pub format_id: i32,
    /// Global part, at most 64 bytes.
    pub gtrid: &'a [u8],
    /// Branch part, at most 64 bytes.
    pub bqual: &'a [u8],
}

impl<'a> XaId<'a> {
    /// The two parts, whose lengths came before them.
    pub(crate) fn parts(
        r: &mut Reader<'a>,
        format_id: u32,
        gtrid_length: u32,
        bqual_length: u32,
    ) -> Result<Self, ParseError> {
        if gtrid_length > 64 || bqual_length > 64 {
            return Err(r.error("xid length", ParseErrorKind::Limit));
        }
        let length = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
        let gtrid = r.bytes(length(gtrid_length), "gtrid")?;
        let bqual = r.bytes(length(bqual_length), "bqual")?;
        Ok(Self { format_id: format_id.cast_signed(), gtrid, bqual })
    }
}

impl fmt::Display for XaId<'_> {
    /// As the server writes it into its XA START, COMMIT and ROLLBACK statements: `X'6762',X'',1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [self.gtrid, self.bqual] {
            f.write_str("X'")?;
            part.iter().try_for_each(|b| write!(f, "{b:02x}"))?;
            f.write_str("',")?;
        }
        write!(f, "{}", self.format_id)
    }
}
