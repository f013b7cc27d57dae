//! Rounds of one tensor whose workers come and go at their own pace.

use std::collections::BTreeSet;
use std::time::Duration;

use rsccl::summation::server::fingerprint::fingerprint;
use rsccl::summation::server::reduction::Reduction;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Failure;
use crate::member::Member;
use crate::values::{Input, Values, are, mix, write};

/// Whoever sums for a worker.
pub(crate) trait Sums {
    /// Which worker this is.
    fn worker(&self) -> usize;
    /// How many there are.
    fn n_workers(&self) -> usize;
    /// Floats of a contribution.
    fn elements(&self) -> usize;
    /// Contributes to the next round; it is with the service when this returns, or will be by itself.
    fn push(&mut self, input: Input) -> Result<(), Failure>;
    /// The round's sum.
    fn pull(&mut self) -> Result<Vec<u8>, Failure>;
}

/// What is to be done.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Delayed {
    n: u64,
    #[serde(default)]
    values: Values,
    /// Whether every round has the same contributions.
    #[serde(default)]
    same: bool,
    /// Before each push and each pull, at most: a made-up number of microseconds.
    #[serde(default)]
    most_us: u64,
    /// Milliseconds that this worker sleeps between push and pull.
    #[serde(default)]
    sleep_ms: u64,
}

impl Delayed {
    /// Runs them: how many sums were wrong, and the fingerprints of the first few different ones.
    pub(crate) fn run(&self, sums: &mut impl Sums) -> Result<Value, Failure> {
        let (worker, n_workers, elements) = (sums.worker(), sums.n_workers(), sums.elements());
        let (mut n_wrong, mut fingerprints) = (0_u64, BTreeSet::new());
        let mut expected = Vec::new();
        for round in 0..self.n {
            let input = Input { values: self.values, tensor: 0, round: if self.same { 0 } else { round } };
            if !self.same || expected.is_empty() {
                expected = input.sum(n_workers, elements);
            }
            self.wait(round, worker, 1);
            sums.push(input)?;
            std::thread::sleep(Duration::from_millis(self.sleep_ms));
            self.wait(round, worker, 2);
            let sum = sums.pull()?;
            n_wrong += u64::from(!are(&expected, &sum));
            if fingerprints.len() < MAX_FINGERPRINTS {
                fingerprints.insert(fingerprint(&sum));
            }
        }
        Ok(json!({ "wrong": n_wrong, "fingerprints": fingerprints }))
    }

    fn wait(&self, round: u64, worker: usize, salt: u64) {
        if self.most_us > 0 {
            let micros = mix(round ^ mix(salt ^ mix(worker as u64))) % self.most_us;
            std::thread::sleep(Duration::from_micros(micros));
        }
    }
}

impl Sums for Member {
    fn worker(&self) -> usize {
        self.worker
    }

    fn n_workers(&self) -> usize {
        self.n_workers
    }

    fn elements(&self) -> usize {
        self.elements.first().copied().unwrap_or(0)
    }

    fn push(&mut self, input: Input) -> Result<(), Failure> {
        write(input.contribution(self.worker, self.elements()), self.trial.contribution(0)?);
        Ok(self.trial.push(0, Reduction::Sum)?)
    }

    fn pull(&mut self) -> Result<Vec<u8>, Failure> {
        self.trial.pull(0)?;
        Ok(self.trial.wait(0)?.to_vec())
    }
}

/// More than this many different sums of one input say nothing new.
const MAX_FINGERPRINTS: usize = 1000;
