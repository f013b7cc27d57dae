//! Rounds of all tensors, with their times on the clock that all processes of a machine share.

use std::time::Duration;

use rsccl::summation::server::fingerprint::fingerprint;
use rsccl::summation::server::reduction::Reduction;
use rsccl::summation::trial::now_ns;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Failure;
use crate::member::Member;
use crate::values::{Input, Values, are};

/// What is to be done.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rounds {
    n: u64,
    /// Number of the first one: the same number has the same contributions.
    #[serde(default)]
    first: u64,
    /// Whether the last tensor is submitted first, as gradients come.
    #[serde(default)]
    reverse: bool,
    /// Whether the end of each tensor is looked for, not only that of the last one.
    #[serde(default)]
    each: bool,
    /// Whether sums are checked, which takes as long as making the contributions of all workers.
    #[serde(default)]
    check: bool,
}

impl Rounds {
    /// Runs them. Of each round: begin, end of each tensor (all the same, where they are not looked for), and a
    /// fingerprint of all sums; and how many sums were wrong.
    pub(crate) fn run(&self, member: &mut Member) -> Result<Value, Failure> {
        let (mut rounds, mut n_wrong) = (Vec::new(), 0);
        for round in self.first..self.first + self.n {
            let (took, wrong) = self.one(member, round)?;
            rounds.push(took);
            n_wrong += wrong;
        }
        Ok(json!({ "rounds": rounds, "wrong": n_wrong }))
    }

    fn one(&self, member: &mut Member, round: u64) -> Result<(Value, usize), Failure> {
        let n_tensors = member.elements.len();
        let input = |tensor| Input { values: Values::Fractions, tensor, round };
        (0..n_tensors).try_for_each(|tensor| member.contribute(input(tensor)))?;
        let order: Vec<usize> =
            if self.reverse { (0..n_tensors).rev().collect() } else { (0..n_tensors).collect() };
        member.barrier()?;
        let start_ns = now_ns();
        for tensor in &order {
            member.trial.push(*tensor, Reduction::Sum)?;
            member.trial.pull(*tensor)?;
        }
        let mut end_ns = if self.each { Self::ends(member) } else { vec![0; n_tensors] };
        let mut fingerprints = Vec::new();
        for (tensor, end_ns) in end_ns.iter_mut().enumerate() {
            fingerprints.extend(fingerprint(member.trial.wait(tensor)?).to_le_bytes());
            if !self.each {
                *end_ns = now_ns();
            }
        }
        // What comes after the end is of no interest to the round's time: sums stay until the next contribution.
        let n_wrong = if self.check { Self::n_wrong(member, input)? } else { 0 };
        let took =
            json!({ "start_ns": start_ns, "end_ns": end_ns, "fingerprint": fingerprint(&fingerprints) });
        Ok((took, n_wrong))
    }

    fn ends(member: &Member) -> Vec<u64> {
        let mut end_ns = vec![0; member.elements.len()];
        while end_ns.contains(&0) {
            for (tensor, end_ns) in end_ns.iter_mut().enumerate().filter(|(_, end_ns)| **end_ns == 0) {
                if member.trial.is_over(tensor) {
                    *end_ns = now_ns();
                }
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        end_ns
    }

    fn n_wrong(member: &Member, input: impl Fn(usize) -> Input) -> Result<usize, Failure> {
        let mut n_wrong = 0;
        for (tensor, elements) in member.elements.iter().enumerate() {
            let sum = input(tensor).sum(member.n_workers, *elements);
            n_wrong += usize::from(!are(&sum, member.trial.sum(tensor)?));
        }
        Ok(n_wrong)
    }
}

/// Between two looks for tensors that are over: short against what is measured.
const LOOK_INTERVAL: Duration = Duration::from_micros(500);
