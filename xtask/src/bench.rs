//! The benchmarks. What they printed stands in BENCHMARKS.md.

use anyhow::Result;
use clap::ValueEnum;

use crate::process::cargo;
use crate::tools;

/// What can be measured.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Bench {
    /// Nanoseconds that the collector adds to a call
    Collector,
    /// Samples per second that the daemon accepts, and what they cost
    Ingest,
    /// Milliseconds that a reading of 64 processes costs the agent
    Agent,
}

pub(crate) fn run(what: Bench, arguments: &[String]) -> Result<()> {
    match what {
        Bench::Collector => {
            crate::process::run(&mut cargo(["build", "--release", "-p", "ringscope-collector"]))?;
            example("ringscope-collector", "bench_collector", arguments)
        }
        Bench::Ingest => {
            tools::ensure(&[tools::POSTGRES])?;
            crate::process::run(&mut cargo(["build", "--release", "-p", "ringscope", "--bin", "ringscope"]))?;
            example("ringscope", "bench_ingest", arguments)
        }
        Bench::Agent => example("ringscope", "bench_agent", arguments),
    }
}

fn example(package: &str, name: &str, arguments: &[String]) -> Result<()> {
    let mut command = cargo(["run", "--release", "-p", package, "--example", name, "--"]);
    crate::process::run(command.args(arguments))
}
