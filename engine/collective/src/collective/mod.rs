//! Algorithms as pure schedules, one file each, and the plans that they are compiled into.

pub(crate) mod algorithm;
pub(crate) mod bytes;
pub(crate) mod catalog;
pub(crate) mod choose;
pub(crate) mod direct;
pub(crate) mod doubling;
pub(crate) mod fixed_tree;
pub(crate) mod halving_doubling;
pub(crate) mod hazards;
pub(crate) mod hierarchical;
#[cfg(test)]
mod interpreter;
pub(crate) mod layout;
pub(crate) mod nccl;
pub(crate) mod operation;
pub(crate) mod partition;
pub(crate) mod plan;
pub(crate) mod primitive;
pub(crate) mod ring;
pub(crate) mod schedule;
pub(crate) mod tree;
#[cfg(test)]
mod world_strategy;
