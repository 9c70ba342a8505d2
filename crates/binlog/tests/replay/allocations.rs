//! What reading rows costs in allocations: nothing, once the table is known.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;

use allocation_counter::{AllocationInfo, measure};
use bytes::Bytes;
use millstream_binlog::event::{EventBody, PayloadReader};
use millstream_binlog::{BinlogFile, ColumnValue, Decimal, DecoderOptions, EventDecoder, Row, RowChange, TableSchema};

use super::common::{LIMIT, fixtures};

const ROWS: usize = 10_000;

/// A row event with the images of another one again and again, at least [`ROWS`] of them.
fn many(raw: &[u8], data: &[u8], rows: usize) -> Vec<u8> {
    let mut out = raw[..raw.len() - data.len()].to_vec();
    for _ in 0..ROWS.div_ceil(rows) {
        out.extend_from_slice(data);
    }
    let length = u32::try_from(out.len()).unwrap();
    out[9..13].copy_from_slice(&length.to_le_bytes());
    out
}

/// Every value, those that have a text of their own written into `out`.
fn visit(row: Row<'_, '_>, out: &mut Vec<u8>) {
    for (_, value) in row.values() {
        out.clear();
        match value {
            ColumnValue::Decimal { bytes, precision, scale } => Decimal { bytes, precision, scale }.write_to(out),
            ColumnValue::Date(v) => v.write_to(out),
            ColumnValue::Time(v) => v.write_to(6, out),
            ColumnValue::DateTime(v) => v.write_to(6, out),
            ColumnValue::Timestamp(v) => v.write_to(6, out),
            other => {
                let _ = black_box(other);
            }
        }
    }
    row.visit_columns(&[0], |_, value| {
        let _ = black_box(value);
    });
}

/// All changes of a row event, from its raw bytes.
fn read(raw: &[u8], decoder: &mut EventDecoder, schema: &TableSchema, out: &mut Vec<u8>) -> usize {
    let EventBody::Rows(rows) = decoder.decode(raw).unwrap().body else { panic!("no rows") };
    let mut count = 0;
    for change in rows.rows(schema) {
        count += 1;
        match change.unwrap() {
            RowChange::Insert(row) | RowChange::Delete(row) => visit(row, out),
            RowChange::Update { before, after } => {
                visit(before, out);
                visit(after, out);
            }
        }
    }
    count
}

#[test]
fn rows_are_read_without_any_allocation() {
    let (mut events, mut all) = (0, 0);
    let mut out = Vec::with_capacity(100);
    for (name, log) in fixtures() {
        let mut decoder = EventDecoder::new(DecoderOptions::default());
        let mut tables: HashMap<u64, Arc<TableSchema>> = HashMap::new();
        let mut file = BinlogFile::new(log.as_slice(), LIMIT).unwrap();
        while let Some(raw) = file.next().unwrap() {
            let schema = match decoder.decode(raw.bytes).unwrap().body {
                EventBody::TableMap(map) => {
                    tables.insert(map.table_id, Arc::new(map.schema().unwrap()));
                    continue;
                }
                EventBody::Rows(rows) => Arc::clone(&tables[&rows.table_id]),
                _ => continue,
            };
            events += 1;
            let used = measure(|| all += read(raw.bytes, &mut decoder, &schema, &mut out));
            assert_eq!(used.count_total, 0, "{name} at {}", raw.offset);

            if name == "types-nochecksum" {
                let EventBody::Rows(rows) = decoder.decode(raw.bytes).unwrap().body else { panic!() };
                let large = many(raw.bytes, rows.data(), rows.rows(&schema).count());
                let mut count = 0;
                let used = measure(|| count = read(&large, &mut decoder, &schema, &mut out));
                assert!(count >= ROWS);
                assert_eq!(used.count_total, 0, "{count} rows of {} at {}", schema.table, raw.offset);

                // Rows that are kept count references to the packet; the first one makes the counter.
                let packet = Bytes::from(large);
                let EventBody::Rows(rows) = decoder.decode(&packet).unwrap().body else { panic!() };
                let kept = measure(|| {
                    for change in rows.rows(&schema) {
                        if let RowChange::Insert(row) = change.unwrap() {
                            drop(black_box(row.share(&packet, &schema)));
                        }
                    }
                });
                assert!(kept.count_total <= 1, "{kept:?}");
            }
        }
    }
    assert!(events > 100 && all > 200, "{events} events, {all} rows");
}

/// Events that are not rows borrow their packet too; a table map that is known is known by its bytes.
#[test]
fn events_are_decoded_without_any_allocation() {
    for (name, log) in fixtures() {
        let mut decoder = EventDecoder::new(DecoderOptions::default());
        let mut file = BinlogFile::new(log.as_slice(), LIMIT).unwrap();
        loop {
            let mut next = None;
            let used = measure(|| next = file.next().unwrap());
            let Some(raw) = next else { break };
            assert_eq!(used.count_total, 0, "{name}: the file's buffer is there");
            let used = measure(|| {
                let _ = black_box(decoder.decode(raw.bytes).unwrap());
            });
            assert_eq!(used.count_total, 0, "{name} at {}: type {}", raw.offset, raw.bytes[4]);
        }
    }
}

#[test]
fn compressed_transactions_take_less_than_an_allocation_for_each_event() {
    let (_, log) = fixtures().into_iter().find(|(name, _)| name == "compression-zstd").unwrap();
    let mut decoder = EventDecoder::new(DecoderOptions::default());
    let mut payloads = PayloadReader::new(LIMIT, LIMIT as u64);
    let mut file = BinlogFile::new(log.as_slice(), LIMIT).unwrap();
    let (mut events, mut used) = (0, AllocationInfo::default());
    while let Some(raw) = file.next().unwrap() {
        let EventBody::TransactionPayload(payload) = decoder.decode(raw.bytes).unwrap().body else { continue };
        used += measure(|| {
            let mut inner = payloads.open(&payload).unwrap();
            while let Some(raw) = inner.next_event().unwrap() {
                let _ = black_box(decoder.decode_inner(&raw).unwrap());
                events += 1;
            }
        });
    }
    println!("{} allocations for {events} events", used.count_total);
    assert!(events > 100 && used.count_total <= events, "{} for {events}", used.count_total);
}
