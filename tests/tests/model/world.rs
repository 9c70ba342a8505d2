//! One history: a server, an engine, a Doris, and everything that may go wrong between any two steps.

use std::collections::BTreeMap;

use millstream_engine::checkpoint::{MemoryBackend, Store, StoredState};
use millstream_engine::delivery::{Passed, SourceKind, TableMode, TargetNo};
use millstream_engine::merge::Rules;

use crate::doris::Doris;
use crate::driver::{Engine, Zombie};
use crate::flaws::Flaw;
use crate::rng::Rng;
use crate::server::{Fence, Server, ServerConfig, TABLES};

/// A target table: its source table and mode. Its number is its index plus one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TargetConfig {
    pub source: usize,
    pub mode: TableMode,
}

/// What one history may contain.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub server: ServerConfig,
    pub targets: Vec<TargetConfig>,
    /// The second source table is captured only while the engine runs.
    pub add_later: bool,
    /// Bytes of held changes beyond which the youngest chunk that holds any is given up.
    pub held_limit: usize,
    /// A live upsert target is read again.
    pub resync: bool,
    /// Steps of the server before the engine starts.
    pub warm_up: usize,
    pub workers: usize,
    pub chunk_rows: usize,
    pub crashes: usize,
    pub failovers: usize,
    /// Percent of the precommitted loads that a crash loses, and of the finished ones that it lets Doris forget.
    pub lose: usize,
    pub forget: usize,
    /// A dead engine's requests may still be on their way.
    pub zombies: bool,
    /// LW is made smaller at random.
    pub smaller_lw: bool,
    /// The merge hears of LW only together with the rows.
    pub late_lw: bool,
    /// Percent, after each change, of loads that are cut there; of connections lost there.
    pub cut_load: usize,
    pub cut_connection: usize,
    /// Weights of: server, stream, chunk workers, delivery (of the whole history's steps).
    pub speed: [usize; 4],
    pub rules: Rules,
    pub flaw: Flaw,
}

impl Config {
    /// Settings of the history with this seed.
    pub(crate) fn random(rng: &mut Rng) -> Self {
        let mut targets = Vec::new();
        let layout = rng.below(4);
        for source in 0..TABLES {
            let of = |mode| TargetConfig { source, mode };
            match if layout == 3 { rng.below(3) } else { layout } {
                0 => targets.push(of(TableMode::Append)),
                1 => targets.push(of(TableMode::Upsert)),
                _ => targets.extend([of(TableMode::Append), of(TableMode::Upsert)]),
            }
        }
        let slow = |rng: &mut Rng| [1, 2, 4, 8][rng.below(4)];
        let fence = [Fence::Executed, Fence::ExecutedLocking, Fence::EndLocking, Fence::LogStatus, Fence::Snapshot];
        let fence = if rng.percent(50) { Fence::Executed } else { fence[rng.below(5)] };
        let mut cfg = Self {
            server: ServerConfig {
                fence,
                order: rng.percent(50),
                txns: 4 + rng.below(12),
                speed: [3, 8, slow(rng) + 1, slow(rng) + 1, slow(rng) + 1],
                spellings: rng.percent(50),
                listed_at_flush: false,
            },
            targets,
            add_later: rng.percent(25),
            held_limit: [1000, 1000, 500, 200][rng.below(4)],
            resync: rng.percent(25),
            warm_up: [0, 20, 60][rng.below(3)],
            workers: 1 + rng.below(3),
            chunk_rows: 1 + rng.below(4),
            crashes: [0, 0, 1, 2, 3][rng.below(5)],
            failovers: [0, 0, 0, 1, 2][rng.below(5)],
            lose: [0, 20, 60][rng.below(3)],
            forget: [0, 20, 60][rng.below(3)],
            zombies: rng.percent(50),
            smaller_lw: rng.percent(20),
            late_lw: rng.percent(30),
            cut_load: [0, 5, 20][rng.below(3)],
            cut_connection: [0, 0, 4][rng.below(3)],
            speed: [4 + rng.below(8), 1 + rng.below(6), 2 + rng.below(6), 1 + rng.below(6)],
            rules: Rules::default(),
            flaw: Flaw::None,
        };
        cfg.serve(fence);
        cfg
    }

    /// Makes the server one whose visible transactions are told by `fence`.
    pub(crate) fn serve(&mut self, fence: Fence) {
        self.server.fence = fence;
        self.server.listed_at_flush = fence == Fence::ExecutedLocking;
        // MariaDB commits in the binlog's order.
        self.server.order |= fence == Fence::Snapshot;
        if fence.kind() == SourceKind::Position {
            // Another server has other positions: stopped by name.
            self.failovers = 0;
        }
    }
}

/// A rule was broken, and what happened until then.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub what: String,
    pub story: String,
}

pub(crate) struct World {
    pub rng: Rng,
    pub cfg: Config,
    pub server: Server,
    pub doris: Doris,
    pub store: Store<MemoryBackend>,
    pub engine: Engine,
    pub zombie: Option<Zombie>,
    pub crashes_left: usize,
    pub failovers_left: usize,
    /// Nothing goes wrong any more; the engine has to finish.
    pub draining: bool,
    /// Targets that are captured.
    pub captured: Vec<bool>,
    pub resync_left: bool,
    /// Up to where an upsert target may hold what its stream has not replayed yet.
    pub beyond: BTreeMap<TargetNo, Passed>,
    story: Option<String>,
}

/// Adds a line to the story, when one is told.
macro_rules! say {
    ($world:expr, $($arg:tt)*) => {
        if $world.is_told() {
            let line = format!($($arg)*);
            $world.tell(&line);
        }
    };
}
pub(crate) use say;

impl World {
    pub(crate) fn new(seed: u64, tune: impl FnOnce(&mut Config), told: bool) -> Self {
        let mut rng = Rng::new(seed);
        let mut cfg = Config::random(&mut rng);
        tune(&mut cfg);
        let server = Server::new(cfg.server.clone(), &mut rng);
        let mut store = Store::new(MemoryBackend::default());
        store.create(&StoredState::new(1, "replica".to_owned(), "model".to_owned())).unwrap();
        let captured = cfg.targets.iter().map(|t| !(cfg.add_later && t.source == 1)).collect();
        let mut world = Self {
            rng,
            server,
            doris: Doris::default(),
            store,
            engine: Engine::Down,
            zombie: None,
            crashes_left: cfg.crashes,
            failovers_left: cfg.failovers,
            draining: false,
            captured,
            resync_left: cfg.resync,
            beyond: BTreeMap::new(),
            story: told.then(String::new),
            cfg,
        };
        say!(world, "{:#?}\nrows: {:?}", world.cfg, world.server.base);
        world
    }

    pub(crate) fn is_told(&self) -> bool {
        self.story.is_some()
    }

    pub(crate) fn tell(&mut self, line: &str) {
        if let Some(story) = &mut self.story {
            story.push_str(line);
            story.push('\n');
        }
    }

    pub(crate) fn target(&self, no: TargetNo) -> TargetConfig {
        self.cfg.targets[no.0 as usize - 1]
    }

    /// The whole history.
    pub(crate) fn run(self) -> Result<(), Violation> {
        match self.play() {
            (_, Ok(())) => Ok(()),
            (story, Err(what)) => Err(Violation { what, story }),
        }
    }

    /// The history's story, if it is told, and its end.
    pub(crate) fn play(mut self) -> (String, Result<(), String>) {
        let end = self.steps();
        (self.story.take().unwrap_or_default(), end)
    }

    fn steps(&mut self) -> Result<(), String> {
        for _ in 0..self.cfg.warm_up {
            if let Some(line) = self.server.step(&mut self.rng, true) {
                say!(self, "{line}");
            }
        }
        for _ in 0..1500 {
            if self.server.is_spent() && self.server.is_idle() && self.rng.percent(3) {
                break;
            }
            self.step()?;
        }
        self.draining = true;
        self.zombie = None;
        say!(self, "-- nothing goes wrong any more --");
        for _ in 0..4000 {
            if self.server.is_idle() && self.doris.is_published() && self.engine_is_done() {
                return self.check_end();
            }
            self.step()?;
        }
        Err(format!("the engine waits without an end: {}", self.engine_waits_for()))
    }

    fn step(&mut self) -> Result<(), String> {
        let [server, stream, chunks, delivery] = if self.draining { [8, 2, 4, 12] } else { self.cfg.speed };
        match self.rng.weighted(&[server, stream, chunks, delivery, 1]) {
            0 => {
                let may_begin = !self.draining;
                if let Some(line) = self.server.step(&mut self.rng, may_begin) {
                    say!(self, "{line}");
                }
                Ok(())
            }
            1 => self.stream_step(),
            2 => self.chunk_step(),
            3 => self.delivery_step(),
            _ => self.misfortune(),
        }
    }

    /// What comes from outside: publishing, a dead engine's last requests, a crash, a failover.
    fn misfortune(&mut self) -> Result<(), String> {
        match self.rng.below(5) {
            0 | 1 => {
                let pick = self.rng.below(8);
                self.doris.publish(pick);
            }
            2 => self.zombie_step(),
            3 if self.crashes_left > 0 && !self.draining && self.rng.percent(20) => self.crash(),
            4 if self.failovers_left > 0 && !self.draining && self.rng.percent(15) => {
                self.failovers_left -= 1;
                self.server.fail_over(&mut self.rng);
                say!(self, "FAILOVER to server {}", self.server.number);
            }
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn crash(&mut self) {
        self.crashes_left = self.crashes_left.saturating_sub(1);
        say!(self, "CRASH");
        let engine = std::mem::replace(&mut self.engine, Engine::Down);
        if self.cfg.zombies && self.rng.percent(50) {
            self.zombie = engine.into_zombie();
        }
        for i in 0..self.doris.txns.len() {
            use crate::doris::State;
            let (lose, forget) = (self.rng.percent(self.cfg.lose), self.rng.percent(self.cfg.forget));
            let txn = &mut self.doris.txns[i];
            if lose && matches!(txn.state, State::Prepare | State::PreCommitted) {
                txn.state = State::Aborted;
            }
            if forget && matches!(txn.state, State::Aborted | State::Visible) {
                txn.forgotten = true;
            }
            let (label, state, forgotten) = (txn.label.clone(), txn.state, txn.forgotten);
            say!(self, "  doris: {label} is {state:?}{}", if forgotten { ", forgotten" } else { "" });
        }
    }
}
