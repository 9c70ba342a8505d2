//! What the rows of a log say: replayed they are the server's tables, and value by value what the server's tool lists.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::let_underscore_must_use,
    clippy::panic,
    clippy::print_stdout,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod allocations;
mod bugs;
#[path = "../common/mod.rs"]
mod common;
mod final_state;
mod mariadb;
mod partial_json;
