//! One training process: who it is, and its own part of each of its communicators.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ringscope_api::Dropped;
use ringscope_api::clock::Timestamp;
use ringscope_wire::Primitive;
use ringscope_wire::batch;

use super::CommunicatorId;
use super::activity::Activity;
use super::agents::Stamp;
use super::calls::{OpenCall, Pair, Sequence};
use super::connections::{Connection, Connections};
use super::counters::{Counters, Sent};
use super::exit::Exit;
use super::facts::Facts;
use super::family::Claimed;
use super::groups::RankGroup;
use super::names::Name;
use super::pace::Pace;
use super::scheduled::Scheduled;

/// A process in this model; never used again for another.
pub(super) type ProcessId = u64;

/// One training process.
#[derive(Debug)]
pub struct Process {
    pub(super) key: Name,
    pub(super) identity: Option<Identity>,
    pub(super) state: ProcessState,
    /// By our clock.
    pub(super) ended: Option<Timestamp>,
    pub(super) collector_state: batch::CollectorState,
    pub(super) collector: Collector,
    pub(super) locals: BTreeMap<u64, Box<Local>>,
    pub(super) n_links: usize,
    pub(super) n_pairs: usize,
    pub(super) open_calls: Vec<OpenCall>,
    pub(super) last_returned: Option<Timestamp>,
    pub(super) activity: Option<Activity>,
    pub(super) pace: Option<Box<Pace>>,
    pub(super) connections: Connections,
    pub(super) groups: Vec<RankGroup>,
    pub(super) look: Option<Arc<batch::Look>>,
    pub(super) told_until: Option<Timestamp>,
    pub(super) told_by_peers: Option<Name>,
    pub(super) exit: Exit,
    pub(super) lost_calls: Option<Timestamp>,
    pub(super) dropped: Dropped,
    /// When something was last heard of it, by our clock.
    pub(super) heard: Timestamp,
    pub(super) reading: Option<LastReading>,
    /// The newest word about it.
    pub(super) stamp: Stamp,
    /// When its agent said that it ends, as the store kept it.
    pub(super) unwatched_since: Option<Timestamp>,
    /// Whether it was stale at the last tick.
    pub(super) was_stale: bool,
    /// Whether it was in a summation group when it told of them last.
    pub(super) sums: bool,
}

/// Whether a process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// As far as is known.
    Running,
    /// Ran its exit handlers.
    Exited,
    /// Gone without having run them, and others of its communicators were not done with them, or a call had not returned.
    Killed,
    /// Gone without having run them, with nothing left open that is another's too: by `_exit`, by another program in its
    /// place, or by a signal. Nobody tells as which it was.
    Gone,
    /// Known from files only: it neither lives nor ends here, and is judged as what the files say of it.
    Imported,
}

/// Who a process is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of batch.proto's Identity")]
pub struct Identity {
    pub host: Name,
    pub pid: u32,
    pub started: Timestamp,
    pub job: Name,
    pub global_rank: Option<u32>,
    pub world_size: Option<u32>,
    pub local_rank: Option<u32>,
    pub scheduled: Scheduled,
    pub executable: Name,
    pub library_version: u32,
    pub user: Option<u32>,
}

/// How a process is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of batch.proto's Process")]
pub struct Collector {
    pub level: batch::Level,
    pub profiler_version: u32,
    pub plugin_chained: bool,
    pub calls_seen: bool,
    pub n_libraries: u32,
    pub has_segment: bool,
    pub log_lacks: Vec<Name>,
    /// Started through `ringscope run`.
    pub launched: bool,
    pub segment_version: u32,
    /// Absent: it is on, or not known.
    pub off_since: Option<Timestamp>,
}

impl Collector {
    /// Version of its segments, where its agent reads another one.
    #[must_use]
    pub fn other_version(&self) -> Option<u32> {
        Some(self.segment_version).filter(|version| *version != 0 && !self.has_segment)
    }
}

/// A process's own part of a communicator.
#[derive(Debug, Default)]
pub struct Local {
    /// Absent while only its counters have come.
    pub(super) facts: Option<Facts>,
    /// The newest word about the facts.
    pub(super) stamp: Stamp,
    /// The communicator it was joined to. Absent: not identified (yet), or another process has this rank.
    pub(super) joined: Option<CommunicatorId>,
    /// What it says that it is.
    pub(super) claimed: Option<Claimed>,
    pub(super) counters: Counters,
    pub(super) links: BTreeMap<(Primitive, u32), Sent>,
    pub(super) in_flight: Vec<batch::Operation>,
    pub(super) last_completed: Option<batch::Operation>,
    pub(super) sequence: Option<Sequence>,
    pub(super) pairs: BTreeMap<(Primitive, u32), Pair>,
    /// What was asked for, and when the newest of it came.
    pub(super) recalled: Recalled,
    /// When something was last heard of it, by our clock.
    pub(super) heard: Timestamp,
}

/// The reading that the newest word is of, which may come in parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastReading {
    /// By the agent's clock.
    pub(super) read_at: Timestamp,
    /// When the process was heard of before it.
    pub(super) heard_before: Option<Timestamp>,
}

/// Operations that were asked for, oldest first, and when the newest of them came.
#[derive(Debug, Default)]
pub(super) struct Recalled {
    pub(super) operations: Vec<batch::Operation>,
    pub(super) heard: Timestamp,
}

impl Process {
    pub(super) fn new(key: Name, now: Timestamp) -> Self {
        Self {
            key,
            identity: None,
            state: ProcessState::Running,
            ended: None,
            collector_state: batch::CollectorState::Unspecified,
            collector: Collector::default(),
            locals: BTreeMap::new(),
            n_links: 0,
            n_pairs: 0,
            open_calls: Vec::new(),
            last_returned: None,
            activity: None,
            pace: None,
            connections: Connections::default(),
            groups: Vec::new(),
            look: None,
            told_until: None,
            told_by_peers: None,
            exit: Exit::default(),
            lost_calls: None,
            dropped: Dropped::new(),
            heard: now,
            reading: None,
            stamp: Stamp::STORE,
            unwatched_since: None,
            was_stale: false,
            sums: false,
        }
    }

    /// `<host>/<pid>/<start_time_ns>`.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Its key, shared.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.key
    }

    /// When something was last heard of it, by our clock.
    #[must_use]
    pub fn heard(&self) -> Timestamp {
        self.heard
    }

    /// Who it is. Absent while no agent has said.
    #[must_use]
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// Whether it lives.
    #[must_use]
    pub fn state(&self) -> ProcessState {
        match self.state {
            // Unless somebody knows by which signal it was.
            ProcessState::Killed if !self.was_needed() && self.exit.signal.is_none() => ProcessState::Gone,
            state => state,
        }
    }

    /// Whether it was killed, or crashed, and not by its launch when that ended the job.
    #[must_use]
    pub fn was_killed(&self) -> bool {
        self.state() == ProcessState::Killed && self.exit.told.is_none()
    }

    /// Whether something of it was under way, of a process that is gone: a communicator or a group that it shared, or a call.
    fn was_needed(&self) -> bool {
        let is_shared = |facts: &Facts| !facts.state.is_end() && facts.n_ranks != 1;
        let mut facts = self.locals.values().filter_map(|local| local.facts.as_ref());
        self.sums || !self.open_calls.is_empty() || facts.any(is_shared)
    }

    /// When it was seen to have ended, by our clock.
    #[must_use]
    pub fn ended(&self) -> Option<Timestamp> {
        self.ended
    }

    /// Its RDMA connections, by place.
    pub fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.connections.iter()
    }

    /// Connections of it that nobody told of, because there was no room for them.
    #[must_use]
    pub fn connections_left_out(&self) -> u64 {
        self.connections.left_out
    }

    /// What its collector dropped, by reason; cumulative.
    #[must_use]
    pub fn dropped(&self) -> &Dropped {
        &self.dropped
    }

    /// What its collector is doing.
    #[must_use]
    pub fn collector_state(&self) -> batch::CollectorState {
        self.collector_state
    }

    /// How it is looked at.
    #[must_use]
    pub fn collector(&self) -> &Collector {
        &self.collector
    }

    /// Whether it lives, as far as is known.
    #[must_use]
    pub fn is_living(&self) -> bool {
        self.ended.is_none() && self.state != ProcessState::Imported
    }

    /// When calls of it were lost last that nobody will tell of any more, by our clock. Absent: none since it was
    /// heard of.
    #[must_use]
    pub fn lost_calls(&self) -> Option<Timestamp> {
        self.lost_calls
    }

    /// Its calls into the library that have not returned, oldest first.
    #[must_use]
    pub fn open_calls(&self) -> &[OpenCall] {
        &self.open_calls
    }

    /// When a call into the library returned last, by the clock of its host. Absent: none did, or not known.
    #[must_use]
    pub fn last_returned(&self) -> Option<Timestamp> {
        self.last_returned
    }

    /// What the operating system says of it. Absent: it was not read.
    #[must_use]
    pub fn activity(&self) -> Option<&Activity> {
        self.activity.as_ref()
    }

    /// How it spends its time. Absent: its agent does not tell.
    #[must_use]
    pub fn pace(&self) -> Option<&Pace> {
        self.pace.as_deref()
    }

    /// What it was seen to do when somebody asked last. Absent: nobody has.
    #[must_use]
    pub fn look(&self) -> Option<&Arc<batch::Look>> {
        self.look.as_ref()
    }

    /// Until when files tell of it, by the clock of its host. Absent: not known, or it is not known from files.
    #[must_use]
    pub fn told_until(&self) -> Option<Timestamp> {
        self.told_until
    }

    /// How it ended, as far as is known.
    #[must_use]
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// The status that it gave to `exit`, also where it was killed then. Absent: it gave none, or not known.
    #[must_use]
    pub fn exit_status(&self) -> Option<u8> {
        self.exit.status
    }

    /// What others say of it because it did not speak itself, so that it can follow its name. Absent: nothing.
    #[must_use]
    pub fn told_by_peers(&self) -> Option<&Name> {
        self.told_by_peers.as_ref()
    }

    /// Its parts of communicators, by their local id.
    pub fn locals(&self) -> impl Iterator<Item = (u64, &Local)> {
        self.locals.iter().map(|(local_id, local)| (*local_id, &**local))
    }

    /// When counters or facts of any of its communicators came last, by our clock. Absent: none ever came.
    #[must_use]
    pub fn counters_heard(&self) -> Option<Timestamp> {
        self.locals.values().map(|local| local.heard).max()
    }

    /// Whether it ever told of a communicator.
    #[must_use]
    pub fn has_communicators(&self) -> bool {
        !self.locals.is_empty()
    }

    /// The communicator that one of its parts was joined to.
    #[must_use]
    pub fn communicator(&self, local_id: u64) -> Option<CommunicatorId> {
        self.locals.get(&local_id)?.joined
    }

    /// The communicators that it was joined to.
    pub(super) fn joined(&self) -> BTreeSet<CommunicatorId> {
        self.locals.values().filter_map(|local| local.joined).collect()
    }
}

impl Local {
    /// What the rank says of the communicator.
    #[must_use]
    pub fn facts(&self) -> Option<&Facts> {
        self.facts.as_ref()
    }

    /// The communicator that it was joined to.
    #[must_use]
    pub fn communicator(&self) -> Option<CommunicatorId> {
        self.joined
    }

    /// Counters by primitive.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Bytes sent over the network, by primitive and peer.
    #[must_use]
    pub fn links(&self) -> &BTreeMap<(Primitive, u32), Sent> {
        &self.links
    }

    /// Operations that are not completed, oldest first.
    #[must_use]
    pub fn in_flight(&self) -> &[batch::Operation] {
        &self.in_flight
    }

    /// The newest completed operation.
    #[must_use]
    pub fn last_completed(&self) -> Option<&batch::Operation> {
        self.last_completed.as_ref()
    }

    /// The order of its collective calls. Absent: not told.
    #[must_use]
    pub fn sequence(&self) -> Option<&Sequence> {
        self.sequence.as_ref()
    }

    /// Its calls of send and recv, by peer, as far as they were told.
    #[must_use]
    pub fn pairs(&self) -> &BTreeMap<(Primitive, u32), Pair> {
        &self.pairs
    }

    /// Operations that were asked for, oldest first.
    #[must_use]
    pub fn recalled(&self) -> &[batch::Operation] {
        &self.recalled.operations
    }

    /// When this rank's part ended, by our clock: by its own word, or with its process.
    #[must_use]
    pub fn ended(&self, process: &Process) -> Option<Timestamp> {
        let facts = self.facts.as_ref();
        facts
            .and_then(|facts| facts.ended)
            .or(process.ended)
            .or_else(|| facts.filter(|facts| facts.state.is_end()).map(|_| self.heard))
    }
}
