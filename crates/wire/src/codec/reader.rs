use super::error::GRAMMAR;
use super::{ParseError, ParseErrorKind};

/// A cursor over borrowed bytes. Every read is checked and names its field; nothing panics.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A cursor at the start of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes not read yet.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.rest.len()
    }

    /// Whether everything has been read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The bytes not read yet, without reading them.
    #[must_use]
    pub const fn peek(&self) -> &'a [u8] {
        self.rest
    }

    /// The next byte, without reading it.
    #[must_use]
    pub fn peek_u8(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// An error at the current place.
    #[cold]
    #[must_use]
    pub fn error(&self, field: &'static str, kind: ParseErrorKind) -> ParseError {
        ParseError::new(field, kind, self.rest.len())
    }

    /// The next `n` bytes.
    #[inline]
    pub fn bytes(&mut self, n: usize, field: &'static str) -> Result<&'a [u8], ParseError> {
        match self.rest.split_at_checked(n) {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(ParseError::short(field, n, self.rest.len())),
        }
    }

    /// The next `N` bytes by value.
    #[inline]
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], ParseError> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(*head)
            }
            None => Err(ParseError::short(field, N, self.rest.len())),
        }
    }

    /// Passes over `n` bytes.
    #[inline]
    pub fn skip(&mut self, n: usize, field: &'static str) -> Result<(), ParseError> {
        self.bytes(n, field).map(|_| ())
    }

    /// Everything that is left.
    #[inline]
    pub fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.rest)
    }

    /// A cursor over the next `n` bytes.
    #[inline]
    pub fn sub(&mut self, n: usize, field: &'static str) -> Result<Self, ParseError> {
        self.bytes(n, field).map(Self::new)
    }

    /// Ends the structure: bytes that are left are an error.
    pub fn finish(self, field: &'static str) -> Result<(), ParseError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.error(field, ParseErrorKind::Trailing)) }
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self, field: &'static str) -> Result<u8, ParseError> {
        self.array::<1>(field).map(|[b]| b)
    }

    /// Little-endian 16 bits.
    #[inline]
    pub fn u16_le(&mut self, field: &'static str) -> Result<u16, ParseError> {
        self.array(field).map(u16::from_le_bytes)
    }

    /// Little-endian 24 bits.
    #[inline]
    pub fn u24_le(&mut self, field: &'static str) -> Result<u32, ParseError> {
        self.array(field).map(|[a, b, c]| u32::from_le_bytes([a, b, c, 0]))
    }

    /// Little-endian 32 bits.
    #[inline]
    pub fn u32_le(&mut self, field: &'static str) -> Result<u32, ParseError> {
        self.array(field).map(u32::from_le_bytes)
    }

    /// Little-endian 48 bits.
    #[inline]
    pub fn u48_le(&mut self, field: &'static str) -> Result<u64, ParseError> {
        self.array(field).map(|[a, b, c, d, e, f]| u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
    }

    /// Little-endian 64 bits.
    #[inline]
    pub fn u64_le(&mut self, field: &'static str) -> Result<u64, ParseError> {
        self.array(field).map(u64::from_le_bytes)
    }

    /// Little-endian integer of `n` bytes, 1 to 8.
    #[inline]
    pub fn uint_le(&mut self, n: usize, field: &'static str) -> Result<u64, ParseError> {
        if n == 0 || n > 8 {
            return Err(self.error(field, ParseErrorKind::BadLength));
        }
        Ok(self.bytes(n, field)?.iter().rev().fold(0, |acc, b| (acc << 8) | u64::from(*b)))
    }

    /// Big-endian integer of `n` bytes, 1 to 8.
    #[inline]
    pub fn uint_be(&mut self, n: usize, field: &'static str) -> Result<u64, ParseError> {
        if n == 0 || n > 8 {
            return Err(self.error(field, ParseErrorKind::BadLength));
        }
        Ok(self.bytes(n, field)?.iter().fold(0, |acc, b| (acc << 8) | u64::from(*b)))
    }

    /// Length-encoded integer (`page_protocol_basic_dt_integers`). 0xfb and 0xff are errors: a NULL marker belongs to
    /// text rows alone.
    #[inline]
    pub fn lenenc(&mut self, field: &'static str) -> Result<u64, ParseError> {
        let left = self.rest.len();
        match self.u8(field)? {
            b @ 0..=0xfa => Ok(u64::from(b)),
            0xfc => self.u16_le(field).map(u64::from),
            0xfd => self.u24_le(field).map(u64::from),
            0xfe => self.u64_le(field),
            b => Err(ParseError::new(field, ParseErrorKind::BadTag(b), left)),
        }
    }

    /// Length-encoded integer used as a length or a count of things that take at least one byte each: at most the
    /// bytes left.
    #[inline]
    pub fn lenenc_len(&mut self, field: &'static str) -> Result<usize, ParseError> {
        let n = self.lenenc(field)?;
        match usize::try_from(n) {
            Ok(n) if n <= self.rest.len() => Ok(n),
            _ => Err(ParseError::short(field, usize::try_from(n).unwrap_or(usize::MAX), self.rest.len())),
        }
    }

    /// Length-encoded string.
    #[inline]
    pub fn lenenc_bytes(&mut self, field: &'static str) -> Result<&'a [u8], ParseError> {
        let n = self.lenenc_len(field)?;
        self.bytes(n, field)
    }

    /// Bytes up to a NUL, which is read and not returned.
    pub fn nul_bytes(&mut self, field: &'static str) -> Result<&'a [u8], ParseError> {
        let Some(at) = memchr::memchr(0, self.rest) else {
            return Err(ParseError::short(field, self.rest.len().saturating_add(1), self.rest.len()));
        };
        let text = self.bytes(at, field)?;
        self.skip(1, field)?;
        Ok(text)
    }

    /// UTF-8 text of `n` bytes.
    pub fn str(&mut self, n: usize, field: &'static str) -> Result<&'a str, ParseError> {
        let left = self.rest.len();
        core::str::from_utf8(self.bytes(n, field)?).map_err(|_| ParseError::new(field, ParseErrorKind::BadUtf8, left))
    }

    /// Runs a grammar on the bytes that are left: it returns what it leaves, which is left here too, and a value. (The shape
    /// of a nom parser as a function; any other will do.) An error that names no field of its own is given `field`.
    pub fn parse<O, E: Into<ParseError>>(
        &mut self,
        field: &'static str,
        grammar: impl FnOnce(&'a [u8]) -> Result<(&'a [u8], O), E>,
    ) -> Result<O, ParseError> {
        match grammar(self.rest) {
            Ok((rest, value)) => {
                self.rest = rest;
                Ok(value)
            }
            Err(e) => {
                let e = e.into();
                Err(if e.field == GRAMMAR { ParseError { field, ..e } } else { e })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_integer_width() {
        let bytes: Vec<u8> = (1..=40).collect();
        let mut r = Reader::new(&bytes);
        assert_eq!(r.u8("a").unwrap(), 1);
        assert_eq!(r.u16_le("b").unwrap(), 0x0302);
        assert_eq!(r.u24_le("c").unwrap(), 0x0006_0504);
        assert_eq!(r.u32_le("d").unwrap(), 0x0a09_0807);
        assert_eq!(r.u48_le("e").unwrap(), 0x100f_0e0d_0c0b);
        assert_eq!(r.u64_le("f").unwrap(), 0x1817_1615_1413_1211);
        assert_eq!(r.uint_be(3, "g").unwrap(), 0x0019_1a1b);
        assert_eq!(r.uint_le(3, "h").unwrap(), 0x001e_1d1c);
        assert_eq!(r.left(), 10);
    }

    #[test]
    fn a_short_read_names_its_field_and_reads_nothing() {
        let mut r = Reader::new(&[1, 2]);
        let e = r.u32_le("thread_id").unwrap_err();
        assert_eq!((e.field, e.kind, e.left), ("thread_id", ParseErrorKind::Short { need: 4 }, 2));
        assert_eq!(r.left(), 2);
        assert_eq!(e.to_string(), "thread_id: needs 4 bytes, 2 left");
    }

    #[test]
    fn lenenc_takes_each_form_and_refuses_the_markers() {
        for (bytes, value) in [
            (&[0xfa][..], 0xfa),
            (&[0xfc, 1, 2], 0x0201),
            (&[0xfd, 1, 2, 3], 0x0003_0201),
            (&[0xfe, 1, 0, 0, 0, 0, 0, 0, 0x80], 0x8000_0000_0000_0001),
        ] {
            assert_eq!(Reader::new(bytes).lenenc("n").unwrap(), value);
        }
        for marker in [0xfb, 0xff] {
            assert_eq!(Reader::new(&[marker]).lenenc("n").unwrap_err().kind, ParseErrorKind::BadTag(marker));
        }
    }

    #[test]
    fn a_declared_length_is_never_believed_beyond_the_bytes_left() {
        let mut r = Reader::new(&[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, b'x']);
        assert!(matches!(r.lenenc_bytes("info").unwrap_err().kind, ParseErrorKind::Short { .. }));
    }

    #[test]
    fn nom_runs_on_the_cursor() {
        use nom::number::complete::le_u16;
        let mut r = Reader::new(&[1, 2, 3]);
        assert_eq!(r.parse("pair", le_u16::<&[u8], ParseError>).unwrap(), 0x0201);
        assert_eq!(r.parse("pair", le_u16::<&[u8], ParseError>).unwrap_err().field, "pair");
    }
}
