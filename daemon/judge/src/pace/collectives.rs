//! What is wrong with a job's collectives themselves: they take longer than they did, or a link is slower than its like. For the latter
//! each network step is asked for, for a while, and then not for long.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ringscope_api::Cost;
use ringscope_api::clock::Timestamp;
use ringscope_model::{Job, Model, Name, real};

use super::links::{Links, SlowWay, Way};
use super::past::{Past, Slowdown, least_own};
use super::scene::Scene;
use super::words;
use crate::judgement::Judgement;

/// What is in trouble with the hardware of a host now: in words that can follow its name, and the NIC.
pub(in super::super) type Hardware<'h> = dyn Fn(&Name) -> Option<(String, Option<Name>)> + 'h;

/// The collectives of one job.
#[derive(Default)]
pub(super) struct Collectives {
    past: Past,
    /// Seconds that all ranks together have lost since the job became slower.
    lost_rank_s: f64,
    links: Links,
    slow_ways: Vec<HeldWay>,
    detail: Detail,
}

/// A way that was found slow.
struct HeldWay {
    slow: SlowWay,
    first: Timestamp,
    last: Timestamp,
    looks: u32,
}

/// When each network step of a job is asked for.
#[derive(Default)]
struct Detail {
    until: Timestamp,
    next: Timestamp,
    /// Whether the job was slower than before at the last look.
    was_slower: bool,
}

impl Collectives {
    /// Whether each network step is wanted.
    pub(super) fn wants_steps(&self, now: Timestamp) -> bool {
        now < self.detail.until
    }

    /// Looks at them. `passed`: since the last look.
    pub(super) fn look(
        &mut self,
        model: &Model,
        job: &Job,
        (scene, hardware): (&Scene<'_>, &Hardware<'_>),
        (passed, now): (Duration, Timestamp),
    ) -> Vec<Judgement> {
        let mut judgements = Vec::new();
        let slowdown = self.past.look(scene, now);
        let cost = slowdown.map(|slow| self.cost(slow, scene.n_processes, passed));
        match slowdown.zip(cost) {
            Some((slow, cost)) => {
                judgements.push(words::slowdown(
                    &slow,
                    cost,
                    &trouble(model, job, hardware),
                    scene.n_processes,
                ));
            }
            None => self.lost_rank_s = 0.0,
        }
        self.look_at_links(model, job, now);
        self.detail.ask(slowdown.is_some(), !self.slow_ways.is_empty(), least_own(scene), now);
        for held in self.slow_ways.iter().filter(|held| held.looks >= WAY_LOOKS) {
            judgements.push(words::slow_link(model, &held.slow, held.first, cost, scene.n_processes));
        }
        judgements
    }

    fn cost(&mut self, slow: Slowdown, n_processes: usize, passed: Duration) -> Cost {
        self.lost_rank_s += slow.share * passed.as_secs_f64() * real(n_processes as u64);
        Cost {
            seconds_per_step: slow.takes.saturating_sub(slow.took).as_secs_f64(),
            percent: slow.share * 100.0,
            rank_hours: self.lost_rank_s / 3600.0,
        }
    }

    fn look_at_links(&mut self, model: &Model, job: &Job, now: Timestamp) {
        if let Some(slow) = self.links.look(model, job, now) {
            let found: Vec<Way> = slow.iter().map(|slow| slow.way.clone()).collect();
            for slow in slow {
                match self.slow_ways.iter_mut().find(|held| held.slow.way == slow.way) {
                    Some(held) => (held.slow, held.last, held.looks) = (slow, now, held.looks + 1),
                    None => self.slow_ways.push(HeldWay { slow, first: now, last: now, looks: 1 }),
                }
            }
            // Once is chance. Who was found more often may be missed once.
            let stays = |held: &HeldWay| {
                found.contains(&held.slow.way) || held.looks >= WAY_LOOKS && now.since(held.last) < WAY_MISSED
            };
            self.slow_ways.retain(stays);
        }
        // What nobody has looked at since stays as it was, until the next look at each step.
        self.slow_ways.retain(|held| now.since(held.last) < WAY_STAYS);
    }
}

fn trouble(model: &Model, job: &Job, hardware: &Hardware<'_>) -> Vec<words::Trouble> {
    let hosts: BTreeSet<&Name> =
        job.processes(model).filter_map(|process| Some(&process.identity()?.host)).collect();
    let trouble = hosts.into_iter().filter_map(|host| {
        let (words, nic) = hardware(host)?;
        Some((Arc::clone(host), words, nic))
    });
    trouble.take(HOSTS_NAMED).collect()
}

impl Detail {
    /// `least_own`: of a job that is hardly in collectives nothing is asked.
    fn ask(&mut self, is_slower: bool, is_found: bool, least_own: f64, now: Timestamp) {
        let was_slower = std::mem::replace(&mut self.was_slower, is_slower);
        let is_new = is_slower && !was_slower;
        let is_due = now >= self.next && least_own < 1.0 - IN_COLLECTIVES;
        if now < self.until || !(is_due || is_new) {
            return;
        }
        let pause = if is_found || is_slower { PAUSE } else { PAUSE_CALM };
        (self.until, self.next) = (later(now, STEPS_FOR), later(now, STEPS_FOR + pause));
    }
}

fn later(now: Timestamp, time: Duration) -> Timestamp {
    Timestamp(now.0.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
}

/// Looks that have to find the same way slow.
const WAY_LOOKS: u32 = 3;
/// A way that is looked at and not found slow is slow no more after so long.
const WAY_MISSED: Duration = Duration::from_secs(10);
/// One that nobody has looked at stays slow for so long: until after the next time that each step is asked for.
const WAY_STAYS: Duration = Duration::from_secs(150);
/// Share of the time in collectives from which on it is worth while to ask for each network step ...
const IN_COLLECTIVES: f64 = 0.25;
/// ... for so long: some readings, after agents have heard of it ...
const STEPS_FOR: Duration = Duration::from_secs(18);
/// ... then not for so long, of a job that is slower than it was or has a slow link: with the 15 s that a level stays raised, a
/// quarter of its time ...
const PAUSE: Duration = Duration::from_secs(120);
/// ... and of any other: one in seventeen.
const PAUSE_CALM: Duration = Duration::from_secs(560);
/// Hosts in trouble that are named.
const HOSTS_NAMED: usize = 8;
