//! Messages over TCP with serialisation: what one-sided access is compared with, and a device where there is no other.
//!
//! A write is a message: its bytes are copied behind a header into a buffer, go through both kernels, and are copied from a
//! buffer into their place. The peer's program has to take part: its [`Device::poll`](crate::device::Device::poll) puts
//! down what has come.

mod connect;
mod device;
mod frame;
mod incoming;
mod outgoing;

pub use connect::connect;
pub use device::Tcp;
