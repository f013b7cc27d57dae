//! Connections between hosts over a network plugin: a library with NCCL's network interface, such as
//! `libnccl-net-ringscope.so` for RDMA.
//!
//! The sockets that a connection over TCP would use are made all the same: the receiver's handle travels over the first of them,
//! and its end tells that the other process is gone, which a network need not. Parts are cut into messages of one slot each; both
//! ends have as many slots, registered once, and the receiver always has all free ones posted.

pub(crate) mod connect;
pub(crate) mod load;
pub(crate) mod network;
pub(crate) mod recv;
pub(crate) mod send;
mod staging;
