//! One worker comes last in most rounds, by more than a little.

use std::time::Duration;

use ringscope_api::{FindingKind, Severity, SummationRole as Role};
use ringscope_model::real;
use ringscope_model::summation::{Lateness, Member};

use super::super::judgement::Judgement;
use super::Subject;

/// Over the last minute. What counts is by how much it is later than the next one; for a round of all tensors, all others
/// wait that long.
pub(super) fn judge(subject: Subject<'_>) -> Option<Judgement> {
    let Subject { group, now, .. } = subject;
    let facts = group.facts().filter(|facts| !facts.asynchronous)?;
    let lateness = group.lateness(now)?;
    if lateness.rounds < ROUNDS_MIN || lateness.span < SPAN_MIN {
        return None;
    }
    let (worker, share, excess) = last(&lateness)?;
    // Where no results are told: as if all parts were in use.
    let of_all = || lateness.span.mul_f64(real(facts.n_parts.max(1)) / real(lateness.rounds));
    let round = group.rounds().round_time().unwrap_or_else(of_all);
    let cost = excess.as_secs_f64() / round.as_secs_f64();
    if share <= SHARE_MAX || cost <= COST_MAX {
        return None;
    }
    let (cause, why) = if pushes_slowly(subject, worker) && !begins_late(subject, worker, excess) {
        ("slow_push", "its pushes take longer than those of the others")
    } else {
        ("late_start", "it begins its pushes later than the others")
    };
    let place = (Role::Worker, worker);
    let message = format!(
        "{} comes last in {} of 10 rounds, costing each about {} % of its time: {why}",
        subject.who(place),
        tenths(share),
        tenths(cost.min(1.0)) * 10,
    );
    Some(subject.judgement(FindingKind::SumStraggler, Severity::Warning, place, cause, message))
}

/// Who comes last most often, in which part of the rounds, and how much later than the next one it is on average.
fn last(lateness: &Lateness) -> Option<(u32, f64, Duration)> {
    let workers = lateness.workers.iter().enumerate();
    let (worker, (share, late)) = workers.max_by(|(_, one), (_, other)| one.0.total_cmp(&other.0))?;
    let others = lateness.workers.iter().enumerate().filter(|(other, _)| *other != worker);
    let next = others.map(|(_, (_, late))| *late).max()?;
    Some((u32::try_from(worker).ok()?, *share, late.saturating_sub(next)))
}

/// Whether its parts begin later than those of the others, which explains half of this at least. Results come to all at
/// the same time, so who begins later has its parts under way for so much less.
fn begins_late(subject: Subject<'_>, worker: u32, excess: Duration) -> bool {
    let under_way = |member: &Member| -> Duration {
        let stages = 0..member.told().stages.len();
        stages.map(|stage| member.pace(stage, subject.now)).map(|pace| pace.mean_wait + pace.mean_work).sum()
    };
    let (of_it, of_others): (Vec<_>, Vec<_>) =
        subject.group.workers().partition(|(index, _)| *index == worker);
    let of_it = of_it.into_iter().map(|(_, member)| under_way(member)).next();
    let of_others = of_others.into_iter().map(|(_, member)| under_way(member)).min();
    match (of_it, of_others) {
        (Some(of_it), Some(of_others)) => of_others.saturating_sub(of_it) >= excess / 2,
        _ => false,
    }
}

/// Whether a part stays in this worker's push stage for much longer than in those of all others.
fn pushes_slowly(subject: Subject<'_>, worker: u32) -> bool {
    let mut of_it = Duration::ZERO;
    let mut of_others = Duration::ZERO;
    for (index, member) in subject.group.workers() {
        let Some(stage) = member.told().stages.iter().position(|stage| stage.stage == "push") else {
            continue;
        };
        let pace = member.pace(stage, subject.now);
        if index == worker {
            of_it = pace.mean_work;
        } else {
            of_others = of_others.max(pace.mean_work);
        }
    }
    of_others > Duration::ZERO && of_it > of_others.saturating_mul(2)
}

/// A fraction in tenths, cut, so that the message does not change with every look.
fn tenths(share: f64) -> u32 {
    (1..=10).rev().find(|tenths| f64::from(*tenths) <= share.mul_add(10.0, 1e-9)).unwrap_or(0)
}

/// Fraction of the rounds.
const SHARE_MAX: f64 = 0.60;
/// Fraction of the time of a round.
const COST_MAX: f64 = 0.10;
/// Fewer prove nothing.
const ROUNDS_MIN: u64 = 50;
/// The same.
const SPAN_MIN: Duration = Duration::from_secs(20);
