//! One part of a key to bytes and back.

use millstream_binlog::{Charset, ColumnValue, Date, DateTime, Decimal, Time, Timestamp};

use super::collation::SpaceWeight;
use super::kind::Kind;
use super::{KeyValue, text, uuid};

/// The weight of a text, written as its part of the key.
pub(super) fn encode_weight(weight: &[u8], space: Option<SpaceWeight>, out: &mut Vec<u8>) -> Result<(), &'static str> {
    match space {
        None => text::encode_raw(weight, out),
        Some(space) => {
            let space = space.bytes();
            if space.len() > 1 && weight.len().checked_rem(space.len()) != Some(0) {
                return Err("has a weight of another width than its collation's");
            }
            text::encode_padded(weight, space, out);
        }
    }
    Ok(())
}

/// What follows a weight that [`encode_weight`] wrote.
pub(super) fn skip_weight(bytes: &[u8], space: Option<SpaceWeight>) -> Option<&[u8]> {
    match space {
        None => text::decode_raw(bytes).map(|(_, rest)| rest),
        Some(space) => text::decode_padded(bytes, space.bytes()).map(|(_, rest)| rest),
    }
}

const WRONG_TYPE: &str = "does not have the column's type";
const OUT_OF_RANGE: &str = "is outside the column's range";

pub(super) fn encode_part(kind: Kind, value: ColumnValue<'_>, out: &mut Vec<u8>) -> Result<(), &'static str> {
    match (kind, value) {
        (_, ColumnValue::Null) => return Err("is NULL"),
        (Kind::Int { bytes, unsigned: false }, ColumnValue::Int(v)) => {
            let shifted = shift_signed(v, bytes).ok_or(OUT_OF_RANGE)?;
            push_be(shifted, bytes, out);
        }
        (Kind::Int { bytes, unsigned: true }, ColumnValue::UInt(v)) => {
            push_within(v, bytes, out)?;
        }
        (Kind::Decimal { precision, scale, .. }, ColumnValue::DecimalText(text)) => {
            Decimal::pack(text, precision, scale, out).map_err(|_| OUT_OF_RANGE)?;
        }
        (Kind::Decimal { precision, scale, .. }, ColumnValue::Decimal { bytes, precision: p, scale: s }) => {
            if (p, s) != (precision, scale) {
                return Err(WRONG_TYPE);
            }
            copy_decimal(bytes, precision, scale, out).ok_or(OUT_OF_RANGE)?;
        }
        (Kind::Date, ColumnValue::Date(date)) => {
            out.extend_from_slice(&pack_date(date).ok_or(OUT_OF_RANGE)?.to_be_bytes());
        }
        (Kind::DateTime, ColumnValue::DateTime(v)) => {
            out.extend_from_slice(&pack_datetime(v).ok_or(OUT_OF_RANGE)?.to_be_bytes());
        }
        (Kind::Timestamp, ColumnValue::Timestamp(v)) => {
            if v.seconds >= 1 << 40 || v.micros > 999_999 {
                return Err(OUT_OF_RANGE);
            }
            out.extend_from_slice(&((v.seconds << 24) | u64::from(v.micros)).to_be_bytes());
        }
        (Kind::Binary { bytes }, ColumnValue::Bytes(v)) => {
            let missing = bytes.checked_sub(v.len()).ok_or(OUT_OF_RANGE)?;
            out.extend_from_slice(v);
            out.extend(core::iter::repeat_n(0, missing));
        }
        (Kind::VarBinary, ColumnValue::Bytes(v)) => text::encode_raw(v, out),
        (Kind::VarBinary, ColumnValue::Text { bytes, charset: Charset::Binary }) => text::encode_raw(bytes, out),
        (Kind::NoPad(want), ColumnValue::Text { bytes, charset }) if charset == want => text::encode_raw(bytes, out),
        (Kind::Padded(want), ColumnValue::Text { bytes, charset }) if charset == want => {
            text::encode_padded(bytes, b" ", out);
        }
        (Kind::Bit { bytes }, ColumnValue::Bit(v)) => push_within(v, bytes, out)?,
        (Kind::Year, ColumnValue::Year(v)) => out.extend_from_slice(&v.to_be_bytes()),
        (Kind::Time, ColumnValue::Time(v)) => {
            let micros = time_micros(v).ok_or(OUT_OF_RANGE)?;
            push_be(shift_signed(micros, 8).ok_or(OUT_OF_RANGE)?, 8, out);
        }
        (Kind::Uuid, ColumnValue::Uuid(v)) => out.extend_from_slice(&uuid::order(v)),
        (Kind::Inet { bytes: 4 }, ColumnValue::Inet4(v)) => out.extend_from_slice(&v),
        (Kind::Inet { .. }, ColumnValue::Inet6(v)) => out.extend_from_slice(&v),
        (Kind::Enum { labels }, ColumnValue::Enum(v)) => {
            if v > labels {
                return Err(OUT_OF_RANGE);
            }
            out.extend_from_slice(&v.to_be_bytes());
        }
        (Kind::Set { labels }, ColumnValue::Set(v)) => {
            if v >> labels != 0 {
                return Err(OUT_OF_RANGE);
            }
            push_be(v, 2, out);
        }
        _ => return Err(WRONG_TYPE),
    }
    Ok(())
}

pub(super) fn decode_part(kind: Kind, bytes: &[u8]) -> Option<(KeyValue, &[u8])> {
    Some(match kind {
        Kind::Int { bytes: width, unsigned: positive } => {
            let (raw, rest) = unsigned(bytes, width)?;
            let value = if positive { KeyValue::UInt(raw) } else { KeyValue::Int(unshift_signed(raw, width)) };
            (value, rest)
        }
        Kind::Decimal { precision, scale, bytes: n } => {
            let (head, rest) = bytes.split_at_checked(n)?;
            (KeyValue::Decimal(Decimal::new(head, precision, scale)?.to_string()), rest)
        }
        Kind::Date => {
            let (head, rest) = bytes.split_first_chunk()?;
            (KeyValue::Date(unpack_date(u64::from(u32::from_be_bytes(*head)))?), rest)
        }
        Kind::DateTime => {
            let (head, rest) = bytes.split_first_chunk()?;
            (KeyValue::DateTime(unpack_datetime(u64::from_be_bytes(*head))?), rest)
        }
        Kind::Timestamp => {
            let (head, rest) = bytes.split_first_chunk()?;
            let raw = u64::from_be_bytes(*head);
            let micros = u32::try_from(raw & 0xff_ffff).ok().filter(|m| *m <= 999_999)?;
            (KeyValue::Timestamp(Timestamp { seconds: raw >> 24, micros }), rest)
        }
        Kind::Binary { bytes: n } => {
            let (head, rest) = bytes.split_at_checked(n)?;
            (KeyValue::Bytes(head.to_vec()), rest)
        }
        Kind::VarBinary => {
            let (value, rest) = text::decode_raw(bytes)?;
            (KeyValue::Bytes(value), rest)
        }
        Kind::Bit { bytes: width } => {
            let (v, rest) = unsigned(bytes, width)?;
            (KeyValue::Bit(v), rest)
        }
        Kind::Year => {
            let (head, rest) = bytes.split_first_chunk()?;
            (KeyValue::Year(u16::from_be_bytes(*head)), rest)
        }
        Kind::Time => {
            let (v, rest) = unsigned(bytes, 8)?;
            (KeyValue::Time(time_of(unshift_signed(v, 8))?), rest)
        }
        Kind::Uuid => {
            let (head, rest) = bytes.split_first_chunk()?;
            (KeyValue::Uuid(uuid::value(*head)?), rest)
        }
        Kind::Inet { bytes: 4 } => {
            let (head, rest) = bytes.split_first_chunk()?;
            (KeyValue::Inet4(*head), rest)
        }
        Kind::Inet { .. } => {
            let (head, rest) = bytes.split_first_chunk()?;
            (KeyValue::Inet6(*head), rest)
        }
        Kind::Enum { labels } => {
            let (head, rest) = bytes.split_first_chunk()?;
            (KeyValue::Enum(Some(u16::from_be_bytes(*head)).filter(|v| *v <= labels)?), rest)
        }
        Kind::Set { labels } => {
            let (v, rest) = unsigned(bytes, 2)?;
            (KeyValue::Set(Some(v).filter(|v| v >> labels == 0)?), rest)
        }
        Kind::NoPad(charset) => {
            let (bytes, rest) = text::decode_raw(bytes)?;
            (KeyValue::Text { bytes, charset }, rest)
        }
        // Decoded with the text beside the key.
        Kind::Weighed { .. } => return None,
        Kind::Padded(charset) => {
            let (bytes, rest) = text::decode_padded(bytes, b" ")?;
            (KeyValue::Text { bytes, charset }, rest)
        }
    })
}

/// A packed DECIMAL as it is, but for a negative zero, which becomes the zero that it equals.
fn copy_decimal(packed: &[u8], precision: u8, scale: u8, out: &mut Vec<u8>) -> Option<()> {
    Decimal::new(packed, precision, scale)?;
    match packed.split_first() {
        Some((0x7f, rest)) if rest.iter().all(|b| *b == 0xff) => {
            out.push(0x80);
            out.extend(rest.iter().map(|_| 0));
        }
        _ => out.extend_from_slice(packed),
    }
    Some(())
}

/// The number in the first `width` bytes, and what follows it.
fn unsigned(bytes: &[u8], width: u8) -> Option<(u64, &[u8])> {
    let (head, rest) = bytes.split_at_checked(usize::from(width))?;
    Some((head.iter().fold(0_u64, |acc, b| (acc << 8) | u64::from(*b)), rest))
}

/// As [`push_be`], for a number that may be too large.
fn push_within(v: u64, bytes: u8, out: &mut Vec<u8>) -> Result<(), &'static str> {
    if bytes < 8 && v >> (u32::from(bytes).saturating_mul(8)) != 0 {
        return Err(OUT_OF_RANGE);
    }
    push_be(v, bytes, out);
    Ok(())
}

/// A TIME in microseconds; a negative zero is zero.
fn time_micros(v: Time) -> Option<i64> {
    if v.hours > 838 || v.minutes > 59 || v.seconds > 59 || v.micros > 999_999 {
        return None;
    }
    let minutes = i64::from(v.hours).checked_mul(60)?.checked_add(i64::from(v.minutes))?;
    let seconds = minutes.checked_mul(60)?.checked_add(i64::from(v.seconds))?;
    let micros = seconds.checked_mul(1_000_000)?.checked_add(i64::from(v.micros))?;
    if v.negative { micros.checked_neg() } else { Some(micros) }
}

fn time_of(micros: i64) -> Option<Time> {
    let rest = micros.unsigned_abs();
    let (seconds, micros_left) = (rest / 1_000_000, rest % 1_000_000);
    let hours = u16::try_from(seconds / 3600).ok().filter(|h| *h <= 838)?;
    Some(Time {
        negative: micros < 0,
        hours,
        minutes: u8::try_from(seconds / 60 % 60).ok()?,
        seconds: u8::try_from(seconds % 60).ok()?,
        micros: u32::try_from(micros_left).ok()?,
    })
}

/// The lowest `bytes` bytes of `v`, big endian.
fn push_be(v: u64, bytes: u8, out: &mut Vec<u8>) {
    let all = v.to_be_bytes();
    out.extend(all.iter().skip(all.len().saturating_sub(usize::from(bytes))));
}

/// A signed integer of `bytes` bytes moved up by half its range; None if it does not fit.
fn shift_signed(v: i64, bytes: u8) -> Option<u64> {
    let half = 1_i128 << u32::from(bytes).saturating_mul(8).saturating_sub(1);
    let shifted = i128::from(v).checked_add(half)?;
    (shifted < half.checked_mul(2)?).then(|| u64::try_from(shifted).ok()).flatten()
}

fn unshift_signed(raw: u64, bytes: u8) -> i64 {
    let half = 1_i128 << u32::from(bytes).saturating_mul(8).saturating_sub(1);
    i64::try_from(i128::from(raw).saturating_sub(half)).unwrap_or(i64::MAX)
}

/// year, month and day in 23 bits, each part in its own field so that zero parts sort where the server sorts them.
fn pack_date(Date { year, month, day }: Date) -> Option<u32> {
    if year > 9999 || month > 12 || day > 31 {
        return None;
    }
    Some((u32::from(year) << 9) | (u32::from(month) << 5) | u32::from(day))
}

fn unpack_date(raw: u64) -> Option<Date> {
    let year = u16::try_from(raw >> 9).ok().filter(|y| *y <= 9999)?;
    let month = u8::try_from((raw >> 5) & 15).ok().filter(|m| *m <= 12)?;
    let day = u8::try_from(raw & 31).ok()?;
    Some(Date { year, month, day })
}

fn pack_datetime(v: DateTime) -> Option<u64> {
    let date = u64::from(pack_date(v.date)?);
    if v.hour > 23 || v.minute > 59 || v.second > 59 || v.micros > 999_999 {
        return None;
    }
    let time = (u64::from(v.hour) << 12) | (u64::from(v.minute) << 6) | u64::from(v.second);
    Some((date << 41) | (time << 24) | u64::from(v.micros))
}

fn unpack_datetime(raw: u64) -> Option<DateTime> {
    let small = |shift: u32, mask: u64, max: u8| u8::try_from((raw >> shift) & mask).ok().filter(|v| *v <= max);
    Some(DateTime {
        date: unpack_date(raw >> 41)?,
        hour: small(36, 31, 23)?,
        minute: small(30, 63, 59)?,
        second: small(24, 63, 59)?,
        micros: u32::try_from(raw & 0xff_ffff).ok().filter(|m| *m <= 999_999)?,
    })
}
