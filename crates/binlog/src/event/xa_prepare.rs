use core::fmt;

use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

/// XA_PREPARE: the rows of the group are prepared, not committed, unless `one_phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XaPrepare<'a> {
    /// XA COMMIT … ONE PHASE: the group ends as a commit.
    pub one_phase: bool,
    /// Format of the id.
    pub format_id: i32,
    /// Global part, at most 64 bytes.
    pub gtrid: &'a [u8],
    /// Branch part, at most 64 bytes.
    pub bqual: &'a [u8],
}

impl<'a> XaPrepare<'a> {
    pub(crate) fn parse(mut r: Reader<'a>) -> Result<Self, ParseError> {
        let one_phase = r.u8("one_phase")? != 0;
        let format_id = r.u32_le("xid format")?.cast_signed();
        let gtrid = r.u32_le("gtrid length")?;
        let bqual = r.u32_le("bqual length")?;
        if gtrid > 64 || bqual > 64 {
            return Err(r.error("xid length", ParseErrorKind::Limit));
        }
        let length = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
        let gtrid = r.bytes(length(gtrid), "gtrid")?;
        let bqual = r.bytes(length(bqual), "bqual")?;
        r.finish("xa_prepare")?;
        Ok(Self { one_phase, format_id, gtrid, bqual })
    }
}

impl fmt::Display for XaPrepare<'_> {
    /// The id as the server writes it into its XA START, COMMIT and ROLLBACK statements: `X'6762',X'',1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [self.gtrid, self.bqual] {
            f.write_str("X'")?;
            part.iter().try_for_each(|b| write!(f, "{b:02x}"))?;
            f.write_str("',")?;
        }
        write!(f, "{}", self.format_id)
    }
}
