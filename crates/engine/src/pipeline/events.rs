//! The stream's events, one by one: transactions, verdicts, and what goes to the targets. No sockets, no clock.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use millstream_binlog::event::{
    Event, EventBody, PayloadEvents, PayloadPlace, PayloadReader, Query, RowsEvent, TableMap, TransactionPayload,
};
use millstream_binlog::{
    ColumnValue, EventDecoder, EventHeader, Gtid, Position, Row, RowChange, SharedRow, TableSchema,
};
use millstream_doris_sink::{Op, RowMeta};
use rustc_hash::FxHashMap;

use super::error::RunError;
use super::output::Outputs;
use super::report::Report;
use super::workers::Access;
use crate::config::NameCase;
use crate::delivery::{Coordinate, Delivery, Extra, Partial, TargetChange};
use crate::merge::{ChangeKind, Entry, Merge, TableId, Verdict};
use crate::schema::ddl::{self, Classified};
use crate::snapshot::values::select_values;

/// Table maps that are kept at most.
const TABLE_MAPS: usize = 10_000;

/// A row that waits: read by a chunk, or held from the stream.
#[derive(Debug)]
pub(super) enum HeldRow {
    /// From a chunk's SELECT.
    Select(millstream_wire::Row),
    /// From the stream, in bytes of its own.
    Stream(SharedRow),
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
    pub(super) access: Arc<Access>,
    pub(super) groups: Vec<Group>,
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
    Other,
}

/// The open transaction.
struct Transaction {
    gtid: Gtid,
    text: String,
    ts_micros: Option<u64>,
    /// A BEGIN came: it ends by XID, COMMIT, ROLLBACK or XA PREPARE, not with its first statement.
    begun: bool,
    /// An XA transaction's xid, from XA START or XA PREPARE.
    captured_rows: bool,
}

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

/// The captured tables by name.
struct Names {
    tables: HashMap<(String, String), usize>,
    case: NameCase,
}

impl ddl::Captured for Names {
    fn table(&self, database: &str, table: &str) -> bool {
        self.tables.keys().any(|(d, t)| self.case.same(d, database) && self.case.same(t, table))
    }

    fn database(&self, database: &str) -> bool {
        self.tables.keys().any(|(d, _)| self.case.same(d, database))
    }
}

/// The values of a row that [`crate::snapshot::reader`] has checked.
fn selected<'r>(
    schema: &'r TableSchema,
    row: &'r millstream_wire::Row,
) -> impl Iterator<Item = (usize, ColumnValue<'r>)> + Clone {
    select_values(schema, row).enumerate().filter_map(|(i, value)| Some((i, value.ok()?)))
}

/// An XA transaction's id as text.
fn xid_text(format_id: i32, gtrid: &[u8], bqual: &[u8]) -> String {
    format!("{format_id}:{}:{}", gtrid.escape_ascii(), bqual.escape_ascii())
}

/// Which tables the configuration wants, for tables that appear later.
pub(super) trait Wanted: Send {
    fn wants(&self, database: &str, table: &str) -> bool;
}

pub(super) struct Core {
    decoder: EventDecoder,
    payload: PayloadReader,
    /// A compressed transaction that is read in part.
    paused: Option<(Bytes, PayloadPlace)>,
    maps: FxHashMap<u64, Mapped>,
    pub(super) tables: Vec<Captured>,
    names: Names,
    pub(super) merge: Merge<HeldRow>,
    pub(super) delivery: Delivery,
    pub(super) outputs: Outputs,
    pub(super) report: Report,
    file: Arc<str>,
    offset: u64,
    transaction: Option<Transaction>,
    /// Per table: changes of the open transaction seen so far.
    ordinals: Vec<u32>,
    /// After a lost connection: the transaction that was open, and how many changes of each table were judged.
    again: Option<(Gtid, Vec<u32>)>,
    /// XA transactions prepared with no captured row.
    prepared: BTreeSet<String>,
    /// The same at the last closed epoch.
    closed_prepared: BTreeSet<String>,
    /// Where the stream stood at the last closed epoch.
    pub(super) closed_at: Coordinate,
    late: BTreeSet<(String, String)>,
    /// The stream ends before this transaction.
    pub(super) barrier: Option<Gtid>,
    wanted: Box<dyn Wanted>,
    key: Vec<u8>,
}

impl Core {
    #[allow(clippy::too_many_arguments, reason = "built in one place from the parts that outlive it")]
    pub(super) fn new(
        decoder: EventDecoder,
        tables: Vec<Captured>,
        merge: Merge<HeldRow>,
        delivery: Delivery,
        outputs: Outputs,
        prepared: BTreeSet<String>,
        closed_at: Coordinate,
        wanted: Box<dyn Wanted>,
        case: NameCase,
    ) -> Self {
        let names =
            tables.iter().enumerate().map(|(i, t)| ((t.schema.database.clone(), t.schema.table.clone()), i)).collect();
        let names = Names { tables: names, case };
        let ordinals = vec![0; tables.len()];
        let mut core = Self {
            decoder,
            payload: PayloadReader::new(1 << 30, 1 << 30),
            paused: None,
            maps: FxHashMap::default(),
            tables,
            names,
            merge,
            delivery,
            outputs,
            report: Report::default(),
            file: Arc::from(""),
            offset: 0,
            transaction: None,
            ordinals,
            again: None,
            closed_prepared: prepared.clone(),
            prepared,
            closed_at,
            late: BTreeSet::new(),
            barrier: None,
            wanted,
            key: Vec::new(),
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
        targets && !self.outputs.emitted && !self.delivery.has_loads() && self.closed_at.gtids == *self.merge.judged()
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
            group.plain = self.merge.is_live(group.id) && self.merge.ahead(group.id).is_none();
        }
    }

    fn position(&self) -> Position {
        Position { file: Arc::clone(&self.file), offset: self.offset }
    }

    /// The connection was lost: the open transaction will come again from its start.
    pub(super) fn connection_lost(&mut self, decoder: EventDecoder) {
        self.decoder = decoder;
        self.maps.clear();
        self.paused = None;
        if let Some(t) = self.transaction.take() {
            let mut judged = core::mem::take(&mut self.ordinals);
            if let Some((gtid, before)) = &self.again
                && *gtid == t.gtid
            {
                // Lost again before the old place was reached.
                for (now, before) in judged.iter_mut().zip(before) {
                    *now = (*now).max(*before);
                }
            }
            self.again = Some((t.gtid, judged));
            self.ordinals = vec![0; self.tables.len()];
        }
    }

    /// After an event that cannot be followed: goes back to the start of its transaction, if no row of it was judged.
    /// Whether no transaction is open then.
    pub(super) fn step_back(&mut self) -> bool {
        if self.again.is_none() && self.ordinals.iter().all(|n| *n == 0) {
            self.transaction = None;
        }
        !self.is_inside()
    }

    /// The transaction that is open.
    pub(super) fn open_transaction(&self) -> Option<Gtid> {
        self.transaction.as_ref().map(|t| t.gtid)
    }

    /// One event of the stream.
    pub(super) fn event(&mut self, raw: &Bytes) -> Result<Flow, RunError> {
        let event = self.decoder.decode(raw).map_err(|e| self.broken(e))?;
        self.follow(&event.header);
        if let EventBody::TransactionPayload(payload) = event.body {
            self.payload_events(raw, &payload, None)?;
        } else {
            self.apply(&event)?;
        }
        Ok(self.flow())
    }

    const fn flow(&self) -> Flow {
        if self.is_inside() { Flow::Inside } else { Flow::Boundary }
    }

    /// Whether a compressed transaction is read in part; [`Self::go_on`] comes before the next event.
    pub(super) const fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// The next events of a compressed transaction.
    pub(super) fn go_on(&mut self) -> Result<Flow, RunError> {
        if let Some((raw, place)) = self.paused.take() {
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
            self.apply(&event)?;
            if !self.outputs.uploads.is_empty() {
                break;
            }
        }
        Ok(Some(inner.pause()))
    }

    fn broken(&self, e: millstream_binlog::Error) -> RunError {
        let text = format!("the binlog cannot be read after {}:{}: {e}", self.file, self.offset);
        if e.is_checksum() { RunError::away(text) } else { RunError::stopped(text) }.because(e)
    }

    fn stop(&self, what: impl core::fmt::Display) -> RunError {
        let gtid = self.transaction.as_ref().map_or_else(String::new, |t| format!(" (transaction {})", t.text));
        RunError::stopped(format!("stopped at {}:{}{gtid}: {what}", self.file, self.offset))
    }

    /// The position after an event. `log_pos` has 32 bits; lengths and the low bits make 64 of it.
    fn follow(&mut self, header: &EventHeader) {
        if header.log_pos == 0 || header.is_artificial() {
            return;
        }
        let low = u64::from(header.log_pos);
        let mut offset = (self.offset & !0xffff_ffff) | low;
        if offset < self.offset {
            offset = offset.saturating_add(1 << 32);
        }
        self.offset = offset;
    }

    fn apply(&mut self, event: &Event<'_>) -> Result<(), RunError> {
        match event.body {
            EventBody::Rows(ref rows) => self.rows(rows),
            EventBody::TableMap(ref map) => self.table_map(map),
            EventBody::Gtid(ref gtid) => {
                let Some(id) = gtid.gtid else {
                    return Err(self.stop(
                        "a transaction without a GTID; gtid_mode must be ON (set it back and begin with a new state)",
                    ));
                };
                self.begin(id, (gtid.immediate_commit_micros > 0).then_some(gtid.immediate_commit_micros))
            }
            EventBody::Xid(_) => self.commit(),
            EventBody::Query(ref query) => self.query(query),
            EventBody::ExecuteLoadQuery(ref query) => {
                let at = String::from_utf8_lossy(query.sql).into_owned();
                Err(self.stop(format_args!(
                    "LOAD DATA logged as a statement changes rows that the binlog does not show: {at:?}. Set binlog_format = \
                     ROW for every session, then begin with a new state"
                )))
            }
            EventBody::XaPrepare(ref xa) => self.xa_prepare(xa.one_phase, &xid_text(xa.format_id, xa.gtrid, xa.bqual)),
            EventBody::Rotate(rotate) => {
                self.maps.clear();
                self.file = Arc::from(rotate.file);
                self.offset = rotate.position;
                self.advance();
                Ok(())
            }
            EventBody::Heartbeat(ref heartbeat) => {
                if *self.file == *heartbeat.file && heartbeat.position > self.offset {
                    self.offset = heartbeat.position;
                }
                self.advance();
                Ok(())
            }
            EventBody::FormatDescription(_) | EventBody::PreviousGtids(_) => {
                self.advance();
                Ok(())
            }
            EventBody::Stop => {
                self.report.skip("stop");
                Ok(())
            }
            EventBody::RowsQuery(_) => {
                self.report.skip("rows_query");
                Ok(())
            }
            EventBody::PartialUpdateRows { table_id } => match self.maps.get(&table_id) {
                Some(Mapped::Captured { .. }) => Err(self.stop(
                    "a JSON column was logged as a difference; set binlog_row_value_options = '' on the source, then begin \
                     with a new state",
                )),
                _ => {
                    self.report.filtered_events = self.report.filtered_events.saturating_add(1);
                    Ok(())
                }
            },
            EventBody::Incident { number, message } => Err(self.stop(format_args!(
                "the source says that its binlog lacks events (incident {number}: {:?}); only a new snapshot can help",
                String::from_utf8_lossy(message)
            ))),
            EventBody::Ignored { rule } => {
                self.report.skip(rule);
                Ok(())
            }
            _ => Err(self.stop("an event that this version does not know")),
        }
    }

    fn begin(&mut self, gtid: Gtid, ts_micros: Option<u64>) -> Result<(), RunError> {
        if let Some(open) = &self.transaction {
            return Err(self.stop(format_args!("transaction {gtid} begins inside {}", open.text)));
        }
        if let Some((lost, _)) = &self.again
            && *lost != gtid
        {
            return Err(RunError::away(format!(
                "the source does not send transaction {lost} again, in which the connection was lost: going back to the \
                 last durable record"
            )));
        }
        if self.barrier == Some(gtid) {
            return Err(self.stop(format_args!("transaction {gtid} cannot be followed")));
        }
        // Between transactions every table will be named again before its rows.
        if self.maps.len() >= TABLE_MAPS {
            self.maps.clear();
        }
        self.ordinals.fill(0);
        self.transaction =
            Some(Transaction { gtid, text: gtid.to_string(), ts_micros, begun: false, captured_rows: false });
        self.merge.begin(gtid);
        Ok(())
    }

    fn commit(&mut self) -> Result<(), RunError> {
        if self.transaction.take().is_none() {
            return Err(self.stop("a transaction ends that never began"));
        }
        if let Some((_, judged)) = self.again.take()
            && judged.iter().zip(&self.ordinals).any(|(before, now)| before > now)
        {
            return Err(RunError::away(
                "a transaction came again with fewer rows: going back to the last durable record",
            ));
        }
        self.report.transactions = self.report.transactions.saturating_add(1);
        let was_ahead = self.merge.is_any_ahead();
        self.merge.commit(self.position());
        if was_ahead {
            for target in &mut self.outputs.targets {
                target.dirty |= target.last.ahead.is_some();
            }
            self.refresh_groups();
        }
        Ok(())
    }

    fn advance(&mut self) {
        if self.transaction.is_none() {
            let position = self.position();
            self.merge.advance(position);
        }
    }

    fn query(&mut self, query: &Query<'_>) -> Result<(), RunError> {
        let statement = ddl::classify_query(query);
        match &statement {
            Classified::Begin | Classified::XaStart(_) => {
                if let Some(t) = &mut self.transaction {
                    t.begun = true;
                }
                return Ok(());
            }
            // A transaction is logged with ROLLBACK only if it touched what cannot be rolled back: its rows stand.
            Classified::Commit | Classified::Rollback | Classified::XaCommit { one_phase: true, .. } => {
                return self.commit();
            }
            Classified::XaCommit { xid, one_phase: false } => {
                if !self.prepared.remove(&xid_text(xid.format_id, &xid.gtrid, &xid.bqual)) {
                    return Err(self.stop(format_args!(
                        "XA COMMIT of {xid:?}, which was prepared before this pipeline began, may bring rows of captured \
                         tables that nothing shows; begin with a new state when XA RECOVER is empty"
                    )));
                }
                self.report.skip("xa_commit");
                return self.commit();
            }
            Classified::XaRollback(xid) => {
                self.prepared.remove(&xid_text(xid.format_id, &xid.gtrid, &xid.bqual));
                self.report.skip("xa_rollback");
                return self.commit();
            }
            Classified::Savepoint | Classified::XaEnd(_) => {
                self.report.skip("savepoint");
                return Ok(());
            }
            _ => {}
        }
        let database = String::from_utf8_lossy(query.schema);
        match ddl::concerns(&statement, &database, &self.names) {
            ddl::Verdict::Skip(rule) => self.report.skip(rule.name()),
            ddl::Verdict::Stop(reason) => {
                let sql: String = String::from_utf8_lossy(query.sql).chars().take(300).collect();
                return Err(self.stop(format_args!(
                    "{reason}: {sql:?}. Schema changes are not followed yet: bring the target into the new form, then \
                     begin with a new state directory and on_existing = \"truncate\""
                )));
            }
        }
        match &self.transaction {
            Some(t) if !t.begun => self.commit(),
            _ => Ok(()),
        }
    }

    fn xa_prepare(&mut self, one_phase: bool, xid: &str) -> Result<(), RunError> {
        let captured = self.transaction.as_ref().is_some_and(|t| t.captured_rows);
        if !one_phase {
            if captured {
                return Err(self.stop(format_args!(
                    "XA PREPARE of {xid} with rows of a captured table: two-phase XA transactions are not followed yet. \
                     Exclude the table or stop using XA on it, then begin with a new state"
                )));
            }
            self.prepared.insert(xid.to_owned());
            self.report.skip("xa_prepare");
        }
        self.commit()
    }

    fn table_map(&mut self, map: &TableMap<'_>) -> Result<(), RunError> {
        let id = map.table_id;
        let (database, table) = (map.database, map.table);
        let name = (database.to_owned(), table.to_owned());
        if let Some(&index) = self.names.tables.get(&name) {
            let Some(captured) = self.tables.get(index) else { return Ok(()) };
            if let Some(Mapped::Captured { table, definition, .. }) = self.maps.get(&id)
                && *table == index
                && **definition == *map.definition()
            {
                return Ok(());
            }
            let schema = map.resolve(&captured.schema).map_err(|e| {
                self.stop(format_args!(
                    "{database}.{table} is not what it was when it was added ({e}); begin with a new state directory and \
                     on_existing = \"truncate\""
                ))
            })?;
            let definition = map.definition().into();
            self.maps.insert(id, Mapped::Captured { table: index, schema: Arc::new(schema), definition });
            return Ok(());
        }
        let mapped = if self.wanted.wants(database, table) {
            if self.late.insert(name) {
                tracing::warn!(
                    table = format!("{database}.{table}"),
                    "a table that matches source.tables appeared after the start; its rows are skipped until a restart"
                );
            }
            Mapped::Late
        } else {
            Mapped::Other
        };
        self.maps.insert(id, mapped);
        Ok(())
    }

    fn rows(&mut self, rows: &RowsEvent<'_>) -> Result<(), RunError> {
        let (table, schema) = match self.maps.get(&rows.table_id) {
            Some(Mapped::Captured { table, schema, .. }) => (*table, Arc::clone(schema)),
            Some(Mapped::Late) => {
                self.report.skip("table_appeared_later");
                return Ok(());
            }
            Some(Mapped::Other) => {
                self.report.filtered_events = self.report.filtered_events.saturating_add(1);
                return Ok(());
            }
            None => return Err(self.stop("rows of a table that was not named before")),
        };
        let Some(open) = &mut self.transaction else {
            return Err(self.stop("rows outside of a transaction"));
        };
        open.captured_rows = true;
        if !rows.is_full_image() {
            return Err(self.stop(format_args!(
                "{}.{} was logged with a partial row image; set binlog_row_image = FULL for every session, then begin \
                 with a new state",
                schema.database, schema.table
            )));
        }
        for change in rows.rows(&schema) {
            match change.map_err(|e| self.broken(e))? {
                RowChange::Insert(row) => self.change(table, &schema, Op::Create, None, Some(row))?,
                RowChange::Delete(row) => self.change(table, &schema, Op::Delete, Some(row), None)?,
                RowChange::Update { before, after } => {
                    if same_key(&schema, &before, &after) {
                        self.change(table, &schema, Op::Update, Some(before), Some(after))?;
                    } else {
                        self.change(table, &schema, Op::Delete, Some(before), None)?;
                        self.change(table, &schema, Op::Create, None, Some(after))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn change(
        &mut self,
        table: usize,
        schema: &Arc<TableSchema>,
        op: Op,
        before: Option<Row<'_, '_>>,
        after: Option<Row<'_, '_>>,
    ) -> Result<(), RunError> {
        let Self { tables, merge, outputs, delivery, report, ordinals, again, transaction, file, offset, key, .. } =
            self;
        let (Some(captured), Some(ordinal), Some(open)) =
            (tables.get(table), ordinals.get_mut(table), transaction.as_ref())
        else {
            return Ok(());
        };
        let number = *ordinal;
        *ordinal = number.saturating_add(1);
        if again.as_ref().and_then(|(_, judged)| judged.get(table)).is_some_and(|judged| number < *judged) {
            return Ok(());
        }
        report.changes_in = report.changes_in.saturating_add(1);
        let Some(image) = after.or(before) else { return Ok(()) };
        let mut seq = None;
        let mut dropped = None;
        for group in &captured.groups {
            let verdict = if group.plain {
                Verdict::Emit
            } else {
                key.clear();
                captured.access.codec.encode(|i| image.value(i), key).map_err(|e| {
                    RunError::stopped(format!("{}.{} at {file}:{offset}: {e}", schema.database, schema.table))
                })?;
                let kind = if op == Op::Delete { ChangeKind::Delete } else { ChangeKind::Put };
                merge.change(group.id, key, number, kind, || {
                    // Copied out, so that a small row does not keep its whole packet.
                    let row = image.share(&Bytes::new(), schema);
                    let size = row.len();
                    (HeldRow::Stream(row), size)
                })
            };
            match verdict {
                Verdict::Emit => {
                    let seq = match seq {
                        Some(seq) => seq,
                        None => *seq.insert(outputs.sequence.next()?),
                    };
                    let meta = RowMeta {
                        seq,
                        op,
                        gtid: Some(&open.text),
                        file,
                        pos: *offset,
                        row: number,
                        ts_micros: open.ts_micros,
                    };
                    for target in &group.targets {
                        outputs.emit(*target, &meta, before.map(|r| r.values()), after.map(|r| r.values()))?;
                        if outputs.batch_bytes(*target) >= outputs.flush_bytes {
                            let partial = Partial { gtid: open.gtid, rows: number.saturating_add(1) };
                            let at = Coordinate { gtids: merge.judged().clone(), partial: Some(partial) };
                            let at = merge.place(group.id, at);
                            outputs.seal(*target, delivery, at, merge.durable_ranges(group.id))?;
                        }
                    }
                }
                Verdict::Drop(rule) => dropped = Some(rule),
            }
        }
        match (seq, dropped) {
            (None, Some(rule)) => report.drop_change(rule.name()),
            _ => report.changes_emitted = report.changes_emitted.saturating_add(1),
        }
        Ok(())
    }

    /// Brings every chunk that is due into the output. Between transactions only.
    pub(super) fn entries(&mut self) -> Result<u64, RunError> {
        let mut entered = 0u64;
        while let Some(table) = self.merge.entry_due() {
            // A load that was cut inside a chunk would have an end that is nobody's, so cut before it where needed.
            let targets = self.targets_of(table);
            let half = self.outputs.flush_bytes / 2;
            for target in &targets {
                if self.outputs.batch_bytes(*target) > half {
                    self.cut(*target)?;
                }
            }
            let Some(entry) = self.merge.entry() else { break };
            self.enter(entry, &targets)?;
            entered = entered.saturating_add(1);
            if self.merge.is_live(table)
                && let Some(t) = self.tables.iter().find(|t| t.groups.iter().any(|g| g.id == table))
            {
                tracing::info!(table = format!("{}.{}", t.schema.database, t.schema.table), "table is live");
            }
        }
        if entered > 0 {
            self.refresh_groups();
        }
        Ok(entered)
    }

    fn enter(&mut self, entry: Entry<HeldRow>, targets: &[usize]) -> Result<(), RunError> {
        let Some(schema) =
            self.tables.iter().find(|t| t.groups.iter().any(|g| g.id == entry.table)).map(|t| Arc::clone(&t.schema))
        else {
            return Ok(());
        };
        self.report.chunks = self.report.chunks.saturating_add(1);
        for (number, (_, row)) in entry.rows.iter().enumerate() {
            let meta = RowMeta {
                seq: self.outputs.sequence.next()?,
                op: Op::Read,
                gtid: None,
                file: &self.file,
                pos: self.offset,
                row: u32::try_from(number).unwrap_or(u32::MAX),
                ts_micros: None,
            };
            for target in targets {
                match row {
                    HeldRow::Select(row) => {
                        self.outputs.emit(*target, &meta, None, Some(selected(&schema, row)))?;
                    }
                    HeldRow::Stream(row) => {
                        self.outputs.emit(*target, &meta, None, Some(row.row().values()))?;
                    }
                }
            }
        }
        let rows = u64::try_from(entry.rows.len()).unwrap_or(u64::MAX);
        self.report.snapshot_rows = self.report.snapshot_rows.saturating_add(rows);
        for target in targets {
            if let Some(t) = self.outputs.targets.get_mut(*target) {
                t.dirty = true;
            }
            if self.outputs.batch_bytes(*target) >= self.outputs.flush_bytes {
                self.cut(*target)?;
            }
        }
        Ok(())
    }

    fn targets_of(&self, table: TableId) -> Vec<usize> {
        self.tables.iter().flat_map(|t| &t.groups).find(|g| g.id == table).map_or_else(Vec::new, |g| g.targets.clone())
    }

    /// Where the stream stands, between transactions or (for one table) inside one.
    fn here(&self, source: usize) -> Coordinate {
        let open = self.transaction.as_ref().map(|t| t.gtid);
        let lost = self.again.as_ref();
        let seen = self.ordinals.get(source).copied().unwrap_or(0);
        let before = lost.and_then(|(_, judged)| judged.get(source)).copied().unwrap_or(0);
        let partial = open.or_else(|| lost.map(|(gtid, _)| *gtid)).map(|gtid| Partial { gtid, rows: seen.max(before) });
        Coordinate { gtids: self.merge.judged().clone(), partial }
    }

    /// Cuts a load from one target's batch, now.
    pub(super) fn cut(&mut self, target: usize) -> Result<(), RunError> {
        let Some(t) = self.outputs.targets.get(target) else { return Ok(()) };
        let (group, source) = (t.group, t.source);
        let at = self.merge.place(group, self.here(source));
        self.outputs.seal(target, &mut self.delivery, at, self.merge.durable_ranges(group))
    }

    /// Completes the report with where the run stands.
    pub(super) fn finish_report(&mut self) {
        self.report.position = self.merge.position().map(ToString::to_string);
        self.report.gtids = self.closed_at.gtids.to_string();
        self.report.rows_sent = self.report.rows_sent.saturating_add(core::mem::take(&mut self.outputs.rows_sent));
        let collapsed = core::mem::take(&mut self.outputs.rows_collapsed);
        self.report.rows_collapsed = self.report.rows_collapsed.saturating_add(collapsed);
    }

    /// Closes the filling epoch, between transactions. `false` if it could not be closed yet or there is nothing in it.
    pub(super) fn close_epoch(&mut self, output_bytes: Option<u64>) -> Result<bool, RunError> {
        if !self.delivery.may_close() || self.is_inside() {
            return Ok(false);
        }
        let next = Coordinate::boundary(self.merge.judged().clone());
        let dirty = self.outputs.targets.iter().any(|t| t.dirty);
        if !dirty && !self.outputs.emitted && !self.delivery.has_loads() && next == self.closed_at {
            return Ok(false);
        }
        for target in 0..self.outputs.targets.len() {
            self.cut(target)?;
        }
        let mut changes = Vec::new();
        for t in &mut self.outputs.targets {
            if !(t.dirty || t.loaded) {
                continue;
            }
            let state = self.merge.checkpoint(t.group);
            let previous = core::mem::replace(&mut t.last, state.clone());
            changes.push(TargetChange { target: t.no, previous, next: state });
            t.dirty = false;
            t.loaded = false;
        }
        let previous = core::mem::replace(&mut self.closed_at, next.clone());
        self.outputs.emitted = false;
        let before = core::mem::replace(&mut self.closed_prepared, self.prepared.clone());
        let extra = Extra { output_bytes, prepared: self.prepared.union(&before).cloned().collect() };
        Ok(self.delivery.close(previous, next, changes, extra))
    }
}

fn same_key(schema: &TableSchema, before: &Row<'_, '_>, after: &Row<'_, '_>) -> bool {
    schema.key.iter().all(|i| before.value(*i) == after.value(*i))
}
