use core::fmt;
use std::io;

use millstream_wire::codec::{ParseError, ParseErrorKind};

use crate::header::EventType;
use crate::table::SchemaMismatch;

/// Why an event, a row or a file could not be read. One word wide; ask the predicates, print the rest.
#[derive(Debug)]
pub struct Error(Box<Kind>);

#[derive(Debug)]
enum Kind {
    Malformed { place: Place, source: ParseError },
    Checksum { place: Place, stated: u32, computed: u32 },
    Unsupported { place: Place, what: &'static str },
    Unknown { place: Place },
    Collation { place: Place, id: u16 },
    Limit { what: &'static str, limit: u64 },
    Mismatch(SchemaMismatch),
    Compressed { place: Place, source: io::Error },
    File { offset: u64, what: &'static str },
    Cut { offset: u64, event: EventType, length: usize, there: usize },
    Io { offset: u64, source: io::Error },
}

/// The event that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) event: EventType,
    pub(crate) log_pos: u32,
    /// Bytes from the event's start to the end of its body.
    pub(crate) end: u32,
}

impl Place {
    #[cold]
    pub(crate) fn malformed(self, source: ParseError) -> Error {
        Error(Box::new(Kind::Malformed { place: self, source }))
    }

    #[cold]
    pub(crate) fn checksum(self, stated: u32, computed: u32) -> Error {
        Error(Box::new(Kind::Checksum { place: self, stated, computed }))
    }

    #[cold]
    pub(crate) fn unsupported(self, what: &'static str) -> Error {
        Error(Box::new(Kind::Unsupported { place: self, what }))
    }

    #[cold]
    pub(crate) fn unknown(self) -> Error {
        Error(Box::new(Kind::Unknown { place: self }))
    }

    #[cold]
    pub(crate) fn collation(self, id: u16) -> Error {
        Error(Box::new(Kind::Collation { place: self, id }))
    }

    #[cold]
    pub(crate) fn compressed(self, source: io::Error) -> Error {
        Error(Box::new(Kind::Compressed { place: self, source }))
    }
}

impl Error {
    #[cold]
    pub(crate) fn limit(what: &'static str, limit: u64) -> Self {
        Self(Box::new(Kind::Limit { what, limit }))
    }

    #[cold]
    pub(crate) fn file(offset: u64, what: &'static str) -> Self {
        Self(Box::new(Kind::File { offset, what }))
    }

    /// A file that ends behind an event's header and before its end.
    #[cold]
    pub(crate) fn cut(offset: u64, event: EventType, length: usize, there: usize) -> Self {
        Self(Box::new(Kind::Cut { offset, event, length, there }))
    }

    #[cold]
    pub(crate) fn io(offset: u64, source: io::Error) -> Self {
        Self(Box::new(Kind::Io { offset, source }))
    }

    /// Bytes that contradict the format.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        matches!(*self.0, Kind::Malformed { .. } | Kind::Compressed { .. } | Kind::File { .. } | Kind::Cut { .. })
            && !self.is_unsupported()
    }

    /// The event's CRC32 does not match its bytes: they were damaged on the way or at rest. Reading again may help.
    #[must_use]
    pub fn is_checksum(&self) -> bool {
        matches!(*self.0, Kind::Checksum { .. })
    }

    /// A valid construct that this crate does not read, or an event type it does not know.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        match &*self.0 {
            Kind::Unsupported { .. } | Kind::Unknown { .. } | Kind::Collation { .. } => true,
            Kind::Malformed { source, .. } => source.kind == ParseErrorKind::Unsupported,
            _ => false,
        }
    }

    /// A limit of [`DecoderOptions`](crate::DecoderOptions) or of the format was reached.
    #[must_use]
    pub fn is_limit(&self) -> bool {
        matches!(*self.0, Kind::Limit { .. })
    }

    /// The file could not be read (not: what is in it is wrong).
    #[must_use]
    pub fn is_io(&self) -> bool {
        matches!(*self.0, Kind::Io { .. })
    }

    /// A TABLE_MAP that contradicts the catalog's schema.
    #[must_use]
    pub fn schema_mismatch(&self) -> Option<&SchemaMismatch> {
        match &*self.0 {
            Kind::Mismatch(m) => Some(m),
            _ => None,
        }
    }
}

impl From<SchemaMismatch> for Error {
    #[cold]
    fn from(mismatch: SchemaMismatch) -> Self {
        Self(Box::new(Kind::Mismatch(mismatch)))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} event ending at log position {}", self.event, self.log_pos)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Malformed { place, source } if self.is_unsupported() => {
                write!(f, "{place}: {} is not supported", source.field)
            }
            Kind::Malformed { place, source } => {
                write!(f, "malformed {place}, at its byte {}", place.end.saturating_sub(source.left))
            }
            Kind::Checksum { place, stated, computed } => {
                write!(f, "{place}: its CRC32 is 0x{computed:08x}, the log says 0x{stated:08x}")
            }
            Kind::Unsupported { place, what } => write!(f, "{place}: {what} is not supported"),
            Kind::Unknown { place } => write!(f, "{place}: unknown event type without the IGNORABLE flag"),
            Kind::Collation { place, id } => write!(f, "{place}: collation id {id} is of no known character set"),
            Kind::Limit { what, limit } => write!(f, "{what} is over the limit of {limit} bytes"),
            Kind::Mismatch(m) => m.fmt(f),
            Kind::Compressed { place, .. } => write!(f, "{place}: its payload does not decompress"),
            Kind::File { offset, what } => write!(f, "offset {offset}: {what}"),
            Kind::Cut { offset, event, length, there } => write!(
                f,
                "offset {offset}: the file ends inside an event of type {event}: {there} of its {length} bytes are there"
            ),
            Kind::Io { offset, .. } => write!(f, "offset {offset}: the file cannot be read"),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match &*self.0 {
            Kind::Malformed { source, .. } => Some(source),
            Kind::Compressed { source, .. } | Kind::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever embeds the crate sends errors between threads and boxes them.
    #[test]
    fn errors_are_one_word_and_cross_threads() {
        const fn crosses<E: core::error::Error + Send + Sync + 'static>() {}
        crosses::<Error>();
        crosses::<SchemaMismatch>();
        crosses::<ParseError>();
        crosses::<crate::GtidTextError>();
        crosses::<crate::CharsetError>();
        crosses::<crate::value::DecimalTextError>();
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }
}
