//! Described machines (`RSCCL_MACHINE`): what NCCL would find in one, in the faithful mode. Bytes do not move by it; what a
//! watcher is told does.
//!
//! A map: `files` has the machines and reads others, `system` is the graph of a node of one, which `build` makes, `paths` all ways through it,
//! `local` what is nearest to what, `search` the channels, `print` NCCL's lines of these.

mod build;
pub(crate) mod files;
mod local;
mod paths;
pub(crate) mod print;
pub(crate) mod search;
pub(crate) mod system;
#[cfg(test)]
mod tests;
