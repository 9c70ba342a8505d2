use core::fmt;

use super::collations::charset_of;
use super::{multi_byte, single_byte};

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
    /// The character set of a collation id, as of MySQL 9.7 and MariaDB 11.8.
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

    /// Whether [`decode`](Self::decode) can read it: everything but `binary`.
    #[must_use]
    pub const fn is_supported(self) -> bool {
        !matches!(self, Self::Binary)
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
        if self == Self::Utf32 {
            let (units, rest) = bytes.as_chunks::<4>();
            for (i, unit) in units.iter().enumerate() {
                push(char::from_u32(u32::from_be_bytes(*unit)).ok_or_else(|| Some(i.saturating_mul(4)))?, out);
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
            push(c, out);
        }
        if rest.is_empty() { Ok(()) } else { Err(Some(bytes.len().saturating_sub(rest.len()))) }
    }

    fn decode_table(self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Option<usize>> {
        if self == Self::Swe7 {
            return single_byte_text(bytes, 0, out, |b| single_byte::SWE7.get(usize::from(b)));
        }
        // Below 0x80 every other set is ASCII.
        let ascii = encoding_rs::Encoding::ascii_valid_up_to(bytes);
        let (head, tail) = bytes.split_at_checked(ascii).unwrap_or((bytes, &[]));
        out.extend_from_slice(head);
        if let Some(table) = self.single_byte() {
            return single_byte_text(tail, ascii, out, |b| match b.checked_sub(0x80) {
                Some(i) => table.get(usize::from(i)),
                None => ASCII.get(usize::from(b)),
            });
        }
        let (encoding, exceptions) = self.multi_byte().ok_or(None)?;
        if !exceptions.is_empty() || self.has_user_defined() {
            return self.decode_with_exceptions(tail, ascii, encoding, exceptions, out);
        }
        match encoding.decode_without_bom_handling_and_without_replacement(tail) {
            Some(text) => out.extend_from_slice(text.as_bytes()),
            None => return Err(Some(ascii)),
        }
        Ok(())
    }

    /// The upper half of a single-byte set, as a server converts it.
    const fn single_byte(self) -> Option<&'static [u16; 128]> {
        use single_byte as t;
        Some(match self {
            Self::Armscii8 => &t::ARMSCII8,
            Self::Cp1250 => &t::CP1250,
            Self::Cp1251 => &t::CP1251,
            Self::Cp1256 => &t::CP1256,
            Self::Cp1257 => &t::CP1257,
            Self::Cp850 => &t::CP850,
            Self::Cp852 => &t::CP852,
            Self::Cp866 => &t::CP866,
            Self::Dec8 => &t::DEC8,
            Self::Geostd8 => &t::GEOSTD8,
            Self::Greek => &t::GREEK,
            Self::Hebrew => &t::HEBREW,
            Self::Hp8 => &t::HP8,
            Self::Keybcs2 => &t::KEYBCS2,
            Self::Koi8r => &t::KOI8R,
            Self::Koi8u => &t::KOI8U,
            Self::Latin1 => &t::LATIN1,
            Self::Latin2 => &t::LATIN2,
            Self::Latin5 => &t::LATIN5,
            Self::Latin7 => &t::LATIN7,
            Self::Macce => &t::MACCE,
            Self::Macroman => &t::MACROMAN,
            Self::Tis620 => &t::TIS620,
            _ => return None,
        })
    }

    /// The codec of a multi-byte set and the codes that the server maps otherwise.
    const fn multi_byte(self) -> Option<(&'static encoding_rs::Encoding, &'static [(u32, u16)])> {
        use multi_byte as t;
        Some(match self {
            Self::Big5 => (encoding_rs::BIG5, t::BIG5),
            Self::Cp932 => (encoding_rs::SHIFT_JIS, &[]),
            Self::Sjis => (encoding_rs::SHIFT_JIS, t::SJIS),
            Self::Ujis => (encoding_rs::EUC_JP, t::UJIS),
            Self::Eucjpms => (encoding_rs::EUC_JP, t::EUCJPMS),
            Self::Euckr => (encoding_rs::EUC_KR, &[]),
            Self::Gbk => (encoding_rs::GBK, &[]),
            Self::Gb2312 => (encoding_rs::GBK, t::GB2312),
            Self::Gb18030 => (encoding_rs::GB18030, t::GB18030),
            _ => return None,
        })
    }

    const fn has_user_defined(self) -> bool {
        matches!(self, Self::Ujis | Self::Eucjpms)
    }

    /// Bytes of the character that begins with `lead` and `second`.
    const fn char_len(self, lead: u8, second: u8) -> usize {
        match (self, lead) {
            (_, ..0x80) | (Self::Sjis, 0xa1..=0xdf) => 1,
            (Self::Ujis | Self::Eucjpms, 0x8f) => 3,
            (Self::Gb18030, _) if second.is_ascii_digit() => 4,
            _ => 2,
        }
    }

    fn decode_with_exceptions(
        self,
        bytes: &[u8],
        offset: usize,
        encoding: &'static encoding_rs::Encoding,
        exceptions: &[(u32, u16)],
        out: &mut Vec<u8>,
    ) -> Result<(), Option<usize>> {
        let mut rest = bytes;
        while let Some(&lead) = rest.first() {
            let at = offset.saturating_add(bytes.len()).saturating_sub(rest.len());
            let len = self.char_len(lead, rest.get(1).copied().unwrap_or(0));
            let (code, after) = rest.split_at_checked(len).ok_or(Some(at))?;
            rest = after;
            let number = code.iter().fold(0u32, |n, b| (n << 8) | u32::from(*b));
            let own = match exceptions.binary_search_by_key(&number, |(code, _)| *code) {
                Ok(i) => exceptions.get(i).map(|(_, c)| u32::from(*c)),
                Err(_) if self.has_user_defined() => user_defined(code),
                Err(_) => None,
            };
            match own.and_then(char::from_u32) {
                Some(c) => push(c, out),
                None => {
                    let text = encoding.decode_without_bom_handling_and_without_replacement(code);
                    out.extend_from_slice(text.ok_or(Some(at))?.as_bytes());
                }
            }
        }
        Ok(())
    }
}

const ASCII: [u16; 128] = {
    let mut table = [0; 128];
    let mut i = 0u16;
    let mut rest: &mut [u16] = &mut table;
    while let Some((slot, after)) = rest.split_first_mut() {
        *slot = i;
        i = i.wrapping_add(1);
        rest = after;
    }
    table
};

/// Rows F5 to FE of the EUC code sets 1 and 3 are a private area.
fn user_defined(code: &[u8]) -> Option<u32> {
    let (base, row, column) = match *code {
        [row, column] => (0xe000, row, column),
        [0x8f, row, column] => (0xe3ac, row, column),
        _ => return None,
    };
    let (row, column) = (row.checked_sub(0xf5)?, column.checked_sub(0xa1)?);
    (row < 10 && column < 94).then_some(())?;
    u32::from(row).checked_mul(94)?.checked_add(u32::from(column))?.checked_add(base)
}

fn push(c: char, out: &mut Vec<u8>) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

fn single_byte_text<'t>(
    bytes: &[u8],
    offset: usize,
    out: &mut Vec<u8>,
    map: impl Fn(u8) -> Option<&'t u16>,
) -> Result<(), Option<usize>> {
    for (i, b) in bytes.iter().enumerate() {
        let point = map(*b).copied().filter(|point| *point != 0 || *b == 0);
        let c = point.and_then(|point| char::from_u32(u32::from(point)));
        push(c.ok_or_else(|| Some(offset.saturating_add(i)))?, out);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(charset: Charset, bytes: &[u8]) -> Result<String, Option<usize>> {
        let mut out = b"kept".to_vec();
        let done = charset.decode(bytes, &mut out);
        let text = String::from_utf8(out).unwrap();
        done.map(|()| text.strip_prefix("kept").unwrap().to_owned()).map_err(|e| {
            assert_eq!((text.as_str(), e.charset), ("kept", charset));
            e.at
        })
    }

    #[test]
    fn texts() {
        for (charset, bytes, text) in [
            (Charset::Latin1, &b"\xe9\x80\x81"[..], "\u{e9}\u{20ac}\u{81}"),
            (Charset::Utf8mb3, "é".as_bytes(), "é"),
            (Charset::Sjis, b"a\x83\x5c\x81\x5f\xb1", "aソ\\\u{ff71}"),
            (Charset::Cp932, b"\x81\x5f", "\u{ff3c}"),
            (Charset::Gbk, b"\xd6\xd0a", "中a"),
            (Charset::Gb18030, b"\xa8\xbc\x81\x30\x81\x30", "\u{1e3f}\u{80}"),
            (Charset::Big5, b"\xa4\xa4\xa1\x45", "中\u{2022}"),
            (Charset::Ujis, b"\xc6\xfc\xf5\xa1\x8f\xf5\xa1\x8e\xb1", "日\u{e000}\u{e3ac}\u{ff71}"),
            (Charset::Swe7, b"[]", "ÄÅ"),
            (Charset::Ucs2, b"\x65\xe5", "日"),
            (Charset::Utf16, b"\xd8\x34\xdd\x1e", "𝄞"),
            (Charset::Utf16le, b"\x34\xd8\x1e\xdd", "𝄞"),
            (Charset::Utf32, b"\0\x01\xd1\x1e", "𝄞"),
            (Charset::Greek, b"A\xe1", "Aα"),
        ] {
            assert_eq!(decode(charset, bytes).as_deref(), Ok(text), "{charset}");
        }
    }

    #[test]
    fn invalid_bytes_are_named_and_leave_no_text() {
        for (charset, bytes, at) in [
            (Charset::Utf8mb4, &b"a\xff"[..], 1),
            (Charset::Ascii, b"ab\xc3\xa9", 2),
            (Charset::Greek, b"a\xd2", 1),
            (Charset::Sjis, b"ab\x81", 2),
            (Charset::Utf16, b"\0a\xd8\x34", 2),
            (Charset::Ucs2, b"\xd8\x34\xdd\x1e", 0),
            (Charset::Ucs2, b"\0a\0", 2),
            (Charset::Utf32, b"\0\x11\0\0", 0),
            (Charset::Swe7, b"a\x80", 1),
        ] {
            assert_eq!(decode(charset, bytes), Err(Some(at)), "{charset}");
        }
        assert_eq!(decode(Charset::Binary, b"a"), Err(None));
    }

    #[test]
    fn names_and_collations() {
        for (name, charset) in NAMES {
            assert_eq!(Charset::from_name(name), Some(*charset));
            assert_eq!(charset.name(), *name);
            assert_eq!(charset.is_supported(), *charset != Charset::Binary, "{name}");
        }
        assert_eq!(Charset::from_name("UTF8"), Some(Charset::Utf8mb3));
        for (id, charset) in
            [(8, Charset::Latin1), (63, Charset::Binary), (255, Charset::Utf8mb4), (305, Charset::Utf8mb4)]
        {
            assert_eq!(Charset::from_collation(id), Some(charset));
        }
        assert_eq!(Charset::from_collation(0), None);
    }
}
