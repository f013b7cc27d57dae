//! What is kept of a job's pace: totals, of which the mean of any time can be told, and what a restart must not forget. Pure.

use std::time::Duration;

use ringscope_api::clock::Timestamp;
use serde::{Deserialize, Serialize};

use super::scene::Scene;

/// How a job spent its time so far. All but the first only grow: two of them tell the mean of the time between.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PaceTotals {
    /// When they began. Those that began at another time cannot be compared.
    pub since: Timestamp,
    /// Time in which the pace was known.
    pub known: Duration,
    /// Steps in it; operations, where no step is known.
    pub steps: f64,
    /// Own time of the rank that had most of it, step by step.
    pub own: Duration,
    /// Time in operations, the mean of the ranks.
    pub in_operations: Duration,
    /// Time in operations of the rank that had least of it: it waits for nobody, so bytes move.
    pub moving: Duration,
}

/// What the judge knows of a job's collectives, as far as it takes long to learn.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct PaceMemory {
    pub(super) operations_per_step: u64,
    pub(super) n_ranks: usize,
    /// Of one operation.
    pub(super) bytes: f64,
    /// Whether these are times of the device. What was kept before that was told is by calls.
    #[serde(default)]
    pub(super) is_device: bool,
    /// Seconds that its collectives took per step while nothing was wrong, oldest first; some of many looks.
    pub(super) usual_s: Vec<f64>,
    pub(super) slow: Option<SlowMemory>,
}

/// A slowdown that goes on.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(super) struct SlowMemory {
    pub(super) since_ns: u64,
    pub(super) takes_s: f64,
    pub(super) took_s: f64,
    pub(super) share: f64,
    pub(super) has_steps: bool,
    pub(super) lost_rank_s: f64,
}

/// Of one job: its totals, and what was handed out of all this.
#[derive(Debug, Default)]
pub(super) struct Keeping {
    totals: PaceTotals,
    sampled: (Timestamp, Duration),
    remembered: (Timestamp, bool),
}

impl Keeping {
    /// Adds the time since the last look.
    pub(super) fn look(&mut self, scene: &Scene<'_>, passed: Duration, now: Timestamp) {
        let totals = &mut self.totals;
        let is_first = totals.since == Timestamp(0);
        if is_first {
            totals.since = now;
        }
        // Of the time before the first look nothing is known.
        if is_first || !scene.is_known() {
            return;
        }
        let (mut step_s, mut own_s, mut shares, mut least, mut n) = (0.0_f64, 0.0_f64, 0.0, 1.0_f64, 0.0);
        for rank in scene.classes.iter().flatten() {
            let measured = &rank.measured;
            let in_operations = (1.0 - measured.own - measured.habits[0].longer).max(0.0);
            let its_step_s = measured.of_late(NEWEST_PARTS).0.as_secs_f64();
            step_s = step_s.max(its_step_s);
            own_s = own_s.max((measured.own + measured.habits[0].longer).min(1.0) * its_step_s);
            shares += in_operations;
            least = least.min(in_operations);
            n += 1.0;
        }
        if n == 0.0 || step_s <= 0.0 {
            return;
        }
        let steps = passed.as_secs_f64() / step_s;
        totals.known += passed;
        totals.steps += steps;
        totals.own += Duration::try_from_secs_f64(own_s * steps).unwrap_or_default();
        totals.in_operations += passed.mul_f64((shares / n).min(1.0));
        totals.moving += passed.mul_f64(least.clamp(0.0, 1.0));
    }

    /// The totals, where they have grown and it is `every` since they were handed out.
    pub(super) fn sample(&mut self, every: Duration, now: Timestamp) -> Option<PaceTotals> {
        let (at, known) = self.sampled;
        let is_due = now.since(at) >= every || now < at;
        (is_due && self.totals.known > known).then(|| {
            self.sampled = (now, self.totals.known);
            self.totals
        })
    }

    /// Whether what the judge knows is to be kept again: now and then, and when a slowdown begins or ends.
    pub(super) fn is_to_remember(&mut self, is_slow: bool, now: Timestamp) -> bool {
        let (at, was_slow) = self.remembered;
        let is_due = now.since(at) >= REMEMBERED_EVERY || now < at || was_slow != is_slow;
        if is_due {
            self.remembered = (now, is_slow);
        }
        is_due
    }
}

/// Newest parts of the window that say how long a step takes: some seconds.
const NEWEST_PARTS: usize = 4;
/// It is some hundred bytes a job, and changes slowly.
const REMEMBERED_EVERY: Duration = Duration::from_secs(60);
