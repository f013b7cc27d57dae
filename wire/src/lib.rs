//! The two formats everything meets in: the shared-memory [`segment`] that a process leaves its facts in, and the
//! protobuf [`batch`]es that an agent sends. Pure: no I/O, no clock, no async.

#[cfg(feature = "batch")]
pub mod batch;
pub mod comm_hash;
pub mod launch;
pub mod primitive;
pub mod segment;
pub mod settings;
pub mod watcher;

pub use primitive::{Datatype, Primitive};
