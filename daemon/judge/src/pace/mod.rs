//! How fast jobs go, and who makes the others slow: whose own time, outside of all collectives, is longer than that of those who do the
//! same work. A collective makes its ranks' steps equally long; their own times differ. Of one clock each, so no clock matters.
//! Pure, but for what it remembers from look to look.

mod accounts;
mod collectives;
mod devices;
mod fastest;
mod habit;
mod kept;
mod links;
mod measured;
mod nics;
mod outliers;
mod past;
mod roles;
mod scene;
mod shared;
mod slow;
mod small;
#[cfg(test)]
mod tests;
mod ways;
mod words;

pub use accounts::{Account, Accounts, accounts};
pub use kept::{PaceMemory, PaceTotals};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::{Cost, FindingKind};
use ringscope_model::{CommunicatorId, Job, Model, Name, Process, real};

use self::collectives::Collectives;
use self::devices::Devices;
use self::fastest::Fastest;
use self::kept::Keeping;
use self::nics::Hardware;
use self::scene::Scene;
use self::slow::{Slow, Subject};
use self::small::Small;
use super::guard::Guard;
use super::jobs::{Want, Wanted};
use super::judgement::Judgement;

/// The jobs whose pace is judged.
#[derive(Default)]
pub(super) struct Paces {
    watched: BTreeMap<Name, Watched>,
    fastest: Fastest,
    wanted: Vec<Wanted>,
    look: bool,
    /// Jobs of which each network step is asked for.
    n_raised: usize,
    guard: Guard,
}

/// One job.
#[derive(Default)]
struct Watched {
    judged: Timestamp,
    /// When it was looked at first.
    first: Timestamp,
    /// Since when enough of its processes are heard of to say what is over. `None`: too few are.
    heard_since: Option<Timestamp>,
    /// Of how many processes something was heard at once.
    most_heard: usize,
    held: BTreeMap<Subject, Held>,
    collectives: Collectives,
    small: Small,
    keeping: Keeping,
    /// When it was asked to whom somebody sends, by communicator.
    asked_peers: BTreeMap<CommunicatorId, Timestamp>,
}

/// Somebody who was found slow.
struct Held {
    slow: Slow,
    /// When it began to be.
    began: Timestamp,
    /// When it was first and last found.
    first: Timestamp,
    last: Timestamp,
    looks: u32,
    /// Seconds that all ranks together have lost by it.
    rank_seconds: f64,
    /// When its stacks were asked for last, and how often.
    asked: (Timestamp, u32),
}

impl Paces {
    /// Whether culprits are looked at.
    pub(super) fn set_look(&mut self, look: bool) {
        self.look = look;
    }

    /// Looks at every job whose turn has come: what is wrong with its pace, by job.
    pub(super) fn look_at_all(
        &mut self,
        model: &Model,
        hardware: &Hardware<'_>,
        now: Timestamp,
    ) -> Vec<(Name, Vec<Judgement>)> {
        self.watched.retain(|name, _| model.job(name).is_some());
        let mut guard = std::mem::take(&mut self.guard);
        guard.retain(|name| model.job(name).is_some());
        let is_due = |(name, job): &(&Name, &Job)| {
            let judged = self.watched.get(*name).map_or(Timestamp(0), |watched| watched.judged);
            now.since(judged) >= pause(job.n_processes()) || now < judged
        };
        let is_open = |(name, _): &(&Name, &Job)| !guard.is_shut(name, now);
        self.n_raised = self.raised().count();
        let due: Vec<(&Name, &Job)> = model.jobs().filter(is_due).filter(is_open).collect();
        let look = |(name, job): (&Name, &Job)| {
            let found = guard.look(name, now, || self.look(model, (name, job), hardware, now));
            if found.is_none() {
                self.watched.remove(name);
            }
            Some((Arc::clone(name), found?))
        };
        let found = due.into_iter().filter_map(look).collect();
        self.guard = guard;
        found
    }

    /// The jobs of which each network step is wanted now.
    pub(super) fn raised(&self) -> impl Iterator<Item = &Name> {
        let wants = |(_, watched): &(&Name, &Watched)| watched.collectives.wants_steps(watched.judged);
        self.watched.iter().filter(wants).map(|(name, _)| name)
    }

    /// Whether a job that goes on was looked at for long enough to say that nothing is wrong: what the store kept fires on until
    /// then.
    pub(super) fn may_end(&self, model: &Model, job: &Name, now: Timestamp) -> bool {
        let goes_on = |job: &Job| job.processes(model).any(Process::is_living);
        let known = self.watched.get(job).and_then(|watched| watched.heard_since);
        !model.job(job).is_some_and(|(_, job)| goes_on(job))
            || known.is_some_and(|since| now.since(since) >= SURE_AFTER)
    }

    /// When the last look at a job panicked. `None`: it did not.
    pub(super) fn failed_at(&self, job: &Name) -> Option<Timestamp> {
        self.guard.failed_at(job)
    }

    /// Looks that panicked; cumulative.
    pub(super) fn n_panics(&self) -> u64 {
        self.guard.n_panics()
    }

    /// Totals of the jobs whose totals grew since they were taken last: each job's at most every ten seconds, and at most ten a second of
    /// all jobs.
    pub(super) fn take_totals(&mut self, now: Timestamp) -> Vec<(Name, PaceTotals)> {
        let n_jobs = u32::try_from(self.watched.len()).unwrap_or(u32::MAX);
        let every = SAMPLE_EVERY.max(SAMPLES_APART.saturating_mul(n_jobs));
        let of = |(name, watched): (&Name, &mut Watched)| {
            Some((Arc::clone(name), watched.keeping.sample(every, now)?))
        };
        self.watched.iter_mut().filter_map(of).collect()
    }

    /// What a restart must not forget, of the jobs of which it changed.
    pub(super) fn take_memories(&mut self, now: Timestamp) -> Vec<(Name, PaceMemory)> {
        let of = |(name, watched): (&Name, &mut Watched)| {
            let memory = watched.collectives.memory()?;
            let is_due = watched.keeping.is_to_remember(memory.slow.is_some(), now);
            is_due.then(|| (Arc::clone(name), memory))
        };
        self.watched.iter_mut().filter_map(of).collect()
    }

    /// Goes on where the daemon before it was stopped.
    pub(super) fn restore(&mut self, job: &Name, memory: &PaceMemory) {
        self.watched.entry(Arc::clone(job)).or_default().collectives.restore(memory);
    }

    /// Every question, once.
    pub(super) fn take_wanted(&mut self) -> Vec<Wanted> {
        std::mem::take(&mut self.wanted)
    }

    fn look(
        &mut self,
        model: &Model,
        (name, job): (&Name, &Job),
        hardware: &Hardware<'_>,
        now: Timestamp,
    ) -> Vec<Judgement> {
        let watched = self.watched.entry(Arc::clone(name)).or_default();
        let passed = now.since(std::mem::replace(&mut watched.judged, now)).min(LONGEST_PAUSE);
        let scene = Scene::of(model, job, now);
        watched.hear(&scene, now);
        watched.keeping.look(&scene, passed, now);
        self.wanted.extend(watched.ask_for_peers(&scene, now));
        let mut all_slow = slow::find(&scene);
        if !all_slow.is_empty() {
            let devices = Devices::of(model, &scene);
            all_slow.iter_mut().for_each(|slow| devices.explain(slow, now));
        }
        for mut slow in all_slow {
            let n_processes = real(scene.n_processes as u64);
            match watched.held.get_mut(&slow.subject) {
                Some(held) => {
                    held.see(slow, now);
                    held.rank_seconds += held.slow.part() * passed.as_secs_f64() * n_processes;
                }
                None => {
                    let began = slow.began.unwrap_or(now);
                    slow.settle();
                    let rank_seconds = slow.part() * now.since(began).as_secs_f64() * n_processes;
                    let (subject, asked) = (slow.subject.clone(), (Timestamp(0), 0));
                    let held = Held { slow, began, first: now, last: now, looks: 1, rank_seconds, asked };
                    watched.held.insert(subject, held);
                }
            }
        }
        let stays = |held: &Held| STAYS.max(held.slow.step.saturating_mul(STAYS_STEPS));
        watched.held.retain(|_, held| now >= held.last && now.since(held.last) < stays(held));
        let is_sure = |held: &&mut Held| held.looks >= LOOKS && now.since(held.first) >= SETTLES;
        let mut judgements = Vec::new();
        for held in watched.held.values_mut().filter(is_sure) {
            if self.look && held.slow.kind != FindingKind::OtherWork && held.asks(now) {
                self.wanted.push(Wanted { process: Arc::clone(&held.slow.process), what: Want::Watch });
            }
            judgements.push(words::judgement(model, &held.slow, held.began, held.cost(), scene.n_processes));
        }
        self.wanted.truncate(WANTED_MAX);
        let is_explained = judgements.iter().any(|found| found.kind != FindingKind::OtherWork);
        let seen = (&scene, hardware, is_explained);
        let was_raised = watched.collectives.wants_steps(now);
        judgements.extend(watched.collectives.look(model, (name, job), seen, self.n_raised, (passed, now)));
        self.n_raised += usize::from(!was_raised && watched.collectives.wants_steps(now));
        let small = watched.small.look(model, job, (&scene, &mut self.fastest), (passed, now));
        let told = small.map(|(small, began, cost)| words::too_small(small, began, cost, scene.n_processes));
        judgements.extend(told);
        judgements
    }
}

impl Watched {
    /// Enough are most of them, or, of a job that was watched for a while and of which not all can be heard, half of those that once were.
    fn hear(&mut self, scene: &Scene<'_>, now: Timestamp) {
        if self.first == Timestamp::default() || now < self.first {
            (self.first, self.heard_since) = (now, None);
        }
        self.most_heard = self.most_heard.max(scene.n_heard).min(scene.n_processes);
        let is_half = 2 * scene.n_heard >= self.most_heard && now.since(self.first) >= ALL_HEARD_AFTER;
        let is_enough = scene.n_heard > 0 && (2 * scene.n_heard > scene.n_processes || is_half);
        self.heard_since = is_enough.then_some(self.heard_since.unwrap_or(now));
    }

    /// To whom somebody sends, of each communicator of which that is not known.
    fn ask_for_peers(&mut self, scene: &Scene<'_>, now: Timestamp) -> Vec<Wanted> {
        self.asked_peers.retain(|comm, _| scene.unknown_peers.contains_key(comm));
        let mut wanted = Vec::new();
        for (comm, (process, local_id)) in &scene.unknown_peers {
            let asked = self.asked_peers.entry(*comm).or_default();
            if now.since(*asked) >= ASKED_LATER && wanted.len() < PEERS_ASKED {
                *asked = now;
                wanted
                    .push(Wanted { process: Arc::clone(process), what: Want::Pairs { local_id: *local_id } });
            }
        }
        wanted
    }
}

impl Held {
    /// A GPU is read seldom, and may have nothing to do just then: what it said once stays said.
    fn see(&mut self, slow: Slow, now: Timestamp) {
        let before = std::mem::replace(&mut self.slow, slow);
        if self.slow.kind == FindingKind::ComputeStraggler && before.device.is_some() {
            (self.slow.kind, self.slow.device) = (before.kind, before.device);
        }
        // What was before is forgotten after some minutes.
        self.slow.since = before.since;
        self.slow.step_before = before.step_before;
        self.slow.settle();
        (self.last, self.looks) = (now, self.looks + 1);
    }

    /// A slow one is seen in its own time sooner or later, and not in the collective that it is in as well.
    fn asks(&mut self, now: Timestamp) -> bool {
        let (at, times) = self.asked;
        let is_due = now.since(at) >= if times < ASKED_SOON { ASKED_EVERY } else { ASKED_LATER };
        if is_due {
            self.asked = (now, times.saturating_add(1));
        }
        is_due
    }

    fn cost(&self) -> Cost {
        Cost {
            seconds_per_step: self.slow.lost.as_secs_f64(),
            percent: self.slow.share * 100.0,
            rank_hours: self.rank_seconds / 3600.0,
            alone_seconds_per_step: self.slow.beside.as_ref().map(|beside| beside.alone.as_secs_f64()),
        }
    }
}

/// Between two looks at a job: what a look costs grows with its processes.
fn pause(n_processes: usize) -> Duration {
    let each = Duration::from_micros(40);
    each.saturating_mul(u32::try_from(n_processes).unwrap_or(u32::MAX)).clamp(PAUSE, LONGEST_PAUSE)
}

/// A little less than a tick.
const PAUSE: Duration = Duration::from_millis(900);
/// A little less than four ticks.
const LONGEST_PAUSE: Duration = Duration::from_millis(3_900);
/// So many looks have to find somebody slow ...
const LOOKS: u32 = 3;
/// ... over at least so long.
const SETTLES: Duration = Duration::from_millis(1_800);
/// Who is found no more is slow no more after this ...
const STAYS: Duration = Duration::from_secs(10);
/// ... or so many steps.
const STAYS_STEPS: u32 = 8;
/// The stacks of a slow one are asked for so often ...
const ASKED_SOON: u32 = 5;
/// ... with so long in between ...
const ASKED_EVERY: Duration = Duration::from_secs(4);
/// ... and then every minute.
const ASKED_LATER: Duration = Duration::from_secs(60);
/// Communicators of one job of which it is asked at one look to whom their ranks send.
const PEERS_ASKED: usize = 16;
/// After a restart agents that are ever heard of have come by then.
const ALL_HEARD_AFTER: Duration = Duration::from_secs(60);
/// How long it takes to find again what was found before a restart.
const SURE_AFTER: Duration = Duration::from_secs(20);
/// Between two totals of a job that are handed out, at least ...
const SAMPLE_EVERY: Duration = Duration::from_secs(10);
/// ... and so long for each job: ten rows of some bytes a second.
const SAMPLES_APART: Duration = Duration::from_millis(100);
/// Questions that wait to be put.
const WANTED_MAX: usize = 256;
