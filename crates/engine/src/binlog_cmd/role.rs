//! What an event is to its transaction.

use millstream_binlog::event::{Event, EventBody};

use super::filter::{AnyGtid, TableFilter};
use super::when::When;
use crate::schema::ddl::{self, Classified, SkipRule, Verdict};

/// What an event is to its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Belongs to the log, not to a transaction.
    Log,
    /// The log lacks events: always worth a line.
    Incident,
    /// GTID: ends whatever was open and begins a transaction.
    Gtid,
    /// BEGIN, XA START.
    Begin,
    /// The compressed events of the transaction.
    Payload,
    /// Prepares the rows or the statement that follow.
    Context,
    Rows,
    /// A statement; whether it concerns a chosen table.
    Statement(bool),
    /// XA END, SAVEPOINT.
    Control,
    /// XID, COMMIT, ROLLBACK, XA PREPARE.
    End,
}

pub(super) fn gtid_of(event: &Event<'_>) -> Option<AnyGtid> {
    match &event.body {
        EventBody::Gtid(gtid) => gtid.gtid.map(AnyGtid::MySql),
        EventBody::MariaGtid(gtid) => Some(AnyGtid::Maria(gtid.gtid)),
        _ => None,
    }
}

/// When the transaction was committed, as far as its first event says; else when it began.
pub(super) fn transaction_time(event: &Event<'_>) -> When {
    match &event.body {
        EventBody::Gtid(gtid) if gtid.immediate_commit_micros > 0 => When(gtid.immediate_commit_micros),
        _ => When::from_seconds(event.header.timestamp),
    }
}

/// What the event is to its transaction, and whether it ends it. `open` is whether one is open, and then whether it has
/// begun: without that a statement is all of it.
pub(super) fn role(event: &Event<'_>, tables: Option<&TableFilter>, open: Option<bool>) -> (Role, bool) {
    match &event.body {
        EventBody::Gtid(_) => (Role::Gtid, false),
        EventBody::TransactionPayload(_) => (Role::Payload, false),
        EventBody::MariaGtid(_) => (Role::Gtid, false),
        EventBody::TableMap(_)
        | EventBody::RowsQuery(_)
        | EventBody::IntVar(_)
        | EventBody::Rand(_)
        | EventBody::UserVar(_) => (Role::Context, false),
        EventBody::Rows(_) | EventBody::CompressedRows(_) => (Role::Rows, false),
        EventBody::Ignored { rule: "load-data-block" } => (Role::Context, false),
        EventBody::Xid(_) | EventBody::XaPrepare(_) => (Role::End, true),
        EventBody::Incident { .. } => (Role::Incident, false),
        EventBody::ExecuteLoadQuery(query) | EventBody::Query(query) => match ddl::classify_query(query) {
            Classified::Begin | Classified::XaStart(_) => (Role::Begin, false),
            Classified::Commit | Classified::Rollback => (Role::End, true),
            Classified::XaCommit { .. } | Classified::XaRollback(_) => (Role::Control, true),
            Classified::XaEnd(_) | Classified::Savepoint => (Role::Control, false),
            statement => {
                let concerns = tables.is_none_or(|tables| concerns(&statement, query.schema, tables));
                (Role::Statement(concerns), open != Some(true))
            }
        },
        // Inside a transaction whatever is not known better goes with it.
        EventBody::Ignored { .. } if open.is_some() && !event.header.is_artificial() => (Role::Context, false),
        _ => (Role::Log, false),
    }
}

/// Whether a statement concerns a chosen table, or may.
fn concerns(statement: &Classified, database: &[u8], tables: &TableFilter) -> bool {
    match ddl::concerns(statement, &String::from_utf8_lossy(database), tables) {
        Verdict::Stop(_) => true,
        Verdict::Skip(rule) => rule == SkipRule::NewTable,
    }
}
