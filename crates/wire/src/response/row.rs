use std::sync::Arc;

use bytes::Bytes;

use super::{ColumnDefinition, Value, binary_row, text_row};
use crate::codec::{Bitmap, ParseError, ParseErrorKind, Reader};

/// How the values of a row are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowFormat {
    /// COM_QUERY: every value is written as text.
    Text,
    /// COM_STMT_EXECUTE: values by type.
    Binary,
}

/// A row: its packet (shared with the read buffer, not copied) and its columns. Cloning is two reference counts.
///
/// A kept row keeps alive the piece of the read buffer it came in (up to 256 KiB): copy the values out to keep few rows
/// of many.
#[derive(Clone, Debug)]
pub struct Row {
    packet: Bytes,
    columns: Arc<[ColumnDefinition]>,
    format: RowFormat,
}

impl Row {
    /// A row over a packet's payload.
    #[must_use]
    pub const fn new(packet: Bytes, columns: Arc<[ColumnDefinition]>, format: RowFormat) -> Self {
        Self { packet, columns, format }
    }

    /// The columns, in the order of the values.
    #[must_use]
    pub fn columns(&self) -> &[ColumnDefinition] {
        &self.columns
    }

    /// How the values are written.
    #[must_use]
    pub const fn format(&self) -> RowFormat {
        self.format
    }

    /// The packet's bytes.
    #[must_use]
    pub const fn packet(&self) -> &Bytes {
        &self.packet
    }

    /// The values, decoded one by one as they are asked for. After the last, bytes left over are an error.
    #[must_use]
    pub fn values(&self) -> Values<'_> {
        Values::new(&self.packet, &self.columns, self.format)
    }

    /// The server's text of each value of a text row, `None` for NULL. The first error ends it; a binary row is one.
    pub fn texts(&self) -> impl Iterator<Item = Result<Option<&[u8]>, ParseError>> + '_ {
        let mut rest = Reader::new(&self.packet);
        let mut left = self.columns.len();
        let mut refused = self.format != RowFormat::Text;
        core::iter::from_fn(move || {
            if refused {
                refused = false;
                left = 0;
                rest.rest();
                return Some(Err(rest.error("text row", ParseErrorKind::Unsupported)));
            }
            let text = match left.checked_sub(1) {
                Some(fewer) => {
                    left = fewer;
                    text_row::next_text(&mut rest)
                }
                // Bytes left over are told once.
                None => Err(Reader::new(rest.rest()).finish("row").err()?),
            };
            if text.is_err() {
                left = 0;
                rest.rest();
            }
            Some(text)
        })
    }
}

/// The values of a row. The first error ends it.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    rest: Reader<'a>,
    columns: core::slice::Iter<'a, ColumnDefinition>,
    format: RowFormat,
    nulls: Bitmap<'a>,
    next_bit: usize,
    /// The header of a binary row did not parse: told instead of the first value.
    failed: Option<ParseError>,
    done: bool,
}

impl<'a> Values<'a> {
    /// The values in a packet's payload.
    #[must_use]
    pub fn new(packet: &'a [u8], columns: &'a [ColumnDefinition], format: RowFormat) -> Self {
        let mut rest = Reader::new(packet);
        let (mut nulls, mut failed) = (Bitmap::new(&[]), None);
        if format == RowFormat::Binary {
            let bits = columns.len().saturating_add(2);
            match rest.skip(1, "header").and_then(|()| rest.bytes(Bitmap::byte_len(bits), "null bitmap")) {
                Ok(bytes) => nulls = Bitmap::new(bytes),
                Err(e) => failed = Some(e),
            }
        }
        // The first two bits of a binary row's bitmap are not used.
        Self { rest, columns: columns.iter(), format, nulls, next_bit: 2, failed, done: false }
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Result<Value<'a>, ParseError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let value = match (self.failed.take(), self.columns.next()) {
            (Some(e), _) => Err(e),
            (None, Some(column)) => match self.format {
                RowFormat::Text => text_row::next_value(&mut self.rest, column),
                RowFormat::Binary => {
                    let null = self.nulls.is_set(self.next_bit);
                    self.next_bit = self.next_bit.saturating_add(1);
                    if null { Ok(Value::Null) } else { binary_row::next_value(&mut self.rest, column) }
                }
            },
            (None, None) => {
                self.done = true;
                return self.rest.finish("row").err().map(Err);
            }
        };
        self.done = value.is_err();
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ColumnType, encode_text_row};
    use super::*;
    use crate::flags::ColumnFlags;

    fn column(column_type: ColumnType, flags: ColumnFlags) -> ColumnDefinition {
        ColumnDefinition { column_type, flags, ..ColumnDefinition::text("c") }
    }

    fn column_named(name: &str, column_type: ColumnType) -> ColumnDefinition {
        ColumnDefinition { column_type, ..ColumnDefinition::text(name) }
    }

    #[test]
    fn text_rows_end_where_their_packet_ends() {
        let columns = [ColumnDefinition::text("a"), ColumnDefinition::text("b"), ColumnDefinition::text("c")];
        let packet = encode_text_row([Some(&b"1"[..]), None, Some(b"")]);
        let values: Vec<_> = Values::new(&packet, &columns, RowFormat::Text).map(Result::unwrap).collect();
        assert_eq!(values, [Value::Bytes(b"1"), Value::Null, Value::Bytes(b"")]);
        for cut in 0..packet.len() {
            assert!(Values::new(&packet[..cut], &columns, RowFormat::Text).any(|v| v.is_err()), "{cut}");
        }
        // A byte too many is noticed after the last value.
        let long = [&packet[..], &[0]].concat();
        let mut values = Values::new(&long, &columns, RowFormat::Text).skip(3);
        assert_eq!(values.next().unwrap().unwrap_err().to_string(), "row: 1 bytes after its end");
        assert!(values.next().is_none());
    }

    #[test]
    fn the_texts_of_a_row() {
        let columns: Arc<[_]> = ["a", "b", "c"].map(|name| column_named(name, ColumnType::LONGLONG)).into();
        let packet = Bytes::from(encode_text_row([Some(&b"007"[..]), None, Some(b"no number")]));
        let row = |packet| Row::new(packet, Arc::clone(&columns), RowFormat::Text);
        let whole = row(packet.clone());
        let texts: Vec<_> = whole.texts().map(Result::unwrap).collect();
        assert_eq!(texts, [Some(&b"007"[..]), None, Some(b"no number")]);
        for cut in 0..packet.len() {
            let cut_row = row(packet.slice(..cut));
            assert_eq!(cut_row.texts().filter(Result::is_err).count(), 1, "{cut}");
        }
        let long = row(Bytes::from([&packet[..], &[0]].concat()));
        assert_eq!(long.texts().filter(Result::is_err).count(), 1);
        let binary = Row::new(packet, columns, RowFormat::Binary);
        assert!(binary.texts().eq([Err(ParseError::new("text row", ParseErrorKind::Unsupported, 0))]));
    }

    /// Conformance: W12
    /// Bug: 16, 108
    #[test]
    fn binary_values_by_type() {
        let (signed, unsigned) = (ColumnFlags::empty(), ColumnFlags::UNSIGNED);
        let dt = |year, month, day, hour, minute, second, micros| Value::DateTime {
            year,
            month,
            day,
            hour,
            minute,
            second,
            micros,
        };
        let cases: Vec<(ColumnType, ColumnFlags, &[u8], Value<'_>)> = vec![
            (ColumnType::TINY, signed, &[0xff], Value::Int(-1)),
            (ColumnType::TINY, unsigned, &[0xff], Value::UInt(255)),
            (ColumnType::SHORT, signed, &[0, 0x80], Value::Int(-32768)),
            (ColumnType::SHORT, unsigned, &[0, 0x80], Value::UInt(32768)),
            (ColumnType::INT24, signed, &[0xff, 0xff, 0xff, 0xff], Value::Int(-1)),
            (ColumnType::INT24, unsigned, &[0xff, 0xff, 0xff, 0], Value::UInt(0xff_ffff)),
            (ColumnType::LONG, signed, &[0, 0, 0, 0x80], Value::Int(i32::MIN.into())),
            (ColumnType::LONGLONG, signed, &[0, 0, 0, 0, 0, 0, 0, 0x80], Value::Int(i64::MIN)),
            (ColumnType::LONGLONG, unsigned, &[0xff; 8], Value::UInt(u64::MAX)),
            (ColumnType::YEAR, unsigned, &[0xe9, 7], Value::UInt(2025)),
            (ColumnType::FLOAT, signed, &[0, 0, 0x80, 0x3f], Value::Float(1.0)),
            (ColumnType::DOUBLE, signed, &[0, 0, 0, 0, 0, 0, 0xf0, 0xbf], Value::Double(-1.0)),
            (ColumnType::DATE, signed, &[0], Value::Date { year: 0, month: 0, day: 0 }),
            (ColumnType::DATE, signed, &[4, 0xe9, 7, 12, 31], Value::Date { year: 2025, month: 12, day: 31 }),
            (ColumnType::DATETIME, signed, &[0], dt(0, 0, 0, 0, 0, 0, 0)),
            (ColumnType::DATETIME, signed, &[4, 0xe9, 7, 1, 2], dt(2025, 1, 2, 0, 0, 0, 0)),
            (ColumnType::TIMESTAMP, signed, &[7, 0xe9, 7, 1, 2, 3, 4, 5], dt(2025, 1, 2, 3, 4, 5, 0)),
            (ColumnType::DATETIME, signed, &[11, 0xe9, 7, 1, 2, 3, 4, 5, 6, 0, 0, 0], dt(2025, 1, 2, 3, 4, 5, 6)),
            (
                ColumnType::TIME,
                signed,
                &[0],
                Value::Time { negative: false, days: 0, hours: 0, minutes: 0, seconds: 0, micros: 0 },
            ),
            (
                ColumnType::TIME,
                signed,
                &[12, 1, 34, 0, 0, 0, 22, 59, 58, 9, 0, 0, 0],
                Value::Time { negative: true, days: 34, hours: 22, minutes: 59, seconds: 58, micros: 9 },
            ),
            (ColumnType::NEWDECIMAL, signed, b"\x041.50", Value::Bytes(b"1.50")),
            (ColumnType::JSON, signed, b"\x02{}", Value::Bytes(b"{}")),
            (ColumnType::BIT, unsigned, b"\x01\x05", Value::Bytes(&[5])),
        ];
        let columns: Vec<_> = cases.iter().map(|(t, f, ..)| column(*t, *f)).collect();
        let mut packet = vec![0; 1 + Bitmap::byte_len(columns.len() + 2)];
        for (_, _, bytes, _) in &cases {
            packet.extend_from_slice(bytes);
        }
        let got: Vec<_> = Values::new(&packet, &columns, RowFormat::Binary).map(Result::unwrap).collect();
        assert_eq!(got, cases.iter().map(|c| c.3).collect::<Vec<_>>());
        for cut in 0..packet.len() {
            assert!(Values::new(&packet[..cut], &columns, RowFormat::Binary).any(|v| v.is_err()), "{cut}");
        }
    }

    #[test]
    fn the_null_bitmap_starts_at_its_third_bit() {
        let columns: Vec<_> = (0..8).map(|_| column(ColumnType::TINY, ColumnFlags::UNSIGNED)).collect();
        let packet = [0, 0b1000_0100, 0b0000_0010, 1, 2, 3, 4, 5];
        let got: Vec<_> = Values::new(&packet, &columns, RowFormat::Binary).map(Result::unwrap).collect();
        use Value::{Null, UInt};
        assert_eq!(got, [Null, UInt(1), UInt(2), UInt(3), UInt(4), Null, UInt(5), Null]);
    }

    #[test]
    fn odd_lengths_of_times_are_refused() {
        for (t, bytes) in [(ColumnType::DATE, [0, 0, 3, 1, 1]), (ColumnType::TIME, [0, 0, 9, 0, 0])] {
            assert!(Values::new(&bytes, &[column(t, ColumnFlags::empty())], RowFormat::Binary).any(|v| v.is_err()));
        }
    }
}
