use flate2::Decompress;
use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

use super::ColumnValue;
use crate::inflate::inflate;
use crate::table::Charset;

/// A compressed value of a COMPRESSED column of MariaDB (`compress_zlib` of `sql/field_comp.cc`).
///
/// ```text
/// u8: high half 8 (zlib), bit 3: without zlib's header and checksum, low 3 bits n | n bytes big endian: size | data
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compressed<'a> {
    bytes: &'a [u8],
}

impl<'a> Compressed<'a> {
    /// The value as it lies in the row: header and data.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The size that the header states. Nothing is sized by it.
    #[must_use]
    pub fn stated_len(&self) -> u64 {
        let n = usize::from(self.bytes.first().copied().unwrap_or(0) & 7);
        Reader::new(self.bytes.get(1..).unwrap_or_default()).uint_be(n, "compressed size").unwrap_or(0)
    }

    /// Appends the value. It is an error if it does not have the stated size or is larger than `limit` bytes; then
    /// nothing is appended.
    pub fn inflate(&self, limit: usize, out: &mut Vec<u8>) -> Result<(), ParseError> {
        let start = out.len();
        let done = self.inflate_all(limit, out);
        if done.is_err() {
            out.truncate(start);
        }
        done
    }

    fn inflate_all(&self, limit: usize, out: &mut Vec<u8>) -> Result<(), ParseError> {
        let mut r = Reader::new(self.bytes);
        let head = r.u8("compression header")?;
        let stated = r.uint_be(usize::from(head & 7), "compressed size")?;
        if stated > limit as u64 {
            return Err(r.error("compressed size", ParseErrorKind::Limit));
        }
        let stated = usize::try_from(stated).unwrap_or(usize::MAX);
        let input = r.rest();
        let mut zlib = Decompress::new(head & 8 == 0);
        inflate(&mut zlib, input, stated, out)
            .map_err(|_| Reader::new(input).error("compressed value", ParseErrorKind::BadLength))
    }
}

/// A COMPRESSED column's bytes: empty, 0 and the value as it is, or a compressed value.
pub(super) fn read_value(bytes: &[u8], charset: Charset) -> Result<ColumnValue<'_>, ParseError> {
    let plain = match *bytes {
        [] => bytes,
        [0, ref rest @ ..] => rest,
        [head, ..] if head & 0xf0 == 0x80 && (1..=4).contains(&(head & 7)) => {
            return Ok(ColumnValue::Compressed { value: Compressed { bytes }, charset });
        }
        [head, ..] => return Err(Reader::new(bytes).error("compression header", ParseErrorKind::BadTag(head))),
    };
    Ok(if charset == Charset::Binary { ColumnValue::Bytes(plain) } else { ColumnValue::Text { bytes: plain, charset } })
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "small numbers")]
mod tests {
    use super::*;

    fn inflate(bytes: &[u8], limit: usize) -> Result<Vec<u8>, ParseErrorKind> {
        let ColumnValue::Compressed { value, .. } = read_value(bytes, Charset::Binary).unwrap() else { panic!() };
        let mut out = b"kept".to_vec();
        let done = value.inflate(limit, &mut out);
        done.map(|()| out.strip_prefix(b"kept").unwrap().to_vec()).map_err(|e| {
            assert_eq!(out, b"kept");
            e.kind
        })
    }

    fn packed(data: &[u8], header: bool, stated: u8) -> Vec<u8> {
        let mut zlib = flate2::Compress::new(flate2::Compression::default(), header);
        let mut body = vec![0; data.len() + 64];
        zlib.compress(data, &mut body, flate2::FlushCompress::Finish).unwrap();
        body.truncate(usize::try_from(zlib.total_out()).unwrap());
        [&[if header { 0x81 } else { 0x89 }, stated][..], &body].concat()
    }

    #[test]
    fn with_and_without_zlibs_header() {
        let data = [b'a'; 200];
        for header in [true, false] {
            let bytes = packed(&data, header, 200);
            assert_eq!(inflate(&bytes, 200).unwrap(), data);
            assert_eq!(inflate(&bytes, 199), Err(ParseErrorKind::Limit));
            for n in 2..bytes.len() {
                assert!(inflate(&bytes[..n], 200).is_err(), "{n}");
            }
            assert!(inflate(&[&bytes[..], &[0]].concat(), 200).is_err(), "a byte after its end");
        }
        for stated in [199, 201] {
            assert_eq!(inflate(&packed(&data, true, stated), 1000), Err(ParseErrorKind::BadLength), "{stated}");
        }
    }

    #[test]
    fn plain_values_and_unknown_methods() {
        let text = |bytes| ColumnValue::Text { bytes, charset: Charset::Utf8mb4 };
        assert_eq!(read_value(b"", Charset::Utf8mb4), Ok(text(b"")));
        assert_eq!(read_value(b"\0abc", Charset::Utf8mb4), Ok(text(b"abc")));
        assert_eq!(read_value(b"\0\xff", Charset::Binary), Ok(ColumnValue::Bytes(b"\xff")));
        for head in [0x10u8, 0x80, 0x85, 0x91] {
            let bytes = [head, 1, 2];
            assert_eq!(read_value(&bytes, Charset::Binary).unwrap_err().kind, ParseErrorKind::BadTag(head));
        }
    }
}
