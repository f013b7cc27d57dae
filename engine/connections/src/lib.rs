//! What a process with RDMA connections leaves of them in a file, for an agent of another process: each connection with its
//! device, its other end and its queue pairs, what went over it, and how it ended.
//!
//! The file is `<folder>/<pid>-<start time in ticks>.net`, readable by its user alone. Nobody waits for anybody: the owner
//! writes numbers as it counts them, and a reader takes what is whole. It depends on nothing of ours, so the network plugin
//! and an agent may both know it.

pub mod layout;
mod read;
mod write;

pub use read::{Connection, Connections, Counts, Malformed, QueuePair, State, parse};
pub use write::{About, Place, Table};
