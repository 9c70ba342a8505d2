//! Differences applied to JSON documents.
#![no_main]

#[path = "../../crates/binlog/tests/fuzz/mod.rs"]
#[allow(dead_code, reason = "the bodies of all targets")]
mod fuzz;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::json_diff::run(data));
