//! The processes of a job by what is alike: who does the same work is compared. Of the model, and nothing is decided here.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_model::{CommunicatorId, Job, Local, Model, Name, Pace, Process};
use ringscope_wire::Primitive;

use super::measured::{Measured, STALE};

/// A process with an account of late.
pub(super) struct Rank<'m> {
    pub(super) process: &'m Process,
    pub(super) measured: Measured,
    /// When it was looked at, by our clock. Absent: never.
    pub(super) looked: Option<Timestamp>,
}

/// A job, as far as its processes tell how they spend their time.
pub(super) struct Scene<'m> {
    /// Processes that do the same work together.
    pub(super) classes: Vec<Vec<Rank<'m>>>,
    /// Processes that live.
    pub(super) n_processes: usize,
    /// Of how many of them something was heard of late, be it that they call nothing.
    pub(super) n_heard: usize,
    living: Vec<&'m Process>,
    /// Whether all of them are in one communicator.
    pub(super) has_world: bool,
    /// Whether they tell when the device begins operations, and not when the program calls.
    pub(super) is_device: bool,
    /// Processes whose times are of the other kind: they are left out.
    pub(super) n_of_other_basis: usize,
    /// Of communicators with sends of which nobody knows to whom they go: a process that sends there, and its part.
    pub(super) unknown_peers: BTreeMap<CommunicatorId, (Name, u64)>,
}

impl<'m> Scene<'m> {
    /// Of a job.
    pub(super) fn of(model: &'m Model, job: &'m Job, now: Timestamp) -> Self {
        let living: Vec<&Process> =
            job.unreplaced(model, now).filter(|process| process.is_living()).collect();
        let n_processes = living.iter().filter(|process| process.has_communicators()).count();
        let is_heard = |process: &&&Process| {
            let newest = process.pace().and_then(|pace| pace.points().last());
            newest.is_some_and(|point| now.since(point.at) <= STALE)
        };
        let n_heard = living.iter().filter(is_heard).count();
        let ranks = living.iter().filter_map(|process| {
            let mut measured = Measured::of(process.pace()?, now)?;
            let long = measured.habits.iter_mut().flat_map(|habit| &mut habit.long);
            long.for_each(|step| step.began = model.ours(process, step.began));
            let looked = process.look().map(|look| model.ours(process, Timestamp(look.at_ns)));
            Some(Rank { process, measured, looked })
        });
        let ranks = of_one_time(ranks.collect());
        let n_known = ranks.len();
        let (ranks, is_device) = of_one_basis(ranks);
        let n_of_other_basis = n_known - ranks.len();
        let is_world =
            |local: &Local| local.facts().is_some_and(|facts| facts.n_ranks as usize >= n_processes);
        let has_world = ranks.iter().any(|rank| rank.process.locals().any(|(_, local)| is_world(local)));
        let (pipes, unknown_peers) = pipes(&living);
        let classes = if !pipes.is_empty() {
            let across = across_stages(&ranks, &pipes);
            joined(ranks, |comm, local| {
                let n_ranks = local.facts().map_or(0, |facts| facts.n_ranks as usize);
                let works_together =
                    has(local, |primitive| !is_handed_on(primitive)) || !pipes.contains(&comm);
                n_ranks < n_processes && works_together && !across.contains(&comm)
            })
        } else {
            joined(ranks, |_, _| true)
        };
        Self { classes, n_processes, n_heard, living, has_world, is_device, n_of_other_basis, unknown_peers }
    }

    /// Whether it is known of most of its processes how they spend their time.
    pub(super) fn is_known(&self) -> bool {
        2 * self.classes.iter().map(Vec::len).sum::<usize>() > self.n_processes
    }

    /// Whether any of these processes lives, by key.
    pub(super) fn has_any(&self, keys: &[Name]) -> bool {
        self.living.iter().any(|process| keys.contains(process.name()))
    }

    /// The smallest share of its time that any rank spends outside of collectives, from 0 to 1; 1 where none is known.
    pub(super) fn least_own(&self) -> f64 {
        self.classes.iter().flatten().map(|rank| rank.measured.own).fold(1.0, f64::min)
    }

    /// How long the longest step of the ranks of a communicator takes.
    pub(super) fn step_in(&self, comm: CommunicatorId) -> Duration {
        let ranks = self.classes.iter().flatten();
        let ranks = ranks.filter(|rank| of(rank.process).any(|(its, _)| its == comm));
        ranks.map(|rank| rank.measured.step).max().unwrap_or_default()
    }

    /// How long its longest step takes.
    pub(super) fn step(&self) -> Duration {
        let steps = self.classes.iter().flatten().map(|rank| rank.measured.step);
        steps.max().unwrap_or_default()
    }
}

/// Communicators in which ranks hand something on to the next one: stages of a pipeline do not do the same work. And those of them of
/// which nobody knows to whom a rank sends, with whom to ask.
///
/// Not a pipeline: a communicator in which every rank whose peers are known sends to at least [`FEWEST_PEERS`] others (an all-to-all
/// made of sends). A rank whose peers are not known says nothing.
fn pipes(living: &[&Process]) -> (HashSet<CommunicatorId>, BTreeMap<CommunicatorId, (Name, u64)>) {
    let mut exchange: HashMap<CommunicatorId, Option<bool>> = HashMap::new();
    let mut unknown: BTreeMap<CommunicatorId, (Name, u64)> = BTreeMap::new();
    for process in living {
        let parts =
            process.locals().filter(|(_, local)| local.ended(process).is_none() && has(local, is_handed_on));
        for (local_id, comm, local) in
            parts.filter_map(|(local_id, local)| Some((local_id, local.communicator()?, local)))
        {
            let peers = peers(local);
            let known = exchange.entry(comm).or_default();
            if peers > 0 {
                *known = Some(known.unwrap_or(true) && peers >= FEWEST_PEERS);
            } else if sends(local) >= FEWEST_SENDS {
                unknown.entry(comm).or_insert_with(|| (process.name().clone(), local_id));
            }
        }
    }
    unknown.retain(|comm, _| exchange.get(comm) == Some(&None));
    let pipes = exchange.into_iter().filter(|(_, exchange)| *exchange != Some(true)).map(|(comm, _)| comm);
    (pipes.collect(), unknown)
}

/// Ranks to which it is known to send: of the network where each network step is told, else where somebody asked for it.
fn peers(local: &Local) -> usize {
    fn sent<'k>(keys: impl Iterator<Item = &'k (Primitive, u32)>) -> usize {
        keys.filter(|(primitive, _)| *primitive == Primitive::Send).count()
    }
    sent(local.links().keys()).max(sent(local.pairs().keys()))
}

fn sends(local: &Local) -> u64 {
    local.counters().get(Primitive::Send).map_or(0, |counted| counted.totals().issued_calls)
}

/// Its parts of communicators, without those that have ended.
fn of(process: &Process) -> impl Iterator<Item = (CommunicatorId, &Local)> {
    let goes_on = |local: &Local| local.ended(process).is_none();
    let locals = process.locals().filter(move |(_, local)| goes_on(local));
    locals.filter_map(|(_, local)| Some((local.communicator()?, local)))
}

/// Without those of which the others have told more: parts of different times cannot be compared.
fn of_one_time(mut ranks: Vec<Rank<'_>>) -> Vec<Rank<'_>> {
    let newest = ranks.iter().map(|rank| rank.measured.told).max().unwrap_or_default();
    ranks.retain(|rank| newest.since(rank.measured.told) <= APART.max(rank.measured.step));
    ranks
}

/// Those whose times are of the kind that most tell, and whether that is the device's: where operations are enqueued long before the
/// device begins them, the device's times show far more own time than calls do.
fn of_one_basis(mut ranks: Vec<Rank<'_>>) -> (Vec<Rank<'_>>, bool) {
    let by_device = |rank: &Rank<'_>| rank.process.pace().is_some_and(Pace::is_device);
    let n_by_device = ranks.iter().filter(|rank| by_device(rank)).count();
    let is_device = 2 * n_by_device > ranks.len();
    ranks.retain(|rank| by_device(rank) == is_device);
    (ranks, is_device)
}

/// Who takes part in something together does the same work: in anything, or, of a pipeline, in collectives; but not in those that all of
/// the job take part in, and in those that join several stages, as for embeddings or for the norm of all gradients.
fn joined(ranks: Vec<Rank<'_>>, joins: impl Fn(CommunicatorId, &Local) -> bool) -> Vec<Vec<Rank<'_>>> {
    let mut stages = Stages { parents: (0..ranks.len()).collect() };
    let mut first: HashMap<CommunicatorId, usize> = HashMap::new();
    for (at, rank) in ranks.iter().enumerate() {
        for (comm, local) in of(rank.process) {
            if joins(comm, local) {
                let other = *first.entry(comm).or_insert(at);
                stages.join(at, other);
            }
        }
    }
    // By their first rank, so that a class has the same place at each look.
    let mut classes: BTreeMap<usize, Vec<Rank<'_>>> = BTreeMap::new();
    let mut order: HashMap<usize, usize> = HashMap::new();
    for (at, rank) in ranks.into_iter().enumerate() {
        let place = *order.entry(stages.root(at)).or_insert(at);
        classes.entry(place).or_default().push(rank);
    }
    classes.into_values().collect()
}

/// Communicators in which two ranks of one pipeline meet.
fn across_stages(ranks: &[Rank<'_>], pipes: &HashSet<CommunicatorId>) -> HashSet<CommunicatorId> {
    let mut met: HashSet<(CommunicatorId, CommunicatorId)> = HashSet::new();
    let mut across = HashSet::new();
    for rank in ranks {
        let own = of(rank.process).map(|(comm, _)| comm).filter(|comm| pipes.contains(comm));
        let own: Vec<CommunicatorId> = own.take(MOST_PIPES).collect();
        for (comm, _) in of(rank.process) {
            for pipe in &own {
                if !met.insert((comm, *pipe)) {
                    across.insert(comm);
                }
            }
        }
    }
    across
}

fn has(local: &Local, is_such: impl Fn(Primitive) -> bool) -> bool {
    local.counters().iter().any(|(primitive, _)| is_such(primitive))
}

fn is_handed_on(primitive: Primitive) -> bool {
    matches!(primitive, Primitive::Send | Primitive::Recv)
}

/// Sets of places.
struct Stages {
    parents: Vec<usize>,
}

impl Stages {
    fn root(&mut self, mut at: usize) -> usize {
        while let Some(parent) = self.parents.get(at).copied().filter(|parent| *parent != at) {
            let above = self.parents.get(parent).copied().unwrap_or(parent);
            if let Some(place) = self.parents.get_mut(at) {
                *place = above;
            }
            at = above;
        }
        at
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.root(one), self.root(other));
        if let Some(parent) = self.parents.get_mut(one) {
            *parent = other;
        }
    }
}

/// Pipelines that one process is looked at in: real ones have one, or two.
const MOST_PIPES: usize = 16;
/// A stage sends to the one after it and to the one before it.
const FEWEST_PEERS: usize = 3;
/// Who has sent so often has sent to everybody that it sends to in a step.
const FEWEST_SENDS: u64 = 64;
/// Agents tell every other second at least, but for a batch that is late.
const APART: Duration = Duration::from_secs(4);
