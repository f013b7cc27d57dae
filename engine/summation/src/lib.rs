//! The summation service: n workers push the parts of their gradients, services on workers and on machines of their own
//! add them up, and every worker pulls the sums.
//!
//! A map: [`tensor`] says what is summed and in which parts; [`placement`] which service sums which part;
//! [`worker`] when a worker sends what to whom; [`server`] adds up, round by round; [`codec`] makes gradients smaller on
//! the wire. None of these does I/O: `run` moves the bytes, `gpu` those that lie in a GPU's memory before and after, and
//! [`session`] makes the groups.
//!
//! Source: Jiang et al., "A unified architecture for accelerating distributed DNN training in heterogeneous GPU/CPU
//! clusters" (BytePS), OSDI 2020.

pub mod api;
#[doc(hidden)]
pub mod bench;
pub mod codec;
pub(crate) mod config;
pub(crate) mod gpu;
mod options;
mod pieces;
pub mod placement;
pub(crate) mod run;
pub mod server;
pub mod session;
pub mod tensor;
pub mod worker;

#[doc(hidden)]
pub use run::trial;
