//! The thirty checks of a Stream Load client (`t01_…` to `t30_…`), against the Doris simulator, or against the real cluster that
//! `MILLSTREAM_DORIS_FE` names: there, checks that need a fault, the clock or the log of the simulator say that they are
//! skipped. docs/doris-conformance.md lists them; a test keeps the list whole.

mod bed;
mod data;
mod faults;
mod lives;
mod phases;
mod replies;
mod requests;
