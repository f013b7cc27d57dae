//! The summation service, as its engine tells of it (`rsum_observer.h`) and as it is called (`rsum.h`).
//!
//! A process is in one group at a time, and the group's own thread tells of it: [`area`] has one writer. Callers are any
//! threads: [`calls`] is a table without locks.

pub(crate) mod area;
pub(crate) mod calls;
pub(crate) mod group;
