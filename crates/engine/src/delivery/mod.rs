//! Exactly-once delivery as pure decisions: epochs, the order record-before-commit, and what a restart does.
//!
//! One epoch: every load PRECOMMITTED, then its record durable, then every transaction committed by id, then the record
//! marked committed. The next epoch fills and uploads meanwhile, but its record waits for that mark.

mod coordinate;
mod epoch;
mod passed;
mod record;
mod recovery;
mod resume;

pub use coordinate::{Coordinate, Partial};
pub use epoch::{Delivery, Extra, PrecommitAge, Sealed, Step};
pub use passed::{LogPlace, Passed, SourceKind, TxnId};
pub use record::{
    CommitPermit, EpochRecord, LoadEnd, LoadId, LoadRecord, TableMode, TargetChange, TargetNo, TargetState, XaChange,
};
pub use recovery::{
    Inconsistent, LoadAction, LoadFate, RecoveryPlan, TargetPlan, TxnFact, fate, is_leftover, plan, smallest,
};
pub use resume::resume;
