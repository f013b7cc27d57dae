//! `libringscope.so` in C programs against a stub of the collective library, as a job would have it.
//!
//! * [`harness`]: builds the programs, runs one scenario of `c/scenarios.c`, reads the segments it left
//! * [`operations`]: what is counted and recorded
//! * [`lifetimes`]: communicators, forks, deaths
//! * [`guest`]: what it must never do

#![expect(clippy::disallowed_methods, reason = "tests look at their own environment")]

mod guest;
mod harness;
mod lifetimes;
mod operations;
