//! Lines for people: one per event, and one per row change under it.

use std::fmt;
use std::io::Write;

use millstream_binlog::event::{Checksum, Event, EventBody, MariaGtidEvent, TwoPhaseAlter};
use millstream_binlog::{Column, ColumnValue, Row, RowChange, TableSchema};

use super::Place;
use super::value::{self, Form};
use super::when::When;

/// Bytes as text on one line: invalid UTF-8 replaced, control characters escaped.
pub(super) struct Escaped<'a>(pub(super) &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                // Bidirectional and other format characters could disguise text as well.
                if c.is_control()
                    || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
                {
                    write!(f, "{}", c.escape_default())?;
                } else {
                    fmt::Write::write_char(f, c)?;
                }
            }
            if !chunk.invalid().is_empty() {
                f.write_str("\u{fffd}")?;
            }
        }
        Ok(())
    }
}

/// Appends; a Vec takes everything.
macro_rules! put {
    ($out:expr, $($arg:tt)*) => {
        let _written = write!($out, $($arg)*);
    };
}

/// `offset-end, time, type, details, GTID`, with tabs between; `rows` are the table and the number of a row event.
pub(super) fn event(
    event: &Event<'_>,
    place: Place<'_>,
    gtid: Option<&str>,
    rows: Option<(&TableSchema, u64)>,
    out: &mut Vec<u8>,
) {
    let header = &event.header;
    put!(out, "{}{}-{}\t", if place.inner { "  " } else { "" }, place.offset, place.end);
    if header.timestamp == 0 {
        out.push(b'-');
    } else {
        put!(out, "{}", When::from_seconds(header.timestamp));
    }
    put!(out, "\t{}", header.event_type.name());
    details(&event.body, rows, out);
    if let Some(gtid) = gtid {
        put!(out, "\t{gtid}");
    }
    out.push(b'\n');
}

fn details(body: &EventBody<'_>, rows: Option<(&TableSchema, u64)>, out: &mut Vec<u8>) {
    match body {
        EventBody::FormatDescription(fde) => {
            let checksum = if fde.checksum == Checksum::Crc32 { "crc32" } else { "none" };
            put!(out, "\tserver {}, checksum {checksum}", Escaped(fde.server_version.as_bytes()));
        }
        EventBody::Rotate(rotate) => {
            put!(out, "\tto {}:{}", Escaped(rotate.file.as_bytes()), rotate.position);
        }
        EventBody::Gtid(gtid) => {
            if gtid.gtid.is_none() {
                put!(out, "\tanonymous, ");
            } else {
                out.push(b'\t');
            }
            if gtid.immediate_commit_micros > 0 {
                put!(out, "committed {}, ", When(gtid.immediate_commit_micros));
            }
            put!(out, "after {}, sequence {}", gtid.last_committed, gtid.sequence_number);
            if gtid.transaction_length > 0 {
                put!(out, ", {} bytes", gtid.transaction_length);
            }
        }
        EventBody::PreviousGtids(set) => match set.decode() {
            Ok(set) => {
                put!(out, "\t{set}");
            }
            Err(e) => {
                put!(out, "\tinvalid: {e}");
            }
        },
        EventBody::Query(query) | EventBody::ExecuteLoadQuery(query) => {
            put!(out, "\t[{}] {}", Escaped(query.schema), Escaped(&super::sql_text(query)));
            if query.error_code != 0 {
                put!(out, " (failed with error {})", query.error_code);
            }
        }
        EventBody::RowsQuery(sql) => {
            put!(out, "\t{}", Escaped(sql));
        }
        EventBody::Xid(xid) => {
            put!(out, "\t{xid}");
        }
        EventBody::XaPrepare(xa) => {
            put!(out, "\t{xa}{}", if xa.one_phase { ", one phase: committed" } else { "" });
        }
        EventBody::TableMap(map) => {
            let (database, table) = (Escaped(map.database.as_bytes()), Escaped(map.table.as_bytes()));
            put!(out, "\t{} is {database}.{table}", map.table_id);
        }
        EventBody::Rows(event) => row_event(rows, event.is_statement_end(), out),
        EventBody::CompressedRows(event) => row_event(rows, event.is_statement_end(), out),
        EventBody::TransactionPayload(payload) => {
            put!(out, "\t{:?}, {} bytes", payload.compression, payload.compressed_len());
            if let Some(size) = payload.uncompressed_size {
                put!(out, ", {size} when opened");
            }
        }
        EventBody::Heartbeat(heartbeat) => {
            put!(out, "\tat {}:{}", Escaped(heartbeat.file.as_bytes()), heartbeat.position);
        }
        EventBody::MariaGtid(gtid) => maria_gtid(gtid, out),
        EventBody::GtidList(list) => {
            for (i, gtid) in list.iter().enumerate() {
                put!(out, "{}{gtid}", if i == 0 { "\t" } else { "," });
            }
        }
        EventBody::BinlogCheckpoint(file) => {
            put!(out, "\t{}", Escaped(file.as_bytes()));
        }
        EventBody::StartEncryption(start) => {
            put!(out, "\tkey version {}", start.key_version);
        }
        EventBody::IntVar(var) => {
            put!(out, "\t{:?} {}", var.kind, var.value);
        }
        EventBody::Rand(rand) => {
            put!(out, "\tseeds {:?}", rand.seeds);
        }
        EventBody::UserVar(var) => {
            put!(out, "\t@{}", Escaped(var.name));
            match &var.value {
                Some(value) => {
                    put!(out, ", {:?} of {} bytes", value.kind, value.bytes.len());
                }
                None => out.extend_from_slice(b" is NULL"),
            }
        }
        EventBody::Incident { number, message } => {
            put!(out, "\t{number}: {}", Escaped(message));
        }
        EventBody::Ignored { rule } => {
            put!(out, "\tskipped: {rule}");
        }
        _ => {}
    }
}

fn row_event(rows: Option<(&TableSchema, u64)>, statement_end: bool, out: &mut Vec<u8>) {
    if let Some((schema, count)) = rows {
        let (database, table) = (Escaped(schema.database.as_bytes()), Escaped(schema.table.as_bytes()));
        put!(out, "\t{database}.{table}: {count} row{}", if count == 1 { "" } else { "s" });
    }
    if statement_end {
        out.extend_from_slice(b", end of statement");
    }
}

/// The id itself stands at the end of the line, as in every line of the transaction.
fn maria_gtid(event: &MariaGtidEvent<'_>, out: &mut Vec<u8>) {
    let mut between = "\t";
    let mut part = |text: String| {
        put!(out, "{between}{text}");
        between = ", ";
    };
    if let Some(id) = event.commit_id {
        part(format!("committed with group {id}"));
    }
    if let Some(xid) = &event.xid {
        let prepares = event.flags & MariaGtidEvent::PREPARED_XA != 0;
        part(format!("{} XA {xid}", if prepares { "prepares" } else { "ends" }));
    }
    match event.alter {
        Some(TwoPhaseAlter::Start) => part("ALTER starts".to_owned()),
        Some(TwoPhaseAlter::Commit { start }) => part(format!("ALTER of {start} is done")),
        Some(TwoPhaseAlter::Rollback { start }) => part(format!("ALTER of {start} failed")),
        None => {}
    }
    for (bit, name) in [
        (MariaGtidEvent::STANDALONE, "standalone"),
        (MariaGtidEvent::TRANSACTIONAL, "transactional"),
        (MariaGtidEvent::DDL, "DDL"),
    ] {
        if event.flags & bit != 0 {
            part(name.to_owned());
        }
    }
    if let Some(id) = event.thread_id {
        part(format!("thread {id}"));
    }
}

/// Row changes: `+ column=value, …` for an insert, `-` for a delete, `~` with `old -> new` for an update.
#[derive(Debug, Default)]
pub(super) struct RowLines {
    old: Vec<u8>,
    new: Vec<u8>,
    scratch: Vec<u8>,
}

impl RowLines {
    /// Appends one row change; returns how many values of it their types do not allow.
    pub(super) fn change(&mut self, change: &RowChange<'_, '_>, inner: bool, out: &mut Vec<u8>) -> u64 {
        if inner {
            out.extend_from_slice(b"  ");
        }
        let mut invalid = 0;
        match change {
            RowChange::Insert(row) => self.image(b"\t+ ", *row, &mut invalid, out),
            RowChange::Delete(row) => self.image(b"\t- ", *row, &mut invalid, out),
            RowChange::Update { before, after } => self.update(*before, *after, &mut invalid, out),
        }
        out.push(b'\n');
        invalid
    }

    fn image(&mut self, sign: &[u8], row: Row<'_, '_>, invalid: &mut u64, out: &mut Vec<u8>) {
        out.extend_from_slice(sign);
        let mut between: &[u8] = b"";
        for (i, value) in row.values() {
            let Some(column) = row.schema().columns.get(i) else { continue };
            out.extend_from_slice(between);
            between = b", ";
            name(&column.name, out);
            out.push(b'=');
            self.value(column, value, invalid, out);
        }
    }

    /// A column that only one image carries (`binlog_row_image=MINIMAL`) shows only that side, `?` for an unknown old value.
    fn update(&mut self, before: Row<'_, '_>, after: Row<'_, '_>, invalid: &mut u64, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\t~ ");
        let mut between: &[u8] = b"";
        let (mut old, mut new) = (before.values().peekable(), after.values().peekable());
        for (i, column) in before.schema().columns.iter().enumerate() {
            let was = old.next_if(|(at, _)| *at == i).map(|(_, value)| value);
            let is = new.next_if(|(at, _)| *at == i).map(|(_, value)| value);
            if was.is_none() && is.is_none() {
                continue;
            }
            out.extend_from_slice(between);
            between = b", ";
            name(&column.name, out);
            out.push(b'=');
            let (mut old_text, mut new_text) = (std::mem::take(&mut self.old), std::mem::take(&mut self.new));
            old_text.clear();
            new_text.clear();
            if let Some(value) = was {
                self.value(column, value, invalid, &mut old_text);
            }
            if let Some(value) = is {
                self.value(column, value, invalid, &mut new_text);
            }
            out.extend_from_slice(&old_text);
            if is.is_some() && (was.is_none() || old_text != new_text) {
                out.extend_from_slice(if was.is_none() { b"? -> " } else { b" -> " });
                out.extend_from_slice(&new_text);
            }
            (self.old, self.new) = (old_text, new_text);
        }
    }

    /// As an SQL literal, but on one line; a value that its type does not allow as `invalid(reason, 0x…)`.
    fn value(&mut self, column: &Column, value: ColumnValue<'_>, invalid: &mut u64, out: &mut Vec<u8>) {
        self.scratch.clear();
        match value::write(column, value, &mut self.scratch) {
            Form::Null => out.extend_from_slice(b"NULL"),
            Form::Number | Form::WideNumber => out.extend_from_slice(&self.scratch),
            Form::Hex => {
                out.extend_from_slice(b"0x");
                out.extend_from_slice(&self.scratch);
            }
            Form::Text => quoted(&self.scratch, out),
            Form::Invalid(reason) => {
                *invalid = invalid.saturating_add(1);
                put!(out, "invalid({}, 0x{})", Escaped(reason.as_bytes()), Escaped(&self.scratch));
            }
        }
    }
}

fn quoted(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'\'');
    for (i, part) in text.split(|b| *b == b'\'').enumerate() {
        if i > 0 {
            out.extend_from_slice(b"''");
        }
        for (i, part) in part.split(|b| *b == b'\\').enumerate() {
            if i > 0 {
                out.extend_from_slice(b"\\\\");
            }
            put!(out, "{}", Escaped(part));
        }
    }
    out.push(b'\'');
}

/// A name that could be taken for something else stands in backticks.
fn name(name: &str, out: &mut Vec<u8>) {
    if name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$' | '@')) {
        out.extend_from_slice(name.as_bytes());
    } else {
        put!(out, "`{}`", Escaped(name.replace('`', "``").as_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(Escaped(b"a\x1b[31m\n\xffb").to_string(), "a\\u{1b}[31m\\n\u{fffd}b");
    }

    #[test]
    fn texts_and_names_stay_on_one_line_and_can_be_told_from_what_is_around() {
        let text = |f: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            f(&mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(&|out| quoted(b"it's, b='1'\\\n", out)), "'it''s, b=''1''\\\\\\n'");
        assert_eq!(text(&|out| name("größe", out)), "größe");
        assert_eq!(text(&|out| name("a=1, `b", out)), "`a=1, ``b`");
    }
}
