//! A pool of servers that are lent to jobs and taken back while these run.
//!
//! ```text
//! broker                        server            job (its worker 0)        operator
//! challenge                 ──►
//!                           ◄── hello             hello                     hello            as at the rendezvous
//! welcome | refused         ──►
//! serve {job, roots}        ──► joins there
//!                           ◄── at {waiting, in a group, free; job}
//! servers {k, pinned}       ──►                   changes its members at its next step
//!                                             ◄── has {k}
//! release                   ──► leaves, unless it is in a group
//!                                                                       ◄── list, lend {job, k}
//! ```
//!
//! Nobody waits for a server that is not there: a job is told of so many as wait for it. Nobody loses one that it sums with:
//! who is taken back is asked once the job has its smaller group, and a server in a group does not leave it.
//!
//! A job is known by its name and its rendezvous' number of it, so one that is started again, or another one of that name, is
//! not taken for it: a server that comes for the one is refused at the other's rendezvous.
//!
//! The broker keeps nothing on disk. After a restart servers say which job they serve, and jobs how many servers they have and
//! what an operator had said; all workers of a job know that, since any of them may become worker 0. [`book`]
//! decides, without I/O, who serves whom; [`broker`] listens; [`line`] is the others' way to it; [`lent`] a server's life;
//! [`job`] what a job hears; [`operator`] what a person asks.

mod book;
pub mod broker;
pub(crate) mod job;
pub(crate) mod lent;
mod line;
pub(crate) mod message;
pub mod operator;
