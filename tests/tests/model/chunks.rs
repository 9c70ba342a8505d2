//! Chunk workers: mark and D, LW, SELECT, HW, each its own step.

use millstream_binlog::{GtidSet, Position};
use millstream_engine::delivery::Passed;
use millstream_engine::merge::{ChunkId, Covered, Key, KeyRange, Opening, RangeState, TableId};

use crate::driver::{Alive, Run};
use crate::flaws::Flaw;
use crate::rng::Rng;
use crate::server::{Fence, KEYS, Rows, Server, Val, spelling};
use crate::world::{World, say};

/// Where a worker is in the order of one chunk.
#[derive(Debug, Default)]
enum Stage {
    #[default]
    Idle,
    /// Broken order: LW was read, the mark is still to come.
    LwBeforeMark {
        table: TableId,
        source: usize,
        range: KeyRange,
        lw: Passed,
    },
    Opened(Chunk),
    Fenced(Chunk),
    /// A locking read is on its way: its next key, and what it has.
    Locking(Chunk, u8, Vec<(Key, Val)>),
    Selected {
        chunk: Chunk,
        rows: Vec<(Key, Val)>,
        covered: Covered,
        short: bool,
    },
}

#[derive(Debug)]
struct Chunk {
    id: ChunkId,
    table: TableId,
    source: usize,
    range: KeyRange,
    covers: Passed,
    early_hw: Option<Position>,
    /// LW, when the merge hears of it only together with the rows.
    late_lw: Option<Passed>,
    /// A consistent snapshot that was taken with LW.
    view: Option<Rows>,
}

impl Chunk {
    fn new(opening: Opening, table: TableId, source: usize, range: KeyRange) -> Self {
        let Opening { chunk: id, covers } = opening;
        Self { id, table, source, range, covers, early_hw: None, late_lw: None, view: None }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Worker {
    stage: Stage,
    /// A read view that is used for one chunk too many (broken).
    view: Option<Rows>,
}

impl Worker {
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.stage, Stage::Idle)
    }
}

/// LW as the driver reads it, in steps that the merge refuses until it covers D. With it the view of a snapshot.
fn low_watermark(world: &mut World, covers: &Passed) -> (Passed, Option<Rows>) {
    let flaw = world.cfg.flaw;
    match world.cfg.server.fence {
        _ if flaw == Flaw::LwIsPosition => (world.server.all_flushed(), None),
        Fence::Executed | Fence::ExecutedLocking => {
            let mut lw = world.server.gtid_executed.clone();
            if world.cfg.smaller_lw {
                // Smaller than the truth, but not smaller than D: that would only be read again.
                let gtids = world.server.txns.iter().filter_map(|t| Some((t.gtid?, t.id.as_ref()?)));
                let spare: Vec<_> = gtids.filter(|(_, id)| !covers.contains(id)).map(|(gtid, _)| gtid).collect();
                let mut less = GtidSet::default();
                less.extend(spare.into_iter().filter(|_| world.rng.percent(40)));
                lw.subtract(&less);
            }
            (lw.into(), None)
        }
        Fence::EndLocking => (world.server.end().into(), None),
        Fence::LogStatus if world.server.is_quiet() => (world.server.end().into(), None),
        // It waits.
        Fence::LogStatus => (Server::beginning().into(), None),
        Fence::Snapshot => {
            let position = match flaw {
                Flaw::PositionBesideSnapshot => world.server.end(),
                _ => world.server.snapshot_position(),
            };
            (position.into(), Some(world.server.visible))
        }
    }
}

/// A row's key as the SELECT brings it: with the text that names it as a bound.
fn key(k: u8, val: Val, flaw: Flaw) -> Key {
    match flaw {
        Flaw::SpellingCounts => vec![k, spelling(val) as u8].into(),
        _ => Key::with_text(&[k], &[spelling(val) as u8]),
    }
}

/// Whether the server takes the key for one of the range. Spellings are equal to it.
fn selects(range: &KeyRange, k: u8) -> bool {
    let first = |key: &Key| key.first().copied().unwrap_or(0);
    range.lo.as_ref().is_none_or(|lo| k > first(lo)) && range.hi.as_ref().is_none_or(|hi| k <= first(hi))
}

/// Puts a bound at a random key of an Unread range (or, broken, of one that is being read).
fn cut(run: &mut Run, rng: &mut Rng, table: TableId) {
    run.merge.cut(table, &Key::from([rng.below(KEYS + 2) as u8]));
}

impl World {
    pub(crate) fn chunk_step(&mut self) -> Result<(), String> {
        self.with_run(|world, run| {
            let i = world.rng.below(run.workers.len());
            let mut worker = std::mem::take(&mut run.workers[i]);
            worker.step(world, run);
            run.workers[i] = worker;
            run.enter(world);
            Ok(Alive::Yes)
        })
    }
}

impl Worker {
    fn step(&mut self, world: &mut World, run: &mut Run) {
        if run.server != world.server.number {
            return; // @@server_uuid is not the stream's: wait for the stream to move.
        }
        let stage = std::mem::take(&mut self.stage);
        let id = match &stage {
            Stage::Opened(c) | Stage::Fenced(c) | Stage::Locking(c, ..) | Stage::Selected { chunk: c, .. } => {
                Some(c.id)
            }
            _ => None,
        };
        if let Some(id) = id
            && world.rng.percent(if world.draining { 0 } else { 4 })
        {
            say!(world, "engine: {id:?} is abandoned");
            run.merge.abandon(id);
            return;
        }
        if id.is_some_and(|id| !run.merge.is_open(id)) {
            return; // Given up meanwhile.
        }
        self.stage = match stage {
            Stage::Idle => self.open(world, run),
            Stage::LwBeforeMark { table, source, range, lw } => match run.merge.open(table, range.clone()) {
                Some(opening) => {
                    let chunk = Chunk::new(opening, table, source, range);
                    run.merge.fence(chunk.id, lw);
                    Stage::Fenced(chunk)
                }
                None => Stage::Idle,
            },
            Stage::Opened(mut chunk) => {
                let (lw, view) = low_watermark(world, &chunk.covers);
                let text = if world.is_told() { lw.to_string() } else { String::new() };
                let late = world.cfg.late_lw && lw.is_superset(&chunk.covers);
                if late || run.merge.fence(chunk.id, lw.clone()) {
                    chunk.early_hw = view.and_then(|_| lw.place().map(|place| place.position.clone()));
                    chunk.view = view;
                    chunk.late_lw = late.then_some(lw);
                    say!(world, "engine: {:?} LW={text}", chunk.id);
                    Stage::Fenced(chunk)
                } else {
                    Stage::Opened(chunk)
                }
            }
            Stage::Fenced(chunk) if world.cfg.server.fence.locks() && world.cfg.flaw != Flaw::PlainRead => {
                Stage::Locking(chunk, 1, Vec::new())
            }
            Stage::Fenced(chunk) => self.select(world, run, chunk),
            Stage::Locking(chunk, next, rows) => lock(world, run, chunk, next, rows),
            Stage::Selected { chunk, rows, covered, short } => {
                let hw = match world.cfg.flaw {
                    Flaw::HwIsGtidSet => world.server.end_of(|t| t.listed),
                    _ => chunk.early_hw.clone().unwrap_or_else(|| world.server.end()),
                };
                say!(world, "engine: {:?} HW={hw}", chunk.id);
                if let (true, Covered::UpTo(last)) = (short, &covered) {
                    run.finished.push((chunk.table, KeyRange { lo: Some(last.clone()), hi: chunk.range.hi.clone() }));
                }
                if let Some(lw) = chunk.late_lw {
                    run.merge.fence(chunk.id, lw);
                }
                run.merge.read(chunk.id, rows, covered, hw);
                Stage::Idle
            }
        };
    }

    fn open(&self, world: &mut World, run: &mut Run) -> Stage {
        if run.groups.is_empty() {
            return Stage::Idle;
        }
        let group = world.rng.below(run.groups.len());
        let (table, source) = (run.groups[group].table, run.groups[group].source);
        if world.rng.percent(25) && !world.draining {
            cut(run, &mut world.rng, table);
        }
        let unread: Vec<KeyRange> =
            run.merge.unread(table).into_iter().filter(|r| !run.is_finished(table, r)).collect();
        if unread.is_empty() {
            return Stage::Idle;
        }
        let range = unread[world.rng.below(unread.len())].clone();
        if world.cfg.flaw == Flaw::MarkAfterLw {
            let judged = run.merge.judged();
            let (lw, _) = low_watermark(world, judged);
            let covers = lw.is_superset(judged) && run.merge.may_open(table);
            say!(world, "engine: reads LW={lw} before its mark");
            return if covers { Stage::LwBeforeMark { table, source, range, lw } } else { Stage::Idle };
        }
        let Some(opening) = run.merge.open(table, range.clone()) else { return Stage::Idle };
        run.chunks.insert(opening.chunk, table);
        say!(world, "engine: {:?} marks {range:?} of table {source}, D={}", opening.chunk, opening.covers);
        debug_assert!(run.merge.ranges(table).is_some_and(|r| {
            range.hi.as_ref().is_none_or(|hi| *r.state(hi) == RangeState::Reading(opening.chunk))
        }));
        Stage::Opened(Chunk::new(opening, table, source, range))
    }

    /// A consistent read; with HW read before it in a broken driver.
    fn select(&mut self, world: &mut World, run: &Run, mut chunk: Chunk) -> Stage {
        if world.cfg.flaw == Flaw::HwBeforeSelect && chunk.early_hw.is_none() {
            chunk.early_hw = Some(world.server.end());
            return Stage::Fenced(chunk);
        }
        let visible = match (world.cfg.flaw, self.view.take()) {
            (Flaw::OneReadView, Some(view)) => view,
            (Flaw::OneReadView, None) => {
                self.view = Some(world.server.visible);
                world.server.visible
            }
            _ => chunk.view.unwrap_or(world.server.visible),
        };
        let limit = limit(world, run, &chunk);
        let rows: Vec<(Key, Val)> = (1..=KEYS as u8)
            .filter(|k| selects(&chunk.range, *k))
            .filter_map(|k| visible[chunk.source][k as usize].map(|v| (key(k, v, world.cfg.flaw), v)))
            .take(limit)
            .collect();
        selected(world, chunk, rows, limit)
    }
}

/// Rows of a chunk at most.
fn limit(world: &World, run: &Run, chunk: &Chunk) -> usize {
    run.rows.get(&chunk.table).copied().unwrap_or(world.cfg.chunk_rows)
}

/// A locking read sees what is committed, key by key, and waits where a transaction holds one.
fn lock(world: &mut World, run: &Run, chunk: Chunk, next: u8, mut rows: Vec<(Key, Val)>) -> Stage {
    let (limit, at) = (limit(world, run, &chunk), next as usize);
    if rows.len() >= limit || at > KEYS {
        return selected(world, chunk, rows, limit);
    }
    if selects(&chunk.range, next) {
        if world.server.is_locked(chunk.source, at) {
            return Stage::Locking(chunk, next, rows);
        }
        rows.extend(world.server.visible[chunk.source][at].map(|v| (key(next, v, world.cfg.flaw), v)));
    }
    Stage::Locking(chunk, next + 1, rows)
}

fn selected(world: &mut World, chunk: Chunk, mut rows: Vec<(Key, Val)>, limit: usize) -> Stage {
    // The limit may have become smaller since the read began.
    let mut cut = rows.len() >= limit;
    if rows.len() > 1 && world.rng.percent(15) {
        rows.pop(); // Cut by bytes.
        cut = true;
    }
    let short = !cut && !rows.is_empty() && world.cfg.flaw == Flaw::ShortChunkEndsAtLastRow;
    let covered = match rows.last() {
        Some((last, _)) if cut || short => Covered::UpTo(last.clone()),
        _ => Covered::ToEnd,
    };
    say!(world, "engine: {:?} SELECT sees {rows:?}, covers {covered:?}", chunk.id);
    Stage::Selected { chunk, rows, covered, short }
}
