//! What tests of several crates are given: clusters as their agents tell of them, and objects of the API. No crate but in
//! its tests depends on it.

#![expect(missing_docs, reason = "read where it is used: the names say what a sample is")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod any;
pub mod cluster;
pub mod objects;
pub mod summing;
