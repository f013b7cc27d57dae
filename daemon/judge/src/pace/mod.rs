//! How fast jobs go, and who makes the others slow: whose own time, outside of all collectives, is longer than that of those who do the
//! same work. A collective makes its ranks' steps equally long; their own times differ. Of one clock each, so no clock matters.
//! Pure, but for what it remembers from look to look.

mod accounts;
mod collectives;
mod links;
mod measured;
mod outliers;
mod past;
mod scene;
mod slow;
#[cfg(test)]
mod tests;
mod words;

pub use accounts::{Account, accounts};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ringscope_api::Cost;
use ringscope_api::clock::Timestamp;
use ringscope_model::{Job, Model, Name, real};

use self::collectives::{Collectives, Hardware};
use self::scene::Scene;
use self::slow::{Slow, Subject};
use super::jobs::{Want, Wanted};
use super::judgement::Judgement;

/// The jobs whose pace is judged.
#[derive(Default)]
pub(super) struct Paces {
    watched: BTreeMap<Name, Watched>,
    wanted: Vec<Wanted>,
    look: bool,
}

/// One job.
#[derive(Default)]
struct Watched {
    judged: Timestamp,
    held: BTreeMap<Subject, Held>,
    collectives: Collectives,
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
        let is_due = |(name, job): &(&Name, &Job)| {
            let judged = self.watched.get(*name).map_or(Timestamp(0), |watched| watched.judged);
            now.since(judged) >= pause(job.n_processes()) || now < judged
        };
        let due: Vec<(&Name, &Job)> = model.jobs().filter(is_due).collect();
        let look = |(name, job)| (Arc::clone(name), self.look(model, (name, job), hardware, now));
        due.into_iter().map(look).collect()
    }

    /// The jobs of which each network step is wanted now.
    pub(super) fn raised(&self) -> impl Iterator<Item = &Name> {
        let watched =
            self.watched.iter().filter(|(_, watched)| watched.collectives.wants_steps(watched.judged));
        watched.map(|(name, _)| name)
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
        for slow in slow::find(&scene) {
            let began = slow.began.unwrap_or(now);
            let held = watched.held.entry(slow.subject.clone()).or_insert_with(|| Held {
                slow: slow.clone(),
                began,
                first: now,
                last: now,
                looks: 0,
                rank_seconds: slow.share * now.since(began).as_secs_f64() * real(scene.n_processes as u64),
                asked: (Timestamp(0), 0),
            });
            held.rank_seconds += slow.share * passed.as_secs_f64() * real(scene.n_processes as u64);
            (held.slow, held.last, held.looks) = (slow, now, held.looks + 1);
        }
        let stays = STAYS.max(scene.step().saturating_mul(STAYS_STEPS));
        watched.held.retain(|_, held| now.since(held.last) < stays);
        let is_sure = |held: &&mut Held| held.looks >= LOOKS && now.since(held.first) >= SETTLES;
        let mut judgements = Vec::new();
        for held in watched.held.values_mut().filter(is_sure) {
            if self.look && held.asks(now) {
                self.wanted.push(Wanted { process: Arc::clone(&held.slow.process), what: Want::Look });
            }
            judgements.push(words::judgement(model, &held.slow, held.began, held.cost(), scene.n_processes));
        }
        self.wanted.truncate(WANTED_MAX);
        judgements.extend(watched.collectives.look(model, job, (&scene, hardware), (passed, now)));
        judgements
    }
}

impl Held {
    /// A slow one is seen in its own time sooner or later, and not in the collective that it is in as well.
    fn asks(&mut self, now: Timestamp) -> bool {
        let (at, times) = self.asked;
        let is_due = times < ASKED_AT_MOST && now.since(at) >= ASKED_EVERY;
        if is_due {
            self.asked = (now, times + 1);
        }
        is_due
    }

    fn cost(&self) -> Cost {
        Cost {
            seconds_per_step: self.slow.lost.as_secs_f64(),
            percent: self.slow.share * 100.0,
            rank_hours: self.rank_seconds / 3600.0,
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
/// The stacks of a slow one are asked for so often, at most ...
const ASKED_AT_MOST: u32 = 5;
/// ... with so long in between.
const ASKED_EVERY: Duration = Duration::from_secs(4);
/// Questions that wait to be put.
const WANTED_MAX: usize = 256;
