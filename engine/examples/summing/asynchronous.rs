//! Asynchronous training of made-up schedules: our store beside a parameter server that applies the update itself.
//!
//! Worker i computes w'ᵢ = wᵢ + f and pushes w'ᵢ − wᵢ; the store adds that; the worker pulls. A parameter server does
//! w ← w + f. By theorem 2 of BytePS (OSDI 2020) both have the same w after every push, as long as nothing is rounded.

use rsccl::summation::server::asynchronous::{Staleness, Store};
use rsccl::summation::server::message::{Admission, Push};
use rsccl::summation::server::part::Part;
use rsccl::summation::server::reduction::Reduction;
use rsccl::summation::tensor::DataType;
use serde_json::{Value, json};

use crate::Failure;
use crate::values::mix;

const WORKERS: usize = 4;
const PUSHES: u64 = 25;
const ELEMENTS: usize = 64;
const KEY: u32 = 0;
const SIZE_BYTES: usize = ELEMENTS * size_of::<f32>();

/// What was found over all schedules.
#[derive(Debug, Default)]
struct Counts {
    pushes: u64,
    /// Pushes after which the store's bits were not the parameter server's, with updates of few bits.
    differing: u64,
    /// Of any updates: the most that a push was off, in units in the last place.
    most_ulp: f64,
    /// Pushes of a worker that was further ahead than the bound.
    beyond_bound: u64,
    held_up: u64,
    /// Pushes that were held up though the bound allowed them.
    held_up_wrongly: u64,
    staleness: Staleness,
}

/// One schedule: its numbers, and how far a worker may be ahead.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    seed: u64,
    is_dyadic: bool,
    max_ahead: Option<u64>,
}

/// Replays so many schedules of each kind.
pub(crate) fn replay(schedules: u64) -> Result<Value, Failure> {
    let mut found = Counts::default();
    for seed in 0..schedules {
        for (is_dyadic, max_ahead) in [(true, None), (false, None), (true, Some(seed % 4))] {
            Schedule { seed, is_dyadic, max_ahead }.run(&mut found)?;
        }
    }
    let Staleness { buckets, max, sum } = found.staleness;
    Ok(json!({
        "pushes": found.pushes,
        "differing": found.differing,
        "most_ulp": found.most_ulp,
        "beyond_bound": found.beyond_bound,
        "held_up": found.held_up,
        "held_up_wrongly": found.held_up_wrongly,
        "staleness": { "bounds": Staleness::BOUNDS, "buckets": buckets, "max": max, "sum": sum },
    }))
}

impl Schedule {
    fn run(self, found: &mut Counts) -> Result<(), Failure> {
        let part = Part { count: ELEMENTS, data_type: DataType::F32, codec: None };
        let mut store = Store::new(WORKERS, [(KEY, part)], self.max_ahead);
        let mut server: Vec<f32> = (0..ELEMENTS as u64).map(|index| self.number(index, 1.0)).collect();
        store.initialise(KEY, &bytes(&server))?;
        let mut models = vec![server.clone(); WORKERS];
        let mut pushes = [0_u64; WORKERS];
        let mut turn = 0;
        while pushes.iter().any(|pushes| *pushes < PUSHES) {
            turn += 1;
            let worker = usize::try_from(mix(self.seed ^ mix(turn)) % WORKERS as u64)?;
            let (round, slowest) = (pushes[worker], pushes.iter().min().copied().unwrap_or(0));
            if round == PUSHES {
                continue;
            }
            let may = self.max_ahead.is_none_or(|max| round - slowest <= max);
            let reduction = Reduction::Sum;
            let push = Push { key: KEY, round, worker, size_bytes: SIZE_BYTES, reduction };
            let Admission::Into(mut landing) = store.push(&push)? else {
                found.held_up += 1;
                found.held_up_wrongly += u64::from(may);
                continue;
            };
            found.beyond_bound += u64::from(!may);
            let update = |index: usize| self.number(mix(turn) ^ index as u64, 2.0_f32.powi(-6));
            let stepped = models[worker].iter().enumerate().map(|(index, old)| old + update(index));
            let deltas: Vec<f32> = stepped.zip(&models[worker]).map(|(new, old)| new - old).collect();
            landing.bytes_mut().copy_from_slice(&bytes(&deltas));
            store.pushed(landing)?;
            server.iter_mut().enumerate().for_each(|(index, value)| *value += update(index));
            pushes[worker] += 1;
            let snapshot = store.pull(KEY, worker)?.ok_or("no values")?;
            let pulled = floats(snapshot.values());
            found.pushes += 1;
            if self.is_dyadic {
                found.differing += u64::from(bytes(&pulled) != bytes(&server));
            } else {
                let per_push = most_ulp(&server, &pulled) / snapshot.version() as f64;
                found.most_ulp = found.most_ulp.max(per_push);
            }
            models[worker] = pulled;
        }
        found.add(store.staleness());
        Ok(())
    }

    /// About `scale` at most; of eight bits, where nothing is to be rounded.
    fn number(self, of: u64, scale: f32) -> f32 {
        let [byte, rest @ ..] = mix(mix(self.seed) ^ of).to_be_bytes();
        let eighth = f32::from(i8::from_be_bytes([byte])) / 128.0;
        let fraction = if self.is_dyadic { 0.0 } else { f32::from(rest[0]) / 77_777.0 };
        (eighth + fraction) * scale
    }
}

impl Counts {
    fn add(&mut self, staleness: Staleness) {
        self.staleness.buckets.iter_mut().zip(staleness.buckets).for_each(|(all, one)| *all += one);
        self.staleness.max = self.staleness.max.max(staleness.max);
        self.staleness.sum += staleness.sum;
    }
}

/// The largest difference, in units of the last place of numbers as large as the largest.
fn most_ulp(wanted: &[f32], got: &[f32]) -> f64 {
    let largest = wanted.iter().fold(f32::MIN_POSITIVE, |most, value| most.max(value.abs()));
    let ulp = f64::from(largest).log2().floor().exp2() * f64::from(f32::EPSILON);
    let off = |(wanted, got): (&f32, &f32)| (f64::from(*wanted) - f64::from(*got)).abs() / ulp;
    wanted.iter().zip(got).map(off).fold(0.0, f64::max)
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|word| f32::from_ne_bytes(*word)).collect()
}
