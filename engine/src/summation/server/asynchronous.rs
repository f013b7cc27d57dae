//! The store of asynchronous training: every push of a worker is added as it comes, and a pull gets what there is.
//!
//! Worker i computes w'ᵢ = wᵢ + f(gᵢ) and pushes Δ = w'ᵢ − wᵢ; the store does w ← w + Δ; the worker pulls w. In exact
//! arithmetic that is what a parameter server does that applies f itself: after any interleaving, w = w₀ + Σ f(gᵢ,ₜ) on
//! both (BytePS, OSDI 2020, theorem 2). In floats, (w + f) − w is not always f: they agree in bits where no sum is
//! rounded, and f may keep no state that workers share.
//!
//! Types of 16 and 8 bits are kept in `f32` and rounded when they are pulled. A staleness bound s (stale synchronous
//! parallel; Ho et al., NIPS 2013) makes a worker wait that is more than s pushes of a key ahead of the slowest one.

use std::sync::Arc;

use super::buffers::Buffers;
use super::keys::{Entry, Keys};
use super::members::Members;
use super::message::{Admission, Epochs, Landing, Push};
use super::part::Part;
use super::refusal::Refusal;
use crate::kernels::{Form, Shape};

/// A store without its sockets.
#[derive(Debug)]
pub struct Store {
    members: Members,
    max_ahead: Option<u64>,
    keys: Keys<Option<State>>,
    buffers: Buffers,
    staleness: Staleness,
}

/// What there is of a key at one time. The values never change, however long they are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    values: Arc<Vec<u8>>,
    version: u64,
}

/// How stale pushes were: pushes to the key that were added since its worker had pulled it last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
        epochs: Epochs,
    ) -> Self {
        Self {
            members: Members::new(n_workers, epochs),
            max_ahead,
            keys: Keys::new(parts),
            buffers: Buffers::default(),
            staleness: Staleness::default(),
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
        let fold = part.sum();
        let mut accumulators = vec![0; part.count.saturating_mul(fold.bytes(Form::Partial))];
        fold.run_slices(WIDEN, &mut accumulators, &[values]);
        let by_rank = vec![Progress::default(); self.members.n_ranks()];
        *state = Some(State { values: accumulators, snapshot: None, version: 0, by_rank });
        Ok(())
    }

    /// A worker wants to add a delta. Its pushes to a key have the rounds 0, 1, 2, …. It is to come later while there
    /// are no values yet, and while it is too far ahead.
    ///
    /// # Errors
    ///
    /// It is none of ours, speaks of what is not ours, or pushes a round again or leaves one out.
    pub fn push(&mut self, message: &Push) -> Result<Admission, Refusal> {
        let Push { key, round, worker, size_bytes, epochs, .. } = *message;
        self.members.check(worker, epochs)?;
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
        Ok(Admission::Into(Landing { key, round, worker, attempt: 0, bytes }))
    }

    /// A payload is complete: it is added. Returns the version that has it; pushes that came too early may be admitted
    /// now.
    ///
    /// # Errors
    ///
    /// The worker was lost meanwhile.
    pub fn pushed(&mut self, landing: Landing) -> Result<u64, Refusal> {
        let Landing { key, round, worker, attempt: _, bytes } = landing;
        self.members.check(worker, self.members.epochs())?;
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
    pub fn pull(&mut self, key: u32, worker: usize, epochs: Epochs) -> Result<Option<Snapshot>, Refusal> {
        self.members.check(worker, epochs)?;
        let Entry { part, state, .. } = self.keys.find(key)?;
        let Some(state) = state else { return Ok(None) };
        if let Some(progress) = state.by_rank.get_mut(worker) {
            progress.pulled = state.version;
        }
        let buffers = &mut self.buffers;
        let values = state.snapshot.get_or_insert_with(|| {
            let mut elements = buffers.take(part.size_bytes());
            part.sum().run_slices(NARROW, &mut elements, &[&state.values]);
            Arc::new(elements)
        });
        Ok(Some(Snapshot { values: Arc::clone(values), version: state.version }))
    }

    /// Goes on without a worker, of which nobody waits for a push any more. Returns the epochs that messages are to have
    /// from now on. What it has pushed stays.
    ///
    /// # Errors
    ///
    /// There never was such a rank, or the store has continued without it already.
    pub fn continue_without(&mut self, worker: usize) -> Result<Epochs, Refusal> {
        self.members.lose(worker)?;
        self.members.continue_without(worker)
    }

    /// How stale the pushes were.
    #[must_use]
    pub fn staleness(&self) -> Staleness {
        self.staleness
    }
}

impl Snapshot {
    /// The part's elements.
    #[must_use]
    pub fn values(&self) -> &[u8] {
        &self.values
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

/// From elements to accumulators.
const WIDEN: Shape = Shape { with: Form::Element, data: Form::Element, into: Form::Partial, finish: false };
/// An element to an accumulator.
const ADD: Shape = Shape { with: Form::Partial, data: Form::Element, into: Form::Partial, finish: false };
/// From accumulators to elements.
const NARROW: Shape = Shape { with: Form::Partial, data: Form::Partial, into: Form::Element, finish: true };
/// Enough for the pushes of 64 workers in turns; each is twice the one before.
const N_BOUNDS: usize = 8;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::summation::server::part::Reduction;
    use crate::types::DataType;

    const SUM: Reduction = Reduction::Sum;
    const F32: Part = Part { count: 1, data_type: DataType::F32, codec: None };

    fn store(n_workers: usize, max_ahead: Option<u64>) -> Store {
        let mut store = Store::new(n_workers, [(0, F32)], max_ahead, Epochs::default());
        store.initialise(0, &1.0_f32.to_ne_bytes()).unwrap();
        store
    }

    fn admit(store: &mut Store, round: u64, worker: usize) -> Result<Admission, Refusal> {
        store.push(&Push { key: 0, round, worker, size_bytes: 4, reduction: SUM, epochs: Epochs::default() })
    }

    fn push(store: &mut Store, round: u64, worker: usize, delta: f32) -> bool {
        let Admission::Into(mut landing) = admit(store, round, worker).unwrap() else { return false };
        landing.bytes_mut().copy_from_slice(&delta.to_ne_bytes());
        store.pushed(landing).unwrap();
        true
    }

    fn pull(store: &mut Store, worker: usize) -> (f32, u64) {
        let snapshot = store.pull(0, worker, Epochs::default()).unwrap().unwrap();
        (f32::from_ne_bytes(snapshot.values().try_into().unwrap()), snapshot.version())
    }

    proptest! {
        /// Theorem 2: the parameter server applies f to the gradient, ours gets the worker's difference. Gradients are
        /// multiples of 2^-10 that depend on the weights, so that every sum is exact.
        #[test]
        fn any_interleaving_gives_the_weights_of_a_parameter_server(
            turns in prop::collection::vec((0..4_usize, -64..64_i16), 0..200),
        ) {
            let mut store = store(4, None);
            let mut server = 1.0_f32;
            let mut workers = [(0_u64, 1.0_f32, 1.0_f32); 4];
            for (worker, noise) in turns {
                let (pushes, here, there) = workers[worker];
                let update = |weights: f32| (f32::from(noise) - (weights * 1024.0) % 7.0) / 1024.0;
                prop_assert_eq!(here.to_bits(), there.to_bits());
                let next = here + update(here);
                prop_assert!(push(&mut store, pushes, worker, next - here));
                server += update(there);
                workers[worker] = (pushes + 1, pull(&mut store, worker).0, server);
                prop_assert_eq!(workers[worker].1.to_bits(), server.to_bits());
            }
        }

        #[test]
        fn nobody_gets_further_ahead_than_allowed(
            max_ahead in 0..4_u64,
            turns in prop::collection::vec(0..3_usize, 0..200),
        ) {
            let mut store = store(3, Some(max_ahead));
            let mut pushes = [0_u64; 3];
            for worker in turns {
                let ahead = pushes[worker] - pushes.iter().min().unwrap();
                let admitted = push(&mut store, pushes[worker], worker, 1.0);
                prop_assert_eq!(admitted, ahead <= max_ahead);
                pushes[worker] += u64::from(admitted);
            }
            let total: u64 = pushes.iter().sum();
            prop_assert_eq!(pull(&mut store, 0), (1.0 + total as f32, total));
        }
    }

    #[test]
    fn there_is_nothing_before_the_first_values_and_they_come_once() {
        let mut store = Store::new(2, [(0, F32)], None, Epochs::default());
        assert_eq!(store.pull(0, 1, Epochs::default()), Ok(None));
        assert_eq!(admit(&mut store, 0, 1), Ok(Admission::Later));
        let refusal = Refusal::WrongLength { key: 0, wanted_bytes: 4, got_bytes: 3 };
        assert_eq!(store.initialise(0, &[0; 3]), Err(refusal));
        assert_eq!(store.initialise(0, &2.0_f32.to_ne_bytes()), Ok(()));
        let refusal = Err(Refusal::InitialisedTwice { key: 0 });
        assert_eq!(store.initialise(0, &3.0_f32.to_ne_bytes()), refusal);
        assert_eq!(pull(&mut store, 1), (2.0, 0));
    }

    #[test]
    fn in_turns_every_push_but_the_first_is_as_stale_as_there_are_others() {
        let mut store = store(4, None);
        for worker in 0..4 {
            pull(&mut store, worker);
        }
        for round in 0..10 {
            for worker in 0..4 {
                push(&mut store, round, worker, 0.5);
                pull(&mut store, worker);
            }
        }
        let staleness = store.staleness();
        assert_eq!(staleness.buckets, [1, 1, 1, 37, 0, 0, 0, 0, 0], "0, 1, 2, then 3 each time");
        assert_eq!((staleness.max, staleness.sum), (3, 114));
    }

    #[test]
    fn nobody_waits_for_a_worker_that_is_gone() {
        let mut store = store(3, Some(0));
        assert!(push(&mut store, 0, 0, 1.0) && push(&mut store, 0, 1, 1.0));
        let Ok(Admission::Into(landing)) = admit(&mut store, 0, 2) else { panic!("later") };
        assert!(!push(&mut store, 1, 0, 1.0));
        let epochs = store.continue_without(2).unwrap();
        assert_eq!(store.pushed(landing), Err(Refusal::NoMember { worker: 2 }));
        let message = Push { key: 0, round: 1, worker: 0, size_bytes: 4, reduction: SUM, epochs };
        assert!(matches!(store.push(&message), Ok(Admission::Into(_))));
    }

    #[test]
    fn pushes_come_once_and_in_order() {
        let mut store = store(2, None);
        let Ok(Admission::Into(landing)) = admit(&mut store, 0, 0) else { panic!("later") };
        let twice = Err(Refusal::PushedTwice { key: 0, round: 0, worker: 0 });
        assert_eq!(admit(&mut store, 0, 0), twice);
        assert_eq!(admit(&mut store, 1, 0), Ok(Admission::Later), "the one before is on its way");
        store.pushed(landing).unwrap();
        assert_eq!(admit(&mut store, 0, 0), twice);
        assert_eq!(admit(&mut store, 2, 0), Err(Refusal::Skipped { key: 0, round: 2, worker: 0, next: 1 }));
    }

    #[test]
    fn a_snapshot_keeps_its_values_and_halves_are_kept_wide() {
        let part = Part { data_type: DataType::Bf16, ..F32 };
        let mut store = Store::new(1, [(0, part)], None, Epochs::default());
        store.initialise(0, &[0x80, 0x3f]).unwrap();
        let first = store.pull(0, 0, Epochs::default()).unwrap().unwrap();
        for round in 0..256 {
            let message =
                Push { key: 0, round, worker: 0, size_bytes: 2, reduction: SUM, epochs: Epochs::default() };
            let Ok(Admission::Into(mut landing)) = store.push(&message) else { panic!("later") };
            landing.bytes_mut().copy_from_slice(&[0x80, 0x3b]);
            store.pushed(landing).unwrap();
        }
        assert_eq!(first.values(), [0x80, 0x3f]);
        let last = store.pull(0, 0, Epochs::default()).unwrap().unwrap();
        assert_eq!(last.values(), [0x00, 0x40], "1 + 256 · 2^-8, each of which bf16 would lose");
        assert_eq!(last.version(), 256);
    }
}
