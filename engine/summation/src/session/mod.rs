//! A group as programs use it: its processes meet, sum in generations, change members, and go on after a loss.
//!
//! A map: [`rendezvous`] is where the processes meet and get their numbers; [`worker`] is a worker's place in all groups
//! of its job, with what it has declared; [`handles`] what the C API knows submissions by; [`server`] the life of
//! a process that does nothing but sum, with pauses between [`attempts`] that fail, which [`signals`] end and of which [`health`] and [`status`] tell; [`pool`] lends
//! such processes to jobs; [`accepting`] takes those who call one of these, and [`keepalive`] notices hosts that are gone.

mod accepting;
mod attempts;
pub(crate) mod handles;
mod health;
mod keepalive;
pub mod pool;
pub(crate) mod rendezvous;
pub mod server;
pub mod signals;
mod status;
pub(crate) mod worker;
