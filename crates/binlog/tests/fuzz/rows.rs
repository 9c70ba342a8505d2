//! Body of the fuzz target `rows`: any schema, also impossible ones, over any row bytes.

use std::sync::Arc;

use bytes::Bytes;
use millstream_binlog::event::EventBody;
use millstream_binlog::{Charset, Column, ColumnType, DecoderOptions, EventDecoder, Row, RowChange, TableSchema};

use super::touch::{complete, touch};

/// `u8 columns, (u8 type, u8 parameter, u8 parameter)…, u8 kind, present bitmaps and rows`.
pub(crate) fn run(data: &[u8]) {
    let Some((&count, mut rest)) = data.split_first() else { return };
    let mut columns = Vec::new();
    for _ in 0..count % 40 {
        let Some(([ty, a, b], tail)) = rest.split_first_chunk::<3>() else { return };
        rest = tail;
        columns.push(column(*ty, *a, *b));
    }
    let Some((&kind, rest)) = rest.split_first() else { return };
    let schema = Arc::new(TableSchema { database: "d".into(), table: "t".into(), columns, key: vec![0] });

    // A row event of version 1 or 2 around the rest.
    let v2 = kind & 0x80 != 0;
    let mut raw = vec![0; 19];
    raw[4] = match (kind & 0x20 != 0, v2) {
        (true, _) => 39,
        (false, true) => 30 + kind % 3,
        (false, false) => 23 + kind % 3,
    };
    let v2 = v2 || raw[4] == 39;
    raw.extend_from_slice(&[1, 0, 0, 0, 0, 0, 1, 0]);
    if v2 {
        raw.extend_from_slice(&[2, 0]);
    }
    // A column too many now and then.
    let wrong = u8::from(kind & 0x40 != 0);
    raw.push(u8::try_from(schema.columns.len()).unwrap() + wrong);
    raw.extend_from_slice(rest);
    let length = u32::try_from(raw.len()).unwrap();
    raw[9..13].copy_from_slice(&length.to_le_bytes());
    let packet = Bytes::from(raw);

    let mut decoder = EventDecoder::new(DecoderOptions::default());
    let Ok(event) = decoder.decode(&packet) else { return };
    let EventBody::Rows(rows) = event.body else { panic!("{:?}", event.body) };
    for change in rows.rows(&schema) {
        assert!(change.is_err() || wrong == 0, "another number of columns is an error");
        match change {
            Ok(RowChange::Insert(row) | RowChange::Delete(row)) => check(row, &packet, &schema),
            Ok(RowChange::Update { before, after }) => {
                check(before, &packet, &schema);
                check(after, &packet, &schema);
                complete(before, after);
            }
            Err(_) => return,
        }
    }
}

/// A row that was let through can be read to its end, in every way the same.
fn check(row: Row<'_, '_>, packet: &Bytes, schema: &Arc<TableSchema>) {
    let text = |row: Row<'_, '_>| format!("{:?}", row.values().collect::<Vec<_>>());
    let values: Vec<_> = row.values().collect();
    assert!(values.len() <= schema.columns.len());
    assert_eq!(values.len() == schema.columns.len(), row.is_full());
    touch(row);
    let all: Vec<usize> = (0..schema.columns.len()).collect();
    let mut visited = Vec::new();
    row.visit_columns(&all, |i, v| visited.push((i, v)));
    assert_eq!(format!("{visited:?}"), text(row));
    let present = values.iter().map(|(i, _)| *i).collect::<Vec<_>>();
    for i in all {
        assert_eq!(row.value(i).is_some(), present.contains(&i), "{i}");
    }
    assert_eq!(text(row.share(packet, schema).row()), text(row));
}

pub(super) fn column(ty: u8, a: u8, b: u8) -> Column {
    let unsigned = a & 1 == 1;
    let max_bytes = u32::from(a) << 2 | u32::from(b) << 8;
    let labels = || [String::from("a"), String::from("b")].into();
    let ty = match ty % 34 {
        0 => ColumnType::TinyInt { unsigned },
        1 => ColumnType::SmallInt { unsigned },
        2 => ColumnType::MediumInt { unsigned },
        3 => ColumnType::Int { unsigned },
        4 => ColumnType::BigInt { unsigned },
        5 => ColumnType::Float,
        6 => ColumnType::Double,
        7 | 8 => ColumnType::Decimal { precision: a, scale: b },
        9 => ColumnType::Bit { bits: a },
        10 => ColumnType::Year,
        11 => ColumnType::Date,
        12 => ColumnType::Time { fsp: a },
        13 => ColumnType::DateTime { fsp: a },
        14 => ColumnType::Timestamp { fsp: a },
        15 => ColumnType::Char { max_bytes },
        16 => ColumnType::VarChar { max_bytes },
        17 => ColumnType::Text { length_bytes: a },
        18 => ColumnType::Binary { bytes: max_bytes },
        19 => ColumnType::VarBinary { max_bytes },
        20 => ColumnType::Blob { length_bytes: a },
        21 => ColumnType::Enum { labels: labels(), bytes: a },
        22 => ColumnType::Set { labels: labels(), bytes: a },
        23 => ColumnType::Json,
        24 => ColumnType::Geometry,
        25 => ColumnType::Vector,
        26 => ColumnType::VarVector { max_bytes },
        27 => ColumnType::OldTime { fsp: a },
        28 => ColumnType::OldDateTime { fsp: a },
        29 => ColumnType::OldTimestamp { fsp: a },
        30 => ColumnType::Compressed { length_bytes: a },
        31 => ColumnType::Uuid,
        32 => ColumnType::Inet4,
        _ => ColumnType::Inet6,
    };
    let charset = Charset::from_collation(u16::from(b)).unwrap_or(Charset::Utf8mb4);
    Column { name: "c".into(), ty, nullable: true, charset, collation: u16::from(b) }
}
