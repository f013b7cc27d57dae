//! A connection inside one process, for tests of whatever drives transports: bounded, late at random, and lost on demand.
//!
//! Every call may do nothing or move only some bytes; a seed decides, so a failure can be repeated. Nothing is woken:
//! whoever drives it polls. Payload is copied, so a part is released once it is through.

mod connect;
mod recv;
mod send;
mod tests;

pub(crate) use connect::{Terms, connect};
