//! An event as the tools would print it.

use millstream_binlog::GtidSet;
use millstream_binlog::event::{
    Compression, Event, EventBody, MariaGtidEvent, Query, RowsEvent, RowsKind, StatusVar, TwoPhaseAlter,
};

/// Whether the tool's label fits the event; `Err` is what was expected.
pub(crate) fn check(event: &Event<'_>, label: &str) -> Result<(), String> {
    let expected = match &event.body {
        EventBody::FormatDescription(fde) => {
            return begins(label, format!("Start: binlog v 4, server v {} created ", fde.server_version));
        }
        EventBody::Rotate(rotate) => format!("Rotate to {}  pos: {}", rotate.file, rotate.position),
        EventBody::Stop => "Stop".into(),
        // MariaDB's tool knows that it may skip MySQL's.
        EventBody::Gtid(_) | EventBody::PreviousGtids(_) if label == "Ignorable" => return Ok(()),
        EventBody::Gtid(gtid) => {
            let name = if gtid.gtid.is_some() { "GTID" } else { "Anonymous_GTID" };
            let rbr_only = if gtid.flags & 1 == 0 { "yes" } else { "no" };
            format!(
                "{name}\tlast_committed={}\tsequence_number={}\trbr_only={rbr_only}\toriginal_committed_timestamp={}\t\
                 immediate_commit_timestamp={}\ttransaction_length={}",
                gtid.last_committed,
                gtid.sequence_number,
                gtid.original_commit_micros,
                gtid.immediate_commit_micros,
                gtid.transaction_length
            )
        }
        EventBody::PreviousGtids(set) => {
            let stated = label.strip_prefix("Previous-GTIDs").map(|s| s.strip_prefix("[empty]").unwrap_or(s));
            let stated = stated.map(str::parse::<GtidSet>);
            let set = set.decode().map_err(|e| e.to_string())?;
            return if stated == Some(Ok(set.clone())) { Ok(()) } else { Err(format!("Previous-GTIDs{set}")) };
        }
        EventBody::Query(query) => {
            let name = if event.header.event_type.0 == 165 { "Query_compressed" } else { "Query" };
            return statement(name, query, label);
        }
        EventBody::ExecuteLoadQuery(query) => return statement("Execute_load_query", query, label),
        EventBody::RowsQuery(_) => {
            if event.header.event_type.0 == 160 {
                "Annotate_rows:".into()
            } else {
                "Rows_query".into()
            }
        }
        EventBody::Xid(xid) => format!("Xid = {xid}"),
        EventBody::XaPrepare(xa) if label.starts_with("XID") => format!("XID = {xa}"),
        EventBody::XaPrepare(xa) => format!("XA PREPARE {xa}"),
        EventBody::TableMap(map) => {
            let expected = format!("Table_map: `{}`.`{}` mapped to number {}", map.database, map.table, map.table_id);
            // MySQL's tool also says which have a generated invisible key, MariaDB's which have triggers.
            return if map.flags == 1 { same(label, expected) } else { begins(label, expected) };
        }
        EventBody::Rows(rows) => {
            let ty = event.header.event_type.0;
            // MariaDB's tool knows one flag.
            return same(label, rows_label(ty, rows, 1)).or_else(|_| same(label, rows_label(ty, rows, u16::MAX)));
        }
        EventBody::TransactionPayload(payload) => {
            let kind = if payload.compression == Compression::Zstd { "ZSTD" } else { "NONE" };
            let packed = payload.compressed_len();
            let size = payload.uncompressed_size.unwrap_or(packed as u64);
            format!("Transaction_Payload\t\tpayload_size={packed}\tcompression_type={kind}\tuncompressed_size={size}")
        }
        EventBody::MariaGtid(gtid) => maria_gtid(gtid),
        EventBody::GtidList(list) => {
            // The tool sorts them.
            let mut list: Vec<_> = list.iter().collect();
            list.sort();
            let list: Vec<_> = list.iter().map(ToString::to_string).collect();
            format!("Gtid list [{}]", list.join(","))
        }
        EventBody::BinlogCheckpoint(file) => format!("Binlog checkpoint {file}"),
        EventBody::IntVar(_) => "Intvar".into(),
        EventBody::Rand(_) => "Rand".into(),
        EventBody::UserVar(_) => "User_var".into(),
        // Their lines have no name, the next ones have.
        EventBody::Incident { .. } | EventBody::Ignored { rule: "load-data-block" } => String::new(),
        EventBody::Ignored { .. } => "Ignorable".into(),
        other => return Err(format!("no label for {other:?}")),
    };
    same(label, expected)
}

fn same(label: &str, expected: String) -> Result<(), String> {
    if label == expected { Ok(()) } else { Err(expected) }
}

fn begins(label: &str, expected: String) -> Result<(), String> {
    if label.starts_with(&expected) { Ok(()) } else { Err(expected) }
}

fn statement(name: &str, query: &Query<'_>, label: &str) -> Result<(), String> {
    let Query { thread_id, exec_time, error_code, .. } = query;
    let mut expected = format!("{name}\tthread_id={thread_id}\texec_time={exec_time}\terror_code={error_code}");
    let mut vars = query.status.iter().map_while(Result::ok);
    if label.contains("\txid=") {
        let xid = vars.find_map(|v| if let StatusVar::MariaXid(xid) = v { Some(xid) } else { None });
        expected.push_str(&format!("\txid={}", xid.unwrap_or(0)));
    } else if let Some(xid) = vars.find_map(|v| if let StatusVar::DdlXid(xid) = v { Some(xid) } else { None }) {
        expected.push_str(&format!("\tXid = {xid}"));
    }
    same(label, expected)
}

fn rows_label(ty: u8, rows: &RowsEvent<'_>, known: u16) -> String {
    let kind = match rows.kind {
        RowsKind::Write => "Write",
        RowsKind::Update => "Update",
        RowsKind::Delete => "Delete",
    };
    let packed = if (166..=171).contains(&ty) { "_compressed" } else { "" };
    let partial = if rows.is_partial() { "_partial" } else { "" };
    let mut label = format!("{kind}{packed}_rows{partial}: table id {}", rows.table_id);
    let flags = [
        (1, "STMT_END_F"),
        (2, "NO_FOREIGN_KEY_CHECKS_F"),
        (4, "RELAXED_UNIQUE_CHECKS_F"),
        (8, "COMPLETE_ROWS_F"),
        (16, "USE_SQL_FOREIGN_KEY_F"),
    ];
    let set: Vec<_> = flags.iter().filter(|(bit, _)| rows.flags & known & bit != 0).map(|(_, name)| *name).collect();
    if !set.is_empty() {
        label.push_str(" flags: ");
        label.push_str(&set.join(" "));
    }
    label
}

fn maria_gtid(event: &MariaGtidEvent<'_>) -> String {
    let mut label = format!("GTID {}", event.gtid);
    if let Some(id) = event.commit_id {
        label.push_str(&format!(" cid={id}"));
    }
    if event.flags & MariaGtidEvent::DDL != 0 {
        label.push_str(" ddl");
    }
    if event.flags & MariaGtidEvent::TRANSACTIONAL != 0 {
        label.push_str(" trans");
    }
    match event.alter {
        Some(TwoPhaseAlter::Start) => label.push_str(" START ALTER"),
        Some(TwoPhaseAlter::Commit { start }) => label.push_str(&format!(" COMMIT ALTER id= {start}")),
        Some(TwoPhaseAlter::Rollback { start }) => label.push_str(&format!(" ROLLBACK ALTER id= {start}")),
        None => {}
    }
    if let Some(id) = event.thread_id {
        label.push_str(&format!(" thread_id={id}"));
    }
    label
}
