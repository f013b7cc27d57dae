//! Whether the long steps of a process are a habit: how often they come, how regularly, and what they take. Pure.

use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_model::{LongStep, Pace, Point, real};

/// The long steps of one stretch of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Habit {
    /// What they took longer, as a share of that time: from 0 to 1.
    pub(super) longer: f64,
    /// Own time as a share of it, with them.
    pub(super) own: f64,
    /// These steps, oldest first.
    pub(super) long: Vec<LongStep>,
    /// Since when they are known, by our clock.
    pub(super) since: Timestamp,
    operations_per_step: u64,
    /// The newest operation, and operations a second.
    newest: u64,
    per_s: f64,
}

impl Habit {
    /// Of all that happened between two points of an account.
    pub(super) fn of(pace: &Pace, from: &Point, to: &Point, operations_per_step: u64) -> Self {
        let span = to.covered.saturating_sub(from.covered);
        let known = pace.long_steps().filter(|step| step.operation > from.operations);
        let mut long: Vec<LongStep> = known.copied().collect();
        // What is long by chance, beside an evaluation or a habit, says nothing of it.
        let least = bulk(&long) / MUCH_SHORTER;
        long.retain(|step| step.longer >= least);
        Self {
            // One may have begun long before.
            longer: share(long.iter().map(|step| step.longer).sum(), span),
            own: share(to.own.saturating_sub(from.own), span),
            long,
            since: from.at,
            operations_per_step,
            newest: to.operations,
            per_s: real(to.operations.saturating_sub(from.operations)) / span.as_secs_f64(),
        }
    }

    /// Whether they still come: what is over is no habit. By operations, for the clock of their host may have been set since.
    pub(super) fn goes_on(&self) -> bool {
        let (Some(first), Some(last)) = (self.long.first(), self.long.last()) else { return false };
        let n = real(self.long.len().saturating_sub(1).max(1) as u64);
        let apart = real(last.operation.saturating_sub(first.operation)) / n;
        real(self.newest.saturating_sub(last.operation)) <= (2.0 * apart).max(OVER_AFTER_S * self.per_s)
    }

    /// What a step takes longer by them in the mean, and how long it takes, over the time from the first to the last of them.
    pub(super) fn lost_per_step(&self) -> Option<(Duration, Duration)> {
        let pauses = self.pauses();
        let (first, last) = (pauses.first()?, pauses.last()?);
        let n_operations = real(last.operation.saturating_sub(first.operation));
        let steps = n_operations / real(self.operations_per_step.max(1));
        // One evaluation among them is no habit.
        let most = middle(&pauses).saturating_mul(MUCH_LONGER);
        let lost: Duration = pauses.iter().skip(1).map(|pause| pause.longer.min(most)).sum();
        let n = real(pauses.len().checked_sub(1).filter(|n| *n > 0)? as u64);
        let lost_s = lost.as_secs_f64() / steps.max(n);
        let step_s = last.began.since(first.began).as_secs_f64() / steps;
        Some((Duration::try_from_secs_f64(lost_s).ok()?, Duration::try_from_secs_f64(step_s).ok()?))
    }

    /// Long steps, those that follow each other as one: a pause may end in the next step. Where that leaves hardly any, each by itself.
    fn pauses(&self) -> Vec<LongStep> {
        let mut pauses: Vec<LongStep> = Vec::new();
        let mut before = 0;
        for step in &self.long {
            match pauses.last_mut() {
                Some(pause) if step.operation.saturating_sub(before) <= self.operations_per_step => {
                    pause.longer = pause.longer.saturating_add(step.longer);
                }
                _ => pauses.push(*step),
            }
            before = step.operation;
        }
        if pauses.len() < FEWEST_PAUSES { self.long.clone() } else { pauses }
    }

    /// How many runs of long steps that follow each other: what is slow for a while is so once.
    pub(super) fn n_spells(&self) -> usize {
        let near = SPELL_STEPS.saturating_mul(self.operations_per_step);
        let numbers = || self.long.iter().map(|step| step.operation);
        let apart = numbers().zip(numbers().skip(1)).filter(|(one, next)| next.saturating_sub(*one) > near);
        apart.count() + usize::from(!self.long.is_empty())
    }

    /// After how many steps they come again, and how much longer they are by the median, if that is regular.
    pub(super) fn period(&self) -> Option<(u64, Duration)> {
        let pauses = self.pauses();
        let numbers = pauses.iter().map(|pause| pause.operation);
        let between: Vec<u64> = numbers.clone().zip(numbers.skip(1)).map(|(one, next)| next - one).collect();
        let mut sorted = between.clone();
        sorted.sort_unstable();
        let usual = *sorted.get(sorted.len() / 2)?;
        let near = |one: &u64| one.abs_diff(usual) <= (usual / 8).max(self.operations_per_step);
        let steps = usual.div_ceil(self.operations_per_step.max(1));
        let is_regular = steps > 1 && between.len() >= 2 && between.iter().all(near);
        is_regular.then(|| (steps, middle(&pauses)))
    }
}

/// How much longer they are, the median.
fn middle(long: &[LongStep]) -> Duration {
    let mut longer: Vec<Duration> = long.iter().map(|step| step.longer).collect();
    longer.sort_unstable();
    longer.get(longer.len() / 2).copied().unwrap_or_default()
}

/// A part of a time, from 0 to 1.
pub(super) fn share(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() { 0.0 } else { (part.as_secs_f64() / whole.as_secs_f64()).min(1.0) }
}

/// How much longer those are that make up most of what all take longer: half of it is in steps that are as long or longer.
fn bulk(long: &[LongStep]) -> Duration {
    let mut longer: Vec<Duration> = long.iter().map(|step| step.longer).collect();
    longer.sort_unstable_by(|one, other| other.cmp(one));
    let half = longer.iter().sum::<Duration>() / 2;
    let mut so_far = Duration::ZERO;
    let found = longer.into_iter().find(|one| {
        so_far += *one;
        so_far >= half
    });
    found.unwrap_or_default()
}

/// Long steps that are nearer than this follow each other.
const SPELL_STEPS: u64 = 2;
/// Fewer pauses make no habit.
const FEWEST_PAUSES: usize = 3;
/// So many times as long as the long steps are by the median.
const MUCH_LONGER: u32 = 3;
/// So many times shorter than those that make most of the time.
const MUCH_SHORTER: u32 = 4;
/// For so many seconds at least they may stay away.
const OVER_AFTER_S: f64 = 30.0;
