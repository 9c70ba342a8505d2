//! Reading every value of a row.

use millstream_binlog::{ColumnValue, Decimal, Row};

/// Every value of a validated row can be read and written.
pub(crate) fn touch(row: Row<'_, '_>) {
    let mut out = Vec::new();
    for (_, value) in row.values() {
        out.clear();
        match value {
            ColumnValue::Json(json) => {
                let done = json.write_to(&mut out);
                assert!(done.is_err() || std::str::from_utf8(&out).is_ok());
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
            _ => {}
        }
    }
}
