use core::fmt;

use millstream_wire::codec::{ParseError, Reader};

use super::XaId;

/// XA_PREPARE (`XA_prepare_event`): the rows of the group are prepared, not committed, unless `one_phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XaPrepare<'a> {
    /// XA COMMIT … ONE PHASE: the group ends as a commit.
    pub one_phase: bool,
    /// Names the transaction. Its XA COMMIT or XA ROLLBACK is in another group, maybe files later.
    pub xid: XaId<'a>,
}

impl<'a> XaPrepare<'a> {
    pub(crate) fn parse(mut r: Reader<'a>) -> Result<Self, ParseError> {
        let one_phase = r.u8("one_phase")? != 0;
        let format_id = r.u32_le("xid format")?;
        let gtrid = r.u32_le("gtrid length")?;
        let bqual = r.u32_le("bqual length")?;
        let xid = XaId::parts(&mut r, format_id, gtrid, bqual)?;
        r.finish("xa_prepare")?;
        Ok(Self { one_phase, xid })
    }
}

impl fmt::Display for XaPrepare<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.xid.fmt(f)
    }
}
