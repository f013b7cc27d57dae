//! Whether the long steps of a process are a habit: how often they come, how regularly, and what they take. Pure.

use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_model::{LongStep, Pace, Point, real};

use super::measured::share;

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
}

impl Habit {
    /// Of all that happened between two points of an account.
    pub(super) fn of(pace: &Pace, from: &Point, to: &Point, operations_per_step: u64) -> Self {
        let span = to.covered.saturating_sub(from.covered);
        let known = pace.long_steps().filter(|step| step.operation >= from.operations);
        let mut habit =
            Self { long: known.copied().collect(), since: from.at, operations_per_step, ..Self::default() };
        // A step that is much longer than the other long ones is an evaluation, or the like: once, and no habit.
        let most = habit.usual_longer().saturating_mul(MUCH_LONGER);
        let (mut longer, mut once) = (Duration::ZERO, Duration::ZERO);
        for step in &habit.long {
            longer += step.longer.min(most);
            once += step.longer.saturating_sub(most);
        }
        habit.longer = share(longer, span);
        habit.own = share(to.own.saturating_sub(from.own).saturating_sub(once), span);
        habit
    }

    /// Whether they still come: what is over is no habit. `now`: by the clock of the steps.
    pub(super) fn goes_on(&self, now: Timestamp) -> bool {
        let (Some(first), Some(last)) = (self.long.first(), self.long.last()) else { return false };
        let n = u32::try_from(self.long.len() - 1).unwrap_or(u32::MAX).max(1);
        now.since(last.began) <= OVER_AFTER.max(last.began.since(first.began) / n * 2)
    }

    /// How many operations lie between two of them, in the mean.
    pub(super) fn between(&self) -> Option<f64> {
        let (first, last) = (self.long.first()?.operation, self.long.last()?.operation);
        let n = self.long.len().checked_sub(1).filter(|n| *n > 0)?;
        Some(real(last.saturating_sub(first)) / real(n as u64))
    }

    /// How many runs of long steps that follow each other: what is slow for a while is so once.
    pub(super) fn n_spells(&self) -> usize {
        let near = SPELL_STEPS.saturating_mul(self.operations_per_step);
        let numbers = || self.long.iter().map(|step| step.operation);
        let apart = numbers().zip(numbers().skip(1)).filter(|(one, next)| next.saturating_sub(*one) > near);
        apart.count() + usize::from(!self.long.is_empty())
    }

    /// After how many steps they come again, if that is regular.
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

    /// How much longer they are, the median.
    pub(super) fn usual_longer(&self) -> Duration {
        let mut longer: Vec<Duration> = self.long.iter().map(|step| step.longer).collect();
        longer.sort_unstable();
        longer.get(longer.len() / 2).copied().unwrap_or_default()
    }
}

/// Long steps that are nearer than this follow each other.
const SPELL_STEPS: u64 = 2;
/// So many times as long as the long steps are by the median.
const MUCH_LONGER: u32 = 3;
/// For so long at least they may stay away.
const OVER_AFTER: Duration = Duration::from_secs(30);
