//! Sockets between hosts, and inside one where shared memory is switched off.
//!
//! A connection is one socket, or several if `RSCCL_NSOCKS` says so; data flow one way, from the rank that called. Parts
//! follow each other as header and payload, large ones in stripes over all sockets. The kernel's buffers are the only
//! queue: a part is released once the kernel has its last byte.

pub(crate) mod connect;
pub(crate) mod recv;
pub(crate) mod send;
mod stripes;

#[cfg(test)]
mod tests;
