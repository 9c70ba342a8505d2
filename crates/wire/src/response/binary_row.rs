use super::{ColumnDefinition, ColumnType, Value};
use crate::codec::{ParseError, ParseErrorKind, Reader};
use crate::flags::ColumnFlags;

/// One value that is not NULL of a binary row (`page_protocol_binary_resultset_row_value`).
#[inline]
#[allow(clippy::cast_possible_wrap, reason = "the bytes of a signed column are its two's complement")]
pub(super) fn next_value<'a>(r: &mut Reader<'a>, column: &ColumnDefinition) -> Result<Value<'a>, ParseError> {
    let unsigned = column.flags.contains(ColumnFlags::UNSIGNED);
    Ok(match column.column_type {
        ColumnType::TINY if unsigned => Value::UInt(r.u8("TINY")?.into()),
        ColumnType::TINY => Value::Int((r.u8("TINY")? as i8).into()),
        ColumnType::SHORT if unsigned => Value::UInt(r.u16_le("SHORT")?.into()),
        ColumnType::SHORT => Value::Int((r.u16_le("SHORT")? as i16).into()),
        ColumnType::YEAR => Value::UInt(r.u16_le("YEAR")?.into()),
        // INT24 takes four bytes here, three in the binlog.
        ColumnType::LONG | ColumnType::INT24 if unsigned => Value::UInt(r.u32_le("LONG")?.into()),
        ColumnType::LONG | ColumnType::INT24 => Value::Int((r.u32_le("LONG")? as i32).into()),
        ColumnType::LONGLONG if unsigned => Value::UInt(r.u64_le("LONGLONG")?),
        ColumnType::LONGLONG => Value::Int(r.u64_le("LONGLONG")? as i64),
        ColumnType::FLOAT => Value::Float(f32::from_bits(r.u32_le("FLOAT")?)),
        ColumnType::DOUBLE => Value::Double(f64::from_bits(r.u64_le("DOUBLE")?)),
        ColumnType::NULL => Value::Null,
        ColumnType::DATE | ColumnType::NEWDATE => date(r)?,
        ColumnType::DATETIME | ColumnType::TIMESTAMP => date_time(r)?,
        ColumnType::TIME => time(r)?,
        _ => Value::Bytes(r.lenenc_bytes("binary value")?),
    })
}

/// Length 0 is the zero value, not NULL. A DATE may come with a time of day that is then zero.
fn date<'a>(r: &mut Reader<'_>) -> Result<Value<'a>, ParseError> {
    match date_time(r)? {
        Value::DateTime { year, month, day, .. } => Ok(Value::Date { year, month, day }),
        other => Ok(other),
    }
}

fn date_time<'a>(r: &mut Reader<'_>) -> Result<Value<'a>, ParseError> {
    let left = r.left();
    let len = r.u8("DATETIME length")?;
    if !matches!(len, 0 | 4 | 7 | 11) {
        return Err(ParseError::new("DATETIME length", ParseErrorKind::BadTag(len), left));
    }
    let [y0, y1, month, day] = if len >= 4 { r.array("DATETIME date")? } else { [0; 4] };
    let [hour, minute, second] = if len >= 7 { r.array("DATETIME time")? } else { [0; 3] };
    let micros = if len >= 11 { r.u32_le("DATETIME micros")? } else { 0 };
    Ok(Value::DateTime { year: u16::from_le_bytes([y0, y1]), month, day, hour, minute, second, micros })
}

fn time<'a>(r: &mut Reader<'_>) -> Result<Value<'a>, ParseError> {
    let left = r.left();
    let len = r.u8("TIME length")?;
    if !matches!(len, 0 | 8 | 12) {
        return Err(ParseError::new("TIME length", ParseErrorKind::BadTag(len), left));
    }
    let [sign, d0, d1, d2, d3, hours, minutes, seconds] = if len >= 8 { r.array("TIME")? } else { [0; 8] };
    let micros = if len >= 12 { r.u32_le("TIME micros")? } else { 0 };
    let days = u32::from_le_bytes([d0, d1, d2, d3]);
    Ok(Value::Time { negative: sign != 0, days, hours, minutes, seconds, micros })
}
