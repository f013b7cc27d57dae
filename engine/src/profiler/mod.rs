//! NCCL's profiler plugin interface, versions 5 and 6 (NCCL 2.28 to 2.30): the layouts, the loader, and what is told when.

pub(crate) mod abi;
pub(crate) mod emit;
pub(crate) mod plugin;
