//! One process's account of late, as numbers that can be compared with those of its like. Pure.

use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_model::{LongStep, Pace, Point, real};

/// How a process spent its time of late.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Measured {
    /// Its own time as a share of all, without what long steps took longer: from 0 to 1.
    pub(super) own: f64,
    /// The window part by part, oldest first, long steps included.
    pub(super) parts: Vec<Part>,
    /// What long steps took longer, as a share of the time of which they are known.
    pub(super) longer: f64,
    /// Own time as a share of that time, with them.
    pub(super) own_with_longer: f64,
    /// These steps, oldest first.
    pub(super) long: Vec<LongStep>,
    /// Standard deviation of the own time of a step.
    pub(super) spread: Duration,
    /// How long one step takes, or one operation where no step is known.
    pub(super) step: Duration,
    /// Whether a step is known.
    pub(super) has_steps: bool,
    /// Operations of one step, at least 1.
    pub(super) operations_per_step: u64,
    /// Operations per second.
    pub(super) operations: f64,
    /// Bytes per second that were asked for.
    pub(super) bytes: f64,
    /// Since when it is known, and when the newest of it was told, by our clock.
    pub(super) since: Timestamp,
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
        let window = WINDOW.max(step.saturating_mul(STEPS)).min(LONGEST_WINDOW);
        let at = points.iter().rposition(|point| covered(point, newest) >= window).unwrap_or(0);
        let first = *points.get(at)?;
        let span = covered(first, newest);
        if span < SHORTEST_WINDOW || steps(first, newest) < FEWEST_STEPS {
            return None;
        }
        let long_in = |from: u64| pace.long_steps().filter(move |step| step.operation >= from).copied();
        let all_span = covered(oldest, newest);
        let long: Vec<LongStep> = long_in(oldest.operations).collect();
        let sum = |steps: &mut dyn Iterator<Item = LongStep>| steps.map(|step| step.longer).sum::<Duration>();
        let in_long = sum(&mut long_in(first.operations)).min(span);
        let own = newest.own.saturating_sub(first.own).saturating_sub(in_long);
        // Less than half a step may be a time without collectives, or one pause that goes on: no step took so long so far.
        let least = (per_step / 2).max(1);
        let parts = points.get(at..)?.windows(2).filter_map(|pair| match pair {
            [from, to]
                if covered(from, to) >= step.max(SHORTEST_PART)
                    && to.operations.saturating_sub(from.operations) >= least =>
            {
                Some(Part {
                    at: from.at,
                    own: share(to.own.saturating_sub(from.own), covered(from, to)),
                    operations: real(to.operations.saturating_sub(from.operations))
                        / covered(from, to).as_secs_f64(),
                })
            }
            _ => None,
        });
        Some(Self {
            own: share(own, span),
            parts: parts.collect(),
            spread: pace.spread(),
            own_with_longer: share(newest.own.saturating_sub(oldest.own), all_span),
            // One may have begun long before.
            longer: share(sum(&mut long.iter().copied()), all_span),
            step,
            has_steps: pace.operations_per_step() > 0,
            operations_per_step: per_step,
            operations: real(newest.operations.saturating_sub(first.operations)) / span.as_secs_f64(),
            bytes: real(newest.issued_bytes.saturating_sub(first.issued_bytes)) / span.as_secs_f64(),
            since: oldest.at,
            told: newest.at,
            long,
        })
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

    /// How many operations lie between two long steps, in the mean.
    pub(super) fn between_long(&self) -> Option<f64> {
        let (first, last) = (self.long.first()?.operation, self.long.last()?.operation);
        let n = self.long.len().checked_sub(1).filter(|n| *n > 0)?;
        Some(real(last.saturating_sub(first)) / real(n as u64))
    }

    /// The first of each run of long steps that follow each other: what is slow for a while is so once.
    pub(super) fn spells(&self) -> Vec<u64> {
        let near = SPELL_STEPS.saturating_mul(self.operations_per_step);
        let mut spells = Vec::new();
        let mut before: Option<u64> = None;
        for step in &self.long {
            if before.is_none_or(|before| step.operation.saturating_sub(before) > near) {
                spells.push(step.operation);
            }
            before = Some(step.operation);
        }
        spells
    }

    /// After how many steps long ones come again, if that is regular.
    pub(super) fn period_steps(&self) -> Option<u64> {
        let numbers = self.long.iter().map(|step| step.operation);
        let between: Vec<u64> = numbers.clone().zip(numbers.skip(1)).map(|(one, next)| next - one).collect();
        let mut sorted = between.clone();
        sorted.sort_unstable();
        let usual = *sorted.get(sorted.len() / 2)?;
        let near = |one: &u64| one.abs_diff(usual) <= (usual / 8).max(self.operations_per_step);
        let steps = usual.div_ceil(self.operations_per_step.max(1));
        (steps > 1 && between.len() >= 2 && between.iter().all(near)).then_some(steps)
    }

    /// How much longer its long steps are, the median.
    pub(super) fn usual_longer(&self) -> Duration {
        let mut longer: Vec<Duration> = self.long.iter().map(|step| step.longer).collect();
        longer.sort_unstable();
        longer.get(longer.len() / 2).copied().unwrap_or_default()
    }
}

fn share(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() { 0.0 } else { (part.as_secs_f64() / whole.as_secs_f64()).min(1.0) }
}

/// Long steps that are nearer than this follow each other.
const SPELL_STEPS: u64 = 2;
/// What is compared: the last seconds ...
const WINDOW: Duration = Duration::from_secs(8);
/// ... or steps, where these are longer ...
const STEPS: u32 = 16;
/// ... but no more than this.
const LONGEST_WINDOW: Duration = Duration::from_secs(300);
/// What takes longer is no step.
const LONGEST_STEP: Duration = Duration::from_secs(3600);
/// A part of it is no shorter.
const SHORTEST_PART: Duration = Duration::from_millis(500);
/// Over less than this nothing is compared ...
const SHORTEST_WINDOW: Duration = Duration::from_secs(5);
/// ... nor over fewer steps.
const FEWEST_STEPS: f64 = 5.0;
/// Nothing of late: agents tell every other second at least.
const STALE: Duration = Duration::from_secs(8);
