//! The functions of `nccl.h` that stand in front of the library's own.
//!
//! * [`operations`]: collectives, sends and receives
//! * [`groups`], [`memory`]: what brackets them, and registered memory
//! * [`comm_init`], [`lifecycle`]: communicators made and ended; [`making`]: what the call that makes one says of it
//! * [`nonblocking`]: communicators whose init goes on after its call has returned
//! * [`rank_groups`]: what the hook in a program's framework says, no function of the library's
//! * [`forward`], [`called`], [`describe`]: what the wrappers share

mod called;
mod comm_init;
mod describe;
mod forward;
mod groups;
mod lifecycle;
mod making;
mod memory;
pub(crate) mod nonblocking;
mod operations;
mod rank_groups;
