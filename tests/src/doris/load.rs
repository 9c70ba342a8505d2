//! The body of a Stream Load: lines in, checked rows out (doris.md 6.6, 7.1, 7.2).

use super::json::{ObjectReader, Slot, parse_error, skip_ws};
use super::partial::Found;
use super::plan::{Format, Plan, Source, cast_refused, default_of, null_refused, too_long};
use super::row::{Batch, Mark, put_value};
use super::table::{Data, Model, Schema};
use super::types::Reject;
use std::sync::Arc;

/// Lines of an error page that are kept.
const ERROR_LINES: usize = 200;

/// Turns a body's bytes into a [`Batch`].
pub(crate) struct Loader {
    schema: Arc<Schema>,
    plan: Plan,
    reader: ObjectReader,
    fallbacks: Vec<Option<Source>>,
    now_text: String,
    counting: bool,
    /// Bytes of an unfinished line.
    rest: Vec<u8>,
    cell: Vec<u8>,
    delete_sign: Option<usize>,
    pub(crate) batch: Batch,
    pub(crate) total: u64,
    pub(crate) filtered: u64,
    force_filter: u64,
    skip: u64,
    pub(crate) errors: Vec<String>,
    /// The load has some columns only.
    found: Option<Found>,
}

impl Loader {
    /// `force_filter` leading rows are filtered whatever they hold (F24).
    pub(crate) fn new(schema: Arc<Schema>, plan: Plan, counting: bool, force_filter: u64, now_text: String) -> Self {
        let fallbacks = schema.columns.iter().map(|c| default_of(c.nullable, c.default.as_ref())).collect();
        let skip = if plan.format == Format::Csv { plan.skip_lines } else { 0 };
        Self {
            reader: ObjectReader::new(plan.fields.iter().cloned()),
            delete_sign: schema.delete_sign(),
            fallbacks,
            schema,
            plan,
            now_text,
            counting,
            rest: Vec::new(),
            cell: Vec::new(),
            batch: Batch::default(),
            total: 0,
            filtered: 0,
            force_filter,
            skip,
            errors: Vec::new(),
            found: None,
        }
    }

    /// A load of some columns finds these rows of the table.
    pub(crate) fn find(&mut self, rows: &Data) {
        if let (Some(partial), Data::Unique(rows)) = (self.plan.partial.clone(), rows) {
            self.batch.stored = Some(partial.stored.clone());
            self.found = Some(Found { partial, rows: rows.clone() });
        }
    }

    /// The share of rows that may be filtered.
    pub(crate) fn max_filter_ratio(&self) -> f64 {
        self.plan.max_filter_ratio
    }

    /// Takes all of `chunk`.
    pub(crate) fn push(&mut self, chunk: &mut Vec<u8>) {
        if self.plan.format == Format::Json && !self.plan.by_line {
            self.rest.append(chunk);
            return;
        }
        let delimiter =
            if self.plan.format == Format::Json { b"\n".to_vec() } else { self.plan.line_delimiter.clone() };
        let mut work = std::mem::take(&mut self.rest);
        if work.is_empty() {
            std::mem::swap(&mut work, chunk);
        } else {
            work.append(chunk);
        }
        let mut start = 0;
        for at in memchr::memmem::find_iter(&work, &delimiter) {
            // Overlapping matches cannot happen: find_iter moves past each one.
            self.line(&work[start..at]);
            start = at + delimiter.len();
        }
        work.drain(..start);
        self.rest = work;
        chunk.clear();
    }

    /// The body ended.
    pub(crate) fn finish(&mut self) {
        let rest = std::mem::take(&mut self.rest);
        if self.plan.format == Format::Json && !self.plan.by_line {
            self.whole(&rest);
        } else if !rest.is_empty() {
            self.line(&rest);
        }
        self.batch.shrink();
    }

    fn filter(&mut self, reason: &str, line: &[u8]) {
        self.filtered += 1;
        if self.errors.len() < ERROR_LINES {
            let shown = String::from_utf8_lossy(&line[..line.len().min(1024)]).into_owned();
            self.errors.push(format!("Reason: {reason}. src line [{shown}]; "));
        }
    }

    fn line(&mut self, line: &[u8]) {
        if self.skip > 0 {
            self.skip -= 1;
            return;
        }
        if line.is_empty() {
            return;
        }
        if self.counting {
            self.total += 1;
            self.batch.counted += 1;
            return;
        }
        match self.plan.format {
            Format::Csv => self.csv_line(line),
            Format::Json if line.iter().all(u8::is_ascii_whitespace) => {}
            Format::Json if self.plan.strip_outer_array => self.array(line),
            Format::Json => {
                self.total += 1;
                let read = self.reader.read_line(line);
                match read.and_then(|()| self.json_row(line)) {
                    Ok(()) => {}
                    Err(reason) => self.filter(&reason, line),
                }
            }
        }
    }

    /// A body that is one JSON value.
    fn whole(&mut self, text: &[u8]) {
        if self.plan.strip_outer_array {
            self.array(text);
        } else if !text.iter().all(u8::is_ascii_whitespace) {
            self.total += 1;
            let read = self.reader.read_line(text);
            if let Err(reason) = read.and_then(|()| self.json_row(text)) {
                self.filter(&reason, text);
            }
        }
    }

    fn array(&mut self, text: &[u8]) {
        if let Err(reason) = self.try_array(text) {
            self.total += 1;
            self.filter(&reason, text);
        }
    }

    fn try_array(&mut self, text: &[u8]) -> Result<(), String> {
        std::str::from_utf8(text).map_err(|_| parse_error("UTF8_ERROR: The input is not valid UTF-8"))?;
        let mut at = skip_ws((text, 0));
        if text.get(at) != Some(&b'[') {
            return Err("JSON data is not an array-object, `strip_outer_array` must be FALSE.".into());
        }
        at = skip_ws((text, at + 1));
        if text.get(at) == Some(&b']') {
            return Err("Empty json line".into());
        }
        loop {
            let end = self.reader.read_object(text, at)?;
            self.total += 1;
            if let Err(reason) = self.json_row(text) {
                self.filter(&reason, &text[at..end]);
            }
            at = skip_ws((text, end));
            match text.get(at) {
                Some(b',') => at = skip_ws((text, at + 1)),
                Some(b']') => return Ok(()),
                _ => return Err(parse_error("TAPE_ERROR: the array is not closed")),
            }
        }
    }

    /// Makes a row of what the reader holds.
    fn json_row(&mut self, line: &[u8]) -> Result<(), String> {
        let reader = std::mem::replace(&mut self.reader, ObjectReader::new([]));
        let made = self.row(|i| match reader.slots[i] {
            Slot::Missing => None,
            _ => Some(reader.text(line, i)),
        });
        self.reader = reader;
        made
    }

    fn csv_line(&mut self, line: &[u8]) {
        self.total += 1;
        let mut line = line.strip_suffix(b"\r").unwrap_or(line);
        if self.total == 1 {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if std::str::from_utf8(line).is_err() {
            self.filter("Invalid file encoding: all CSV files must be UTF-8 encoded", line);
            return;
        }
        let mut cells: Vec<&[u8]> = Vec::with_capacity(self.plan.fields.len());
        let mut start = 0;
        for at in memchr::memmem::find_iter(line, &self.plan.column_separator) {
            cells.push(&line[start..at]);
            start = at + self.plan.column_separator.len();
        }
        cells.push(&line[start..]);
        if cells.len() != self.plan.fields.len() {
            let reason = format!(
                "Column count mismatch: expected {}, but found {} (sep:{} delim:{})",
                self.plan.fields.len(),
                cells.len(),
                self.plan.column_separator.escape_ascii(),
                self.plan.line_delimiter.escape_ascii(),
            );
            self.filter(&reason, line);
            return;
        }
        let made = self.row(|i| Some(if cells[i] == b"\\N" { None } else { Some(cells[i]) }));
        if let Err(reason) = made {
            self.filter(&reason, line);
        }
    }

    /// Writes a row; `field` gives a source field: None if it is not there, Some(None) for NULL.
    fn row<'a>(&mut self, field: impl Fn(usize) -> Option<Option<&'a [u8]>>) -> Result<(), String> {
        if self.filtered < self.force_filter {
            return Err("filtered by knob F24".into());
        }
        let mut made = self.values(field);
        if let (Ok(mark), Some(found)) = (&made, &self.found) {
            let mut key = Vec::new();
            self.schema.key_of(self.batch.unfinished(), &mut key);
            if let Err(reason) = found.check(&self.schema, &key, mark.deleted) {
                made = Err(reason);
            }
        }
        match made {
            Ok(mark) if self.schema.model == Model::Unique => {
                let schema = &self.schema;
                self.batch.end_keyed_row(mark, |row, out| schema.key_of(row, out));
            }
            Ok(_) => self.batch.end_row(),
            Err(_) => self.batch.drop_row(),
        }
        made.map(|_| ())
    }

    fn values<'a>(&mut self, field: impl Fn(usize) -> Option<Option<&'a [u8]>>) -> Result<Mark, String> {
        let mut mark = Mark::default();
        let schema = &self.schema;
        let out = self.batch.row_buffer();
        for (c, column) in schema.columns.iter().enumerate() {
            let mut source = &self.plan.sources[c];
            let mut given = None;
            if let Source::Field(i) = source {
                given = field(*i);
                if given.is_none() {
                    source = self.fallbacks[c].as_ref().ok_or_else(|| null_refused(&column.name, &column.ty))?;
                }
            }
            let value: Option<&[u8]> = match (given, source) {
                (Some(v), _) => v,
                (None, Source::Constant(v)) => v.as_ref().map(|v| v.as_bytes()),
                (None, Source::Now) => Some(self.now_text.as_bytes()),
                (None, _) => None,
            };
            let mut value = match value {
                None => None,
                Some(v) => {
                    self.cell.clear();
                    match column.ty.cast(v, &mut self.cell) {
                        Ok(()) => Some(self.cell.as_slice()),
                        Err(Reject::TooLong { max }) if self.plan.strict => {
                            return Err(too_long(&column.name, v, max));
                        }
                        Err(Reject::TooLong { max }) => {
                            self.cell.clear();
                            let text = std::str::from_utf8(v).unwrap_or("");
                            let end = (0..=max).rev().find(|n| text.is_char_boundary(*n)).unwrap_or(0);
                            self.cell.extend_from_slice(&text.as_bytes()[..end]);
                            Some(self.cell.as_slice())
                        }
                        Err(Reject::Cast) if self.plan.strict || !column.nullable => {
                            return Err(cast_refused(&column.name, &column.ty, v)
                                .replace("{}", if self.plan.strict { "true" } else { "false" }));
                        }
                        Err(Reject::Cast) => None,
                    }
                }
            };
            let stored = self.plan.partial.as_ref().is_some_and(|p| p.stored[c]);
            if value.is_none() && !column.nullable && !stored {
                if Some(c) == self.delete_sign {
                    value = Some(b"0");
                } else {
                    return Err(null_refused(&column.name, &column.ty));
                }
            }
            if Some(c) == self.delete_sign {
                mark.deleted = value.is_some_and(|v| v != b"0");
            }
            if Some(c) == schema.sequence {
                mark.sequence = value.map_or(i64::MIN, |v| column.ty.sequence_value(v));
            }
            put_value(out, value);
        }
        Ok(mark)
    }
}
