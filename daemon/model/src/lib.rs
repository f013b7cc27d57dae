//! What is known of jobs, hosts, processes and communicators, joined from the batches of all agents.
//!
//! Synchronous, takes `now` as an argument, does no I/O and cannot fail: what does not fit is counted and left out.
//!
//! A communicator is what names the same (job, comm_hash, n_ranks). Facts and counters lie in the processes that told
//! them; the communicator only knows who has which rank. Where a rank is claimed twice there are two communicators of
//! the same hash: see `families`.

mod activity;
mod agents;
mod apply;
mod blind;
mod calls;
mod changes;
mod clocks;
mod communicator;
mod connections;
mod counters;
mod curves;
mod doing;
mod exit;
mod export;
mod facts;
mod families;
mod family;
mod forget;
mod graphs;
mod groups;
mod hardware;
mod history;
mod kernel;
mod last_call;
pub mod limits;
mod lives;
mod losses;
mod merge;
mod names;
mod newcomers;
mod older;
mod pace;
mod places;
mod process;
mod rate;
mod refusals;
pub mod rings;
mod samples;
mod scheduled;
pub mod summation;
mod traffic;
mod users;
mod word;

#[cfg(test)]
mod tests;

pub use rate::real;
pub use ringscope_api::{CommunicatorId, CommunicatorIdError};
pub use ringscope_wire::batch::{ConnectionState, GidKind, QueuePair, QueuePairState};

pub use activity::Activity;
pub use agents::Reading;
pub use calls::{CommError, IN_PROGRESS, Mark, OpenCall, Pair, Sequence};
pub use changes::Changes;
pub use clocks::{ClockBasis, HostClock, HostClocks};
pub use communicator::{Communicator, RankRef};
pub use connections::{Connection, End};
pub use counters::{Counted, Counters, Sent, Totals};
pub use curves::{Curve, OfSize, Timed, alg_factor, bus_factor};
pub use exit::{Exit, ToldToEnd};
pub use facts::{Evidence, Facts, LocalState, Sources};
pub use graphs::{GraphRow, Graphs, TreePlace};
pub use hardware::{ErrorCount, FailedQueuePair, FlowCount, Gid, Gpu, Hardware, Nic, Phase, Port};
pub use history::Completed;
pub use kernel::{Kernel, KernelMessage};
pub use last_call::LastCall;
pub use names::Name;
pub use newcomers::{Bound, Newcomers};
pub use older::OlderIds;
pub use pace::{LongStep, Pace, Point};
pub use places::{Places, Position, Way};
pub use process::{Collector, Identity, Local, Process, ProcessState};
pub use refusals::Refusal;
pub use samples::Sample;
pub use scheduled::Scheduled;
pub use traffic::{Neighbours, Traffic, traffic};

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use ringscope_api as api;
use ringscope_api::clock::Timestamp;
use rustc_hash::FxHashMap;

/// Everything known now.
#[derive(Default)]
pub struct Model {
    names: names::Names,
    ways: places::Ways,
    agents: agents::Agents,
    keys: HashMap<Name, process::ProcessId>,
    /// By ids that we give: nobody can choose them so that they collide.
    processes: FxHashMap<process::ProcessId, Process>,
    newest_process: process::ProcessId,
    communicators: HashMap<CommunicatorId, Communicator>,
    families: families::Families,
    jobs: BTreeMap<Name, Job>,
    hosts: BTreeMap<Name, BTreeSet<process::ProcessId>>,
    /// When the agents of hosts were heard before this daemon started.
    before: BTreeMap<Name, Timestamp>,
    /// Of hosts; each is in `hosts` too.
    hardware: BTreeMap<Name, Hardware>,
    /// What kernels say, by host.
    kernels: BTreeMap<Name, Kernel>,
    /// Of hosts where no process that starts now can be watched.
    blind: BTreeMap<Name, blind::Blind>,
    /// Processes of which a look is remembered, the oldest first.
    looks: VecDeque<process::ProcessId>,
    revision: u64,
    swept: Timestamp,
    losses: losses::Losses,
    refusals: refusals::Refusals,
    history: history::History,
    clocks: clocks::Clocks,
    curves: curves::Curves,
    groups: summation::Groups,
    older: OlderIds,
}

/// All processes that name the same job.
#[derive(Debug, Default)]
pub struct Job {
    /// Whose it is. Absent: not known, as of imported ones.
    user: Option<u32>,
    processes: BTreeSet<process::ProcessId>,
    communicators: BTreeSet<CommunicatorId>,
    /// What was known of processes and communicators that are forgotten.
    forgotten: Forgotten,
}

/// What is still counted of what is forgotten.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "the fields are those of api::Job")]
pub struct Forgotten {
    pub n_processes: u32,
    pub n_killed: u32,
    pub n_communicators: u32,
    pub issued_bytes: u64,
    pub completed_bytes: u64,
}

impl Model {
    /// An empty model.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Every job, by id.
    pub fn jobs(&self) -> impl Iterator<Item = (&Name, &Job)> {
        self.jobs.iter()
    }

    /// A job.
    #[must_use]
    pub fn job(&self, id: &str) -> Option<(&Name, &Job)> {
        self.jobs.get_key_value(id)
    }

    /// Every host, by name, with its processes.
    pub fn hosts(&self) -> impl Iterator<Item = (&Name, impl Iterator<Item = &Process>)> {
        self.hosts.iter().map(|(name, ids)| (name, ids.iter().filter_map(|id| self.processes.get(id))))
    }

    /// The processes of a host. `None`: there is no such host.
    #[must_use]
    pub fn host(&self, name: &str) -> Option<(&Name, impl Iterator<Item = &Process>)> {
        let (name, ids) = self.hosts.get_key_value(name)?;
        Some((name, ids.iter().filter_map(|id| self.processes.get(id))))
    }

    /// Every communicator, in no order.
    pub fn communicators(&self) -> impl Iterator<Item = &Communicator> {
        self.communicators.values()
    }

    /// Every summation group, by id.
    pub fn summations(&self) -> impl Iterator<Item = &summation::Group> {
        self.groups.all()
    }

    /// A summation group.
    #[must_use]
    pub fn summation(&self, id: summation::GroupId) -> Option<&summation::Group> {
        self.groups.get(id)
    }

    /// How many processes are known.
    #[must_use]
    pub fn n_processes(&self) -> usize {
        self.processes.len()
    }

    /// A communicator.
    #[must_use]
    pub fn communicator(&self, id: CommunicatorId) -> Option<&Communicator> {
        self.communicators.get(&id)
    }

    /// The operations of a communicator that completed, as they were told, and how many before them are forgotten.
    pub fn completed(&self, id: CommunicatorId) -> (impl Iterator<Item = &Completed>, u64) {
        self.history.of(id)
    }

    /// How long operations of each size take on a communicator. `None`: not known of any.
    #[must_use]
    pub fn curve(&self, id: CommunicatorId) -> Option<&Curve> {
        self.curves.of(id)
    }

    /// The same of all communicators of which anything is known, in no order.
    pub fn curves(&self) -> impl Iterator<Item = (CommunicatorId, &Curve)> {
        self.curves.all()
    }

    /// The communicators in which a process has a rank.
    pub fn communicators_of<'a>(&'a self, process: &'a Process) -> impl Iterator<Item = &'a Communicator> {
        process.locals.values().filter_map(|local| self.communicators.get(&local.joined?))
    }

    /// When a process was last heard of: for one that lives its agent's word is enough.
    #[must_use]
    pub fn last_heard(&self, process: &Process) -> Timestamp {
        match process.ended {
            Some(ended) => ended,
            None => process.heard.max(self.agents.heard(process.stamp.agent()).unwrap_or_default()),
        }
    }

    /// When its agent spoke last of a process, be it that it said once more what had been taken. Of one of which none has spoken
    /// since this daemon started: since when that is waited for.
    #[must_use]
    pub fn last_spoken(&self, process: &Process) -> Timestamp {
        let spoke = self.agents.spoke(process.stamp.agent()).filter(|_| process.is_living());
        self.last_heard(process).max(spoke.unwrap_or_default())
    }

    /// The same for people: what was heard before this daemon started counts too.
    #[must_use]
    pub fn last_word(&self, process: &Process) -> Timestamp {
        let is_awaited = process.is_living() && self.agent_of(process).is_none();
        let host = process.identity().map(|identity| &*identity.host).filter(|_| is_awaited);
        let before = host.and_then(|host| self.before.get(host).copied());
        before.unwrap_or_else(|| self.last_spoken(process))
    }

    /// When any agent spoke last. `None`: none has since this daemon started.
    #[must_use]
    pub fn any_spoke(&self) -> Option<Timestamp> {
        Some(self.agents.any_spoke()).filter(|at| at.0 > 0)
    }

    /// The newest reading that covers a process: what it had not told of by then had not happened, whether that reading
    /// names it or not. `None`: nobody looks at it any more, or nobody has since this daemon started.
    #[must_use]
    pub fn reading(&self, process: &Process) -> Option<Reading> {
        self.agents.reading(process.stamp.agent())
    }

    /// A time that a process told, by our clock. Of files, and of what nobody has read since this daemon started, as it was
    /// told.
    #[must_use]
    pub fn ours(&self, process: &Process, at: Timestamp) -> Timestamp {
        self.clock_of(process).map_or(at, |reading| reading.ours(at))
    }

    /// A time of our clock by that of a process's host, as [`Model::ours`] takes it.
    #[must_use]
    pub fn theirs(&self, process: &Process, at: Timestamp) -> Timestamp {
        self.clock_of(process).map_or(at, |reading| reading.theirs(at))
    }

    fn clock_of(&self, process: &Process) -> Option<Reading> {
        self.reading(process).filter(|_| process.state != ProcessState::Imported)
    }

    /// Since when nobody watches a process that lives, because its agent was ended in good order. `None`: it is
    /// watched, or nobody said that it is not.
    #[must_use]
    pub fn unwatched_since(&self, process: &Process) -> Option<Timestamp> {
        let ended = self.agents.ended(process.stamp.agent()).or(process.unwatched_since);
        ended.filter(|_| process.is_living())
    }

    /// Whether a process counts itself to another host than that of the agent that looks at it, and to none that shows
    /// hardware of its own: then it is in a container, and its number is the one that it has there.
    #[must_use]
    pub fn is_in_container(&self, process: &Process) -> bool {
        let agent = self.agents.host(process.stamp.agent());
        let is_elsewhere = |host: &Name| **host != *agent && self.hardware_of(host).is_none();
        let host = process.identity().map(|identity| &identity.host);
        process.is_living() && !agent.is_empty() && host.is_some_and(is_elsewhere)
    }

    /// Hosts that somebody looks after now: whose agents, or those that tell of their hardware, speak.
    pub fn looked_after(&self, now: Timestamp) -> impl Iterator<Item = &str> {
        let by_hardware = self.hardware.iter().filter(move |(_, hardware)| hardware.is_fresh(now));
        self.agents.hosts(now, limits::STALE_AFTER).chain(by_hardware.map(|(name, _)| &**name))
    }

    /// Stands for an agent that was heard of.
    #[must_use]
    pub fn agent(&self, agent_id: &str) -> Option<u64> {
        self.agents.number(agent_id)
    }

    /// Stands for the agent that spoke last of a process. `None`: none has since this daemon started.
    #[must_use]
    pub fn agent_of(&self, process: &Process) -> Option<u64> {
        (process.stamp != agents::Stamp::STORE).then(|| process.stamp.agent())
    }

    /// Version of the segments that the agent of a process reads, if it says so.
    #[must_use]
    pub fn segments_read(&self, process: &Process) -> Option<u32> {
        self.agents.reads_segment_version(self.agent_of(process)?)
    }

    /// Processes that live as far as is known, and of which no agent has spoken since this daemon started.
    pub fn n_unheard(&self, job: &str) -> usize {
        let processes = self.jobs.get(job).into_iter().flat_map(|job| job.processes(self));
        processes.filter(|process| process.stamp == agents::Stamp::STORE && process.is_living()).count()
    }

    /// What has become of a process.
    #[must_use]
    pub fn rank_state(&self, process: &Process, now: Timestamp) -> api::RankState {
        communicator::rank_state(process, self.is_silent(process, now, limits::STALE_AFTER))
    }

    /// What the model itself left out, by reason; cumulative.
    #[must_use]
    pub fn dropped(&self) -> api::Dropped {
        self.losses.by_reason()
    }

    /// What all agents said that they lost, by reason; cumulative.
    #[must_use]
    pub fn agents_dropped(&self) -> api::Dropped {
        self.agents.dropped()
    }

    fn is_silent(&self, process: &Process, now: Timestamp, limit: std::time::Duration) -> bool {
        process.is_living() && now.since(self.last_heard(process)) >= limit
    }
}

impl Job {
    /// Its processes.
    pub fn processes<'a>(&'a self, model: &'a Model) -> impl Iterator<Item = &'a Process> {
        self.processes.iter().filter_map(|id| model.processes.get(id))
    }

    /// When the last of its processes was seen to have ended. Absent: not all have, or none is known.
    #[must_use]
    pub fn ended(&self, model: &Model) -> Option<Timestamp> {
        let mut ended = self.processes(model).map(Process::ended);
        let first = ended.next()??;
        ended.try_fold(first, |last, ended| Some(last.max(ended?)))
    }

    /// How many processes it has.
    #[must_use]
    pub fn n_processes(&self) -> usize {
        self.processes.len()
    }

    /// Its communicators, by id.
    pub fn communicators<'a>(&'a self, model: &'a Model) -> impl Iterator<Item = &'a Communicator> {
        self.communicators.iter().filter_map(|id| model.communicators.get(id))
    }

    /// What is still counted of what is forgotten.
    #[must_use]
    pub fn forgotten(&self) -> &Forgotten {
        &self.forgotten
    }
}
