//! The summation service, as it is called ([`exports`] stands in front of `rsum.h`) and as its engine tells of it
//! ([`observer`] is the watcher of `rsum_observer.h`, whose structures [`layout`] has).
//!
//! A process is in one group at a time, and the group's own thread tells of it: [`area`] has one writer. Callers are any
//! threads: [`calls`] is a table without locks.

pub(crate) mod area;
pub(crate) mod calls;
mod exports;
pub(crate) mod group;
mod layout;
mod observer;
