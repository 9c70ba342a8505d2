//! One JSON object per line: one for each row change, one for each other event. docs/binlog-tool.md lists the fields.

use std::fmt::Display;

use millstream_binlog::event::{Event, EventBody};
use millstream_binlog::{ColumnValue, Row, RowChange, TableSchema};

use super::Place;
use super::value::{self, Form};

/// Appends `text` quoted and escaped.
fn string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut from = 0;
    for (at, c) in text.char_indices() {
        // DEL and the C1 set too: the line may end on a terminal.
        if !matches!(c, '"' | '\\') && !c.is_control() {
            continue;
        }
        out.extend_from_slice(text.as_bytes().get(from..at).unwrap_or_default());
        if c.is_control() {
            out.extend_from_slice(format!("\\u{:04x}", u32::from(c)).as_bytes());
            from = at.saturating_add(c.len_utf8());
        } else {
            out.push(b'\\');
            from = at;
        }
    }
    out.extend_from_slice(text.as_bytes().get(from..).unwrap_or_default());
    out.push(b'"');
}

fn lossy(bytes: &[u8], out: &mut Vec<u8>) {
    string(&String::from_utf8_lossy(bytes), out);
}

/// An object that is being written.
#[derive(Clone, Debug)]
pub(super) struct Object(Vec<u8>);

impl Object {
    pub(super) fn new() -> Self {
        Self(b"{".to_vec())
    }

    fn key(&mut self, name: &str) -> &mut Vec<u8> {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        string(name, &mut self.0);
        self.0.push(b':');
        &mut self.0
    }

    /// A number, `true`, `false` or `null`.
    pub(super) fn raw(&mut self, name: &str, value: impl Display) {
        use std::io::Write as _;
        // A Vec takes everything.
        let _written = write!(self.key(name), "{value}");
    }

    pub(super) fn text(&mut self, name: &str, value: &[u8]) {
        lossy(value, self.key(name));
    }

    pub(super) fn object(&mut self, name: &str, value: Self) {
        let out = self.key(name);
        out.extend_from_slice(&value.0);
        out.push(b'}');
    }

    pub(super) fn list(&mut self, name: &str, values: impl Iterator<Item = Self>) {
        let out = self.key(name);
        out.push(b'[');
        for (i, value) in values.enumerate() {
            if i > 0 {
                out.push(b',');
            }
            out.extend_from_slice(&value.0);
            out.push(b'}');
        }
        out.push(b']');
    }

    pub(super) fn into_line(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"}\n");
        self.0
    }
}

/// What every line begins with.
fn head(event: &Event<'_>, place: Place<'_>, gtid: Option<&str>) -> Object {
    let mut line = Object::new();
    line.text("event", event.header.event_type.name().as_bytes());
    line.text("file", place.name().as_bytes());
    line.raw("pos", place.offset);
    line.raw("end", place.end);
    if place.inner {
        line.raw("inner", true);
    }
    line.raw("timestamp", event.header.timestamp);
    line.raw("server_id", event.header.server_id);
    if let Some(gtid) = gtid {
        line.text("gtid", gtid.as_bytes());
    }
    line
}

/// An event without rows, as a line.
pub(super) fn event(event: &Event<'_>, place: Place<'_>, gtid: Option<&str>, out: &mut Vec<u8>) {
    let mut line = head(event, place, gtid);
    let o = &mut line;
    match &event.body {
        EventBody::FormatDescription(fde) => {
            o.text("server_version", fde.server_version.as_bytes());
            o.text("checksum", format!("{:?}", fde.checksum).to_ascii_lowercase().as_bytes());
        }
        EventBody::Rotate(rotate) => {
            o.text("next_file", rotate.file.as_bytes());
            o.raw("next_pos", rotate.position);
        }
        EventBody::Gtid(event) => {
            if gtid.is_none() {
                o.raw("gtid", "null");
            }
            o.raw("last_committed", event.last_committed);
            o.raw("sequence_number", event.sequence_number);
            o.raw("commit_us", event.immediate_commit_micros);
            o.raw("transaction_length", event.transaction_length);
        }
        EventBody::PreviousGtids(set) => match set.decode() {
            Ok(set) => o.text("gtids", set.to_string().as_bytes()),
            Err(e) => o.text("invalid", e.to_string().as_bytes()),
        },
        EventBody::Query(query) | EventBody::ExecuteLoadQuery(query) => {
            o.text("db", query.schema);
            o.text("sql", &super::sql_text(query));
            o.raw("error_code", query.error_code);
        }
        EventBody::RowsQuery(sql) => o.text("sql", sql),
        EventBody::Xid(xid) => o.text("xid", xid.to_string().as_bytes()),
        EventBody::XaPrepare(xa) => {
            o.text("xid", xa.to_string().as_bytes());
            o.raw("one_phase", xa.one_phase);
        }
        EventBody::TableMap(map) => {
            o.raw("table_id", map.table_id);
            o.text("db", map.database.as_bytes());
            o.text("table", map.table.as_bytes());
        }
        EventBody::TransactionPayload(payload) => {
            o.text("compression", format!("{:?}", payload.compression).to_ascii_lowercase().as_bytes());
            o.raw("compressed_bytes", payload.compressed_len());
        }
        EventBody::Heartbeat(heartbeat) => {
            o.text("source_file", heartbeat.file.as_bytes());
            o.raw("source_pos", heartbeat.position);
        }
        EventBody::MariaGtid(event) => {
            o.raw("flags", event.flags);
            if let Some(id) = event.commit_id {
                o.text("commit_id", id.to_string().as_bytes());
            }
            if let Some(xid) = &event.xid {
                o.text("xid", xid.to_string().as_bytes());
            }
            if let Some(id) = event.thread_id {
                o.raw("thread_id", id);
            }
        }
        EventBody::GtidList(list) => {
            let list: Vec<String> = list.iter().map(|g| g.to_string()).collect();
            o.text("gtids", list.join(",").as_bytes());
        }
        EventBody::BinlogCheckpoint(file) => o.text("checkpoint_file", file.as_bytes()),
        EventBody::StartEncryption(start) => o.raw("key_version", start.key_version),
        EventBody::IntVar(var) => {
            o.text("kind", format!("{:?}", var.kind).as_bytes());
            o.text("value", var.value.to_string().as_bytes());
        }
        EventBody::UserVar(var) => o.text("name", var.name),
        EventBody::Incident { number, message } => {
            o.raw("number", number);
            o.text("message", message);
        }
        EventBody::Ignored { rule } => o.text("skipped", rule.as_bytes()),
        _ => {}
    }
    out.extend_from_slice(&line.into_line());
}

/// The lines of one row event.
pub(super) struct RowLines {
    head: Object,
    row: u64,
    scratch: Vec<u8>,
}

impl RowLines {
    pub(super) fn new(event: &Event<'_>, schema: &TableSchema, place: Place<'_>, gtid: Option<&str>) -> Self {
        let mut head = head(event, place, gtid);
        head.text("db", schema.database.as_bytes());
        head.text("table", schema.table.as_bytes());
        Self { head, row: 0, scratch: Vec::new() }
    }

    /// Appends one row change; returns how many values of it their types do not allow.
    pub(super) fn change(&mut self, change: &RowChange<'_, '_>, out: &mut Vec<u8>) -> u64 {
        out.extend_from_slice(&self.head.0);
        let op: &[u8] = match change {
            RowChange::Insert(_) => b"insert",
            RowChange::Update { .. } => b"update",
            RowChange::Delete(_) => b"delete",
        };
        out.extend_from_slice(b",\"op\":\"");
        out.extend_from_slice(op);
        out.extend_from_slice(format!("\",\"row\":{}", self.row).as_bytes());
        self.row = self.row.saturating_add(1);
        let mut invalid = 0;
        match change {
            RowChange::Insert(row) => self.image(",\"after\":{", *row, &mut invalid, out),
            RowChange::Delete(row) => self.image(",\"before\":{", *row, &mut invalid, out),
            RowChange::Update { before, after } => {
                self.image(",\"before\":{", *before, &mut invalid, out);
                self.image(",\"after\":{", *after, &mut invalid, out);
            }
        }
        out.extend_from_slice(b"}\n");
        invalid
    }

    fn image(&mut self, open: &str, row: Row<'_, '_>, invalid: &mut u64, out: &mut Vec<u8>) {
        out.extend_from_slice(open.as_bytes());
        let mut first = true;
        for (i, value) in row.values() {
            let Some(column) = row.schema().columns.get(i) else { continue };
            if !first {
                out.push(b',');
            }
            first = false;
            string(&column.name, out);
            out.push(b':');
            self.value(column, value, invalid, out);
        }
        out.push(b'}');
    }

    /// A value that its type does not allow becomes `{"invalid":reason,"bytes":hex}`.
    fn value(
        &mut self,
        column: &millstream_binlog::Column,
        value: ColumnValue<'_>,
        invalid: &mut u64,
        out: &mut Vec<u8>,
    ) {
        self.scratch.clear();
        match value::write(column, value, &mut self.scratch) {
            Form::Null => out.extend_from_slice(b"null"),
            Form::Number => out.extend_from_slice(&self.scratch),
            Form::WideNumber | Form::Text | Form::Hex => lossy(&self.scratch, out),
            Form::Invalid(reason) => {
                *invalid = invalid.saturating_add(1);
                let mut object = Object::new();
                object.text("invalid", reason.as_bytes());
                object.text("bytes", &self.scratch);
                out.extend_from_slice(&object.0);
                out.push(b'}');
            }
        }
    }
}
