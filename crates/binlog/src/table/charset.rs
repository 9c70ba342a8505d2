use core::fmt;

use super::collations::charset_of;

/// A MySQL character set that column bytes can be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Charset {
    /// `armscii8`.
    Armscii8,
    /// `ascii`.
    Ascii,
    /// `big5`.
    Big5,
    /// `binary`: bytes, never text.
    Binary,
    /// `cp1250`.
    Cp1250,
    /// `cp1251`.
    Cp1251,
    /// `cp1256`.
    Cp1256,
    /// `cp1257`.
    Cp1257,
    /// `cp850`.
    Cp850,
    /// `cp852`.
    Cp852,
    /// `cp866`.
    Cp866,
    /// `cp932`.
    Cp932,
    /// `dec8`.
    Dec8,
    /// `eucjpms`.
    Eucjpms,
    /// `euckr`: UHC (code page 949).
    Euckr,
    /// `gb18030`.
    Gb18030,
    /// `gb2312`.
    Gb2312,
    /// `gbk`.
    Gbk,
    /// `geostd8`.
    Geostd8,
    /// `greek`.
    Greek,
    /// `hebrew`.
    Hebrew,
    /// `hp8`.
    Hp8,
    /// `keybcs2`.
    Keybcs2,
    /// `koi8r`.
    Koi8r,
    /// `koi8u`.
    Koi8u,
    /// `latin1`: windows-1252 with the five unassigned bytes passed through.
    Latin1,
    /// `latin2`.
    Latin2,
    /// `latin5`.
    Latin5,
    /// `latin7`.
    Latin7,
    /// `macce`.
    Macce,
    /// `macroman`.
    Macroman,
    /// `sjis`.
    Sjis,
    /// `swe7`.
    Swe7,
    /// `tis620`.
    Tis620,
    /// `ucs2`: UTF-16 big endian without surrogates.
    Ucs2,
    /// `ujis`.
    Ujis,
    /// `utf16`: UTF-16, big endian.
    Utf16,
    /// `utf16le`: UTF-16, little endian.
    Utf16le,
    /// `utf32`: UTF-32, big endian.
    Utf32,
    /// `utf8mb3`.
    Utf8mb3,
    /// `utf8mb4`.
    Utf8mb4,
}

const NAMES: &[(&str, Charset)] = {
    &[
        ("armscii8", Charset::Armscii8),
        ("ascii", Charset::Ascii),
        ("big5", Charset::Big5),
        ("binary", Charset::Binary),
        ("cp1250", Charset::Cp1250),
        ("cp1251", Charset::Cp1251),
        ("cp1256", Charset::Cp1256),
        ("cp1257", Charset::Cp1257),
        ("cp850", Charset::Cp850),
        ("cp852", Charset::Cp852),
        ("cp866", Charset::Cp866),
        ("cp932", Charset::Cp932),
        ("dec8", Charset::Dec8),
        ("eucjpms", Charset::Eucjpms),
        ("euckr", Charset::Euckr),
        ("gb18030", Charset::Gb18030),
        ("gb2312", Charset::Gb2312),
        ("gbk", Charset::Gbk),
        ("geostd8", Charset::Geostd8),
        ("greek", Charset::Greek),
        ("hebrew", Charset::Hebrew),
        ("hp8", Charset::Hp8),
        ("keybcs2", Charset::Keybcs2),
        ("koi8r", Charset::Koi8r),
        ("koi8u", Charset::Koi8u),
        ("latin1", Charset::Latin1),
        ("latin2", Charset::Latin2),
        ("latin5", Charset::Latin5),
        ("latin7", Charset::Latin7),
        ("macce", Charset::Macce),
        ("macroman", Charset::Macroman),
        ("sjis", Charset::Sjis),
        ("swe7", Charset::Swe7),
        ("tis620", Charset::Tis620),
        ("ucs2", Charset::Ucs2),
        ("ujis", Charset::Ujis),
        ("utf16", Charset::Utf16),
        ("utf16le", Charset::Utf16le),
        ("utf32", Charset::Utf32),
        ("utf8mb3", Charset::Utf8mb3),
        ("utf8mb4", Charset::Utf8mb4),
    ]
};

/// Bytes that are not text of their character set, or a set that cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CharsetError {
    /// The character set.
    pub charset: Charset,
    /// Offset of the first bad byte; `None` when the whole set is not supported.
    pub at: Option<usize>,
}

impl fmt::Display for CharsetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "byte {at} of the value is not valid {}", self.charset),
            None => write!(f, "character set {} cannot be decoded", self.charset),
        }
    }
}

impl core::error::Error for CharsetError {}

impl fmt::Display for Charset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Charset {
    /// The character set of a collation id, as of MySQL 9.7.
    #[must_use]
    pub const fn from_collation(id: u16) -> Option<Self> {
        charset_of(id)
    }

    /// The character set of a name (`utf8` is utf8mb3).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let name = if name.eq_ignore_ascii_case("utf8") { "utf8mb3" } else { name };
        NAMES.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, set)| *set)
    }

    /// The server's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, set)| *set == self).map_or("binary", |(name, _)| name)
    }

    /// Whether every valid text is already UTF-8: it needs a check, not a conversion.
    #[must_use]
    pub const fn is_utf8(self) -> bool {
        matches!(self, Self::Utf8mb4 | Self::Utf8mb3 | Self::Ascii)
    }

    /// Whether [`decode`](Self::decode) can read it.
    #[must_use]
    pub fn is_supported(self) -> bool {
        self.is_utf8() || self.is_wide() || self.encoding().is_some()
    }

    /// Appends `bytes` as UTF-8. On an error nothing is appended.
    pub fn decode(self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), CharsetError> {
        let bad = |at| CharsetError { charset: self, at: Some(at) };
        if self.is_utf8() {
            core::str::from_utf8(bytes).map_err(|e| bad(e.valid_up_to()))?;
            if self == Self::Ascii && !bytes.is_ascii() {
                return Err(bad(bytes.iter().take_while(|b| b.is_ascii()).count()));
            }
            out.extend_from_slice(bytes);
            return Ok(());
        }
        let start = out.len();
        let done = if self.is_wide() { self.decode_wide(bytes, out) } else { self.decode_table(bytes, out) };
        done.map_err(|at| {
            out.truncate(start);
            CharsetError { charset: self, at }
        })
    }

    const fn is_wide(self) -> bool {
        matches!(self, Self::Ucs2 | Self::Utf16 | Self::Utf16le | Self::Utf32)
    }

    fn decode_wide(self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Option<usize>> {
        let mut push = |c: char| out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        if self == Self::Utf32 {
            let (units, rest) = bytes.as_chunks::<4>();
            for (i, unit) in units.iter().enumerate() {
                push(char::from_u32(u32::from_be_bytes(*unit)).ok_or_else(|| Some(i.saturating_mul(4)))?);
            }
            return if rest.is_empty() { Ok(()) } else { Err(Some(bytes.len().saturating_sub(rest.len()))) };
        }
        let (units, rest) = bytes.as_chunks::<2>();
        let read = if self == Self::Utf16le { u16::from_le_bytes } else { u16::from_be_bytes };
        let mut at = 0usize;
        for c in char::decode_utf16(units.iter().map(|u| read(*u))) {
            let c = c.map_err(|_| Some(at))?;
            if self == Self::Ucs2 && c.len_utf16() > 1 {
                return Err(Some(at));
            }
            at = at.saturating_add(c.len_utf16().saturating_mul(2));
            push(c);
        }
        if rest.is_empty() { Ok(()) } else { Err(Some(bytes.len().saturating_sub(rest.len()))) }
    }

    /// The codec of encoding_rs whose map is the server's, measured byte by byte.
    const fn encoding(self) -> Option<&'static encoding_rs::Encoding> {
        Some(match self {
            Self::Latin1 => encoding_rs::WINDOWS_1252,
            _ => return None,
        })
    }

    fn decode_table(self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Option<usize>> {
        let encoding = self.encoding().ok_or(None)?;
        let ascii = encoding_rs::Encoding::ascii_valid_up_to(bytes);
        if ascii == bytes.len() {
            out.extend_from_slice(bytes);
            return Ok(());
        }
        match encoding.decode_without_bom_handling_and_without_replacement(bytes) {
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                Ok(())
            }
            None => Err(Some(ascii)),
        }
    }
}
