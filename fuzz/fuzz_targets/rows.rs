//! Row images under any schema.
#![no_main]

#[path = "../../crates/binlog/tests/fuzz/rows.rs"]
mod rows;
#[path = "../../crates/binlog/tests/fuzz/touch.rs"]
mod touch;

libfuzzer_sys::fuzz_target!(|data: &[u8]| rows::run(data));
