//! Every log made by the project's own servers decodes to its end, checksums included.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use millstream_binlog::event::{Event, EventBody, PayloadReader};
use millstream_binlog::{BinlogFile, DecoderOptions, Error, EventDecoder, RowChange, TableSchema};

/// The corpus beside the repository; not everybody has it.
fn corpus(part: &str) -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus").join(part);
    if !dir.is_dir() {
        println!("skipped: {} is not there", dir.display());
        return None;
    }
    Some(dir)
}

#[derive(Default, Debug)]
struct Counts {
    events: usize,
    rows: usize,
    values: usize,
    tables: HashMap<u64, TableSchema>,
}

impl Counts {
    fn event(&mut self, event: &Event<'_>) -> Result<(), Error> {
        self.events += 1;
        match event.body {
            EventBody::TableMap(map) => {
                self.tables.insert(map.table_id, map.schema()?);
            }
            EventBody::Rows(rows) => {
                let schema = &self.tables[&rows.table_id];
                for change in rows.rows(schema) {
                    self.rows += 1;
                    self.values += match change? {
                        RowChange::Insert(row) | RowChange::Delete(row) => row.values().count(),
                        RowChange::Update { before, after } => before.values().count() + after.values().count(),
                    };
                }
            }
            EventBody::PreviousGtids(set) => {
                set.decode().unwrap();
            }
            _ => {}
        }
        Ok(())
    }
}

fn read(bytes: &[u8]) -> Result<Counts, Error> {
    let mut counts = Counts::default();
    let mut decoder = EventDecoder::new(DecoderOptions::default());
    let mut payloads = PayloadReader::new(1 << 30, 1 << 30);
    let mut file = BinlogFile::new(bytes, 1 << 30)?;
    while let Some(raw) = file.next()? {
        let event = decoder.decode(raw.bytes)?;
        counts.event(&event)?;
        if let EventBody::TransactionPayload(payload) = event.body {
            let mut inner = payloads.open(&payload)?;
            while let Some(raw) = inner.next_event()? {
                counts.event(&decoder.decode_inner(&raw)?)?;
            }
            assert_eq!(Some(inner.opened()), payload.uncompressed_size);
        }
    }
    Ok(counts)
}

#[test]
fn own_mysql_logs_decode_to_their_end() {
    let Some(dir) = corpus("generated/mysql-9.7.4") else { return };
    let mut seen = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "bin") {
            let counts = read(&std::fs::read(&path).unwrap());
            let counts =
                counts.unwrap_or_else(|e| panic!("{}: {e} {:?}", path.display(), std::error::Error::source(&e)));
            println!("{}: {} events {} rows {} values", path.display(), counts.events, counts.rows, counts.values);
            seen += 1;
        }
    }
    assert!(seen >= 14);
}
