//! The engine around the real merge and delivery: its stream, its targets and their loads.

use std::collections::BTreeMap;

use millstream_binlog::Position;
use millstream_engine::checkpoint::SourceState;
use millstream_engine::delivery::{
    Coordinate, Delivery, EpochRecord, Extra, LoadEnd, LoadId, Partial, Passed, Sealed, Step, TableMode, TargetChange,
    TargetNo, TargetState,
};
use millstream_engine::merge::{ChangeKind, ChunkId, KeyRange, Merge, RangeSet, RangeState, TableId, Verdict};

use crate::boot::Boot;
use crate::chunks::Worker;
use crate::doris::OutRow;
use crate::flaws::Flaw;
use crate::server::{Server, Val, What, spelling};
use crate::world::{World, say};

/// The engine process.
pub(crate) enum Engine {
    Down,
    Boot(Boot),
    Run(Box<Run>),
}

impl Engine {
    /// What is still on its way when the process is gone.
    pub(crate) fn into_zombie(self) -> Option<Zombie> {
        match self {
            Self::Run(run) => {
                Some(Zombie { era: run.era, delivery: run.delivery, uploads: run.uploads, on_way: run.on_way })
            }
            _ => None,
        }
    }
}

/// Targets of one source table that stand at the same place.
#[derive(Debug)]
pub(crate) struct Group {
    pub table: TableId,
    pub source: usize,
    pub targets: Vec<TargetNo>,
}

/// A load on its way to Doris.
#[derive(Debug)]
pub(crate) struct Upload {
    id: LoadId,
    label: String,
    rows: Vec<OutRow>,
    /// Doris' transaction, once begun.
    txn: Option<u64>,
}

/// A request to the store that was issued and not answered.
#[derive(Debug)]
pub(crate) enum OnWay {
    Nothing,
    Write(Box<EpochRecord>),
    Mark(u64),
}

/// A dead engine's requests.
pub(crate) struct Zombie {
    era: u32,
    delivery: Delivery,
    uploads: Vec<Upload>,
    on_way: OnWay,
}

/// A running engine.
pub(crate) struct Run {
    pub era: u32,
    pub merge: Merge<Val>,
    pub delivery: Delivery,
    pub groups: Vec<Group>,
    pub workers: Vec<Worker>,
    pub server: u8,
    /// The dump: the next event, what it leaves out, and (broken) the position below which it leaves out everything.
    next: usize,
    exclude: Passed,
    below: Option<Position>,
    passed: Position,
    /// A transaction cut off by a lost connection: how many of its changes are judged.
    half: Option<usize>,
    buffers: BTreeMap<TargetNo, Vec<OutRow>>,
    pub uploads: Vec<Upload>,
    pub on_way: OnWay,
    /// Commits reported before they happen (broken).
    late_commits: Vec<u64>,
    /// Targets' states and the stream's place as of the last closed epoch.
    pub last: BTreeMap<TargetNo, TargetState>,
    place: Coordinate,
    n: i64,
    next_table: u32,
    /// The tables of the chunks that were opened.
    pub chunks: BTreeMap<ChunkId, TableId>,
    /// Rows per chunk of tables whose held changes forced smaller ones.
    pub rows: BTreeMap<TableId, usize>,
    /// Ranges that a broken walk takes for finished.
    pub finished: Vec<(TableId, KeyRange)>,
}

/// Where an engine begins.
pub(crate) struct Begin {
    pub era: u32,
    pub epoch: u64,
    pub stream: Passed,
    pub fence: Option<Position>,
    pub below: Option<Position>,
    pub states: BTreeMap<TargetNo, TargetState>,
}

/// One key's part of a change.
#[derive(Clone, Copy, Debug)]
struct Unit {
    table: usize,
    key: u8,
    val: Val,
    op: u8,
    number: usize,
}

impl Run {
    pub(crate) fn new(begin: Begin, world: &World) -> Self {
        let rules = world.cfg.rules;
        let merge = Merge::new(begin.stream.clone(), begin.fence, rules);
        let mut run = Self {
            era: begin.era,
            merge,
            delivery: Delivery::new(begin.era, begin.epoch).with_rules(rules),
            groups: Vec::new(),
            workers: (0..world.cfg.workers).map(|_| Worker::default()).collect(),
            server: world.server.number,
            next: 0,
            exclude: begin.stream.clone(),
            below: begin.below,
            passed: Server::beginning(),
            half: None,
            buffers: BTreeMap::new(),
            uploads: Vec::new(),
            on_way: OnWay::Nothing,
            late_commits: Vec::new(),
            place: Coordinate::boundary(begin.stream),
            last: begin.states.clone(),
            n: 0,
            next_table: 1,
            chunks: BTreeMap::new(),
            rows: BTreeMap::new(),
            finished: Vec::new(),
        };
        for (target, state) in begin.states {
            run.add(world, target, &state);
        }
        run
    }

    /// Captures a target: with the others of its table that stand where it stands, or on its own.
    fn add(&mut self, world: &World, target: TargetNo, state: &TargetState) {
        let source = world.target(target).source;
        self.buffers.entry(target).or_default();
        let peer = self.groups.iter_mut().find(|g| {
            g.source == source
                && g.targets.first().is_some_and(|t| self.last.get(t) == Some(state))
                && state.ahead.is_some() == self.merge.ahead(g.table).is_some()
        });
        match peer {
            Some(group) => group.targets.push(target),
            None => self.add_alone(source, target, state, world.cfg.flaw),
        }
    }

    fn add_alone(&mut self, source: usize, target: TargetNo, state: &TargetState, flaw: Flaw) {
        let table = TableId(self.next_table);
        self.next_table += 1;
        let ahead = state.ahead.clone().filter(|_| flaw != Flaw::AheadIsForgotten);
        self.merge.add_table(table, &state.done, state.may_hold_more, ahead);
        self.groups.push(Group { table, source, targets: vec![target] });
    }

    /// Rows that are not in a Doris transaction yet.
    pub(crate) fn pending(&self, target: TargetNo) -> impl Iterator<Item = &OutRow> {
        let uploads = self.uploads.iter().filter(move |u| u.id.target == target && u.txn.is_none());
        self.buffers.get(&target).into_iter().flatten().chain(uploads.flat_map(|u| u.rows.iter()))
    }

    /// The stream's place between transactions.
    fn here(&self) -> Coordinate {
        Coordinate::boundary(self.merge.judged().clone())
    }

    fn sequence(&mut self) -> i64 {
        self.n += 1;
        (i64::from(self.era) << 44) | self.n
    }

    fn emit(&mut self, target: TargetNo, unit: Unit, source: Option<(usize, usize)>) {
        let seq = self.sequence();
        let row = OutRow { seq, op: unit.op, key: unit.key, val: unit.val, source };
        self.buffers.entry(target).or_default().push(row);
    }

    fn is_live(&self, group: &Group) -> bool {
        let unread = self.merge.unread(group.table);
        let Some(ranges) = self.merge.ranges(group.table) else { return true };
        let reading = ranges.iter().any(|(_, s)| matches!(s, RangeState::Reading(_)));
        !reading && unread.iter().all(|r| self.is_finished(group.table, r))
    }

    pub(crate) fn is_finished(&self, table: TableId, range: &KeyRange) -> bool {
        let lo = |r: &KeyRange| r.lo.as_ref().map_or(0, |k| k[0]);
        let hi = |r: &KeyRange| r.hi.as_ref().map_or(255, |k| k[0]);
        self.finished.iter().any(|(t, r)| *t == table && lo(r) <= lo(range) && hi(range) <= hi(r))
    }

    /// Cuts a load from a target's buffer.
    fn seal(&mut self, world: &mut World, target: TargetNo, coordinate: Coordinate, done: Vec<KeyRange>) {
        let mut rows = std::mem::take(self.buffers.entry(target).or_default());
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return };
        let seq = (first.seq, last.seq);
        let mode = world.target(target).mode;
        if mode == TableMode::Upsert {
            let mut by_key: BTreeMap<(u8, usize), OutRow> = BTreeMap::new();
            by_key.extend(rows.iter().map(|r| (r.identity(), *r)));
            rows = by_key.into_values().collect();
        }
        let id = self.delivery.next_load(target).unwrap();
        let label = format!("{}-{}-{}-{}", self.era, id.epoch, target.0, id.part);
        say!(
            world,
            "engine: load {label} sealed at {} {:?}: {rows:?}",
            coordinate.passed,
            coordinate.partial.as_ref().map(|p| p.rows)
        );
        let end = LoadEnd { coordinate, done };
        self.delivery.seal(id, label.clone(), Sealed { mode, seq, rows: rows.len() as u64, end, more: false });
        self.uploads.push(Upload { id, label, rows, txn: None });
    }

    /// Cuts the loads of one group here, if they can be.
    fn seal_group(&mut self, world: &mut World, group: usize, inside: Option<Partial>) {
        let table = self.groups[group].table;
        if !self.merge.may_cut(table) {
            return;
        }
        let partial = inside.filter(|p| p.rows > 0);
        let mut place = self.merge.place(table, Coordinate { passed: self.merge.judged().clone(), partial });
        if world.cfg.flaw == Flaw::PartialIsForgotten {
            place.partial = None;
        }
        let done = self.merge.durable_ranges(table);
        for target in self.groups[group].targets.clone() {
            if world.rng.percent(70) {
                self.seal(world, target, place.clone(), done.clone());
            }
        }
    }

    /// Chunks that are due enter.
    pub(crate) fn enter(&mut self, world: &mut World) {
        while let Some(table) = self.merge.entry_due() {
            let before = self.merge.durable_ranges(table);
            let Some(entry) = self.merge.entry() else { break };
            say!(world, "engine: {:?} enters as {:?}: {:?}", entry.chunk, entry.range, entry.rows);
            let Some(group) = self.groups.iter().position(|g| g.table == entry.table) else { continue };
            let targets = self.groups[group].targets.clone();
            for (key, val) in entry.rows {
                for target in &targets {
                    let unit = Unit { table: 0, key: key[0], val, op: b'r', number: 0 };
                    self.emit(*target, unit, None);
                }
                if world.rng.percent(world.cfg.cut_load) {
                    // A load may end inside a chunk: what is Done then ends at the last row.
                    let mut ranges = RangeSet::with_done(&before);
                    ranges.assign(&KeyRange { lo: entry.range.lo.clone(), hi: Some(key) }, RangeState::Done(None));
                    let place = self.merge.place(entry.table, self.here());
                    for target in &targets {
                        self.seal(world, *target, place.clone(), ranges.done());
                    }
                }
            }
        }
    }

    fn is_done(&self, world: &World) -> bool {
        self.groups.iter().all(|g| self.is_live(g) && self.merge.ahead(g.table).is_none())
            && self.workers.iter().all(Worker::is_idle)
            && self.half.is_none()
            && self.next == world.server.binlog.len()
            && self.buffers.values().all(Vec::is_empty)
            && self.uploads.is_empty()
            && !self.delivery.has_loads()
            && self.delivery.may_close()
            && self.late_commits.is_empty()
            && world.captured.iter().all(|c| *c)
            && self.server == world.server.number
    }
}

fn units(world: &World, t: usize) -> Vec<Unit> {
    let mut units = Vec::new();
    for (number, c) in world.server.txns[t].changes.iter().enumerate() {
        let unit = |(key, val), op| Unit { table: c.table, key, val, op, number };
        match (c.before, c.after) {
            (Some((k, _)), Some((l, v))) if c.keeps_key() || (k == l && world.cfg.flaw == Flaw::SpellingIsNoChange) => {
                units.push(unit((k, v), b'u'));
            }
            (before, after) => {
                units.extend(before.map(|b| unit(b, b'd')));
                units.extend(after.map(|a| unit(a, b'c')));
            }
        }
    }
    units
}

impl World {
    /// What the engine still waits for.
    pub(crate) fn engine_waits_for(&self) -> String {
        match &self.engine {
            Engine::Run(r) => format!(
                "live {:?}, ahead {:?}, workers {:?}, half {:?}, event {} of {}, buffers {:?}, uploads {:?}, loads {}, may close {}, server {} of {}",
                r.groups.iter().map(|g| r.is_live(g)).collect::<Vec<_>>(),
                r.groups.iter().map(|g| r.merge.ahead(g.table)).collect::<Vec<_>>(),
                r.workers,
                r.half,
                r.next,
                self.server.binlog.len(),
                r.buffers,
                r.uploads,
                r.delivery.has_loads(),
                r.delivery.may_close(),
                r.server,
                self.server.number
            ),
            _ => "a start".to_owned(),
        }
    }

    pub(crate) fn engine_is_done(&self) -> bool {
        matches!(&self.engine, Engine::Run(run) if run.is_done(self))
    }

    /// Takes the running engine out, so that a step may use both.
    pub(crate) fn with_run(
        &mut self,
        step: impl FnOnce(&mut Self, &mut Run) -> Result<Alive, String>,
    ) -> Result<(), String> {
        match std::mem::replace(&mut self.engine, Engine::Down) {
            Engine::Run(mut run) => {
                let alive = step(self, &mut run)?;
                if alive == Alive::Yes {
                    self.engine = Engine::Run(run);
                } else {
                    say!(self, "engine: begins again from its last record");
                }
                Ok(())
            }
            Engine::Boot(boot) => {
                self.engine = boot.step(self)?;
                Ok(())
            }
            Engine::Down => {
                self.engine = Engine::Boot(Boot::default());
                Ok(())
            }
        }
    }

    /// The stream: an event, a heartbeat, or the connection to another server.
    pub(crate) fn stream_step(&mut self) -> Result<(), String> {
        self.with_run(|world, run| {
            if run.server != world.server.number {
                if run.half.is_some() {
                    return Ok(Alive::No);
                }
                run.move_to_server(world)?;
                return Ok(Alive::Yes);
            }
            run.pull(world);
            run.enter(world);
            if run.half.is_none() {
                if world.rng.percent(30) {
                    world.check_boundary(run)?;
                }
                run.capture_more(world)?;
            }
            Ok(Alive::Yes)
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alive {
    Yes,
    No,
}

impl Run {
    fn move_to_server(&mut self, world: &mut World) -> Result<(), String> {
        let fence = world.server.end();
        say!(world, "engine: moves to server {}, fence {fence}", world.server.number);
        let stored = world.store.read().unwrap().unwrap();
        let source = SourceState {
            server_uuid: world.server.number.to_string(),
            fence: Some((fence.file.to_string(), fence.offset)),
        };
        world.store.set_source(self.era, &source, &stored.stream).map_err(|e| e.to_string())?;
        self.server = world.server.number;
        self.next = 0;
        self.passed = Server::beginning();
        self.below = None;
        self.exclude = self.merge.judged().clone();
        if world.cfg.flaw != Flaw::ChunksOutliveFailover {
            self.merge.moved(Some(fence));
            self.workers.iter_mut().for_each(|w| *w = Worker::default());
        }
        Ok(())
    }

    /// One event of the dump.
    fn pull(&mut self, world: &mut World) {
        if self.next >= world.server.synced {
            // A heartbeat at the end of what was sent or skipped.
            if self.half.is_none() {
                self.merge.advance(self.passed.clone());
            }
            return;
        }
        let event = world.server.binlog[self.next].clone();
        let What::Txn(t) = event.what else {
            self.merge.advance(event.end.clone());
            self.passed = event.end;
            self.next += 1;
            return;
        };
        let id = world.server.txns[t].id.clone().unwrap();
        let skipped = match &self.below {
            Some(below) => event.end <= *below,
            None => self.exclude.contains(&id),
        };
        if skipped {
            if world.rng.percent(50) {
                self.merge.advance(event.end.clone());
            }
            self.passed = event.end;
            self.next += 1;
            return;
        }
        let judged = self.half.take().unwrap_or(0);
        say!(world, "engine: judges T{t} at {}{}", event.end, if judged > 0 { " again" } else { "" });
        self.merge.begin(id.clone());
        let units = units(world, t);
        let mut ordinals = [0u32; crate::server::TABLES];
        for (i, unit) in units.iter().enumerate() {
            let ordinal = ordinals[unit.table];
            ordinals[unit.table] += 1;
            if i < judged {
                continue;
            }
            self.change(world, t, &units, i, ordinal);
            self.make_room(world);
            if world.rng.percent(world.cfg.cut_load) && !self.groups.is_empty() {
                let group = world.rng.below(self.groups.len());
                let rows = ordinals[self.groups[group].source];
                self.seal_group(world, group, Some(Partial { txn: id.clone(), rows }));
            }
            if !world.draining && world.rng.percent(world.cfg.cut_connection) {
                say!(world, "engine: the connection is lost inside T{t}");
                self.half = Some(i + 1);
                return;
            }
        }
        self.merge.commit(event.end.clone());
        self.passed = event.end;
        self.next += 1;
    }

    fn change(&mut self, world: &mut World, t: usize, units: &[Unit], i: usize, ordinal: u32) {
        let unit = units[i];
        let flaw = world.cfg.flaw;
        // The other half of a key-changing update, for drivers that judge both by one key.
        let pair = |j: usize| units.get(j).is_some_and(|u| u.number == unit.number);
        let other = match (flaw, unit.op) {
            (Flaw::OldKeyOnly, b'c') if i > 0 && pair(i - 1) => Some(units[i - 1]),
            (Flaw::NewKeyOnly, b'd') if pair(i + 1) => Some(units[i + 1]),
            _ => None,
        };
        for g in 0..self.groups.len() {
            let group = Group { targets: self.groups[g].targets.clone(), ..self.groups[g] };
            if group.source != unit.table {
                continue;
            }
            let verdict = match other {
                // The second judgement of the same key has no effect of its own.
                Some(other) => self.judge(group.table, &other, flaw, ordinal),
                None => self.judge(group.table, &unit, flaw, ordinal),
            };
            say!(
                world,
                "  {} key {} of table {} for {:?}: {verdict:?}",
                unit.op as char,
                unit.key,
                unit.table,
                group.targets
            );
            if verdict == Verdict::Emit {
                for target in group.targets {
                    self.emit(target, unit, Some((t, unit.number)));
                }
            }
        }
    }

    fn judge(&mut self, table: TableId, unit: &Unit, flaw: Flaw, ordinal: u32) -> Verdict {
        let kind = if unit.op == b'd' { ChangeKind::Delete } else { ChangeKind::Put };
        let key = [unit.key, spelling(unit.val) as u8];
        let order = if flaw == Flaw::SpellingCounts { &key[..] } else { &key[..1] };
        self.merge.change(table, order, ordinal, kind, || (unit.val, 1))
    }

    /// Held changes take too much: the youngest chunk that holds any is given up, and the next ones are smaller.
    fn make_room(&mut self, world: &mut World) {
        while self.merge.held_bytes() > world.cfg.held_limit
            && let Some(chunk) = self.merge.youngest_holding()
        {
            say!(world, "engine: {chunk:?} is abandoned (memory)");
            if let Some(table) = self.chunks.get(&chunk) {
                let rows = self.rows.entry(*table).or_insert(world.cfg.chunk_rows);
                *rows = (*rows / 2).max(1);
            }
            self.merge.abandon(chunk);
        }
    }

    /// Tables added while running, and live upsert targets that are read again.
    fn capture_more(&mut self, world: &mut World) -> Result<(), String> {
        if !self.delivery.may_close() {
            return Ok(());
        }
        let chance = if world.draining { 100 } else { 5 };
        for i in 0..world.cfg.targets.len() {
            if world.captured[i] || !world.rng.percent(chance) {
                continue;
            }
            let source = world.cfg.targets[i].source;
            for j in (0..world.cfg.targets.len()).filter(|j| world.cfg.targets[*j].source == source).collect::<Vec<_>>()
            {
                let target = TargetNo(j as u32 + 1);
                say!(world, "engine: target {} is captured", target.0);
                let state = crate::boot::captured_state(world, source);
                crate::boot::store_target(world, self.era, target, &state)?;
                world.captured[j] = true;
                self.add(world, target, &state);
                self.last.insert(target, state);
            }
            return Ok(());
        }
        if world.resync_left && world.rng.percent(5) {
            let upsert = |t: &TargetNo| world.target(*t).mode == TableMode::Upsert;
            let found = self.groups.iter().enumerate().find_map(|(g, group)| {
                let live = self.merge.is_live(group.table) && self.merge.ahead(group.table).is_none();
                group.targets.iter().find(|t| live && upsert(t)).map(|t| (g, *t))
            });
            if let Some((g, target)) = found {
                world.resync_left = false;
                say!(world, "engine: target {} is read again", target.0);
                let state = TargetState { may_hold_more: true, ..TargetState::default() };
                crate::boot::store_target(world, self.era, target, &state)?;
                self.groups[g].targets.retain(|t| *t != target);
                let source = self.groups[g].source;
                self.last.insert(target, state.clone());
                self.add_alone(source, target, &state, world.cfg.flaw);
            }
        }
        Ok(())
    }

    /// Whether an epoch would have anything in it.
    fn has_news(&self) -> bool {
        self.delivery.has_loads()
            || self.buffers.values().any(|b| !b.is_empty())
            || self.groups.iter().any(|g| {
                let state = self.merge.checkpoint(g.table);
                g.targets.iter().any(|t| self.last.get(t) != Some(&state))
            })
    }

    /// Closes the filling epoch at this transaction boundary.
    fn close(&mut self, world: &mut World) {
        if self.half.is_some() || !self.delivery.may_close() || (world.draining && !self.has_news()) {
            return;
        }
        let mut changes = Vec::new();
        for g in 0..self.groups.len() {
            let table = self.groups[g].table;
            let (next, place) = (self.merge.checkpoint(table), self.merge.place(table, self.here()));
            for target in self.groups[g].targets.clone() {
                self.seal(world, target, place.clone(), next.done.clone());
                let loaded = self.delivery.next_load(target).is_some_and(|id| id.part > 0);
                let previous = self.last.insert(target, next.clone()).unwrap_or_default();
                if loaded || previous != next {
                    changes.push(TargetChange { target, previous, next: next.clone() });
                }
            }
        }
        let next = self.here();
        say!(world, "engine: epoch {} closed at {}", self.delivery.filling(), next.passed);
        let previous = std::mem::replace(&mut self.place, next.clone());
        self.delivery.close(previous, next, changes, Extra::default());
    }
}

impl World {
    /// One step of uploading, recording or committing.
    pub(crate) fn delivery_step(&mut self) -> Result<(), String> {
        self.with_run(|world, run| {
            if !run.late_commits.is_empty() && world.rng.percent(30) {
                let txn = run.late_commits.remove(0);
                return Ok(if world.doris.commit(txn).is_ok() { Alive::Yes } else { Alive::No });
            }
            match world.rng.below(6) {
                0 => {
                    if !run.groups.is_empty() && run.half.is_none() {
                        let group = world.rng.below(run.groups.len());
                        run.seal_group(world, group, None);
                    }
                }
                1 => {
                    if world.rng.percent(if world.draining { 100 } else { 50 }) {
                        run.close(world);
                    }
                }
                2 | 3 => return Ok(world.upload(run.era, &mut run.delivery, &mut run.uploads)),
                _ => return world.deliver(run.era, &mut run.delivery, &mut run.on_way, Some(&mut run.late_commits)),
            }
            Ok(Alive::Yes)
        })
    }

    /// One of a dead engine's requests arrives.
    pub(crate) fn zombie_step(&mut self) {
        let Some(mut zombie) = self.zombie.take() else { return };
        let mut era = zombie.era;
        if self.cfg.flaw == Flaw::NoEraCheck {
            era = self.store.read().unwrap().unwrap().era;
        }
        let alive = if self.rng.percent(30) {
            self.upload(zombie.era, &mut zombie.delivery, &mut zombie.uploads)
        } else {
            self.deliver(era, &mut zombie.delivery, &mut zombie.on_way, None).unwrap_or(Alive::No)
        };
        if alive == Alive::Yes {
            self.zombie = Some(zombie);
        }
    }

    fn upload(&mut self, era: u32, delivery: &mut Delivery, uploads: &mut Vec<Upload>) -> Alive {
        if uploads.is_empty() {
            return Alive::Yes;
        }
        let i = self.rng.below(uploads.len());
        let upload = &mut uploads[i];
        match upload.txn {
            None => match self.doris.begin(&upload.label, upload.id.target, era, &upload.rows) {
                Ok(txn) => upload.txn = Some(txn),
                Err(_) => return Alive::No,
            },
            Some(txn) => {
                if self.doris.upload(txn).is_err() {
                    return Alive::No;
                }
                let upload = uploads.remove(i);
                say!(self, "doris: {} is precommitted", upload.label);
                delivery.precommitted(upload.id, txn, 0);
                if self.cfg.flaw == Flaw::CommitBeforeRecord {
                    self.doris.commit(txn).ok();
                }
            }
        }
        Alive::Yes
    }

    fn deliver(
        &mut self,
        era: u32,
        delivery: &mut Delivery,
        on_way: &mut OnWay,
        late: Option<&mut Vec<u64>>,
    ) -> Result<Alive, String> {
        match std::mem::replace(on_way, OnWay::Nothing) {
            OnWay::Write(record) => {
                let Ok(permit) = self.store.write_record(era, &record) else { return Ok(Alive::No) };
                say!(self, "engine {era}: record of epoch {} is durable", record.epoch);
                delivery.recorded(permit);
                return Ok(Alive::Yes);
            }
            OnWay::Mark(epoch) => {
                if self.store.mark_committed(era, epoch).is_err() {
                    return Ok(Alive::No);
                }
                say!(self, "engine {era}: record of epoch {epoch} is marked committed");
                delivery.marked();
                return Ok(Alive::Yes);
            }
            OnWay::Nothing => {}
        }
        match delivery.step() {
            Step::Write(record) => *on_way = OnWay::Write(record),
            Step::Mark(epoch) => *on_way = OnWay::Mark(epoch),
            Step::Commit(loads) => {
                let (id, txn) = loads[self.rng.below(loads.len())];
                say!(self, "engine {era}: commits load {}-{}-{}", id.epoch, id.target.0, id.part);
                match late {
                    Some(late) if self.cfg.flaw == Flaw::MarkBeforeCommits => late.push(txn),
                    _ if self.doris.commit(txn).is_err() => return Ok(Alive::No),
                    _ => {}
                }
                delivery.committed(id);
            }
            _ => {}
        }
        Ok(Alive::Yes)
    }
}
