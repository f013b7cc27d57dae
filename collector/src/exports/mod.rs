//! The functions of `nccl.h` that stand in front of the library's own.
//!
//! * [`operations`]: collectives, sends and receives
//! * [`births`] and [`lifecycle`]: communicators, groups and registered memory
//! * [`later`]: communicators whose init goes on after its call has returned

mod births;
pub(crate) mod later;
mod lifecycle;
mod operations;
