//! The stream's events, one by one: transactions, verdicts, and what goes to the targets. No sockets, no clock.

mod epoch;
mod images;
mod rows;
mod tables;
#[cfg(test)]
mod tests;
mod transaction;
mod xa;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use millstream_binlog::event::{
    Event, EventBody, Inflater, MariaGtidEvent, PayloadEvents, PayloadPlace, PayloadReader, TransactionPayload,
};
use millstream_binlog::{EventDecoder, Position, PositionTracker, SharedRow, TableSchema};
use rustc_hash::FxHashMap;

use transaction::Names;
pub(super) use xa::Xa;

use super::error::RunError;
use super::output::Outputs;
use super::report::Report;
use super::weights::Weights;
use super::workers::Access;
use crate::config::NameCase;
use crate::delivery::{Coordinate, Delivery, SourceKind, TxnId};
use crate::merge::{Merge, TableId, Xid};
use crate::schema::default::ColumnDefault;

/// Table maps that are kept at most.
const TABLE_MAPS: usize = 10_000;

/// A row that waits: read by a chunk, or held from the stream.
#[derive(Debug)]
pub(super) enum HeldRow {
    /// From a chunk's SELECT.
    Select(millstream_wire::Row),
    /// From the stream, in bytes of its own.
    Stream(SharedRow),
    /// From the stream, of an insert that left out columns which have their defaults.
    Inserted(SharedRow),
    /// From the stream, of an update: what either image lacks is in the other one, or as it was before.
    Updated { before: SharedRow, after: SharedRow },
    /// A row, and an update of it.
    Patched { base: Box<Self>, by: Box<Self> },
}

/// Targets of one table that stand at the same place.
pub(super) struct Group {
    pub(super) id: TableId,
    pub(super) targets: Vec<usize>,
    /// Every change is emitted without a look at its key.
    plain: bool,
}

impl Group {
    pub(super) const fn new(id: TableId, targets: Vec<usize>) -> Self {
        Self { id, targets, plain: false }
    }
}

/// A captured table.
pub(super) struct Captured {
    pub(super) schema: Arc<TableSchema>,
    /// The unique index by which rows are matched, without a primary key.
    pub(super) index: Option<String>,
    /// Each column's default.
    pub(super) defaults: Arc<[ColumnDefault]>,
    pub(super) access: Arc<Access>,
    pub(super) groups: Vec<Group>,
    /// Rows that chunks have brought since the start.
    pub(super) snapshot_rows: u64,
}

/// What a TABLE_MAP's id stands for.
enum Mapped {
    Captured {
        table: usize,
        schema: Arc<TableSchema>,
        /// The map's own bytes: an equal map needs no second look.
        definition: Box<[u8]>,
    },
    /// Matches the configuration but is not captured: it appeared later.
    Late,
    /// All of its targets are left out.
    Asleep,
    Other,
}

/// The open transaction.
struct Transaction {
    id: TxnId,
    /// Its GTID, for rows that say where they come from.
    gtid: Option<String>,
    ts_micros: Option<u64>,
    /// A BEGIN came: it ends by XID, COMMIT, ROLLBACK or XA PREPARE, not with its first statement.
    begun: bool,
    /// It was judged before a restart, and comes again for the sake of what it says of XA.
    known: bool,
}

/// The server's own limit of an event's bytes.
const MAX_EVENT: usize = 1 << 30;
/// Events of a compressed transaction that are read before the driver looks at everything else.
const INNER_EVENTS_PER_TURN: usize = 64;

/// What an event did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// A transaction is open.
    Inside,
    /// No transaction is open.
    Boundary,
}

/// Which tables the configuration wants, for tables that appear later.
pub(super) trait Wanted: Send {
    fn wants(&self, database: &str, table: &str) -> bool;
}

pub(super) struct Core {
    decoder: EventDecoder,
    payload: PayloadReader,
    /// For statements and rows that MariaDB has packed; taken out while it lends an event.
    inflater: Option<Inflater>,
    /// A compressed transaction that is read in part.
    paused: Option<(Bytes, PayloadPlace)>,
    maps: FxHashMap<u64, Mapped>,
    pub(super) tables: Vec<Captured>,
    names: Names,
    pub(super) merge: Merge<HeldRow>,
    pub(super) delivery: Delivery,
    pub(super) outputs: Outputs,
    pub(super) report: Report,
    at: PositionTracker,
    transaction: Option<Transaction>,
    /// Per table: changes of the open transaction seen so far.
    ordinals: Vec<u32>,
    /// After a lost connection: the transaction that was open, and how many changes of each table were judged.
    again: Option<(TxnId, Vec<u32>)>,
    /// Prepared XA transactions, and their rows.
    pub(super) xa: Xa,
    /// Where the stream stood at the last closed epoch.
    pub(super) closed_at: Coordinate,
    late: BTreeSet<(String, String)>,
    /// Captured tables of which every target is left out: their rows are skipped, and a statement may do with them what it
    /// likes.
    asleep: BTreeSet<(String, String)>,
    /// Of these, those that appeared or changed since the driver took them.
    appeared: Vec<(String, String)>,
    /// The stream ends before this transaction.
    pub(super) barrier: Option<TxnId>,
    wanted: Box<dyn Wanted>,
    key: Vec<u8>,
    /// Weights of key text.
    pub(super) weights: Weights,
    /// An event that waits for weights: nothing of it is judged.
    unweighed: Option<Unweighed>,
}

/// An event that waits for weights.
struct Unweighed {
    raw: Bytes,
    /// Out of a compressed transaction.
    inner: bool,
}

impl Core {
    #[allow(clippy::too_many_arguments, reason = "built in one place from the parts that outlive it")]
    pub(super) fn new(
        decoder: EventDecoder,
        tables: Vec<Captured>,
        merge: Merge<HeldRow>,
        delivery: Delivery,
        outputs: Outputs,
        xa: Xa,
        closed_at: Coordinate,
        wanted: Box<dyn Wanted>,
        case: NameCase,
        weights: Weights,
    ) -> Self {
        let (mut names, mut asleep) = (HashMap::new(), BTreeSet::new());
        for (i, t) in tables.iter().enumerate() {
            let name = (t.schema.database.clone(), t.schema.table.clone());
            if t.groups.is_empty() {
                asleep.insert(name);
            } else {
                names.insert(name, i);
            }
        }
        let names = Names { tables: names, case };
        let ordinals = vec![0; tables.len()];
        let mut core = Self {
            decoder,
            payload: PayloadReader::new(MAX_EVENT, 1 << 30),
            inflater: None,
            paused: None,
            maps: FxHashMap::default(),
            tables,
            names,
            merge,
            delivery,
            outputs,
            report: Report::default(),
            at: PositionTracker::new(Position::new("", 0)),
            transaction: None,
            ordinals,
            again: None,
            xa,
            closed_at,
            late: BTreeSet::new(),
            asleep,
            appeared: Vec::new(),
            barrier: None,
            wanted,
            key: Vec::new(),
            weights,
            unweighed: None,
        };
        core.refresh_groups();
        core
    }

    /// Whether a transaction is open, or was open when the connection was lost.
    pub(super) const fn is_inside(&self) -> bool {
        self.transaction.is_some() || self.again.is_some()
    }

    /// Whether everything judged is in a closed epoch.
    pub(super) fn is_clean(&self) -> bool {
        let targets = self.outputs.targets.iter().all(|t| !t.dirty);
        targets && !self.outputs.emitted && !self.delivery.has_loads() && self.closed_at.passed == *self.merge.judged()
    }

    /// Whether every table is live.
    pub(super) fn is_live(&self) -> bool {
        self.tables.iter().flat_map(|t| &t.groups).all(|g| self.merge.is_live(g.id))
    }

    /// How many tables are live.
    pub(super) fn live_tables(&self) -> usize {
        self.tables.iter().filter(|t| t.groups.iter().all(|g| self.merge.is_live(g.id))).count()
    }

    fn refresh_groups(&mut self) {
        for group in self.tables.iter_mut().flat_map(|t| &mut t.groups) {
            group.plain = self.merge.is_live(group.id)
                && self.merge.ahead(group.id).is_none()
                && !self.merge.has_watermarks(group.id);
        }
    }

    fn position(&self) -> Position {
        self.at.position().clone()
    }

    /// The connection was lost: the open transaction will come again from its start.
    pub(super) fn connection_lost(&mut self, decoder: EventDecoder) {
        self.decoder = decoder;
        self.maps.clear();
        self.paused = None;
        self.unweighed = None;
        self.weights.forget_wanted();
        self.xa.connection_lost();
        if self.transaction.as_ref().is_some_and(|t| t.known) {
            // Nothing of it is judged.
            self.transaction = None;
        }
        if let Some(t) = self.transaction.take() {
            let mut judged = core::mem::take(&mut self.ordinals);
            if let Some((lost, before)) = &self.again
                && *lost == t.id
            {
                // Lost again before the old place was reached.
                for (now, before) in judged.iter_mut().zip(before) {
                    *now = (*now).max(*before);
                }
            }
            self.again = Some((t.id, judged));
            self.ordinals = vec![0; self.tables.len()];
        }
    }

    /// After an event that cannot be followed: goes back to the start of its transaction, if no row of it was judged.
    /// Whether no transaction is open then.
    pub(super) fn step_back(&mut self) -> bool {
        if self.again.is_none() && self.ordinals.iter().all(|n| *n == 0) {
            self.transaction = None;
            self.xa.drop_open();
        }
        !self.is_inside()
    }

    /// The transaction that is open.
    pub(super) fn open_transaction(&self) -> Option<TxnId> {
        self.transaction.as_ref().map(|t| t.id.clone())
    }

    /// One event of the stream.
    pub(super) fn event(&mut self, raw: &Bytes) -> Result<Flow, RunError> {
        let event = self.decoder.decode(raw).map_err(|e| self.broken(e))?;
        self.at.follow(&event);
        if let EventBody::TransactionPayload(payload) = event.body {
            self.payload_events(raw, &payload, None)?;
        } else if !self.keep(raw, &event, false)? {
            self.opened(event)?;
            self.hold_unweighed(raw, false);
        }
        self.advance();
        Ok(self.flow())
    }

    /// An event whose body may be packed.
    fn opened(&mut self, event: Event<'_>) -> Result<(), RunError> {
        if !matches!(event.body, EventBody::CompressedQuery(_) | EventBody::CompressedRows(_)) {
            return self.apply(&event);
        }
        if let EventBody::CompressedRows(rows) = event.body
            && self.passes_over(rows.table_id())
        {
            return Ok(());
        }
        let mut inflater = self.inflater.take().unwrap_or_else(|| Inflater::new(MAX_EVENT));
        let done = match event.inflate(&mut inflater) {
            Ok(event) => self.apply(&event),
            Err(e) => Err(self.broken(e)),
        };
        self.inflater = Some(inflater);
        done
    }

    const fn flow(&self) -> Flow {
        if self.is_inside() { Flow::Inside } else { Flow::Boundary }
    }

    /// Whether an event waited, or a compressed transaction is read in part; [`Self::go_on`] comes before the next event.
    pub(super) const fn is_paused(&self) -> bool {
        self.paused.is_some() || self.unweighed.is_some() || self.xa.is_replaying()
    }

    /// Whether an event waits for weights; nothing of the stream is judged before they are here.
    pub(super) const fn is_waiting(&self) -> bool {
        self.weights.is_waiting()
    }

    /// Whether the last event has to be gone on with before the next one.
    const fn is_paused_by_event(&self) -> bool {
        self.weights.is_waiting() || self.xa.is_replaying()
    }

    fn hold_unweighed(&mut self, raw: &Bytes, inner: bool) {
        if self.weights.is_waiting() {
            self.unweighed = Some(Unweighed { raw: raw.clone(), inner });
        }
    }

    /// The event that waited, or the next events of a compressed transaction.
    pub(super) fn go_on(&mut self) -> Result<Flow, RunError> {
        if let Some(Unweighed { raw, inner }) = self.unweighed.take() {
            let event = if inner { self.decoder.decode_inner(&raw) } else { self.decoder.decode_again(&raw) };
            let event = event.map_err(|e| self.broken(e))?;
            self.opened(event)?;
            self.hold_unweighed(&raw, inner);
        } else if self.xa.is_replaying() {
            self.replay()?;
        } else if let Some((raw, place)) = self.paused.take() {
            let event = self.decoder.decode_again(&raw).map_err(|e| self.broken(e))?;
            if let EventBody::TransactionPayload(payload) = event.body {
                self.payload_events(&raw, &payload, Some(place))?;
            }
        }
        Ok(self.flow())
    }

    /// A compressed transaction may be far larger than the memory budget: it is read a part at a time.
    fn payload_events(
        &mut self,
        raw: &Bytes,
        payload: &TransactionPayload<'_>,
        place: Option<PayloadPlace>,
    ) -> Result<(), RunError> {
        let mut reader = core::mem::replace(&mut self.payload, PayloadReader::new(0, 0));
        let inner = match place {
            Some(place) => Ok(reader.resume(payload, place)),
            None => reader.open(payload),
        };
        let place = inner.map_err(|e| self.broken(e)).and_then(|inner| self.inner_events(inner));
        self.payload = reader;
        self.paused = place?.map(|place| (raw.clone(), place));
        Ok(())
    }

    /// Where it paused, or `None` at the end.
    fn inner_events(&mut self, mut inner: PayloadEvents<'_, '_>) -> Result<Option<PayloadPlace>, RunError> {
        for _ in 0..INNER_EVENTS_PER_TURN {
            let Some(raw) = inner.next_event().map_err(|e| self.broken(e))? else { return Ok(None) };
            let event = self.decoder.decode_inner(&raw).map_err(|e| self.broken(e))?;
            if self.keep(&raw, &event, true)? {
                continue;
            }
            self.apply(&event)?;
            self.hold_unweighed(&raw, true);
            if self.is_paused_by_event() || !self.outputs.uploads.is_empty() {
                break;
            }
        }
        Ok(Some(inner.pause()))
    }

    fn broken(&self, e: millstream_binlog::Error) -> RunError {
        let text = format!("the binlog cannot be read after {}: {e}", self.at.position());
        if e.is_checksum() { RunError::away(text) } else { RunError::stopped(text) }.because(e)
    }

    fn stop(&self, what: impl core::fmt::Display) -> RunError {
        let open = self.transaction.as_ref().map_or_else(String::new, |t| format!(" (transaction {})", t.id));
        RunError::stopped(format!("stopped at {}{open}: {what}", self.at.position()))
    }

    /// Where an event that lies in the log begins.
    fn begins(&self, event: &Event<'_>) -> Position {
        let mut at = self.position();
        at.offset = at.offset.saturating_sub(u64::from(event.header.length));
        at
    }

    /// The FORMAT_DESCRIPTION of the file that is read. In a log that was RESET the same name stands for another file.
    fn file_begins(&mut self, created: u32) -> Result<(), RunError> {
        match self.merge.file_created(&self.at.position().file, created) {
            Ok(()) => Ok(()),
            Err(before) => Err(self.stop(format_args!(
                "the file is another one than before (written since {created}, not {before}, in seconds of Unix time): the \
                 source's log was reset, or this is another server. Begin again with a new state directory and on_existing = \
                 \"truncate\""
            ))),
        }
    }

    fn apply(&mut self, event: &Event<'_>) -> Result<(), RunError> {
        match event.body {
            EventBody::Rows(_) if self.transaction.as_ref().is_some_and(|t| t.known) => {
                self.report.skip("judged_before");
                Ok(())
            }
            EventBody::Rows(ref rows) => self.rows(rows),
            EventBody::TableMap(ref map) => self.table_map(map),
            EventBody::Gtid(ref gtid) => {
                let commit = gtid.immediate_commit_micros;
                let ts_micros = if commit > 0 { Some(commit) } else { written_at(event) };
                let id = match (self.merge.judged().kind(), gtid.gtid) {
                    (SourceKind::Position, _) => TxnId::At(self.begins(event)),
                    (SourceKind::Gtid, Some(gtid)) => gtid.into(),
                    (SourceKind::Gtid, None) => {
                        return Err(self.stop(
                            "a transaction without a GTID, in a pipeline that began with gtid_mode=ON: set it back, or begin \
                             with a new state",
                        ));
                    }
                };
                self.begin(id, gtid.gtid.map(|gtid| gtid.to_string()), ts_micros)
            }
            EventBody::MariaGtid(ref gtid) if self.merge.judged().kind() == SourceKind::Position => {
                self.begin(TxnId::At(self.begins(event)), Some(gtid.gtid.to_string()), written_at(event))?;
                if let Some(open) = &mut self.transaction {
                    // No BEGIN follows.
                    open.begun = !gtid.is_standalone();
                }
                if gtid.flags & MariaGtidEvent::PREPARED_XA != 0 {
                    self.xa.start();
                }
                Ok(())
            }
            EventBody::Xid(_) => self.end(),
            EventBody::Query(ref query) => {
                // Servers that log no GTID, not even an anonymous one: a statement begins its transaction.
                if self.transaction.is_none() && self.merge.judged().kind() == SourceKind::Position {
                    self.begin(TxnId::At(self.begins(event)), None, written_at(event))?;
                }
                self.query(query)
            }
            EventBody::ExecuteLoadQuery(ref query) => {
                let at = String::from_utf8_lossy(query.sql).into_owned();
                Err(self.stop(format_args!(
                    "LOAD DATA logged as a statement changes rows that the binlog does not show: {at:?}. Set binlog_format = \
                     ROW for every session, then begin with a new state"
                )))
            }
            EventBody::XaPrepare(ref xa) => {
                if xa.one_phase {
                    return self.end();
                }
                let xid = Xid::new(i64::from(xa.xid.format_id), xa.xid.gtrid, xa.xid.bqual);
                self.xa_prepare(xid, u64::from(event.header.timestamp))
            }
            EventBody::Rotate(_) => {
                self.maps.clear();
                if self.transaction.is_none() {
                    self.merge.rotated(self.position());
                }
                Ok(())
            }
            EventBody::FormatDescription(ref fde) => {
                self.checksums(fde.checksum);
                self.file_begins(event.header.timestamp)
            }
            EventBody::Heartbeat(_) | EventBody::PreviousGtids(_) | EventBody::GtidList(_) => Ok(()),
            EventBody::Stop => {
                self.report.skip("stop");
                Ok(())
            }
            EventBody::RowsQuery(_) => {
                self.report.skip("rows_query");
                Ok(())
            }
            // Of a statement that follows as QUERY or EXECUTE_LOAD_QUERY, which decides.
            EventBody::IntVar(_) | EventBody::Rand(_) | EventBody::UserVar(_) => {
                self.report.skip("statement-context");
                Ok(())
            }
            EventBody::BinlogCheckpoint(_) => {
                self.report.skip("binlog-checkpoint");
                Ok(())
            }
            EventBody::StartEncryption(_) => {
                self.report.skip("start-encryption");
                Ok(())
            }
            EventBody::Incident { number, message } => Err(self.stop(format_args!(
                "the source says that its binlog lacks events (incident {number}: {:?}); only a new snapshot can help",
                String::from_utf8_lossy(message)
            ))),
            EventBody::Ignored { rule } => {
                self.report.skip(rule);
                Ok(())
            }
            _ => Err(self.stop(format_args!("the engine cannot follow a {} event", event.header.event_type))),
        }
    }
}

/// When an event was written, in microseconds of Unix time: whole seconds, as the log has them.
fn written_at(event: &Event<'_>) -> Option<u64> {
    (event.header.timestamp > 0).then(|| u64::from(event.header.timestamp).saturating_mul(1_000_000))
}
