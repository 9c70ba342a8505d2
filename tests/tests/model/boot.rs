//! A start: the era, recovery from the last record, leftovers, and where the stream begins.

use std::collections::{BTreeMap, VecDeque};

use millstream_binlog::Position;
use millstream_engine::checkpoint::{SourceState, StoredState, StoredTarget};
use millstream_engine::delivery::{
    Coordinate, EpochRecord, LoadAction, LoadFate, Passed, RecoveryPlan, TargetNo, TargetState, TxnFact, fate, plan,
    resume,
};
use millstream_engine::merge::KeyRange;

use crate::doris::State;
use crate::driver::{Begin, Engine, Run};
use crate::flaws::Flaw;
use crate::world::{World, say};

/// Where a start is. Each is one step; a crash may come between any two.
#[derive(Default)]
pub(crate) enum Boot {
    #[default]
    Era,
    Read(u32),
    /// Broken order: the state was read, the era is still to be raised.
    ReadBeforeEra(Box<StoredState>),
    /// The first start: S0 is read, P0 is not.
    First(u32, Passed),
    Act(u32, Box<EpochRecord>, RecoveryPlan, VecDeque<(u64, LoadAction)>),
    Leftovers(u32),
    Connect(u32, Option<Position>),
}

/// The state with which a table is captured.
pub(crate) fn captured_state(world: &World, source: usize) -> TargetState {
    let mut state = TargetState::default();
    if world.cfg.flaw == Flaw::AboveMaxIsLive
        && let Some(max) = world.server.visible[source].iter().rposition(Option::is_some)
    {
        state.done = vec![KeyRange { lo: Some(vec![max as u8].into()), hi: None }];
    }
    state
}

/// Makes a target durable.
pub(crate) fn store_target(world: &mut World, era: u32, target: TargetNo, state: &TargetState) -> Result<(), String> {
    let mode = world.target(target).mode;
    let stored = StoredTarget {
        target,
        source: (String::new(), String::new()),
        sink: (String::new(), String::new()),
        mode,
        state: state.clone(),
        quarantine: None,
        emptying: false,
    };
    world.store.add_tables(era, &[], &[stored]).map_err(|e| e.to_string())
}

impl Boot {
    pub(crate) fn step(self, world: &mut World) -> Result<Engine, String> {
        match self {
            Self::Era if world.cfg.flaw == Flaw::ReadBeforeEra => {
                Ok(Engine::Boot(Self::ReadBeforeEra(Box::new(world.store.read().unwrap().unwrap()))))
            }
            Self::ReadBeforeEra(state) => {
                let era = world.store.next_era().map_err(|e| e.to_string())?;
                say!(world, "engine: starts with era {era}, after it has read the state");
                read(world, era, *state)
            }
            Self::Era => {
                let stored = world.store.read().unwrap().unwrap().era;
                let era = match world.cfg.flaw {
                    Flaw::EraStays if stored > 0 => stored,
                    _ => world.store.next_era().map_err(|e| e.to_string())?,
                };
                say!(world, "engine: starts with era {era}");
                Ok(Engine::Boot(Self::Read(era)))
            }
            Self::Read(era) => {
                let state = world.store.read().unwrap().unwrap();
                read(world, era, state)
            }
            Self::First(era, s0) => first(world, era, s0),
            Self::Act(era, record, plan, actions) => act(world, era, record, plan, actions),
            Self::Leftovers(era) => {
                for i in 0..world.doris.txns.len() {
                    if matches!(world.doris.txns[i].state, State::Prepare | State::PreCommitted) {
                        say!(world, "engine: aborts the leftover {}", world.doris.txns[i].label);
                        world.doris.abort(i as u64).ok();
                    }
                }
                Ok(Engine::Boot(Self::Connect(era, None)))
            }
            Self::Connect(era, below) => connect(world, era, below),
        }
    }
}

fn read(world: &mut World, era: u32, state: StoredState) -> Result<Engine, String> {
    if state.source.is_none() {
        let s0 = world.server.start();
        say!(world, "engine: S0={s0}");
        if world.cfg.flaw == Flaw::StartFromBothColumns {
            // The position is of the same moment, and the dump begins there.
            let below = world.server.end();
            begin(world, era, &s0, None)?;
            return Ok(Engine::Boot(Boot::Connect(era, Some(below))));
        }
        return Ok(Engine::Boot(Boot::First(era, s0)));
    }
    let Some(record) = state.record.filter(|r| !r.committed) else {
        return Ok(Engine::Boot(Boot::Leftovers(era)));
    };
    let mut fates = BTreeMap::new();
    for load in &record.loads {
        let fact = world.doris.fact(load.txn);
        let flaw = world.cfg.flaw;
        let known = match fate(load.mode, fact, None) {
            LoadFate::AskData if flaw == Flaw::ForgottenIsLost => LoadFate::Lost { maybe: false },
            LoadFate::AskData => fate(load.mode, fact, Some(world.doris.sees(load.id.target, load.seq))),
            known => known,
        };
        let known = if fact == TxnFact::Gone && flaw == Flaw::ForgottenIsDone { LoadFate::Done } else { known };
        say!(world, "engine: load {} is {fact:?}: {known:?}", load.label);
        fates.insert(load.txn, known);
    }
    let mut plan = plan(&record, &fates).map_err(|e| format!("recovery stops: {e:?}"))?;
    let flaw = world.cfg.flaw;
    for target in &mut plan.targets {
        let Some(change) = record.targets.iter().find(|c| c.target == target.target) else { continue };
        let lost = target.resume.ahead != Some(change.next.ahead.clone().unwrap_or_else(|| record.next.clone()));
        if lost {
            world
                .beyond
                .entry(target.target)
                .or_insert_with(|| record.previous.passed.clone())
                .union(&record.next.passed);
        }
        if lost && flaw == Flaw::ReplayWithNewRanges {
            target.resume.done.clone_from(&change.next.done);
        }
        if lost && flaw == Flaw::AddingNotDurable && change.previous == TargetState::default() {
            target.resume.may_hold_more = false;
        }
        for (_, action) in &mut target.actions {
            if *action == LoadAction::Abort && flaw == Flaw::CommitAfterLost {
                *action = LoadAction::Commit;
            }
        }
    }
    let actions = plan.targets.iter().flat_map(|t| t.actions.iter().copied()).collect();
    Ok(Engine::Boot(Boot::Act(era, Box::new(record), plan, actions)))
}

fn act(
    world: &mut World,
    era: u32,
    record: Box<EpochRecord>,
    plan: RecoveryPlan,
    mut actions: VecDeque<(u64, LoadAction)>,
) -> Result<Engine, String> {
    if let Some((txn, action)) = actions.pop_front() {
        say!(world, "engine: {action:?} transaction {txn}");
        let done = match action {
            LoadAction::Keep => Ok(()),
            LoadAction::Commit => world.doris.commit(txn),
            LoadAction::Abort => world.doris.abort(txn),
        };
        // Refused: what was known of it is not true any more, look again.
        return Ok(Engine::Boot(if done.is_ok() { Boot::Act(era, record, plan, actions) } else { Boot::Read(era) }));
    }
    let stored = world.store.read().unwrap().unwrap();
    let mut states: BTreeMap<TargetNo, TargetState> = stored.targets.into_iter().map(|t| (t.target, t.state)).collect();
    states.extend(plan.targets.iter().map(|t| (t.target, t.resume.clone())));
    let mut stream = resume(&stored.stream, &mut states);
    if world.cfg.flaw == Flaw::RestartAtStream {
        stream = record.next.clone();
    }
    let states: Vec<(TargetNo, TargetState)> = states.into_iter().collect();
    say!(world, "engine: resumes at {}: {states:?}", stream.passed);
    // Another start may have come in between.
    if world.store.settle(era, &stream, &states).is_err() {
        return Ok(Engine::Down);
    }
    Ok(Engine::Boot(Boot::Leftovers(era)))
}

fn first(world: &mut World, era: u32, s0: Passed) -> Result<Engine, String> {
    let p0 = world.server.end();
    say!(world, "engine: P0={p0}");
    begin(world, era, &s0, Some(p0))?;
    Ok(Engine::Boot(Boot::Connect(era, None)))
}

/// Makes S0, P0 and the captured targets durable.
fn begin(world: &mut World, era: u32, s0: &Passed, p0: Option<Position>) -> Result<(), String> {
    for i in 0..world.cfg.targets.len() {
        if !world.captured[i] {
            continue;
        }
        store_target(world, era, TargetNo(i as u32 + 1), &TargetState::default())?;
    }
    let source =
        SourceState { server_uuid: world.server.number.to_string(), fence: p0.map(|p| (p.file.to_string(), p.offset)) };
    world.store.set_source(era, &source, &Coordinate::boundary(s0.clone())).map_err(|e| e.to_string())
}

fn connect(world: &mut World, era: u32, below: Option<Position>) -> Result<Engine, String> {
    let state = world.store.read().unwrap().unwrap();
    let source = state.source.unwrap();
    let fence = if source.server_uuid == world.server.number.to_string() {
        source.fence()
    } else {
        // Another server took over while the engine was down: its binlog end is the fence.
        let end = world.server.end();
        let source = SourceState {
            server_uuid: world.server.number.to_string(),
            fence: Some((end.file.to_string(), end.offset)),
        };
        world.store.set_source(era, &source, &state.stream).map_err(|e| e.to_string())?;
        Some(end)
    };
    let begin = Begin {
        era,
        epoch: state.record.map_or(1, |r| r.epoch + 1),
        stream: state.stream.passed,
        fence,
        below,
        states: state.targets.into_iter().map(|t| (t.target, t.state)).collect(),
    };
    say!(world, "engine: reads from {} with {:?}", begin.stream, begin.states);
    Ok(Engine::Run(Box::new(Run::new(begin, world))))
}
