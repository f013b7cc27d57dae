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
    by_rank: Vec<Contribution>,
}

#[derive(Debug)]
enum Contribution {
    /// The worker was no member when the round began, or does not contribute to the key.
    NotAsked,
    Missing,
    Landing,
    Here(Vec<u8>),
}

/// A round whose contributions are being added up.
#[derive(Clone, Debug)]
pub(super) struct Adding {
    /// By rank, whether it has contributed.
    contributed: Vec<bool>,
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
        Self { reduction, by_rank: (0..members.n_ranks()).map(contribution).collect() }
    }

    /// Lets the worker contribute, unless it has been asked to before.
    pub(super) fn admit(&mut self, worker: usize) -> bool {
        match self.by_rank.get_mut(worker) {
            Some(contribution @ Contribution::Missing) => {
                *contribution = Contribution::Landing;
                true
            }
            _ => false,
        }
    }

    /// Keeps the contribution of a worker that was admitted.
    pub(super) fn keep(&mut self, worker: usize, bytes: Vec<u8>) {
        if let Some(contribution) = self.by_rank.get_mut(worker) {
            *contribution = Contribution::Here(bytes);
        }
    }

    /// Who has not contributed, in the order of the ranks.
    pub(super) fn missing(&self) -> impl Iterator<Item = usize> + '_ {
        let missing = |contribution: &Contribution| {
            matches!(contribution, Contribution::Missing | Contribution::Landing)
        };
        self.by_rank.iter().enumerate().filter(move |(_, c)| missing(c)).map(|(worker, _)| worker)
    }

    /// All are there.
    pub(super) fn adding(&self) -> Adding {
        let is_here = |contribution: &Contribution| matches!(contribution, Contribution::Here(_));
        Adding { contributed: self.by_rank.iter().map(is_here).collect() }
    }

    /// The memory of what is there, in this order.
    pub(super) fn into_buffers(mut self, order: &[usize]) -> Vec<Vec<u8>> {
        let buffer = |rank: &usize| {
            let contribution = std::mem::replace(self.by_rank.get_mut(*rank)?, Contribution::NotAsked);
            if let Contribution::Here(bytes) = contribution { Some(bytes) } else { None }
        };
        order.iter().filter_map(buffer).collect()
    }

    /// Payloads that are there or have a place to come to.
    pub(super) fn n_buffers(&self) -> usize {
        let has_place = |c: &&Contribution| matches!(c, Contribution::Landing | Contribution::Here(_));
        self.by_rank.iter().filter(has_place).count()
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
