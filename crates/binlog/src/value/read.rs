use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

use super::old_temporal::{read_old_datetime, read_old_time, read_old_timestamp};
use super::temporal::{read_date, read_datetime, read_time, read_timestamp};
use super::{ColumnValue, JsonBinary, compressed, decimal};
use crate::table::{Column, ColumnType};

/// One value as a row image holds it (`Field::pack` of the server). Checks all that can be wrong with it but the inside
/// of JSON; when the caller drops the value, only the checks remain.
#[inline(always)]
pub(crate) fn read_value<'a>(column: &Column, r: &mut Reader<'a>) -> Result<ColumnValue<'a>, ParseError> {
    Ok(match &column.ty {
        ColumnType::TinyInt { unsigned } => {
            let b = r.u8("TINYINT")?;
            if *unsigned { ColumnValue::UInt(u64::from(b)) } else { ColumnValue::Int(i64::from(b.cast_signed())) }
        }
        ColumnType::SmallInt { unsigned } => {
            let v = r.u16_le("SMALLINT")?;
            if *unsigned { ColumnValue::UInt(u64::from(v)) } else { ColumnValue::Int(i64::from(v.cast_signed())) }
        }
        ColumnType::MediumInt { unsigned } => {
            let v = r.u24_le("MEDIUMINT")?;
            if *unsigned {
                ColumnValue::UInt(u64::from(v))
            } else {
                ColumnValue::Int(i64::from((v << 8).cast_signed() >> 8))
            }
        }
        ColumnType::Int { unsigned } => {
            let v = r.u32_le("INT")?;
            if *unsigned { ColumnValue::UInt(u64::from(v)) } else { ColumnValue::Int(i64::from(v.cast_signed())) }
        }
        ColumnType::BigInt { unsigned } => {
            let v = r.u64_le("BIGINT")?;
            if *unsigned { ColumnValue::UInt(v) } else { ColumnValue::Int(v.cast_signed()) }
        }
        ColumnType::Float => ColumnValue::Float(f32::from_le_bytes(r.array("FLOAT")?)),
        ColumnType::Double => ColumnValue::Double(f64::from_le_bytes(r.array("DOUBLE")?)),
        ColumnType::Decimal { precision, scale } => {
            let bytes = r.bytes(decimal::packed_len(*precision, *scale), "DECIMAL")?;
            if !decimal::is_valid(bytes, *precision, *scale) {
                return Err(r.error("DECIMAL", ParseErrorKind::BadLength));
            }
            ColumnValue::Decimal { bytes, precision: *precision, scale: *scale }
        }
        ColumnType::Bit { bits } => ColumnValue::Bit(r.uint_be(usize::from(bits.div_ceil(8)), "BIT")?),
        ColumnType::Year => match r.u8("YEAR")? {
            0 => ColumnValue::Year(0),
            n => ColumnValue::Year(u16::from(n).wrapping_add(1900)),
        },
        ColumnType::Date => ColumnValue::Date(read_date(r)?),
        ColumnType::Time { fsp } => ColumnValue::Time(read_time(*fsp, r)?),
        ColumnType::DateTime { fsp } => ColumnValue::DateTime(read_datetime(*fsp, r)?),
        ColumnType::Timestamp { fsp } => ColumnValue::Timestamp(read_timestamp(*fsp, r)?),
        ColumnType::Char { max_bytes } | ColumnType::VarChar { max_bytes } => {
            ColumnValue::Text { bytes: short_string(*max_bytes, r)?, charset: column.charset }
        }
        ColumnType::Binary { bytes: max } | ColumnType::VarBinary { max_bytes: max } => {
            ColumnValue::Bytes(short_string(*max, r)?)
        }
        ColumnType::Text { length_bytes } => {
            ColumnValue::Text { bytes: long_string(*length_bytes, r)?, charset: column.charset }
        }
        ColumnType::Blob { length_bytes } => ColumnValue::Bytes(long_string(*length_bytes, r)?),
        ColumnType::Enum { bytes, .. } => match bytes {
            1 => ColumnValue::Enum(u16::from(r.u8("ENUM")?)),
            _ => ColumnValue::Enum(r.u16_le("ENUM")?),
        },
        ColumnType::Set { bytes, .. } => ColumnValue::Set(r.uint_le(usize::from(*bytes), "SET")?),
        ColumnType::Json => ColumnValue::Json(JsonBinary { bytes: long_string(4, r)? }),
        ColumnType::Geometry => ColumnValue::Geometry(long_string(4, r)?),
        ColumnType::Vector => ColumnValue::Vector(long_string(4, r)?),
        _ => return read_rare(column, r),
    })
}

/// The types that MySQL 5.6 and later do not have, out of the common ones' way.
fn read_rare<'a>(column: &Column, r: &mut Reader<'a>) -> Result<ColumnValue<'a>, ParseError> {
    Ok(match &column.ty {
        ColumnType::OldTime { fsp } => ColumnValue::Time(read_old_time(*fsp, r)?),
        ColumnType::OldDateTime { fsp } => ColumnValue::DateTime(read_old_datetime(*fsp, r)?),
        ColumnType::OldTimestamp { fsp } => ColumnValue::Timestamp(read_old_timestamp(*fsp, r)?),
        ColumnType::Compressed { length_bytes } => {
            compressed::read_value(long_string(*length_bytes, r)?, column.charset)?
        }
        ColumnType::VarVector { max_bytes } => ColumnValue::Vector(short_string(*max_bytes, r)?),
        ColumnType::Uuid => ColumnValue::Uuid(padded(r)?),
        ColumnType::Inet4 => ColumnValue::Inet4(padded(r)?),
        ColumnType::Inet6 => ColumnValue::Inet6(padded(r)?),
        _ => return Err(r.error("column type", ParseErrorKind::Unsupported)),
    })
}

/// A BINARY(N) with the zero bytes that the log leaves out at its end.
fn padded<const N: usize>(r: &mut Reader<'_>) -> Result<[u8; N], ParseError> {
    let bytes = short_string(u32::try_from(N).unwrap_or(0), r)?;
    let mut out = [0; N];
    out.iter_mut().zip(bytes).for_each(|(slot, b)| *slot = *b);
    Ok(out)
}

/// The length has two bytes when the greatest length does not fit one.
#[inline(always)]
fn short_string<'a>(max: u32, r: &mut Reader<'a>) -> Result<&'a [u8], ParseError> {
    let n = if max < 256 { u16::from(r.u8("string length")?) } else { r.u16_le("string length")? };
    if u32::from(n) > max {
        return Err(r.error("string length", ParseErrorKind::BadLength));
    }
    r.bytes(usize::from(n), "string")
}

#[inline(always)]
fn long_string<'a>(length_bytes: u8, r: &mut Reader<'a>) -> Result<&'a [u8], ParseError> {
    let n = match length_bytes {
        1 => u32::from(r.u8("length")?),
        2 => u32::from(r.u16_le("length")?),
        3 => r.u24_le("length")?,
        _ => r.u32_le("length")?,
    };
    r.bytes(usize::try_from(n).unwrap_or(usize::MAX), "value")
}
