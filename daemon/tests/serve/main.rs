//! The daemon as its users meet it: over HTTP, with real databases.

#![allow(missing_docs, reason = "a test")]

#[path = "../common/mod.rs"]
mod common;

mod bad_input;
mod durability;
mod endpoints;
mod metrics;
mod stores;
