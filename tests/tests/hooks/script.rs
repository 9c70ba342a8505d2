//! A hook that a test drives from outside: gates that halt a run, and what it has passed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millstream_binlog::Position;
use millstream_engine::config::{Config, Until};
use millstream_engine::merge::KeyRange;
use millstream_engine::pipeline::hooks::{Action, Hook, Hooks, Pause, Place, Point, Subject};
use millstream_engine::pipeline::{self, Report, RunError, RunOptions};
use millstream_tests::rig::Rig;
use tokio::sync::Notify;

/// Until a run reaches what a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A place, kept.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) point: Point,
    /// Of a chunk: its table; of a load: its target table.
    pub(crate) table: String,
    /// Of a chunk.
    pub(crate) range: KeyRange,
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
}

impl Seen {
    fn of(place: &Place<'_>) -> Self {
        let mut seen = Self { point: place.point, table: String::new(), range: KeyRange::default(), rows: 0, bytes: 0 };
        match place.subject {
            Subject::Chunk { table, range, rows, bytes, .. } => {
                seen = Self { table: table.to_owned(), range: range.clone(), rows, bytes, ..seen };
            }
            Subject::Load { table, .. } => seen.table = table.to_owned(),
            _ => {}
        }
        seen
    }
}

type Each = Box<dyn FnMut(&Seen) + Send>;
type Which<T> = Box<dyn Fn(&T) -> bool + Send>;

struct Gate {
    which: Which<Seen>,
    reached: Option<Seen>,
    answer: Option<Action>,
    go: Arc<Notify>,
}

#[derive(Default)]
struct State {
    gates: Vec<Gate>,
    /// Chunks whose rows are here.
    chunks: Vec<Seen>,
    position: Option<Position>,
    closed: Option<Which<KeyRange>>,
    /// Chunks that were begun, and after how many no further one is.
    begun: usize,
    most: Option<usize>,
    ended: Option<String>,
    each: Option<Each>,
}

/// A gate of a [`Script`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct GateId(usize);

/// What a test tells a run to do.
#[derive(Default)]
pub(crate) struct Script {
    state: Mutex<State>,
    changed: Condvar,
    stream_held: AtomicBool,
}

impl Script {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits until `ready` gives something.
    #[track_caller]
    fn wait<T>(&self, what: &str, mut ready: impl FnMut(&mut State) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.state();
        loop {
            if let Some(found) = ready(&mut state) {
                return found;
            }
            assert!(state.ended.is_none(), "the run ended before {what}: {}", state.ended.as_deref().unwrap());
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no {what} within {PATIENCE:?}");
            state = self.changed.wait_timeout(state, left).unwrap().0;
        }
    }

    /// Halts the run once, at the next place that `which` says.
    pub(crate) fn gate(&self, which: impl Fn(&Seen) -> bool + Send + 'static) -> GateId {
        let mut state = self.state();
        state.gates.push(Gate { which: Box::new(which), reached: None, answer: None, go: Arc::default() });
        GateId(state.gates.len() - 1)
    }

    /// Waits until the run is halted there.
    #[track_caller]
    pub(crate) fn reached(&self, gate: GateId) -> Seen {
        self.wait("its gate", |state| state.gates[gate.0].reached.clone())
    }

    /// The same while something has to happen again and again.
    #[track_caller]
    pub(crate) fn reached_by(&self, gate: GateId, mut again: impl FnMut()) -> Seen {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(seen) = self.wait("its gate", |state| Some(state.gates[gate.0].reached.clone())) {
                return seen;
            }
            assert!(Instant::now() < deadline, "no gate within {PATIENCE:?}");
            again();
        }
    }

    /// Does something at every place, and the run waits for it. It must not ask the script.
    pub(crate) fn at_each(&self, each: impl FnMut(&Seen) + Send + 'static) {
        self.state().each = Some(Box::new(each));
    }

    /// At most `chunks` more are begun (one more by another reader, if that has its range already).
    pub(crate) fn read_at_most(&self, chunks: usize) {
        let mut state = self.state();
        state.most = Some(state.begun + chunks);
    }

    /// As many as there are, of all ranges.
    pub(crate) fn read_all(&self) {
        let mut state = self.state();
        state.most = None;
        state.closed = None;
    }

    /// Lets the run go on from there, now or when it comes there.
    pub(crate) fn open(&self, gate: GateId, action: Action) {
        let mut state = self.state();
        state.gates[gate.0].answer = Some(action);
        state.gates[gate.0].go.notify_one();
    }

    /// The run judges nothing more of the stream until [`Self::release_stream`].
    pub(crate) fn hold_stream(&self) {
        self.stream_held.store(true, Ordering::SeqCst);
    }

    pub(crate) fn release_stream(&self) {
        self.stream_held.store(false, Ordering::SeqCst);
    }

    /// Ranges that stay Unread.
    pub(crate) fn close_ranges(&self, which: impl Fn(&KeyRange) -> bool + Send + 'static) {
        self.state().closed = Some(Box::new(which));
    }

    /// Waits until the stream is judged up to there.
    #[track_caller]
    pub(crate) fn judged(&self, (file, offset): (String, u64)) {
        let end = Position::new(file.as_str(), offset);
        self.wait("the end of the log", |state| state.position.as_ref().filter(|at| **at >= end).map(|_| ()));
    }

    /// The chunks that were read.
    pub(crate) fn chunks(&self) -> Vec<Seen> {
        self.state().chunks.clone()
    }
}

impl Hook for Script {
    fn at<'a>(&'a self, place: Place<'a>) -> Pause<'a> {
        let mut state = self.state();
        if let (Point::Boundary, Subject::Stream { position }) = (place.point, place.subject)
            && state.position.as_ref() != position
        {
            state.position = position.cloned();
            self.changed.notify_all();
        }
        let seen = Seen::of(&place);
        state.begun += usize::from(place.point == Point::BeforeLowWatermark);
        if place.point == Point::AfterSelect {
            state.chunks.push(seen.clone());
        }
        if let Some(each) = &mut state.each {
            each(&seen);
        }
        let mut gates = state.gates.iter_mut().enumerate();
        let gate = gates.find(|(_, gate)| gate.reached.is_none() && (gate.which)(&seen)).map(|(at, gate)| {
            gate.reached = Some(seen);
            (at, Arc::clone(&gate.go))
        });
        self.changed.notify_all();
        drop(state);
        Box::pin(async move {
            let Some((at, go)) = gate else { return Action::GoOn };
            loop {
                let answer = self.state().gates[at].answer;
                match answer {
                    Some(action) => return action,
                    None => go.notified().await,
                }
            }
        })
    }

    fn may_open(&self, _: &str, _: &str, range: &KeyRange) -> bool {
        let state = self.state();
        state.most.is_none_or(|most| state.begun < most) && state.closed.as_ref().is_none_or(|closed| !closed(range))
    }

    fn may_judge(&self) -> bool {
        !self.stream_held.load(Ordering::SeqCst)
    }
}

/// An engine in a thread and a runtime of its own; all of its tasks are gone when it has finished.
pub(crate) struct Run {
    pub(crate) script: Arc<Script>,
    thread: JoinHandle<Result<Report, RunError>>,
}

impl Run {
    /// Starts one that ends when everything that the source has now is visible.
    pub(crate) fn start(rig: &Rig) -> Self {
        Self::with(rig, RunOptions::default())
    }

    /// The same with more options; hooks and the end are set here.
    pub(crate) fn with(rig: &Rig, options: RunOptions) -> Self {
        let script = Arc::new(Script::default());
        let file = rig.home.path().join("millstream.toml");
        let mut config = Config::parse(&file, &rig.config(), &|_| None).unwrap();
        config.state_dir = rig.home.path().join(config.state_dir);
        let hook: Arc<dyn Hook> = Arc::<Script>::clone(&script);
        let options = RunOptions { until: Some(Until::Current), hooks: Hooks::new(hook), ..options };
        let told = Arc::clone(&script);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let result = runtime.block_on(pipeline::run(&config, &options));
            told.state().ended = Some(format!("{result:?}"));
            told.changed.notify_all();
            result
        });
        Self { script, thread }
    }

    /// Waits for its end.
    pub(crate) fn finish(self) -> Result<Report, RunError> {
        self.thread.join().unwrap()
    }
}
