//! The Doris simulator against the protocol notes it was built from: what it accepts, what it refuses and with which
//! words, every cell of its transaction table, and its faults.

mod answers;
mod apart;
mod client;
mod faults;
mod first;
mod profiles;
mod quality;
mod refusals;
mod semantics;
mod sql;
mod states;
