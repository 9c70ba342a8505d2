//! A log as this crate reads it, compared with its listing event by event.

use std::collections::{BTreeSet, HashMap};
use std::error::Error as _;

use millstream_binlog::event::{Event, EventBody, Inflater, PayloadReader, RowsEvent, RowsExtra, TableMap};
use millstream_binlog::{
    BinlogFile, DecoderOptions, Error, EventDecoder, Position, PositionTracker, RowChange, TableSchema,
};

use super::common::{LIMIT, touch};
use super::label;
use super::listing::{Head, ListedRow, Listing};
use super::values::{self, Tool};

/// What came of reading a log.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Events read, those inside payloads too.
    pub(crate) events: usize,
    /// Of them, those that the listing has.
    pub(crate) listed: usize,
    /// Events of which the tool prints nothing but their place.
    pub(crate) passed_over: usize,
    /// Events that the listing has and the log has not.
    pub(crate) missing: usize,
    /// Rows read.
    pub(crate) rows: usize,
    /// Values that are equal in the listing.
    pub(crate) values: usize,
    /// What row events say beside their rows.
    pub(crate) partitions: Vec<String>,
    /// Whether every event says where it lies, if it says anything: not so in relay logs and edited ones.
    pub(crate) placed: bool,
    /// What differs.
    pub(crate) differences: Vec<String>,
    /// Tables whose columns cannot be read yet, with the reason; their rows are not counted.
    pub(crate) unread: BTreeSet<String>,
    /// Where the log ends before its end, and why.
    pub(crate) error: Option<(u64, String)>,
}

/// Reads a log beside its listing.
pub(crate) fn compare(log: &[u8], listing: &Listing) -> Outcome {
    let mut reader = Reader {
        listing,
        tables: HashMap::new(),
        gtids: Vec::new(),
        next_row: 0,
        tool: if listing.mariadb { Tool::MariaDb } else { Tool::MySql },
        place: PositionTracker::new(Position::new("", 4)),
        out: Outcome { placed: true, ..Outcome::default() },
    };
    reader.run(log);
    let mut out = reader.out;
    out.missing = listing.heads.len() - out.listed;
    if out.error.is_none() && !listing.failed {
        if !listing.gtids.is_empty() && reader.gtids != listing.gtids {
            out.differences.push(format!("GTIDs {:?}, listed {:?}", reader.gtids, listing.gtids));
        }
        if !listing.rows.is_empty() && out.partitions != listing.partitions {
            out.differences.push(format!("partitions {:?}, listed {:?}", out.partitions, listing.partitions));
        }
        let rows = listing.rows.len()..=listing.rows.len() + listing.given_up;
        if out.unread.is_empty() && !listing.rows.is_empty() && !rows.contains(&out.rows) {
            out.differences.push(format!("{} rows, listed {rows:?}", out.rows));
        }
    }
    out
}

struct Table {
    database: String,
    table: String,
    /// `None` if its columns cannot be read.
    schema: Option<TableSchema>,
}

impl Table {
    fn new(map: &TableMap<'_>, schema: Option<TableSchema>) -> Self {
        Self { database: map.database.to_owned(), table: map.table.to_owned(), schema }
    }
}

struct Reader<'l> {
    listing: &'l Listing,
    tables: HashMap<u64, Table>,
    gtids: Vec<String>,
    /// Of the listing's rows.
    next_row: usize,
    tool: Tool,
    place: PositionTracker,
    out: Outcome,
}

impl Reader<'_> {
    fn run(&mut self, log: &[u8]) {
        let mut file = match BinlogFile::new(log, LIMIT) {
            Ok(file) => file,
            Err(e) => return self.fail(0, &e),
        };
        let mut decoder = EventDecoder::new(DecoderOptions::default());
        let mut payloads = PayloadReader::new(LIMIT, LIMIT as u64);
        let mut inflater = Inflater::new(LIMIT);
        loop {
            let offset = file.offset();
            let raw = match file.next() {
                Ok(Some(raw)) => raw,
                Ok(None) => return,
                Err(e) => return self.fail(offset, &e),
            };
            let end = offset + raw.bytes.len() as u64;
            let done = decoder.decode(raw.bytes).and_then(|event| {
                // What a ROTATE names is another file.
                if !matches!(event.body, EventBody::Rotate(_)) && !event.header.is_made_for_stream() {
                    self.follow(&event, end);
                }
                let event = event.inflate(&mut inflater)?;
                let crc = raw.bytes.last_chunk().map(|c| u32::from_le_bytes(*c));
                self.event(&event, offset, event.header.log_pos, crc)?;
                if let EventBody::TransactionPayload(payload) = event.body {
                    if self.listing.mariadb {
                        return Ok(());
                    }
                    let mut inner = payloads.open(&payload)?;
                    while let Some(raw) = inner.next_event()? {
                        // The tool gives them the payload's end, and a checksum that is nowhere in the log.
                        self.event(&decoder.decode_inner(&raw)?, end, event.header.log_pos, None)?;
                    }
                }
                Ok(())
            });
            if let Err(e) = done {
                return self.fail(offset, &e);
            }
        }
    }

    fn fail(&mut self, offset: u64, e: &Error) {
        let source = e.source().map_or_else(String::new, |s| format!(": {s}"));
        self.out.error = Some((offset, format!("{e}{source}")));
    }

    /// The position that is reckoned from lengths and low halves is the place in the file.
    fn follow(&mut self, event: &Event<'_>, end: u64) {
        let stated = u64::from(event.header.log_pos);
        let silent = stated == 0 && !matches!(event.body, EventBody::FormatDescription(_));
        self.out.placed &= silent || stated == end;
        self.place.follow(event);
        let at = self.place.position().offset;
        if self.out.placed && at != end {
            self.out.differences.push(format!("reckoned to end at {at}, ends at {end}: {event:?}"));
        }
    }

    fn event(&mut self, event: &Event<'_>, offset: u64, log_pos: u32, crc: Option<u32>) -> Result<(), Error> {
        if self.listing.offsets.get(self.out.events).is_some_and(|at| *at != offset) {
            self.out
                .differences
                .push(format!("{event:?} at {offset}, listed at {:?}", self.listing.offsets[self.out.events]));
        }
        self.out.events += 1;
        if self.is_passed_over(&event.body) {
            self.out.passed_over += 1;
        } else if let Some(head) = self.listing.heads.get(self.out.listed) {
            let (timestamp, server_id) = (event.header.timestamp, event.header.server_id);
            let ours = Head {
                timestamp,
                server_id,
                log_pos,
                crc: if head.crc.is_some() { crc.or(head.crc) } else { None },
                label: head.label.clone(),
            };
            if ours != *head {
                self.out.differences.push(format!("{event:?} is {ours:?}, listed as {head:?}"));
            }
            if let Err(expected) = label::check(event, &head.label) {
                self.out.differences.push(format!("at {offset}: {expected:?}, listed as {:?}", head.label));
            }
            self.out.listed += 1;
        }
        self.look(&event.body)
    }

    /// Whether the tool prints nothing but the event's place.
    const fn is_passed_over(&self, body: &EventBody<'_>) -> bool {
        match body {
            EventBody::StartEncryption(_) => true,
            EventBody::TransactionPayload(_) => self.listing.mariadb,
            EventBody::Rows(rows) => rows.is_partial() && self.listing.mariadb,
            _ => false,
        }
    }

    fn look(&mut self, body: &EventBody<'_>) -> Result<(), Error> {
        match body {
            // MariaDB's own logs have texts of its tool that do not say so.
            EventBody::FormatDescription(fde) if fde.is_mariadb() => self.tool = Tool::MariaDb,
            EventBody::Gtid(event) => self.gtids.push(event.gtid.map_or_else(|| "ANONYMOUS".into(), |g| g.to_string())),
            EventBody::TableMap(map) => match map.schema() {
                Ok(schema) => {
                    let table = Table::new(map, Some(schema));
                    self.tables.insert(map.table_id, table);
                }
                Err(e) if e.is_unsupported() => {
                    self.tables.insert(map.table_id, Table::new(map, None));
                    self.out.unread.insert(format!("{}.{}: {e}", map.database, map.table));
                }
                Err(e) => return Err(e),
            },
            EventBody::Rows(rows) => {
                self.out.partitions.extend(rows.extra_parts().map(|part| match part {
                    Ok(RowsExtra::Partition { id, source: None }) => format!("partition: {id}"),
                    Ok(RowsExtra::Partition { id, source: Some(source) }) => {
                        format!("source_partition: {source} target_partition: {id}")
                    }
                    other => format!("{other:?}"),
                }));
                return self.rows(rows);
            }
            EventBody::Query(query) | EventBody::ExecuteLoadQuery(query) => {
                if let Some(Err(e)) = query.status.iter().find(Result::is_err) {
                    self.out.differences.push(format!("status variables {:02x?}: {e}", query.status.as_bytes()));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn rows(&mut self, rows: &RowsEvent<'_>) -> Result<(), Error> {
        let Some(table) = self.tables.get(&rows.table_id) else { return Ok(()) };
        let name = format!("`{}`.`{}`", table.database, table.table);
        let Some(schema) = &table.schema else {
            // How many rows there are cannot be known.
            while self.listing.rows.get(self.next_row).is_some_and(|row| row.table == name.as_bytes()) {
                self.next_row += 1;
            }
            return Ok(());
        };
        // MariaDB's tool lists no rows of partial updates.
        let mut is_listed = self.listing.has_values() && !(rows.is_partial() && self.listing.mariadb);
        for change in rows.rows(schema) {
            self.out.rows += usize::from(!(rows.is_partial() && self.listing.mariadb));
            let images = match change? {
                RowChange::Insert(row) | RowChange::Delete(row) => vec![row],
                RowChange::Update { before, after } => vec![before, after],
            };
            images.iter().for_each(|row| assert_ne!(touch(*row), usize::MAX));
            let Some(listed) = self.listing.rows.get(self.next_row).filter(|_| is_listed) else { continue };
            self.next_row += 1;
            is_listed = !listed.images.iter().flatten().any(|(_, value)| ListedRow::is_given_up(value));
            if listed.table != name.as_bytes() || (listed.images.len() != images.len() && is_listed) {
                let theirs = String::from_utf8_lossy(&listed.table);
                self.out.differences.push(format!("{} images of {name}, listed of {theirs}", images.len()));
            }
            for (ours, theirs) in images.iter().zip(&listed.images) {
                match values::compare(self.tool, *ours, theirs) {
                    Ok(equal) => self.out.values += equal,
                    Err(e) => self.out.differences.push(format!("{name}: {e}")),
                }
            }
        }
        Ok(())
    }
}
