//! A row of the binary protocol under any columns.

use millstream_wire::codec::Writer;
use millstream_wire::flags::ColumnFlags;
use millstream_wire::response::Values;
use millstream_wire::{ColumnDefinition, ColumnType, RowFormat, Value};

/// `u8 columns, (u8 type, u8 unsigned)…, packet`.
pub(crate) fn run(data: &[u8]) {
    let Some((&count, mut rest)) = data.split_first() else { return };
    let mut columns = Vec::new();
    for _ in 0..count % 64 {
        let Some(([ty, unsigned], tail)) = rest.split_first_chunk::<2>() else { return };
        rest = tail;
        let flags = if unsigned & 1 == 0 { ColumnFlags::empty() } else { ColumnFlags::UNSIGNED };
        columns.push(ColumnDefinition { column_type: ColumnType(*ty), flags, ..ColumnDefinition::text("c") });
    }
    let packet = rest;
    let mut values = Vec::new();
    for value in Values::new(packet, &columns, RowFormat::Binary) {
        match value {
            Ok(value) => {
                if let Value::Bytes(bytes) = value {
                    super::assert_inside(bytes, packet);
                }
                values.push(value);
            }
            Err(_) => break,
        }
    }
    let all = Values::new(packet, &columns, RowFormat::Binary);
    let errors = all.clone().filter(Result::is_err).count();
    assert!(errors <= 1 && all.count() <= columns.len() + 1);
    if errors == 0 {
        assert_eq!(values.len(), columns.len());
        let again = encode(&columns, &values);
        let mut read_again = 0;
        for (value, first) in Values::new(&again, &columns, RowFormat::Binary).zip(&values) {
            assert!(is_same(value.unwrap(), *first), "{first:?}");
            read_again += 1;
        }
        assert_eq!(read_again, values.len());
        assert!(again.len() <= packet.len() + 12 * columns.len());
    }
}

/// Numbers that are none are equal when their bits are.
fn is_same(a: Value<'_>, b: Value<'_>) -> bool {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        (Value::Double(a), Value::Double(b)) => a.to_bits() == b.to_bits(),
        _ => a == b,
    }
}

/// A server's side of it.
fn encode(columns: &[ColumnDefinition], values: &[Value<'_>]) -> Vec<u8> {
    let mut nulls = vec![0u8; (columns.len() + 2).div_ceil(8)];
    let mut w = Writer::new();
    for (i, (column, value)) in columns.iter().zip(values).enumerate() {
        match *value {
            Value::Null => nulls[(i + 2) / 8] |= 1 << ((i + 2) % 8),
            Value::Int(v) => integer(column.column_type, v.to_le_bytes(), &mut w),
            Value::UInt(v) => integer(column.column_type, v.to_le_bytes(), &mut w),
            Value::Float(v) => drop(w.bytes(&v.to_le_bytes())),
            Value::Double(v) => drop(w.bytes(&v.to_le_bytes())),
            Value::Date { year, month, day } => drop(w.u8(4).u16_le(year).u8(month).u8(day)),
            Value::DateTime { year, month, day, hour, minute, second, micros } => {
                w.u8(11).u16_le(year).u8(month).u8(day).u8(hour).u8(minute).u8(second).u32_le(micros);
            }
            Value::Time { negative, days, hours, minutes, seconds, micros } => {
                w.u8(12).u8(negative.into()).u32_le(days).u8(hours).u8(minutes).u8(seconds).u32_le(micros);
            }
            Value::Bytes(bytes) => drop(w.lenenc_bytes(bytes)),
            _ => panic!("a kind of value that this test does not know: {value:?}"),
        }
    }
    [&[0][..], &nulls, &w.into_bytes()].concat()
}

fn integer(ty: ColumnType, bytes: [u8; 8], w: &mut Writer) {
    let width = match ty {
        ColumnType::TINY => 1,
        ColumnType::SHORT | ColumnType::YEAR => 2,
        ColumnType::LONG | ColumnType::INT24 => 4,
        _ => 8,
    };
    w.bytes(&bytes[..width]);
}
