//! Reading every value of a row.

use std::net::{Ipv4Addr, Ipv6Addr};

use millstream_binlog::value::{write_inet4, write_inet6, write_uuid};
use millstream_binlog::{ColumnValue, Decimal, Row};

use super::json_text::is_json;

/// Every value of a validated row can be read and written.
pub(crate) fn touch(row: Row<'_, '_>) {
    let mut out = Vec::new();
    for (_, value) in row.values() {
        out.clear();
        match value {
            ColumnValue::Json(json) => {
                let done = json.write_to(&mut out);
                assert!(done.is_err() || is_json(std::str::from_utf8(&out).unwrap(), 101));
            }
            ColumnValue::JsonDiffs(diffs) => {
                let done = diffs.write_to(&mut out);
                assert!(done.is_err() || std::str::from_utf8(&out).is_ok());
                assert_eq!(diffs.iter().any(|d| d.is_err()), diffs.iter().last().is_some_and(|d| d.is_err()));
            }
            ColumnValue::Text { bytes, charset } => {
                let done = charset.decode(bytes, &mut out);
                assert!(done.is_err() || std::str::from_utf8(&out).is_ok());
            }
            ColumnValue::Decimal { bytes, precision, scale } => {
                let decimal = Decimal { bytes, precision, scale };
                decimal.write_to(&mut out);
                if Decimal::new(bytes, precision, scale).is_some() {
                    let mut again = Vec::new();
                    Decimal::pack(&out, precision, scale, &mut again).expect("own text");
                    let mut text = Vec::new();
                    Decimal::new(&again, precision, scale).expect("own packing").write_to(&mut text);
                    assert_eq!(text, out);
                }
            }
            ColumnValue::DateTime(t) => t.write_to(6, &mut out),
            ColumnValue::Timestamp(t) => t.write_to(6, &mut out),
            ColumnValue::Time(t) => t.write_to(6, &mut out),
            ColumnValue::Date(t) => t.write_to(&mut out),
            ColumnValue::Compressed { value, .. } => {
                const LIMIT: usize = 1 << 16;
                let done = value.inflate(LIMIT, &mut out);
                match done {
                    Ok(()) => assert!(out.len() <= LIMIT && out.len() as u64 == value.stated_len()),
                    Err(_) => assert!(out.is_empty(), "part of a value"),
                }
            }
            ColumnValue::Uuid(bytes) => {
                write_uuid(bytes, &mut out);
                let hex: String = std::str::from_utf8(&out).unwrap().split('-').collect();
                assert_eq!(u128::from_str_radix(&hex, 16), Ok(u128::from_be_bytes(bytes)));
            }
            ColumnValue::Inet4(bytes) => {
                write_inet4(bytes, &mut out);
                assert_eq!(std::str::from_utf8(&out).unwrap().parse(), Ok(Ipv4Addr::from(bytes)));
            }
            ColumnValue::Inet6(bytes) => {
                write_inet6(bytes, &mut out);
                assert_eq!(std::str::from_utf8(&out).unwrap().parse(), Ok(Ipv6Addr::from(bytes)));
            }
            _ => {}
        }
    }
}

/// An after image with differences becomes one without, or an error.
pub(crate) fn complete(before: Row<'_, '_>, after: Row<'_, '_>) {
    let mut buffer = Vec::new();
    if let Ok(row) = after.complete(&before, &mut buffer) {
        assert!(!row.is_partial());
        assert_eq!(row.values().count(), after.values().count());
        touch(row);
    }
}
