//! What a watcher is told of a group: the interface of `rsum_observer.h`.
//!
//! [`rsum_observer`] has its structures, [`plugin`] finds the watcher and calls it, [`voice`] calls it for one group. [`heard`] counts what a service hears of its
//! workers, [`moved`] what a worker moves, both as it happens and without allocating; [`watch`] tells of the whole, ten
//! times a second while anything is under way, [`comparisons`] is what callers have found out about their parameters. Where nobody watches there is none of them.

mod comparisons;
mod facts;
mod heard;
mod moved;
mod plugin;
#[cfg(test)]
pub(super) mod recorder;
mod voice;
mod watch;

pub(crate) use comparisons::Compared;
pub(super) use facts::Facts;
pub(super) use heard::Heard;
pub(super) use moved::{Ended, Moved};
pub use watch::Event;
pub(crate) use watch::{SAMPLE_NS, Watched};
pub(super) use watch::{Watch, Watching};
