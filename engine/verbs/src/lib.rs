//! RDMA by libibverbs: devices and their ports, registered memory, and reliable queue pairs with one-sided writes and reads.
//!
//! The only crate that speaks verbs. It builds on `rdma-mummy-sys`, whose copy of libibverbs' headers needs no library to link:
//! the machine's own is opened when this is loaded, and where there is none, [`devices`] says so. `sideway`, which is built on
//! the same, allocates with each post and each poll and panics where an object cannot be destroyed; here a transfer is one
//! call with what it needs on the stack, and an end that fails is not the end of the user's job.
//!
//! Nothing here waits, starts a thread or reads the environment.

mod completion;
mod context;
mod error;
mod event;
mod gid;
mod library;
mod memory;
mod port;
mod queue_pair;

pub use completion::{Completion, CompletionQueue, Kind, Status};
pub use context::{Context, Limits, devices};
pub use error::{Error, Result};
pub use event::{About, Event};
pub use gid::{Gid, GidKind};
pub use memory::{Access, Buffer, Domain, Local, Pages, Region, Remote};
pub use port::{LinkLayer, Port};
pub use queue_pair::{Path, QueuePair, Room, Signal, State};
