//! Groups that sum asynchronously: nobody waits for a round of the others.
//!
//! A tensor begins with one element per worker, in which that worker counts its rounds. What is pulled of a tensor of one
//! part therefore tells which rounds are in it, however the workers' threads ran.

use std::collections::BTreeMap;

use super::{Shape, TRANSPORTS, Transport, declare_one, mix};
use crate::run::group::Group;
use crate::run::members::Role;
use crate::server::reduction::Reduction;
use crate::server::sums::Mode;
use rsccl_collective::error::Error;
use rsccl_collective::memory::Region;
use rsccl_collective::types::DataType;

const N_WORKERS: usize = 3;
/// The counts, and as many weights: a tensor is one part.
const ELEMENTS: usize = N_WORKERS + 500;
const N_TENSORS: usize = 4;
const N_ROUNDS: u64 = 40;

/// What a worker pulled, of a tensor.
#[derive(Debug)]
struct Pulled {
    worker: usize,
    round: u64,
    values: Vec<f32>,
}

impl Pulled {
    fn counts(&self) -> &[f32] {
        &self.values[..N_WORKERS]
    }

    fn total(&self) -> f32 {
        self.counts().iter().sum()
    }
}

fn shape(transport: Transport, max_ahead: Option<u64>) -> Shape {
    Shape { mode: Mode::Store { max_ahead }, ..Shape::new(transport, N_WORKERS, 1, 100_000) }
}

fn first(worker: usize, tensor: usize) -> Vec<f32> {
    let weight =
        |index: usize| (mix((tensor * ELEMENTS + index) as u64 ^ worker as u64) % 4096) as f32 / 1024.0;
    (0..ELEMENTS).map(|index| if index < N_WORKERS { 0.0 } else { weight(index) }).collect()
}

/// f of a gradient that depends on the weights: a multiple of 2^-10, so that no sum is rounded.
fn update(worker: usize, round: u64, weights: &[f32]) -> Vec<f32> {
    let one = |(index, weight): (usize, &f32)| match index.checked_sub(N_WORKERS) {
        None => f32::from(index == worker),
        Some(_) => {
            let noise = (mix(index as u64 ^ mix(round ^ mix(worker as u64))) % 129) as f32 - 64.0;
            (noise - (weight * 1024.0) % 7.0) / 1024.0
        }
    };
    weights.iter().enumerate().map(one).collect()
}

fn push_pull(group: &Group, tensor: usize, values: &mut Vec<f32>) {
    let mut bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    let region = Region::of_slice_mut(&mut bytes);
    group.push_pull(tensor, region, region, Reduction::Sum).unwrap().wait().unwrap();
    *values = bytes.as_chunks().0.iter().map(|value| f32::from_ne_bytes(*value)).collect();
}

fn declare(group: &mut Group) {
    for tensor in 0..N_TENSORS {
        declare_one(group, &format!("weight {tensor}"), ELEMENTS as u64, DataType::F32).unwrap();
    }
}

/// By tensor: what all workers pulled, in the order of the rounds that are in it.
fn train(shape: Shape, pause: impl Fn(usize) + Sync) -> BTreeMap<usize, Vec<Pulled>> {
    let all = shape.run(|mut group, role| {
        let Role::Worker(worker) = role else { return group.leave().map(|()| Vec::new()).unwrap() };
        declare(&mut group);
        group.start().unwrap();
        let mut pulled = Vec::new();
        let mut weights: Vec<Vec<f32>> = (0..N_TENSORS).map(|tensor| first(worker, tensor)).collect();
        for round in 0..=N_ROUNDS {
            for (tensor, weights) in weights.iter_mut().enumerate() {
                pause(worker);
                if round > 0 {
                    // w' - w of the worker's own optimizer, which is f where nothing is rounded.
                    let f = update(worker, round, weights);
                    let next = weights.iter().zip(&f).map(|(weight, f)| weight + f);
                    *weights = next.zip(weights.iter()).map(|(next, weight)| next - weight).collect();
                }
                push_pull(&group, tensor, weights);
                pulled.push((tensor, Pulled { worker, round, values: weights.clone() }));
            }
        }
        group.leave().unwrap();
        pulled
    });
    let mut by_tensor: BTreeMap<usize, Vec<Pulled>> = BTreeMap::new();
    all.into_iter().flatten().for_each(|(tensor, pulled)| by_tensor.entry(tensor).or_default().push(pulled));
    by_tensor.values_mut().for_each(|pulled| pulled.sort_by(|a, b| a.total().total_cmp(&b.total())));
    by_tensor
}

/// A parameter server that applies f itself, over the same interleaving: BytePS, OSDI 2020, theorem 2.
fn replay(tensor: usize, pulled: &[Pulled]) {
    let mut server = first(0, tensor);
    let mut workers: Vec<Vec<f32>> = vec![Vec::new(); N_WORKERS];
    let mut rounds = [0; N_WORKERS];
    for event in pulled {
        for worker in 0..N_WORKERS {
            while server[worker] < event.counts()[worker] {
                rounds[worker] += 1;
                let f = update(worker, rounds[worker], &workers[worker]);
                server.iter_mut().zip(f).for_each(|(weight, f)| *weight += f);
            }
        }
        assert_eq!(event.counts()[event.worker], event.round as f32, "a worker's own rounds are in it");
        let same = server.iter().zip(&event.values).all(|(there, here)| there.to_bits() == here.to_bits());
        assert!(same, "tensor {tensor}, round {} of worker {}", event.round, event.worker);
        workers[event.worker].clone_from(&server);
    }
    assert_eq!(server[..N_WORKERS], [N_ROUNDS as f32; N_WORKERS], "the last pull has everything");
}

#[test]
fn weights_are_those_of_a_parameter_server_in_bits_whatever_the_interleaving() {
    for transport in TRANSPORTS {
        for (tensor, pulled) in train(shape(transport, None), |_| {}) {
            replay(tensor, &pulled);
        }
    }
}

#[test]
fn nobody_is_further_ahead_of_a_slow_worker_than_allowed() {
    for max_ahead in [0, 2] {
        let slow = |worker: usize| (0..worker * 200).for_each(|_| std::thread::yield_now());
        for (tensor, pulled) in train(shape(Transport::Mixed, Some(max_ahead)), slow) {
            for event in &pulled {
                let slowest = event.counts().iter().copied().fold(f32::INFINITY, f32::min);
                // Whoever is through has left, and is waited for no more.
                let ahead = event.round as f32 - slowest;
                assert!(ahead <= max_ahead as f32, "tensor {tensor}: {ahead} ahead");
            }
            replay(tensor, &pulled);
        }
    }
}

#[test]
fn what_a_store_cannot_do_is_refused_and_ends_nothing() {
    let refused = |error: Error, text: &str| {
        assert!(matches!(&error, Error::InvalidUsage(told) if told.contains(text)), "{error}");
    };
    Shape { n_workers: 1, n_servers: 0, ..shape(Transport::Tcp, None) }.run(|mut group, _| {
        declare(&mut group);
        group.start().unwrap();
        let mut bytes = vec![0; ELEMENTS * 4];
        let region = Region::of_slice_mut(&mut bytes);
        refused(group.push(0, region, Reduction::Average).unwrap_err(), "no averages");
        refused(declare_one(&mut group, "more", 1, DataType::F32).unwrap_err(), "before the first push");
        assert!(!group.is_behind());
        let mut values = first(0, 0);
        push_pull(&group, 0, &mut values);
        let spread = group.probe().unwrap().ask(std::time::Duration::from_secs(9)).unwrap().asynchronous;
        assert_eq!(spread.unwrap().staleness_bound, None);
        group.leave().unwrap();
    });
}
