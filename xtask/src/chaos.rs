//! Kills ranks of the engine at random moments: the test of the engine's faults, as often as wanted.

use anyhow::Result;

use crate::process::{self, cargo};

/// Runs it; prints how many deaths there were and how late the last survivor knew.
pub(crate) fn run(rounds: u32, seed: Option<u64>) -> Result<()> {
    process::run(&mut cargo(["build", "-p", "ringscope-engine"]))?;
    let mut test = cargo(["test", "-p", "ringscope-engine", "--test", "faults_chaos", "--", "--nocapture"]);
    test.env("RSCCL_CHAOS_ROUNDS", rounds.to_string());
    if let Some(seed) = seed {
        test.env("RSCCL_CHAOS_SEED", seed.to_string());
    }
    process::run(&mut test)
}
