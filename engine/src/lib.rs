//! `librsccl.so`: the collective library and the summation service that is built on it, with the C API of both.
//!
//! A map: `rsccl_collective` (`collective/`) is NCCL's C API over host memory; [`summation`] (`summation/`) the service, which
//! knows the collective library and is not known to it. The exported C functions of both come with the crates. What is
//! named here is for the examples and measurements beside this crate.

#[doc(hidden)]
pub use rsccl_collective::kernel_bench;
pub use rsccl_collective::sim;
pub use rsum as summation;
