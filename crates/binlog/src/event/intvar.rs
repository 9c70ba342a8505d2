use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

/// INTVAR (`Intvar_event`): an id that the next statement uses. Only before statements that are logged as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntVar {
    /// Which.
    pub kind: IntVarKind,
    /// The id.
    pub value: u64,
}

/// Which id an [`IntVar`] sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the protocol has these two")]
pub enum IntVarKind {
    /// What LAST_INSERT_ID() gives.
    LastInsertId,
    /// The next AUTO_INCREMENT value.
    InsertId,
}

impl IntVar {
    pub(crate) fn parse(mut r: Reader<'_>) -> Result<Self, ParseError> {
        let kind = match r.u8("intvar type")? {
            1 => IntVarKind::LastInsertId,
            2 => IntVarKind::InsertId,
            b => return Err(r.error("intvar type", ParseErrorKind::BadTag(b))),
        };
        let value = r.u64_le("intvar value")?;
        r.finish("intvar")?;
        Ok(Self { kind, value })
    }
}
