//! Jobs under the judge of hangs: each has a judge that remembers, and is looked at once a second and when something
//! in it cannot wait.

mod culprits_gone;
mod gave_up;
mod kept;
mod member;
mod numbers;
mod scene;
#[cfg(test)]
mod tests;
mod told;

pub use told::{Want, Wanted};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::{Finding, FindingState, Severity};
use ringscope_model::{Job, Model, Name, ProcessState};

use super::guard::Guard;
use super::hangs::{Judge, Settings, Wait};
use super::judgement::Judgement;
use super::ledger::ENDED_WELL;
use super::scope::{is_of_job, wait_ids};

/// The jobs that are judged.
#[derive(Default)]
pub(super) struct Jobs {
    watched: BTreeMap<Name, Watched>,
    settings: Settings,
    /// Until when jobs wait for agents to speak that spoke to the daemon before this one.
    held_until: Timestamp,
    /// Jobs of which the store remembers something, until the first look.
    restored: BTreeMap<Name, Watched>,
    left_out: BTreeMap<&'static str, u64>,
    guard: Guard,
}

/// One job.
#[derive(Default)]
struct Watched {
    judge: Judge,
    judged: Timestamp,
    wanted: Vec<Wanted>,
    raise: bool,
    kept: kept::Kept,
    /// Newer readings may tell more: it is not left alone until the next second.
    unsettled: bool,
    /// The last look found nothing, and nothing has rung since.
    is_calm: bool,
}

/// What a look at a job gave.
pub(super) struct Look {
    pub(super) job: Name,
    pub(super) judgements: Vec<Judgement>,
    /// Ids of findings about waits that have ended well.
    pub(super) ended_well: Vec<String>,
    /// Ids of findings that were not found again, and of which nobody knows whether they have ended.
    pub(super) held: Vec<String>,
}

impl Jobs {
    /// Whether culprits are looked at.
    pub(super) fn set_look(&mut self, look: bool) {
        self.settings.look = look;
    }

    /// Takes a finding that the store kept.
    pub(super) fn restore(&mut self, finding: &Finding) {
        let ended = finding.resolved_at.filter(|_| finding.state == FindingState::Resolved);
        let ended_well = finding.details.iter().any(|detail| detail.title == ENDED_WELL);
        if let Some(ended) = ended.filter(|_| ended_well) {
            let lasted = ended.since(finding.began_at.unwrap_or(finding.first_seen));
            let job = self.restored.entry(finding.job.as_str().into()).or_default();
            job.judge.restore_wait(lasted, &self.settings);
        }
        let fires = finding.state == FindingState::Firing && finding.severity >= Severity::Warning;
        if fires && is_of_job(finding.finding) && finding.group.is_none() && !finding.imported {
            self.restored.entry(finding.job.as_str().into()).or_default().kept.restore(finding);
        }
    }

    /// From now on agents are waited for that spoke to the daemon before this one.
    pub(super) fn hold(&mut self, now: Timestamp) {
        self.held_until = Timestamp(now.0.saturating_add(HELD_NS));
    }

    /// Looks at every job that may have changed, time included. Of one that waits for its agents there is no look.
    pub(super) fn look_at_all(
        &mut self,
        model: &Model,
        hardware: &dyn Fn(&Name) -> Option<String>,
        now: Timestamp,
    ) -> Vec<Look> {
        self.watched.retain(|name, _| model.job(name).is_some());
        self.guard.retain(|name| model.job(name).is_some());
        self.restored.retain(|name, _| model.job(name).is_some() || now < self.held_until);
        let jobs = model.jobs().filter(|(_, job)| job.processes(model).next().is_some());
        jobs.filter(|job| !self.is_left_alone(*job, now))
            .collect::<Vec<_>>()
            .into_iter()
            .filter_map(|job| self.look_guarded(model, job, hardware, now))
            .collect()
    }

    /// Whether a job need not be looked at in this second: one of very many processes in which nothing was wrong just now.
    fn is_left_alone(&self, (name, job): (&Name, &Job), now: Timestamp) -> bool {
        let watched = self.watched.get(name).filter(|watched| watched.is_calm && now >= watched.judged);
        watched.is_some_and(|watched| now.since(watched.judged) < calm_pause(job.n_processes()))
    }

    /// Looks at those of these jobs, and of those that are unsettled, that were not looked at just now.
    pub(super) fn look_at(
        &mut self,
        model: &Model,
        alarmed: &BTreeSet<Name>,
        hardware: &dyn Fn(&Name) -> Option<String>,
        now: Timestamp,
    ) -> Vec<Look> {
        for name in alarmed {
            if let Some(watched) = self.watched.get_mut(name) {
                watched.is_calm = false;
            }
        }
        let due = |job: &(&Name, &Job)| {
            let judged = self.watched.get(job.0).map_or(Timestamp(0), |watched| watched.judged);
            now.since(judged) >= pause(job.1.n_processes())
        };
        let unsettled = self.watched.iter().filter(|(_, watched)| watched.unsettled).map(|(name, _)| name);
        let names: BTreeSet<&Name> = alarmed.iter().chain(unsettled).collect();
        let jobs: Vec<(&Name, &Job)> =
            names.into_iter().filter_map(|name| model.job(name)).filter(due).collect();
        jobs.into_iter().filter_map(|job| self.look_guarded(model, job, hardware, now)).collect()
    }

    fn look_guarded(
        &mut self,
        model: &Model,
        job: (&Name, &Job),
        hardware: &dyn Fn(&Name) -> Option<String>,
        now: Timestamp,
    ) -> Option<Look> {
        let mut guard = std::mem::take(&mut self.guard);
        let looked = if guard.is_shut(job.0, now) {
            None
        } else {
            guard.look(job.0, now, || self.look(model, job, hardware, now))
        };
        if looked.is_none() {
            self.watched.remove(job.0);
        }
        self.guard = guard;
        looked.flatten()
    }

    fn look(
        &mut self,
        model: &Model,
        job: (&Name, &Job),
        hardware: &dyn Fn(&Name) -> Option<String>,
        now: Timestamp,
    ) -> Option<Look> {
        let name = job.0;
        if now < self.held_until && model.n_unheard(name) > 0 || is_only_stored(model, job.1) {
            return None;
        }
        let watched = self
            .watched
            .entry(Arc::clone(name))
            .or_insert_with(|| self.restored.remove(name).unwrap_or_default());
        let is_first = watched.judged == Timestamp(0);
        if !is_first && !may_change(model, job.1, watched.judged, now) {
            return None;
        }
        watched.judged = now;
        let taken = scene::take(model, job, hardware, now);
        let verdict = watched.judge.look(&taken.scene, &self.settings);
        for (reason, events) in &verdict.left_out {
            count(&mut self.left_out, reason, *events);
        }
        // A judge asks once: what nobody has taken yet is still wanted.
        watched.wanted.extend(told::wanted(&verdict, &taken));
        watched.wanted.truncate(WANTED_MAX);
        watched.raise = verdict.raise;
        watched.unsettled = verdict.unsettled;
        watched.is_calm = !verdict.unsettled && verdict.judgements.is_empty() && verdict.asks.is_empty();
        let mut judgements = told::judgements(&verdict, &taken);
        let witnesses = told::witnesses(&verdict, &taken);
        watched.kept.add(&mut judgements, witnesses, &taken, &self.settings);
        let held = watched.kept.held(&taken, &self.settings);
        watched.is_calm &= held.is_empty();
        let ids = |wait: &Wait| wait_ids(name, &wait.communicator, wait.kind, &wait.key);
        let ended_well = verdict.ended_well.iter().flat_map(ids).collect();
        Some(Look { job: Arc::clone(name), judgements, ended_well, held })
    }

    /// Every question of all jobs, once.
    pub(super) fn take_wanted(&mut self) -> Vec<Wanted> {
        self.watched.values_mut().flat_map(|watched| std::mem::take(&mut watched.wanted)).collect()
    }

    /// The jobs of which more is to be asked of their libraries.
    pub(super) fn raised(&self) -> impl Iterator<Item = &Name> {
        self.watched.iter().filter(|(_, watched)| watched.raise).map(|(name, _)| name)
    }

    /// When the last look at a job panicked. `None`: it did not.
    pub(super) fn failed_at(&self, job: &Name) -> Option<Timestamp> {
        self.guard.failed_at(job)
    }

    /// Looks that panicked; cumulative.
    pub(super) fn n_panics(&self) -> u64 {
        self.guard.n_panics()
    }

    /// Counts what was left out.
    pub(super) fn leave_out(&mut self, reason: &'static str, events: u64) {
        count(&mut self.left_out, reason, events);
    }

    /// What was left out, by reason; cumulative.
    pub(super) fn left_out(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.left_out.iter().map(|(reason, events)| (*reason, *events))
    }
}

fn count(left_out: &mut BTreeMap<&'static str, u64>, reason: &'static str, events: u64) {
    let entry = left_out.entry(reason).or_default();
    *entry = entry.saturating_add(events);
}

/// Whether a look can say anything new: time alone changes nothing of files, nor of a job that is over for long.
fn may_change(model: &Model, job: &Job, judged: Timestamp, now: Timestamp) -> bool {
    job.processes(model).any(|process| match process.state() {
        ProcessState::Imported => process.heard() >= judged,
        _ => process.ended().is_none_or(|ended| now.since(ended) < OVER_AFTER || process.heard() >= judged),
    })
}

/// Whether the job came from files that an earlier daemon read. Not all that they said is stored, and nobody will say it
/// again: what was found then goes on to hold.
fn is_only_stored(model: &Model, job: &Job) -> bool {
    job.processes(model)
        .all(|process| process.state() == ProcessState::Imported && model.agent_of(process).is_none())
}

/// Time between two looks at a job of so many processes that are not the tick's: so that looks at a large one take a
/// small part of the time, however often its agents ring.
fn pause(n_processes: usize) -> Duration {
    let each = Duration::from_micros(100);
    PAUSE + each.saturating_mul(u32::try_from(n_processes).unwrap_or(u32::MAX))
}

/// The same of the tick's looks while nothing is wrong: up to some 25 000 processes each of them is due, and every fourth one of
/// the largest jobs, so that what is wrong there is seen some seconds later.
fn calm_pause(n_processes: usize) -> Duration {
    let each = Duration::from_micros(36);
    each.saturating_mul(u32::try_from(n_processes).unwrap_or(u32::MAX)).min(CALM_PAUSE_MAX)
}

/// A little less than four ticks.
const CALM_PAUSE_MAX: Duration = Duration::from_millis(3_600);
/// Questions of one job that wait to be put; those of a few looks.
const WANTED_MAX: usize = 256;
/// Time between two looks at a small job.
const PAUSE: Duration = Duration::from_millis(200);
/// A job is over for good that long after its last process ended: longer than anything is told of that has ended.
const OVER_AFTER: Duration = Duration::from_secs(240);
/// How long a daemon that has just started waits for the agents of a job before it judges without them: three
/// heartbeats.
const HELD_NS: u64 = 15_000_000_000;
