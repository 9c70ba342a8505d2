//! Weaves chunks into the stream: which change is emitted, held or dropped, and when a chunk enters the output.
//!
//! Pure. The driver feeds the stream's transactions and the chunk readers' results, and asks for verdicts. Calls about
//! chunks (`open`, `fence`, `read`, `entry`) belong between transactions: a transaction is judged as a whole, so D
//! never holds half of one.
//!
//! The order of one chunk: [`Merge::open`] marks its range and returns D; the driver reads LW until [`Merge::fence`]
//! takes it; then the SELECT in a new read view; then HW; then [`Merge::read`]. [`Merge::entry`] hands the chunk out
//! at the first transaction boundary at or after HW. [`Merge::abandon`] is always safe. A chunk that enters at once
//! (`snapshot.backfill = "skip"`) has no HW: [`Merge::read_at_once`].
//!
//! The rules and why each is needed: `docs/exactly-once.md`.

mod chunk;
mod key;
mod ranges;
mod rules;
mod xa;

use std::collections::BTreeMap;

use millstream_binlog::Position;

pub use chunk::{ChangeKind, Onto};
use chunk::{Chunk, Judged, Of};
pub use key::Key;
pub use ranges::{KeyRange, RangeSet, RangeState, Watermark};
pub use rules::{Broken, Rules};
pub use xa::{Decision, XaBook, XaPlace, Xid};

use crate::delivery::{Coordinate, Passed, TargetState, TxnId};

/// A table (or a group of targets of one table that stand at the same place) within one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u32);

/// A chunk within one run. Later chunks have greater numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkId(pub u64);

/// Why a change was dropped. Each is counted by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DropRule {
    /// Its range is Unread: the chunk to come sees it.
    Unread,
    /// The chunk's SELECT saw it: its transaction is in LW.
    InLowWatermark,
    /// Held, and then folded into its chunk.
    Held,
    /// At or below the place up to which its table was delivered before a restart.
    AlreadyDelivered,
    /// At or below its range's own watermark.
    BelowHighWatermark,
}

impl DropRule {
    /// The rule's name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unread => "unread",
            Self::InLowWatermark => "in_low_watermark",
            Self::Held => "held",
            Self::AlreadyDelivered => "already_delivered",
            Self::BelowHighWatermark => "below_high_watermark",
        }
    }
}

/// What happens to one change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It goes to the sink.
    Emit,
    /// It does not; a held change is counted under [`DropRule::Held`].
    Drop(DropRule),
}

/// What a SELECT covered of the range it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Covered {
    /// It was cut by rows or bytes: everything up to the last row kept.
    UpTo(Key),
    /// It was not cut: the whole range.
    ToEnd,
}

/// A chunk at its entry: emit the rows, all in one epoch.
#[derive(Clone, Debug)]
pub struct Entry<R> {
    /// The table.
    pub table: TableId,
    /// The chunk.
    pub chunk: ChunkId,
    /// What is Done from now on.
    pub range: KeyRange,
    /// Rows in key order.
    pub rows: Vec<(Key, R)>,
}

/// A chunk that has just been marked.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The chunk.
    pub chunk: ChunkId,
    /// D: LW must cover it.
    pub covers: Passed,
}

/// So many Done ranges of a table have a watermark at most; a further one has none, which costs only changes that come twice.
const WATERMARKS: usize = 16;

struct Table {
    ranges: RangeSet,
    /// The sink may hold rows of ranges that are not Done: every change goes on being emitted until the table is live.
    keep_emitting: bool,
    /// The table was delivered up to here before the restart, and the stream has not reached it yet.
    ahead: Option<Coordinate>,
}

/// The state of all tables of one run.
pub struct Merge<R> {
    rules: Rules,
    tables: BTreeMap<TableId, Table>,
    /// How many tables are ahead of the stream.
    ahead: usize,
    chunks: BTreeMap<ChunkId, Chunk<R>>,
    next_chunk: u64,
    /// S0 and every transaction that ended since.
    judged: Passed,
    current: Option<TxnId>,
    /// The current transaction is an XA COMMIT or XA ROLLBACK.
    decides_xa: bool,
    /// Whether the LW of chunks says anything about those.
    lw_covers_xa: bool,
    position: Option<Position>,
    /// No chunk is opened before the stream has passed it.
    start_fence: Option<Position>,
}

impl<R> Merge<R> {
    /// A merge that begins at `start` (S0 or a checkpoint's place). `start_fence` is P0.
    #[must_use]
    pub const fn new(start: Passed, start_fence: Option<Position>, rules: Rules) -> Self {
        Self {
            rules,
            tables: BTreeMap::new(),
            ahead: 0,
            chunks: BTreeMap::new(),
            next_chunk: 1,
            judged: start,
            current: None,
            decides_xa: false,
            lw_covers_xa: true,
            position: None,
            start_fence,
        }
    }

    /// LW says nothing about XA decisions (`Dialect::covers_xa`): none counts as in LW. (One that is in D was judged before
    /// the chunk's mark, and is not judged again.)
    pub const fn lw_lacks_xa(&mut self) {
        self.lw_covers_xa = false;
    }

    /// Adds a table with what is Done of it. `keep_emitting`: the sink may hold more than that. `ahead`: it was
    /// delivered up to there, beyond where the stream begins.
    pub fn add_table(&mut self, table: TableId, done: &[KeyRange], keep_emitting: bool, ahead: Option<Coordinate>) {
        let ranges = RangeSet::with_done(done);
        let keep_emitting = keep_emitting && !ranges.is_live();
        self.ahead = self.ahead.saturating_add(usize::from(ahead.is_some()));
        self.tables.insert(table, Table { ranges, keep_emitting, ahead });
    }

    /// Forgets a table: its chunks are given up, and nothing of it is judged any more.
    pub fn drop_table(&mut self, table: TableId) {
        let of_table: Vec<ChunkId> = self.chunks.iter().filter(|(_, c)| c.table == table).map(|(id, _)| *id).collect();
        for chunk in of_table {
            self.abandon(chunk);
        }
        if self.tables.remove(&table).is_some_and(|t| t.ahead.is_some()) {
            self.ahead = self.ahead.saturating_sub(1);
        }
    }

    /// Every key of a table is Unread again, between transactions, whatever it was; its chunks are given up. `keep_emitting`:
    /// the sink keeps what it holds of it. Make that durable first.
    pub fn restart(&mut self, table: TableId, keep_emitting: bool) {
        let chunks: Vec<ChunkId> = self.chunks.iter().filter(|(_, c)| c.table == table).map(|(id, _)| *id).collect();
        for chunk in chunks {
            self.abandon(chunk);
        }
        if let Some(t) = self.tables.get_mut(&table) {
            t.ranges = RangeSet::whole(RangeState::Unread);
            t.keep_emitting = keep_emitting;
        }
    }

    /// Transactions judged so far: S0 and all that ended since.
    #[must_use]
    pub const fn judged(&self) -> &Passed {
        &self.judged
    }

    /// Where the stream is.
    #[must_use]
    pub const fn position(&self) -> Option<&Position> {
        self.position.as_ref()
    }

    /// A table's ranges.
    #[must_use]
    pub fn ranges(&self, table: TableId) -> Option<&RangeSet> {
        self.tables.get(&table).map(|t| &t.ranges)
    }

    /// The ranges a checkpoint may call Done.
    #[must_use]
    pub fn durable_ranges(&self, table: TableId) -> Vec<KeyRange> {
        let reading_too = !self.rules.hold(Broken::OnlyDoneDurable);
        self.tables.get(&table).map_or_else(Vec::new, |t| {
            t.ranges.matching(|s| match s {
                RangeState::Done(_) => true,
                RangeState::Reading(chunk) => reading_too && self.chunks.get(chunk).is_some_and(Chunk::is_read),
                RangeState::Unread => false,
            })
        })
    }

    /// Whether every key of the table is Done.
    #[must_use]
    pub fn is_live(&self, table: TableId) -> bool {
        self.tables.get(&table).is_some_and(|t| t.ranges.is_live())
    }

    /// Whether a change's key decides what becomes of it: not while the table is one Unread or one Done range. Without need
    /// any key will do for [`Merge::change`].
    #[must_use]
    pub fn needs_key(&self, table: TableId) -> bool {
        self.tables.get(&table).is_some_and(|t| {
            t.ranges.len() > 1 || t.ranges.iter().any(|(_, state)| matches!(state, RangeState::Reading(_)))
        })
    }

    /// Whether changes outside of Done ranges are emitted too.
    #[must_use]
    pub fn keeps_emitting(&self, table: TableId) -> bool {
        self.tables.get(&table).is_some_and(|t| t.keep_emitting)
    }

    /// Up to where the table was delivered, while the stream is still behind that.
    #[must_use]
    pub fn ahead(&self, table: TableId) -> Option<&Coordinate> {
        self.tables.get(&table).and_then(|t| t.ahead.as_ref())
    }

    /// Whether any table was delivered further than the stream is.
    #[must_use]
    pub fn is_any_ahead(&self) -> bool {
        self.ahead > 0
    }

    /// Where a table stands when the stream is at `here`: the end of a load that is cut here. A table that was delivered
    /// further before a restart has behind it what either has. Ask [`Merge::may_cut`] first.
    #[must_use]
    pub fn place(&self, table: TableId, here: Coordinate) -> Coordinate {
        match self.ahead(table) {
            None => here,
            Some(ahead) => ahead.joined(&here).unwrap_or_else(|| ahead.clone()),
        }
    }

    /// Whether a load of the table may be cut here. Not inside one transaction while the table was delivered up to inside
    /// of another one (after a failover that swapped the two): one place cannot say that.
    #[must_use]
    pub fn may_cut(&self, table: TableId) -> bool {
        let inside = self.ahead(table).and_then(|a| a.partial.as_ref());
        self.current.as_ref().is_none_or(|txn| inside.is_none_or(|p| p.txn == *txn || self.judged.contains(&p.txn)))
    }

    /// A table's state for a checkpoint at this transaction boundary.
    #[must_use]
    pub fn checkpoint(&self, table: TableId) -> TargetState {
        let ahead = self.ahead(table).map(|_| self.place(table, Coordinate::boundary(self.judged.clone())));
        TargetState { ahead, done: self.durable_ranges(table), may_hold_more: self.keeps_emitting(table) }
    }

    /// Whether a chunk of the table may be opened now: the start fence is passed and the stream has reached the table.
    #[must_use]
    pub fn may_open(&self, table: TableId) -> bool {
        let fence = match (&self.start_fence, &self.position) {
            (None, _) => true,
            (Some(p0), Some(at)) => at >= p0,
            (Some(_), None) => false,
        } || !self.rules.hold(Broken::StartFence);
        let reached = self.ahead(table).is_none() || !self.rules.hold(Broken::BehindTable);
        fence && reached && self.is_between()
    }

    /// The Unread ranges of a table, in key order.
    #[must_use]
    pub fn unread(&self, table: TableId) -> Vec<KeyRange> {
        self.ranges(table).map_or_else(Vec::new, |r| r.matching(|s| *s == RangeState::Unread))
    }

    /// Puts a bound into an Unread range, so that two workers can share it. `false` if the key is not in one.
    pub fn cut(&mut self, table: TableId, key: &Key) -> bool {
        let Some(t) = self.tables.get_mut(&table) else { return false };
        let unread = *t.ranges.state(key) == RangeState::Unread;
        if unread {
            t.ranges.cut(key);
        } else if !self.rules.hold(Broken::CutUnreadOnly) {
            let hi = t.ranges.iter().find(|(r, s)| r.contains(key) && matches!(s, RangeState::Reading(_)));
            let Some((range, _)) = hi else { return false };
            t.ranges.assign(&KeyRange { lo: Some(key.clone()), hi: range.hi }, RangeState::Unread);
        }
        unread
    }

    fn is_between(&self) -> bool {
        self.current.is_none() || !self.rules.hold(Broken::BetweenTransactions)
    }

    /// Marks `range` Reading and takes D. `None` when it may not be opened now or is not wholly Unread.
    pub fn open(&mut self, table: TableId, range: KeyRange) -> Option<Opening> {
        let unread = self.ranges(table).is_some_and(|ranges| ranges.is_one(&range, &RangeState::Unread));
        if !self.may_open(table) || !unread {
            return None;
        }
        let chunk = ChunkId(self.next_chunk);
        self.next_chunk = self.next_chunk.saturating_add(1);
        self.tables.get_mut(&table)?.ranges.assign(&range, RangeState::Reading(chunk));
        let covers = self.judged.clone();
        self.chunks.insert(chunk, Chunk::new(table, range, covers.clone()));
        Some(Opening { chunk, covers })
    }

    /// Takes a chunk's LW. `false`: it does not cover D yet (read it again), or the chunk is gone ([`Merge::is_open`]).
    pub fn fence(&mut self, chunk: ChunkId, lw: Passed) -> bool {
        let must_cover = self.rules.hold(Broken::LwCoversD);
        self.chunks.get_mut(&chunk).is_some_and(|c| c.fence(lw, must_cover).is_ok())
    }

    /// Takes a chunk's rows (in key order) and HW. What was not covered is Unread again. `false`: the chunk is gone.
    pub fn read(&mut self, chunk: ChunkId, rows: Vec<(Key, R)>, covered: Covered, hw: Position) -> bool {
        self.take(chunk, rows, covered, Some(hw))
    }

    /// The same for a chunk that waits for no HW: it enters at the next transaction boundary, and what its SELECT saw beyond
    /// LW is emitted again when the stream comes to it. At least once, and the last change of every key wins.
    pub fn read_at_once(&mut self, chunk: ChunkId, rows: Vec<(Key, R)>, covered: Covered) -> bool {
        self.take(chunk, rows, covered, None)
    }

    fn take(&mut self, chunk: ChunkId, rows: Vec<(Key, R)>, covered: Covered, hw: Option<Position>) -> bool {
        let Some(c) = self.chunks.get_mut(&chunk) else { return false };
        let asked = c.range.clone();
        let mut range = asked.clone();
        if let Covered::UpTo(key) = covered
            && self.rules.hold(Broken::CoverLastRow)
            && asked.hi.as_ref() != Some(&key)
        {
            range.hi = Some(key.clone());
            if let Some(t) = self.tables.get_mut(&c.table) {
                t.ranges.assign(&KeyRange { lo: Some(key), hi: asked.hi }, RangeState::Unread);
            }
        }
        c.read(range, rows, hw)
    }

    /// Gives a chunk up: its range is Unread again and what was held for it is forgotten. `false`: it is gone already.
    pub fn abandon(&mut self, chunk: ChunkId) -> bool {
        let Some(c) = self.chunks.remove(&chunk) else { return false };
        if let Some(t) = self.tables.get_mut(&c.table) {
            t.ranges.release(chunk, &RangeState::Unread);
        }
        true
    }

    /// The stream goes on from another server, at a transaction boundary: positions are others from now on. Gives every
    /// chunk up. `start_fence` is that server's binlog end.
    pub fn moved(&mut self, start_fence: Option<Position>) {
        self.abandon_all();
        self.position = None;
        self.start_fence = start_fence;
        for t in self.tables.values_mut() {
            t.ranges.settle(|_| true);
        }
    }

    /// Gives every chunk up (the stream moved, or its server restarted).
    pub fn abandon_all(&mut self) -> Vec<ChunkId> {
        let all: Vec<ChunkId> = self.chunks.keys().copied().collect();
        for chunk in &all {
            self.abandon(*chunk);
        }
        all
    }

    /// Whether a chunk is between its mark and its entry.
    #[must_use]
    pub fn is_open(&self, chunk: ChunkId) -> bool {
        self.chunks.contains_key(&chunk)
    }

    /// Bytes that held changes take.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.chunks.values().fold(0, |sum, c| sum.saturating_add(c.held_bytes))
    }

    /// The chunk to give up when held changes take too much: the youngest one that holds anything.
    #[must_use]
    pub fn youngest_holding(&self) -> Option<ChunkId> {
        self.chunks.iter().rev().find(|(_, c)| c.held_bytes > 0).map(|(id, _)| *id)
    }

    /// A transaction begins. One that a lost connection cuts off stays open until it comes again: begin it a second time,
    /// pass over the changes that are judged already, and no chunk is opened or enters meanwhile (D would lack changes
    /// that were dropped, and never come again).
    pub fn begin(&mut self, txn: TxnId) {
        self.current = Some(txn);
        self.decides_xa = false;
    }

    /// The transaction that has begun is an XA COMMIT or XA ROLLBACK, whose rows were prepared earlier.
    pub const fn decides_xa(&mut self) {
        self.decides_xa = true;
    }

    /// One change of the transaction. `ordinal` counts the table's changes within it, from 0; `row` is asked for only
    /// if the change is held, and gives the row with its size in bytes.
    pub fn change(
        &mut self,
        table: TableId,
        key: &[u8],
        ordinal: u32,
        kind: ChangeKind,
        row: impl FnOnce() -> (R, usize),
    ) -> Verdict {
        let by_lw = self.is_told_by_lw();
        let (Some(t), Some(txn)) = (self.tables.get_mut(&table), self.current.as_ref()) else {
            return Verdict::Drop(DropRule::Unread);
        };
        let delivered = t.ahead.as_ref().is_some_and(|c| c.covers(txn, ordinal));
        let drop_or_emit = |rule| {
            if t.keep_emitting && self.rules.hold(Broken::KeepEmitting) { Verdict::Emit } else { Verdict::Drop(rule) }
        };
        match t.ranges.state(key) {
            RangeState::Done(_) if delivered => Verdict::Drop(DropRule::AlreadyDelivered),
            _ if delivered && !self.rules.hold(Broken::DeliveredInDoneOnly) => {
                Verdict::Drop(DropRule::AlreadyDelivered)
            }
            RangeState::Done(Some(hw)) if self.position.as_ref().is_some_and(|p| hw.covers(p, Some(txn))) => {
                Verdict::Drop(DropRule::BelowHighWatermark)
            }
            RangeState::Done(None) => Verdict::Emit,
            RangeState::Done(Some(_)) => {
                // What is in the set may now be older than what the sink has: it has to come again.
                if self.rules.hold(Broken::SpentWatermark) {
                    t.ranges.spend(key);
                }
                Verdict::Emit
            }
            RangeState::Unread => drop_or_emit(DropRule::Unread),
            RangeState::Reading(chunk) => {
                let verdict = |judged| match judged {
                    Judged::InLowWatermark => drop_or_emit(DropRule::InLowWatermark),
                    Judged::Held | Judged::Unknown => drop_or_emit(DropRule::Held),
                };
                let Some(c) = self.chunks.get_mut(chunk) else { return drop_or_emit(DropRule::Unread) };
                if !self.rules.hold(Broken::Normalize) {
                    return Verdict::Drop(DropRule::Held);
                }
                if !self.rules.hold(Broken::MarkBeforeLw) && !c.is_fenced() {
                    return Verdict::Drop(DropRule::Unread);
                }
                let row = || (kind == ChangeKind::Put).then(row);
                let of = Of { txn, by_lw, forget_older: self.rules.hold(Broken::ForgetOlder) };
                verdict(c.judge(key, of, row))
            }
        }
    }

    /// Whether LW may say whether a SELECT saw the current transaction.
    fn is_told_by_lw(&self) -> bool {
        self.lw_covers_xa || !self.decides_xa || !self.rules.hold(Broken::XaNotInLw)
    }

    /// As [`Merge::change`], for a change that has some of its row's columns. `based`: the row was there before, under the same
    /// key. Outside of Done ranges it is never emitted: the sink may lack the row, and the chunk to come has it whole.
    pub fn patch(
        &mut self,
        table: TableId,
        key: &[u8],
        ordinal: u32,
        based: bool,
        row: impl FnOnce() -> (R, usize),
        onto: Onto<R>,
    ) -> Verdict {
        let (Some(t), Some(gtid)) = (self.tables.get(&table), self.current.as_ref()) else {
            return Verdict::Drop(DropRule::Unread);
        };
        let RangeState::Reading(chunk) = *t.ranges.state(key) else {
            let keep_emitting = t.keep_emitting;
            let verdict = self.change(table, key, ordinal, ChangeKind::Put, row);
            let done = self.ranges(table).is_some_and(|r| matches!(r.state(key), RangeState::Done(_)));
            return if keep_emitting && !done { Verdict::Drop(DropRule::Unread) } else { verdict };
        };
        let forget_older = self.rules.hold(Broken::ForgetOlder);
        let by_lw = self.is_told_by_lw();
        let Some(c) = self.chunks.get_mut(&chunk) else { return Verdict::Drop(DropRule::Unread) };
        match c.judge_patch(key, Of { txn: gtid, by_lw, forget_older }, based, row, onto) {
            Judged::InLowWatermark => Verdict::Drop(DropRule::InLowWatermark),
            Judged::Held => Verdict::Drop(DropRule::Held),
            Judged::Unknown => {
                self.abandon(chunk);
                Verdict::Drop(DropRule::Unread)
            }
        }
    }

    /// The transaction ends at `position`.
    pub fn commit(&mut self, position: Position) {
        if let Some(txn) = self.current.take() {
            self.judged.pass(&txn, &position);
        }
        self.advance(position);
        if self.ahead == 0 {
            return;
        }
        let judged = &self.judged;
        for t in self.tables.values_mut() {
            if t.ahead.as_ref().is_some_and(|c| c.is_reached_by(judged)) {
                t.ahead = None;
                self.ahead = self.ahead.saturating_sub(1);
            }
        }
    }

    /// Whether a Done range of the table still drops what was in its chunk's rows.
    #[must_use]
    pub fn has_watermarks(&self, table: TableId) -> bool {
        self.tables.get(&table).is_some_and(|t| t.ranges.watermarks() > 0)
    }

    /// Forgets the watermarks of Done ranges that the stream has passed, so that ranges join. Between transactions, now and
    /// then. Whether there were any.
    pub fn settle(&mut self) -> bool {
        let Self { tables, judged, position, .. } = self;
        let passed = |hw: &Watermark| match hw {
            Watermark::Position(hw) => position.as_ref().is_some_and(|at| at >= hw),
            Watermark::Set(set) => judged.is_superset(set),
        };
        let mut any = false;
        for t in tables.values_mut() {
            any |= t.ranges.settle(passed);
        }
        any
    }

    /// The stream goes on in the file of `position`, between transactions: a stream that is known by positions may begin
    /// there, when the file before it is gone.
    pub fn rotated(&mut self, position: Position) {
        self.judged.reach(&position);
        self.advance(position);
    }

    /// The stream reads the file of that name, whose FORMAT_DESCRIPTION has this timestamp.
    ///
    /// # Errors
    /// The timestamp that the file of that name had before, which is another one.
    pub fn file_created(&mut self, file: &str, created: u32) -> Result<(), u32> {
        self.judged.file_created(file, created)
    }

    /// The stream has passed `position` without a transaction (rotate, heartbeat, a skipped group).
    pub fn advance(&mut self, position: Position) {
        if self.position.as_ref().is_none_or(|at| *at < position) {
            self.position = Some(position);
        }
    }

    /// The next chunk that enters the output at this transaction boundary, marked Done. The caller emits its rows before
    /// it asks for the next one.
    pub fn entry(&mut self) -> Option<Entry<R>> {
        let chunk = loop {
            let chunk = self.due()?;
            if self.chunks.get(&chunk).is_none_or(Chunk::is_complete) {
                break chunk;
            }
            self.abandon(chunk);
        };
        let c = self.chunks.remove(&chunk)?;
        if let Some(t) = self.tables.get_mut(&c.table) {
            // Where the sink may hold more than the ranges say, even a change that the SELECT saw may have to reach it.
            let watermark = c.watermark(self.rules.hold(Broken::SpentWatermark));
            let watermark = watermark.filter(|_| !t.keep_emitting && t.ranges.watermarks() < WATERMARKS);
            t.ranges.release(chunk, &RangeState::Done(watermark));
            if t.ranges.is_live() {
                t.keep_emitting = false;
            }
        }
        Some(Entry { table: c.table, chunk, range: c.range.clone(), rows: c.normalize() })
    }

    /// The table whose chunk [`Merge::entry`] would hand out now.
    #[must_use]
    pub fn entry_due(&self) -> Option<TableId> {
        self.chunks.get(&self.due()?).map(|c| c.table)
    }

    fn due(&self) -> Option<ChunkId> {
        if self.chunks.is_empty() || !self.is_between() {
            return None;
        }
        let mut at = self.position.clone();
        if let Some(at) = at.as_mut().filter(|_| !self.rules.hold(Broken::EntryAtHw)) {
            at.offset = at.offset.saturating_add(1);
        }
        self.chunks.iter().find(|(_, c)| c.is_due(at.as_ref())).map(|(id, _)| *id)
    }
}

#[cfg(test)]
mod allocations;
#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "an overflow in a test is a failure")]
mod at_once_tests;
#[cfg(test)]
mod tests;
