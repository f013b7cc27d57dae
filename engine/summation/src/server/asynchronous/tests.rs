//! The store against sums that are written down.

use proptest::prelude::*;

use super::*;
use crate::server::reduction::Reduction;
use rsccl_collective::types::DataType;

const SUM: Reduction = Reduction::Sum;
const F32: Part = Part { count: 1, data_type: DataType::F32, codec: None };

fn store(n_workers: usize, max_ahead: Option<u64>) -> Store {
    let mut store = Store::new(n_workers, [(0, F32)], max_ahead);
    store.initialise(0, &1.0_f32.to_ne_bytes()).unwrap();
    store
}

fn admit(store: &mut Store, round: u64, worker: usize) -> Result<Admission, Refusal> {
    store.push(&Push { key: 0, round, worker, size_bytes: 4, reduction: SUM })
}

fn push(store: &mut Store, round: u64, worker: usize, delta: f32) -> bool {
    let Admission::Into(mut landing) = admit(store, round, worker).unwrap() else { return false };
    landing.bytes_mut().copy_from_slice(&delta.to_ne_bytes());
    store.pushed(landing).unwrap();
    true
}

fn pull(store: &mut Store, worker: usize) -> (f32, u64) {
    let snapshot = store.pull(0, worker).unwrap().unwrap();
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
    let mut store = Store::new(2, [(0, F32)], None);
    assert_eq!(store.pull(0, 1), Ok(None));
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
fn pulls_are_counted_by_how_far_ahead_their_worker_is() {
    let leads = |max_ahead, n_pushes| {
        let mut store = store(2, max_ahead);
        for round in 0..n_pushes {
            pull(&mut store, 0);
            assert!(push(&mut store, round, 0, 0.5));
        }
        pull(&mut store, 1);
        store.leads().to_vec()
    };
    assert_eq!(leads(Some(2), 3), [2, 1, 1, 0], "worker 1's pull has no lead, and none is beyond the bound");
    let unbounded = leads(None, 40);
    assert_eq!((unbounded.len(), unbounded[31], unbounded[32]), (MAX_LEADS, 1, 8), "32 to 39 are one");
    assert_eq!(leads(Some(u64::MAX), 1).len(), MAX_LEADS);
}

#[test]
fn nobody_waits_for_a_worker_that_is_gone() {
    let mut store = store(3, Some(0));
    assert!(push(&mut store, 0, 0, 1.0) && push(&mut store, 0, 1, 1.0));
    let Ok(Admission::Into(landing)) = admit(&mut store, 0, 2) else { panic!("later") };
    assert!(!push(&mut store, 1, 0, 1.0));
    store.continue_without(2).unwrap();
    assert_eq!(store.pushed(landing), Err(Refusal::NoMember { worker: 2 }));
    let message = Push { key: 0, round: 1, worker: 0, size_bytes: 4, reduction: SUM };
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
    let mut store = Store::new(1, [(0, part)], None);
    store.initialise(0, &[0x80, 0x3f]).unwrap();
    let first = store.pull(0, 0).unwrap().unwrap();
    for round in 0..256 {
        let message = Push { key: 0, round, worker: 0, size_bytes: 2, reduction: SUM };
        let Ok(Admission::Into(mut landing)) = store.push(&message) else { panic!("later") };
        landing.bytes_mut().copy_from_slice(&[0x80, 0x3b]);
        store.pushed(landing).unwrap();
    }
    assert_eq!(first.values(), [0x80, 0x3f]);
    let last = store.pull(0, 0).unwrap().unwrap();
    assert_eq!(last.values(), [0x00, 0x40], "1 + 256 · 2^-8, each of which bf16 would lose");
    assert_eq!(last.version(), 256);
}
