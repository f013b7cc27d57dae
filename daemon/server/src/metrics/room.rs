//! What has series where not all of it can: the unhealthy first, then the largest; and what is shown stays, so that nothing
//! comes and goes between scrapes. Pure.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use ringscope_api::clock::Timestamp;

/// Something that may have series.
pub(super) struct Candidate<K> {
    pub(super) key: K,
    pub(super) unhealthy: bool,
    /// Of equally healthy ones the largest come first.
    pub(super) size: u64,
    /// Series that it has as a whole, at most.
    pub(super) whole: usize,
    /// How many more it has in detail, at most. 0: there is no more to show.
    pub(super) detail: usize,
}

/// How much is shown of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Whole,
    Detail,
}

/// What was shown at the last scrape.
pub(super) struct Memory<K>(HashMap<K, Held>);

#[derive(Clone, Copy, Default)]
struct Held {
    level: Option<Level>,
    /// When it was unhealthy last.
    unhealthy: Option<Timestamp>,
}

/// What is shown at this one.
pub(super) struct Choice<K> {
    levels: HashMap<K, Level>,
    /// Those that are not shown.
    pub(super) left_out: usize,
    /// Those that are shown as a whole, and have more.
    pub(super) without_detail: usize,
    /// Series that all of it has, at most.
    pub(super) used: usize,
}

impl<K: Ord + Hash + Clone> Memory<K> {
    /// Chooses so that all have `room` series at most. `wholes_percent`: how much of it those that are healthy may take before
    /// any of these is shown in detail.
    pub(super) fn choose(
        &mut self,
        candidates: &[Candidate<K>],
        room: usize,
        wholes_percent: usize,
        now: Timestamp,
    ) -> Choice<K> {
        let mut all: Vec<(Held, &Candidate<K>)> =
            candidates.iter().map(|one| (self.held(one, now), one)).collect();
        let mut choice = Choice { levels: HashMap::new(), left_out: 0, without_detail: 0, used: 0 };
        let is_bad = |held: &Held| held.unhealthy.is_some();
        all.sort_by_key(|(held, one)| (!is_bad(held), Reverse(grown(one, held.level.is_some())), &one.key));
        let (bad, good) = all.split_at(all.partition_point(|(held, _)| is_bad(held)));
        choice.take_wholes(bad, room);
        choice.take_details(bad, room);
        let first = choice.used + room.saturating_sub(choice.used) * wholes_percent / 100;
        choice.take_wholes(good, first);
        choice.take_details(good, room);
        choice.take_wholes(good, room);
        let level = |one: &Candidate<K>| choice.levels.get(&one.key).copied();
        choice.left_out = candidates.iter().filter(|one| level(one).is_none()).count();
        let lacks = |one: &&Candidate<K>| one.detail > 0 && level(one) == Some(Level::Whole);
        choice.without_detail = candidates.iter().filter(lacks).count();
        let kept = all.iter().map(|(held, one)| (one.key.clone(), Held { level: level(one), ..*held }));
        self.0 = kept.filter(|(_, held)| held.level.is_some() || is_bad(held)).collect();
        choice
    }

    /// What is remembered of one, with its health now.
    fn held(&self, one: &Candidate<K>, now: Timestamp) -> Held {
        let held = self.0.get(&one.key).copied().unwrap_or_default();
        let lately = held.unhealthy.filter(|at| now.since(*at) < UNHEALTHY_HELD);
        Held { unhealthy: if one.unhealthy { Some(now) } else { lately }, ..held }
    }
}

impl<K> Default for Memory<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Ord + Hash + Clone> Choice<K> {
    /// How much is shown of it.
    pub(super) fn level(&self, key: &K) -> Option<Level> {
        self.levels.get(key).copied()
    }

    fn take_wholes(&mut self, candidates: &[(Held, &Candidate<K>)], room: usize) {
        for (_, one) in candidates {
            if self.used + one.whole <= room && !self.levels.contains_key(&one.key) {
                self.used += one.whole;
                let level = if one.detail == 0 { Level::Detail } else { Level::Whole };
                self.levels.insert(one.key.clone(), level);
            }
        }
    }

    fn take_details(&mut self, candidates: &[(Held, &Candidate<K>)], room: usize) {
        let mut shown: Vec<(bool, &Candidate<K>)> = candidates
            .iter()
            .filter(|(_, one)| self.levels.contains_key(&one.key))
            .map(|(held, one)| (held.level == Some(Level::Detail), *one))
            .collect();
        shown.sort_by_key(|(had, one)| (Reverse(grown(one, *had)), &one.key));
        for (_, one) in shown {
            if self.used + one.detail <= room {
                self.used += one.detail;
                self.levels.insert(one.key.clone(), Level::Detail);
            }
        }
    }
}

/// What is shown gives way to what is twice as large.
fn grown<K>(one: &Candidate<K>, is_shown: bool) -> u64 {
    if is_shown { one.size.saturating_mul(2) } else { one.size }
}

/// How long something counts as unhealthy after it is well: what comes and goes stays in sight, and so does its end.
const UNHEALTHY_HELD: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Timestamp {
        Timestamp(s * 1_000_000_000)
    }

    /// Name, whether it is unhealthy, its size; 10 series as a whole, and 5 for each of its ranks.
    fn candidates(all: &[(&'static str, bool, u64)]) -> Vec<Candidate<&'static str>> {
        let candidate = |(key, unhealthy, size): &(&'static str, bool, u64)| Candidate {
            key: *key,
            unhealthy: *unhealthy,
            size: *size,
            whole: 10,
            detail: usize::try_from(*size).unwrap() * 5,
        };
        all.iter().map(candidate).collect()
    }

    /// Those shown, by name; in capitals in detail.
    fn shown(
        memory: &mut Memory<&'static str>,
        all: &[(&'static str, bool, u64)],
        room: usize,
        s: u64,
    ) -> String {
        let choice = memory.choose(&candidates(all), room, 50, at(s));
        assert!(choice.used <= room, "{} of {room}", choice.used);
        let n = |level| all.iter().filter(|(key, ..)| choice.level(key) == level).count();
        assert_eq!((choice.left_out, choice.without_detail), (n(None), n(Some(Level::Whole))));
        let mut words: Vec<String> = all
            .iter()
            .filter_map(|(key, ..)| match choice.level(key)? {
                Level::Whole => Some((*key).to_owned()),
                Level::Detail => Some(key.to_uppercase()),
            })
            .collect();
        words.sort_by_key(|word| word.to_lowercase());
        words.concat()
    }

    #[test]
    fn the_unhealthy_come_first_then_the_largest() {
        let all = [("a", false, 2), ("b", false, 8), ("c", true, 4), ("d", false, 6)];
        let choose = |room| shown(&mut Memory::default(), &all, room, 0);
        assert_eq!(choose(1000), "ABCD");
        assert_eq!(choose(30), "C", "all of what is unhealthy before anything of the others");
        assert_eq!(choose(50), "bCd");
        assert_eq!(choose(70), "abCd", "the room that no detail fits into is for the others");
        assert_eq!(choose(100), "aBCd");
        assert_eq!(choose(9), "");
    }

    #[test]
    fn what_is_shown_stays_until_something_twice_as_large_comes() {
        let mut memory = Memory::default();
        assert_eq!(shown(&mut memory, &[("m", false, 10)], 10, 0), "m");
        assert_eq!(shown(&mut memory, &[("m", false, 10), ("a", false, 19)], 10, 1), "m");
        assert_eq!(shown(&mut memory, &[("m", false, 10), ("b", false, 21)], 10, 2), "b");
        for s in 3..9 {
            assert_eq!(shown(&mut memory, &[("m", false, 10), ("b", false, 21)], 10, s), "b", "and stays");
        }
    }

    #[test]
    fn what_becomes_unhealthy_enters_at_once_and_leaves_late() {
        let mut memory = Memory::default();
        let all = |bad| [("big", false, 100), ("small", bad, 1)];
        assert_eq!(shown(&mut memory, &all(false), 10, 0), "big");
        assert_eq!(shown(&mut memory, &all(true), 10, 1), "small");
        // It comes and goes: what is shown does not.
        for s in 2..600 {
            assert_eq!(shown(&mut memory, &all(s % 2 == 0), 10, s), "small");
        }
        assert_eq!(shown(&mut memory, &all(false), 10, 1150), "small", "within ten minutes");
        assert_eq!(shown(&mut memory, &all(false), 10, 1200), "big", "then the largest again");
    }

    #[test]
    fn what_was_shown_in_detail_stays_so() {
        let mut memory = Memory::default();
        // Room for one of them in detail.
        let all = [("a", false, 10), ("b", false, 12)];
        assert_eq!(shown(&mut memory, &all[..1], 80, 0), "A");
        for s in 1..5 {
            assert_eq!(shown(&mut memory, &all, 80, s), "Ab");
        }
    }
}
