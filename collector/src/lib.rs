//! The collector, `libringscope.so`: a guest in somebody else's training process.
//!
//! `libringscope_preload.so` (`collector/preload`) is preloaded and opens it at the first call, so that its `ncclX` run before
//! the library's; it may be preloaded itself too. The same object is the library's profiler plugin. What it sees it leaves
//! in the process's segment ([`ringscope_wire::segment`]). On the record path it never locks or blocks, allocates nothing but
//! what a thread remembers, at its first call, and calls the system only then, for pages that nothing has had yet, and to wake
//! our one thread where that sleeps;
//! where CUDA events tell completion it calls the driver too. Nowhere does it write output or let a panic reach C.
//!
//! Its layers, each of which knows only those before it:
//!
//! * [`abi`]: what others' C interfaces look like
//! * [`segment`]: the mapping, slots of communicators, records, tables; what a thread remembers
//! * [`calls`]: a call becomes a record and counts, and is closed
//! * [`cuda_events`]: CUDA events close it where the profiler does not tell
//! * [`profiler`]: the library's profiler plugin, what it is asked to tell, and what its events mean
//! * [`exports`]: the functions of `nccl.h`
//! * [`summation`]: the same for the summation service
//! * [`process`]: the segment made, a fork, the exit; it leaves the others what they need of those behind them

mod abi;
mod calls;
mod cuda_events;
mod exports;
mod process;
mod profiler;
mod segment;
mod summation;
