//! The collective engine: NCCL's C API over host memory, as `librsccl.so`.
//!
//! A map: [`api`] is the C fence; `comm` makes and keeps communicators; `run` queues and drives operations; `collective`
//! has the ring algorithms as pure data; `net` the sockets; `channels` and `topology` NCCL's agreement on rings;
//! [`sim`] runs schedules over a made-up fabric; [`summation`] is the summation service; `profiler` NCCL's plugin
//! interface; `log` NCCL's log lines.

pub mod api;
pub(crate) mod channels;
pub(crate) mod clock;
pub(crate) mod collective;
pub(crate) mod comm;
pub(crate) mod config;
pub(crate) mod error;
pub(crate) mod faithful;
pub(crate) mod hash;
pub(crate) mod kernels;
pub(crate) mod log;
pub(crate) mod memory;
pub(crate) mod net;
pub(crate) mod profiler;
pub(crate) mod recent;
pub(crate) mod run;
pub mod sim;
pub mod summation;
pub(crate) mod topology;
pub(crate) mod transport;
pub(crate) mod types;
#[cfg(test)]
mod world;

#[doc(hidden)]
pub use kernels::bench as kernel_bench;
