//! The summation service: n workers push the parts of their gradients, services on workers and on machines of their own
//! add them up, and every worker pulls the sums.
//!
//! A map: [`server`] adds up, round by round; [`codec`] makes gradients smaller on the wire; [`pcie`] chooses how a machine
//! sums its own before they leave. None of it does I/O: what moves the bytes is yet to come.

pub mod codec;
pub mod pcie;
pub mod server;
