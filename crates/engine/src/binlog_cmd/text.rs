//! One line per event, for people.

use std::fmt;
use std::io::{self, Write};

use millstream_binlog::TableSchema;
use millstream_binlog::event::{Checksum, Event, EventBody, MariaGtidEvent, TwoPhaseAlter};

use super::{Place, Summary};

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

/// `offset-end  TYPE  details`; rows come with their table and number.
pub(super) fn event(
    event: &Event<'_>,
    place: Place<'_>,
    rows: Option<(&TableSchema, u64)>,
    out: &mut impl Write,
) -> io::Result<()> {
    let header = &event.header;
    let inner = if place.inner { "  " } else { "" };
    write!(out, "{inner}{}-{}\t{}", place.offset, place.end, header.event_type.name())?;
    match &event.body {
        EventBody::FormatDescription(fde) => {
            let checksum = if fde.checksum == Checksum::Crc32 { "crc32" } else { "none" };
            write!(out, "\tserver {}, checksum {checksum}", Escaped(fde.server_version.as_bytes()))?;
        }
        EventBody::Rotate(rotate) => write!(out, "\tto {}:{}", Escaped(rotate.file.as_bytes()), rotate.position)?,
        EventBody::Gtid(gtid) => {
            match gtid.gtid {
                Some(id) => write!(out, "\t{id}")?,
                None => write!(out, "\tanonymous")?,
            }
            write!(out, ", committed after {}, sequence {}", gtid.last_committed, gtid.sequence_number)?;
            if gtid.transaction_length > 0 {
                write!(out, ", {} bytes", gtid.transaction_length)?;
            }
        }
        EventBody::PreviousGtids(set) => match set.decode() {
            Ok(set) => write!(out, "\t{set}")?,
            Err(e) => write!(out, "\tinvalid: {e}")?,
        },
        EventBody::Query(query) | EventBody::ExecuteLoadQuery(query) => {
            write!(out, "\t[{}] {}", Escaped(query.schema), Escaped(query.sql))?;
            if query.error_code != 0 {
                write!(out, " (failed with error {})", query.error_code)?;
            }
        }
        EventBody::RowsQuery(sql) => write!(out, "\t{}", Escaped(sql))?,
        EventBody::Xid(xid) => write!(out, "\t{xid}")?,
        EventBody::XaPrepare(xa) => {
            write!(out, "\t{xa}")?;
            write!(out, "{}", if xa.one_phase { ", one phase: committed" } else { "" })?;
        }
        EventBody::TableMap(map) => {
            write!(
                out,
                "\t{} is {}.{}",
                map.table_id,
                Escaped(map.database.as_bytes()),
                Escaped(map.table.as_bytes())
            )?;
        }
        EventBody::Rows(event) => {
            if let Some((schema, count)) = rows {
                let (database, table) = (schema.database.as_bytes(), schema.table.as_bytes());
                let s = if count == 1 { "" } else { "s" };
                write!(out, "\t{}.{}: {count} row{s}", Escaped(database), Escaped(table))?;
            }
            write!(out, "{}", if event.is_statement_end() { ", end of statement" } else { "" })?;
        }
        EventBody::PartialUpdateRows { table_id } => write!(out, "\ttable {table_id}, not decoded")?,
        EventBody::TransactionPayload(payload) => {
            write!(out, "\t{:?}, {} bytes", payload.compression, payload.compressed_len())?;
            if let Some(size) = payload.uncompressed_size {
                write!(out, ", {size} when opened")?;
            }
        }
        EventBody::Heartbeat(heartbeat) => {
            write!(out, "\tat {}:{}", Escaped(heartbeat.file.as_bytes()), heartbeat.position)?;
        }
        EventBody::MariaGtid(gtid) => maria_gtid(gtid, out)?,
        EventBody::GtidList(list) => {
            for (i, gtid) in list.iter().enumerate() {
                write!(out, "{}{gtid}", if i == 0 { "\t" } else { "," })?;
            }
        }
        EventBody::BinlogCheckpoint(file) => write!(out, "\t{}", Escaped(file.as_bytes()))?,
        EventBody::StartEncryption(start) => write!(out, "\tkey version {}", start.key_version)?,
        EventBody::IntVar(var) => write!(out, "\t{:?} {}", var.kind, var.value)?,
        EventBody::Rand(rand) => write!(out, "\tseeds {:?}", rand.seeds)?,
        EventBody::UserVar(var) => {
            write!(out, "\t@{}", Escaped(var.name))?;
            match &var.value {
                Some(value) => write!(out, ", {:?} of {} bytes", value.kind, value.bytes.len())?,
                None => write!(out, " is NULL")?,
            }
        }
        EventBody::Incident { number, message } => write!(out, "\t{number}: {}", Escaped(message))?,
        EventBody::Ignored { rule } => write!(out, "\tskipped: {rule}")?,
        _ => {}
    }
    writeln!(out)
}

fn maria_gtid(event: &MariaGtidEvent<'_>, out: &mut impl Write) -> io::Result<()> {
    write!(out, "\t{}", event.gtid)?;
    if let Some(id) = event.commit_id {
        write!(out, ", committed with group {id}")?;
    }
    if let Some(xid) = &event.xid {
        let prepares = event.flags & MariaGtidEvent::PREPARED_XA != 0;
        write!(out, ", {} XA {xid}", if prepares { "prepares" } else { "ends" })?;
    }
    match event.alter {
        Some(TwoPhaseAlter::Start) => write!(out, ", ALTER starts")?,
        Some(TwoPhaseAlter::Commit { start }) => write!(out, ", ALTER of {start} is done")?,
        Some(TwoPhaseAlter::Rollback { start }) => write!(out, ", ALTER of {start} failed")?,
        None => {}
    }
    for (bit, name) in [
        (MariaGtidEvent::STANDALONE, "standalone"),
        (MariaGtidEvent::TRANSACTIONAL, "transactional"),
        (MariaGtidEvent::DDL, "DDL"),
    ] {
        if event.flags & bit != 0 {
            write!(out, ", {name}")?;
        }
    }
    event.thread_id.map_or(Ok(()), |id| write!(out, ", thread {id}"))
}

/// The statistics, one figure a line.
pub(super) fn statistics(summary: &Summary, out: &mut impl Write) -> io::Result<()> {
    let rates = super::Rates::of(summary);
    writeln!(out, "# {} events, {} rows, {} values", summary.events, summary.rows, summary.values)?;
    writeln!(
        out,
        "# {} bytes in {:.3} s: {:.1} MB/s, {:.0} rows/s",
        summary.bytes,
        summary.elapsed.as_secs_f64(),
        rates.bytes / 1e6,
        rates.rows
    )?;
    for (ty, count) in &summary.types {
        writeln!(out, "# {count} {ty}")?;
    }
    for (rule, count) in &summary.skipped {
        writeln!(out, "# {count} skipped: {rule}")?;
    }
    Ok(())
}
