//! Described machines (`RSCCL_MACHINE`): what NCCL would find in one, in the faithful mode. Bytes do not move by it; what a
//! watcher is told does.
//!
//! A map: `files` has the machines and reads others, which `check` looks through, `system` is the graph of a node of one, which `build` makes, `paths` all ways through it,
//! `local` what is nearest to what, `search` the channels, `view` all of that for one node. `described` puts
//! a communicator's ranks on their GPUs, `trees` says who is whose parent, `transports` what connects two, `pairs` on which channels
//! they send and receive; `print` has NCCL's lines.

mod build;
mod check;
pub(crate) mod described;
pub(crate) mod files;
mod local;
pub(crate) mod pairs;
mod paths;
pub(crate) mod print;
pub(crate) mod search;
pub(crate) mod system;
#[cfg(test)]
mod tests;
pub(crate) mod transports;
pub(crate) mod trees;
pub(crate) mod view;
