//! Kills ranks of the engine, or members of summation groups under ringscope, at random moments, or lends servers to jobs and takes
//! them back: tests of theirs, as often as wanted.

use anyhow::Result;

use crate::build::COLLECTOR;
use crate::process::{self, cargo};

/// What to kill, and how often.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Chaos {
    /// Deaths, or loans
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Repeat the run that printed this seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Kill workers and servers of summation groups, in sums and in broadcasts, that run under ringscope, which must name them too
    #[arg(long)]
    summation: bool,
    /// Lend servers of a pool to three jobs and take them back, as often, while the jobs check every sum
    #[arg(long, conflicts_with_all = ["summation", "churn"])]
    pool: bool,
    /// Kill, stop, abort or end ranks that split, shrink and use communicators, several to a process, outside the faithful mode
    /// and in it
    #[arg(long, conflicts_with = "summation")]
    churn: bool,
    /// The version of NCCL that the faithful mode of --churn behaves as
    #[arg(long, requires = "churn", value_name = "VERSION", default_value = "2.28")]
    faithful: String,
    /// Build and run it optimized, for figures
    #[arg(long)]
    release: bool,
}

impl Chaos {
    /// Kills; prints how many deaths there were, and how soon they were known.
    pub(crate) fn run(self) -> Result<()> {
        let (package, name, prefix) = if self.summation {
            ("ringscope", "summation_chaos", "RSUM_CHAOS")
        } else if self.pool {
            ("ringscope-engine", "summation_pool", "RSUM_POOL")
        } else if self.churn {
            ("ringscope-engine", "faults_churn", "RSCCL_CHAOS")
        } else {
            ("ringscope-engine", "faults_chaos", "RSCCL_CHAOS")
        };
        let profile = self.release.then_some("--release");
        let mut build = cargo(["build", "-p", "ringscope-engine"]);
        if self.summation {
            build.args(["-p", "ringscope"]).args(COLLECTOR);
        }
        process::run(build.args(profile))?;
        let mut test = cargo(["test", "-p", package, "--test", name]);
        test.args(profile).args(["--", "--nocapture", "--test-threads=1"]);
        test.env("RSCCL_CHAOS_FAITHFUL", &self.faithful);
        let count = if self.pool { "CHANGES" } else { "ROUNDS" };
        test.env(format!("{prefix}_{count}"), self.rounds.to_string());
        if let Some(seed) = self.seed {
            test.env(format!("{prefix}_SEED"), seed.to_string());
        }
        process::run(&mut test)
    }
}
