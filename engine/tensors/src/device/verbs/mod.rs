//! The device of a peer that RDMA reaches: a write or read is one work request of the NIC, in which neither processor takes
//! part once it is posted. Memory is registered once; nothing is allocated per transfer.
//!
//! Addresses of registered memory, and the end of either process, travel over a TCP connection beside the queue pair.

mod config;
mod connect;
mod device;
mod fence;
mod frame;
mod theirs;
mod unknown;

pub use config::Settings;
pub use connect::connect;
pub use device::Verbs;
