use core::fmt;

/// Why a field could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// The field needs more bytes than are left.
    Short {
        /// Bytes the field needs.
        need: u32,
    },
    /// Bytes are left where the structure should have ended.
    Trailing,
    /// A length or a count contradicts the bytes around it.
    BadLength,
    /// A tag, type or version this field does not allow.
    BadTag(u8),
    /// Text that must be UTF-8 is not.
    BadUtf8,
    /// Text that is no value of its type.
    BadText,
    /// A valid construct that this crate does not read.
    Unsupported,
    /// A limit that protects against hostile input was reached.
    Limit,
}

/// A field that could not be parsed: its name, the reason, and how many bytes were left before it.
///
/// The caller that knows the whole packet turns `left` into an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The field's name in the protocol's own documentation.
    pub field: &'static str,
    /// What is wrong with it.
    pub kind: ParseErrorKind,
    /// Bytes that were left in the cursor when the field began.
    pub left: u32,
}

const _: () = assert!(size_of::<ParseError>() <= 32);

impl ParseError {
    /// Builds an error at a field with `left` bytes remaining.
    #[cold]
    #[must_use]
    pub fn new(field: &'static str, kind: ParseErrorKind, left: usize) -> Self {
        Self { field, kind, left: u32::try_from(left).unwrap_or(u32::MAX) }
    }

    #[cold]
    pub(crate) fn short(field: &'static str, need: usize, left: usize) -> Self {
        Self::new(field, ParseErrorKind::Short { need: u32::try_from(need).unwrap_or(u32::MAX) }, left)
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, kind, left } = self;
        match kind {
            ParseErrorKind::Short { need } => write!(f, "{field}: needs {need} bytes, {left} left"),
            ParseErrorKind::Trailing => write!(f, "{field}: {left} bytes after its end"),
            ParseErrorKind::BadLength => write!(f, "{field}: length contradicts the bytes around it ({left} left)"),
            ParseErrorKind::BadTag(tag) => write!(f, "{field}: unexpected value 0x{tag:02x} ({left} left)"),
            ParseErrorKind::BadUtf8 => write!(f, "{field}: not valid UTF-8 ({left} left)"),
            ParseErrorKind::BadText => write!(f, "{field}: not a value of its type ({left} left)"),
            ParseErrorKind::Unsupported => write!(f, "{field}: not supported ({left} left)"),
            ParseErrorKind::Limit => write!(f, "{field}: over its limit ({left} left)"),
        }
    }
}

impl core::error::Error for ParseError {}

/// The field of an error until whoever runs the grammar names it.
pub(super) const GRAMMAR: &str = "grammar";

// For the grammars of this workspace; no part of the interface.
#[doc(hidden)]
impl<'a> nom::error::ParseError<&'a [u8]> for ParseError {
    #[cold]
    fn from_error_kind(input: &'a [u8], kind: nom::error::ErrorKind) -> Self {
        let kind = match kind {
            nom::error::ErrorKind::Eof => ParseErrorKind::Short { need: 1 },
            nom::error::ErrorKind::TooLarge => ParseErrorKind::Limit,
            _ => ParseErrorKind::BadLength,
        };
        Self::new(GRAMMAR, kind, input.len())
    }

    fn append(_: &'a [u8], _: nom::error::ErrorKind, other: Self) -> Self {
        other
    }
}

#[doc(hidden)]
impl<'a, E> nom::error::FromExternalError<&'a [u8], E> for ParseError {
    #[cold]
    fn from_external_error(input: &'a [u8], _: nom::error::ErrorKind, _: E) -> Self {
        Self::new(GRAMMAR, ParseErrorKind::BadLength, input.len())
    }
}

#[doc(hidden)]
impl From<nom::Err<Self>> for ParseError {
    #[cold]
    fn from(e: nom::Err<Self>) -> Self {
        match e {
            nom::Err::Incomplete(nom::Needed::Size(n)) => Self::short(GRAMMAR, n.get(), 0),
            nom::Err::Incomplete(nom::Needed::Unknown) => Self::short(GRAMMAR, 1, 0),
            nom::Err::Error(e) | nom::Err::Failure(e) => e,
        }
    }
}
