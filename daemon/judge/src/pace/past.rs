//! Whether a job's collectives take longer than they did. What they take is the least time in collectives of any rank: who comes last
//! waits for nobody, so a slow rank makes it no longer. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_model::{Name, real};

use super::kept::{PaceMemory, SlowMemory};
use super::outliers::quantiles;
use super::scene::{Rank, Scene};

/// What a job's collectives took per step, look by look.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// While nothing was wrong, oldest first, in seconds.
    usual_s: VecDeque<f64>,
    /// The newest looks.
    newest_s: VecDeque<f64>,
    /// Some of the processes that were looked at last.
    members: Vec<Name>,
    operations_per_step: u64,
    n_ranks: usize,
    /// Of one operation.
    bytes: f64,
    /// Whether these are times of the device.
    is_device: bool,
    since: Option<Timestamp>,
    /// What the last look found.
    fires: Option<Slowdown>,
    /// Looks since it seems to be another job, since it is as fast as usual again, and in a row in which it took longer than usual.
    other: usize,
    calm: usize,
    longer: usize,
}

/// A job that is slower than it was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slowdown {
    /// What collectives take per step, and what they took.
    pub(super) takes: Duration,
    pub(super) took: Duration,
    /// Of the job's time, from 0 to 1.
    pub(super) share: f64,
    pub(super) since: Timestamp,
    pub(super) has_steps: bool,
}

/// What collectives of a class take now.
struct Measure {
    takes_s: f64,
    step: Duration,
    /// By how much that may differ by chance.
    chance_s: f64,
}

impl Measure {
    fn of(class: &[Rank<'_>]) -> Option<Self> {
        // Who comes last changes from step to step where own times are uneven: of few steps each rank has waited in one.
        let first = &class.first()?.measured;
        let per_part = first.n_steps / real(first.parts.len().max(1) as u64);
        let n_parts = (2..=MOST_PARTS).find(|n| real(*n as u64) * per_part >= FEWEST_STEPS)?;
        let of_rank = class.iter().map(|rank| {
            let (own, step) = rank.measured.newest(n_parts)?;
            Some((step.as_secs_f64() * (1.0 - own), step))
        });
        let (takes_s, step) = of_rank.flatten().min_by(|one, other| one.0.total_cmp(&other.0))?;
        let spreads = class.iter().map(|rank| rank.measured.spread.as_secs_f64()).collect();
        let [spread_s] = quantiles(spreads, [50]);
        let chance_s = SURE * spread_s / (real(n_parts as u64) * per_part).max(1.0).sqrt();
        Some(Self { takes_s, step, chance_s })
    }
}

impl Past {
    /// What takes long to learn, of a job whose ranks have lost so much. `None`: it is not learned yet.
    pub(super) fn memory(&self, lost_rank_s: f64) -> Option<PaceMemory> {
        if self.usual_s.len() < FEWEST_USUAL {
            return None;
        }
        let slow = self.fires.map(|fires| SlowMemory {
            since_ns: fires.since.0,
            takes_s: fires.takes.as_secs_f64(),
            took_s: fires.took.as_secs_f64(),
            share: fires.share,
            has_steps: fires.has_steps,
            lost_rank_s,
        });
        Some(PaceMemory {
            operations_per_step: self.operations_per_step,
            n_ranks: self.n_ranks,
            bytes: self.bytes,
            is_device: self.is_device,
            usual_s: self.usual_s.iter().step_by(self.usual_s.len().div_ceil(MOST_KEPT)).copied().collect(),
            slow,
        })
    }

    /// Knows it again. Returns what the job's ranks have lost.
    pub(super) fn restore(&mut self, memory: &PaceMemory) -> f64 {
        let is_time = |s: &f64| s.is_finite() && *s >= 0.0;
        let fires = memory.slow.as_ref().and_then(|slow| {
            Some(Slowdown {
                takes: Duration::try_from_secs_f64(slow.takes_s).ok()?,
                took: Duration::try_from_secs_f64(slow.took_s).ok()?,
                share: slow.share.clamp(0.0, 1.0),
                since: Timestamp(slow.since_ns),
                has_steps: slow.has_steps,
            })
        });
        *self = Self {
            usual_s: memory.usual_s.iter().copied().filter(is_time).take(MOST_USUAL).collect(),
            operations_per_step: memory.operations_per_step,
            n_ranks: memory.n_ranks,
            bytes: memory.bytes,
            is_device: memory.is_device,
            since: fires.map(|fires| fires.since),
            fires,
            ..Self::default()
        };
        memory.slow.as_ref().map(|slow| slow.lost_rank_s).filter(is_time).unwrap_or_default()
    }

    /// Whether the newest looks show what more of them will call a slowdown.
    pub(super) fn seems_slower(&self) -> bool {
        self.longer >= SUSPECT_LOOKS
    }

    /// Takes a look at a job; what is slower than it was. `is_explained`: somebody is slow, for whom the others wait now and then in the
    /// middle of a collective as well, so that nothing can be said of it.
    pub(super) fn look(&mut self, scene: &Scene<'_>, is_explained: bool, now: Timestamp) -> Option<Slowdown> {
        if is_explained {
            (self.fires, self.since, self.longer) = (None, None, 0);
            self.newest_s.clear();
            return None;
        }
        let class =
            scene.classes.iter().reduce(|most, class| if class.len() > most.len() { class } else { most });
        let Some(class) = class.filter(|class| class.len() > 1) else {
            // What nobody tells of is not known to be over; a job that ended, or that calls nothing, is not slow.
            self.fires = self.fires.filter(|_| scene.n_processes > 0 && scene.n_heard == 0);
            return self.fires;
        };
        self.forget_another_life(class, scene);
        let first = &class.first()?.measured;
        let bytes = first.bytes / first.operations.max(f64::MIN_POSITIVE);
        let is_device = scene.is_device;
        // Other calls, other ranks, or times of the other kind, are another job in this respect.
        let is_other = (self.operations_per_step, self.n_ranks, self.is_device)
            != (first.operations_per_step, scene.n_processes, is_device)
            || (bytes - self.bytes).abs() > OTHER_BYTES * self.bytes;
        // One rank's word that is late makes another class the largest for a moment: what was known stays.
        self.other = if is_other { self.other + 1 } else { 0 };
        if is_other && self.other < OTHER_LOOKS && self.operations_per_step > 0 {
            return self.fires;
        }
        let is_long_so =
            self.fires.is_some() && self.since.is_some_and(|since| now.since(since) >= USUAL_AFTER);
        if is_other || is_long_so {
            let (operations_per_step, n_ranks) = (first.operations_per_step, scene.n_processes);
            let members = std::mem::take(&mut self.members);
            *self = Self { members, operations_per_step, n_ranks, bytes, is_device, ..Self::default() };
        }
        let Measure { takes_s, step, chance_s } = Measure::of(class)?;
        self.newest_s.push_back(takes_s);
        if self.newest_s.len() > LOOKS {
            self.newest_s.pop_front();
        }
        if self.usual_s.len() < FEWEST_USUAL {
            self.usual_s.push_back(takes_s);
            return None;
        }
        let [took_s, often_s, seldom_s] = quantiles(self.usual_s.iter().copied().collect(), [50, 75, 90]);
        let [least_s, median_s] = quantiles(self.newest_s.iter().copied().collect(), [0, 50]);
        let most_s = seldom_s.max(LONGER * took_s).max(took_s + chance_s.max(LEAST * step.as_secs_f64()));
        self.longer = if takes_s > most_s { self.longer + 1 } else { 0 };
        if takes_s > seldom_s {
            self.since = self.since.or(Some(now));
        } else if self.fires.is_none() {
            self.since = None;
        }
        // After a restart it takes some looks to say whether it still is so.
        if self.newest_s.len() < LOOKS && self.fires.is_some() {
            return self.fires;
        }
        if self.newest_s.len() < LOOKS || least_s <= often_s || median_s <= most_s {
            // It may be so again at the next look.
            if self.fires.is_some() && self.calm < CALM_LOOKS {
                self.calm += 1;
                return self.fires;
            }
            self.fires = None;
            if takes_s <= LONGER * took_s {
                self.learn(takes_s);
            }
            return None;
        }
        self.calm = 0;
        self.fires = Some(Slowdown {
            takes: Duration::try_from_secs_f64(median_s).ok()?,
            took: Duration::try_from_secs_f64(took_s).ok()?,
            share: ((median_s - took_s) / step.as_secs_f64()).clamp(0.0, 1.0),
            since: self.since.unwrap_or(now),
            has_steps: first.has_steps,
        });
        self.fires
    }

    fn learn(&mut self, takes_s: f64) {
        self.usual_s.push_back(takes_s);
        if self.usual_s.len() > MOST_USUAL {
            self.usual_s.pop_front();
        }
    }

    /// A job of the same name that was started again is no slower than it was before: with nobody of then nothing of then is left.
    fn forget_another_life(&mut self, class: &[Rank<'_>], scene: &Scene<'_>) {
        let is_known = |rank: &Rank<'_>| self.members.contains(rank.process.name());
        let goes_on = class.first().is_some_and(is_known) || scene.has_any(&self.members);
        if !self.members.is_empty() && !goes_on {
            *self = Self::default();
        }
        self.members = class.iter().take(MEMBERS).map(|rank| rank.process.name().clone()).collect();
    }
}

/// Processes by which a job is known again.
const MEMBERS: usize = 8;
/// Newest parts of the window that are looked at, at most, and steps in them, at least.
const MOST_PARTS: usize = 16;
const FEWEST_STEPS: f64 = 12.0;
/// All of so many looks have to show it: a rank that has begun to be slow is found before.
const LOOKS: usize = 12;
/// So many make it worth while to look at each network step.
const SUSPECT_LOOKS: usize = 6;
/// After so many without it, it is over.
const CALM_LOOKS: usize = 8;
/// Looks that say what is usual, at least and at most: five minutes, of large jobs more.
const FEWEST_USUAL: usize = 12;
const MOST_USUAL: usize = 300;
/// Of these so many are kept for a restart.
const MOST_KEPT: usize = 60;
/// So many looks have to find that it calls otherwise.
const OTHER_LOOKS: usize = 8;
/// Other sizes than this make other operations.
const OTHER_BYTES: f64 = 0.15;
/// What is so for this long is what is usual.
const USUAL_AFTER: Duration = Duration::from_secs(3600);
/// By the median so many times as long as it was, and longer than nearly all that was usual ...
const LONGER: f64 = 1.2;
/// So many standard deviations of an own time's mean are no chance.
const SURE: f64 = 2.5;
/// ... and by so much of the step.
const LEAST: f64 = 0.08;
