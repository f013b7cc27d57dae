//! Shared memory between the ranks of one host.
//!
//! Nothing here has a name in a file system, so nothing is left behind by a process that is killed. Each rank has one
//! memfd, its arena, and hands it to the others over an abstract unix socket; they map all that it may become and close the
//! descriptor. Ranks of one process need neither: see [`lender`]. What an arena's owner writes, the others read: its head
//! (doorbell, directory of rings, flat slots) and the rings to its peers.
//!
//! How a communicator uses it:
//!
//! 1. before the ranks gather: `connect::Endpoint::new()` listens; `endpoint.announcement()` goes into `PeerInfo`
//!    as `Option<Announcement>` (none where shared memory is switched off);
//! 2. after it: `connect::members(&announcements, &host_hashes, rank)` are the ranks that share memory with this one,
//!    the same on each of them; `connect::join(endpoint, &Plan { .. })` connects to all of them and returns a `Host`;
//! 3. `host.open_send(channel, peer)` and `host.open_recv(channel, peer)` at any time, by either end first and without
//!    the other's help: a receiving end that the sender has not opened yet is idle;
//! 4. whoever drives the communicator sleeps on `host.doorbell()`: `let nap = bell.prepare(mode)`, look again, then
//!    `nap.sleep(fds, timeout)`. Whatever peers fill or free rings it; other threads of this process wake it with a
//!    `bell.ringer()`, which is cheap to clone. One thread at a time may prepare;
//! 5. `host.flat()` exchanges small blocks of all members: `flat.start(header, own)`, then `flat.poll(&header)` until
//!    it is `Progress::Done`; `flat.arrived()` blocks are there, in rank order, and `flat.block(member)` is one of them.

pub(crate) mod arena;
pub(crate) mod available;
pub(crate) mod connect;
pub(crate) mod direct;
pub mod doorbell;
pub(crate) mod flat;
mod greeting;
pub(crate) mod host;
pub(crate) mod ipc_socket;
pub(crate) mod layout;
pub(crate) mod lender;
pub(crate) mod map;
pub(crate) mod peer;
pub(crate) mod recv;
pub(crate) mod region;
pub(crate) mod ring;
pub(crate) mod send;
#[cfg(test)]
mod tests;
mod tuning;
pub(crate) mod unix;

pub(crate) use tuning::Tuning;
