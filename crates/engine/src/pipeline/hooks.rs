//! Named places of a run where a test looks, waits, or breaks something.
//!
//! A test gives [`Hooks`] to [`super::run`]; it is asked at every [`Point`], may take its time (what waits there is one task:
//! the others go on), and says how the run goes on. Nothing but a caller of the library can set one: no configuration, no
//! environment. Without hooks a point costs one comparison, and none lies on the way of a row.

use core::fmt;
use core::pin::Pin;
use std::sync::Arc;

use millstream_binlog::Position;
use tokio::sync::Notify;

use crate::delivery::LoadId;
use crate::merge::{ChunkId, KeyRange};

use super::error::RunError;

/// A named place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Point {
    /// A chunk's range is marked, LW is not read. Waits in the chunk's reader, as all points up to `AfterHighWatermark`.
    BeforeLowWatermark,
    /// LW covers D.
    AfterLowWatermark,
    /// Just before the SELECT.
    BeforeSelect,
    /// The chunk's rows are here.
    AfterSelect,
    /// Just before HW is read.
    BeforeHighWatermark,
    /// HW is known; the driver has not heard of the chunk.
    AfterHighWatermark,
    /// The driver has taken a chunk's rows. Waits in the driver, as all points below that are not of loads or weights.
    Read,
    /// A chunk is due.
    BeforeEntry,
    /// Every chunk that was due has entered the output.
    AfterEntry,
    /// A load is on its way. Waits in the load's own task.
    BeforeLoad,
    /// A load is PRECOMMITTED, and the driver does not know it.
    AfterLoad,
    /// Every load of the epoch is PRECOMMITTED.
    BeforeRecord,
    /// The record is durable, nothing is committed.
    AfterRecord,
    /// Waits in the commit's own task.
    BeforeCommit,
    /// A load is committed, and the driver does not know it.
    AfterCommit,
    /// Every load of the epoch is committed.
    BeforeMark,
    /// The record is marked committed.
    AfterMark,
    /// Weights of key text are about to be asked for. Waits in the task that asks; an event waits for the answer.
    BeforeWeights,
    /// The driver is between two transactions. Comes very often.
    Boundary,
}

/// What a [`Place`] is about.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Subject<'a> {
    /// A chunk of a source table.
    Chunk {
        /// The chunk.
        chunk: ChunkId,
        /// Its source's database.
        database: &'a str,
        /// Its source table.
        table: &'a str,
        /// What it was asked to read; what is marked.
        range: &'a KeyRange,
        /// Rows read; 0 before the SELECT.
        rows: usize,
        /// Their bytes.
        bytes: usize,
    },
    /// A load of a target table.
    Load {
        /// The load.
        load: LoadId,
        /// The target's database.
        database: &'a str,
        /// The target table.
        table: &'a str,
    },
    /// The record of an epoch.
    Record {
        /// The epoch.
        epoch: u64,
    },
    /// Texts of keys.
    Weights {
        /// How many.
        texts: usize,
    },
    /// The stream, and what enters it.
    Stream {
        /// Where it is; `None` before its first event.
        position: Option<&'a Position>,
    },
}

/// A place that a run has reached.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Place<'a> {
    /// Its name.
    pub point: Point,
    /// What it is about.
    pub subject: Subject<'a>,
}

/// How a run goes on from a [`Place`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// As if there were no hook.
    GoOn,
    /// What the place is about fails, as by a lost connection (for a record: as by a full disk).
    Fail,
    /// The process dies: nothing of the run goes on, [`super::run`] returns an error at once. Tasks that it started end when
    /// their runtime does.
    Die,
}

/// The future of an [`Action`].
pub type Pause<'a> = Pin<Box<dyn Future<Output = Action> + Send + 'a>>;

/// What a test gives to a run.
pub trait Hook: Send + Sync {
    /// A place is reached; the task that reached it waits for the answer.
    fn at<'a>(&'a self, place: Place<'a>) -> Pause<'a>;

    /// Whether a range may be marked and read now. Asked again and again; what may not stays Unread.
    fn may_open(&self, database: &str, table: &str, range: &KeyRange) -> bool {
        let _ = (database, table, range);
        true
    }

    /// Whether the stream's next events may be judged now. Asked again and again; chunks and loads go on meanwhile.
    fn may_judge(&self) -> bool {
        true
    }
}

/// A run's hook, if it has one.
#[derive(Clone, Default)]
pub struct Hooks {
    hook: Option<Arc<dyn Hook>>,
    died: Arc<Notify>,
}

impl Hooks {
    /// A hook for one call of [`super::run`].
    #[must_use]
    pub fn new(hook: Arc<dyn Hook>) -> Self {
        Self { hook: Some(hook), died: Arc::default() }
    }

    /// A place is reached. An error: what it is about fails. Never returns when the run dies.
    pub(super) async fn at(&self, point: Point, subject: Subject<'_>) -> Result<(), Broken> {
        let Some(hook) = &self.hook else { return Ok(()) };
        match hook.at(Place { point, subject }).await {
            Action::GoOn => Ok(()),
            Action::Fail => Err(Broken(point)),
            Action::Die => {
                self.died.notify_one();
                core::future::pending().await
            }
        }
    }

    pub(super) fn may_open(&self, database: &str, table: &str, range: &KeyRange) -> bool {
        self.hook.as_ref().is_none_or(|hook| hook.may_open(database, table, range))
    }

    pub(super) fn may_judge(&self) -> bool {
        self.hook.as_ref().is_none_or(|hook| hook.may_judge())
    }

    /// Returns when a hook has said [`Action::Die`].
    pub(super) async fn death(&self) {
        self.died.notified().await;
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").field("is_set", &self.hook.is_some()).finish_non_exhaustive()
    }
}

/// A hook broke what happens here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Broken(Point);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a hook broke it at {:?}", self.0)
    }
}

impl From<Broken> for RunError {
    fn from(broken: Broken) -> Self {
        match broken.0 {
            Point::BeforeRecord | Point::AfterRecord | Point::BeforeMark | Point::AfterMark => {
                Self::stopped(broken.to_string())
            }
            _ => Self::away(broken.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Answer(Action);

    impl Hook for Answer {
        fn at<'a>(&'a self, place: Place<'a>) -> Pause<'a> {
            assert!(matches!(place.subject, Subject::Weights { texts: 3 }), "{place:?}");
            Box::pin(core::future::ready(self.0))
        }
    }

    async fn ask(hooks: &Hooks) -> Option<Result<(), Broken>> {
        tokio::select! {
            biased;
            answer = hooks.at(Point::BeforeWeights, Subject::Weights { texts: 3 }) => Some(answer),
            () = hooks.death() => None,
        }
    }

    #[tokio::test]
    async fn a_run_goes_on_fails_or_dies() {
        assert!(matches!(ask(&Hooks::default()).await, Some(Ok(()))));
        let of = |action| Hooks::new(Arc::new(Answer(action)));
        assert!(matches!(ask(&of(Action::GoOn)).await, Some(Ok(()))));
        assert!(matches!(ask(&of(Action::Fail)).await, Some(Err(Broken(Point::BeforeWeights)))));
        assert!(ask(&of(Action::Die)).await.is_none());
    }
}
