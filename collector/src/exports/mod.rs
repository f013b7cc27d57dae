//! The functions of `nccl.h` that stand in front of the library's own.
//!
//! * [`operations`]: collectives, sends and receives
//! * [`comm_init`] and [`lifecycle`]: communicators, groups and registered memory
//! * [`nonblocking`]: communicators whose init goes on after its call has returned

mod comm_init;
mod lifecycle;
pub(crate) mod nonblocking;
mod operations;
