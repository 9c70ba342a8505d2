//! Key values as SQL text that needs no escaping: digits, or hexadecimal.

use millstream_binlog::value::{write_inet4, write_inet6, write_uuid};

use super::KeyValue;

pub(crate) fn literal(value: &KeyValue) -> String {
    match value {
        KeyValue::Int(v) => v.to_string(),
        KeyValue::UInt(v) => v.to_string(),
        KeyValue::Decimal(digits) => digits.clone(),
        KeyValue::Date(v) => quoted(|out| v.write_to(out)),
        KeyValue::DateTime(v) => quoted(|out| v.write_to(6, out)),
        // The session runs at +00:00.
        KeyValue::Timestamp(v) => quoted(|out| v.write_to(6, out)),
        KeyValue::Time(v) => quoted(|out| v.write_to(6, out)),
        KeyValue::Year(v) | KeyValue::Enum(v) => v.to_string(),
        KeyValue::Bit(v) | KeyValue::Set(v) => v.to_string(),
        KeyValue::Uuid(v) => quoted(|out| write_uuid(*v, out)),
        KeyValue::Inet4(v) => quoted(|out| write_inet4(*v, out)),
        KeyValue::Inet6(v) => quoted(|out| write_inet6(*v, out)),
        KeyValue::Bytes(bytes) => hex(String::new(), bytes),
        // With an introducer a literal takes the column's collation in a comparison instead of the session's.
        KeyValue::Text { bytes, charset } => hex(format!("_{charset} "), bytes),
    }
}

fn quoted(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut text = vec![b'\''];
    write(&mut text);
    text.push(b'\'');
    String::from_utf8(text).unwrap_or_default()
}

fn hex(mut text: String, bytes: &[u8]) -> String {
    text.reserve(bytes.len().saturating_mul(2).saturating_add(3));
    text.push_str("X'");
    for b in bytes {
        text.extend(char::from_digit(u32::from(b >> 4), 16));
        text.extend(char::from_digit(u32::from(b & 15), 16));
    }
    text.push('\'');
    text
}

#[cfg(test)]
mod tests {
    use millstream_binlog::{Charset, Date, Timestamp};

    use super::*;

    #[test]
    fn literals_need_no_escaping() {
        for (value, want) in [
            (KeyValue::Int(-5), "-5"),
            (KeyValue::UInt(u64::MAX), "18446744073709551615"),
            (KeyValue::Decimal("-1.50".into()), "-1.50"),
            (KeyValue::Date(Date { year: 2010, month: 0, day: 0 }), "'2010-00-00'"),
            (KeyValue::Timestamp(Timestamp { seconds: 0, micros: 0 }), "'0000-00-00 00:00:00.000000'"),
            (KeyValue::Timestamp(Timestamp { seconds: 951_782_399, micros: 7 }), "'2000-02-28 23:59:59.000007'"),
            (KeyValue::Timestamp(Timestamp { seconds: 951_868_800, micros: 0 }), "'2000-03-01 00:00:00.000000'"),
            (KeyValue::Timestamp(Timestamp { seconds: 4_102_444_799, micros: 0 }), "'2099-12-31 23:59:59.000000'"),
            (KeyValue::Bytes(vec![0, 0xab]), "X'00ab'"),
            (KeyValue::Bytes(vec![]), "X''"),
            (KeyValue::Text { bytes: b"a'\\".to_vec(), charset: Charset::Latin1 }, "_latin1 X'61275c'"),
            (KeyValue::Text { bytes: "é".into(), charset: Charset::Utf8mb4 }, "_utf8mb4 X'c3a9'"),
        ] {
            assert_eq!(literal(&value), want);
        }
    }
}
