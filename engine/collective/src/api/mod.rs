//! NCCL's C API, each function as `ncclX` and `pncclX`. Every function catches panics; every pointer is checked for NULL;
//! enums come in as `c_int`.

pub mod collectives;
pub mod comms;
pub mod config;
pub mod fence;
pub mod info;
pub mod members;
pub mod memory;
pub mod operators;
pub(crate) mod place;
pub mod simulation;
pub mod streams;
pub mod virtual_ranks;
