//! A group at work: the bytes of pushes and pulls between the processes of a job.
//!
//! A group is one communicator of n workers and k servers, used for nothing else: rendezvous, connections, the death of a
//! peer and aborts are the communicator's. Each process has one thread, the [`driver`]. On it run the [`serving`] side,
//! which is there in every process, and, in workers, the [`contributing`] side; what they own of each other's process they
//! exchange without a connection; [`adders`] are its threads that add. [`wire`] has the messages, [`line`] the
//! connections, [`agree`] the agreement about
//! declarations before the first push, [`terms`] what follows from them, [`requests`] what callers and the driver tell
//! each other, [`report`] what the driver says when it is asked, [`members`] who is who.
//!
//! Payloads are read from and written to the callers' buffers. Sums are the same in bits on all workers and in every run.
//!
//! Workers submit in the same order, and parts begin in it: they hold credits of their service from the push to the end
//! of the pull, so two workers that began with different tensors could wait for each other. For the same reason there is
//! no bound on the bytes in flight over all services together.
//!
//! Not there yet:
//! - NICs of different rates: all count as equal.
//! - Gradients in fewer bytes, and priorities of tensors.
//! - Ranks that are late: the communicator names ranks that die or leave, but for one that does not push, or never
//!   starts, the others wait without end and without an account of it.
//! - Going on without a rank: its loss ends the group.
//! - Ranks of one process read each other's frames of 32 KiB and more in place; after a failure, one may still read a
//!   buffer that the other's caller has back.

mod adders;
mod agree;
mod contributing;
mod driver;
pub(crate) mod group;
mod line;
pub(crate) mod members;
pub(crate) mod report;
mod requests;
mod serving;
mod terms;
#[cfg(test)]
mod tests;
mod wire;
