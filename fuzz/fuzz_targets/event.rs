//! Events of a hostile source: headers, bodies, table maps, rows, compressed transactions.
#![no_main]

#[path = "../../crates/binlog/tests/fuzz/event.rs"]
mod event;
#[path = "../../crates/binlog/tests/fuzz/touch.rs"]
mod touch;

libfuzzer_sys::fuzz_target!(|data: &[u8]| event::run(data));
