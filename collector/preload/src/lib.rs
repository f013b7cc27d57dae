//! `libringscope_preload.so`, what `LD_PRELOAD` names: it loads into every program, and opens the collector at the first
//! call of NCCL. It is C (`preload.c`), built by `build.rs`: no runtime of Rust's may come along.

/// The object as this build made it. A copy lies beside the other libraries of the build.
pub const OBJECT: &str = concat!(env!("OUT_DIR"), "/libringscope_preload.so");
