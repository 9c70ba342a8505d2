//! The Doris simulator against the protocol notes it was built from: what it accepts, what it refuses and with which
//! words, every cell of its transaction table, and its faults.

mod apart;
mod client;
mod faults;
mod first;
mod quality;
mod refusals;
mod semantics;
mod sql;
