//! What a service does with its keys, the same in a whole group: it sums rounds of all workers, or adds to a store whatever
//! comes.
//!
//! To a store, round 0 of a key is its first value: worker 0's, exactly once; what others send as theirs is dropped. All
//! later rounds are deltas. Whoever pulls gets what there is then, once there is anything, and once it is not too far ahead.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::addition::Addition;
use super::asynchronous::{Staleness, Store};
use super::message::{Added, Admission, Again, Answer, Landing, Pull, Push, Pushed, Sum};
use super::part::Part;
use super::reduction::Reduction;
use super::refusal::Refusal;
use super::service::{Counters, Pending, Phase, Service};
use super::tier::{Partial, Tier};

/// What a group does with contributions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// A round ends when all workers have contributed.
    #[default]
    Rounds,
    /// Each contribution is added as it comes.
    Store {
        /// Rounds of a tensor that a worker may be ahead of the slowest one; none: any number.
        max_ahead: Option<u64>,
    },
}

/// A service of either kind.
#[derive(Debug)]
pub enum Sums {
    /// Of rounds.
    Rounds(Box<Service>),
    /// Of what is added as it comes.
    Store(Box<Stored>),
}

/// A store that takes its first values from worker 0.
#[derive(Debug)]
pub struct Stored {
    store: Store,
    max_ahead: Option<u64>,
    /// Rounds that are pulled and have no answer yet, by key and worker.
    waiting: BTreeMap<(u32, usize), u64>,
    counters: Counters,
}

/// How far apart the workers of a store are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// Rounds that a worker may be ahead, if that is bounded.
    pub staleness_bound: Option<u64>,
    /// Upper bounds of the buckets but the last one.
    pub bounds: [u64; Staleness::BOUNDS.len()],
    /// Of pushes: others that were added since their worker had pulled.
    pub staleness: Staleness,
    /// Of pulls: rounds that their worker was ahead of the slowest one.
    pub lead: Staleness,
}

/// Who gives the first values.
const FIRST: usize = 0;

impl Sums {
    /// Of workers with ranks from 0 and of these keys.
    pub fn new(mode: Mode, n_workers: usize, parts: impl IntoIterator<Item = (u32, Part)>) -> Self {
        match mode {
            Mode::Rounds => Self::Rounds(Box::new(Service::new(n_workers, parts))),
            Mode::Store { max_ahead } => Self::Store(Box::new(Stored {
                store: Store::new(n_workers, parts, max_ahead),
                max_ahead,
                waiting: BTreeMap::new(),
                counters: Counters::default(),
            })),
        }
    }

    /// As [`Service::with_tiers`]; a store has none.
    #[must_use]
    pub fn with_tiers(self, tiers: impl IntoIterator<Item = (u32, Tier)>) -> Self {
        match self {
            Self::Rounds(service) => Self::Rounds(Box::new(service.with_tiers(tiers))),
            Self::Store(_) => self,
        }
    }

    /// As [`Service::keeping`]; a store keeps no contributions.
    #[must_use]
    pub fn keeping(self, max_kept_bytes: usize) -> Self {
        match self {
            Self::Rounds(service) => Self::Rounds(Box::new(service.keeping(max_kept_bytes))),
            Self::Store(_) => self,
        }
    }

    /// As [`Service::next_again`].
    pub fn next_again(&mut self) -> Option<Again> {
        if let Self::Rounds(service) = self { service.next_again() } else { None }
    }

    /// As [`Service::next_partial`].
    pub fn next_partial(&mut self) -> Option<Partial> {
        if let Self::Rounds(service) = self { service.next_partial() } else { None }
    }

    /// As [`Service::returned`].
    ///
    /// # Errors
    /// The same; no sum of a store goes on.
    pub fn returned(&mut self, partial: Partial) -> Result<(), Refusal> {
        match self {
            Self::Rounds(service) => service.returned(partial),
            Self::Store(_) => {
                let Partial { key, round, last_arriver: worker, .. } = partial;
                Err(Refusal::Over { key, round, worker })
            }
        }
    }

    /// As [`Service::push`].
    ///
    /// # Errors
    /// The same; an average, if it is a store.
    pub fn push(&mut self, message: &Push) -> Result<Admission, Refusal> {
        match self {
            Self::Rounds(service) => service.push(message),
            Self::Store(stored) => stored.push(message),
        }
    }

    /// As [`Service::pushed`].
    ///
    /// # Errors
    /// The same.
    pub fn pushed(&mut self, landing: Landing) -> Result<Pushed, Refusal> {
        match self {
            Self::Rounds(service) => service.pushed(landing),
            Self::Store(stored) => stored.pushed(landing),
        }
    }

    /// As [`Service::added`].
    ///
    /// # Errors
    /// The same; a store hands out no additions.
    pub fn added(&mut self, addition: Addition) -> Result<Added, Refusal> {
        match self {
            Self::Rounds(service) => service.added(addition),
            Self::Store(_) => {
                let Addition { key, round, last_arriver: worker, .. } = addition;
                Err(Refusal::Over { key, round, worker })
            }
        }
    }

    /// As [`Service::pull`]. Of a store, ask again when something was added to the key, or somebody has left.
    ///
    /// # Errors
    /// The same; there will be no first value.
    pub fn pull(&mut self, message: &Pull) -> Result<Answer, Refusal> {
        match self {
            Self::Rounds(service) => service.pull(message),
            Self::Store(stored) => stored.pull(message),
        }
    }

    /// As [`Service::answered`].
    ///
    /// # Errors
    /// The same; none of a store.
    pub fn answered(&mut self, sum: Sum) -> Result<bool, Refusal> {
        match self {
            Self::Rounds(service) => service.answered(sum),
            Self::Store(_) => Ok(false),
        }
    }

    /// A worker pushes no more. The others of a store go on without it; of rounds, none is left that waits for it.
    ///
    /// # Errors
    /// There never was such a rank, or it has left before.
    pub fn leave(&mut self, worker: usize) -> Result<(), Refusal> {
        let Self::Store(stored) = self else { return Ok(()) };
        stored.store.continue_without(worker)
    }

    /// Whether it is a store.
    #[must_use]
    pub fn is_store(&self) -> bool {
        matches!(self, Self::Store(_))
    }

    /// As [`Service::waits_for`]; of a store, the pulls that wait.
    #[must_use]
    pub fn waits_for(&self) -> Vec<Pending> {
        match self {
            Self::Rounds(service) => service.waits_for(),
            Self::Store(stored) => stored.waits_for(),
        }
    }

    /// What has happened; each push of a store is a round that is finished.
    #[must_use]
    pub fn counters(&self) -> Counters {
        match self {
            Self::Rounds(service) => service.counters(),
            Self::Store(stored) => stored.counters,
        }
    }

    /// Of a store, as [`Store::leads`]; else nothing.
    #[must_use]
    pub fn leads(&self) -> &[u64] {
        match self {
            Self::Rounds(_) => &[],
            Self::Store(stored) => stored.store.leads(),
        }
    }

    /// Of a store.
    #[must_use]
    pub fn spread(&self) -> Option<Spread> {
        let Self::Store(stored) = self else { return None };
        let Stored { store, max_ahead, .. } = stored.as_ref();
        let (staleness, lead) = (store.staleness(), store.lead());
        Some(Spread { staleness_bound: *max_ahead, bounds: Staleness::BOUNDS, staleness, lead })
    }
}

impl Stored {
    fn push(&mut self, message: &Push) -> Result<Admission, Refusal> {
        let Push { key, round, worker, reduction, .. } = *message;
        if reduction == Reduction::Average {
            return Err(Refusal::OtherReduction { key, round, worker });
        }
        match round.checked_sub(1) {
            None => self.store.land_first(message).map(Admission::Into),
            Some(round) => self.store.push(&Push { round, ..*message }),
        }
    }

    /// A first value keeps its place in the order of the store's pushes, which begin when it is there.
    fn pushed(&mut self, landing: Landing) -> Result<Pushed, Refusal> {
        let (key, size_bytes) = (landing.key, landing.bytes.len());
        if landing.is_first {
            if landing.worker == FIRST {
                self.store.initialise(key, &landing.bytes)?;
            }
            self.store.give(landing.bytes);
        } else {
            self.store.pushed(landing)?;
            self.counters.finished_rounds += 1;
            self.counters.summed_bytes += size_bytes as u64;
        }
        Ok(Pushed::Added(key))
    }

    fn pull(&mut self, message: &Pull) -> Result<Answer, Refusal> {
        let Pull { key, round, worker } = *message;
        let missing = self.missing(key, worker);
        if missing.is_empty()
            && let Some(snapshot) = self.store.pull(key, worker)?
        {
            self.waiting.remove(&(key, worker));
            return Ok(Answer::Ready(Sum { key, round, worker, bytes: snapshot.into_shared() }));
        }
        if !self.store.is_initialised(key) && !self.store.is_here(FIRST) {
            return Err(Refusal::NeverInitialised { key });
        }
        self.waiting.insert((key, worker), round);
        Ok(Answer::Waiting(missing))
    }

    fn missing(&self, key: u32, worker: usize) -> Vec<usize> {
        if self.store.is_initialised(key) { self.store.slower(key, worker) } else { vec![FIRST] }
    }

    fn waits_for(&self) -> Vec<Pending> {
        let pending = |(&(key, worker), &round): (&(u32, usize), &u64)| {
            let (phase, workers) = (Phase::Push, self.missing(key, worker));
            Pending { key, round, phase, workers }
        };
        self.waiting.iter().map(pending).collect()
    }
}

#[cfg(test)]
mod tests;
