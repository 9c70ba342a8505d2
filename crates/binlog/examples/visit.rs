//! Reads binlog files, visits every value and prints how fast: `cargo run --release --example visit -- FILE…`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::time::Instant;

use millstream_binlog::event::{EventBody, PayloadReader};
use millstream_binlog::{BinlogFile, DecoderOptions, EventDecoder, Row, RowChange, TableSchema};

const MAX_EVENT: usize = 1 << 30;

/// Tables by their id, with the map they were made from.
#[derive(Default)]
struct Visitor {
    tables: HashMap<u64, (Vec<u8>, TableSchema)>,
    rows: u64,
    values: u64,
}

impl Visitor {
    fn event(&mut self, body: &EventBody<'_>) -> Result<(), Box<dyn Error>> {
        match body {
            EventBody::TableMap(map) => {
                let known = self.tables.get(&map.table_id);
                // The same definition again: nearly every map of a busy log.
                if known.is_none_or(|(definition, _)| definition != map.definition()) {
                    self.tables.insert(map.table_id, (map.definition().to_vec(), map.schema()?));
                }
            }
            EventBody::Rows(rows) => {
                let (_, schema) = self.tables.get(&rows.table_id).ok_or("rows without a table map")?;
                for change in rows.rows(schema) {
                    self.rows = self.rows.wrapping_add(1);
                    match change? {
                        RowChange::Insert(row) | RowChange::Delete(row) => visit(row, &mut self.values),
                        RowChange::Update { before, after } => {
                            visit(before, &mut self.values);
                            visit(after, &mut self.values);
                        }
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn visit(row: Row<'_, '_>, values: &mut u64) {
    for (_, value) in row.values() {
        black_box(value);
        *values = values.wrapping_add(1);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args().skip(1) {
        let start = Instant::now();
        let mut file = BinlogFile::new(File::open(&path)?, MAX_EVENT)?;
        let mut decoder = EventDecoder::new(DecoderOptions::default());
        let mut payloads = PayloadReader::new(MAX_EVENT, u64::MAX);
        let mut visitor = Visitor::default();
        while let Some(raw) = file.next()? {
            let event = decoder.decode(raw.bytes)?;
            visitor.event(&event.body)?;
            if let EventBody::TransactionPayload(payload) = event.body {
                let mut inner = payloads.open(&payload)?;
                while let Some(raw) = inner.next_event()? {
                    visitor.event(&decoder.decode_inner(&raw)?.body)?;
                }
            }
        }
        #[allow(clippy::cast_precision_loss, reason = "for people")]
        let speed = |n: u64| n as f64 / start.elapsed().as_secs_f64() / 1e6;
        println!(
            "{path}: {} rows, {} values, {:.0} MB/s, {:.2} M rows/s",
            visitor.rows,
            visitor.values,
            speed(file.offset()),
            speed(visitor.rows)
        );
    }
    Ok(())
}
