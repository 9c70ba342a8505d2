//! The way of a row from the log to a load's bytes, against the machine's own limit in the same run:
//! `cargo bench -p millstream-doris-sink`. Prints MB/s of log bytes and the ratio to reading and CRC-checking alone.

#![allow(clippy::print_stdout, reason = "a bench prints")]

use std::collections::HashMap;
use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use millstream_binlog::event::EventBody;
use millstream_binlog::{BinlogFile, DecoderOptions, EventDecoder, Row, RowChange, TableSchema};
use millstream_doris_sink::{Batch, EncodeOptions, InvalidDate, Mode, Op, RowEncoder, RowMeta, TargetTable};

/// How long each measurement runs.
const TIME: Duration = Duration::from_secs(2);

/// What is done with a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Crc,
    Visit,
    Encode,
}

struct Table {
    schema: TableSchema,
    encoder: Option<RowEncoder>,
}

/// What lasts over passes: schemas are built once, as in a long stream.
struct State {
    decoder: EventDecoder,
    tables: HashMap<u64, Table>,
    batch: Batch,
}

/// One pass over the log; the number of rows.
fn pass(log: &[Vec<u8>], work: Work, state: &mut State) -> Result<u64, Box<dyn Error>> {
    let State { decoder, tables, batch } = state;
    let mut rows = 0u64;
    for raw in log {
        if work == Work::Crc {
            black_box(crc(raw));
            continue;
        }
        match decoder.decode(raw)?.body {
            EventBody::TableMap(map) if !tables.contains_key(&map.table_id) => {
                let schema = map.schema()?;
                let target = TargetTable::plan(&schema, "bench", "t", Mode::Append).ok();
                let options = EncodeOptions { invalid_date: InvalidDate::Null, ..EncodeOptions::default() };
                let encoder = target.map(|target| RowEncoder::new(&schema, &target, &options));
                tables.insert(map.table_id, Table { schema, encoder });
            }
            EventBody::Rows(event) => {
                let Some(table) = tables.get_mut(&event.table_id) else { continue };
                let Table { schema, encoder } = table;
                for change in event.rows(schema) {
                    rows = rows.saturating_add(1);
                    match change? {
                        RowChange::Insert(row) | RowChange::Delete(row) => one(row, encoder, batch, work)?,
                        RowChange::Update { before, after } => {
                            for (_, value) in before.values() {
                                black_box(value);
                            }
                            one(after, encoder, batch, work)?;
                        }
                    }
                }
            }
            _ => {}
        }
        if batch.bytes() > 8 << 20 {
            *batch = Batch::new(Mode::Append);
        }
    }
    black_box(batch.bytes());
    Ok(rows)
}

fn one(
    row: Row<'_, '_>,
    encoder: &mut Option<RowEncoder>,
    batch: &mut Batch,
    work: Work,
) -> Result<(), Box<dyn Error>> {
    if let (Work::Encode, Some(encoder)) = (work, encoder) {
        let meta =
            RowMeta { seq: 1, op: Op::Create, gtid: None, file: "bench.000001", pos: 4, row: 0, ts_micros: None };
        batch.push(encoder, row.values(), &meta)?;
    } else {
        for (_, value) in row.values() {
            black_box(value);
        }
    }
    Ok(())
}

fn crc(raw: &[u8]) -> u32 {
    crc32fast::hash(raw)
}

fn main() -> Result<(), Box<dyn Error>> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../binlog/tests/fixtures");
    for name in ["metadata-full.bin", "hidden-cols-instant-ddl-ctas-cascade.bin"] {
        let mut file = BinlogFile::new(std::fs::File::open(fixtures.join(name))?, 1 << 30)?;
        let mut log = Vec::new();
        while let Some(raw) = file.next()? {
            log.push(raw.bytes.to_vec());
        }
        let bytes: usize = log.iter().map(Vec::len).sum();
        let mut limit = None;
        for (what, work) in [("CRC alone", Work::Crc), ("visit", Work::Visit), ("encode", Work::Encode)] {
            let (decoder, batch) = (EventDecoder::new(DecoderOptions::default()), Batch::new(Mode::Append));
            let mut state = State { decoder, tables: HashMap::new(), batch };
            let (start, mut passes, mut rows) = (Instant::now(), 0u32, 0u64);
            while start.elapsed() < TIME {
                rows = rows.saturating_add(pass(&log, work, &mut state)?);
                passes = passes.saturating_add(1);
            }
            #[allow(clippy::cast_precision_loss, reason = "for people")]
            let (speed, rows) = {
                let seconds = start.elapsed().as_secs_f64();
                (f64::from(passes) * bytes as f64 / seconds / 1e6, rows as f64 / seconds / 1e6)
            };
            let ratio = speed / *limit.get_or_insert(speed);
            println!("{name}: {what}: {speed:.0} MB/s, {rows:.2} M rows/s, {ratio:.3} of the CRC");
        }
    }
    Ok(())
}
