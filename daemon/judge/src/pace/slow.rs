//! Who is slow in a scene, how, and what it costs. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use ringscope_api::FindingKind;
use ringscope_api::clock::Timestamp;
use ringscope_model::{Name, real};

use super::outliers::{Outliers, outliers};
use super::scene::{Rank, Scene};

/// What a finding is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    /// A process, by its key.
    Process(Name),
    /// All processes of a host.
    Host(Name),
}

/// How somebody is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// In every step.
    Steady,
    /// In some steps, which come without order.
    Intermittent,
    /// In every so many steps, by so much.
    Periodic { steps: u64, longer: Duration },
}

/// Somebody slow.
#[derive(Clone, Debug)]
pub(super) struct Slow {
    pub(super) subject: Subject,
    pub(super) kind: FindingKind,
    pub(super) how: How,
    /// Its key: the slowest, of a host.
    pub(super) process: Name,
    /// All that are slow together, by key.
    pub(super) processes: Vec<Name>,
    /// Processes that it is compared with.
    pub(super) n_like: usize,
    /// How long each step takes longer.
    pub(super) lost: Duration,
    /// Of the job's time, from 0 to 1.
    pub(super) share: f64,
    /// Own time of a step, and what is usual among its like.
    pub(super) own: (Duration, Duration),
    pub(super) has_steps: bool,
    /// Since when, by our clock, as far back as is known.
    pub(super) began: Option<Timestamp>,
    /// How much more work it gets than its like, as in 1.3. Absent: no more.
    pub(super) more_work: Option<f64>,
}

/// Everybody that is slow.
pub(super) fn find(scene: &Scene<'_>) -> Vec<Slow> {
    scene.classes.iter().flat_map(|class| of_class(class)).collect()
}

fn of_class(class: &[Rank<'_>]) -> Vec<Slow> {
    let own: Vec<f64> = class.iter().map(|rank| rank.measured.own).collect();
    let longer: Vec<f64> = class.iter().map(|rank| rank.measured.longer).collect();
    let steadily = outliers(&own, LEAST);
    let now_and_then = outliers(&longer, LEAST);
    let mut with_longer: Vec<f64> = class.iter().map(|rank| rank.measured.own_with_longer).collect();
    with_longer.sort_by(f64::total_cmp);
    let usual_with_longer = with_longer.get((with_longer.len().max(1) - 1) / 4).copied().unwrap_or_default();
    let mut slow = Vec::new();
    if let Some(found) = &steadily {
        slow.extend(steady(class, found));
    }
    for found in now_and_then.iter() {
        let again = found.places.iter().filter(|at| {
            // All may have long steps, of which one is just long enough to be told.
            let is_longer = class
                .get(**at)
                .is_some_and(|rank| rank.measured.own_with_longer - usual_with_longer >= LEAST);
            is_longer && !steadily.as_ref().is_some_and(|steady| steady.places.contains(at))
        });
        slow.extend(again.filter_map(|at| by_long_steps(class, *at, found.usual)));
    }
    slow.retain(|slow| slow.share >= LEAST_COST);
    slow
}

/// Those whose own time is longer in most steps: each, or the host of which they are all.
fn steady(class: &[Rank<'_>], found: &Outliers) -> Vec<Slow> {
    let usual = usual_parts(class);
    let places: Vec<(usize, usize)> =
        found.places.iter().filter_map(|at| Some((*at, steady_of_late(class.get(*at)?, &usual)?))).collect();
    let mut by_host: BTreeMap<&str, Vec<(usize, usize)>> = BTreeMap::new();
    for (at, n_parts) in places {
        if let Some(host) = class.get(at).and_then(host_of) {
            by_host.entry(host).or_default().push((at, n_parts));
        }
    }
    let mut slow = Vec::new();
    for (host, places) in by_host {
        let all = class.iter().filter(|rank| host_of(rank) == Some(host)).count();
        let each = places.iter().filter_map(|(at, n_parts)| one(class, *at, &usual, *n_parts));
        if places.len() > 1 && places.len() == all && all < class.len() {
            slow.extend(whole_host(host, each.collect()));
        } else {
            slow.extend(each);
        }
    }
    slow
}

fn host_of<'r>(rank: &'r Rank<'_>) -> Option<&'r str> {
    rank.process.identity().map(|identity| &*identity.host)
}

/// What is usual in each part of the window, the newest first.
fn usual_parts(class: &[Rank<'_>]) -> Vec<f64> {
    let n_parts = class.iter().map(|rank| rank.measured.parts.len()).max().unwrap_or_default();
    let usual = |back: usize| {
        let own = |rank: &Rank<'_>| Some(rank.measured.parts.iter().rev().nth(back)?.own);
        let mut all: Vec<f64> = class.iter().filter_map(own).collect();
        all.sort_by(f64::total_cmp);
        all.get((all.len().max(1) - 1) / 4).copied().unwrap_or_default()
    };
    (0..n_parts).map(usual).collect()
}

/// For how many parts it has been slow without a break, if it was so in most parts, and still is: what is over is no habit.
fn steady_of_late(rank: &Rank<'_>, usual: &[f64]) -> Option<usize> {
    let n_parts = real(rank.measured.parts.len() as u64);
    let least = rank.measured.excess(usual).sum::<f64>() / n_parts / 3.0;
    let n_above = rank.measured.excess(usual).filter(|excess| *excess > least).count();
    let n_newest = rank.measured.excess(usual).take_while(|excess| *excess > least).count();
    (real(n_above as u64) >= MOSTLY * n_parts && n_newest >= NEWEST_PARTS).then_some(n_newest)
}

fn one(class: &[Rank<'_>], at: usize, usual: &[f64], n_parts: usize) -> Option<Slow> {
    let rank = class.get(at)?;
    // In the first of these it may have begun in the middle.
    let n = if n_parts > NEWEST_PARTS { n_parts - 1 } else { n_parts };
    let excess = rank.measured.excess(usual).take(n).sum::<f64>() / real(n as u64);
    let usual = usual.iter().take(n).sum::<f64>() / real(n as u64);
    let (step, _) = rank.measured.of_late(n);
    let share = (excess - by_chance(class, step)).max(0.0);
    let more_work = more_work(class, at);
    let kind = if more_work.is_some() { FindingKind::UnevenWork } else { FindingKind::ComputeStraggler };
    Some(Slow {
        kind,
        how: How::Steady,
        lost: step.mul_f64(share),
        share,
        own: (step.mul_f64((usual + excess).max(0.0)), step.mul_f64(usual.max(0.0))),
        began: rank.measured.of_late(n_parts).1,
        more_work,
        ..blank(class, rank)
    })
}

/// Where own times differ from step to step by chance, the step waits for whoever comes last, slow rank or not: by how much longer
/// than usual the longest of all is then, as a share of the step.
fn by_chance(class: &[Rank<'_>], step: Duration) -> f64 {
    let mut spreads: Vec<Duration> = class.iter().map(|rank| rank.measured.spread).collect();
    spreads.sort_unstable();
    let spread = spreads.get(spreads.len() / 2).copied().unwrap_or_default().as_secs_f64();
    let n = real(class.len() as u64);
    // The expected largest of n normal values, fitted from 2 to 1000 to within 5 %.
    let largest = 1.055 * (2.0 * n.ln()).sqrt() - 0.684;
    if step.is_zero() { 0.0 } else { spread * largest.max(0.0) / step.as_secs_f64() }
}

/// The slowest stands for its host; what it costs is what its ranks cost in the mean, for the longest of them is so by chance too.
fn whole_host(host: &str, each: Vec<Slow>) -> Option<Slow> {
    let processes = each.iter().map(|slow| slow.process.clone()).collect();
    let began = each.iter().filter_map(|slow| slow.began).min();
    let n = u32::try_from(each.len()).unwrap_or(u32::MAX).max(1);
    let share = each.iter().map(|slow| slow.share).sum::<f64>() / f64::from(n);
    let lost = each.iter().map(|slow| slow.lost).sum::<Duration>() / n;
    let worst = each.into_iter().max_by(|one, other| one.share.total_cmp(&other.share))?;
    Some(Slow {
        subject: Subject::Host(host.into()),
        kind: FindingKind::SlowHost,
        processes,
        began,
        share,
        lost,
        ..worst
    })
}

fn by_long_steps(class: &[Rank<'_>], at: usize, usual: f64) -> Option<Slow> {
    let rank = class.get(at)?;
    let measured = &rank.measured;
    if measured.spells().len() < FEWEST_SPELLS {
        return None;
    }
    let lost = measured.long.iter().map(|step| step.longer).sum::<Duration>().as_secs_f64()
        / real(measured.long.len() as u64)
        / (measured.between_long()? / real(measured.operations_per_step)).max(1.0);
    let share = (lost / measured.step.as_secs_f64()).min(1.0 - usual);
    let how = match measured.period_steps() {
        Some(steps) => How::Periodic { steps, longer: measured.usual_longer() },
        None => How::Intermittent,
    };
    let first = measured.long.first().map(|step| step.began);
    let own = measured.step.mul_f64(measured.own * (1.0 - measured.longer));
    Some(Slow {
        how,
        lost: Duration::try_from_secs_f64(lost).ok()?,
        share,
        own: (own + measured.step.mul_f64(measured.longer), own),
        began: first,
        ..blank(class, rank)
    })
}

fn blank(class: &[Rank<'_>], rank: &Rank<'_>) -> Slow {
    let process = rank.process.name();
    Slow {
        subject: Subject::Process(process.clone()),
        kind: FindingKind::ComputeStraggler,
        how: How::Steady,
        process: process.clone(),
        processes: vec![process.clone()],
        n_like: class.len() - 1,
        lost: Duration::ZERO,
        share: 0.0,
        own: (Duration::ZERO, Duration::ZERO),
        has_steps: rank.measured.has_steps,
        began: None,
        more_work: None,
    }
}

/// How much more it is asked to move, or to call, than its like.
fn more_work(class: &[Rank<'_>], at: usize) -> Option<f64> {
    let ratio = |of: fn(&Rank<'_>) -> f64| {
        let mut others: Vec<f64> = class.iter().map(of).collect();
        let own = others.get(at).copied()?;
        others.sort_by(f64::total_cmp);
        let usual = others.get((others.len() - 1) / 2).copied().filter(|usual| *usual > 0.0)?;
        Some(own / usual)
    };
    let ratios = [ratio(|rank| rank.measured.bytes), ratio(|rank| rank.measured.operations)];
    ratios.into_iter().flatten().max_by(f64::total_cmp).filter(|ratio| *ratio >= MORE_WORK)
}

/// Share of the job's time from which on somebody counts as slow.
const LEAST: f64 = 0.06;
/// Who is slow in every step is so in most parts of the window.
const MOSTLY: f64 = 0.6;
/// Newest parts in which it is so too.
const NEWEST_PARTS: usize = 2;
/// Of the job's time, what it has to cost after what chance costs anyway.
const LEAST_COST: f64 = 0.04;
/// Spells of long steps that make a habit: once is an evaluation, twice a coincidence.
const FEWEST_SPELLS: usize = 3;
/// So much more than its like, and it was given more. What is under way at the edge of the window makes less than this.
const MORE_WORK: f64 = 1.08;
