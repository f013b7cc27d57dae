//! Agent, daemon and command line of ringscope. A map of the rooms; ARCHITECTURE.md tells the way through them.

pub mod agent;
pub mod api;
pub mod clock;
pub mod nccl_log;
