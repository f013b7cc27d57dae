//! `libringscope.so` in C programs against a stub of the collective library, as a job would have it.
//!
//! * [`harness`]: builds the programs, runs one scenario of `c/scenarios.c`, reads the segments it left
//! * [`calls`]: the order of calls, calls by peer, what a process waits in, errors
//! * [`operations`]: what is counted and recorded
//! * [`lifetimes`]: communicators, forks, deaths
//! * [`events`]: completion by CUDA events and captured calls, on a stub of the driver
//! * [`times`]: when the device begins and ends operations, by CUDA events on the same stub
//! * [`levels`]: the profiler or the events, as the level has it
//! * [`versions`]: every version of the profiler interface
//! * [`newer`]: what came to the API later, and several copies of the library
//! * [`loading`]: what is preloaded loads everywhere and opens the library where it can
//! * [`guest`]: what it must never do
//! * [`ranks`]: several ranks in one process
//! * [`real`]: the same with NVIDIA's library, which has no GPU here
//! * [`segment`]: the segment's file and its lock
//! * [`symbols`]: which functions it stands in front of

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod calls;
mod events;
mod guest;
mod harness;
mod levels;
mod lifetimes;
mod loading;
mod newer;
mod operations;
mod ranks;
mod real;
mod segment;
mod summation;
mod symbols;
mod times;
mod versions;
