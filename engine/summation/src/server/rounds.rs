//! The rounds of one key that are open: two at most, so that one is pulled while the next one is pushed.
//!
//! ```text
//! free ── first push ──▶ gathering ── last contribution ──▶ adding ──▶ summed ── last answer ──▶ over, then free
//! ```
//!
//! A host's sum is away between adding and summed: [`super::tier`].

use std::sync::Arc;

use super::members::Members;
use super::reduction::Reduction;
use super::tier::Tier;

/// The open rounds.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// The earliest round that is not over.
    first: u64,
    slots: [Slot; N_OPEN],
}

/// What there is of a round.
#[derive(Debug, Default)]
pub(super) enum Slot {
    #[default]
    Free,
    Gathering(Gathering),
    Adding(Adding),
    /// A host's sum is there and has gone on; the result is not back.
    Away(Adding),
    Summed(Summed),
    /// Everybody has it, but a round before is not over.
    Over,
}

/// A round whose result is not there yet.
#[derive(Debug)]
pub(super) struct Gathering {
    pub(super) reduction: Reduction,
    /// Whose contribution was complete last, also where it was turned away then.
    pub(super) last_arriver: usize,
    by_rank: Vec<Contribution>,
    pub(super) prefix: Prefix,
    n_turned_away: usize,
}

/// What the first contributions come to, in the order in which they are added.
#[derive(Debug, Default)]
pub(super) enum Prefix {
    /// None was added before the others are there.
    #[default]
    None,
    /// It is being added to.
    Away,
    Here(Vec<u8>),
}

/// The memory of what is to be added, in the order in which that is done.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) prefix: Option<Vec<u8>>,
    pub(super) contributions: Vec<Vec<u8>>,
}

#[derive(Debug)]
enum Contribution {
    /// The worker was no member when the round began, or does not contribute to the key.
    NotAsked,
    Missing,
    Landing,
    /// It was complete, and there was no memory left for it.
    TurnedAway,
    AskedAgain,
    Here(Vec<u8>),
    /// In the prefix, or on its way there.
    Added,
}

/// A round whose contributions are being added up.
#[derive(Clone, Debug)]
pub(super) struct Adding {
    /// By rank, whether it has contributed.
    contributed: Vec<bool>,
    pub(super) has_prefix: bool,
}

/// A round that has its result.
#[derive(Debug)]
pub(super) struct Summed {
    pub(super) bytes: Arc<Vec<u8>>,
    unanswered: Vec<bool>,
}

/// A round that has no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outside {
    /// Before the open ones.
    Over,
    /// The first one behind them.
    Next,
    /// Behind that.
    Beyond,
}

impl Rounds {
    /// The slot of a round.
    pub(super) fn slot(&mut self, round: u64) -> Result<&mut Slot, Outside> {
        match round.checked_sub(self.first) {
            None => Err(Outside::Over),
            Some(0..WINDOW) => Ok(&mut self.slots[(round % WINDOW) as usize]),
            Some(WINDOW) => Err(Outside::Next),
            Some(_) => Err(Outside::Beyond),
        }
    }

    /// The first round that has no slot.
    pub(super) fn next(&self) -> u64 {
        self.first.saturating_add(WINDOW)
    }

    /// The open rounds, earliest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Slot)> {
        let slot = |round| (round, &self.slots[(round % WINDOW) as usize]);
        (self.first..self.next()).map(slot)
    }

    /// Gives the slots of rounds that are over to the rounds behind.
    pub(super) fn advance(&mut self) {
        while let Ok(slot @ Slot::Over) = self.slot(self.first) {
            *slot = Slot::Free;
            self.first += 1;
        }
    }
}

impl Gathering {
    /// Nothing is there yet; all who are here and contribute are asked.
    pub(super) fn new(reduction: Reduction, members: &Members, tier: &Tier) -> Self {
        let is_asked = |worker| members.is_here(worker) && tier.asks(worker);
        let contribution =
            |worker| if is_asked(worker) { Contribution::Missing } else { Contribution::NotAsked };
        let by_rank = (0..members.n_ranks()).map(contribution).collect();
        Self { reduction, last_arriver: 0, by_rank, prefix: Prefix::None, n_turned_away: 0 }
    }

    /// Lets the worker contribute, unless it has been asked to before; whether for the second time.
    pub(super) fn admit(&mut self, worker: usize) -> Option<bool> {
        let contribution = self.by_rank.get_mut(worker)?;
        let is_again = match contribution {
            Contribution::Missing => false,
            Contribution::AskedAgain => true,
            _ => return None,
        };
        *contribution = Contribution::Landing;
        Some(is_again)
    }

    /// Keeps the contribution of a worker that was admitted.
    pub(super) fn keep(&mut self, worker: usize, is_again: bool, bytes: Vec<u8>) {
        if let Some(contribution) = self.by_rank.get_mut(worker) {
            *contribution = Contribution::Here(bytes);
        }
        if !is_again {
            self.last_arriver = worker;
        }
    }

    /// Does not keep it.
    pub(super) fn turn_away(&mut self, worker: usize) {
        if let Some(contribution) = self.by_rank.get_mut(worker) {
            *contribution = Contribution::TurnedAway;
        }
        self.n_turned_away += 1;
        self.last_arriver = worker;
    }

    /// Whether a worker's contribution is added next, or behind one that is.
    pub(super) fn is_in_turn(&self, tier: &Tier, worker: usize) -> bool {
        self.in_turn(tier).contains(&worker)
    }

    /// Those in turn that were turned away: they are to be asked again.
    pub(super) fn ask_again(&mut self, tier: &Tier) -> Vec<usize> {
        if self.n_turned_away == 0 {
            return Vec::new();
        }
        let mut asked = self.in_turn(tier);
        asked.retain(|worker| matches!(self.by_rank.get(*worker), Some(Contribution::TurnedAway)));
        for worker in &asked {
            self.by_rank[*worker] = Contribution::AskedAgain;
        }
        self.n_turned_away -= asked.len();
        asked
    }

    /// The first that is not there, in the order in which they are added, and the one behind it.
    fn in_turn(&self, tier: &Tier) -> Vec<usize> {
        let is_there = |worker: &usize| {
            matches!(self.by_rank.get(*worker), Some(Contribution::Here(_) | Contribution::Added))
        };
        tier.in_order(self.contributors()).into_iter().skip_while(is_there).take(2).collect()
    }

    /// Whom the round waits for, in the order of the ranks. Who was turned away has contributed.
    pub(super) fn missing(&self) -> impl Iterator<Item = usize> + '_ {
        let missing = |contribution: &Contribution| {
            matches!(contribution, Contribution::Missing | Contribution::Landing | Contribution::AskedAgain)
        };
        self.by_rank.iter().enumerate().filter(move |(_, c)| missing(c)).map(|(worker, _)| worker)
    }

    /// Whether all that are not in the prefix are there, and the prefix as well.
    pub(super) fn is_complete(&self) -> bool {
        !matches!(self.prefix, Prefix::Away) && self.n_turned_away == 0 && self.missing().next().is_none()
    }

    /// All are there.
    pub(super) fn adding(&self) -> Adding {
        let contributed = |contribution: &Contribution| !matches!(contribution, Contribution::NotAsked);
        let has_prefix = matches!(self.prefix, Prefix::Here(_));
        Adding { contributed: self.by_rank.iter().map(contributed).collect(), has_prefix }
    }

    /// The prefix and all that is not in it, of a round that is complete.
    pub(super) fn take_all(&mut self, tier: &Tier) -> Taken {
        let prefix = match std::mem::take(&mut self.prefix) {
            Prefix::Here(prefix) => Some(prefix),
            Prefix::None | Prefix::Away => None,
        };
        let order = tier.in_order(self.contributors());
        Taken { prefix, contributions: order.into_iter().filter_map(|worker| self.take(worker)).collect() }
    }

    /// The prefix, which is away then, and what it can be continued with.
    pub(super) fn take_next(&mut self, tier: &Tier) -> Option<Taken> {
        let order = tier.in_order(self.contributors());
        let behind = order.iter().skip_while(|worker| matches!(self.by_rank[**worker], Contribution::Added));
        let next = behind.take_while(|worker| matches!(self.by_rank[**worker], Contribution::Here(_)));
        let next: Vec<usize> = next.copied().collect();
        let prefix = match std::mem::take(&mut self.prefix) {
            Prefix::None if next.len() > 1 => None,
            Prefix::Here(prefix) if !next.is_empty() => Some(prefix),
            prefix => {
                self.prefix = prefix;
                return None;
            }
        };
        self.prefix = Prefix::Away;
        Some(Taken {
            prefix,
            contributions: next.into_iter().filter_map(|worker| self.take(worker)).collect(),
        })
    }

    fn take(&mut self, worker: usize) -> Option<Vec<u8>> {
        let contribution = self.by_rank.get_mut(worker)?;
        match std::mem::replace(contribution, Contribution::Added) {
            Contribution::Here(bytes) => Some(bytes),
            other => {
                *contribution = other;
                None
            }
        }
    }

    /// In the order of the ranks.
    pub(super) fn contributors(&self) -> impl Iterator<Item = usize> + '_ {
        let is_asked =
            |(_, contribution): &(usize, &Contribution)| !matches!(contribution, Contribution::NotAsked);
        self.by_rank.iter().enumerate().filter(is_asked).map(|(worker, _)| worker)
    }

    /// Payloads that have a place to come to.
    pub(super) fn n_landing(&self) -> usize {
        self.by_rank.iter().filter(|contribution| matches!(contribution, Contribution::Landing)).count()
    }
}

impl Prefix {
    pub(super) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

impl Adding {
    /// Whose contributions are kept, in the order of the ranks.
    pub(super) fn contributors(&self) -> impl Iterator<Item = usize> + '_ {
        self.contributed.iter().enumerate().filter(|(_, contributed)| **contributed).map(|(rank, _)| rank)
    }
}

impl Summed {
    /// For all contributors that are still here.
    pub(super) fn new(bytes: Vec<u8>, added: &Adding, members: &Members) -> Self {
        let waits = |(worker, contributed): (usize, &bool)| *contributed && members.is_here(worker);
        Self { bytes: Arc::new(bytes), unanswered: added.contributed.iter().enumerate().map(waits).collect() }
    }

    /// Whether the worker is still to have it.
    pub(super) fn is_for(&self, worker: usize) -> bool {
        self.unanswered.get(worker) == Some(&true)
    }

    /// The worker needs it no more. Whether nobody does now.
    pub(super) fn release(&mut self, worker: usize) -> bool {
        if let Some(unanswered) = self.unanswered.get_mut(worker) {
            *unanswered = false;
        }
        !self.unanswered.contains(&true)
    }

    /// Who is still to have it, in the order of the ranks.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.unanswered.len()).filter(|worker| self.is_for(*worker))
    }
}

/// Rounds of a key that may be open at once. With one only, the slowest puller would keep everybody from pushing.
const N_OPEN: usize = 2;
const WINDOW: u64 = N_OPEN as u64;
