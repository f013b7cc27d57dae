//! The device of a process on the same host. Its registered memory is mapped here, so a write is one copy into it whose
//! last word is stored last, by a releasing store; neither a system call nor the peer's program takes part.
//!
//! Descriptors of the memory travel over a unix socket, which is also how each end notices that the other one is gone.

mod connect;
mod device;
mod frame;

pub use connect::connect;
pub use device::Local;
