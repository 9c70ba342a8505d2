//! One JSON object per line. Integers of 64 bits, BIT and decimals are strings, so that no reader rounds them; binary is
//! lower-case hex; JSON is its text in a string; times are as the server prints them in UTC.

use std::io::{self, Write};

use millstream_binlog::event::{Event, EventBody};
use millstream_binlog::value::{write_double, write_float, write_inet4, write_inet6, write_uuid};
use millstream_binlog::{Charset, Column, ColumnType, ColumnValue, Decimal, Row, RowChange, TableSchema};

use super::{Place, Summary, kind_name};

/// Greatest size of a value that was compressed in the log.
const MAX_INFLATED: usize = 1 << 30;

/// Appends `text` quoted and escaped.
fn string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push(b'\\');
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            // DEL and the C1 set too: the line may end on a terminal.
            c if c.is_control() => out.extend_from_slice(format!("\\u{:04x}", u32::from(c)).as_bytes()),
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}

fn lossy(bytes: &[u8], out: &mut Vec<u8>) {
    string(&String::from_utf8_lossy(bytes), out);
}

fn hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let digit = |n: u8| DIGITS.get(usize::from(n)).copied().unwrap_or(b'0');
    for b in bytes {
        out.extend_from_slice(&[digit(b >> 4), digit(b & 15)]);
    }
}

/// Appends `,"key":`.
fn key(name: &str, out: &mut Vec<u8>) {
    out.push(b',');
    string(name, out);
    out.push(b':');
}

fn field(name: &str, value: impl std::fmt::Display, out: &mut Vec<u8>) {
    key(name, out);
    out.extend_from_slice(value.to_string().as_bytes());
}

fn text_field(name: &str, value: &[u8], out: &mut Vec<u8>) {
    key(name, out);
    lossy(value, out);
}

/// What every line begins with; the object stays open.
fn head(event: &Event<'_>, place: Place<'_>) -> Vec<u8> {
    let mut out = b"{\"event\":".to_vec();
    string(event.header.event_type.name(), &mut out);
    text_field("file", place.file.file_name().unwrap_or_default().to_string_lossy().as_bytes(), &mut out);
    field("pos", place.offset, &mut out);
    field("end", place.end, &mut out);
    if place.inner {
        field("inner", true, &mut out);
    }
    field("timestamp", event.header.timestamp, &mut out);
    field("server_id", event.header.server_id, &mut out);
    out
}

/// An event without rows.
pub(super) fn event(event: &Event<'_>, place: Place<'_>, out: &mut impl Write) -> io::Result<()> {
    let mut line = head(event, place);
    let o = &mut line;
    match &event.body {
        EventBody::FormatDescription(fde) => {
            text_field("server_version", fde.server_version.as_bytes(), o);
            text_field("checksum", format!("{:?}", fde.checksum).to_ascii_lowercase().as_bytes(), o);
        }
        EventBody::Rotate(rotate) => {
            text_field("next_file", rotate.file.as_bytes(), o);
            field("next_pos", rotate.position, o);
        }
        EventBody::Gtid(gtid) => {
            key("gtid", o);
            match gtid.gtid {
                Some(id) => string(&id.to_string(), o),
                None => o.extend_from_slice(b"null"),
            }
            field("last_committed", gtid.last_committed, o);
            field("sequence_number", gtid.sequence_number, o);
            field("commit_us", gtid.immediate_commit_micros, o);
            field("transaction_length", gtid.transaction_length, o);
        }
        EventBody::PreviousGtids(set) => match set.decode() {
            Ok(set) => text_field("gtids", set.to_string().as_bytes(), o),
            Err(e) => text_field("invalid", e.to_string().as_bytes(), o),
        },
        EventBody::Query(query) | EventBody::ExecuteLoadQuery(query) => {
            text_field("schema", query.schema, o);
            text_field("sql", query.sql, o);
            field("error_code", query.error_code, o);
        }
        EventBody::RowsQuery(sql) => text_field("sql", sql, o),
        EventBody::Xid(xid) => text_field("xid", xid.to_string().as_bytes(), o),
        EventBody::XaPrepare(xa) => {
            text_field("xid", xa.to_string().as_bytes(), o);
            field("one_phase", xa.one_phase, o);
        }
        EventBody::TableMap(map) => {
            field("table_id", map.table_id, o);
            text_field("db", map.database.as_bytes(), o);
            text_field("table", map.table.as_bytes(), o);
        }
        EventBody::PartialUpdateRows { table_id } => {
            field("table_id", table_id, o);
            text_field("skipped", b"partial-update-rows", o);
        }
        EventBody::TransactionPayload(payload) => {
            text_field("compression", format!("{:?}", payload.compression).to_ascii_lowercase().as_bytes(), o);
            field("compressed_bytes", payload.compressed_len(), o);
        }
        EventBody::Heartbeat(heartbeat) => {
            text_field("source_file", heartbeat.file.as_bytes(), o);
            field("source_pos", heartbeat.position, o);
        }
        EventBody::MariaGtid(gtid) => {
            text_field("gtid", gtid.gtid.to_string().as_bytes(), o);
            field("flags", gtid.flags, o);
            if let Some(id) = gtid.commit_id {
                text_field("commit_id", id.to_string().as_bytes(), o);
            }
            if let Some(xid) = &gtid.xid {
                text_field("xid", xid.to_string().as_bytes(), o);
            }
            if let Some(id) = gtid.thread_id {
                field("thread_id", id, o);
            }
        }
        EventBody::GtidList(list) => {
            let list: Vec<String> = list.iter().map(|g| g.to_string()).collect();
            text_field("gtids", list.join(",").as_bytes(), o);
        }
        EventBody::BinlogCheckpoint(file) => text_field("checkpoint_file", file.as_bytes(), o),
        EventBody::StartEncryption(start) => field("key_version", start.key_version, o),
        EventBody::IntVar(var) => {
            text_field("kind", format!("{:?}", var.kind).as_bytes(), o);
            text_field("value", var.value.to_string().as_bytes(), o);
        }
        EventBody::UserVar(var) => text_field("name", var.name, o),
        EventBody::Incident { number, message } => {
            field("number", number, o);
            text_field("message", message, o);
        }
        EventBody::Ignored { rule } => text_field("skipped", rule.as_bytes(), o),
        _ => {}
    }
    line.extend_from_slice(b"}\n");
    out.write_all(&line)
}

/// A row event's line, row by row.
pub(super) struct RowsLine {
    line: Vec<u8>,
    rows: u64,
    invalid: u64,
    scratch: Vec<u8>,
}

impl RowsLine {
    pub(super) fn new(event: &Event<'_>, schema: &TableSchema, statement_end: bool, place: Place<'_>) -> Self {
        let mut line = head(event, place);
        if let EventBody::Rows(rows) = &event.body {
            text_field("kind", kind_name(rows.kind).as_bytes(), &mut line);
            field("table_id", rows.table_id, &mut line);
        }
        text_field("db", schema.database.as_bytes(), &mut line);
        text_field("table", schema.table.as_bytes(), &mut line);
        field("statement_end", statement_end, &mut line);
        line.extend_from_slice(b",\"rows\":[");
        Self { line, rows: 0, invalid: 0, scratch: Vec::new() }
    }

    pub(super) fn change(&mut self, change: &RowChange<'_, '_>) {
        if self.rows > 0 {
            self.line.push(b',');
        }
        self.rows = self.rows.saturating_add(1);
        self.line.push(b'{');
        match change {
            RowChange::Insert(row) => self.image("after", *row),
            RowChange::Delete(row) => self.image("before", *row),
            RowChange::Update { before, after } => {
                self.image("before", *before);
                self.line.push(b',');
                self.image("after", *after);
            }
        }
        self.line.push(b'}');
    }

    fn image(&mut self, name: &str, row: Row<'_, '_>) {
        string(name, &mut self.line);
        self.line.extend_from_slice(b":{");
        let mut first = true;
        for (i, value) in row.values() {
            let Some(column) = row.schema().columns.get(i) else { continue };
            if !first {
                self.line.push(b',');
            }
            first = false;
            string(&column.name, &mut self.line);
            self.line.push(b':');
            self.value(column, value);
        }
        self.line.push(b'}');
    }

    /// A value that its type does not allow prints as `{"invalid":reason,"bytes":hex}`.
    fn value(&mut self, column: &Column, value: ColumnValue<'_>) {
        let out = &mut self.line;
        let text = &mut self.scratch;
        text.clear();
        let failed = match value {
            ColumnValue::Null => {
                out.extend_from_slice(b"null");
                return;
            }
            ColumnValue::Int(_) | ColumnValue::UInt(_) => {
                let big = matches!(column.ty, ColumnType::BigInt { .. });
                let quote: &[u8] = if big { b"\"" } else { b"" };
                out.extend_from_slice(quote);
                match value {
                    ColumnValue::Int(n) => out.extend_from_slice(n.to_string().as_bytes()),
                    ColumnValue::UInt(n) => out.extend_from_slice(n.to_string().as_bytes()),
                    _ => {}
                }
                out.extend_from_slice(quote);
                return;
            }
            ColumnValue::Float(f) => {
                write_float(f, out);
                return;
            }
            ColumnValue::Double(f) => {
                write_double(f, out);
                return;
            }
            ColumnValue::Year(year) => {
                out.extend_from_slice(year.to_string().as_bytes());
                return;
            }
            ColumnValue::Bit(bits) => {
                text.extend_from_slice(bits.to_string().as_bytes());
                None
            }
            ColumnValue::Decimal { bytes, precision, scale } => {
                match Decimal::new(bytes, precision, scale) {
                    Some(decimal) => decimal.write_to(text),
                    None => text.extend_from_slice(b"?"),
                }
                None
            }
            ColumnValue::DecimalText(digits) | ColumnValue::JsonText(digits) => {
                text.extend_from_slice(digits);
                None
            }
            ColumnValue::Text { bytes, charset } => charset.decode(bytes, text).err().map(|e| (e.to_string(), bytes)),
            ColumnValue::Json(json) => json.write_to(text).err().map(|e| (e.to_string(), json.bytes)),
            ColumnValue::Bytes(bytes) => {
                hex(bytes, text);
                // The log leaves trailing zero bytes of BINARY(n) out.
                if let ColumnType::Binary { bytes: width } = column.ty {
                    let missing = usize::try_from(width).unwrap_or(0).saturating_sub(bytes.len());
                    text.extend(std::iter::repeat_n(b'0', missing.saturating_mul(2)));
                }
                None
            }
            ColumnValue::Geometry(bytes) | ColumnValue::Vector(bytes) => {
                hex(bytes, text);
                None
            }
            ColumnValue::Compressed { value, charset } => {
                let mut opened = Vec::new();
                match value.inflate(MAX_INFLATED, &mut opened) {
                    Err(e) => Some((e.to_string(), &[][..])),
                    Ok(()) if charset == Charset::Binary => {
                        hex(&opened, text);
                        None
                    }
                    Ok(()) => charset.decode(&opened, text).err().map(|e| (e.to_string(), &[][..])),
                }
            }
            ColumnValue::Uuid(uuid) => {
                write_uuid(uuid, text);
                None
            }
            ColumnValue::Inet4(address) => {
                write_inet4(address, text);
                None
            }
            ColumnValue::Inet6(address) => {
                write_inet6(address, text);
                None
            }
            ColumnValue::Enum(number) => {
                if let ColumnType::Enum { labels, .. } = &column.ty
                    && !labels.is_empty()
                {
                    label(labels, number).map_or_else(
                        || Some((format!("ENUM number {number}"), &[][..])),
                        |l| {
                            text.extend_from_slice(l.as_bytes());
                            None
                        },
                    )
                } else {
                    out.extend_from_slice(number.to_string().as_bytes());
                    return;
                }
            }
            ColumnValue::Set(bits) => match &column.ty {
                ColumnType::Set { labels, .. } if !labels.is_empty() => {
                    let members = labels.iter().zip(0u32..64).filter(|(_, i)| (bits >> i) & 1 == 1);
                    for (n, (label, _)) in members.enumerate() {
                        if n > 0 {
                            text.push(b',');
                        }
                        text.extend_from_slice(label.as_bytes());
                    }
                    None
                }
                _ => {
                    text.extend_from_slice(bits.to_string().as_bytes());
                    None
                }
            },
            ColumnValue::Date(date) => {
                date.write_to(text);
                None
            }
            ColumnValue::Time(time) => {
                time.write_to(fsp(column), text);
                None
            }
            ColumnValue::DateTime(time) => {
                time.write_to(fsp(column), text);
                None
            }
            ColumnValue::Timestamp(time) => {
                time.write_to(fsp(column), text);
                None
            }
        };
        match failed {
            None => lossy(text, out),
            Some((reason, bytes)) => {
                self.invalid = self.invalid.saturating_add(1);
                out.extend_from_slice(b"{\"invalid\":");
                string(&reason, out);
                out.extend_from_slice(b",\"bytes\":\"");
                hex(bytes, out);
                out.extend_from_slice(b"\"}");
            }
        }
    }

    pub(super) const fn invalid_values(&self) -> u64 {
        self.invalid
    }

    pub(super) fn write_to(mut self, out: &mut impl Write) -> io::Result<()> {
        self.line.extend_from_slice(b"]}\n");
        out.write_all(&self.line)
    }
}

/// Number 0 is the invalid value ''.
fn label(labels: &[String], number: u16) -> Option<&str> {
    match number.checked_sub(1) {
        None => Some(""),
        Some(i) => labels.get(usize::from(i)).map(String::as_str),
    }
}

const fn fsp(column: &Column) -> u8 {
    match column.ty {
        ColumnType::Time { fsp } | ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp } => fsp,
        _ => 0,
    }
}

/// The statistics as one object.
pub(super) fn statistics(summary: &Summary, out: &mut impl Write) -> io::Result<()> {
    let rates = super::Rates::of(summary);
    let mut line = b"{\"stats\":true".to_vec();
    field("events", summary.events, &mut line);
    field("rows", summary.rows, &mut line);
    field("values", summary.values, &mut line);
    field("bytes", summary.bytes, &mut line);
    field("seconds", format_args!("{:.3}", summary.elapsed.as_secs_f64()), &mut line);
    field("bytes_per_s", format_args!("{:.0}", rates.bytes), &mut line);
    field("rows_per_s", format_args!("{:.0}", rates.rows), &mut line);
    let mut counts = |name: &str, list: &mut dyn Iterator<Item = (&'static str, u64)>| {
        key(name, &mut line);
        line.push(b'{');
        for (i, (name, count)) in list.enumerate() {
            if i > 0 {
                line.push(b',');
            }
            string(name, &mut line);
            line.push(b':');
            line.extend_from_slice(count.to_string().as_bytes());
        }
        line.push(b'}');
    };
    counts("types", &mut summary.types.iter().map(|(ty, n)| (ty.name(), *n)));
    counts("skipped", &mut summary.skipped.iter().map(|(rule, n)| (*rule, *n)));
    line.extend_from_slice(b"}\n");
    out.write_all(&line)
}
