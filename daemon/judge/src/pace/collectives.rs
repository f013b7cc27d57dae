//! What is wrong with a job's collectives themselves: they take longer than they did, or links are slower than their like. For the latter
//! each network step is asked for, for a while, and then not for long.

use std::time::Duration;

use ringscope_api::Cost;
use ringscope_api::clock::Timestamp;
use ringscope_model::{Job, Model, Name, real};

use super::kept::PaceMemory;
use super::links::Links;
use super::nics::{Hardware, Known, is_proof};
use super::past::{Past, Slowdown};
use super::scene::Scene;
use super::shared::{self, Fault, SlowWay, Subject};
use super::{ways, words};
use crate::judgement::Judgement;

/// The collectives of one job.
#[derive(Default)]
pub(super) struct Collectives {
    past: Past,
    /// Seconds that all ranks together have lost since the job became slower.
    lost_rank_s: f64,
    links: Links,
    faults: Vec<Held>,
    /// NICs of which the rate fell when the job became slower.
    told: Vec<Fault>,
    detail: Detail,
}

/// Slow ways that were found.
struct Held {
    fault: Fault,
    first: Timestamp,
    /// When it, or a part of it, was found last.
    last: Timestamp,
    looks: u32,
    /// Looks that did not find it itself since one that did.
    missed: u32,
    /// Whether enough looks have found it.
    is_told: bool,
}

/// When each network step of a job is asked for.
#[derive(Default)]
struct Detail {
    until: Timestamp,
    /// When next out of turn, at the earliest.
    next_new: Timestamp,
    /// Whether the job was slower than before at the last look.
    was_slower: bool,
}

impl Collectives {
    /// Whether each network step is wanted.
    pub(super) fn wants_steps(&self, now: Timestamp) -> bool {
        now < self.detail.until && self.detail.until.since(now) <= STEPS_FOR
    }

    /// What takes long to learn. `None`: it is not learned yet.
    pub(super) fn memory(&self) -> Option<PaceMemory> {
        self.past.memory(self.lost_rank_s)
    }

    /// Knows it again.
    pub(super) fn restore(&mut self, memory: &PaceMemory) {
        self.lost_rank_s = self.past.restore(memory);
    }

    /// Looks at them. `is_explained`: somebody is slow. `passed`: since the last look.
    pub(super) fn look(
        &mut self,
        model: &Model,
        (name, job): (&Name, &Job),
        (scene, hardware, is_explained): (&Scene<'_>, &Hardware<'_>, bool),
        n_raised: usize,
        (passed, now): (Duration, Timestamp),
    ) -> Vec<Judgement> {
        let known = Known { model, hardware };
        let mut judgements = Vec::new();
        let slowdown = self.past.look(scene, is_explained, now);
        // Of a time of which nobody tells nobody knows what it cost.
        let passed = if scene.n_heard > 0 { passed } else { Duration::ZERO };
        let cost = slowdown.map(|slow| self.cost(slow, scene.n_processes, passed));
        match slowdown.zip(cost) {
            Some((slow, cost)) => {
                let ails = known.ails_of(job, slow.since);
                judgements.push(words::slowdown(name, &slow, cost, &ails, scene.n_processes));
                let ails = ails.into_iter().filter(|(_, ail)| is_proof(ail));
                self.told = ails.map(|(host, ail)| Fault::told(host, ail)).collect();
            }
            None => {
                self.lost_rank_s = 0.0;
                self.told.clear();
            }
        }
        self.look_at_links(model, job, &known, now);
        let seems_slower = slowdown.is_some() || self.past.seems_slower();
        self.detail.ask((seems_slower, !self.faults.is_empty()), n_raised, scene.least_own(), now);
        let enough = if seems_slower { FAULT_LOOKS_SLOWER } else { FAULT_LOOKS };
        self.faults.iter_mut().for_each(|held| held.is_told |= held.looks >= enough);
        let found = self.faults.iter().filter(|held| held.is_told);
        let found: Vec<(&Fault, Timestamp)> = found.map(|held| (&held.fault, held.first)).collect();
        let is_found = |told: &Fault| found.iter().any(|(fault, _)| fault.is_of_nic(told));
        let told = self.told.iter().filter(|told| !is_found(told)).map(|told| (told, now));
        for (fault, first) in found.iter().copied().chain(told) {
            judgements.push(ways::judgement(model, fault, first, cost, scene.n_processes));
        }
        judgements
    }

    fn cost(&mut self, slow: Slowdown, n_processes: usize, passed: Duration) -> Cost {
        self.lost_rank_s += slow.share * passed.as_secs_f64() * real(n_processes as u64);
        Cost {
            seconds_per_step: slow.takes.saturating_sub(slow.took).as_secs_f64(),
            percent: slow.share * 100.0,
            rank_hours: self.lost_rank_s / 3600.0,
            alone_seconds_per_step: None,
        }
    }

    fn look_at_links(&mut self, model: &Model, job: &Job, known: &Known<'_, '_>, now: Timestamp) {
        if let Some(busy) = self.links.look(model, job, now) {
            let found = shared::find(&busy, known);
            // What its ways have in common is told once, for as long as it holds.
            let is_part = |link: &Fault, whole: &Fault| {
                matches!(link.subject, Subject::Link(_)) && link.subject != whole.subject && link.is_of(whole)
            };
            for fault in found {
                let whole = self.faults.iter_mut().find(|held| {
                    held.fault.subject == fault.subject
                        || held.is_told && held.missed < FAULT_MISSED && is_part(&fault, &held.fault)
                });
                match whole {
                    Some(held) => held.see(fault, now),
                    None => {
                        let parts = self.faults.iter().filter(|held| is_part(&held.fault, &fault));
                        let looks = parts.map(|held| held.looks).max().unwrap_or_default() + 1;
                        self.faults.retain(|held| !is_part(&held.fault, &fault));
                        let (missed, is_told) = (0, false);
                        self.faults.push(Held { fault, first: now, last: now, looks, missed, is_told });
                    }
                }
            }
            // Once is chance. What is told may be missed for some looks.
            self.faults.iter_mut().for_each(|held| held.missed += u32::from(held.last != now));
            self.faults.retain(|held| held.last == now || held.is_told && held.missed < FAULT_MISSED);
        }
        // What nobody has looked at since stays as it was, until the next look at each step; not after its communicators.
        let goes_on = |slow: &SlowWay| {
            let communicator = model.communicator(slow.busy.way.comm);
            communicator.is_some_and(|known| known.ranks(model).any(|rank| rank.ended().is_none()))
        };
        // A clock that was set back makes the last time one that is to come.
        let is_of_late = |held: &Held| now >= held.last && now.since(held.last) < FAULT_STAYS;
        self.faults.retain(|held| is_of_late(held) && held.fault.ways.iter().any(goes_on));
    }
}

impl Held {
    /// The same once more: it, or a part of it. Several of one look are told together.
    fn see(&mut self, fault: Fault, now: Timestamp) {
        let is_itself = fault.subject == self.fault.subject;
        let is_again = self.last == now;
        if is_itself && is_again && self.missed == 0 {
            self.fault.ways.extend(fault.ways);
            self.fault.ways.sort_by(|one, other| other.busy.wire_ns.total_cmp(&one.busy.wire_ns));
        } else if is_itself {
            (self.fault, self.missed) = (fault, 0);
        } else if !is_again {
            self.missed += 1;
        }
        self.looks += u32::from(!is_again);
        self.last = now;
    }
}

impl Detail {
    /// `n_raised`: jobs of which it is asked now. `least_own`: of a job that is hardly in collectives nothing is asked, unless it became
    /// slower.
    fn ask(&mut self, (is_slower, is_found): (bool, bool), n_raised: usize, least_own: f64, now: Timestamp) {
        // A job at the edge is slower and is not, again and again: out of turn it is asked for seldom.
        let is_new = is_slower && !self.was_slower && now >= self.next_new;
        if self.until.since(now) > STEPS_FOR {
            // The clock was set back.
            *self = Self { was_slower: self.was_slower, ..Self::default() };
        }
        let pause = if is_found || is_slower { PAUSE } else { PAUSE_CALM };
        let is_first = self.until == Timestamp::default();
        let is_due = (is_first || now >= later(self.until, pause)) && least_own < 1.0 - IN_COLLECTIVES;
        let asks = now >= self.until && (is_due || is_new);
        // Who is slower goes first. Who finds no room asks again at the next look.
        let room = if is_slower { MAX_RAISED } else { MAX_RAISED / 2 };
        if asks && n_raised >= room {
            return;
        }
        self.was_slower = is_slower;
        if !asks {
            return;
        }
        if !is_due {
            self.next_new = later(now, STEPS_FOR + PAUSE_CALM);
        }
        self.until = later(now, STEPS_FOR);
    }
}

fn later(now: Timestamp, time: Duration) -> Timestamp {
    Timestamp(now.0.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
}

/// Looks that have to find the same slow: of a job that is slower than it was fewer.
const FAULT_LOOKS: u32 = 3;
const FAULT_LOOKS_SLOWER: u32 = 2;
/// What is looked at and not found slow is slow no more after so many looks.
const FAULT_MISSED: u32 = 4;
/// Jobs of which each network step is asked for at once; hangs go first.
const MAX_RAISED: usize = 32;
/// What nobody has looked at stays slow for so long: until after the next time that each step is asked for.
const FAULT_STAYS: Duration = Duration::from_secs(230);
/// Share of the time in collectives from which on it is worth while to ask for each network step ...
const IN_COLLECTIVES: f64 = 0.25;
/// ... for so long: some readings, after agents have heard of it ...
const STEPS_FOR: Duration = Duration::from_secs(18);
/// ... then not for so long, of a job that is slower than it was or has a slow link: with the 15 s that a level stays raised, a
/// sixth of its time, and once in thirteen minutes out of turn ...
const PAUSE: Duration = Duration::from_secs(180);
/// ... and of any other: one part in 24. Where many small operations share two processors with agent and daemon that costs a job 10 % and
/// 2.5 % (BENCHMARKS.md).
const PAUSE_CALM: Duration = Duration::from_secs(760);
