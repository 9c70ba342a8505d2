//! Counts the row changes of each table in a binlog file. Rows of tables that nobody asked for are never decoded.
//!
//! ```sh
//! cargo run -p millstream-binlog --example count_rows -- /var/lib/mysql/binlog.000001 [DATABASE]
//! ```

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fs::File;
use std::io::Read;

use millstream_binlog::event::{Event, EventBody, Inflater, PayloadReader};
use millstream_binlog::{BinlogFile, DecoderOptions, EventDecoder, TableSchema};

/// The server's own limit of an event.
const MAX_EVENT: usize = 1 << 30;

/// Row changes by `database.table`.
pub(crate) type Counts = BTreeMap<String, u64>;

/// Reads a binlog from any reader; `database` leaves out all others.
pub(crate) fn run(input: impl Read, database: Option<&str>) -> Result<Counts, Box<dyn Error>> {
    let mut file = BinlogFile::new(input, MAX_EVENT)?;
    let mut decoder = EventDecoder::new(DecoderOptions::default());
    let mut payloads = PayloadReader::new(MAX_EVENT, u64::MAX);
    let mut inflater = Inflater::new(MAX_EVENT);
    let (mut tables, mut counts) = (HashMap::new(), Counts::new());
    let mut count = |event: &Event<'_>| -> Result<(), Box<dyn Error>> {
        match &event.body {
            EventBody::TableMap(map) => {
                // An id may name another table later: what is not wanted is remembered too.
                let wanted = database.is_none_or(|wanted| wanted == map.database);
                tables.insert(map.table_id, if wanted { Some(map.schema()?) } else { None });
            }
            EventBody::Rows(rows) => {
                let table: &Option<TableSchema> = tables.get(&rows.table_id).ok_or("rows without a table map")?;
                if let Some(schema) = table {
                    for change in rows.rows(schema) {
                        change?;
                        let name = format!("{}.{}", schema.database, schema.table);
                        let n = counts.entry(name).or_default();
                        *n = n.saturating_add(1);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    };
    while let Some(raw) = file.next()? {
        let event = decoder.decode(raw.bytes)?.inflate(&mut inflater)?;
        count(&event)?;
        if let EventBody::TransactionPayload(payload) = event.body {
            let mut events = payloads.open(&payload)?;
            while let Some(raw) = events.next_event()? {
                count(&decoder.decode_inner(&raw)?)?;
            }
        }
    }
    Ok(counts)
}

#[allow(dead_code, reason = "a test calls what main calls")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: count_rows FILE [DATABASE]")?;
    for (table, rows) in run(File::open(path)?, args.next().as_deref())? {
        println!("{rows:>10} {table}");
    }
    Ok(())
}
