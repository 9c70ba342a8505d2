use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

/// USER_VAR (`User_var_event`): a `@variable` of the next statement. Only before statements that are logged as text.
///
/// ```text
/// u32 name length | name | u8 is null | [u8 type | u32 collation | u32 value length | value | u8 flags]
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UserVar<'a> {
    /// Without `@`; UTF-8.
    pub name: &'a [u8],
    /// `None` is NULL.
    pub value: Option<UserValue<'a>>,
}

/// A user variable's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserValue<'a> {
    /// How the bytes are to be read.
    pub kind: UserValueKind,
    /// Collation id of a string.
    pub collation: u32,
    /// The value: text, 8 bytes little endian (REAL, INT), or precision, scale and digits (DECIMAL).
    pub bytes: &'a [u8],
    /// Of an integer. Logs before 5.6 do not say.
    pub unsigned: bool,
}

/// Type of a user variable (`Item_result`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a user variable is one of these four")]
pub enum UserValueKind {
    /// Text or bytes.
    String,
    /// IEEE 64 bits.
    Real,
    /// 64 bits.
    Int,
    /// Fixed point.
    Decimal,
}

impl<'a> UserVar<'a> {
    pub(crate) fn parse(mut r: Reader<'a>) -> Result<Self, ParseError> {
        let length = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
        let n = r.u32_le("user variable name length")?;
        let name = r.bytes(length(n), "user variable name")?;
        if r.u8("user variable is null")? != 0 {
            return Ok(Self { name, value: None });
        }
        let kind = match r.u8("user variable type")? {
            0 => UserValueKind::String,
            1 => UserValueKind::Real,
            2 => UserValueKind::Int,
            4 => UserValueKind::Decimal,
            b => return Err(r.error("user variable type", ParseErrorKind::BadTag(b))),
        };
        let collation = r.u32_le("user variable collation")?;
        let n = r.u32_le("user variable value length")?;
        let bytes = r.bytes(length(n), "user variable value")?;
        // MariaDB may have more to say about the type after the flags.
        let unsigned = !r.is_empty() && r.u8("user variable flags")? & 1 != 0;
        Ok(Self { name, value: Some(UserValue { kind, collation, bytes, unsigned }) })
    }
}
