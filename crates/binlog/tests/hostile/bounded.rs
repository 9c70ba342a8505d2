//! Every prefix and every single-byte edit of the fixtures: no panic, and memory and steps in proportion to the input.
//!
//! A fixture of at most 4 KiB is tried with all 255 other values of every byte; larger ones at 20,000 seeded places.

use std::collections::HashMap;
use std::sync::Arc;

use allocation_counter::measure;
use fastrand::Rng;
use millstream_binlog::event::{EventBody, Inflater, PayloadReader};
use millstream_binlog::{
    BinlogFile, ColumnValue, Decimal, DecoderOptions, Error, EventDecoder, Row, RowChange, TableSchema,
};

use super::common::fixtures;
use super::seal;

/// Peak memory of an event that is decoded and read to its last value: this much, and so much for each of its bytes.
const FIXED: usize = 2 << 10;
const PER_BYTE: usize = 128;
/// What a compressed event may open to here; opened bytes count as the event's.
const MAX_OPENED: usize = 2 << 20;
/// Beside them, the steps in which compressed events are opened (128 KiB), twice while a buffer moves, and zlib's own
/// state. zstd's is not seen from Rust: it is the window that the frame asks for, at most 128 MiB.
const OPENING: usize = 512 << 10;
/// What a file is read into, at first.
const FILE_BUFFER: usize = 256 << 10;
/// Events, rows, values and intervals per byte: a null bitmap has eight values in a byte.
const STEPS_PER_BYTE: usize = 8;

const SMALL: usize = 4 << 10;
const SAMPLES: usize = 20_000;

fn is_long() -> bool {
    std::env::var_os("MILLSTREAM_LONG").is_some()
}

/// What is kept from event to event.
struct State {
    decoder: EventDecoder,
    tables: HashMap<u64, Arc<TableSchema>>,
}

struct Tools {
    payloads: PayloadReader,
    inflater: Inflater,
}

impl Tools {
    fn new() -> Self {
        Self { payloads: PayloadReader::new(MAX_OPENED, MAX_OPENED as u64), inflater: Inflater::new(MAX_OPENED) }
    }
}

/// What was done for an event.
#[derive(Default)]
struct Work {
    steps: usize,
    opened: usize,
    compressed: bool,
    /// A table map that the event was.
    table: Option<(u64, Arc<TableSchema>)>,
}

impl Work {
    /// Decodes an event and reads all that is in it.
    fn event(
        &mut self,
        raw: &[u8],
        decoder: &mut EventDecoder,
        tables: &HashMap<u64, Arc<TableSchema>>,
        tools: &mut Tools,
    ) -> Result<(), Error> {
        self.compressed = (165..=171).contains(&raw.get(4).copied().unwrap_or(0));
        let event = decoder.decode(raw)?.inflate(&mut tools.inflater)?;
        match &event.body {
            EventBody::Rows(rows) if self.compressed => self.opened += rows.data().len(),
            EventBody::Query(query) if self.compressed => self.opened += query.sql.len(),
            _ => {}
        }
        self.body(&event.body, |id| tables.get(&id).cloned())?;
        if let EventBody::TransactionPayload(payload) = event.body {
            self.compressed = true;
            let mut inner = tools.payloads.open(&payload)?;
            let mut known = None;
            while let Some(raw) = inner.next_event()? {
                self.steps += 1;
                self.opened += raw.len();
                let event = decoder.decode_inner(&raw)?;
                let table = known.take();
                self.body(&event.body, |id| table.as_ref().filter(|(at, _)| *at == id).map(|(_, t)| Arc::clone(t)))?;
                known = self.table.take().or(table);
            }
        }
        Ok(())
    }

    fn body(&mut self, body: &EventBody<'_>, table: impl FnOnce(u64) -> Option<Arc<TableSchema>>) -> Result<(), Error> {
        match body {
            EventBody::TableMap(map) => {
                let schema = map.schema()?;
                self.steps += schema.columns.len();
                drop(map.resolve(&schema));
                self.table = Some((map.table_id, Arc::new(schema)));
            }
            EventBody::Rows(rows) => {
                let Some(schema) = table(rows.table_id) else { return Ok(()) };
                for change in rows.rows(&schema) {
                    self.steps += 1;
                    match change? {
                        RowChange::Insert(row) | RowChange::Delete(row) => self.row(row),
                        RowChange::Update { before, after } => {
                            self.row(before);
                            self.row(after);
                            let mut whole = Vec::new();
                            if let Ok(row) = after.complete(&before, &mut whole) {
                                self.row(row);
                            }
                        }
                    }
                }
            }
            EventBody::PreviousGtids(set) => self.steps += set.decode().map_or(0, |set| set.iter().count()),
            EventBody::GtidList(list) => self.steps += list.iter().count(),
            EventBody::Query(query) => self.steps += query.status.iter().count(),
            _ => {}
        }
        Ok(())
    }

    fn row(&mut self, row: Row<'_, '_>) {
        let mut out = Vec::new();
        for (_, value) in row.values() {
            self.steps += 1;
            out.clear();
            match value {
                ColumnValue::Json(json) => drop(json.write_to(&mut out).is_ok()),
                ColumnValue::JsonDiffs(diffs) => drop(diffs.write_to(&mut out).is_ok()),
                ColumnValue::Text { bytes, charset } => drop(charset.decode(bytes, &mut out).is_ok()),
                ColumnValue::Decimal { bytes, precision, scale } => {
                    Decimal { bytes, precision, scale }.write_to(&mut out)
                }
                ColumnValue::Compressed { value, .. } => {
                    self.compressed = true;
                    let _ = value.inflate(MAX_OPENED, &mut out);
                    self.opened += out.len();
                }
                _ => {}
            }
        }
    }
}

/// The most that was seen, to be told.
#[derive(Default)]
struct Most {
    tried: usize,
    bytes: usize,
    per_byte: usize,
    steps_per_byte: usize,
}

/// One event that may be damaged, measured. The result is the decoder after it, and what it was.
fn try_event(raw: &[u8], state: &State, tools: &mut Tools, most: &mut Most) -> Result<(EventDecoder, Work), Error> {
    let mut decoder = state.decoder.clone();
    let mut work = Work::default();
    let mut done = Ok(());
    let used = measure(|| done = work.event(raw, &mut decoder, &state.tables, tools));
    let peak = usize::try_from(used.bytes_max).unwrap();
    let size = raw.len() + work.opened;
    let opening = if work.compressed { OPENING + MAX_OPENED } else { 0 };
    assert!(peak <= FIXED + PER_BYTE * size + opening, "{peak} bytes for {size} of type {:?}", raw.get(4));
    // All that was ever allocated has its bound too: it stands for work that has no steps.
    let total = usize::try_from(used.bytes_total).unwrap();
    assert!(total <= 16 * (FIXED + PER_BYTE * size + opening), "{total} bytes for {size} of type {:?}", raw.get(4));
    assert!(work.steps <= 64 + STEPS_PER_BYTE * size, "{} steps for {size}", work.steps);
    most.tried += 1;
    if !work.compressed {
        most.bytes = most.bytes.max(peak);
        most.per_byte = most.per_byte.max(peak.saturating_sub(FIXED) / size.max(1));
    }
    most.steps_per_byte = most.steps_per_byte.max(work.steps / size.max(1));
    done.map(|()| (decoder, work))
}

/// An event in the place of the one at `at`, with what depends on it: rows on a table map, all on a format description.
fn try_in_place(events: &[Vec<u8>], at: usize, raw: &[u8], states: &[State], tools: &mut Tools, most: &mut Most) {
    let state = &states[at];
    let Ok((decoder, work)) = try_event(raw, state, tools, most) else { return };
    let follow = match raw[4] {
        15 => events.len(),
        19 => at + 2,
        _ => return,
    };
    let mut changed = State { decoder, tables: state.tables.clone() };
    changed.tables.extend(work.table);
    for next in &events[at + 1..follow.min(events.len())] {
        if let Ok((_, work)) = try_event(next, &changed, tools, most) {
            changed.tables.extend(work.table);
        }
    }
}

fn run(name: &str, log: &[u8]) -> Most {
    let mut file = BinlogFile::new(log, MAX_OPENED).unwrap();
    let mut events = Vec::new();
    while let Some(raw) = file.next().unwrap() {
        events.push(raw.bytes.to_vec());
    }
    let (mut tools, mut most) = (Tools::new(), Most::default());
    // What is known before each event, taken once: an edit is then one event's work.
    let mut states = vec![State { decoder: EventDecoder::new(DecoderOptions::default()), tables: HashMap::new() }];
    for raw in &events {
        let state = states.last().unwrap();
        let (decoder, work) = try_event(raw, state, &mut tools, &mut most).expect(name);
        let mut tables = state.tables.clone();
        tables.extend(work.table);
        states.push(State { decoder, tables });
    }
    let sealed = name != "types-nochecksum";
    let end = |raw: &[u8]| raw.len() - if sealed { 4 } else { 0 };

    let mut edit = |at: usize, byte: usize, value: u8, most: &mut Most| {
        let mut raw = events[at].clone();
        raw[byte] = value;
        if sealed {
            seal(&mut raw);
        }
        try_in_place(&events, at, &raw, &states, &mut tools, most);
    };
    let mut seeded = Rng::with_seed(0x2545_f491_4f6c_dd1d);
    // Where a byte of all the events is.
    let total: usize = events.iter().map(|raw| end(raw)).sum();
    let place = |mut n: usize| {
        for (at, raw) in events.iter().enumerate() {
            if n < end(raw) {
                return (at, n);
            }
            n -= end(raw);
        }
        unreachable!()
    };
    if log.len() <= SMALL {
        for n in 0..total {
            let (at, byte) = place(n);
            let was = events[at][byte];
            (0..=255).filter(|v| *v != was).for_each(|v| edit(at, byte, v, &mut most));
        }
    } else {
        for _ in 0..SAMPLES {
            let (at, byte) = place(seeded.usize(..total));
            edit(at, byte, seeded.u8(..), &mut most);
        }
    }

    let mut cut = |at: usize, end: usize, most: &mut Most| {
        let mut raw = events[at][..end].to_vec();
        if let Some(slot) = raw.get_mut(9..13) {
            slot.copy_from_slice(&u32::try_from(end).unwrap().to_le_bytes());
        }
        if sealed {
            seal(&mut raw);
        }
        if raw.len() >= 5 {
            try_in_place(&events, at, &raw, &states, &mut tools, most);
        } else {
            assert!(try_event(&raw, &states[at], &mut tools, most).is_err());
        }
    };
    let all = log.len() <= SMALL;
    for n in 0..if all { total } else { SAMPLES } {
        let (at, end) = place(if all { n } else { seeded.usize(..total) });
        cut(at, end, &mut most);
    }
    most
}

/// Conformance: P3
/// Bug: 116, 118, 119
#[test]
fn prefixes_and_edits_of_events_take_memory_and_steps_in_proportion() {
    for (name, log) in fixtures() {
        let most = run(&name, &log);
        println!(
            "{name}: {} tried, at most {} bytes, {} for each byte beyond {FIXED}, {} steps for each byte",
            most.tried, most.bytes, most.per_byte, most.steps_per_byte
        );
        assert!(most.tried > 1000);
    }
}

/// Framing alone; what is in the events is the other test's.
///
/// Conformance: P3
#[test]
fn prefixes_and_edits_of_files_take_memory_in_proportion() {
    let read = |log: &[u8]| {
        let mut events = 0;
        let used = measure(|| {
            let Ok(mut file) = BinlogFile::new(log, MAX_OPENED) else { return };
            while let Ok(Some(raw)) = file.next() {
                assert!(raw.bytes.len() >= 19);
                events += 1;
            }
        });
        // The buffer doubles when an event does not fit, and both are there while it moves.
        assert!(used.bytes_max as usize <= 2 * FILE_BUFFER + 4 * log.len(), "{}", used.bytes_max);
        assert!(events <= log.len() / 19);
    };
    let mut seeded = Rng::with_seed(0x9e37_79b9_7f4a_7c15);
    for (_, log) in fixtures() {
        let step = if is_long() || log.len() <= SMALL { 1 } else { 1 + log.len() / 500 };
        for end in (0..log.len()).step_by(step) {
            read(&log[..end]);
        }
        let mut edited = log.clone();
        for at in (0..log.len()).step_by(step) {
            edited[at] = seeded.u8(..);
            read(&edited);
            edited[at] = log[at];
        }
    }
}
