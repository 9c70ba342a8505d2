//! Everything the tests and the demo need around the engine: real servers, the Doris simulator,
//! faults, workloads.

#![allow(
    clippy::exhaustive_enums,
    reason = "this package is never published, and its tests match on its enums to the last variant"
)]

pub mod demo;
pub mod doris;
pub mod engine;
pub mod guard;
pub mod lab;
pub mod oracle;
pub mod paths;
pub mod proxy;
pub mod rig;
pub mod server;
pub mod source;
pub mod workload;
