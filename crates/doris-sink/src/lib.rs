//! Apache Doris Stream Load with labels and two-phase commit.
//!
//! A row's way: [`TargetTable::plan`](table::TargetTable::plan) says what the target looks like,
//! [`RowEncoder`](encode::RowEncoder) writes rows as lines of JSON, [`Batch`](batch::Batch) gathers the lines of one load
//! and keeps the last per key, and the sealed [`Body`](batch::Body) is sent under a [`Label`](label::Label).
#![forbid(unsafe_code)]

pub mod batch;
pub mod classify;
pub mod client;
pub mod encode;
mod error;
pub mod jsonl;
pub mod label;
pub mod request;
pub mod response;
pub mod retry;
pub mod table;
pub mod txn;
pub mod types;

pub use batch::{Batch, Body};
pub use classify::{AbortOutcome, CommitOutcome};
pub use client::{ClientOptions, DorisClient, Load, Loaded};
pub use encode::{EncodeError, EncodeOptions, InvalidDate, KeySpan, Op, RowEncoder, RowMeta};
pub use error::{Domain, SinkError};
pub use jsonl::EventEncoder;
pub use label::Label;
pub use request::{TwoPhase, TxnRef};
pub use table::{Mode, Refused, TargetTable};
pub use txn::TxnFact;
pub use types::DorisType;
