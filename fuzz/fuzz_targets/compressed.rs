//! Frames of the compressed protocol.
#![no_main]

#[path = "../../crates/wire/tests/fuzz/mod.rs"]
#[allow(dead_code, reason = "the bodies of all targets")]
mod fuzz;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::compressed::run(data));
