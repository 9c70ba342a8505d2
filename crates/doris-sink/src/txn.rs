//! The load of one batch as a state machine: what to do next, given what was just seen. No sockets, no clock.
//!
//! The batch keeps its label and its bytes however often it is sent; Doris then loads them at most once. What a lost or
//! ambiguous reply meant is asked of the label's state.

use core::time::Duration;

use crate::classify::{AbortOutcome, FatalCause, LoadOutcome, RetryCause};
use crate::request::TwoPhase;
use crate::response::Existing;
use crate::retry::Backoff;

/// A transaction's state, as `SHOW TRANSACTION` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TxnStatus {
    /// Begun.
    Prepare,
    /// Loaded, waiting for the second phase.
    PreCommitted,
    /// Durable, soon visible.
    Committed,
    /// Visible.
    Visible,
    /// Undone.
    Aborted,
    /// No such label, or a state this version does not know.
    Unknown,
}

impl TxnStatus {
    /// Reads the name.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text.trim().to_ascii_uppercase().as_str() {
            "PREPARE" => Self::Prepare,
            "PRECOMMITTED" => Self::PreCommitted,
            "COMMITTED" => Self::Committed,
            "VISIBLE" => Self::Visible,
            "ABORTED" => Self::Aborted,
            _ => Self::Unknown,
        }
    }
}

/// One transaction of `SHOW TRANSACTION`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnRow {
    /// Transaction id.
    pub id: u64,
    /// Label.
    pub label: String,
    /// State.
    pub status: TxnStatus,
}

/// What is known of a label or a transaction id; with the transaction's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "recovery must handle every state")]
pub enum TxnFact {
    /// Visible.
    Visible(u64),
    /// Durable, soon visible.
    Committed(u64),
    /// Waiting for the second phase.
    PreCommitted(u64),
    /// Begun.
    Prepare(u64),
    /// Undone; the label is free.
    Aborted(u64),
    /// Never begun, or forgotten (12 h, or 2000 finished ones).
    Unknown,
}

impl TxnFact {
    /// What several transactions of one label say together: the one that is not aborted, else an aborted one.
    #[must_use]
    pub fn of(rows: &[TxnRow]) -> Self {
        let live = rows.iter().find(|row| !matches!(row.status, TxnStatus::Aborted | TxnStatus::Unknown));
        let row = live.or_else(|| rows.iter().rfind(|row| row.status == TxnStatus::Aborted));
        row.map_or(Self::Unknown, |row| match row.status {
            TxnStatus::Prepare => Self::Prepare(row.id),
            TxnStatus::PreCommitted => Self::PreCommitted(row.id),
            TxnStatus::Committed => Self::Committed(row.id),
            TxnStatus::Visible => Self::Visible(row.id),
            TxnStatus::Aborted => Self::Aborted(row.id),
            TxnStatus::Unknown => Self::Unknown,
        })
    }

    /// Whether the rows are durable: committed or visible.
    #[must_use]
    pub const fn is_committed(self) -> bool {
        matches!(self, Self::Visible(_) | Self::Committed(_))
    }
}

/// What to do next with the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the driver does every step")]
pub enum Step {
    /// Send it, with [`LoadMachine::on_outcome`] or [`LoadMachine::on_transport`] for what comes of it.
    Send,
    /// Look its label up, for [`LoadMachine::on_fact`].
    Inspect,
    /// Abort this transaction, for [`LoadMachine::on_abort`].
    Abort(u64),
    /// It is loaded. The id is missing only where one phase was finished by an earlier try.
    Done {
        /// Transaction id.
        txn_id: Option<u64>,
    },
    /// It cannot be loaded.
    Fail(Failure),
}

/// Why a batch cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// Refused.
    Fatal {
        /// Why.
        cause: FatalCause,
        /// Text.
        text: String,
        /// Where refused rows are explained.
        error_url: Option<String>,
    },
    /// Not every row was loaded.
    RowCount {
        /// Counts.
        text: String,
        /// Where refused rows are explained.
        error_url: Option<String>,
    },
    /// Too many aborts of one label.
    LabelWornOut,
}

/// What the machine waits and counts by.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// First wait after a failure; waits double.
    pub retry_base: Duration,
    /// Longest wait.
    pub retry_cap: Duration,
    /// How long an earlier try of the same label may go on before it is aborted.
    pub running_wait: Duration,
}

/// The cloud meta service refuses a label with 100 aborted transactions.
const MAX_ABORTS: u32 = 90;
/// How often a refusal of an unknown kind is tried again.
const MAX_UNKNOWN: u32 = 6;

/// One batch on its way into Doris.
#[derive(Debug)]
pub struct LoadMachine {
    two_phase: TwoPhase,
    limits: Limits,
    backoff: Backoff,
    /// For `-235`, where waiting is the cure.
    versions_backoff: Backoff,
    /// Whether what came of an earlier try is not known, so that a PRECOMMITTED transaction of the label is that try.
    unclear: bool,
    aborts: u32,
    unknown: u32,
    running_waited: Duration,
    too_many_versions: u32,
    pending: Option<Failure>,
    rng: fastrand::Rng,
}

/// A step, and how long to wait before it.
pub type Next = (Duration, Step);

const NOW: Duration = Duration::ZERO;

impl LoadMachine {
    /// A machine that has not sent anything; the first step is [`Step::Send`].
    #[must_use]
    pub const fn new(two_phase: TwoPhase, limits: Limits, rng: fastrand::Rng) -> Self {
        let slow = limits.retry_base.saturating_mul(50);
        Self {
            two_phase,
            backoff: Backoff::new(limits.retry_base, limits.retry_cap),
            versions_backoff: Backoff::new(slow, limits.retry_cap.saturating_mul(30)),
            limits,
            unclear: false,
            aborts: 0,
            unknown: 0,
            running_waited: Duration::ZERO,
            too_many_versions: 0,
            pending: None,
            rng,
        }
    }

    /// How often the table had too many versions (`-235`): a reason to load it less often from now on.
    #[must_use]
    pub const fn too_many_versions(&self) -> u32 {
        self.too_many_versions
    }

    fn wait(&mut self) -> Duration {
        self.backoff.next(&mut self.rng)
    }

    /// Sends again after a wait, unless the label is worn out.
    fn resend(&mut self) -> Next {
        if self.aborts >= MAX_ABORTS {
            return (NOW, Step::Fail(Failure::LabelWornOut));
        }
        (self.wait(), Step::Send)
    }

    fn finished(&self, txn_id: Option<u64>) -> Next {
        match self.two_phase {
            TwoPhase::No => (NOW, Step::Done { txn_id }),
            // Nobody but the holder of the record commits, and it has not seen this load yet.
            TwoPhase::Yes => {
                let text = "a transaction of this label is committed, but this load was never handed over".to_owned();
                (NOW, Step::Fail(Failure::Fatal { cause: FatalCause::LabelFinished, text, error_url: None }))
            }
        }
    }

    fn precommitted(&self, txn_id: u64) -> Next {
        // The same bytes under the same label were sent before by this very call: it is this load. A first try whose label is
        // taken is another's.
        if self.unclear && self.two_phase == TwoPhase::Yes {
            (NOW, Step::Done { txn_id: Some(txn_id) })
        } else {
            (NOW, Step::Abort(txn_id))
        }
    }

    fn running(&mut self, txn_id: Option<u64>) -> Next {
        if self.running_waited >= self.limits.running_wait
            && let Some(txn_id) = txn_id
        {
            self.running_waited = Duration::ZERO;
            return (NOW, Step::Abort(txn_id));
        }
        let wait = self.wait();
        self.running_waited = self.running_waited.saturating_add(wait);
        (wait, Step::Inspect)
    }

    /// After a reply.
    pub fn on_outcome(&mut self, outcome: LoadOutcome) -> Next {
        match outcome {
            LoadOutcome::Done { txn_id } => (NOW, Step::Done { txn_id: Some(txn_id) }),
            LoadOutcome::Exists { existing: Existing::Finished, txn_id } => self.finished(txn_id),
            LoadOutcome::Exists { existing: Existing::PreCommitted, txn_id: Some(txn_id) } => self.precommitted(txn_id),
            LoadOutcome::Exists { existing: Existing::Running, txn_id } => self.running(txn_id),
            LoadOutcome::Ambiguous { .. } => {
                self.unclear = true;
                (self.wait(), Step::Inspect)
            }
            LoadOutcome::Exists { .. } => (self.wait(), Step::Inspect),
            LoadOutcome::Retry { cause, .. } => {
                self.aborts = self.aborts.saturating_add(1);
                if cause == RetryCause::TooManyVersions && self.aborts < MAX_ABORTS {
                    self.too_many_versions = self.too_many_versions.saturating_add(1);
                    return (self.versions_backoff.next(&mut self.rng), Step::Send);
                }
                self.resend()
            }
            LoadOutcome::UnknownFailure { message } => {
                self.unclear = true;
                self.unknown = self.unknown.saturating_add(1);
                if self.unknown < MAX_UNKNOWN {
                    return (self.wait(), Step::Inspect);
                }
                let text = message.to_string();
                (NOW, Step::Fail(Failure::Fatal { cause: FatalCause::Unknown, text, error_url: None }))
            }
            LoadOutcome::WrongCount { txn_id, message, error_url } => {
                let failure = Failure::RowCount { text: message, error_url };
                match txn_id {
                    Some(txn_id) if self.two_phase == TwoPhase::Yes => {
                        self.pending = Some(failure);
                        (NOW, Step::Abort(txn_id))
                    }
                    _ => (NOW, Step::Fail(failure)),
                }
            }
            LoadOutcome::Fatal { cause, message, error_url } => {
                (NOW, Step::Fail(Failure::Fatal { cause, text: message.to_string(), error_url }))
            }
        }
    }

    /// After a connection that failed; `reached` says whether any byte of the body may have reached a server.
    pub fn on_transport(&mut self, reached: bool) -> Next {
        self.unclear |= reached;
        if reached { (self.wait(), Step::Inspect) } else { self.resend() }
    }

    /// After a look at the label; `None` when it could not be looked up. Sending again then tells as much: Doris answers a
    /// taken label before it reads the body.
    pub fn on_fact(&mut self, fact: Option<TxnFact>) -> Next {
        if let Some(failure) = self.pending.take() {
            return match fact {
                Some(TxnFact::PreCommitted(id) | TxnFact::Prepare(id)) => {
                    self.pending = Some(failure);
                    (self.wait(), Step::Abort(id))
                }
                None => {
                    self.pending = Some(failure);
                    (self.wait(), Step::Inspect)
                }
                Some(_) => (NOW, Step::Fail(failure)),
            };
        }
        match fact {
            Some(TxnFact::Visible(id) | TxnFact::Committed(id)) => self.finished(Some(id)),
            Some(TxnFact::PreCommitted(id)) => self.precommitted(id),
            Some(TxnFact::Prepare(id)) => self.running(Some(id)),
            Some(TxnFact::Aborted(_)) => {
                self.aborts = self.aborts.saturating_add(1);
                self.resend()
            }
            Some(TxnFact::Unknown) | None => self.resend(),
        }
    }

    /// After an abort.
    pub fn on_abort(&mut self, outcome: AbortOutcome) -> Next {
        match outcome {
            AbortOutcome::Done | AbortOutcome::NotFound => {
                if let Some(failure) = self.pending.take() {
                    return (NOW, Step::Fail(failure));
                }
                self.aborts = self.aborts.saturating_add(1);
                self.resend()
            }
            AbortOutcome::AlreadyCommitted | AbortOutcome::NeedsId | AbortOutcome::Retry { .. } => {
                (self.wait(), Step::Inspect)
            }
            AbortOutcome::Fatal { cause, message } => {
                let failure = Failure::Fatal { cause, text: message.to_string(), error_url: None };
                (NOW, Step::Fail(self.pending.take().unwrap_or(failure)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::Message;

    fn machine(two_phase: TwoPhase) -> LoadMachine {
        let limits = Limits {
            retry_base: Duration::from_millis(100),
            retry_cap: Duration::from_secs(10),
            running_wait: Duration::from_secs(3),
        };
        LoadMachine::new(two_phase, limits, fastrand::Rng::with_seed(3))
    }

    fn sent(two_phase: TwoPhase) -> LoadMachine {
        let mut machine = machine(two_phase);
        assert_eq!(machine.on_transport(true).1, Step::Inspect);
        machine
    }

    fn message(text: &str) -> Message {
        Message { code: None, text: text.into() }
    }

    const fn fatal(step: &Step) -> Option<FatalCause> {
        match step {
            Step::Fail(Failure::Fatal { cause, .. }) => Some(*cause),
            _ => None,
        }
    }

    /// Every fact about a label after a lost reply, in both kinds of load, sent and not.
    #[test]
    fn facts_after_a_lost_reply() {
        use TwoPhase::{No, Yes};
        let done = |id| Step::Done { txn_id: Some(id) };
        #[rustfmt::skip]
        let table = [
            (Yes, true, Some(TxnFact::PreCommitted(7)), done(7)),
            (Yes, false, Some(TxnFact::PreCommitted(7)), Step::Abort(7)),
            (No, true, Some(TxnFact::PreCommitted(7)), Step::Abort(7)),
            (No, true, Some(TxnFact::Visible(7)), done(7)),
            (No, false, Some(TxnFact::Committed(7)), done(7)),
            (Yes, true, Some(TxnFact::Aborted(7)), Step::Send),
            (Yes, true, Some(TxnFact::Unknown), Step::Send),
            (Yes, true, Some(TxnFact::Prepare(7)), Step::Inspect),
            (Yes, true, None, Step::Send),
        ];
        for (two_phase, was_sent, fact, expected) in table {
            let mut machine = if was_sent { sent(two_phase) } else { machine(two_phase) };
            assert_eq!(machine.on_fact(fact).1, expected, "{two_phase:?} {was_sent} {fact:?}");
        }
        for fact in [TxnFact::Visible(7), TxnFact::Committed(7)] {
            assert_eq!(fatal(&sent(Yes).on_fact(Some(fact)).1), Some(FatalCause::LabelFinished));
        }
    }

    #[test]
    fn a_taken_label_is_adopted_aborted_or_waited_for() {
        let exists = |existing, txn_id| LoadOutcome::Exists { existing, txn_id };
        let yes = || sent(TwoPhase::Yes);
        assert_eq!(yes().on_outcome(exists(Existing::PreCommitted, Some(7))).1, Step::Done { txn_id: Some(7) });
        assert_eq!(yes().on_outcome(exists(Existing::PreCommitted, None)).1, Step::Inspect);
        assert_eq!(machine(TwoPhase::Yes).on_outcome(exists(Existing::PreCommitted, Some(7))).1, Step::Abort(7));
        assert_eq!(yes().on_outcome(exists(Existing::Running, Some(7))).1, Step::Inspect);
        assert_eq!(yes().on_outcome(exists(Existing::Unknown, None)).1, Step::Inspect);
        assert_eq!(fatal(&yes().on_outcome(exists(Existing::Finished, Some(7))).1), Some(FatalCause::LabelFinished));
        let one = sent(TwoPhase::No).on_outcome(exists(Existing::Finished, None)).1;
        assert_eq!(one, Step::Done { txn_id: None });
    }

    #[test]
    fn a_running_try_is_aborted_after_a_while() {
        let mut machine = sent(TwoPhase::Yes);
        let mut waited = Duration::ZERO;
        let step = loop {
            let (wait, step) = machine.on_fact(Some(TxnFact::Prepare(9)));
            waited += wait;
            if step != Step::Inspect {
                break step;
            }
        };
        assert_eq!(step, Step::Abort(9));
        assert!(waited >= Duration::from_secs(3) && waited < Duration::from_secs(20), "{waited:?}");
        assert_eq!(machine.on_abort(AbortOutcome::Done).1, Step::Send);
        // It may have got ahead of the abort.
        assert_eq!(machine.on_abort(AbortOutcome::AlreadyCommitted).1, Step::Inspect);
    }

    #[test]
    fn a_wrong_count_is_aborted_before_it_fails() {
        let wrong = || LoadOutcome::WrongCount { txn_id: Some(7), message: "2 sent, 1 loaded".into(), error_url: None };
        let failed = Step::Fail(Failure::RowCount { text: "2 sent, 1 loaded".into(), error_url: None });
        let mut machine = sent(TwoPhase::Yes);
        assert_eq!(machine.on_outcome(wrong()).1, Step::Abort(7));
        assert_eq!(machine.on_abort(AbortOutcome::Retry { message: String::new() }).1, Step::Inspect);
        assert_eq!(machine.on_fact(None).1, Step::Inspect);
        assert_eq!(machine.on_fact(Some(TxnFact::PreCommitted(7))).1, Step::Abort(7), "never adopted");
        assert_eq!(machine.on_abort(AbortOutcome::Done).1, failed);
        assert_eq!(sent(TwoPhase::No).on_outcome(wrong()).1, failed);
    }

    #[test]
    fn retries_wait_longer_and_labels_wear_out() {
        let mut machine = sent(TwoPhase::Yes);
        let retry = |cause| LoadOutcome::Retry { cause, message: message("x") };
        let mut steps = 0;
        loop {
            let (wait, step) = machine.on_outcome(retry(RetryCause::Quota));
            if step != Step::Send {
                assert_eq!(step, Step::Fail(Failure::LabelWornOut));
                break;
            }
            assert!(wait >= Duration::from_millis(50) && wait <= Duration::from_secs(10));
            steps += 1;
        }
        assert!((80..100).contains(&steps), "{steps}");
        let mut machine = sent(TwoPhase::Yes);
        let (wait, step) = machine.on_outcome(retry(RetryCause::TooManyVersions));
        assert!(step == Step::Send && wait >= Duration::from_millis(2500), "{wait:?}");
        assert_eq!(machine.too_many_versions(), 1);
        assert_eq!(machine_transport(false), Step::Send);
        assert_eq!(machine_transport(true), Step::Inspect);
    }

    fn machine_transport(reached: bool) -> Step {
        sent(TwoPhase::Yes).on_transport(reached).1
    }

    #[test]
    fn an_unknown_failure_is_looked_into_and_fails_in_the_end() {
        let mut machine = sent(TwoPhase::Yes);
        let mut looks = 0;
        let last = loop {
            let step = machine.on_outcome(LoadOutcome::UnknownFailure { message: message("new") }).1;
            if step != Step::Inspect {
                break step;
            }
            looks += 1;
        };
        assert_eq!((looks, fatal(&last)), (MAX_UNKNOWN - 1, Some(FatalCause::Unknown)));
        let bad = LoadOutcome::Fatal { cause: FatalCause::DataQuality, message: message("x"), error_url: None };
        assert_eq!(fatal(&sent(TwoPhase::Yes).on_outcome(bad).1), Some(FatalCause::DataQuality));
    }

    #[test]
    fn the_live_transaction_of_a_label_counts() {
        let row = |id, status| TxnRow { id, label: "l".into(), status: TxnStatus::parse(status) };
        assert_eq!(TxnFact::of(&[]), TxnFact::Unknown);
        assert_eq!(TxnFact::of(&[row(1, "ABORTED"), row(2, "PRECOMMITTED")]), TxnFact::PreCommitted(2));
        assert_eq!(TxnFact::of(&[row(2, "VISIBLE"), row(3, "ABORTED")]), TxnFact::Visible(2));
        assert_eq!(TxnFact::of(&[row(2, "ABORTED"), row(3, "aborted")]), TxnFact::Aborted(3));
        assert_eq!(TxnFact::of(&[row(2, "PREPARE")]), TxnFact::Prepare(2));
        assert_eq!(TxnFact::of(&[row(2, "COMMITTED")]), TxnFact::Committed(2));
        assert_eq!(TxnFact::of(&[row(2, "NEW")]), TxnFact::Unknown);
    }
}
