//! What a summation service does with pushes and pulls; sockets, threads and clocks are its driver's.
//!
//! [`service`] holds the rounds of the keys that a service owns; [`asynchronous`] the store of asynchronous training;
//! [`sums`] is either, the same for all keys of a group; [`tier`] says who adds sums of sums, and [`partials`] what a
//! service does with them.
//! Both refuse what does not fit ([`refusal`]), and a refusal changes nothing. A service runs on one thread; its
//! [`addition`]s may run on others meanwhile.

mod account;
pub mod addition;
pub mod asynchronous;
pub(crate) mod buffers;
pub mod coded;
pub mod fingerprint;
mod keys;
mod members;
pub mod message;
pub mod part;
mod partials;
pub mod reduction;
pub mod refusal;
mod rounds;
pub mod service;
pub mod sums;
#[cfg(test)]
mod tests;
pub mod tier;

pub use rsccl_collective::types::DataType;
