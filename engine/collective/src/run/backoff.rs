//! How long to look again before sleeping: a sleep costs two switches of context, and looking costs the core.

use std::time::Duration;

use crate::clock;

/// Looking on for this long costs no more than a sleep and a late wake-up would.
const SPIN_NS: u64 = 50_000;
/// Looks between two readings of the clock, which costs as much as a look.
const LOOKS_PER_READING: u32 = 16;
/// Where ranks outnumber cores, the other rank needs this core to answer: give it away so often, then sleep.
const YIELDS: u32 = 48;
/// A sleep ends by itself after this, in case a wake-up was lost: a safety net, not a rhythm.
const MAX_SLEEP_NS: u64 = 1_000_000_000;

/// What to do after a look at which nothing had moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Look again.
    Spin,
    /// Let others run, then look again.
    Yield,
    /// Sleep, but not longer than this.
    Sleep(Duration),
    /// Nothing has moved for as long as the caller wanted to wait.
    GiveUp,
}

/// The looks since something moved.
#[derive(Debug)]
pub struct Backoff {
    crowded: bool,
    limit_ns: u64,
    looks: u32,
    since_ns: Option<u64>,
}

impl Backoff {
    /// `crowded`: ranks outnumber cores. `limit`: when to give up.
    pub fn new(crowded: bool, limit: Option<Duration>) -> Self {
        let limit_ns = limit.map_or(u64::MAX, |limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
        Self { crowded, limit_ns, looks: 0, since_ns: None }
    }

    /// Something moved.
    pub fn moved(&mut self) {
        self.looks = 0;
        self.since_ns = None;
    }

    /// Nothing moved.
    #[expect(clippy::should_implement_trait, reason = "it is no sequence")]
    pub fn next(&mut self) -> Next {
        self.looks = self.looks.saturating_add(1);
        if self.crowded && self.looks < YIELDS {
            return Next::Yield;
        }
        if !self.crowded && !self.looks.is_multiple_of(LOOKS_PER_READING) {
            return Next::Spin;
        }
        let now = clock::monotonic_ns();
        let waited = now.saturating_sub(*self.since_ns.get_or_insert(now));
        if waited >= self.limit_ns {
            Next::GiveUp
        } else if !self.crowded && waited < SPIN_NS {
            Next::Spin
        } else {
            Next::Sleep(Duration::from_nanos((self.limit_ns - waited).min(MAX_SLEEP_NS)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_yields_and_then_sleeps() {
        let mut backoff = Backoff::new(true, None);
        let nexts: Vec<Next> = (0..YIELDS).map(|_| backoff.next()).collect();
        assert!(nexts[..YIELDS as usize - 1].iter().all(|next| *next == Next::Yield));
        assert_eq!(nexts.last(), Some(&Next::Sleep(Duration::from_nanos(MAX_SLEEP_NS))));
        backoff.moved();
        assert_eq!(backoff.next(), Next::Yield);
    }

    #[test]
    fn without_a_crowd_it_spins_until_the_limit() {
        let mut backoff = Backoff::new(false, Some(Duration::ZERO));
        let next = (0..LOOKS_PER_READING).map(|_| backoff.next()).find(|next| *next != Next::Spin);
        assert_eq!(next, Some(Next::GiveUp));
    }
}
