//! Which completed operations are told where not all are: of each communicator those whose number among its calls is divisible
//! by a power of two. How high that power is follows from how often the communicator is called, which is the same on all of its
//! ranks; so they choose the same operations without a word between them, and where two of them have come to different powers
//! the operations of the higher one are among those of the lower one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What a communicator may tell a second before fewer are told, and below what it tells more. More than twice apart, so that
/// one that is called at a steady pace does not go back and forth.
const MOST_PER_S: f64 = 2.0;
const LEAST_PER_S: f64 = 0.75;
/// The same of all communicators of a process together: four operations are some 300 bytes.
const MOST_OF_ALL_PER_S: f64 = 4.0;
const LEAST_OF_ALL_PER_S: f64 = 1.5;
/// The pace is a mean over about so long: longer than most steps take, for calls come in bursts, one a step.
const PACE_OVER: Duration = Duration::from_secs(20);
/// Operations of one communicator that one reading may find to tell. In a sudden burst the power rises at once.
const MOST_AT_ONCE: u64 = 16;
/// Enough for 2^32 calls a second.
const MAX_LOG2: u32 = 31;

/// How finely each communicator is told.
#[derive(Debug, Default)]
pub(super) struct Sampling {
    communicators: BTreeMap<u64, Pace>,
    /// By how much all are told more coarsely than each alone would be, because there are many.
    coarser: u32,
    read_at: Option<Instant>,
}

#[derive(Debug)]
struct Pace {
    calls: u64,
    /// Calls a second.
    rate: f64,
    /// For how long it has been followed, until that is longer than a mean takes.
    followed: Duration,
    log2: u32,
}

impl Sampling {
    /// Takes how many calls each communicator has counted.
    pub(super) fn learn(&mut self, counted: impl Iterator<Item = (u64, u64)>, now: Instant) {
        let since = self.read_at.map(|before| now.saturating_duration_since(before));
        self.read_at = Some(now);
        let mut before = std::mem::take(&mut self.communicators);
        self.communicators = counted
            .map(|(local_id, calls)| {
                // What was called before the first reading, nobody knows when.
                let known = since.map_or(calls, |_| 0);
                let new = || Pace { calls: known, rate: 0.0, followed: Duration::ZERO, log2: 0 };
                let mut pace = before.remove(&local_id).unwrap_or_else(new);
                pace.learn(calls, since.unwrap_or_default());
                (local_id, pace)
            })
            .collect();
        while self.told_per_s() > MOST_OF_ALL_PER_S && self.coarser < MAX_LOG2 {
            self.coarser += 1;
        }
        while self.coarser > 0 && self.told_per_s() < LEAST_OF_ALL_PER_S {
            self.coarser -= 1;
        }
    }

    /// Of a communicator, operations are told whose number is divisible by two to the power of this.
    pub(super) fn log2(&self, local_id: u64) -> u32 {
        let own = self.communicators.get(&local_id).map_or(0, |pace| pace.log2);
        (own + self.coarser).min(MAX_LOG2)
    }

    fn told_per_s(&self) -> f64 {
        self.communicators.iter().map(|(id, pace)| pace.rate / every(self.log2(*id))).sum()
    }
}

impl Pace {
    fn learn(&mut self, calls: u64, since: Duration) {
        let new = calls.saturating_sub(self.calls);
        self.calls = calls;
        if !since.is_zero() {
            // At first the mean is over what there is.
            self.followed = (self.followed + since).min(PACE_OVER);
            let part = since.div_duration_f64(self.followed).min(1.0);
            self.rate += part * (as_f64(new) / since.as_secs_f64() - self.rate);
        }
        while self.log2 < MAX_LOG2
            && (self.rate / every(self.log2) > MOST_PER_S || new >> self.log2 > MOST_AT_ONCE)
        {
            self.log2 += 1;
        }
        while self.log2 > 0
            && self.rate / every(self.log2) < LEAST_PER_S
            && new >> (self.log2 - 1) <= MOST_AT_ONCE
        {
            self.log2 -= 1;
        }
    }
}

fn every(log2: u32) -> f64 {
    f64::from(1_u32 << log2.min(MAX_LOG2))
}

#[expect(clippy::cast_precision_loss, reason = "a pace needs no 53 bits")]
fn as_f64(calls: u64) -> f64 {
    calls as f64
}

#[cfg(test)]
mod tests {
    use ringscope_api::clock;

    use super::*;

    const READING: Duration = Duration::from_millis(250);

    /// Follows one communicator for so long; `calls` says how many it has counted at a time.
    fn follow(
        sampling: &mut Sampling,
        from: Instant,
        readings: u32,
        calls: impl Fn(f64) -> u64,
    ) -> (Vec<u32>, u64) {
        let (mut seen, mut told, mut before) = (Vec::new(), 0, calls(0.0));
        for reading in 0..readings {
            let at = READING * reading;
            let now = calls(at.as_secs_f64());
            sampling.learn([(1, now)].into_iter(), from + at);
            let log2 = sampling.log2(1);
            told += now.div_ceil(1 << log2) - before.div_ceil(1 << log2);
            before = now;
            seen.push(log2);
        }
        (seen, told)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    fn steady(per_s: f64) -> impl Fn(f64) -> u64 {
        move |at_s| (at_s * per_s) as u64
    }

    #[test]
    fn a_communicator_tells_one_or_two_operations_a_second_whatever_its_pace() {
        for per_s in [0.5, 1.0, 3.0, 10.0, 66.7, 1_000.0, 50_000.0] {
            let (seen, told) = follow(&mut Sampling::default(), clock::monotonic(), 4 * 120, steady(per_s));
            let most = 2.1 * 120.0 + 64.0;
            assert!(as_f64(told) < most, "{told} of {per_s} a second");
            assert!(as_f64(told) >= 0.7 * 120.0 * per_s.min(1.0), "{told} of {per_s} a second");
            assert!(seen[200..].iter().all(|log2| *log2 == seen[200]), "{per_s} a second: {seen:?}");
        }
    }

    #[test]
    fn ranks_whose_pace_is_seen_a_little_otherwise_are_one_step_apart_at_most() {
        for per_s in [5.9, 6.0, 12.1, 100.0, 127.9, 128.1] {
            let start = clock::monotonic();
            let (one, _) = follow(&mut Sampling::default(), start, 480, steady(per_s));
            let (other, _) = follow(&mut Sampling::default(), start, 480, steady(per_s * 1.02));
            let apart = one.iter().zip(&other).skip(80).map(|(one, other)| one.abs_diff(*other)).max();
            assert!(apart <= Some(1), "{per_s}: {apart:?}");
        }
    }

    #[test]
    fn steps_that_come_in_bursts_do_not_make_it_go_back_and_forth() {
        // A hundred calls within a quarter of a second, each five seconds.
        let bursts = |at_s: f64| 100 * steady(0.2)(at_s) + 100;
        let (seen, told) = follow(&mut Sampling::default(), clock::monotonic(), 480, bursts);
        let changes = seen[120..].windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(changes <= 2, "{changes}: {seen:?}");
        assert!((60..300).contains(&told), "{told}");
    }

    #[test]
    fn many_communicators_tell_no_more_than_a_few() {
        let (mut sampling, start) = (Sampling::default(), clock::monotonic());
        for reading in 0..400 {
            let calls = u64::from(reading) * 5;
            sampling.learn((0..20).map(|id| (id, calls)), start + READING * reading);
        }
        let told = sampling.told_per_s();
        assert!((1.5..=4.0).contains(&told), "{told} a second");
        sampling.learn([(0, 2_000)].into_iter(), start + READING * 400);
        assert!(sampling.told_per_s() >= 0.7, "the others ended");
    }

    #[test]
    fn a_sudden_burst_tells_little() {
        let (mut sampling, start) = (Sampling::default(), clock::monotonic());
        for reading in 0..40 {
            sampling.learn([(1, 7)].into_iter(), start + READING * reading);
        }
        assert_eq!(sampling.log2(1), 0, "all of one that is quiet");
        sampling.learn([(1, 100_007)].into_iter(), start + READING * 41);
        assert!(100_000 >> sampling.log2(1) <= MOST_AT_ONCE);
    }
}
