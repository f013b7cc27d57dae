//! NCCL's profiler plugin interface, versions 1 to 7: events, their layouts, the loader, and what is told when, by whom.

pub(crate) mod emit;
pub(crate) mod event;
pub(crate) mod layout;
pub(crate) mod load;
pub(crate) mod plugin;
pub(crate) mod progress;
pub(crate) mod teller;
