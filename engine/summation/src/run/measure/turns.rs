//! Whose turn it is, and what one has come to.

use std::collections::BTreeSet;
use std::time::Duration;

use super::TURNS_EACH;
use super::meter::Meter;

/// A machine's turn, at its leader.
#[derive(Debug)]
pub(super) struct Turn {
    /// Its number.
    pub(super) machine: usize,
    /// What comes from all who help.
    pub(super) meter: Meter,
    helpers: BTreeSet<usize>,
    /// Whose data have not ended.
    sending: BTreeSet<usize>,
    /// Who has not said what came.
    silent: BTreeSet<usize>,
    reported_bytes_per_s: u64,
    until_ns: u64,
}

/// The turns, at rank 0.
#[derive(Debug)]
pub(super) struct Turns {
    left: Vec<usize>,
    present: Option<usize>,
    until_ns: u64,
    patience: Duration,
    /// By machine, in Mbit/s, and whether it may be more; 0: not known.
    told: Vec<(u64, bool)>,
    /// Ranks that have not heard all of it.
    pub(super) n_here: usize,
}

/// Beyond what a turn should take, until it counts as failed: links may be slow, and machines busy.
const GRACE: Duration = Duration::from_secs(2);

/// Rates of less than so many hundredths below another one are the same.
const ALIKE_PERCENT: u64 = 80;

impl Turn {
    pub(super) fn new(machine: usize, helpers: &[usize], now_ns: u64, time: Duration) -> Self {
        let helpers: BTreeSet<usize> = helpers.iter().copied().collect();
        Self {
            machine,
            meter: Meter::default(),
            sending: helpers.clone(),
            silent: helpers.clone(),
            helpers,
            reported_bytes_per_s: 0,
            until_ns: now_ns.saturating_add(ns(time + GRACE)),
        }
    }

    /// Whether a rank takes part in it.
    pub(super) fn has(&self, rank: usize) -> bool {
        self.helpers.contains(&rank)
    }

    /// A rank has sent all.
    pub(super) fn ended(&mut self, rank: usize) {
        self.sending.remove(&rank);
    }

    /// A rank says how fast this machine's data came.
    pub(super) fn reported(&mut self, rank: usize, bytes_per_s: u64) {
        if self.silent.remove(&rank) {
            self.reported_bytes_per_s = self.reported_bytes_per_s.saturating_add(bytes_per_s);
        }
    }

    pub(super) fn is_over(&self, now_ns: u64) -> bool {
        self.sending.is_empty() && self.silent.is_empty() || now_ns >= self.until_ns
    }

    /// Of the slower way; 0 where it is not known.
    pub(super) fn bytes_per_s(&self) -> u64 {
        let is_whole = self.sending.is_empty() && self.silent.is_empty();
        if is_whole { self.meter.bytes_per_s().min(self.reported_bytes_per_s) } else { 0 }
    }
}

impl Turns {
    /// Of the machines that are wanted, in a group of so many ranks.
    pub(super) fn new((wanted, before): (&[bool], &[u64]), time: Duration, n_ranks: usize) -> Self {
        let known = |machine: usize| before.get(machine).copied().filter(|rate| *rate > 0);
        let machines =
            || (0..wanted.len()).rev().filter(|machine| wanted[*machine] && known(*machine).is_none());
        let left = (0..TURNS_EACH).flat_map(|_| machines()).collect();
        let told = |machine| known(machine).map_or((0, true), |rate| (rate, false));
        let (told, n_here) = ((0..wanted.len()).map(told).collect(), n_ranks - 1);
        // The machine's own patience comes first.
        let patience = time + GRACE + GRACE;
        Self { left, present: None, until_ns: 0, patience, told, n_here }
    }

    /// Whether a machine has its turn, and time.
    pub(super) fn is_waiting(&self, now_ns: u64) -> bool {
        self.present.is_some() && now_ns < self.until_ns
    }

    /// The next machine; none if all have had their turns.
    pub(super) fn next(&mut self, now_ns: u64) -> Option<usize> {
        self.present = self.left.pop();
        self.until_ns = now_ns.saturating_add(ns(self.patience));
        self.present
    }

    /// A machine has this rate, or more.
    pub(super) fn told(&mut self, machine: usize, mbit: u64, is_more: bool) {
        if self.present == Some(machine) {
            self.present = None;
            if let Some((rate, may_be_more)) = self.told.get_mut(machine) {
                (*rate, *may_be_more) = (mbit.max(*rate), is_more && *may_be_more);
            }
        }
    }

    /// By machine, in Mbit/s; 0: not known.
    pub(super) fn rates(&self) -> Vec<u64> {
        let fastest = self.told.iter().map(|(rate, _)| *rate).max().unwrap_or(0);
        let rate =
            |(rate, may_be_more): &(u64, bool)| if *may_be_more && *rate > 0 { fastest } else { *rate };
        self.told.iter().map(rate).collect()
    }
}

/// Rates with those made equal to the fastest of their kind that differ from it by little.
pub(in crate::run) fn evened(rates: &[u64]) -> Vec<u64> {
    let mut order: Vec<u64> = rates.to_vec();
    order.sort_unstable_by_key(|rate| std::cmp::Reverse(*rate));
    let mut kinds: Vec<u64> = Vec::new();
    for rate in order {
        if kinds.last().is_none_or(|fastest| rate.saturating_mul(100) < fastest.saturating_mul(ALIKE_PERCENT))
        {
            kinds.push(rate);
        }
    }
    let kind = |rate: &u64| kinds.iter().rev().find(|fastest| *fastest >= rate).copied().unwrap_or(*rate);
    rates.iter().map(kind).collect()
}

pub(super) fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_that_differ_by_little_are_the_same() {
        assert_eq!(evened(&[941, 100, 938, 99, 800, 0, 700]), [941, 100, 941, 100, 941, 0, 700]);
        assert!(evened(&[]).is_empty());
    }

    #[test]
    fn the_slower_way_counts_once_all_have_said_what_came() {
        let mut turn = Turn::new(1, &[0, 2], 0, Duration::from_millis(100));
        for ms in 0..100 {
            turn.meter.count(1000, ms * 1_000_000);
        }
        (0..3)
            .filter(|rank| turn.has(*rank))
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|rank| turn.ended(rank));
        turn.reported(0, 300_000);
        assert!(!turn.is_over(1_000_000_000) && turn.is_over(2_100_000_000));
        assert_eq!(turn.bytes_per_s(), 0, "one has not said");
        turn.reported(2, 400_000);
        turn.reported(2, 400_000);
        assert!(turn.is_over(0));
        assert_eq!(turn.bytes_per_s(), 700_000);
    }

    #[test]
    fn who_does_not_answer_in_its_turn_is_passed_over() {
        let mut turns = Turns::new((&[true, false, true], &[]), Duration::from_millis(100), 3);
        assert_eq!(turns.next(0), Some(0));
        turns.told(2, 50, false);
        assert!(turns.is_waiting(4_000_000_000) && !turns.is_waiting(4_100_000_000));
        assert_eq!(turns.next(4_100_000_000), Some(2));
        turns.told(0, 50, false);
        turns.told(2, 70, false);
        assert!(!turns.is_waiting(4_100_000_001));
        assert_eq!((turns.next(5_000_000_000), turns.next(6_000_000_000)), (Some(0), Some(2)));
        turns.told(2, 60, false);
        assert_eq!((turns.next(7_000_000_000), turns.rates()), (None, vec![0, 0, 70]), "the better of both");
    }

    #[test]
    fn what_was_measured_before_is_not_measured_again() {
        let mut turns = Turns::new((&[true; 3], &[50, 0, 0]), Duration::from_millis(100), 3);
        for machine in [1, 2, 1, 2] {
            assert_eq!(turns.next(0), Some(machine));
            turns.told(machine, 70, false);
        }
        assert_eq!((turns.next(0), turns.rates()), (None, vec![50, 70, 70]));
    }

    #[test]
    fn who_had_no_processor_counts_as_the_fastest() {
        let mut turns = Turns::new((&[true; 3], &[]), Duration::from_millis(100), 3);
        for (turn, is_more) in [(0, true), (1, true)] {
            for (machine, mbit) in [(0, 100), (1, 2000), (2, 900)] {
                assert_eq!(turns.next(0), Some(machine));
                turns.told(machine, mbit, is_more && (machine < 2 || turn == 0));
            }
        }
        assert_eq!(turns.rates(), [2000, 2000, 900]);
    }
}
