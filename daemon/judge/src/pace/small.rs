//! Whether a job spends its time in collectives that are far too small for the wire: where one of their bytes together takes much
//! less, as measured on the same communicator or on one like it.
//!
//! How long one takes is known of some of them, how many there are of all: what is told one by one may always be the same place of
//! a step. So how many are small follows from the counts of calls and bytes.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use ringscope_api::Cost;
use ringscope_api::clock::Timestamp;
use ringscope_model::{Communicator, CommunicatorId, Curve, Job, Model, OfSize, Timed, real};
use ringscope_wire::Primitive;

use super::fastest::{FEWEST as FEWEST_LARGER, Fastest};
use super::scene::Scene;

/// What was found of one job.
#[derive(Debug, Default)]
pub(super) struct Small {
    looked: Timestamp,
    before: BTreeMap<CommunicatorId, Counts>,
    held: Option<Held>,
}

/// Calls and bytes of a communicator's collectives so far.
#[derive(Clone, Debug, Default)]
struct Counts {
    at: Timestamp,
    by_primitive: BTreeMap<Primitive, (u64, u64)>,
}

/// What was found, and since when.
#[derive(Debug)]
struct Held {
    small: TooSmall,
    first: Timestamp,
    last: Timestamp,
    looks: u32,
    rank_seconds: f64,
}

/// Collectives that are too small.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TooSmall {
    pub(super) comm: CommunicatorId,
    pub(super) n_ranks: u32,
    /// One of them.
    pub(super) one: Timed,
    /// Share of the job's time that goes into them, from 0 to 1.
    pub(super) share: f64,
    /// What was measured of larger ones, and whether on another communicator.
    pub(super) fused: Timed,
    pub(super) is_of_other: bool,
    /// So many of them would be one of those ...
    pub(super) n_fused: u64,
    /// ... which takes so many times less.
    pub(super) times: f64,
}

/// How the job's ranks spend their time, and how long a step takes where one of several operations is known.
struct Times {
    in_collectives: HashMap<CommunicatorId, InCollectives>,
    step: Option<Duration>,
}

/// The share of its time that a rank of a communicator is in collectives.
#[derive(Clone, Copy, Debug)]
struct InCollectives {
    /// Of all ranks the least: who comes last waits for nobody.
    least: f64,
    /// And the most: no operation takes longer than whoever completes it last is in it.
    most: f64,
}

impl Small {
    /// Looks at a job, now and then: what is too small, since when, and what it costs. `passed`: since the last time that this was
    /// called.
    pub(super) fn look(
        &mut self,
        model: &Model,
        job: &Job,
        (scene, fastest): (&Scene<'_>, &mut Fastest),
        (passed, now): (Duration, Timestamp),
    ) -> Option<(&TooSmall, Timestamp, Cost)> {
        if now.since(self.looked) >= LOOK_EVERY || now < self.looked {
            self.looked = now;
            self.find(model, job, (scene, fastest), now);
        }
        self.held.take_if(|held| now.since(held.last) >= STAYS);
        let held = self.held.as_mut()?;
        let saved = held.small.saved();
        held.rank_seconds += saved * passed.as_secs_f64() * real(scene.n_processes as u64);
        let step_s = scene.step_in(held.small.comm).as_secs_f64();
        let cost = Cost {
            seconds_per_step: saved * step_s,
            percent: saved * 100.0,
            rank_hours: held.rank_seconds / 3600.0,
            alone_seconds_per_step: None,
        };
        (held.looks >= LOOKS).then_some((&held.small, held.first, cost))
    }

    fn find(
        &mut self,
        model: &Model,
        job: &Job,
        (scene, fastest): (&Scene<'_>, &mut Fastest),
        now: Timestamp,
    ) {
        let times = Times::of(scene);
        let mut after = BTreeMap::new();
        let mut found: Vec<TooSmall> = Vec::new();
        for known in job.communicators(model) {
            let Some(curve) = model.curve(known.id()) else { continue };
            let Some(counts) = Counts::of(model, known, curve, now) else { continue };
            let rates = self.before.get(&known.id()).and_then(|before| counts.since(before));
            after.insert(known.id(), counts);
            let Some((rates, spent)) = rates.zip(times.in_collectives.get(&known.id())) else { continue };
            let look = Look { model, comm: known.id(), curve, rates: &rates, spent: *spent, now };
            found.extend(look.find(times.step, fastest));
        }
        self.before = after;
        // Of many that are alike always the same one is told of.
        let most = found.iter().map(TooSmall::saved).fold(0.0, f64::max);
        let same = self.held.as_ref().map(|held| held.small.comm);
        let rank =
            |small: &TooSmall| (Some(small.comm) == same && small.saved() >= SAME * most, small.saved());
        let Some(small) = found
            .into_iter()
            .max_by(|one, other| rank(one).partial_cmp(&rank(other)).unwrap_or(std::cmp::Ordering::Equal))
        else {
            return;
        };
        match &mut self.held {
            Some(held) => (held.small, held.last, held.looks) = (small, now, held.looks + 1),
            None => self.held = Some(Held { small, first: now, last: now, looks: 1, rank_seconds: 0.0 }),
        }
    }
}

impl TooSmall {
    /// What fusing would give, as a share of the job's time.
    pub(super) fn saved(&self) -> f64 {
        self.share * (1.0 - 1.0 / self.times)
    }
}

impl Times {
    fn of(scene: &Scene<'_>) -> Self {
        let mut in_collectives: HashMap<CommunicatorId, InCollectives> = HashMap::new();
        let ranks = || scene.classes.iter().flatten();
        for rank in ranks() {
            let share = 1.0 - rank.measured.habits[0].own;
            for comm in rank.process.locals().filter_map(|(_, local)| local.communicator()) {
                let of_comm =
                    in_collectives.entry(comm).or_insert(InCollectives { least: share, most: share });
                of_comm.least = of_comm.least.min(share);
                of_comm.most = of_comm.most.max(share);
            }
        }
        // Where every call is alike no step can be seen in their order.
        let has_steps = ranks().any(|rank| rank.measured.has_steps && rank.measured.operations_per_step > 1);
        Self { in_collectives, step: has_steps.then(|| scene.step()) }
    }
}

impl Counts {
    /// Of the first rank that lives: all ranks call the same.
    fn of(model: &Model, known: &Communicator, curve: &Curve, now: Timestamp) -> Option<Self> {
        let rank = known.ranks(model).find(|rank| rank.ended().is_none())?;
        let counted = rank.local.counters();
        let of_curve = curve.sizes().map(|(primitive, ..)| primitive);
        let by_primitive = of_curve.filter_map(|primitive| {
            let totals = counted.get(primitive)?.totals();
            Some((primitive, (totals.completed_calls, totals.completed_bytes)))
        });
        Some(Self { at: now, by_primitive: by_primitive.collect() })
    }

    /// Calls and bytes a second. `None`: no time has passed, by a clock that was set back.
    fn since(&self, before: &Self) -> Option<BTreeMap<Primitive, (f64, f64)>> {
        let passed = Some(self.at.since(before.at)).filter(|passed| !passed.is_zero())?;
        let per_s = |now: u64, before: u64| real(now.saturating_sub(before)) / passed.as_secs_f64();
        let of = |(primitive, (calls, bytes)): (&Primitive, &(u64, u64))| {
            let (old_calls, old_bytes) = before.by_primitive.get(primitive)?;
            Some((*primitive, (per_s(*calls, *old_calls), per_s(*bytes, *old_bytes))))
        };
        Some(self.by_primitive.iter().filter_map(of).collect())
    }
}

/// A look at one communicator.
struct Look<'l> {
    model: &'l Model,
    comm: CommunicatorId,
    curve: &'l Curve,
    /// Calls and bytes a second.
    rates: &'l BTreeMap<Primitive, (f64, f64)>,
    spent: InCollectives,
    now: Timestamp,
}

/// Operations of one primitive, of one size or of several together, in the mean.
#[derive(Clone, Copy, Debug)]
struct Mean {
    bytes: f64,
    seconds: f64,
}

impl Look<'_> {
    fn find(&self, step: Option<Duration>, fastest: &mut Fastest) -> Option<TooSmall> {
        if self.spent.least < LEAST_SHARE {
            return None;
        }
        let small = self.curve.sizes().filter_map(|(primitive, log2, size)| {
            let one = size.mean().filter(|one| one.bytes >= LEAST_BYTES)?;
            let newest = size.newest().next_back()?;
            (size.n() >= FEWEST && self.now.since(newest.at) < LATE).then_some((primitive, log2, one))
        });
        let found = small.filter_map(|small| self.judge(small, step, fastest));
        found.max_by(|one, other| one.saved().total_cmp(&other.saved()))
    }

    fn judge(
        &self,
        (primitive, log2, one): (Primitive, u32, Timed),
        step: Option<Duration>,
        fastest: &mut Fastest,
    ) -> Option<TooSmall> {
        let (per_s, others_s) = self.split(primitive, log2, one)?;
        let all_per_s: f64 = self.rates.values().map(|(calls, _)| calls).sum();
        let all_bytes_per_s: f64 = self.rates.values().map(|(_, bytes)| bytes).sum();
        let in_them_s = per_s * one.seconds();
        // Where operations are queued one behind the other, the times of single ones overlap, and nobody knows which of them is long.
        let overlaps = in_them_s + others_s > OVERLAP * self.spent.most;
        let has_nearly_all =
            per_s >= NEARLY_ALL * all_per_s && per_s * real(one.bytes) >= NEARLY_ALL * all_bytes_per_s;
        if overlaps && !has_nearly_all {
            return None;
        }
        let share = in_them_s.min(self.spent.least);
        if share < LEAST_SHARE {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "no step has so many")]
        let per_step = step.map_or(MOST_FUSED, |step| (per_s * step.as_secs_f64() * SLACK) as u64);
        let one = Timed { ns: nanos(share / per_s)?, ..one };
        let fuse = |(fused, is_of_other): (Timed, bool)| {
            let n_fused = fused.bytes / one.bytes;
            let times = real(n_fused) * one.seconds() / fused.seconds();
            let (comm, n_ranks) = (self.comm, self.curve.n_ranks());
            let is_fit = (FEWEST_FUSED..=per_step).contains(&n_fused) && times >= LEAST_TIMES;
            is_fit.then_some(TooSmall { comm, n_ranks, one, share, fused, is_of_other, n_fused, times })
        };
        let found = self.larger(primitive, log2, fastest).into_iter().filter_map(fuse);
        found
            .max_by(|one, other| one.saved().total_cmp(&other.saved()))
            .filter(|found| found.saved() >= LEAST_SAVED)
    }

    /// How many a second are of this size, and how much of a second all other collectives take, by their counts. `None`: there are
    /// others of which nothing is known.
    fn split(&self, primitive: Primitive, log2: u32, one: Timed) -> Option<(f64, f64)> {
        let (calls, bytes) = *self.rates.get(&primitive)?;
        let rest = self.mean(|other, size| other == primitive && size != log2);
        let small = real(one.bytes);
        let per_s = match rest {
            Some(rest) if (rest.bytes - small).abs() > small => {
                ((calls * rest.bytes - bytes) / (rest.bytes - small)).clamp(0.0, calls)
            }
            // All known ones are of about one size: so have to be those that are counted.
            _ => Some(calls)
                .filter(|calls| bytes <= ALIKE * small * calls && small * calls <= ALIKE * bytes)?,
        };
        let of_others = self.rates.iter().filter(|(other, _)| **other != primitive);
        let others_s: f64 = of_others
            .map(|(other, (calls, _))| {
                calls * self.mean(|one, _| one == *other).map_or(0.0, |mean| mean.seconds)
            })
            .sum();
        Some((per_s, others_s + (calls - per_s) * rest.map_or(0.0, |rest| rest.seconds)))
    }

    /// Of operations that were timed.
    fn mean(&self, is_meant: impl Fn(Primitive, u32) -> bool) -> Option<Mean> {
        let (mut n, mut bytes, mut seconds) = (0.0, 0.0, 0.0);
        for (primitive, log2, size) in self.curve.sizes() {
            let Some(one) = size.mean().filter(|_| is_meant(primitive, log2)) else { continue };
            let of_size = real(size.n());
            n += of_size;
            bytes += of_size * real(one.bytes);
            seconds += of_size * one.seconds();
        }
        (n > 0.0).then(|| Mean { bytes: bytes / n, seconds: seconds / n })
    }

    /// What was measured of larger ones: here, else on communicators like this one, the fastest of them. With whether it was there.
    fn larger(&self, primitive: Primitive, log2: u32, fastest: &mut Fastest) -> Vec<(Timed, bool)> {
        let of_like = fastest.of(self.model, self.now, self.comm, (self.curve, primitive)).iter();
        let larger = of_like.filter(|(size, ..)| *size > log2).map(|(size, comm, timed)| {
            let own = self.curve.size(primitive, *size).filter(|own| own.n() >= FEWEST_LARGER);
            let own = own.and_then(OfSize::mean);
            own.map_or((*timed, *comm != self.comm), |own| (own, false))
        });
        larger.collect()
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time of some seconds at most")]
fn nanos(seconds: f64) -> Option<u64> {
    Some((seconds * 1e9) as u64).filter(|ns| *ns > 0)
}

/// Between two looks: calls of so long are counted.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// So many looks have to find it.
const LOOKS: u32 = 2;
/// What is found no more is over after this.
const STAYS: Duration = Duration::from_secs(30);
/// Of many alike the one that was told of stays while it has so much of what the largest has.
const SAME: f64 = 0.7;
/// Operations of a size that make a time.
const FEWEST: u64 = 4;
/// Nobody calls a size of which nothing was timed for so long.
const LATE: Duration = Duration::from_secs(60);
/// What is smaller is a barrier or a flag: not its bytes are what it is called for.
const LEAST_BYTES: u64 = 64;
/// Of the job's time ...
const LEAST_SHARE: f64 = 0.2;
/// ... and what fusing has to give.
const LEAST_SAVED: f64 = 0.15;
/// By how much: what is less is no matter of size.
const LEAST_TIMES: f64 = 3.0;
const FEWEST_FUSED: u64 = 4;
/// Fused at once, at most, where it is not known how many belong to a step.
const MOST_FUSED: u64 = 64;
/// How many belong to a step is known to a tenth.
const SLACK: f64 = 1.1;
/// Times of single ones may be wrong by so much before they are said to overlap.
const OVERLAP: f64 = 1.3;
/// Of all calls and bytes of the communicator, where they overlap: then each takes its part of the time.
const NEARLY_ALL: f64 = 0.95;
/// Sizes within one power of two differ by as much at most.
const ALIKE: f64 = 2.0;

#[cfg(test)]
mod tests;
