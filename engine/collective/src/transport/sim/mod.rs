//! A connection inside one process, for tests of whatever drives transports: bounded, late at random, and lost on demand.
//!
//! Every call may do nothing or move only some bytes; a seed decides, so a failure can be repeated. An end is
//! woken when there is something for it to do, though its next calls may do nothing yet. Payload is copied, so a part is released once it is through.

mod connect;
mod pipe;
mod recv;
mod send;
mod tests;

pub(crate) use connect::connect;
pub(crate) use pipe::Terms;
pub(crate) use recv::Receiver;
pub(crate) use send::Sender;
