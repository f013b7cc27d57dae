//! The ring algorithms: schedules as pure data, one file each, and the arithmetic they share.

pub(crate) mod algorithm;
pub(crate) mod all_gather;
pub(crate) mod all_reduce;
pub(crate) mod broadcast;
pub(crate) mod bytes;
pub(crate) mod catalog;
pub(crate) mod choose;
pub(crate) mod direct;
pub(crate) mod fixed_tree;
pub(crate) mod halving_doubling;
pub(crate) mod hazards;
pub(crate) mod hierarchical;
#[cfg(test)]
mod interpreter;
pub(crate) mod layout;
pub(crate) mod operation;
pub(crate) mod partition;
pub(crate) mod plan;
pub(crate) mod program;
pub(crate) mod reduce;
pub(crate) mod reduce_scatter;
pub(crate) mod reduction;
pub(crate) mod ring;
pub(crate) mod schedule;
pub(crate) mod tree;
#[cfg(test)]
mod world_strategy;
