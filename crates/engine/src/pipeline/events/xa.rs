//! XA transactions in two phases: their rows are kept from XA PREPARE, as they came, and go the way of any rows at XA COMMIT.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use millstream_binlog::event::{Checksum, Event, EventBody};
use rustc_hash::FxHashMap;

use super::{Core, INNER_EVENTS_PER_TURN, Mapped};
use crate::delivery::Passed;
use crate::merge::{Decision, RangeState, TableId, XaBook, XaPlace, Xid};
use crate::pipeline::error::RunError;
use crate::pipeline::xa_rows::{Cursor, Room, Rows};

/// How many decided transactions may not be visible at one time.
const DECIDED: usize = 50_000;
/// Bytes of the checksum behind an event.
const CHECKSUM: usize = 4;

/// What is kept of XA transactions.
pub(in crate::pipeline) struct Xa {
    pub(in crate::pipeline) book: XaBook,
    room: Room,
    kept: BTreeMap<Xid, Rows>,
    /// The open XA transaction.
    open: Option<Open>,
    replay: Option<Replay>,
    /// Events of the log have a checksum.
    checksum: bool,
    /// Decided lately, where LW says nothing about that: they may not be visible yet. In the order of their decisions too.
    decided: Option<Arc<BTreeSet<Xid>>>,
    order: VecDeque<Xid>,
    /// Places at which an epoch ended and a target may still stand, oldest first; the last is that of the last epoch.
    places: VecDeque<(Passed, XaPlace)>,
}

/// An XA transaction that has not ended.
#[derive(Default)]
struct Open {
    rows: Rows,
    /// Table maps of captured tables that no kept row has needed yet.
    maps: FxHashMap<u64, Bytes>,
}

/// Kept rows that are being judged.
struct Replay {
    /// `None`: those of the open transaction, which is committed in one phase.
    xid: Option<Xid>,
    cursor: Cursor,
}

impl Xa {
    /// For a stream that begins at `begin`.
    pub(in crate::pipeline) fn new(book: XaBook, room: Room, begin: Passed, place: XaPlace, lw_lacks_xa: bool) -> Self {
        Self {
            book,
            room,
            kept: BTreeMap::new(),
            open: None,
            replay: None,
            checksum: true,
            decided: lw_lacks_xa.then(Arc::default),
            order: VecDeque::new(),
            places: VecDeque::from([(begin, place)]),
        }
    }

    /// Whether kept rows are being judged.
    pub(super) const fn is_replaying(&self) -> bool {
        self.replay.is_some()
    }

    /// Whether the open transaction is an XA transaction.
    pub(super) const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// An XA transaction begins.
    pub(super) fn start(&mut self) {
        self.drop_open();
        self.open = Some(Open::default());
    }

    /// The open transaction comes again, or never goes on.
    pub(super) fn drop_open(&mut self) {
        self.replay = None;
        if let Some(open) = self.open.take() {
            self.room.release(open.rows);
        }
    }

    pub(super) fn connection_lost(&mut self) {
        self.drop_open();
        if self.book.connection_lost() {
            for rows in core::mem::take(&mut self.kept).into_values() {
                self.room.release(rows);
            }
        }
    }

    /// What an epoch keeps that ends at `next` while `least` is the place of the target that is furthest behind: for a restart
    /// anywhere before its end, and for one at its end.
    pub(super) fn close(&mut self, next: &Passed, least: &Passed, now: &Passed) -> (XaPlace, XaPlace) {
        let before = self.oldest();
        self.places.push_back((next.clone(), self.book.place(now)));
        while self.places.get(1).is_some_and(|(place, _)| least.is_superset(place)) {
            self.places.pop_front();
        }
        let after = match self.places.front() {
            Some((_, place)) if self.places.len() == 1 => place.clone(),
            _ => self.oldest(),
        };
        (before, after)
    }

    fn oldest(&self) -> XaPlace {
        let Some((at, place)) = self.places.front() else { return XaPlace::default() };
        XaPlace { read_from: Some(place.read_from.as_ref().unwrap_or(at).clone()), ..place.clone() }
    }

    /// The event as it would stand in a compressed transaction: without a checksum, in bytes of its own.
    fn bare(&self, raw: &Bytes, inner: bool) -> Bytes {
        let crc = if self.checksum && !inner { CHECKSUM } else { 0 };
        let mut bare = raw.get(..raw.len().saturating_sub(crc)).unwrap_or_default().to_vec();
        let length = u32::try_from(bare.len()).unwrap_or(u32::MAX).to_le_bytes();
        if let Some(stated) = bare.get_mut(9..13) {
            stated.copy_from_slice(&length);
        }
        bare.into()
    }

    fn push(&mut self, table_id: u64, raw: &Bytes, inner: bool) -> io::Result<()> {
        let event = self.bare(raw, inner);
        let Some(open) = &mut self.open else { return Ok(()) };
        if let Some(map) = open.maps.remove(&table_id) {
            open.rows.push(map, &mut self.room)?;
        }
        let was_spilled = open.rows.is_spilled();
        open.rows.push(event, &mut self.room)?;
        if open.rows.is_spilled() && !was_spilled {
            tracing::info!("a large XA transaction is being prepared: its rows go to a file in the state directory");
        }
        Ok(())
    }

    fn next_event(&mut self) -> io::Result<Option<Bytes>> {
        let Some(Replay { xid, cursor }) = &mut self.replay else { return Ok(None) };
        let rows = match xid {
            Some(xid) => self.kept.get(xid),
            None => self.open.as_ref().map(|open| &open.rows),
        };
        rows.map_or(Ok(None), |rows| cursor.next(rows))
    }

    /// Decided lately, and perhaps not visible yet.
    pub(in crate::pipeline) fn decided(&self) -> Arc<BTreeSet<Xid>> {
        self.decided.clone().unwrap_or_default()
    }

    fn note(&mut self, xid: &Xid, decided: bool) {
        let Some(set) = &mut self.decided else { return };
        if !decided {
            // Listed again, as another one.
            if set.contains(xid) {
                Arc::make_mut(set).remove(xid);
            }
            return;
        }
        let set = Arc::make_mut(set);
        if set.insert(xid.clone()) {
            self.order.push_back(xid.clone());
        }
        if self.order.len() > DECIDED
            && let Some(oldest) = self.order.pop_front()
        {
            set.remove(&oldest);
        }
    }

    /// Forgets the rows of a transaction that is decided.
    fn forget(&mut self, xid: &Xid) {
        if let Some(rows) = self.kept.remove(xid) {
            self.room.release(rows);
        }
    }
}

impl Core {
    /// Keeps an event of an open XA transaction. `false`: it is none of the rows that have to wait.
    pub(super) fn keep(&mut self, raw: &Bytes, event: &Event<'_>, inner: bool) -> Result<bool, RunError> {
        if self.xa.open.is_none() || self.xa.is_replaying() {
            return Ok(false);
        }
        match &event.body {
            EventBody::TableMap(map) => {
                self.table_map(map)?;
                if matches!(self.maps.get(&map.table_id), Some(Mapped::Captured { .. })) {
                    let bare = self.xa.bare(raw, inner);
                    if let Some(open) = &mut self.xa.open {
                        open.maps.insert(map.table_id, bare);
                    }
                }
                Ok(true)
            }
            EventBody::Rows(rows) if matches!(self.maps.get(&rows.table_id), Some(Mapped::Captured { .. })) => {
                self.xa.push(rows.table_id, raw, inner).map_err(|e| self.not_kept(e))?;
                Ok(true)
            }
            EventBody::CompressedRows(rows)
                if matches!(self.maps.get(&rows.table_id()), Some(Mapped::Captured { .. })) =>
            {
                self.xa.push(rows.table_id(), raw, inner).map_err(|e| self.not_kept(e))?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn not_kept(&self, e: io::Error) -> RunError {
        self.stop(format_args!(
            "the rows of a prepared XA transaction cannot be kept in a file of the state directory ({e}); make room, or raise \
             memory"
        ))
        .because(e)
    }

    /// What a FORMAT_DESCRIPTION says of the events behind it.
    pub(super) fn checksums(&mut self, checksum: Checksum) {
        self.xa.checksum = checksum == Checksum::Crc32;
    }

    /// The open transaction is committed: rows of an XA transaction are judged first.
    pub(super) fn end(&mut self) -> Result<(), RunError> {
        let known = self.transaction.as_ref().is_none_or(|t| t.known);
        match &mut self.xa.open {
            Some(open) if open.rows.count() > 0 && !known => {
                let finished = open.rows.finish();
                finished.map_err(|e| self.not_kept(e))?;
                self.xa.replay = Some(Replay { xid: None, cursor: Cursor::default() });
                Ok(())
            }
            _ => {
                self.xa.drop_open();
                self.commit()
            }
        }
    }

    /// XA PREPARE at `at`, in seconds since 1970 by the source's clock.
    pub(super) fn xa_prepare(&mut self, xid: Xid, at: u64) -> Result<(), RunError> {
        self.report.skip("xa_prepare");
        let mut rows = self.xa.open.take().map(|open| open.rows).unwrap_or_default();
        rows.finish().map_err(|e| self.not_kept(e))?;
        if let Some(t) = &self.transaction {
            self.xa.book.prepared(xid.clone(), t.id.clone(), self.merge.judged(), rows.count() > 0, at);
        }
        self.xa.note(&xid, false);
        self.xa.forget(&xid);
        if rows.count() > 0 {
            self.xa.kept.insert(xid, rows);
        }
        self.commit()
    }

    /// XA COMMIT of a transaction that was prepared before.
    pub(super) fn xa_commit(&mut self, xid: &Xid) -> Result<(), RunError> {
        let known = self.transaction.as_ref().is_none_or(|t| t.known);
        match self.xa.book.decision(xid) {
            _ if known => {}
            Decision::Kept => {
                self.report.skip("xa_commit");
                self.merge.decides_xa();
                self.xa.replay = Some(Replay { xid: Some(xid.clone()), cursor: Cursor::default() });
                return Ok(());
            }
            Decision::WithoutRows => self.report.skip("xa_commit"),
            Decision::Unseen => {
                let started: Vec<TableId> = self.started().collect();
                if let Some(table) = self.xa.book.unseen(xid, self.at.position(), started) {
                    let of = self.tables.iter().find(|t| t.groups.iter().any(|g| g.id == table));
                    let name = of.map_or_else(String::new, |t| format!("{}.{}", t.schema.database, t.schema.table));
                    return Err(self.stop(format_args!(
                        "XA COMMIT {xid}: its XA PREPARE was not seen, so it may bring rows of {name} that nothing shows. Begin \
                         with a new state directory and on_existing = \"truncate\"; so that prepared transactions are seen at \
                         the start: GRANT XA_RECOVER_ADMIN ON *.* TO the user of source.url"
                    )));
                }
                self.report.skip("xa_commit_unseen");
            }
        }
        self.xa_decided(xid)
    }

    /// XA ROLLBACK: the rows vanish.
    pub(super) fn xa_rollback(&mut self, xid: &Xid) -> Result<(), RunError> {
        let seen = self.xa.book.decision(xid) != Decision::Unseen;
        self.report.skip(if seen { "xa_rollback" } else { "xa_rollback_unseen" });
        let vanish = self.xa.kept.get(xid).map_or(0, Rows::count);
        self.report.skip_many("xa_rolled_back_rows", vanish);
        self.xa_decided(xid)
    }

    fn xa_decided(&mut self, xid: &Xid) -> Result<(), RunError> {
        self.xa.drop_open();
        self.commit()?;
        self.xa.forget(xid);
        self.xa.book.decided(xid);
        self.xa.note(xid, true);
        Ok(())
    }

    /// Tables of which anything is read, or which a sink may hold rows of.
    fn started(&self) -> impl Iterator<Item = TableId> {
        self.tables.iter().flat_map(|t| &t.groups).map(|g| g.id).filter(|id| {
            let ranges = self.merge.ranges(*id);
            self.merge.keeps_emitting(*id)
                || ranges.is_some_and(|r| r.iter().any(|(_, state)| !matches!(state, RangeState::Unread)))
        })
    }

    /// The next kept rows of the transaction that is being committed.
    pub(super) fn replay(&mut self) -> Result<(), RunError> {
        for _ in 0..INNER_EVENTS_PER_TURN {
            let Some(raw) = self.xa.next_event().map_err(|e| {
                let text = "the kept rows of a prepared XA transaction cannot be read again";
                RunError::away(format!("{text} ({e}): they come again from the source")).because(e)
            })?
            else {
                return self.replayed();
            };
            let event = self.decoder.decode_inner(&raw).map_err(|e| self.broken(e))?;
            self.opened(event)?;
            self.hold_unweighed(&raw, true);
            if self.is_waiting() || !self.outputs.uploads.is_empty() {
                break;
            }
        }
        Ok(())
    }

    fn replayed(&mut self) -> Result<(), RunError> {
        let replay = self.xa.replay.take();
        self.xa.drop_open();
        self.commit()?;
        if let Some(xid) = replay.and_then(|replay| replay.xid) {
            self.xa.forget(&xid);
            self.xa.book.decided(&xid);
            self.xa.note(&xid, true);
        }
        Ok(())
    }

    /// Warns of transactions that have been undecided for longer than `limit` seconds at `now` (seconds since 1970).
    pub(in crate::pipeline) fn report_undecided(&mut self, now: u64, limit: u64) {
        for (xid, age) in self.xa.book.overdue(now, limit) {
            self.report.xa_overdue = self.report.xa_overdue.saturating_add(1);
            tracing::warn!(
                xid = %xid,
                minutes = age / 60,
                "an XA transaction stays prepared: the source's logs must be kept from its PREPARE on; commit it or roll it back"
            );
        }
    }
}
