//! A communicator: its ranks, rings and connections, and the handle that the API knows it by.

pub(crate) mod choice;
mod communicator;
mod described;
mod ending;
mod estimate;
pub(crate) mod exit;
pub mod init;
pub mod links;
pub mod member;
mod nccl;
pub(crate) mod operators;
pub mod pending;
pub(crate) mod plans;
pub mod registry;
pub(crate) mod rendezvous;
pub(crate) mod shrink;
mod spans;
pub(crate) mod split;
pub(crate) mod turns;
pub(crate) mod wiring;

use communicator::Counters;
pub use communicator::{Comm, CommConfig};
