//! `libringscope.so` as nothing but a profiler plugin: C programs speak each version of the interface to it.
//!
//! * [`harness`]: builds the programs, runs a scenario, reads what it left
//! * [`alone`]: what is known without the preloaded functions
//! * [`chained`]: the plugin that the program had configured
//! * [`copies`]: several copies of the library
//! * [`disorder`]: events that should not come

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod alone;
mod chained;
mod copies;
mod disorder;
mod harness;
