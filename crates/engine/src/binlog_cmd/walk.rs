//! Event by event: which transaction it belongs to, whether it is shown, and the counts.
//!
//! A filter chooses whole transactions where it can tell at their begin (time, GTID); rows of a transaction that is not
//! chosen are not decoded. A table filter cannot tell: what leads a transaction or a statement is held back and shown
//! with the first thing that concerns a chosen table.

use std::hint::black_box;
use std::io::Write;

use millstream_binlog::event::{
    Checksum, Event, EventBody, Inflater, MariaGtidEvent, PayloadReader, RowsEvent, TableMap,
};
use millstream_binlog::{DecoderOptions, EventDecoder, EventType, Row, RowChange, TableSchema};
use rustc_hash::FxHashMap;

use super::error::Error;
use super::filter::Filter;
use super::role::{Role, gtid_of, role, transaction_time};
use super::stats::{Summary, add};
use super::text::Escaped;
use super::when::When;
use super::{Format, Place, json, text};
use crate::schema::ddl::Captured as _;

/// The server's own limit.
pub(super) const MAX_EVENT: usize = 1 << 30;
/// An opened transaction; it is read event by event, so this is not memory.
const MAX_PAYLOAD: u64 = 1 << 40;
/// Tables kept at a time. Logs with more only parse some of their maps again.
const MAX_TABLES: usize = 10_000;

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    Stop,
}

/// A table by its id, with the map it was made from: an equal map needs no parsing.
struct Table {
    definition: Vec<u8>,
    /// `None`: not chosen, its rows are passed over.
    schema: Option<TableSchema>,
    number: usize,
}

/// The transaction that is being read.
struct Group {
    /// Its GTID as text.
    gtid: Option<String>,
    chosen: bool,
    /// BEGIN has been seen: a statement no longer ends it.
    begun: bool,
    shown: bool,
}

/// Output that waits until it is known to be wanted.
#[derive(Default)]
struct Held {
    bytes: Vec<u8>,
    events: Vec<(EventType, u64, bool)>,
}

/// Where an event's lines go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    Out,
    Head,
    Context,
}

pub(super) struct Walk<'o, W> {
    filter: &'o Filter,
    format: Format,
    out: &'o mut W,
    pub(super) summary: Summary,
    /// The log comes from a server.
    live: bool,
    decoder: EventDecoder,
    payloads: PayloadReader,
    /// Taken out while it lends an event.
    inflater: Option<Inflater>,
    tables: FxHashMap<u64, Table>,
    group: Option<Group>,
    head: Held,
    context: Held,
    /// The file whose name the text shows already.
    named: Option<String>,
    line: Vec<u8>,
    row_lines: text::RowLines,
    checksums: bool,
}

impl<'o, W: Write> Walk<'o, W> {
    pub(super) fn new(filter: &'o Filter, format: Format, live: bool, out: &'o mut W) -> Self {
        Self {
            filter,
            format,
            out,
            summary: Summary::default(),
            live,
            decoder: EventDecoder::new(DecoderOptions::default()),
            payloads: PayloadReader::new(MAX_EVENT, MAX_PAYLOAD),
            inflater: None,
            tables: FxHashMap::default(),
            group: None,
            head: Held::default(),
            context: Held::default(),
            named: None,
            line: Vec::new(),
            row_lines: text::RowLines::default(),
            checksums: false,
        }
    }

    /// A new file or stream: nothing of the one before holds for it.
    pub(super) fn begin(&mut self, decoder: DecoderOptions) {
        self.checksums = decoder.stream_checksum == Some(Checksum::Crc32);
        self.decoder = EventDecoder::new(decoder);
        self.tables.clear();
        self.close();
    }

    /// The file that a ROTATE names, if it is a sound one.
    pub(super) fn next_file(&self, raw: &[u8]) -> Option<String> {
        match self.decoder.clone().decode(raw).ok()?.body {
            EventBody::Rotate(rotate) => Some(rotate.file.to_owned()),
            _ => None,
        }
    }

    pub(super) fn flush(&mut self) -> Result<(), Error> {
        Ok(self.out.flush()?)
    }

    /// Takes one event of the log. Before the user's start (`is_shown` false) it only follows what later events need.
    pub(super) fn raw(&mut self, raw: &[u8], place: Place<'_>, is_shown: bool) -> Result<Flow, Error> {
        let ty = raw.get(4).map(|code| EventType(*code));
        let failed = |source| place.error(ty, source);
        self.summary.read.add(place.bytes);
        if !is_shown && ty.is_some_and(|ty| is_rows(ty) || ty == EventType::TRANSACTION_PAYLOAD) {
            return Ok(Flow::Next);
        }
        let event = match self.decoder.decode(raw) {
            Ok(event) => event,
            // Whoever begins behind a damaged part wants to read what is behind it.
            Err(_) if !is_shown && ty != Some(EventType::FORMAT_DESCRIPTION) => return Ok(Flow::Next),
            Err(e) => return Err(failed(e)),
        };
        if let EventBody::FormatDescription(fde) = &event.body {
            self.checksums = fde.checksum == Checksum::Crc32;
        }
        add(&mut self.summary.checksums, u64::from(self.checksums));
        let mut inflater = None;
        // A statement is opened to know what it is; rows are when they are wanted.
        let event = if matches!(event.body, EventBody::CompressedQuery(_)) {
            event.inflate(inflater.insert(self.inflater.take().unwrap_or_else(new_inflater))).map_err(failed)?
        } else {
            event
        };
        let flow = self.event(&event, place, is_shown)?;
        if let EventBody::TransactionPayload(payload) = event.body
            && self.is_chosen(Role::Payload, &event)
        {
            // Taken out so that the rest can be borrowed beside it.
            let mut payloads = std::mem::replace(&mut self.payloads, PayloadReader::new(MAX_EVENT, MAX_PAYLOAD));
            let mut events = payloads.open(&payload).map_err(failed)?;
            while let Some(raw) = events.next_event().map_err(failed)? {
                let place = Place { inner: true, bytes: raw.len() as u64, ..place };
                let event = self.decoder.decode_inner(&raw);
                let event = event.map_err(|e| place.error(raw.get(4).map(|code| EventType(*code)), e))?;
                add(&mut self.summary.read.events, 1);
                self.event(&event, place, true)?;
            }
            self.payloads = payloads;
        }
        if inflater.is_some() {
            self.inflater = inflater;
        }
        Ok(flow)
    }

    fn event(&mut self, event: &Event<'_>, place: Place<'_>, is_shown: bool) -> Result<Flow, Error> {
        let (role, ends) = role(event, self.filter.tables.as_ref(), self.group.as_ref().map(|g| g.begun));
        if role == Role::Gtid || (role == Role::Begin && self.group.is_none()) {
            self.open(event);
            let past = |stop: When| transaction_time(event) >= stop;
            if self.live && self.filter.stop_time.is_some_and(past) {
                return Ok(Flow::Stop);
            }
        }
        if role == Role::Begin
            && let Some(group) = &mut self.group
        {
            group.begun = true;
        }
        if let EventBody::TableMap(map) = &event.body
            && (!is_shown || self.is_chosen(role, event))
        {
            self.table_map(map, event, place)?;
        }
        if is_shown && self.is_chosen(role, event) {
            self.show(role, event, place)?;
        }
        if ends {
            self.close();
        }
        Ok(Flow::Next)
    }

    /// Begins a transaction.
    fn open(&mut self, event: &Event<'_>) {
        self.close();
        let gtid = gtid_of(event);
        let chosen = self.filter.transaction(gtid, transaction_time(event));
        // MariaDB writes no BEGIN.
        let begun = matches!(&event.body, EventBody::MariaGtid(id) if id.flags & MariaGtidEvent::STANDALONE == 0);
        self.group = Some(Group { gtid: gtid.map(|id| id.to_string()), chosen, begun, shown: false });
    }

    fn close(&mut self) {
        self.group = None;
        self.head.clear();
        self.context.clear();
    }

    /// Whether the event's transaction is chosen; the table filter has its say later.
    fn is_chosen(&self, role: Role, event: &Event<'_>) -> bool {
        match (role, &self.group) {
            (Role::Log, _) => !self.filter.chooses_transactions(),
            (Role::Incident, _) => true,
            (_, Some(group)) => group.chosen,
            // Logs without GTID events: a statement is its own transaction.
            (_, None) => self.filter.transaction(None, When::from_seconds(event.header.timestamp)),
        }
    }

    fn show(&mut self, role: Role, event: &Event<'_>, place: Place<'_>) -> Result<(), Error> {
        let is_wanted = self.filter.event_type(event.header.event_type);
        if role == Role::Rows {
            return self.rows(event, place, is_wanted);
        }
        let is_filtered = self.filter.tables.is_some();
        let to = match role {
            Role::Gtid | Role::Begin | Role::Payload if is_filtered => To::Head,
            Role::Context if is_filtered => To::Context,
            Role::Statement(false) => {
                self.context.clear();
                return Ok(());
            }
            Role::Control | Role::End if is_filtered && !self.group.as_ref().is_some_and(|g| g.shown) => return Ok(()),
            _ => To::Out,
        };
        if let (EventBody::TableMap(map), true) = (&event.body, is_filtered)
            && self.tables.get(&map.table_id).is_none_or(|t| t.schema.is_none())
        {
            return Ok(());
        }
        if is_wanted { self.emit(event, place, to) } else { Ok(()) }
    }

    /// Writes an event without rows.
    fn emit(&mut self, event: &Event<'_>, place: Place<'_>, to: To) -> Result<(), Error> {
        let gtid = self.group.as_ref().and_then(|g| g.gtid.as_deref());
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        match self.format {
            Format::Text => text::event(event, place, gtid, None, &mut line),
            Format::Json => json::event(event, place, gtid, &mut line),
            Format::None => {}
        }
        let ty = event.header.event_type;
        let held = match to {
            To::Out => {
                self.flush_held(place)?;
                self.out.write_all(&line)?;
                self.count(ty, place.bytes, place.inner, event);
                None
            }
            To::Head => Some(&mut self.head),
            To::Context => Some(&mut self.context),
        };
        if let Some(held) = held {
            held.bytes.extend_from_slice(&line);
            held.events.push((ty, place.bytes, place.inner));
        }
        self.line = line;
        Ok(())
    }

    fn count(&mut self, ty: EventType, bytes: u64, inner: bool, event: &Event<'_>) {
        self.summary.show(ty, bytes, inner);
        match &event.body {
            EventBody::Ignored { rule } => self.summary.skip(rule),
            EventBody::IntVar(_) | EventBody::Rand(_) | EventBody::UserVar(_) => self.summary.skip("statement-context"),
            _ => {}
        }
    }

    /// What was held back for the event that comes now, and the file's name before anything of it.
    fn flush_held(&mut self, place: Place<'_>) -> Result<(), Error> {
        if self.format == Format::Text && self.named.as_deref() != Some(place.file) {
            writeln!(self.out, "# {}", Escaped(place.file.as_bytes()))?;
            self.named = Some(place.file.to_owned());
        }
        for held in [&mut self.head, &mut self.context] {
            self.out.write_all(&held.bytes)?;
            for (ty, bytes, inner) in held.events.drain(..) {
                self.summary.show(ty, bytes, inner);
            }
            held.bytes.clear();
        }
        if let Some(group) = &mut self.group
            && !group.shown
        {
            group.shown = true;
            add(&mut self.summary.transactions, 1);
        }
        Ok(())
    }

    fn table_map(&mut self, map: &TableMap<'_>, event: &Event<'_>, place: Place<'_>) -> Result<(), Error> {
        if self.tables.get(&map.table_id).is_some_and(|known| known.definition == map.definition()) {
            return Ok(());
        }
        if self.tables.len() >= MAX_TABLES {
            self.tables.clear();
        }
        let is_chosen = self.filter.tables.as_ref().is_none_or(|tables| tables.table(map.database, map.table));
        let (schema, number) = if is_chosen {
            let schema = map.schema().map_err(|e| place.error(Some(event.header.event_type), e))?;
            (Some(schema), self.summary.table(map.database, map.table))
        } else {
            (None, 0)
        };
        self.tables.insert(map.table_id, Table { definition: map.definition().to_vec(), schema, number });
        Ok(())
    }

    fn rows(&mut self, event: &Event<'_>, place: Place<'_>, is_wanted: bool) -> Result<(), Error> {
        let (table_id, statement_end) = match &event.body {
            EventBody::Rows(rows) => (rows.table_id, rows.is_statement_end()),
            EventBody::CompressedRows(rows) => (rows.table_id(), rows.is_statement_end()),
            _ => return Ok(()),
        };
        let ty = event.header.event_type;
        // Taken out so that the output can be borrowed beside it; put back below.
        let Some(table) = self.tables.remove(&table_id) else {
            let (file, offset) = (place.file.to_owned(), place.offset);
            return Err(Error::NoTable { file, offset, event: ty, table_id, live: self.live });
        };
        let done = match (&table.schema, &event.body) {
            (Some(schema), EventBody::Rows(rows)) if is_wanted => {
                self.show_rows(event, rows, schema, table.number, place)
            }
            (Some(schema), EventBody::CompressedRows(packed)) if is_wanted => {
                let mut inflater = self.inflater.take().unwrap_or_else(new_inflater);
                let rows = packed.open(&mut inflater).map_err(|e| place.error(Some(ty), e))?;
                let done = self.show_rows(event, &rows, schema, table.number, place);
                self.inflater = Some(inflater);
                done
            }
            _ => Ok(()),
        };
        if statement_end {
            self.context.clear();
        }
        self.tables.insert(table_id, table);
        done
    }

    fn show_rows(
        &mut self,
        event: &Event<'_>,
        rows: &RowsEvent<'_>,
        schema: &TableSchema,
        number: usize,
        place: Place<'_>,
    ) -> Result<(), Error> {
        self.flush_held(place)?;
        self.summary.show(event.header.event_type, place.bytes, place.inner);
        let gtid = self.group.as_ref().and_then(|g| g.gtid.as_deref());
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        let mut json = None;
        match self.format {
            Format::Text => {
                // Rows before a damaged one are shown; the number must not promise more.
                let count = rows.rows(schema).filter(Result::is_ok).count() as u64;
                text::event(event, place, gtid, Some((schema, count)), &mut line);
            }
            Format::Json => json = Some(json::RowLines::new(event, schema, place, gtid)),
            Format::None => {}
        }
        let (mut count, mut values, mut invalid) = (0u64, 0u64, 0u64);
        let mut visit = |row: &Row<'_, '_>| {
            for (_, value) in row.values() {
                black_box(value);
                values = values.wrapping_add(1);
            }
        };
        let mut failed = None;
        let mut whole = Vec::new();
        for change in rows.rows(schema) {
            let change = match change {
                Ok(change) => change,
                Err(e) => {
                    failed = Some(place.error(Some(event.header.event_type), e));
                    break;
                }
            };
            count = count.wrapping_add(1);
            match &change {
                RowChange::Insert(row) | RowChange::Delete(row) => visit(row),
                RowChange::Update { before, after } => {
                    visit(before);
                    visit(after);
                }
            }
            let change = match change {
                // Differences of JSON documents are shown as such where the documents are not in the log.
                RowChange::Update { before, after } => {
                    let after = after.complete(&before, &mut whole).unwrap_or(after);
                    RowChange::Update { before, after }
                }
                change => change,
            };
            let bad = match &mut json {
                Some(json) => json.change(&change, &mut line),
                None if self.format == Format::Text => self.row_lines.change(&change, place.inner, &mut line),
                None => 0,
            };
            invalid = invalid.wrapping_add(bad);
            self.out.write_all(&line)?;
            line.clear();
        }
        self.out.write_all(&line)?;
        self.line = line;
        self.summary.rows(number, rows.kind, count, values, place);
        if invalid > 0 {
            add(self.summary.skipped.entry("invalid-value").or_default(), invalid);
        }
        failed.map_or(Ok(()), Err)
    }
}

impl Held {
    fn clear(&mut self) {
        self.bytes.clear();
        self.events.clear();
    }
}

const fn is_rows(ty: EventType) -> bool {
    matches!(ty.0, 20..=25 | 30..=32 | 39 | 166..=172)
}

fn new_inflater() -> Inflater {
    Inflater::new(MAX_EVENT)
}
