//! Prints a binlog file: each event, and the values of each row.
//!
//! ```sh
//! cargo run -p millstream-binlog --example print -- /var/lib/mysql/binlog.000001
//! ```

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};

use millstream_binlog::event::{Event, EventBody, Inflater, PayloadReader};
use millstream_binlog::{BinlogFile, DecoderOptions, EventDecoder, Row, RowChange, TableSchema};

/// The server's own limit of an event.
const MAX_EVENT: usize = 1 << 30;

/// Reads a binlog from any reader and writes it as text.
pub(crate) fn run(input: impl Read, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let mut file = BinlogFile::new(input, MAX_EVENT)?;
    let mut decoder = EventDecoder::new(DecoderOptions::default());
    let mut payloads = PayloadReader::new(MAX_EVENT, u64::MAX);
    let mut inflater = Inflater::new(MAX_EVENT);
    let mut tables = HashMap::new();
    while let Some(raw) = file.next()? {
        write!(out, "{}\t", raw.offset)?;
        // MariaDB's compressed events are opened here, MySQL's compressed transactions below.
        let event = decoder.decode(raw.bytes)?.inflate(&mut inflater)?;
        print(&event, &mut tables, out)?;
        if let EventBody::TransactionPayload(payload) = event.body {
            let mut events = payloads.open(&payload)?;
            while let Some(raw) = events.next_event()? {
                write!(out, "\t")?;
                print(&decoder.decode_inner(&raw)?, &mut tables, out)?;
            }
        }
    }
    Ok(())
}

fn print(
    event: &Event<'_>,
    tables: &mut HashMap<u64, TableSchema>,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    write!(out, "{}", event.header.event_type.name())?;
    match &event.body {
        EventBody::Gtid(event) => match event.gtid {
            Some(gtid) => writeln!(out, " {gtid}")?,
            None => writeln!(out, " anonymous")?,
        },
        EventBody::MariaGtid(event) => writeln!(out, " {}", event.gtid)?,
        EventBody::Query(query) => writeln!(out, " {}", String::from_utf8_lossy(query.sql))?,
        EventBody::TableMap(map) => {
            // The schema comes from the event alone: with binlog_row_metadata=FULL it has names, signs, labels and keys.
            tables.insert(map.table_id, map.schema()?);
            writeln!(out, " {}.{}", map.database, map.table)?;
        }
        EventBody::Rows(rows) => {
            writeln!(out)?;
            let schema = tables.get(&rows.table_id).ok_or("rows without a table map")?;
            for change in rows.rows(schema) {
                match change? {
                    RowChange::Insert(row) => image("+", row, out)?,
                    RowChange::Delete(row) => image("-", row, out)?,
                    RowChange::Update { before, after } => {
                        image("<", before, out)?;
                        image(">", after, out)?;
                    }
                }
            }
        }
        _ => writeln!(out)?,
    }
    Ok(())
}

/// The values borrow the event: nothing is copied or allocated to look at them.
fn image(sign: &str, row: Row<'_, '_>, out: &mut impl Write) -> std::io::Result<()> {
    write!(out, "\t{sign}")?;
    for (ordinal, value) in row.values() {
        if let Some(column) = row.schema().columns.get(ordinal) {
            write!(out, " {}={value:?}", column.name)?;
        }
    }
    writeln!(out)
}

#[allow(dead_code, reason = "a test calls what main calls")]
fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: print FILE")?;
    run(File::open(path)?, &mut std::io::stdout())
}
