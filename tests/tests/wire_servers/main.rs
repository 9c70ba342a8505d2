//! The wire client against every server that the harness can start: `shared_of(flavor)` for each of `Flavor::ALL`.
//!
//! Tests run beside each other on the shared servers: each uses users and databases of its own, named after itself.

mod auth;
mod dump;
mod query;
mod tls;
mod tool;
