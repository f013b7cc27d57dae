//! Registered memory: runs of bytes that a peer may write and read, and how they are divided.

pub mod arena;
mod available;
mod gpu;
pub(crate) mod map;
mod region;

pub use gpu::GpuMemory;
pub use region::{Address, PAGE_BYTES, Part, Region};
