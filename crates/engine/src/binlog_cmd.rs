//! `millstream binlog FILE…`: prints or counts the events of binlog files. With [`Format::None`] and statistics it is the
//! decoder's bench: every checksum is checked and every value is visited.
//!
//! Nothing is left out silently: an event is shown, or skipped by a rule with a name that the statistics list, or it
//! ends the run with its file and offset.

use std::collections::BTreeMap;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use millstream_binlog::event::{Event, EventBody, Inflater, PayloadReader, RowsEvent, RowsKind, TableMap};
use millstream_binlog::{BinlogFile, DecoderOptions, EventDecoder, EventType, Row, RowChange, TableSchema};
use rustc_hash::FxHashMap;

mod json;
mod text;

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the command line offers these three")]
pub enum Format {
    /// One line per event, for people.
    Text,
    /// One JSON object per line, rows with their values.
    Json,
    /// Nothing, but everything is read.
    None,
}

/// What was read.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Events, those inside compressed transactions included.
    pub events: u64,
    /// Row changes.
    pub rows: u64,
    /// Column values; an update has two images.
    pub values: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Events per type.
    pub types: BTreeMap<EventType, u64>,
    /// Events and values that were passed over, per rule.
    pub skipped: BTreeMap<&'static str, u64>,
    /// Time it took.
    pub elapsed: Duration,
}

/// A file that could not be read to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened.
    #[error("{}: cannot be opened", file.display())]
    Open {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// An event cannot be decoded.
    #[error("{}: event at offset {offset}", file.display())]
    Event {
        /// The file.
        file: PathBuf,
        /// Where the event begins; of a compressed transaction the outer one.
        offset: u64,
        /// Why.
        source: millstream_binlog::Error,
    },
    /// A row event whose table the file has not named.
    #[error("{}: event at offset {offset}: rows of table id {table_id}, which no TABLE_MAP before it names", file.display())]
    NoTable {
        /// The file.
        file: PathBuf,
        /// Where the event begins.
        offset: u64,
        /// The id.
        table_id: u64,
    },
    /// The output cannot be written.
    #[error("cannot write the output")]
    Output(#[from] io::Error),
}

impl Error {
    /// Whether the reader of the output has gone away: not worth a message.
    #[must_use]
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(e) if e.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// The server's own limit.
const MAX_EVENT: usize = 1 << 30;
/// An opened transaction; it is read event by event, so this is not memory.
const MAX_PAYLOAD: u64 = 1 << 40;
/// Tables kept at a time. Files with more only parse some of their maps again.
const MAX_TABLES: usize = 10_000;

/// Reads `files` one after the other and writes their events to `out`, then the statistics if asked for.
pub fn run(files: &[PathBuf], format: Format, stats: bool, out: &mut impl Write) -> Result<Summary, Error> {
    #[allow(clippy::disallowed_methods, reason = "the speed of reading is what the statistics show")]
    let start = Instant::now();
    let mut reader = Reader { format, out, summary: Summary::default(), tables: FxHashMap::default(), shown: None };
    for file in files {
        reader.file(file)?;
    }
    let Reader { mut summary, .. } = reader;
    summary.elapsed = start.elapsed();
    if stats {
        match format {
            Format::Json => json::statistics(&summary, out)?,
            Format::Text | Format::None => text::statistics(&summary, out)?,
        }
    }
    out.flush()?;
    Ok(summary)
}

/// Where an event lies.
#[derive(Clone, Copy, Debug)]
struct Place<'a> {
    file: &'a Path,
    offset: u64,
    end: u64,
    /// Inside a compressed transaction.
    inner: bool,
}

impl Place<'_> {
    fn error(&self, source: millstream_binlog::Error) -> Error {
        Error::Event { file: self.file.to_owned(), offset: self.offset, source }
    }
}

/// A table with the map it was made from: an equal map needs no parsing.
struct Table {
    definition: Vec<u8>,
    schema: TableSchema,
}

struct Reader<'o, W> {
    format: Format,
    out: &'o mut W,
    summary: Summary,
    tables: FxHashMap<u64, Table>,
    /// The file whose name the text shows already.
    shown: Option<PathBuf>,
}

impl<W: Write> Reader<'_, W> {
    fn file(&mut self, path: &Path) -> Result<(), Error> {
        let input = File::open(path).map_err(|source| Error::Open { file: path.to_owned(), source })?;
        let failed = |offset, source| Error::Event { file: path.to_owned(), offset, source };
        let mut file = BinlogFile::new(input, MAX_EVENT).map_err(|e| failed(0, e))?;
        let mut decoder = EventDecoder::new(DecoderOptions::default());
        let mut payloads = PayloadReader::new(MAX_EVENT, MAX_PAYLOAD);
        let mut inflater = Inflater::new(MAX_EVENT);
        self.tables.clear();
        loop {
            let offset = file.offset();
            let Some(raw) = file.next().map_err(|e| failed(offset, e))? else { break };
            let end = offset.saturating_add(raw.bytes.len() as u64);
            let place = Place { file: path, offset, end, inner: false };
            let event = decoder.decode(raw.bytes).and_then(|e| e.inflate(&mut inflater));
            let event = event.map_err(|e| place.error(e))?;
            self.event(&event, place)?;
            if let EventBody::TransactionPayload(payload) = event.body {
                let place = Place { inner: true, ..place };
                let mut events = payloads.open(&payload).map_err(|e| place.error(e))?;
                while let Some(raw) = events.next_event().map_err(|e| place.error(e))? {
                    let event = decoder.decode_inner(&raw).map_err(|e| place.error(e))?;
                    self.event(&event, place)?;
                }
            }
        }
        self.summary.bytes = self.summary.bytes.saturating_add(file.offset());
        Ok(())
    }

    fn event(&mut self, event: &Event<'_>, place: Place<'_>) -> Result<(), Error> {
        add(&mut self.summary.events, 1);
        add(self.summary.types.entry(event.header.event_type).or_default(), 1);
        match &event.body {
            EventBody::TableMap(map) => self.table_map(map, place)?,
            EventBody::Rows(rows) => return self.rows(event, rows, place),
            EventBody::Ignored { rule } => self.skip(rule),
            EventBody::PartialUpdateRows { .. } => self.skip("partial-update-rows"),
            EventBody::IntVar(_) | EventBody::Rand(_) | EventBody::UserVar(_) => self.skip("statement-context"),
            _ => {}
        }
        match self.format {
            Format::Text => {
                self.name_file(place)?;
                text::event(event, place, None, self.out)?;
            }
            Format::Json => json::event(event, place, self.out)?,
            Format::None => {}
        }
        Ok(())
    }

    /// A line with the file's name before its first event.
    fn name_file(&mut self, place: Place<'_>) -> io::Result<()> {
        if self.shown.as_deref() != Some(place.file) {
            writeln!(self.out, "# {}", text::Escaped(place.file.to_string_lossy().as_bytes()))?;
            self.shown = Some(place.file.to_owned());
        }
        Ok(())
    }

    fn skip(&mut self, rule: &'static str) {
        add(self.summary.skipped.entry(rule).or_default(), 1);
    }

    fn table_map(&mut self, map: &TableMap<'_>, place: Place<'_>) -> Result<(), Error> {
        if self.tables.get(&map.table_id).is_some_and(|known| known.definition == map.definition()) {
            return Ok(());
        }
        if self.tables.len() >= MAX_TABLES {
            self.tables.clear();
        }
        let schema = map.schema().map_err(|e| place.error(e))?;
        self.tables.insert(map.table_id, Table { definition: map.definition().to_vec(), schema });
        Ok(())
    }

    fn rows(&mut self, event: &Event<'_>, rows: &RowsEvent<'_>, place: Place<'_>) -> Result<(), Error> {
        // Taken out so that the output can be borrowed beside it; put back below.
        let Some(table) = self.tables.remove(&rows.table_id) else {
            return Err(Error::NoTable { file: place.file.to_owned(), offset: place.offset, table_id: rows.table_id });
        };
        let done = match self.format {
            Format::Json => self.rows_json(event, rows, &table.schema, place),
            Format::Text | Format::None => self.count_rows(rows, &table.schema, place),
        };
        if done.is_ok() && self.format == Format::Text {
            self.name_file(place)?;
            text::event(event, place, Some((&table.schema, done.as_ref().copied().unwrap_or(0))), self.out)?;
        }
        self.tables.insert(rows.table_id, table);
        done.map(|_| ())
    }

    /// Visits every value and returns the number of row changes.
    fn count_rows(&mut self, rows: &RowsEvent<'_>, schema: &TableSchema, place: Place<'_>) -> Result<u64, Error> {
        let (mut count, mut values) = (0u64, 0u64);
        let mut visit = |row: Row<'_, '_>| {
            for (_, value) in row.values() {
                black_box(value);
                values = values.wrapping_add(1);
            }
        };
        for change in rows.rows(schema) {
            match change.map_err(|e| place.error(e))? {
                RowChange::Insert(row) | RowChange::Delete(row) => visit(row),
                RowChange::Update { before, after } => {
                    visit(before);
                    visit(after);
                }
            }
            count = count.wrapping_add(1);
        }
        add(&mut self.summary.rows, count);
        add(&mut self.summary.values, values);
        Ok(count)
    }

    fn rows_json(
        &mut self,
        event: &Event<'_>,
        rows: &RowsEvent<'_>,
        schema: &TableSchema,
        place: Place<'_>,
    ) -> Result<u64, Error> {
        let counts = self.count_rows(rows, schema, place)?;
        let mut line = json::RowsLine::new(event, schema, rows.is_statement_end(), place);
        for change in rows.rows(schema) {
            line.change(&change.map_err(|e| place.error(e))?);
        }
        for _ in 0..line.invalid_values() {
            self.skip("invalid-value");
        }
        line.write_to(self.out)?;
        Ok(counts)
    }
}

fn add(counter: &mut u64, n: u64) {
    *counter = counter.saturating_add(n);
}

/// Per second.
struct Rates {
    bytes: f64,
    rows: f64,
}

impl Rates {
    #[allow(clippy::cast_precision_loss, reason = "for people")]
    fn of(summary: &Summary) -> Self {
        let seconds = summary.elapsed.as_secs_f64().max(1e-9);
        Self { bytes: summary.bytes as f64 / seconds, rows: summary.rows as f64 / seconds }
    }
}

const fn kind_name(kind: RowsKind) -> &'static str {
    match kind {
        RowsKind::Write => "write",
        RowsKind::Update => "update",
        RowsKind::Delete => "delete",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../binlog/tests/fixtures").join(name)
    }

    fn printed(name: &str, format: Format, stats: bool) -> (Summary, String) {
        let mut out = Vec::new();
        let summary = run(&[fixture(name)], format, stats, &mut out).unwrap();
        (summary, String::from_utf8(out).unwrap())
    }

    #[test]
    fn every_event_has_one_line_of_text() {
        let (summary, text) = printed("xa.bin", Format::Text, false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len() as u64, summary.events + 1);
        assert!(lines[0].starts_with("# ") && lines[0].ends_with("xa.bin"));
        assert!(lines[1].contains("FORMAT_DESCRIPTION") && lines[1].contains("9.7.4"), "{}", lines[1]);
        assert!(text.contains("XA_PREPARE"));
        assert!(text.lines().any(|l| l.contains("WRITE_ROWS") && l.contains("1 row")));
    }

    #[test]
    fn every_line_of_json_is_an_object_and_rows_have_values() {
        for entry in std::fs::read_dir(fixture("")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if !name.ends_with(".bin") {
                continue;
            }
            let (summary, text) = printed(&name, Format::Json, false);
            let lines: Vec<serde_json::Value> =
                text.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{name}: {e}: {l}"))).collect();
            assert_eq!(lines.len() as u64, summary.events, "{name}");
            let rows: usize = lines.iter().filter_map(|l| l["rows"].as_array()).map(Vec::len).sum();
            assert_eq!(rows as u64, summary.rows, "{name}");
        }
        let (_, text) = printed("metadata-full.bin", Format::Json, false);
        let line = text.lines().find(|l| l.contains("WRITE_ROWS")).unwrap();
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!((line["db"].as_str(), line["table"].as_str()), (Some("m"), Some("every_type")));
        let after = &line["rows"][0]["after"];
        for (column, value) in [
            ("id", r#""18446744073709551615""#),
            ("t", "-128"),
            ("f", "1.1"),
            ("de", r#""-12345678901234.567890""#),
            ("ti", r#""-838:59:59.000""#),
            ("ts", r#""2038-01-19 03:14:07.9""#),
            ("cl", r#""é""#),
            ("vg", r#""中文""#),
            ("bn", r#""00112233445566778899aabbccdd0000""#),
            ("e", r#""ü""#),
            ("st", r#""p,é""#),
            ("j", r#""{\"a\": [1, 2.0, \"x\"]}""#),
            ("bi", r#""257""#),
        ] {
            assert_eq!(after[column].to_string(), value, "{column}");
        }
    }

    #[test]
    fn all_formats_count_the_same() {
        for name in ["compression-zstd.bin", "types-minimal-image.bin", "partial-json-fullimage.bin", "statement.bin"] {
            let counts = |format| {
                let (s, _) = printed(name, format, true);
                (s.events, s.rows, s.values, s.bytes, s.types, s.skipped)
            };
            let text = counts(Format::Text);
            assert_eq!(text, counts(Format::None), "{name}");
            assert_eq!(text, counts(Format::Json), "{name}");
            assert_eq!(text.3, std::fs::metadata(fixture(name)).unwrap().len());
        }
        let (s, text) = printed("statement.bin", Format::None, true);
        assert!(s.skipped["statement-context"] > 0, "{:?}", s.skipped);
        assert!(text.contains("statement-context"), "{text}");
    }

    #[test]
    fn a_damaged_file_is_named_with_the_offset() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("damaged.bin");
        let mut bytes = std::fs::read(fixture("xa.bin")).unwrap();
        let at = bytes.len() - 10;
        bytes[at] ^= 1;
        std::fs::write(&file, &bytes).unwrap();
        let error = run(std::slice::from_ref(&file), Format::None, true, &mut Vec::new()).unwrap_err();
        let Error::Event { offset, source, .. } = &error else { panic!("{error:?}") };
        assert!(*offset > 2000 && source.is_checksum(), "{error}: {source}");
        assert!(error.to_string().contains("damaged.bin") && error.to_string().contains(&offset.to_string()));

        std::fs::write(&file, &bytes[..100]).unwrap();
        assert!(matches!(run(&[file], Format::None, false, &mut Vec::new()), Err(Error::Event { offset: 4, .. })));
        let missing = run(&[dir.path().join("none")], Format::None, false, &mut Vec::new());
        assert!(matches!(missing, Err(Error::Open { .. })));
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(text::Escaped(b"a\x1b[31m\n\xffb").to_string(), "a\\u{1b}[31m\\n\u{fffd}b");
    }
}
