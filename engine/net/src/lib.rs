//! `libnccl-net-ringscope.so`: NCCL's network interface, versions 8 to 11, over RDMA verbs. NCCL loads it by
//! `NCCL_NET_PLUGIN=ringscope`, the engine by `RSCCL_NET=verbs`.
//!
//! A connection goes one way. Who receives tells who sends where there is room, by a small write into the sender's memory; who
//! sends writes the data there, and the last write carries their length, which completes the receive. Nobody's processor moves a
//! byte, no message is answered, and nobody waits in a call. What each connection is and has carried lies in a file for an
//! agent (`ringscope-connections`), where `RINGSCOPE_DIR` names a folder.
//!
//! The order of rooms: `failure`, `config`, `wire` know nobody; `device` and `memory` know verbs; `link` is what both ends have;
//! `rendezvous` makes one; `send`, `receive` and `flush` use it; `exports` is the C fence.

mod area;
mod config;
mod device;
mod exports;
mod failure;
mod flush;
mod interfaces;
mod link;
mod log;
mod memory;
mod receive;
mod rendezvous;
mod requests;
mod send;
mod wire;

pub use exports::{ncclNetPlugin_v8, ncclNetPlugin_v9, ncclNetPlugin_v10, ncclNetPlugin_v11};
