//! One job, as the model knows it, for the judge of hangs. Pure: it decides nothing but what is worth telling.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::{CommunicatorState, SummationRole};
use ringscope_model::{
    self as model, CommunicatorId, Job, LocalState, Model, Name, Process, ProcessState, RankRef,
};
use ringscope_wire::batch::CollectorState;
use rustc_hash::FxHashMap;

use super::member::{self, index};
use super::numbers;
use crate::hangs::scene::{self, Collector, Forming, Host, Life, Member, OpenCall, QUIET, Scene};
use crate::rdma;

/// A scene, and what its indices stand for.
pub(super) struct Taken<'a> {
    pub(super) scene: Scene<'a>,
    pub(super) processes: Vec<&'a Process>,
    pub(super) communicators: Vec<&'a model::Communicator>,
}

/// What is wrong with the hardware of a host now, in words that can follow its name.
type Hardware<'h> = dyn Fn(&Name) -> Option<String> + 'h;

/// The scene of a job.
pub(super) fn take<'a>(
    model: &'a Model,
    (name, job): (&'a Name, &'a Job),
    hardware: &Hardware<'_>,
    now: Timestamp,
) -> Taken<'a> {
    let now = moment(model, job, now);
    let told_of = |known: &'a model::Communicator| {
        let ranks: Vec<RankRef<'a>> = known.ranks(model).collect();
        let is_imported = |rank: &RankRef<'_>| rank.process.state() == ProcessState::Imported;
        let is_told = match known.state_of(ranks.iter().copied()) {
            // Files of one job end at different times: all of them are told.
            (CommunicatorState::Ended, ended) => {
                now.since(ended.unwrap_or_default()) < ENDED_TOLD || ranks.iter().all(is_imported)
            }
            _ => true,
        };
        is_told.then_some((known, ranks))
    };
    // To look up a rank costs more than what is told of it.
    let communicators: Vec<(&model::Communicator, Vec<RankRef<'a>>)> =
        job.communicators(model).filter_map(told_of).collect();
    let mut taken = Taken {
        scene: Scene { now, job: name, any_heard_at: model.any_spoke(), ..Scene::default() },
        processes: Vec::new(),
        communicators: Vec::new(),
    };
    let mut places = Places { servers: servers(model, name), ..Places::default() };
    for (at, (known, ranks)) in communicators.iter().enumerate() {
        places.communicators.insert(known.id(), index(at));
        places.needed.extend(ranks.iter().map(|rank| (address(rank.process), u32::MAX)));
    }
    let is_told = |process: &&Process| {
        let ended = process.ended().is_some_and(|ended| now.since(ended) >= ENDED_TOLD);
        !ended || places.needed.contains_key(&address(process))
    };
    // Not of the present life alone: how the one before ended is told for a while.
    let told: Vec<&Process> = job.unreplaced(model, now).filter(is_told).collect();
    for process in told {
        places.needed.insert(address(process), index(taken.processes.len()));
        taken.tell_process(model, process, &mut places, hardware);
    }
    for (known, ranks) in communicators {
        taken.tell_communicator(model, known, &ranks, &places);
    }
    numbers::number(&mut taken.scene);
    taken
}

/// The moment that is judged: of a job that is known from files alone the newest one that they tell.
fn moment(model: &Model, job: &Job, now: Timestamp) -> Timestamp {
    let mut newest = Timestamp(0);
    for process in job.processes(model) {
        if process.state() != ProcessState::Imported {
            return now;
        }
        newest = newest.max(process.told_until().unwrap_or_default());
    }
    if newest == Timestamp(0) { now } else { newest.min(now) }
}

/// The processes that only sum in groups of a job, by [`address`].
fn servers(model: &Model, job: &str) -> HashSet<usize> {
    let groups = model.summations().filter(|group| group.job(model) == job);
    let places = groups.flat_map(|group| group.members().map(move |(place, _)| (group, place)));
    let servers = places.filter(|(_, (role, _))| *role == SummationRole::Server);
    servers.filter_map(|(group, place)| group.process(place, model)).map(address).collect()
}

/// Where what stands in the scene.
#[derive(Default)]
struct Places<'a> {
    hosts: HashMap<&'a str, u32>,
    /// Of processes, by [`address`].
    needed: FxHashMap<usize, u32>,
    communicators: HashMap<CommunicatorId, u32>,
    /// Servers of summation services, by [`address`].
    servers: HashSet<usize>,
}

impl<'a> Taken<'a> {
    fn tell_process(
        &mut self,
        model: &'a Model,
        process: &'a Process,
        places: &mut Places<'a>,
        hardware: &Hardware<'_>,
    ) {
        let Some(identity) = process.identity() else { return };
        let host = *places.hosts.entry(&identity.host).or_insert_with(|| {
            self.scene.hosts.push(host(model, &identity.host, hardware, self.scene.now));
            index(self.scene.hosts.len() - 1)
        });
        let is_imported = process.state() == ProcessState::Imported;
        let heard = model.last_heard(process);
        let spoken = model.last_spoken(process);
        if process.is_living()
            && let Some(host) = self.scene.hosts.get_mut(host as usize)
        {
            // One process that is watched, by whatever agent, and the host is.
            let is_first = host.heard_at.is_none();
            host.agent_ended = (is_first || host.agent_ended) && model.unwatched_since(process).is_some();
        }
        if !is_imported
            && process.is_living()
            && let Some(host) = self.scene.hosts.get_mut(host as usize)
        {
            host.heard_at = host.heard_at.max(Some(spoken));
            host.last_word_at = host.last_word_at.max(Some(model.last_word(process)));
        }
        let (read_at, heard_at) = match model.reading(process) {
            _ if is_imported => (Timestamp(0), process.told_until().unwrap_or(self.scene.now)),
            Some(reading) => (reading.read_at, reading.at),
            None => (heard, heard),
        };
        let collector = process.collector();
        self.processes.push(process);
        self.scene.processes.push(scene::Process {
            key: process.key(),
            host,
            pid: identity.pid,
            in_container: model.is_in_container(process),
            global_rank: identity.global_rank,
            place: &identity.scheduled.words,
            world_size: identity.world_size,
            started_at: identity.started,
            life: life(process),
            exit: process.exit(),
            ended_at: process.ended().map(|at| model.theirs(process, at)),
            read_at,
            heard_at,
            lost_events: process.lost_calls().is_some_and(|at| self.scene.now.since(at) < LOSS_COUNTS),
            segment_version: collector.segment_version,
            collector: collector_of(process),
            launched: collector.launched,
            is_server: places.servers.contains(&address(process)),
            calls_seen: collector.calls_seen || process.locals().next().is_some(),
            level: collector.level,
            activity: process.activity().map(|known| scene::Activity {
                state: known.state,
                since: Some(known.state_since),
                #[expect(clippy::cast_possible_truncation, reason = "a share of some processors")]
                cores: known.load.map(|load| load as f32),
            }),
            open_calls: open_calls(process, places),
            last_returned_at: process.last_returned(),
            look: process.look().map(|look| &**look),
            told_by_peers: process.told_by_peers().map_or("", |said| said),
            failed_connection: rdma::failed_here(process).unwrap_or_default(),
            forming: forming(process, model, places),
        });
    }

    fn tell_communicator(
        &mut self,
        model: &'a Model,
        known: &'a model::Communicator,
        ranks: &[RankRef<'a>],
        places: &Places<'a>,
    ) {
        let at = places.communicators.get(&known.id()).copied();
        let told = |rank: &RankRef<'a>| {
            let process = places.needed.get(&address(rank.process)).copied()?;
            Some((*rank, process, self.scene.processes.get(process as usize)?))
        };
        let ranks: Vec<(RankRef<'a>, u32, &scene::Process<'a>)> = ranks.iter().filter_map(told).collect();
        let is_suspect = ranks.iter().any(|(rank, _, process)| {
            let is_long = |since: Timestamp| process.age(since, self.scene.now) >= QUIET;
            process.life == Life::Imported
                || rank.ended().is_some()
                || rank.facts.error.is_some()
                || rank.local.in_flight().first().is_some_and(|open| is_long(Timestamp(open.issued_at_ns)))
                || process.open_calls.iter().any(|call| call.communicator == at && is_long(call.entered_at))
        });
        let mut history = if is_suspect { member::history(model, known.id()) } else { HashMap::new() };
        let members = ranks.iter().map(|(rank, process, _)| {
            let told = history.remove(&rank.rank).unwrap_or_default();
            let ended = rank.ended().map(|at| model.theirs(rank.process, at));
            member::tell(rank, *process, ended, is_suspect.then_some(told))
        });
        let members: Vec<Member<'a>> = members.collect();
        let name = known.name(model).map_or("", |name| &**name);
        let parent_hash = ranks.iter().find_map(|(rank, ..)| rank.facts.parent_hash);
        self.communicators.push(known);
        self.scene.communicators.push(scene::Communicator {
            id: known.id_str(),
            purpose: name,
            hash: known.comm_hash(),
            parent_hash,
            n_ranks: known.n_ranks(),
            members,
        });
    }
}

fn host<'a>(model: &'a Model, name: &'a Name, hardware: &Hardware<'_>, now: Timestamp) -> Host<'a> {
    let messages = model.kernel(name).into_iter().flat_map(model::Kernel::messages);
    let kernel = messages.filter(|message| now.since(message.heard) < KERNEL_TOLD);
    Host {
        name,
        heard_at: None,
        last_word_at: None,
        agent_ended: false,
        kernel: kernel.map(|message| &message.told).collect(),
        hardware: hardware(name).into_iter().map(Cow::Owned).collect(),
    }
}

fn life(process: &Process) -> Life {
    match process.state() {
        ProcessState::Running => Life::Running,
        ProcessState::Exited => Life::Exited,
        // What others are seen to wait for, or a kernel to have said, tells whether it was.
        ProcessState::Killed | ProcessState::Gone => Life::Killed,
        ProcessState::Imported => Life::Imported,
    }
}

fn collector_of(process: &Process) -> Collector {
    let collector = process.collector();
    match process.collector_state() {
        CollectorState::Off => Collector::Off(collector.off_since),
        CollectorState::Fault => Collector::Fault(collector.off_since),
        CollectorState::Removed => Collector::Absent,
        _ if !collector.has_segment => Collector::Absent,
        _ => Collector::On,
    }
}

fn open_calls<'a>(process: &'a Process, places: &Places<'a>) -> Cow<'a, [OpenCall<'a>]> {
    let calls = process.open_calls().iter().map(|call| OpenCall {
        function: Cow::Borrowed(&*call.function),
        communicator: call
            .local_id
            .and_then(|local_id| process.communicator(local_id))
            .and_then(|comm| places.communicators.get(&comm).copied()),
        entered_at: call.entered,
    });
    Cow::Owned(calls.collect())
}

fn forming<'a>(process: &'a Process, model: &Model, places: &Places<'a>) -> Cow<'a, [Forming<'a>]> {
    if process.ended().is_some() {
        return Cow::Borrowed(&[]);
    }
    let of_hash = |hash: u64| {
        let mut its = model.communicators_of(process).filter(|known| known.comm_hash() == hash);
        its.find_map(|known| places.communicators.get(&known.id()).copied())
    };
    let forming = process.locals().filter_map(|(_, local)| {
        let facts = local.facts()?;
        let is_forming = facts.state == LocalState::Forming && local.communicator().is_none();
        is_forming.then(|| Forming {
            function: Cow::Borrowed(&*facts.made_by),
            parent: facts.parent_hash.and_then(of_hash),
            rank: Some(facts.rank).filter(|_| facts.n_ranks > 0),
            n_ranks: Some(facts.n_ranks).filter(|n_ranks| *n_ranks > 0),
            since: facts.created,
        })
    });
    Cow::Owned(forming.collect())
}

/// Names a process for as long as the model is borrowed.
fn address(process: &Process) -> usize {
    std::ptr::from_ref(process).addr()
}

/// How long communicators and processes are told of that have ended: longer than any judgement looks back.
const ENDED_TOLD: Duration = Duration::from_secs(180);
/// The same of messages of kernels.
const KERNEL_TOLD: Duration = Duration::from_secs(600);
/// How long after calls were lost their absence proves nothing.
const LOSS_COUNTS: Duration = Duration::from_secs(120);
