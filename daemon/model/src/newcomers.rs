//! What somebody tells would add to the model, before it is applied: everybody has a share of what there is room for.

use ringscope_wire::batch;

use super::limits::{MAX_COMMUNICATORS, MAX_HOSTS, MAX_JOBS, MAX_PROCESSES};
use super::merge::host_of;
use super::{CommunicatorId, Model, Name, Process};

/// What everybody has a share of.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Bound {
    /// Hosts that have processes, or of which the hardware is known.
    Hosts,
    /// Jobs.
    Jobs,
    /// Processes.
    Processes,
    /// Communicators.
    Communicators,
}

impl Bound {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Hosts, Self::Jobs, Self::Processes, Self::Communicators];

    /// What it counts, in the plural.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Hosts => "hosts",
            Self::Jobs => "jobs",
            Self::Processes => "processes",
            Self::Communicators => "communicators",
        }
    }

    /// How many all may have together.
    #[must_use]
    pub const fn most(self) -> usize {
        match self {
            Self::Hosts => MAX_HOSTS,
            Self::Jobs => MAX_JOBS,
            Self::Processes => MAX_PROCESSES,
            Self::Communicators => MAX_COMMUNICATORS,
        }
    }
}

/// What a process would add.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Newcomers {
    /// Its key is not known.
    pub is_new: bool,
    /// Its job, unless that is known.
    pub job: Option<String>,
    /// Its host, unless that is known.
    pub host: Option<String>,
    /// Its communicators that are not known, with their place in what is told.
    pub communicators: Vec<(usize, CommunicatorId)>,
}

impl Model {
    /// What a process as it is told would add. `agent_host`: where its agent runs.
    #[must_use]
    pub fn newcomers(&self, told: &batch::Process, agent_host: &str) -> Newcomers {
        let known = self.process(&told.key);
        let is_joined = |told: &batch::Communicator| {
            let local = known.and_then(|known| known.locals.get(&told.local_id));
            local.is_some_and(|local| local.joined.is_some())
        };
        let identity = known.and_then(Process::identity);
        if identity.is_some() && told.communicators.iter().all(is_joined) {
            return Newcomers::default();
        }
        let job = match (&told.identity, identity) {
            (_, Some(identity)) => Some(identity.job.to_string()),
            (Some(told), None) => Some(self.job_name(told)),
            (None, None) => None,
        };
        let communicators = told.communicators.iter().enumerate();
        let communicators = communicators.filter(|(_, told)| !is_joined(told)).filter_map(|(at, told)| {
            let id = CommunicatorId::new(job.as_deref()?, told.comm_hash, told.n_ranks);
            (!self.communicators.contains_key(&id)).then_some((at, id))
        });
        let communicators = communicators.collect();
        let host = told.identity.as_ref().map(|identity| host_of(&told.key, identity, agent_host));
        Newcomers {
            is_new: known.is_none(),
            communicators,
            job: job.filter(|job| !self.jobs.contains_key(job.as_str())),
            host: host.filter(|host| !self.is_known_host(host)).map(str::to_owned),
        }
    }

    /// Whether anything is known of a host.
    #[must_use]
    pub fn is_known_host(&self, host: &str) -> bool {
        self.hosts.contains_key(host)
    }

    /// Every process, with its key, in no order.
    pub fn processes(&self) -> impl Iterator<Item = (&Name, &Process)> {
        self.keys.iter().filter_map(|(key, id)| Some((key, self.processes.get(id)?)))
    }
}
