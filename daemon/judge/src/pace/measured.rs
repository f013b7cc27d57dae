//! One process's account of late, as numbers that can be compared with those of its like. Pure.

use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_model::{Pace, Point, real};

use super::habit::{Habit, share};

/// How a process spent its time of late.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Measured {
    /// Its own time as a share of all, without what long steps took longer: from 0 to 1.
    pub(super) own: f64,
    /// The same over the time before the window, some minutes of it. `None`: that is too short to say.
    pub(super) earlier: Option<f64>,
    /// How long a step took then.
    pub(super) earlier_step: Option<Duration>,
    /// Own time as a share over the first seconds that are known, after the job's first steps. `None`: these are too short to say.
    pub(super) at_first: Option<f64>,
    /// Operations since the first moment that is known.
    pub(super) n_known: u64,
    /// The window part by part, oldest first, long steps included.
    pub(super) parts: Vec<Part>,
    /// Its long steps of the last half minute, and of the last minutes.
    pub(super) habits: [Habit; 2],
    /// Standard deviation of the own time of a step.
    pub(super) spread: Duration,
    /// How long one step takes, or one operation where no step is known.
    pub(super) step: Duration,
    /// Steps over which it is compared.
    pub(super) n_steps: f64,
    /// Whether a step is known.
    pub(super) has_steps: bool,
    /// Operations of one step, at least 1.
    pub(super) operations_per_step: u64,
    /// Operations per second.
    pub(super) operations: f64,
    /// Bytes per second that were asked for.
    pub(super) bytes: f64,
    /// When the newest of it was told, by our clock.
    pub(super) told: Timestamp,
}

/// A part of the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Part {
    /// When it began, by our clock.
    pub(super) at: Timestamp,
    /// Own time as a share of all.
    pub(super) own: f64,
    /// Operations per second.
    pub(super) operations: f64,
    /// Operations from the first moment that is known until it began.
    pub(super) n_before: u64,
}

impl Measured {
    /// `None`: too little is known, or nothing of late.
    pub(super) fn of(pace: &Pace, now: Timestamp) -> Option<Self> {
        let points: Vec<&Point> = pace.points().collect();
        let (oldest, newest) = (*points.first()?, *points.last()?);
        let covered = |from: &Point, to: &Point| to.covered.saturating_sub(from.covered);
        let per_step = u64::from(pace.operations_per_step().max(1));
        let steps =
            |from: &Point, to: &Point| real(to.operations.saturating_sub(from.operations)) / real(per_step);
        let step = covered(oldest, newest).as_secs_f64() / steps(oldest, newest);
        let step = Duration::try_from_secs_f64(step).ok().filter(|step| *step <= LONGEST_STEP)?;
        if now.since(newest.at) > STALE.max(step.saturating_mul(2)) {
            return None;
        }
        let longest = LONGEST_WINDOW.max(step.saturating_mul(LONGEST_WINDOW_STEPS));
        let window = WINDOW.max(step.saturating_mul(STEPS)).min(longest);
        let at = points.iter().rposition(|point| covered(point, newest) >= window).unwrap_or(0);
        let first = *points.get(at)?;
        let span = covered(first, newest);
        if span < SHORTEST_WINDOW || steps(first, newest) < FEWEST_STEPS {
            return None;
        }
        let oldest_known = pace.oldest().unwrap_or(oldest);
        let first_known = pace.first_points().next().unwrap_or(oldest);
        let first_steps = FIRST_STEPS.saturating_mul(per_step);
        let is_later =
            |point: &&Point| point.operations >= first_known.operations.saturating_add(first_steps);
        let share_before = |from: &Point, to: &Point| {
            let is_enough = covered(from, to) >= SHORTEST_BEFORE && steps(from, to) >= FEWEST_BEFORE;
            is_enough.then(|| share(own_between(pace, from, to), covered(from, to)))
        };
        let from = pace.all_points().find(is_later).unwrap_or(first);
        let earlier = share_before(from, first);
        let earlier_step = earlier.map(|_| covered(from, first).as_secs_f64() / steps(from, first));
        let earlier_step = earlier_step.and_then(|step| Duration::try_from_secs_f64(step).ok());
        let at_first = || pace.first_points().filter(is_later).filter(|point| point.covered <= first.covered);
        let at_first = at_first().next().zip(at_first().last()).and_then(|(from, to)| share_before(from, to));
        // A part with fewer operations than half a step is left out: it may be a validation without collectives, or a pause that is not
        // over, which tells nothing of how long steps are.
        let least = (per_step / 2).max(1);
        let parts = points.get(at..)?.windows(2).filter_map(|pair| match pair {
            [from, to]
                if covered(from, to) >= step.max(SHORTEST_PART)
                    && to.operations.saturating_sub(from.operations) >= least =>
            {
                Some(Part {
                    at: from.at,
                    n_before: from.operations.saturating_sub(first_known.operations),
                    own: share(to.own.saturating_sub(from.own), covered(from, to)),
                    operations: real(to.operations.saturating_sub(from.operations))
                        / covered(from, to).as_secs_f64(),
                })
            }
            _ => None,
        });
        Some(Self {
            own: share(own_between(pace, first, newest), span),
            earlier,
            earlier_step,
            at_first,
            n_known: newest.operations.saturating_sub(first_known.operations),
            parts: parts.collect(),
            spread: pace.spread(),
            habits: [oldest, oldest_known].map(|from| Habit::of(pace, from, newest, per_step)),
            step,
            n_steps: steps(first, newest),
            has_steps: pace.operations_per_step() > 0,
            operations_per_step: per_step,
            operations: real(newest.operations.saturating_sub(first.operations)) / span.as_secs_f64(),
            bytes: real(newest.issued_bytes.saturating_sub(first.issued_bytes)) / span.as_secs_f64(),
            told: newest.at,
        })
    }

    /// Bytes and operations of a step.
    pub(super) fn per_step(&self) -> (f64, f64) {
        let operations = real(self.operations_per_step);
        let bytes = if self.operations > 0.0 { self.bytes / self.operations * operations } else { 0.0 };
        (bytes, operations)
    }

    /// By how much its own time is longer than is `usual`, part by part, the newest first; what is usual comes in that order too.
    pub(super) fn excess<'p>(&'p self, usual: &'p [f64]) -> impl Iterator<Item = f64> + 'p {
        self.parts.iter().rev().zip(usual).map(|(part, usual)| part.own - usual)
    }

    /// How long a step took over the newest `n` parts, and when these began.
    pub(super) fn of_late(&self, n: usize) -> (Duration, Option<Timestamp>) {
        let parts = self.parts.get(self.parts.len().saturating_sub(n)..).unwrap_or_default();
        let operations =
            parts.iter().map(|part| part.operations).sum::<f64>() / real(parts.len().max(1) as u64);
        let step = Duration::try_from_secs_f64(real(self.operations_per_step) / operations);
        (step.unwrap_or(self.step), parts.first().map(|part| part.at))
    }

    /// Own time as a share of all, and how long a step took, over the newest `n` parts.
    pub(super) fn newest(&self, n: usize) -> Option<(f64, Duration)> {
        let parts = self.parts.get(self.parts.len().checked_sub(n)?..)?;
        let own = parts.iter().map(|part| part.own).sum::<f64>() / real(n as u64);
        Some((own, self.of_late(n).0))
    }
}

/// Own time between two points, without what long steps took longer.
fn own_between(pace: &Pace, from: &Point, to: &Point) -> Duration {
    let long =
        pace.long_steps().filter(|step| from.operations < step.operation && step.operation <= to.operations);
    to.own.saturating_sub(from.own).saturating_sub(long.map(|step| step.longer).sum())
}

/// What is compared: the last seconds ...
const WINDOW: Duration = Duration::from_secs(8);
/// ... or steps, where these are longer ...
const STEPS: u32 = 16;
/// ... but no more than this, or than these.
const LONGEST_WINDOW: Duration = Duration::from_secs(300);
const LONGEST_WINDOW_STEPS: u32 = 12;
/// What takes longer is no step.
const LONGEST_STEP: Duration = Duration::from_secs(3600);
/// A part of it is no shorter.
const SHORTEST_PART: Duration = Duration::from_millis(500);
/// Over less than this nothing is compared ...
const SHORTEST_WINDOW: Duration = Duration::from_secs(5);
/// ... nor over fewer steps.
const FEWEST_STEPS: f64 = 5.0;
/// A job is slow in its first steps.
pub(super) const FIRST_STEPS: u64 = 20;
/// The time before says something from so long on ...
const SHORTEST_BEFORE: Duration = Duration::from_secs(1);
/// ... and from so many steps on.
const FEWEST_BEFORE: f64 = 12.0;
/// Nothing of late: agents tell every other second at least.
pub(super) const STALE: Duration = Duration::from_secs(8);
