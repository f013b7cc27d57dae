//! The processes of a job by what is alike: who does the same work is compared. Of the model, and nothing is decided here.

use std::collections::HashMap;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_model::{CommunicatorId, Job, Model, Process};
use ringscope_wire::Primitive;

use super::measured::Measured;

/// A process with an account of late.
pub(super) struct Rank<'m> {
    pub(super) process: &'m Process,
    pub(super) measured: Measured,
}

/// A job, as far as its processes tell how they spend their time.
pub(super) struct Scene<'m> {
    /// Processes that do the same work together.
    pub(super) classes: Vec<Vec<Rank<'m>>>,
    /// Processes that live.
    pub(super) n_processes: usize,
}

impl<'m> Scene<'m> {
    /// Of a job.
    pub(super) fn of(model: &'m Model, job: &'m Job, now: Timestamp) -> Self {
        let living: Vec<&Process> = job.processes(model).filter(|process| process.is_living()).collect();
        let n_processes = living.len();
        let ranks = living.iter().filter_map(|process| {
            let mut measured = Measured::of(process.pace()?, now)?;
            measured.long.iter_mut().for_each(|step| step.began = model.ours(process, step.began));
            Some(Rank { process, measured })
        });
        let ranks: Vec<Rank<'m>> = ranks.collect();
        let classes = if living.iter().any(|process| is_piped(process)) {
            by_stage(ranks, n_processes)
        } else {
            vec![ranks]
        };
        Self { classes, n_processes }
    }

    /// How long its longest step takes.
    pub(super) fn step(&self) -> Duration {
        let steps = self.classes.iter().flatten().map(|rank| rank.measured.step);
        steps.max().unwrap_or_default()
    }
}

/// Whether it hands something on to the next one: stages of a pipeline do not do the same work.
fn is_piped(process: &Process) -> bool {
    let counters = process.locals().flat_map(|(_, local)| local.counters().iter());
    let mut primitives = counters.map(|(primitive, _)| primitive);
    primitives.any(|primitive| matches!(primitive, Primitive::Send | Primitive::Recv))
}

/// Who takes part in collectives together does the same work, but for those that all of the job take part in.
fn by_stage(ranks: Vec<Rank<'_>>, n_processes: usize) -> Vec<Vec<Rank<'_>>> {
    let mut stages = Stages { parents: (0..ranks.len()).collect() };
    let mut first: HashMap<CommunicatorId, usize> = HashMap::new();
    for (at, rank) in ranks.iter().enumerate() {
        for (_, local) in rank.process.locals() {
            let is_collective = |primitive| !matches!(primitive, Primitive::Send | Primitive::Recv);
            let mut primitives = local.counters().iter().map(|(primitive, _)| primitive);
            let n_ranks = local.facts().map_or(0, |facts| facts.n_ranks as usize);
            if let Some(comm) = local.communicator()
                && n_ranks < n_processes
                && primitives.any(is_collective)
            {
                let other = *first.entry(comm).or_insert(at);
                stages.join(at, other);
            }
        }
    }
    let mut classes: HashMap<usize, Vec<Rank<'_>>> = HashMap::new();
    for (at, rank) in ranks.into_iter().enumerate() {
        classes.entry(stages.root(at)).or_default().push(rank);
    }
    classes.into_values().collect()
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
