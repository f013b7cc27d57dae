//! Running operations: jobs over connections, the loop that drives them, streams and groups.

pub(crate) mod affinity;
pub mod backoff;
pub(crate) mod drive;
pub(crate) mod engine;
pub(crate) mod flat;
pub(crate) mod group;
pub(crate) mod inits;
pub(crate) mod job;
pub(crate) mod sink;
pub(crate) mod source;
pub(crate) mod stream;
pub(crate) mod trace;
mod trouble;
