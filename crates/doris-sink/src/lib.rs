//! Apache Doris Stream Load with labels and two-phase commit.
//!
//! A row's way: [`TargetTable::plan`] says what the target looks like, [`RowEncoder`] writes rows as lines of JSON,
//! [`Batch`] gathers the lines of one load and keeps the last per key, and [`DorisClient::load`] sends the sealed [`Body`]
//! under a [`Label`], the same bytes however often, until Doris has it once.
//!
//! The decisions are pure: what a reply means is [`classify`], what to do next [`txn`], where a redirect leads and what goes
//! into a request [`request`]. Only [`client`] has sockets.
#![forbid(unsafe_code)]

pub mod batch;
pub mod classify;
pub mod client;
pub mod encode;
mod error;
mod fields;
pub mod jsonl;
pub mod label;
pub mod request;
pub mod response;
pub mod retry;
pub mod table;
pub mod txn;
pub mod types;

pub use batch::{Batch, Body, Pushed};
pub use classify::{AbortOutcome, CommitOutcome};
pub use client::{ClientOptions, DorisClient, Load, LoadStyle, Loaded};
pub use encode::{Binary, EncodeError, EncodeOptions, Extent, Format, InvalidDate, KeySpan, Op, RowEncoder, RowMeta};
pub use error::{Domain, SinkError};
pub use jsonl::EventEncoder;
pub use label::Label;
pub use request::{GroupCommit, TwoPhase, TxnRef};
pub use table::{Mode, Refused, TargetTable};
pub use txn::TxnFact;
pub use types::DorisType;
