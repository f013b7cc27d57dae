//! The store of asynchronous training: every push of a worker is added as it comes, and a pull gets what there is.
//!
//! Worker i computes w'ᵢ = wᵢ + f(gᵢ) and pushes Δ = w'ᵢ − wᵢ; the store does w ← w + Δ; the worker pulls w. In exact
//! arithmetic that is what a parameter server does that applies f itself: after any interleaving, w = w₀ + Σ f(gᵢ,ₜ) on
//! both (BytePS, OSDI 2020, theorem 2). In floats, (w + f) − w is not always f: they agree in bits where no sum is
//! rounded, and f may keep no state that workers share.
//!
//! Types of 16 and 8 bits are kept in `f32` and rounded when they are pulled. A staleness bound s (stale synchronous
//! parallel; Ho et al., NIPS 2013) makes a worker wait that is more than s pushes of a key ahead of the slowest one.
//! Its pulls may wait for that, see [`Store::slower`], so that its other keys do not wait behind a push.

use std::sync::Arc;

use serde::Serialize;

use super::buffers::Buffers;
use super::keys::{Entry, Keys};
use super::members::Members;
use super::message::{Admission, Landing, Push};
use super::part::Part;
use super::refusal::Refusal;
use rsccl_collective::kernels::{Form, Shape};

/// A store without its sockets.
#[derive(Debug)]
pub struct Store {
    members: Members,
    max_ahead: Option<u64>,
    keys: Keys<Option<State>>,
    buffers: Buffers,
    staleness: Staleness,
    lead: Staleness,
    /// See [`Store::leads`].
    leads: Vec<u64>,
}

/// What there is of a key at one time. The values never change, however long they are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    values: Arc<Vec<u8>>,
    version: u64,
}

/// How stale pushes were: pushes to the key that were added since its worker had pulled it last. Or how far ahead pulls were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Staleness {
    /// Pushes by staleness: at most [`Self::BOUNDS`] of the same index, and more than the one before; the last are those
    /// above all bounds.
    pub buckets: [u64; N_BOUNDS + 1],
    /// The largest that was seen.
    pub max: u64,
    /// Of all pushes, for a mean.
    pub sum: u64,
}

/// The values of a key.
#[derive(Debug)]
struct State {
    /// In the form of accumulators.
    values: Vec<u8>,
    /// The present values as elements, once somebody has pulled them.
    snapshot: Option<Arc<Vec<u8>>>,
    /// Pushes that were added.
    version: u64,
    by_rank: Vec<Progress>,
}

/// How far a worker is with a key.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Pushes that were added.
    pushes: u64,
    is_landing: bool,
    /// The version it pulled last.
    pulled: u64,
}

impl Store {
    /// A store of workers with ranks from 0 and of these keys, to which all pushes are added. A worker may be at most
    /// `max_ahead` pushes ahead of the slowest one when it pushes; without it, any number.
    pub fn new(
        n_workers: usize,
        parts: impl IntoIterator<Item = (u32, Part)>,
        max_ahead: Option<u64>,
    ) -> Self {
        Self {
            members: Members::new(n_workers),
            max_ahead,
            keys: Keys::new(parts),
            buffers: Buffers::default(),
            staleness: Staleness::default(),
            lead: Staleness::default(),
            leads: vec![0; n_leads(max_ahead)],
        }
    }

    /// Sets the values from which training begins.
    ///
    /// # Errors
    ///
    /// The key is not ours, the length is not the part's, or it has values already.
    pub fn initialise(&mut self, key: u32, values: &[u8]) -> Result<(), Refusal> {
        let Entry { part, state, .. } = self.keys.find(key)?.of_length(values.len())?;
        if state.is_some() {
            return Err(Refusal::InitialisedTwice { key });
        }
        let reducer = part.sum();
        let mut accumulators = vec![0; part.count.saturating_mul(reducer.bytes(Form::Partial))];
        reducer.run_slices(WIDEN, &mut accumulators, &[values]);
        let by_rank = vec![Progress::default(); self.members.n_ranks()];
        *state = Some(State { values: accumulators, snapshot: None, version: 0, by_rank });
        Ok(())
    }

    /// A worker wants to send a value from which training may begin: it is to go to [`Self::initialise`], or nowhere.
    ///
    /// # Errors
    ///
    /// It is none of ours, or speaks of what is not ours.
    pub fn land_first(&mut self, message: &Push) -> Result<Landing, Refusal> {
        let Push { key, round, worker, size_bytes, .. } = *message;
        self.members.check(worker)?;
        self.keys.find(key)?.of_length(size_bytes)?;
        Ok(Landing {
            key,
            round,
            worker,
            is_first: true,
            is_again: false,
            bytes: self.buffers.take(size_bytes),
        })
    }

    /// The memory of a payload that came to its end.
    pub(super) fn give(&mut self, bytes: Vec<u8>) {
        self.buffers.give(bytes);
    }

    /// Whether a key has values.
    pub fn is_initialised(&self, key: u32) -> bool {
        self.keys.get(key).is_some_and(|entry| entry.state.is_some())
    }

    /// Whether a worker takes part.
    pub fn is_here(&self, worker: usize) -> bool {
        self.members.is_here(worker)
    }

    /// The workers that are so far behind with a key that this one is to wait for them.
    pub fn slower(&self, key: u32, worker: usize) -> Vec<usize> {
        let state = self.keys.get(key).and_then(|entry| entry.state.as_ref());
        let (Some(state), Some(max)) = (state, self.max_ahead) else { return Vec::new() };
        let own = state.by_rank.get(worker).map_or(0, |progress| progress.pushes);
        let pushes = |rank: usize| state.by_rank.get(rank).map_or(own, |progress| progress.pushes);
        self.members.here().filter(|rank| own.saturating_sub(pushes(*rank)) > max).collect()
    }

    /// A worker wants to add a delta. Its pushes to a key have the rounds 0, 1, 2, …. It is to come later while there
    /// are no values yet, and while it is too far ahead.
    ///
    /// # Errors
    ///
    /// It is none of ours, speaks of what is not ours, or pushes a round again or leaves one out.
    pub fn push(&mut self, message: &Push) -> Result<Admission, Refusal> {
        let Push { key, round, worker, size_bytes, .. } = *message;
        self.members.check(worker)?;
        let entry = self.keys.find(key)?.of_length(size_bytes)?;
        let Some(state) = &mut entry.state else { return Ok(Admission::Later) };
        let slowest =
            self.members.here().filter_map(|rank| state.by_rank.get(rank)).map(|rank| rank.pushes).min();
        let Some(progress) = state.by_rank.get_mut(worker) else { return Err(Refusal::NoMember { worker }) };
        let next = progress.pushes;
        if round < next || round == next && progress.is_landing {
            return Err(Refusal::PushedTwice { key, round, worker });
        }
        if round > next + u64::from(progress.is_landing) {
            return Err(Refusal::Skipped { key, round, worker, next });
        }
        let ahead = next - slowest.unwrap_or(next);
        if progress.is_landing || self.max_ahead.is_some_and(|max| ahead > max) {
            return Ok(Admission::Later);
        }
        progress.is_landing = true;
        let bytes = self.buffers.take(size_bytes);
        Ok(Admission::Into(Landing { key, round, worker, is_first: false, is_again: false, bytes }))
    }

    /// A payload is complete: it is added. Returns the version that has it; pushes that came too early may be admitted
    /// now.
    ///
    /// # Errors
    ///
    /// The worker was lost meanwhile.
    pub fn pushed(&mut self, landing: Landing) -> Result<u64, Refusal> {
        let Landing { key, round, worker, bytes, .. } = landing;
        self.members.check(worker)?;
        let Entry { part, state, .. } = self.keys.find(key)?.of_length(bytes.len())?;
        let admitted = state.as_mut().and_then(|state| {
            let progress = *state.by_rank.get(worker)?;
            (progress.is_landing && progress.pushes == round).then_some((state, progress))
        });
        let Some((state, progress)) = admitted else {
            return Err(Refusal::PushedTwice { key, round, worker });
        };
        let mut values = self.buffers.take(state.values.len());
        part.sum().run_slices(ADD, &mut values, &[&state.values, &bytes]);
        self.buffers.give(bytes);
        self.buffers.give(std::mem::replace(&mut state.values, values));
        if let Some(snapshot) = state.snapshot.take() {
            self.buffers.give_shared(snapshot);
        }
        self.staleness.count(state.version - progress.pulled);
        state.version += 1;
        state.by_rank[worker] = Progress { pushes: round + 1, is_landing: false, ..progress };
        Ok(state.version)
    }

    /// What there is of a key; nothing while it is not initialised.
    ///
    /// # Errors
    ///
    /// The worker is none of ours, or speaks of what is not ours.
    pub fn pull(&mut self, key: u32, worker: usize) -> Result<Option<Snapshot>, Refusal> {
        self.members.check(worker)?;
        let Entry { part, state, .. } = self.keys.find(key)?;
        let Some(state) = state else { return Ok(None) };
        let slowest = self.members.here().filter_map(|rank| state.by_rank.get(rank)).map(|rank| rank.pushes);
        let slowest = slowest.min().unwrap_or(0);
        if let Some(progress) = state.by_rank.get_mut(worker) {
            progress.pulled = state.version;
            let lead = progress.pushes.saturating_sub(slowest);
            self.lead.count(lead);
            let last = self.leads.len() - 1;
            self.leads[usize::try_from(lead).map_or(last, |lead| lead.min(last))] += 1;
        }
        let buffers = &mut self.buffers;
        let values = state.snapshot.get_or_insert_with(|| {
            let mut elements = buffers.take(part.size_bytes());
            part.sum().run_slices(NARROW, &mut elements, &[&state.values]);
            Arc::new(elements)
        });
        Ok(Some(Snapshot { values: Arc::clone(values), version: state.version }))
    }

    /// Goes on without a worker, of which nobody waits for a push any more. What it has pushed stays.
    ///
    /// # Errors
    ///
    /// There never was such a rank, or the store has continued without it already.
    pub fn continue_without(&mut self, worker: usize) -> Result<(), Refusal> {
        self.members.continue_without(worker)
    }

    /// How stale the pushes were.
    #[must_use]
    pub fn staleness(&self) -> Staleness {
        self.staleness
    }

    /// How many pushes of the key workers were ahead of the slowest one when they pulled.
    #[must_use]
    pub fn lead(&self) -> Staleness {
        self.lead
    }

    /// The same by number, for watchers: pulls with a lead of 0, 1, 2, …; the last one and more. With a bound, the last
    /// but one is at the bound, unless that is beyond [`MAX_LEADS`]: the last one stays 0.
    #[must_use]
    pub fn leads(&self) -> &[u64] {
        &self.leads
    }
}

impl Snapshot {
    /// The part's elements.
    #[must_use]
    pub fn values(&self) -> &[u8] {
        &self.values
    }

    /// The same, to keep.
    pub(super) fn into_shared(self) -> Arc<Vec<u8>> {
        self.values
    }

    /// Pushes that are in it.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }
}

impl Staleness {
    /// Upper bounds of the buckets but the last one, in pushes.
    pub const BOUNDS: [u64; N_BOUNDS] = [0, 1, 2, 4, 8, 16, 32, 64];

    fn count(&mut self, staleness: u64) {
        self.buckets[Self::BOUNDS.partition_point(|bound| *bound < staleness)] += 1;
        self.max = self.max.max(staleness);
        self.sum += staleness;
    }
}

/// Entries of [`Store::leads`] for a bound.
fn n_leads(max_ahead: Option<u64>) -> usize {
    let n = max_ahead.and_then(|max| usize::try_from(max.saturating_add(2)).ok());
    n.map_or(MAX_LEADS, |n| n.min(MAX_LEADS))
}

/// Entries of [`Store::leads`] at most: 0 to 31 rounds, and more. Each is a series of Prometheus, and who trains with
/// such a lead asks no more how large it is.
pub const MAX_LEADS: usize = 33;
/// From elements to accumulators.
const WIDEN: Shape = Shape { with: Form::Element, data: Form::Element, into: Form::Partial, finish: false };
/// An element to an accumulator.
const ADD: Shape = Shape { with: Form::Partial, data: Form::Element, into: Form::Partial, finish: false };
/// From accumulators to elements.
const NARROW: Shape = Shape { with: Form::Partial, data: Form::Partial, into: Form::Element, finish: true };
/// Enough for the pushes of 64 workers in turns; each is twice the one before.
const N_BOUNDS: usize = 8;

#[cfg(test)]
mod tests;
