//! Framing, classification, greeting, login, result sets and dump packets of a hostile server.
#![no_main]

#[path = "../../crates/wire/tests/hostile/packets.rs"]
mod packets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| packets::run(data));
