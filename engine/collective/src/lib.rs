//! The collective library: NCCL's C API over host memory. `librsccl.so` is this and the summation service.
//!
//! A map: [`api`] is the C fence; `comm` makes and keeps communicators; `run` queues and drives operations; `collective`
//! has the ring algorithms as pure data; `net` the sockets; `channels` and `topology` NCCL's agreement on rings;
//! [`sim`] runs schedules over a made-up fabric; `profiler` NCCL's plugin
//! interface; `log` NCCL's log lines.
//!
//! Public is what the summation service is built on (memory, transports, errors, the clock, the log, a communicator and its
//! connections), and what the engine's examples measure; all else is the crate's own.

pub mod api;
pub(crate) mod channels;
pub mod clock;
pub(crate) mod collective;
pub mod comm;
pub mod config;
pub mod error;
pub(crate) mod faithful;
pub(crate) mod file;
pub mod fork;
pub mod hash;
pub mod kernels;
pub mod lock;
pub mod log;
pub mod memory;
pub mod net;
pub(crate) mod profiler;
pub(crate) mod recent;
pub mod run;
pub mod sim;
pub(crate) mod topology;
pub mod transport;
pub mod types;
#[cfg(test)]
mod world;

#[doc(hidden)]
pub use kernels::bench as kernel_bench;
