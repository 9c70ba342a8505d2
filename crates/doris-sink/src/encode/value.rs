//! One value as JSON. Shared by the Stream Load encoder and the change-event sink.

use millstream_binlog::value::{Decimal, write_inet4, write_inet6, write_uuid};
use millstream_binlog::{Charset, Column, ColumnType, ColumnValue};

use super::error::Fault;
use super::escape::{push_escaped, push_hex, push_json_string};
use super::temporal::{push_valid_date, push_valid_datetime, push_valid_time, push_valid_timestamp};
use super::{Binary, EncodeOptions, InvalidDate};
use crate::types::DorisType;

/// Which integers are written as JSON strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quoting {
    /// Those that do not fit 64 signed bits: Doris reads numbers from their text, other readers of JSON may round.
    Wide,
    /// All 64-bit types.
    SixtyFour,
}

/// Greatest size of a value that was compressed in the log.
const MAX_INFLATED: usize = 1 << 30;

/// What a column's values are, resolved once per table.
#[derive(Clone, Debug)]
enum Kind {
    Int {
        quoted: bool,
    },
    Float,
    Double,
    Decimal,
    Bit {
        quoted: bool,
    },
    Year,
    Date,
    Time {
        fsp: u8,
    },
    DateTime {
        fsp: u8,
    },
    Timestamp {
        fsp: u8,
    },
    Text,
    /// Hex, padded with zeros to so many bytes.
    Binary {
        pad: usize,
    },
    /// Labels, escaped for a JSON string, and their lengths before that.
    Enum {
        labels: Box<[Box<[u8]>]>,
    },
    Set {
        labels: Box<[Box<[u8]>]>,
    },
    Json,
    Geometry,
    Vector,
    /// UUID, INET4, INET6.
    Address,
}

/// How one column is written.
#[derive(Clone, Debug)]
pub(crate) struct ValuePlan {
    kind: Kind,
    nullable: bool,
    /// Longest text, in bytes of UTF-8.
    limit: u32,
    invalid_date: InvalidDate,
    /// Bytes as base64.
    base64: bool,
}

fn escaped_labels(labels: &[String]) -> Box<[Box<[u8]>]> {
    let escape = |label: &String| {
        let mut out = Vec::new();
        push_escaped(&mut out, label);
        out.into_boxed_slice()
    };
    labels.iter().map(escape).collect()
}

impl ValuePlan {
    /// The plan for `column`, which goes to a target column of `target` type that may be NULL if `nullable`.
    pub(crate) fn new(
        column: &Column,
        target: Option<DorisType>,
        nullable: bool,
        quoting: Quoting,
        options: &EncodeOptions,
    ) -> Self {
        let sixty_four = quoting == Quoting::SixtyFour;
        let kind = match &column.ty {
            ColumnType::TinyInt { .. }
            | ColumnType::SmallInt { .. }
            | ColumnType::MediumInt { .. }
            | ColumnType::Int { .. } => Kind::Int { quoted: false },
            ColumnType::BigInt { unsigned } => Kind::Int { quoted: *unsigned || sixty_four },
            ColumnType::Float => Kind::Float,
            ColumnType::Double => Kind::Double,
            ColumnType::Decimal { .. } => Kind::Decimal,
            ColumnType::Bit { bits } => Kind::Bit { quoted: *bits > 63 || (sixty_four && *bits > 1) },
            ColumnType::Year => Kind::Year,
            ColumnType::Date => Kind::Date,
            ColumnType::Time { fsp } | ColumnType::OldTime { fsp } => Kind::Time { fsp: *fsp },
            ColumnType::DateTime { fsp } | ColumnType::OldDateTime { fsp } => Kind::DateTime { fsp: *fsp },
            ColumnType::Timestamp { fsp } | ColumnType::OldTimestamp { fsp } => Kind::Timestamp { fsp: *fsp },
            ColumnType::Char { .. } | ColumnType::VarChar { .. } | ColumnType::Text { .. } => Kind::Text,
            ColumnType::Binary { bytes } => Kind::Binary { pad: usize::try_from(*bytes).unwrap_or(usize::MAX) },
            ColumnType::VarBinary { .. } | ColumnType::Blob { .. } => Kind::Binary { pad: 0 },
            ColumnType::Enum { labels, .. } => Kind::Enum { labels: escaped_labels(labels) },
            ColumnType::Set { labels, .. } => Kind::Set { labels: escaped_labels(labels) },
            ColumnType::Json => Kind::Json,
            ColumnType::Geometry => Kind::Geometry,
            ColumnType::Vector | ColumnType::VarVector { .. } => Kind::Vector,
            ColumnType::Compressed { .. } if column.charset == Charset::Binary => Kind::Binary { pad: 0 },
            ColumnType::Compressed { .. } => Kind::Text,
            ColumnType::Uuid | ColumnType::Inet4 | ColumnType::Inet6 => Kind::Address,
        };
        let limit = match target {
            Some(DorisType::VarChar(n) | DorisType::Char(n)) => n,
            Some(_) => options.string_limit,
            None => u32::MAX,
        };
        let base64 = options.binary == Binary::Base64 && !matches!(target, Some(DorisType::VarChar(_)));
        Self { kind, nullable, limit, invalid_date: options.invalid_date, base64 }
    }

    /// Appends `value` as a JSON value, with `scratch` for texts that must be converted first. After an error, what was
    /// appended is to be thrown away.
    pub(crate) fn write(&self, out: &mut Vec<u8>, scratch: &mut Vec<u8>, value: ColumnValue<'_>) -> Result<(), Fault> {
        match (&self.kind, value) {
            (_, ColumnValue::Null) => self.write_null(out),
            (Kind::Int { quoted }, ColumnValue::Int(n)) => {
                push_number(out, itoa::Buffer::new().format(n), *quoted);
                Ok(())
            }
            (Kind::Int { quoted }, ColumnValue::UInt(n)) => {
                push_number(out, itoa::Buffer::new().format(n), *quoted);
                Ok(())
            }
            (Kind::Text, ColumnValue::Text { bytes, charset }) => self.write_text(out, scratch, bytes, charset),
            (Kind::Decimal, ColumnValue::DecimalText(text)) => {
                if text.is_empty() || !text.iter().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'.')) {
                    return Err(Fault::Malformed);
                }
                out.push(b'"');
                out.extend_from_slice(text);
                out.push(b'"');
                Ok(())
            }
            (Kind::Decimal, ColumnValue::Decimal { bytes, precision, scale }) => {
                let decimal = Decimal::new(bytes, precision, scale).ok_or(Fault::Malformed)?;
                out.push(b'"');
                decimal.write_to(out);
                out.push(b'"');
                Ok(())
            }
            (Kind::DateTime { fsp }, ColumnValue::DateTime(at)) => {
                self.write_dated(out, *fsp, |out| push_valid_datetime(out, &at, *fsp))
            }
            (Kind::Timestamp { fsp }, ColumnValue::Timestamp(at)) => {
                self.write_dated(out, *fsp, |out| push_valid_timestamp(out, at, *fsp))
            }
            (Kind::Date, ColumnValue::Date(date)) => {
                out.push(b'"');
                if push_valid_date(out, date) {
                    out.push(b'"');
                    return Ok(());
                }
                out.pop();
                self.write_invalid_date(out, "1970-01-01", 0)
            }
            (Kind::Time { fsp }, ColumnValue::Time(at)) => {
                out.push(b'"');
                if !push_valid_time(out, at, *fsp) {
                    return Err(Fault::Malformed);
                }
                out.push(b'"');
                Ok(())
            }
            (Kind::Double, ColumnValue::Double(n)) if n.is_finite() => {
                out.extend_from_slice(ryu::Buffer::new().format_finite(n).as_bytes());
                Ok(())
            }
            (Kind::Float, ColumnValue::Float(n)) if n.is_finite() => {
                out.extend_from_slice(ryu::Buffer::new().format_finite(n).as_bytes());
                Ok(())
            }
            (Kind::Double, ColumnValue::Double(_)) | (Kind::Float, ColumnValue::Float(_)) => Err(Fault::NotANumber),
            (Kind::Bit { quoted }, ColumnValue::Bit(n)) => {
                push_number(out, itoa::Buffer::new().format(n), *quoted);
                Ok(())
            }
            (Kind::Year, ColumnValue::Year(n)) => {
                push_number(out, itoa::Buffer::new().format(n), false);
                Ok(())
            }
            (Kind::Binary { pad }, ColumnValue::Bytes(bytes)) => self.write_hex(out, bytes, *pad),
            (Kind::Geometry, ColumnValue::Geometry(bytes)) => self.write_hex(out, bytes, 0),
            (Kind::Enum { labels }, ColumnValue::Enum(n)) => write_enum(out, labels, n),
            (Kind::Set { labels }, ColumnValue::Set(bits)) => write_set(out, labels, bits),
            (Kind::Json, ColumnValue::JsonText(text)) => {
                let text = str::from_utf8(text).map_err(|_| Fault::BadText)?;
                self.fits(text.len())?;
                push_json_string(out, text);
                Ok(())
            }
            (Kind::Json, ColumnValue::Json(document)) => {
                scratch.clear();
                document.write_to(scratch).map_err(|_| Fault::Malformed)?;
                let text = str::from_utf8(scratch).map_err(|_| Fault::BadText)?;
                self.fits(text.len())?;
                push_json_string(out, text);
                Ok(())
            }
            (Kind::Vector, ColumnValue::Vector(bytes)) => self.write_vector(out, bytes),
            (_, ColumnValue::Compressed { value, charset }) => {
                // It has a buffer of its own: `scratch` is for the conversion of what comes out.
                let mut opened = Vec::new();
                // Other character sets take at most four bytes for one of UTF-8.
                let limit = usize::try_from(self.limit).unwrap_or(usize::MAX).saturating_mul(4).min(MAX_INFLATED);
                value.inflate(limit, &mut opened).map_err(|_| Fault::Malformed)?;
                let plain = match charset {
                    Charset::Binary => ColumnValue::Bytes(&opened),
                    charset => ColumnValue::Text { bytes: &opened, charset },
                };
                self.write(out, scratch, plain)
            }
            (Kind::Address, ColumnValue::Uuid(uuid)) => {
                quoted(out, |out| write_uuid(uuid, out));
                Ok(())
            }
            (Kind::Address, ColumnValue::Inet4(address)) => {
                quoted(out, |out| write_inet4(address, out));
                Ok(())
            }
            (Kind::Address, ColumnValue::Inet6(address)) => {
                quoted(out, |out| write_inet6(address, out));
                Ok(())
            }
            _ => Err(Fault::Mismatch),
        }
    }

    /// A value that the column takes, whatever it is: of a row that is deleted.
    pub(crate) fn write_anything(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(match &self.kind {
            _ if self.nullable => b"null".as_slice(),
            Kind::Int { quoted: false } | Kind::Bit { quoted: false } | Kind::Year | Kind::Float | Kind::Double => b"0",
            Kind::Int { .. } | Kind::Bit { .. } | Kind::Decimal => b"\"0\"",
            Kind::Date => b"\"1970-01-01\"",
            Kind::DateTime { .. } | Kind::Timestamp { .. } => b"\"1970-01-01 00:00:00\"",
            Kind::Time { .. } => b"\"00:00:00\"",
            _ => b"\"\"",
        });
    }

    fn write_null(&self, out: &mut Vec<u8>) -> Result<(), Fault> {
        if !self.nullable {
            return Err(Fault::Null);
        }
        out.extend_from_slice(b"null");
        Ok(())
    }

    fn fits(&self, len: usize) -> Result<(), Fault> {
        match u32::try_from(len) {
            Ok(n) if n <= self.limit => Ok(()),
            _ => Err(Fault::TooLong { len, limit: self.limit }),
        }
    }

    fn write_text(
        &self,
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
        bytes: &[u8],
        charset: Charset,
    ) -> Result<(), Fault> {
        if charset == Charset::Ascii && !bytes.is_ascii() {
            return Err(Fault::BadText);
        }
        let utf8 = if charset.is_utf8() {
            bytes
        } else {
            scratch.clear();
            charset
                .decode(bytes, scratch)
                .map_err(|error| if error.at.is_some() { Fault::BadText } else { Fault::UnknownCharset })?;
            scratch
        };
        let text = str::from_utf8(utf8).map_err(|_| Fault::BadText)?;
        self.fits(text.len())?;
        push_json_string(out, text);
        Ok(())
    }

    fn write_dated(&self, out: &mut Vec<u8>, fsp: u8, push: impl FnOnce(&mut Vec<u8>) -> bool) -> Result<(), Fault> {
        out.push(b'"');
        if push(out) {
            out.push(b'"');
            return Ok(());
        }
        out.pop();
        self.write_invalid_date(out, "1970-01-01 00:00:00", fsp)
    }

    #[cold]
    fn write_invalid_date(&self, out: &mut Vec<u8>, epoch: &str, fsp: u8) -> Result<(), Fault> {
        match self.invalid_date {
            InvalidDate::Fail => Err(Fault::InvalidDate),
            InvalidDate::Null if self.nullable => self.write_null(out),
            InvalidDate::Null => Err(Fault::InvalidDate),
            InvalidDate::Epoch => {
                out.push(b'"');
                out.extend_from_slice(epoch.as_bytes());
                if fsp > 0 {
                    out.push(b'.');
                    out.extend(core::iter::repeat_n(b'0', usize::from(fsp.min(6))));
                }
                out.push(b'"');
                Ok(())
            }
        }
    }

    fn write_hex(&self, out: &mut Vec<u8>, bytes: &[u8], pad: usize) -> Result<(), Fault> {
        let padding = pad.saturating_sub(bytes.len());
        if pad > 0 && bytes.len() > pad {
            return Err(Fault::Malformed);
        }
        if self.base64 {
            return self.write_base64(out, bytes, padding);
        }
        self.fits(bytes.len().saturating_add(padding).saturating_mul(2))?;
        out.push(b'"');
        push_hex(out, bytes);
        out.extend(core::iter::repeat_n(b'0', padding.saturating_mul(2)));
        out.push(b'"');
        Ok(())
    }

    fn write_base64(&self, out: &mut Vec<u8>, bytes: &[u8], padding: usize) -> Result<(), Fault> {
        use base64::Engine as _;
        let mut padded;
        let bytes = if padding == 0 {
            bytes
        } else {
            padded = bytes.to_vec();
            padded.resize(bytes.len().saturating_add(padding), 0);
            &padded
        };
        let text = base64::engine::general_purpose::STANDARD.encode(bytes);
        self.fits(text.len())?;
        push_json_string(out, &text);
        Ok(())
    }

    fn write_vector(&self, out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Fault> {
        let (floats, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(Fault::Malformed);
        }
        let start = out.len();
        out.extend_from_slice(b"\"[");
        for (i, float) in floats.iter().enumerate() {
            let n = f32::from_le_bytes(*float);
            if !n.is_finite() {
                return Err(Fault::NotANumber);
            }
            if i > 0 {
                out.push(b',');
            }
            out.extend_from_slice(ryu::Buffer::new().format_finite(n).as_bytes());
        }
        out.extend_from_slice(b"]\"");
        self.fits(out.len().saturating_sub(start).saturating_sub(2))
    }
}

fn quoted(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    write(out);
    out.push(b'"');
}

fn push_number(out: &mut Vec<u8>, digits: &str, quoted: bool) {
    if quoted {
        out.push(b'"');
        out.extend_from_slice(digits.as_bytes());
        out.push(b'"');
    } else {
        out.extend_from_slice(digits.as_bytes());
    }
}

fn write_enum(out: &mut Vec<u8>, labels: &[Box<[u8]>], n: u16) -> Result<(), Fault> {
    let label = match n.checked_sub(1) {
        // MySQL: number 0 is the empty string an invalid value was replaced with.
        None => &[][..],
        Some(i) => labels.get(usize::from(i)).ok_or_else(|| Fault::UnknownLabel(u64::from(n)))?,
    };
    out.push(b'"');
    out.extend_from_slice(label);
    out.push(b'"');
    Ok(())
}

fn write_set(out: &mut Vec<u8>, labels: &[Box<[u8]>], bits: u64) -> Result<(), Fault> {
    out.push(b'"');
    let mut rest = bits;
    let mut first = true;
    while rest != 0 {
        let bit = rest.trailing_zeros();
        let label = usize::try_from(bit).ok().and_then(|i| labels.get(i)).ok_or(Fault::UnknownLabel(bits))?;
        if !first {
            out.push(b',');
        }
        first = false;
        out.extend_from_slice(label);
        rest &= rest.wrapping_sub(1);
    }
    out.push(b'"');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::doris_type;
    use millstream_binlog::{Date, DateTime, Time, Timestamp};
    use proptest::prelude::*;

    fn written(column: &Column, value: ColumnValue<'_>, quoting: Quoting) -> Result<String, Fault> {
        let target = doris_type(column, false).unwrap();
        let plan = ValuePlan::new(column, Some(target), true, quoting, &EncodeOptions::default());
        let mut out = Vec::new();
        plan.write(&mut out, &mut Vec::new(), value)?;
        Ok(String::from_utf8(out).unwrap())
    }

    fn column(ty: ColumnType, charset: Charset) -> Column {
        Column { name: "c".into(), ty, nullable: true, charset, collation: 0 }
    }

    fn text(bytes: &[u8], charset: Charset) -> ColumnValue<'_> {
        ColumnValue::Text { bytes, charset }
    }

    /// The conformance check T21 of a Stream Load encoder: what often gets lost on the way.
    #[test]
    fn every_type_is_written_as_documented() {
        use ColumnType as M;
        use ColumnValue as V;
        let labels = || -> std::sync::Arc<[String]> { ["a", "b\"", "c"].map(str::to_owned).into() };
        let date = Date { year: 2026, month: 1, day: 2 };
        let at = DateTime { date, hour: 3, minute: 4, second: 5, micros: 678_900 };
        let varchar = || M::VarChar { max_bytes: 400 };
        let b = Charset::Binary;
        let u = Charset::Utf8mb4;
        #[rustfmt::skip]
        let table: Vec<(M, Charset, V<'_>, &str)> = vec![
            (M::TinyInt { unsigned: false }, b, V::Int(-128), "-128"),
            (M::SmallInt { unsigned: true }, b, V::UInt(65535), "65535"),
            (M::Int { unsigned: true }, b, V::UInt(4_294_967_295), "4294967295"),
            (M::BigInt { unsigned: false }, b, V::Int(i64::MIN), "-9223372036854775808"),
            (M::BigInt { unsigned: true }, b, V::UInt(u64::MAX), "\"18446744073709551615\""),
            (M::Float, b, V::Float(16_107_050.0), "16107050.0"),
            (M::Float, b, V::Float(f32::MIN_POSITIVE), "1.1754944e-38"),
            (M::Double, b, V::Double(0.1), "0.1"),
            (M::Double, b, V::Double(f64::MAX), "1.7976931348623157e308"),
            (M::Double, b, V::Double(-0.0), "-0.0"),
            (M::Decimal { precision: 38, scale: 30 }, b, V::DecimalText(b"-12345678.000000000000000000000000000001"),
                "\"-12345678.000000000000000000000000000001\""),
            (M::Decimal { precision: 4, scale: 2 }, b, V::Decimal { bytes: &[0x7e, 0xfd], precision: 4, scale: 2 }, "\"-1.02\""),
            (M::Bit { bits: 1 }, b, V::Bit(1), "1"),
            (M::Bit { bits: 63 }, b, V::Bit(5), "5"),
            (M::Bit { bits: 64 }, b, V::Bit(u64::MAX), "\"18446744073709551615\""),
            (M::Year, b, V::Year(0), "0"),
            (M::Year, b, V::Year(2155), "2155"),
            (M::Date, b, V::Date(date), "\"2026-01-02\""),
            (M::Time { fsp: 0 }, b, V::Time(Time { negative: false, hours: 0, minutes: 0, seconds: 0, micros: 0 }), "\"00:00:00\""),
            (M::Time { fsp: 6 }, b, V::Time(Time { negative: true, hours: 838, minutes: 59, seconds: 58, micros: 1 }), "\"-838:59:58.000001\""),
            (M::DateTime { fsp: 0 }, b, V::DateTime(at), "\"2026-01-02 03:04:05\""),
            (M::DateTime { fsp: 4 }, b, V::DateTime(at), "\"2026-01-02 03:04:05.6789\""),
            (M::Timestamp { fsp: 2 }, b, V::Timestamp(Timestamp { seconds: 86_399, micros: 120_000 }), "\"1970-01-01 23:59:59.12\""),
            (varchar(), u, V::Null, "null"),
            (varchar(), u, text(b"", u), "\"\""),
            (varchar(), u, text(b"\\N", u), "\"\\\\N\""),
            (varchar(), u, text(b"null", u), "\"null\""),
            (varchar(), u, text(b"ends in \r", u), "\"ends in \\r\""),
            (varchar(), u, text("\u{feff}bom".as_bytes(), u), "\"\u{feff}bom\""),
            (varchar(), u, text("🎈 é \u{2028}".as_bytes(), u), "\"🎈 é \u{2028}\""),
            (varchar(), u, text(b"\0\x01\x1f\x7f\"\\\t\n/", u), "\"\\u0000\\u0001\\u001f\x7f\\\"\\\\\\t\\n/\""),
            (varchar(), Charset::Ascii, text(b"abc", Charset::Ascii), "\"abc\""),
            (varchar(), Charset::Utf8mb3, text("é".as_bytes(), Charset::Utf8mb3), "\"é\""),
            (varchar(), Charset::Latin1, text(b"caf\xe9 \x80 \"\x81", Charset::Latin1), "\"café € \\\"\u{81}\""),
            (varchar(), Charset::Utf16, text(b"\0a\xd8\x3c\xdf\x88", Charset::Utf16), "\"a🎈\""),
            (M::Binary { bytes: 4 }, b, V::Bytes(b"\xab"), "\"ab000000\""),
            (M::Binary { bytes: 4 }, b, V::Bytes(b"\xab\0\0\0"), "\"ab000000\""),
            (M::VarBinary { max_bytes: 4 }, b, V::Bytes(b"\xab\0"), "\"ab00\""),
            (M::Blob { length_bytes: 2 }, b, V::Bytes(b""), "\"\""),
            (M::Enum { labels: labels(), bytes: 1 }, u, V::Enum(2), "\"b\\\"\""),
            (M::Enum { labels: labels(), bytes: 1 }, u, V::Enum(0), "\"\""),
            (M::Set { labels: labels(), bytes: 1 }, u, V::Set(0), "\"\""),
            (M::Set { labels: labels(), bytes: 1 }, u, V::Set(0b111), "\"a,b\\\",c\""),
            (M::Set { labels: labels(), bytes: 1 }, u, V::Set(0b101), "\"a,c\""),
            (M::Json, b, V::JsonText(br#"{"a": [1, "x\n"]}"#), "\"{\\\"a\\\": [1, \\\"x\\\\n\\\"]}\""),
            (M::Json, b, V::JsonText(b"null"), "\"null\""),
            (M::Geometry, b, V::Geometry(&[0, 0, 0, 0, 1, 1]), "\"000000000101\""),
            (M::Vector, b, V::Vector(&[0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0]), "\"[1.0,-2.5]\""),
            (M::Vector, b, V::Vector(&[]), "\"[]\""),
        ];
        for (ty, charset, value, expected) in table {
            let column = column(ty, charset);
            let found = written(&column, value, Quoting::Wide).unwrap();
            assert_eq!(found, expected, "{column:?}");
            // And it is JSON that an independent reader takes.
            serde_json::from_str::<serde_json::Value>(&found).unwrap();
        }
    }

    #[test]
    fn sixty_four_bits_can_be_quoted() {
        use ColumnType as M;
        let q = |ty, value| written(&column(ty, Charset::Binary), value, Quoting::SixtyFour).unwrap();
        assert_eq!(q(M::BigInt { unsigned: false }, ColumnValue::Int(-1)), "\"-1\"");
        assert_eq!(q(M::Bit { bits: 2 }, ColumnValue::Bit(3)), "\"3\"");
        assert_eq!(q(M::Bit { bits: 1 }, ColumnValue::Bit(1)), "1");
        assert_eq!(q(M::Int { unsigned: true }, ColumnValue::UInt(1)), "1");
    }

    #[test]
    fn what_has_no_faithful_form_is_an_error() {
        use ColumnType as M;
        use ColumnValue as V;
        let labels = || -> std::sync::Arc<[String]> { ["a"].map(str::to_owned).into() };
        let b = Charset::Binary;
        let u = Charset::Utf8mb4;
        let long = "é".repeat(20_000);
        let megabyte = "x".repeat(1024 * 1024 + 1);
        let bad_time = V::Time(Time { negative: false, hours: 1, minutes: 60, seconds: 0, micros: 0 });
        #[rustfmt::skip]
        let table: Vec<(M, Charset, V<'_>, Fault)> = vec![
            (M::VarChar { max_bytes: 40 }, u, text(b"\xf0\x9f\x8e", u), Fault::BadText),
            (M::VarChar { max_bytes: 40 }, u, text(b"\xed\xa0\x80", u), Fault::BadText),
            (M::VarChar { max_bytes: 40 }, Charset::Ascii, text(b"\x80", Charset::Ascii), Fault::BadText),
            (M::VarChar { max_bytes: 40 }, u, text(long.as_bytes(), u), Fault::TooLong { len: 40_000, limit: 40 }),
            (M::Text { length_bytes: 4 }, u, text(megabyte.as_bytes(), u), Fault::TooLong { len: 1_048_577, limit: 1_048_576 }),
            (M::Json, b, V::JsonText(megabyte.as_bytes()), Fault::TooLong { len: 1_048_577, limit: 1_048_576 }),
            (M::Blob { length_bytes: 4 }, b, V::Bytes(megabyte.as_bytes()), Fault::TooLong { len: 2_097_154, limit: 1_048_576 }),
            (M::Decimal { precision: 4, scale: 2 }, b, V::Decimal { bytes: &[0x7e], precision: 4, scale: 2 }, Fault::Malformed),
            (M::Json, b, V::JsonText(b"\"\xff\""), Fault::BadText),
            (M::Double, b, V::Double(f64::NAN), Fault::NotANumber),
            (M::Float, b, V::Float(f32::INFINITY), Fault::NotANumber),
            (M::Vector, b, V::Vector(&[1, 2, 3]), Fault::Malformed),
            (M::Vector, b, V::Vector(&[0, 0, 0xc0, 0x7f]), Fault::NotANumber),
            (M::Decimal { precision: 5, scale: 0 }, b, V::DecimalText(b"1e5"), Fault::Malformed),
            (M::Decimal { precision: 5, scale: 0 }, b, V::DecimalText(b""), Fault::Malformed),
            (M::Binary { bytes: 2 }, b, V::Bytes(b"abc"), Fault::Malformed),
            (M::Time { fsp: 0 }, b, bad_time, Fault::Malformed),
            (M::Enum { labels: labels(), bytes: 1 }, u, V::Enum(2), Fault::UnknownLabel(2)),
            (M::Set { labels: labels(), bytes: 8 }, u, V::Set(1 << 63), Fault::UnknownLabel(1 << 63)),
            (M::Int { unsigned: false }, b, V::Double(1.0), Fault::Mismatch),
            (M::Date, b, V::Year(2000), Fault::Mismatch),
        ];
        for (ty, charset, value, fault) in table {
            let column = column(ty, charset);
            assert_eq!(written(&column, value, Quoting::Wide), Err(fault), "{column:?}");
        }
    }

    proptest! {
        #[test]
        fn texts_and_floats_come_back(text_in in any::<String>(), double in any::<f64>(), float in any::<f32>()) {
            let varchar = column(ColumnType::Text { length_bytes: 4 }, Charset::Utf8mb4);
            let json = written(&varchar, text(text_in.as_bytes(), Charset::Utf8mb4), Quoting::Wide).unwrap();
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text_in);
            if double.is_finite() {
                let json = written(&column(ColumnType::Double, Charset::Binary), ColumnValue::Double(double), Quoting::Wide);
                prop_assert_eq!(json.unwrap().parse::<f64>().unwrap().to_bits(), double.to_bits());
            }
            if float.is_finite() {
                let json = written(&column(ColumnType::Float, Charset::Binary), ColumnValue::Float(float), Quoting::Wide);
                prop_assert_eq!(json.unwrap().parse::<f32>().unwrap().to_bits(), float.to_bits());
            }
        }
    }
}
