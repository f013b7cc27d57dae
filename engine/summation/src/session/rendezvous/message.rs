//! What is said at the rendezvous.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::run::members::{Members, Role};
use crate::run::nics::Nic;
use crate::server::sums::Mode;
use rsccl_collective::net::hello::PROTOCOL;

/// What is said here, beside the protocol of the connections: every change of it counts one up.
const VERSION: u32 = 4;

/// To a process that comes for a job which has ended.
pub(super) const ANOTHER: &str = "another job meets there by now";

/// To a process that was silent for so long that the others have gone on without it.
pub(super) const FORSAKEN: &str = "the others have gone on without it, since it did not answer";

/// What both sides must have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Protocol {
    rendezvous: u32,
    connections: u8,
}

impl Protocol {
    /// This library's.
    pub(in crate::session) const OURS: Self = Self { rendezvous: VERSION, connections: PROTOCOL };
}

impl std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.rendezvous, self.connections)
    }
}

/// What a process says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seat {
    /// The number that a worker wishes; none for a server.
    pub(crate) worker: Option<usize>,
    /// How many workers it was told, if it was.
    pub(crate) n_workers: Option<usize>,
    /// How many servers it was told, if it was.
    pub(crate) n_servers: Option<usize>,
    /// Its host's name.
    pub(crate) host: String,
    /// Workers with the same one are on one host.
    pub(crate) host_id: String,
    /// Its process there.
    pub(crate) pid: u32,
    /// What it knows of its machine's NIC.
    pub(crate) nic: Nic,
    /// A worker's: whether the others may go on after a loss.
    pub(crate) continues: bool,
    /// What is to be done with contributions; none: as the workers say.
    pub(crate) mode: Option<Mode>,
    /// Where a worker gives the rendezvous if it is the next one to do so; of a server, where it shows that it lives.
    /// None: a loss ends the job.
    pub(crate) door: Option<SocketAddr>,
}

impl Seat {
    /// Whether the job may go on after the loss of its rendezvous. A server does not know that of a job before.
    pub(super) fn needs_door(&self) -> bool {
        self.continues || self.worker.is_none()
    }

    /// Whether both are the same process of a job.
    pub(super) fn is_same_process(&self, other: &Self) -> bool {
        (&self.host, self.pid, self.door) == (&other.host, other.pid, other.door)
    }
}

impl std::fmt::Display for Seat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.worker {
            Some(worker) => write!(f, "worker {worker} ({}, process {})", self.host, self.pid),
            None => write!(f, "a server ({}, process {})", self.host, self.pid),
        }
    }
}

/// The group that a process wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wanted {
    /// None: those that are left.
    pub(crate) n_workers: Option<usize>,
    /// The same of servers.
    pub(crate) n_servers: Option<usize>,
    /// The rank of the last group through whose loss it ended.
    pub(crate) lost: Option<usize>,
    /// Whether fewer servers will do, if there are not so many.
    pub(crate) takes_fewer: bool,
}

/// A group that begins, for one of its processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Membership {
    /// The same for all groups of a job.
    pub(crate) session: u64,
    /// How often the members have changed.
    pub(crate) epoch: u32,
    /// Of a fresh communicator.
    pub(crate) id: Vec<u8>,
    /// This process's.
    pub(crate) rank: usize,
    /// How many of its ranks are workers. They come first.
    pub(crate) n_workers: usize,
    /// By rank.
    pub(crate) seats: Vec<Seat>,
    /// Which of them gives the rendezvous; none: a process that is in no group.
    pub(crate) root: Option<usize>,
}

impl Membership {
    /// Who is who.
    pub(crate) fn members(&self) -> Members {
        Members { n_workers: self.n_workers, n_servers: self.seats.len().saturating_sub(self.n_workers) }
    }

    /// This process's.
    pub(crate) fn role(&self) -> Role {
        match self.rank.checked_sub(self.n_workers) {
            None => Role::Worker(self.rank),
            Some(server) => Role::Server(server),
        }
    }

    /// Number of this worker on its host, and of workers there.
    pub(crate) fn local(&self) -> (usize, usize) {
        let own = self.seats.get(self.rank).map(|seat| &seat.host_id);
        let workers = self.seats.iter().take(self.n_workers).enumerate();
        let here: Vec<usize> =
            workers.filter(|(_, seat)| Some(&seat.host_id) == own).map(|(rank, _)| rank).collect();
        (here.iter().take_while(|rank| **rank < self.rank).count(), here.len())
    }

    /// What each rank knows of its machine's NIC, and what was measured before, by host id.
    pub(crate) fn nics(&self, measured: &BTreeMap<String, u32>) -> Vec<Nic> {
        let nic = |seat: &Seat| Nic { measured: measured.get(&seat.host_id).copied(), ..seat.nic };
        self.seats.iter().map(nic).collect()
    }

    /// What is done with contributions.
    pub(crate) fn mode(&self) -> Mode {
        self.seats.iter().find_map(|seat| seat.mode).unwrap_or_default()
    }

    /// Whether the others may go on after a loss.
    pub(crate) fn continues(&self) -> bool {
        self.seats.iter().take(self.n_workers).all(|seat| seat.continues)
    }
}

/// What the root says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FromRoot {
    /// Show that you know the secret.
    Challenge {
        /// What the root speaks.
        protocol: Protocol,
        /// Made up for this caller.
        nonce: String,
    },
    /// You do, and so do I.
    Welcome {
        /// The root's.
        proof: String,
    },
    /// You are not let in, or there will be no group.
    Refused {
        /// Who and what is wrong.
        why: String,
    },
    /// A process was lost while this one only wanted other servers: it is to ask again, knowing that.
    Overruled,
    /// A group begins.
    Membership(Box<Membership>),
    /// There will be no more groups.
    Over {
        /// The process whose loss was the end, if one was.
        lost: Option<String>,
    },
}

/// What a process says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ToRoot {
    /// First of all.
    Hello {
        /// What it speaks.
        protocol: Protocol,
        /// Made up for this root.
        nonce: String,
        /// That it knows the secret.
        proof: String,
        /// Who it is.
        seat: Box<Seat>,
        /// The job that it comes for, where it knows that.
        session: Option<u64>,
        /// Of the last group that it was in.
        epoch: Option<u32>,
    },
    /// It wants to be in a group.
    Ready(Wanted),
    /// It will be in no more groups.
    Leave,
    /// A server: the same, unless the next group has begun with it.
    Withdraw,
    /// The root did not answer in its group: the others meet elsewhere from now on.
    GoneOn,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn membership(hosts: &[&str]) -> Membership {
        let seat = |host: &&str| Seat {
            worker: None,
            n_workers: None,
            n_servers: None,
            host: (*host).to_owned(),
            host_id: (*host).to_owned(),
            pid: 7,
            nic: Nic::default(),
            continues: true,
            mode: None,
            door: None,
        };
        let seats = hosts.iter().map(seat).collect();
        Membership { session: 1, epoch: 0, id: Vec::new(), rank: 2, n_workers: 3, seats, root: None }
    }

    #[test]
    fn workers_count_by_host() {
        let all = membership(&["a", "b", "a", "a", "c"]);
        assert_eq!((all.local(), all.role()), ((1, 2), Role::Worker(2)));
    }
}
