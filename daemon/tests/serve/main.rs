//! The daemon as its users meet it: over HTTP, with real databases.

#![allow(missing_docs, reason = "a test")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by them"
)]

#[path = "../common/mod.rs"]
mod common;

mod access;
mod away;
mod bad_input;
mod claims;
mod durability;
mod endpoints;
mod filters;
mod first_release;
mod goodbye;
mod hardware;
mod incidents;
mod leaks;
mod leaving;
mod levels;
mod limits;
mod metrics;
mod moved_history;
mod names;
mod notify;
mod pace;
mod past;
mod releases;
mod restarts;
mod rollups;
mod several;
mod shares;
mod standby;
mod stores;
mod summation;
mod summation_history;
mod tenants;
mod upgrades;
