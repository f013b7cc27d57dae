//! The library's profiler plugin, and what its events mean.
//!
//! * [`plugin`]: the tables by which the library finds it, and the functions behind them; [`versions`], [`layout`], [`event`]:
//!   what the versions of the interface say, and what they have in common
//! * [`asked`], [`masks`]: what the library is asked to tell, and where it keeps that
//! * [`contexts`], [`adopt`]: the communicators that it speaks of, and which of ours they are
//! * [`tasks`]: what the collector makes of events; [`seen`]: records of what no call has told; [`replay`]: runs of captured
//!   calls; [`steps`]: network steps; [`lost`]: what cannot be followed
//! * [`chain`], [`retell`], [`pairs`]: the plugin that the program had before, and what it is told

pub(crate) mod adopt;
pub(crate) mod asked;
pub(crate) mod chain;
pub(crate) mod contexts;
pub(crate) mod event;
pub(crate) mod layout;
mod lost;
mod masks;
mod pairs;
pub(crate) mod plugin;
pub(crate) mod replay;
mod retell;
pub(crate) mod seen;
pub(crate) mod steps;
mod tasks;
mod versions;
