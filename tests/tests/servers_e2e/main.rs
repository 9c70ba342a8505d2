//! The engine on every server: a snapshot under writers, the stream, kills, recovery, and commits that the log has before
//! anybody sees them; each change exactly once.

mod exact;
mod races;
#[allow(dead_code, reason = "shared with the tests of hooks, which need more of it")]
#[path = "../hooks/script.rs"]
mod script;
mod stops;
