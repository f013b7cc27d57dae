//! Results of rounds: who made each, and whether all who have it have the same bytes.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_wire::batch::SummationRound;

use super::super::limits::{MAX_GROUP_ROUNDS, MAX_MISMATCHES, MAX_PRINTS};
use super::beats::Beats;

/// The newest results of one group.
#[derive(Debug, Default)]
pub struct Rounds {
    known: HashMap<Key, Outcome>,
    /// In the order in which they were first told.
    order: VecDeque<Key>,
    mismatches: Vec<Outcome>,
    n_mismatches: u64,
    /// The longest spread since it was taken last, by the rank that made the results.
    spreads: BTreeMap<u32, Duration>,
    beats: Beats,
}

/// Placement epoch, with which rounds begin anew; part; round.
type Key = (u64, u32, u64);

/// One result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Placement that the part and the round are of.
    pub placement_epoch: u64,
    /// Part.
    pub key: u32,
    /// Round of that part.
    pub round: u64,
    /// When it was there, by the clock of who told of it first.
    pub at: Timestamp,
    /// How it was made. Absent: only workers have told of it.
    pub made: Option<Made>,
    /// Ranks by the fingerprint of what they have.
    pub prints: Vec<(u64, BTreeSet<u32>)>,
}

/// How a result was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of batch.proto's SummationRound")]
pub struct Made {
    /// Rank whose service made it.
    pub rank: u32,
    pub fingerprint: u64,
    pub contributors: u32,
    pub last_arriver: u32,
    pub spread: Duration,
    pub took: Duration,
}

impl Rounds {
    /// Takes what the process of this rank has.
    pub(super) fn hear(&mut self, placement_epoch: u64, rank: u32, told: &SummationRound) {
        let key = (placement_epoch, told.key, told.round);
        if told.made {
            self.beats.hear(placement_epoch, told);
        }
        if !self.known.contains_key(&key) {
            self.make_room();
            self.order.push_back(key);
        }
        let outcome = self.known.entry(key).or_insert_with(|| Outcome::new(placement_epoch, told));
        let was_agreed = outcome.agree() != Some(false);
        if told.made && outcome.made.is_none() {
            let worst = self.spreads.entry(rank).or_default();
            *worst = (*worst).max(Duration::from_nanos(told.spread_ns));
        }
        outcome.hear(rank, told);
        if outcome.agree() != Some(false) {
            return;
        }
        self.n_mismatches += u64::from(was_agreed);
        let (outcome, has_room) = (outcome.clone(), self.mismatches.len() < MAX_MISMATCHES);
        match self.mismatches.iter_mut().find(|kept| kept.id() == key) {
            Some(kept) => *kept = outcome,
            None if has_room => self.mismatches.push(outcome),
            None => {}
        }
    }

    /// Results, those that were first told of last first.
    pub fn newest(&self) -> impl Iterator<Item = &Outcome> {
        self.order.iter().rev().filter_map(|key| self.known.get(key))
    }

    /// The first results in which members differ.
    #[must_use]
    pub fn mismatches(&self) -> &[Outcome] {
        &self.mismatches
    }

    /// In how many results members differ.
    #[must_use]
    pub fn n_mismatches(&self) -> u64 {
        self.n_mismatches
    }

    /// What 99 of 100 rounds take at most. `None`: no result is known.
    #[must_use]
    pub fn p99(&self) -> Option<Duration> {
        let mut took: Vec<Duration> =
            self.known.values().filter_map(|outcome| Some(outcome.made?.took)).collect();
        let place = took.len().checked_sub(1)? * 99 / 100;
        Some(*took.select_nth_unstable(place).1)
    }

    /// The time from one round of a part to its next one, as most parts have it that are in use: a step of the training.
    /// Parts that are declared and lie idle do not count. `None`: no part is known to have been summed twice of late.
    #[must_use]
    pub fn round_time(&self) -> Option<Duration> {
        self.beats.round()
    }

    /// The longest spread of each rank's results since the last call.
    pub(super) fn take_spreads(&mut self) -> BTreeMap<u32, Duration> {
        std::mem::take(&mut self.spreads)
    }

    fn make_room(&mut self) {
        while self.order.len() >= MAX_GROUP_ROUNDS {
            let Some(key) = self.order.pop_front() else { return };
            self.known.remove(&key);
        }
    }
}

impl Outcome {
    fn new(placement_epoch: u64, told: &SummationRound) -> Self {
        let (key, round, at) = (told.key, told.round, Timestamp(told.at_ns));
        Self { placement_epoch, key, round, at, made: None, prints: Vec::new() }
    }

    fn id(&self) -> Key {
        (self.placement_epoch, self.key, self.round)
    }

    fn hear(&mut self, rank: u32, told: &SummationRound) {
        if told.made {
            self.made = Some(Made {
                rank,
                fingerprint: told.fingerprint,
                contributors: told.contributors,
                last_arriver: told.last_arriver,
                spread: Duration::from_nanos(told.spread_ns),
                took: Duration::from_nanos(told.took_ns),
            });
        }
        let has_room = self.prints.len() < MAX_PRINTS;
        match self.prints.iter_mut().find(|(print, _)| *print == told.fingerprint) {
            Some((_, ranks)) => {
                ranks.insert(rank);
            }
            None if has_room => self.prints.push((told.fingerprint, BTreeSet::from([rank]))),
            None => {}
        }
    }

    /// As it was made; as it was told first, if nobody said that.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let first = || self.prints.first().map_or(0, |(print, _)| *print);
        self.made.map_or_else(first, |made| made.fingerprint)
    }

    /// Whether all who told of it have the same bytes. `None`: only one has told.
    #[must_use]
    pub fn agree(&self) -> Option<bool> {
        match self.prints.as_slice() {
            [] => None,
            [(_, ranks)] => (ranks.len() > 1).then_some(true),
            _ => Some(false),
        }
    }
}
