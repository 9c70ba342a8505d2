//! What an OK packet says has changed in the session.
#![no_main]

#[path = "../../crates/wire/tests/fuzz/mod.rs"]
#[allow(dead_code, reason = "the bodies of all targets")]
mod fuzz;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::session_track::run(data));
