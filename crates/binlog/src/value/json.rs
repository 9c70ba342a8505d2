use base64::Engine as _;
use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

use super::Decimal;
use super::number::write_double;
use super::temporal::{Time, datetime_from_packed};

/// A JSON document in the server's binary form (`sql/json_binary.h`): type byte and value. Empty bytes are JSON null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonBinary<'a> {
    /// The document's bytes.
    pub bytes: &'a [u8],
}

/// The server's own limit.
pub(super) const MAX_DEPTH: usize = 100;

/// Type bytes.
pub(super) mod ty {
    pub(in crate::value) const SMALL_OBJECT: u8 = 0x00;
    pub(in crate::value) const LARGE_OBJECT: u8 = 0x01;
    pub(in crate::value) const SMALL_ARRAY: u8 = 0x02;
    pub(in crate::value) const LARGE_ARRAY: u8 = 0x03;
    pub(in crate::value) const LITERAL: u8 = 0x04;
    pub(in crate::value) const INT16: u8 = 0x05;
    pub(in crate::value) const UINT16: u8 = 0x06;
    pub(in crate::value) const INT32: u8 = 0x07;
    pub(in crate::value) const UINT32: u8 = 0x08;
    pub(in crate::value) const INT64: u8 = 0x09;
    pub(in crate::value) const UINT64: u8 = 0x0a;
    pub(in crate::value) const DOUBLE: u8 = 0x0b;
    pub(in crate::value) const STRING: u8 = 0x0c;
    pub(in crate::value) const OPAQUE: u8 = 0x0f;
}

/// `enum_field_types` of opaque values that have a text of their own; the others print as base64.
mod opaque {
    pub(super) const TIMESTAMP: u8 = 7;
    pub(super) const DATE: u8 = 10;
    pub(super) const TIME: u8 = 11;
    pub(super) const DATETIME: u8 = 12;
    pub(super) const DECIMAL: u8 = 246;
}

/// An object or array whose members are being written.
///
/// ```text
/// count | size of the whole | objects: (key offset, u16 key length)… | (u8 type, offset or inlined value)… | data
/// ```
/// Numbers have 2 bytes in the small form and 4 in the large one; offsets count from the container's start, and what they
/// point to may lie in any order, with holes.
#[derive(Clone, Copy)]
pub(super) struct Container<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) is_object: bool,
    pub(super) large: bool,
    pub(super) count: usize,
    pub(super) next: usize,
}

/// What a value entry holds.
pub(super) enum Value<'a> {
    /// A type byte and the bytes that begin with the value.
    Scalar(u8, &'a [u8]),
    Container(Container<'a>),
}

impl JsonBinary<'_> {
    /// Appends the document's text exactly as the server prints it. On malformed bytes nothing is appended.
    ///
    /// The work is bounded by the document's size: a hostile document whose entries all point at one large child is
    /// refused when its text outgrows anything that an honest document of the size can have.
    pub fn write_to(&self, out: &mut Vec<u8>) -> Result<(), ParseError> {
        let start = out.len();
        let done = write_document(self.bytes, out);
        if done.is_err() {
            out.truncate(start);
        }
        done
    }
}

fn write_document(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ParseError> {
    let Some((&first, body)) = bytes.split_first() else {
        out.extend_from_slice(b"null");
        return Ok(());
    };
    // One byte becomes at most six (\u0000) or a small entry of three bytes `false, `.
    let budget = out.len().saturating_add(bytes.len().saturating_mul(8)).saturating_add(1024);
    let mut stack: Vec<Container<'_>> = Vec::new();
    let mut value = Value::new(first, body)?;
    loop {
        match value {
            Value::Scalar(ty, data) => write_scalar(ty, data, out)?,
            Value::Container(container) => {
                if stack.len() >= MAX_DEPTH {
                    return Err(Reader::new(container.bytes).error("json depth", ParseErrorKind::Limit));
                }
                out.push(if container.is_object { b'{' } else { b'[' });
                stack.push(container);
            }
        }
        // The next member of the innermost container that has one.
        value = loop {
            let Some(top) = stack.last_mut() else { return Ok(()) };
            if out.len() > budget {
                return Err(Reader::new(top.bytes).error("json text", ParseErrorKind::Limit));
            }
            if top.next == top.count {
                out.push(if top.is_object { b'}' } else { b']' });
                stack.pop();
                continue;
            }
            if top.next > 0 {
                out.extend_from_slice(b", ");
            }
            if top.is_object {
                write_string(top.key(top.next)?, "json key", out)?;
                out.extend_from_slice(b": ");
            }
            let member = top.value(top.next)?;
            top.next = top.next.saturating_add(1);
            break member;
        };
    }
}

impl<'a> Value<'a> {
    pub(super) fn new(ty: u8, data: &'a [u8]) -> Result<Self, ParseError> {
        match ty {
            ty::SMALL_OBJECT => Container::new(data, true, false).map(Value::Container),
            ty::LARGE_OBJECT => Container::new(data, true, true).map(Value::Container),
            ty::SMALL_ARRAY => Container::new(data, false, false).map(Value::Container),
            ty::LARGE_ARRAY => Container::new(data, false, true).map(Value::Container),
            _ => Ok(Value::Scalar(ty, data)),
        }
    }
}

impl<'a> Container<'a> {
    fn new(data: &'a [u8], is_object: bool, large: bool) -> Result<Self, ParseError> {
        let mut r = Reader::new(data);
        let count = number(&mut r, large, "json member count")?;
        let size = number(&mut r, large, "json container size")?;
        let bytes = Reader::new(data).bytes(size, "json container")?;
        let this = Self { bytes, is_object, large, count, next: 0 };
        // Every member has its entries before the data.
        let entries = count.checked_mul(this.key_entry().saturating_add(this.value_entry()));
        if entries.and_then(|n| n.checked_add(this.head())).is_none_or(|n| n > size) {
            return Err(r.error("json member count", ParseErrorKind::BadLength));
        }
        Ok(this)
    }

    const fn number_len(&self) -> usize {
        if self.large { 4 } else { 2 }
    }

    pub(super) const fn head(&self) -> usize {
        if self.large { 8 } else { 4 }
    }

    pub(super) const fn key_entry(&self) -> usize {
        match (self.is_object, self.large) {
            (false, _) => 0,
            (true, false) => 4,
            (true, true) => 6,
        }
    }

    pub(super) const fn value_entry(&self) -> usize {
        if self.large { 5 } else { 3 }
    }

    fn at(&self, offset: usize, field: &'static str) -> Result<Reader<'a>, ParseError> {
        let mut r = Reader::new(self.bytes);
        r.skip(offset, field)?;
        Ok(r)
    }

    pub(super) fn key(&self, i: usize) -> Result<&'a [u8], ParseError> {
        let entry = self.head().saturating_add(i.saturating_mul(self.key_entry()));
        let mut r = self.at(entry, "json key entry")?;
        let offset = number(&mut r, self.large, "json key offset")?;
        let len = r.u16_le("json key length")?;
        self.at(offset, "json key offset")?.bytes(usize::from(len), "json key")
    }

    pub(super) fn value(&self, i: usize) -> Result<Value<'a>, ParseError> {
        let keys = self.count.saturating_mul(self.key_entry());
        let entry = self.head().saturating_add(keys).saturating_add(i.saturating_mul(self.value_entry()));
        let mut r = self.at(entry, "json value entry")?;
        let ty = r.u8("json value type")?;
        let inlined = match ty {
            ty::LITERAL | ty::INT16 | ty::UINT16 => true,
            ty::INT32 | ty::UINT32 => self.large,
            _ => false,
        };
        if inlined {
            return Ok(Value::Scalar(ty, r.bytes(self.number_len(), "json inlined value")?));
        }
        let offset = number(&mut r, self.large, "json value offset")?;
        Value::new(ty, self.at(offset, "json value offset")?.peek())
    }
}

fn number(r: &mut Reader<'_>, large: bool, field: &'static str) -> Result<usize, ParseError> {
    let n = if large { r.u32_le(field)? } else { u32::from(r.u16_le(field)?) };
    usize::try_from(n).map_err(|_| r.error(field, ParseErrorKind::Limit))
}

/// Seven bits a byte, least significant first, at most five bytes.
pub(super) fn varint(r: &mut Reader<'_>, field: &'static str) -> Result<usize, ParseError> {
    let mut value = 0u64;
    for shift in [0, 7, 14, 21, 28] {
        let byte = r.u8(field)?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return usize::try_from(value).map_err(|_| r.error(field, ParseErrorKind::Limit));
        }
    }
    Err(r.error(field, ParseErrorKind::BadLength))
}

fn write_scalar(ty: u8, data: &[u8], out: &mut Vec<u8>) -> Result<(), ParseError> {
    let mut r = Reader::new(data);
    let mut digits = itoa::Buffer::new();
    let text = match ty {
        ty::LITERAL => match r.u8("json literal")? {
            0 => "null",
            1 => "true",
            2 => "false",
            b => return Err(r.error("json literal", ParseErrorKind::BadTag(b))),
        },
        ty::INT16 => digits.format(r.u16_le("json int16")?.cast_signed()),
        ty::UINT16 => digits.format(r.u16_le("json uint16")?),
        ty::INT32 => digits.format(r.u32_le("json int32")?.cast_signed()),
        ty::UINT32 => digits.format(r.u32_le("json uint32")?),
        ty::INT64 => digits.format(r.u64_le("json int64")?.cast_signed()),
        ty::UINT64 => digits.format(r.u64_le("json uint64")?),
        ty::DOUBLE => {
            let start = out.len();
            write_double(f64::from_le_bytes(r.array("json double")?), out);
            // It must not look like an integer.
            if out.iter().skip(start).all(|b| !matches!(b, b'.' | b'e')) {
                out.extend_from_slice(b".0");
            }
            return Ok(());
        }
        ty::STRING => {
            let n = varint(&mut r, "json string length")?;
            return write_string(r.bytes(n, "json string")?, "json string", out);
        }
        ty::OPAQUE => {
            let field_type = r.u8("json opaque type")?;
            let n = varint(&mut r, "json opaque length")?;
            return write_opaque(field_type, r.sub(n, "json opaque value")?, out);
        }
        b => return Err(r.error("json type", ParseErrorKind::BadTag(b))),
    };
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

fn write_opaque(field_type: u8, mut r: Reader<'_>, out: &mut Vec<u8>) -> Result<(), ParseError> {
    match field_type {
        opaque::DECIMAL => {
            let [precision, scale] = r.array("json decimal")?;
            let decimal = Decimal::new(r.peek(), precision, scale);
            decimal.ok_or_else(|| r.error("json decimal", ParseErrorKind::BadLength))?.write_to(out);
            return Ok(());
        }
        opaque::TIMESTAMP | opaque::DATE | opaque::TIME | opaque::DATETIME => {
            // Sign, then (date << 17 | clock) << 24 | microseconds.
            let packed = r.u64_le("json temporal")?.cast_signed();
            let bad = || Reader::new(&[]).error("json temporal", ParseErrorKind::BadLength);
            let size = packed.unsigned_abs();
            let (clock, micros) = (size >> 24, u32::try_from(size & 0xff_ffff).unwrap_or(u32::MAX));
            out.push(b'"');
            if field_type == opaque::TIME {
                Time::from_packed(packed < 0, clock, micros).ok_or_else(bad)?.write_to(6, out);
            } else {
                let value = datetime_from_packed(clock, micros).filter(|_| packed >= 0).ok_or_else(bad)?;
                if field_type == opaque::DATE { value.date.write_to(out) } else { value.write_to(6, out) }
            }
            out.push(b'"');
            return Ok(());
        }
        _ => {}
    }
    out.extend_from_slice(b"\"base64:type");
    out.extend_from_slice(itoa::Buffer::new().format(field_type).as_bytes());
    out.push(b':');
    // The server breaks lines after 76 characters, 57 bytes, and then escapes the breaks.
    for (i, line) in r.rest().chunks(57).enumerate() {
        if i > 0 {
            out.extend_from_slice(b"\\n");
        }
        let mut text = [0; 76];
        if let Ok(n) = base64::engine::general_purpose::STANDARD.encode_slice(line, &mut text) {
            out.extend_from_slice(text.get(..n).unwrap_or_default());
        }
    }
    out.push(b'"');
    Ok(())
}

/// Quotes, backslashes and control characters are escaped; everything else is itself.
pub(super) fn write_string(bytes: &[u8], field: &'static str, out: &mut Vec<u8>) -> Result<(), ParseError> {
    if core::str::from_utf8(bytes).is_err() {
        return Err(Reader::new(bytes).error(field, ParseErrorKind::BadUtf8));
    }
    out.push(b'"');
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|b| matches!(b, 0..0x20 | b'"' | b'\\')) {
        let (plain, special) = rest.split_at_checked(at).unwrap_or_default();
        out.extend_from_slice(plain);
        let Some((&special, after)) = special.split_first() else { break };
        rest = after;
        let short = match special {
            0x08 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            0x0c => b'f',
            b'\r' => b'r',
            b'"' | b'\\' => special,
            control => {
                let hex = |n: u8| if n < 10 { b'0'.wrapping_add(n) } else { b'a'.wrapping_add(n).wrapping_sub(10) };
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', hex(control >> 4), hex(control & 15)]);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', short]);
    }
    out.extend_from_slice(rest);
    out.push(b'"');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> Result<String, ParseErrorKind> {
        let mut out = b"kept".to_vec();
        let done = JsonBinary { bytes }.write_to(&mut out);
        let text = String::from_utf8(out).unwrap();
        done.map(|()| text.strip_prefix("kept").unwrap().to_owned()).map_err(|e| {
            assert_eq!(text, "kept");
            e.kind
        })
    }

    #[test]
    fn documents() {
        for (bytes, expected) in [
            (&[][..], "null"),
            (&[0x04, 0], "null"),
            (&[0x04, 1], "true"),
            (&[0x05, 0xff, 0xff], "-1"),
            (&[0x06, 0xff, 0xff], "65535"),
            (&[0x0b, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f], "1.0"),
            (&[0x0c, 3, b'a', 0, b'"'], r#""a\u0000\"""#),
            (&[0x02, 0, 0, 4, 0], "[]"),
            (&[0x00, 0, 0, 4, 0], "{}"),
            // {"": 1}: the key has length 0.
            (&[0x00, 1, 0, 11, 0, 11, 0, 0, 0, 5, 1, 0], r#"{"": 1}"#),
            // Two values out of order with a hole between them.
            (&[0x02, 2, 0, 17, 0, 0x0c, 15, 0, 0x0c, 10, 0, 1, b'b', 9, 9, 9, 1, b'a'], r#"["a", "b"]"#),
            (&[0x0f, 246, 4, 3, 2, 0x81, 99], "1.99"),
            (&[0x0f, 16, 1, 5], r#""base64:type16:BQ==""#),
        ] {
            assert_eq!(text(bytes).as_deref(), Ok(expected), "{bytes:02x?}");
        }
    }

    #[test]
    fn long_base64_has_escaped_line_breaks() {
        let bytes = [&[0x0f, 15, 60][..], &[0xff; 60]].concat();
        assert_eq!(text(&bytes).unwrap(), format!("\"base64:type15:{}\\n////\"", "/".repeat(76)));
    }

    #[test]
    fn malformed_documents_are_errors_and_leave_no_text() {
        for (bytes, kind) in [
            (&[0x02, 1, 0, 99, 0][..], ParseErrorKind::Short { need: 99 }),
            (&[0x02, 9, 0, 4, 0], ParseErrorKind::BadLength),
            (&[0x04, 3], ParseErrorKind::BadTag(3)),
            (&[0x0d, 0], ParseErrorKind::BadTag(0x0d)),
            (&[0x0c, 1, 0xff], ParseErrorKind::BadUtf8),
            (&[0x0c, 0xff, 0xff, 0xff, 0xff, 0xff, 1], ParseErrorKind::BadLength),
            // An array whose only member is the array itself.
            (&[0x02, 1, 0, 7, 0, 0x02, 0, 0], ParseErrorKind::Limit),
        ] {
            assert_eq!(text(bytes), Err(kind), "{bytes:02x?}");
        }
    }

    #[test]
    fn many_entries_at_one_child_do_not_multiply() {
        // Ten arrays, each pointing fifty times at the next: 50^10 members out of 1.6 kB.
        let mut bytes = vec![0x02];
        let level = 4 + 3 * 50u16;
        for i in 0..10 {
            let size = level * (10 - i);
            bytes.extend_from_slice(&50u16.to_le_bytes());
            bytes.extend_from_slice(&size.to_le_bytes());
            for _ in 0..50 {
                bytes.push(if i == 9 { 4 } else { 2 });
                bytes.extend_from_slice(&if i == 9 { 0 } else { level }.to_le_bytes());
            }
        }
        assert_eq!(text(&bytes), Err(ParseErrorKind::Limit));
    }
}
