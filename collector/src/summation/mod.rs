//! The summation service: [`exports`] stands in front of `rsum.h`, and [`observer`] is what the engine knows as the watcher of
//! `rsum_observer.h`. Which calls are open and what the engine's words mean is known to a library of its own, which
//! [`watcher`] opens where a group is made; here is what that one cannot have:
//!
//! * [`group`]: the communicator that carries the group
//! * [`records`]: records of its calls

mod exports;
pub(crate) mod group;
mod observer;
mod records;
pub(crate) mod watcher;
