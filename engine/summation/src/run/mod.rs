//! A group at work: the bytes of pushes and pulls between the processes of a job.
//!
//! A group is one communicator of n workers and k servers, used for nothing else: rendezvous, connections, the death of a
//! peer and aborts are the communicator's. Each process has one thread, the [`driver`]. On it run the [`serving`] side,
//! which is there in every process, and, in workers, the [`contributing`] side; what they own of each other's process they
//! exchange without a connection; [`pool`] has the threads that add, encode and decode. [`wire`] has the messages, [`line`] the connections,
//! [`agree`] the agreement about declarations before the first push, [`terms`] what follows from it, [`urgency`] what goes
//! first, [`coding`] what is sent in fewer bytes, [`requests`] what callers and the driver tell each other, [`report`] what
//! the driver says when it is asked by a [`probe`], [`members`] who is who, [`observe`] what a watcher is told, [`patience`] who is late;
//! [`measure`] finds out what NICs carry, [`nics`] has what is known of them; [`timeline`] when each part was where; [`trial`] is a process of a group for experiments.
//!
//! Payloads are read from and written to the callers' buffers. Sums are the same in bits on all workers and in every run.
//!
//! Workers submit in any orders, and the most urgent parts go first, on the way there, in the additions and on the way back.
//! Credits bound what is on its way to each service and back, so that workers go through their parts together; where workers
//! began different parts, and so wait for each other, bounds are widened after a while. Services take in whatever comes, and
//! what they keep is bounded by two rounds of each part. Two rounds of one tensor are never under way at once.
//!
//! A group may sum asynchronously instead: services then are stores, and nobody waits for a round of the others.
//!
//! The loss of a rank ends the group; [`crate::session`] goes on with another one. Ranks of one process, which only a [`trial`] has,
//! read each other's frames of 32 KiB and more in place: after a failure one may still read a buffer that the other's caller has
//! back.

mod agree;
pub(crate) mod coding;
mod contributing;
mod driver;
pub(crate) mod group;
mod line;
mod measure;
pub(crate) mod members;
pub(crate) mod nics;
pub(super) mod observe;
mod patience;
mod pool;
pub(crate) mod probe;
pub(crate) mod promise;
pub(crate) mod report;
mod requests;
mod serving;
mod terms;
#[cfg(test)]
mod tests;
mod timeline;
pub mod trial;
mod urgency;
mod wire;
