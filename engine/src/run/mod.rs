//! Running operations: pipes over connections, the loop that drives them, streams and groups.

pub(crate) mod group;
pub(crate) mod launch;
pub(crate) mod pipe;
pub(crate) mod source;
pub(crate) mod stream;
