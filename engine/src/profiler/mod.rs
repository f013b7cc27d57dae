//! NCCL's profiler plugin interface, version 5 (NCCL 2.28): the layouts, the loader, and what is told when.

pub(crate) mod abi;
pub(crate) mod emit;
pub(crate) mod plugin;
