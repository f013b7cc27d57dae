//! Kills ranks of the engine at random moments: the test of the engine's faults, as often as wanted.

use anyhow::Result;

use crate::process::{self, cargo};

/// Runs it, or that of summation groups; prints how many deaths there were and how late the last survivor knew.
pub(crate) fn run(rounds: u32, seed: Option<u64>, summation: bool) -> Result<()> {
    let (name, prefix) =
        if summation { ("summation_chaos", "RSUM_CHAOS") } else { ("faults_chaos", "RSCCL_CHAOS") };
    process::run(&mut cargo(["build", "-p", "ringscope-engine"]))?;
    let mut test = cargo(["test", "-p", "ringscope-engine", "--test", name, "--", "--nocapture"]);
    test.env(format!("{prefix}_ROUNDS"), rounds.to_string());
    if let Some(seed) = seed {
        test.env(format!("{prefix}_SEED"), seed.to_string());
    }
    process::run(&mut test)
}
