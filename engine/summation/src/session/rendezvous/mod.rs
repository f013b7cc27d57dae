//! Where the processes of a job meet: one of them listens, and tells the others who is who in each group.
//!
//! ```text
//! root                                     process
//! challenge {protocol, nonce}         ──►
//!                                     ◄──  hello {protocol, nonce, proof, seat}
//! welcome {proof} | refused {why}     ──►
//!                                     ◄──  ready {n, k}                            for every group
//! membership {id, rank, …}            ──►                                          once n workers and k servers are ready
//!                                     ◄──  leave                                   at the end
//! over                                ──►                                          to servers, once all workers have left
//! ```
//!
//! Frames are those of bootstrap ([`rsccl_collective::net::frame`]). The secret is never sent: both show that they know it
//! ([`proof`]). A connection stays open for the whole job, and its end says who died. [`book`] decides, without I/O, who is
//! let in and when a group begins; [`root`] listens; [`meeting`] is a process's side; [`message`] has the messages.
//!
//! Where the job goes on after a loss it goes on after the root's, too: [`caller`] finds the worker with the lowest number
//! of the last group that lives, which listens then, and knows by [`probes`] who else does. Of a group whose members cannot all
//! reach each other one part goes on at most: [`majority`] says which, and why.

mod book;
pub(crate) mod caller;
mod majority;
pub(crate) mod meeting;
pub(crate) mod message;
mod probes;
pub(super) mod proof;
pub(crate) mod root;
