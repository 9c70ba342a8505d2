//! Reading whole logs the way an engine would, and touching everything in them.

#![allow(dead_code, reason = "not every test file needs all of it")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream_binlog::event::{EventBody, Inflater, PayloadReader};
use millstream_binlog::{
    BinlogFile, ColumnValue, Decimal, DecoderOptions, Error, EventDecoder, Row, RowChange, TableSchema,
};

pub(crate) const LIMIT: usize = 1 << 30;

/// A folder of the corpus beside the repository; not everybody has it.
pub(crate) fn corpus(part: &str) -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus").join(part);
    if !dir.is_dir() {
        println!("skipped: {} is not there", dir.display());
        return None;
    }
    Some(dir)
}

/// The logs that live in the repository, with their names.
pub(crate) fn fixtures() -> Vec<(String, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut all: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "bin"))
        .map(|p| (p.file_stem().unwrap().to_str().unwrap().to_owned(), std::fs::read(&p).unwrap()))
        .collect();
    all.sort();
    assert!(!all.is_empty());
    all
}

/// What was seen in a log.
#[derive(Default, Debug)]
pub(crate) struct Seen {
    /// (type, log position) of the outer events.
    pub(crate) events: Vec<(u8, u32)>,
    /// Offsets of their ends in the log.
    pub(crate) ends: Vec<usize>,
    /// GTIDs in their order, `ANONYMOUS` for those without.
    pub(crate) gtids: Vec<String>,
    /// Row changes, inner ones included.
    pub(crate) rows: usize,
    pub(crate) values: usize,
    pub(crate) ignored: usize,
    tables: HashMap<u64, Arc<TableSchema>>,
}

impl Seen {
    /// Nothing seen yet, but the same tables.
    pub(crate) fn with_tables(&self) -> Self {
        Self { tables: self.tables.clone(), ..Self::default() }
    }

    /// Looks at everything in an event.
    pub(crate) fn body(&mut self, body: &EventBody<'_>) -> Result<(), Error> {
        match body {
            EventBody::TableMap(map) => {
                self.tables.insert(map.table_id, Arc::new(map.schema()?));
            }
            EventBody::Rows(rows) => {
                let Some(schema) = self.tables.get(&rows.table_id).cloned() else { return Ok(()) };
                for change in rows.rows(&schema) {
                    self.rows += 1;
                    self.values += match change? {
                        RowChange::Insert(row) | RowChange::Delete(row) => touch(row),
                        RowChange::Update { before, after } => {
                            let _ = after.complete(&before, &mut Vec::new()).map(touch);
                            touch(before) + touch(after)
                        }
                    };
                }
            }
            EventBody::PreviousGtids(set) => {
                let _ = set.decode();
            }
            EventBody::Gtid(event) => {
                self.gtids.push(event.gtid.map_or_else(|| "ANONYMOUS".into(), |g| g.to_string()));
            }
            EventBody::MariaGtid(event) => self.gtids.push(event.gtid.to_string()),
            EventBody::GtidList(list) => {
                let _ = list.iter().count();
            }
            EventBody::Query(query) => {
                let _ = query.status.iter().count();
                let _ = (query.status.client_charset(), query.status.time_zone(), query.status.ddl_xid());
            }
            EventBody::Ignored { .. } => self.ignored += 1,
            _ => {}
        }
        Ok(())
    }
}

/// Turns every value into text and returns how many there were. Text that is malformed is an error of the value alone.
pub(crate) fn touch(row: Row<'_, '_>) -> usize {
    let mut out = Vec::new();
    let mut count = 0;
    for (_, value) in row.values() {
        count += 1;
        match value {
            ColumnValue::Json(json) => {
                let _ = json.write_to(&mut out);
            }
            ColumnValue::JsonDiffs(diffs) => {
                let _ = diffs.write_to(&mut out);
            }
            ColumnValue::Compressed { value, .. } => {
                let _ = value.inflate(1 << 20, &mut out);
            }
            ColumnValue::Text { bytes, charset } => {
                let _ = charset.decode(bytes, &mut out);
            }
            ColumnValue::Decimal { bytes, precision, scale } => {
                Decimal::new(bytes, precision, scale).unwrap().write_to(&mut out);
            }
            ColumnValue::DateTime(t) => t.write_to(6, &mut out),
            ColumnValue::Timestamp(t) => t.write_to(6, &mut out),
            ColumnValue::Time(t) => t.write_to(6, &mut out),
            ColumnValue::Date(t) => t.write_to(&mut out),
            _ => {}
        }
    }
    count
}

/// Reads a log to its end or first error.
pub(crate) fn read(log: &[u8], seen: &mut Seen) -> Result<(), Error> {
    let mut decoder = EventDecoder::new(DecoderOptions::default());
    let mut payloads = PayloadReader::new(LIMIT, LIMIT as u64);
    let mut file = BinlogFile::new(log, LIMIT)?;
    while let Some(raw) = file.next()? {
        let end = usize::try_from(raw.offset).unwrap() + raw.bytes.len();
        event(raw.bytes, &mut decoder, &mut payloads, seen)?;
        seen.ends.push(end);
    }
    Ok(())
}

/// Decodes one raw event and looks at it and at what it contains.
pub(crate) fn event(
    raw: &[u8],
    decoder: &mut EventDecoder,
    payloads: &mut PayloadReader,
    seen: &mut Seen,
) -> Result<(), Error> {
    let mut inflater = Inflater::new(LIMIT);
    let event = decoder.decode(raw)?.inflate(&mut inflater)?;
    seen.events.push((event.header.event_type.0, event.header.log_pos));
    seen.body(&event.body)?;
    if let EventBody::TransactionPayload(payload) = event.body {
        let mut inner = payloads.open(&payload)?;
        while let Some(raw) = inner.next_event()? {
            seen.body(&decoder.decode_inner(&raw)?.body)?;
        }
    }
    Ok(())
}
