//! What is said between a pool's broker, its servers, jobs and operators.

use serde::{Deserialize, Serialize};

use super::super::rendezvous::message::Protocol;

/// Which job: names may be given twice, and again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct JobId {
    /// What people call it.
    pub(crate) name: String,
    /// Its rendezvous' number of it, another one each time that it is started. It stays when the rendezvous is lost.
    pub(crate) session: u64,
}

impl std::fmt::Display for JobId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}#{:08x}", self.name, self.session >> 32)
    }
}

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Who {
    /// A server, to be lent.
    Server {
        /// Its host's name.
        host: String,
        /// Its process there.
        pid: u32,
        /// What it is at.
        at: At,
        /// The job that it serves already.
        job: Option<JobId>,
    },
    /// A job's worker 0.
    Job {
        /// Which.
        id: JobId,
        /// Where its processes meet.
        roots: Vec<String>,
        /// Servers that it wants at most.
        most: usize,
        /// Servers that it has.
        has: usize,
        /// How many an operator has said that it is to have, as it was told last.
        pinned: Option<usize>,
    },
    /// A person.
    Operator,
}

/// What a server is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum At {
    /// In no job.
    Free,
    /// On its way to a job's rendezvous.
    Called,
    /// At a job's rendezvous, for a group.
    Waiting,
    /// In a group.
    Group,
}

/// What is said to the broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ToBroker {
    /// First of all.
    Hello {
        /// What it speaks.
        protocol: Protocol,
        /// Made up for this broker.
        nonce: String,
        /// That it knows the secret.
        proof: String,
        /// Who it is.
        who: Who,
    },
    /// Of a server.
    At {
        /// What it is at.
        at: At,
        /// The job that it serves, or, where it is free, that it has left just now.
        job: Option<JobId>,
    },
    /// Of a job: servers of its group, which has just begun.
    Has(usize),
    /// Of an operator.
    List,
    /// The same: this job is to have so many servers; none: as the pool deals them.
    Lend {
        /// Its name, or what tells it from others of that name.
        job: String,
        /// Servers.
        servers: Option<usize>,
    },
}

/// What the broker says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum FromBroker {
    /// Show that you know the secret.
    Challenge {
        /// What the broker speaks.
        protocol: Protocol,
        /// Made up for this caller.
        nonce: String,
    },
    /// You do, and so do I.
    Welcome {
        /// The broker's.
        proof: String,
    },
    /// You are not let in, or what you ask makes no sense.
    Refused {
        /// What is wrong.
        why: String,
    },
    /// To a server.
    Order(Order),
    /// To a job.
    Servers(Lending),
    /// To an operator.
    Listing(Listing),
}

/// What a job is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lending {
    /// Servers that wait for it, or sum with it.
    pub(crate) there: usize,
    /// How many an operator has said that it is to have: to be told to a broker that has forgotten it.
    pub(crate) pinned: Option<usize>,
}

/// What a server is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Serve this job.
    Serve {
        /// Which.
        job: JobId,
        /// Where its processes meet.
        roots: Vec<String>,
    },
    /// Leave it.
    Release,
}

/// All that a pool has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listing {
    /// By name.
    pub(crate) jobs: Vec<ListedJob>,
    /// In the order in which they came: name, and the job that each serves.
    pub(crate) servers: Vec<(String, Option<String>)>,
}

/// A job of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ListedJob {
    /// Its name; of several with one name also what tells them apart.
    pub(crate) name: String,
    /// Servers that it wants at most.
    pub(crate) most: usize,
    /// Servers that it is to have.
    pub(crate) share: usize,
    /// Servers that are lent to it.
    pub(crate) lent: usize,
    /// Servers that its present group has.
    pub(crate) has: usize,
    /// Whether an operator has said its share.
    pub(crate) pinned: bool,
}
