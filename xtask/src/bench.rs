//! The benchmarks. What they printed stands in BENCHMARKS.md.

use anyhow::{Result, ensure};
use clap::ValueEnum;

use crate::build::COLLECTOR;
use crate::process::cargo;
use crate::tools;

/// What can be measured.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Bench {
    /// All that the collector costs, each figure beside its limit: `collector`, `plugin`, `poller`, and what fork, exec and exit take
    Costs,
    /// Nanoseconds that the collector adds to a call
    Collector,
    /// Per cent of a core that the thread takes which asks CUDA events; `-- LIBRARY` measures another build
    Poller,
    /// Nanoseconds that the profiler plugin takes per collective; `-- --plugin NAME=PATH` adds a built library, `-- --help` has an example
    Plugin,
    /// Samples per second that the daemon accepts, and what they cost
    Ingest,
    /// What it costs the daemon that a large job starts, and then sends four times a second; `-- --help` has options
    Register,
    /// What a week of history costs the store, with a fast clock: bytes written and kept, days dropped, a restart, queries
    Week,
    /// Milliseconds that the busiest GETs take with a thousand hosts, at 200 requests per second
    Http,
    /// Megabytes of log per second that the parser reads
    Log,
    /// Milliseconds that a reading of 64 processes costs the agent
    Agent,
    /// Microseconds of an all-reduce beside other libraries and beside what the memory allows; `-- --help` has options
    Collective,
    /// Bytes that a summation service sums per second, and push-pulls over loopback beside iperf3; `-- --help` has options
    Summation,
    /// Microseconds that the Python package adds to a training step for each gradient that nobody may touch
    Python,
    /// The backend rsccl of torch.distributed beside Gloo and MPI, in the same processes and turns; `-- --help` has options
    ProcessGroups,
    /// What ringscope costs a step of the summation service: events times their cost, beside the step; `-- --help` has options
    Observer,
    /// Several daemons on one Postgres, killed again and again: what is lost, and how soon the next one leads
    Takeover,
    /// What the page costs a browser with a thousand simulated hosts: start, live update, weight
    Page,
}

pub(crate) fn run(what: Bench, arguments: &[String]) -> Result<()> {
    match what {
        Bench::Costs => costs(arguments),
        Bench::Collector => {
            crate::process::run(&mut cargo(["build", "--release", "-p", "ringscope-collector"]))?;
            example("ringscope-collector", "bench_collector", arguments)
        }
        Bench::Poller => example("ringscope-collector", "bench_poller", arguments),
        Bench::Plugin => {
            crate::process::run(&mut cargo(["build", "--release", "-p", "ringscope-collector"]))?;
            example("ringscope-collector", "bench_plugin", arguments)
        }
        Bench::Ingest => {
            tools::ensure(&[tools::POSTGRES])?;
            crate::process::run(&mut cargo(["build", "--release", "-p", "ringscope", "--bin", "ringscope"]))?;
            example("ringscope", "bench_ingest", arguments)
        }
        Bench::Register => example("ringscope", "bench_register", arguments),
        Bench::Week => example("ringscope", "bench_week", arguments),
        Bench::Takeover => {
            tools::ensure(&[tools::POSTGRES])?;
            crate::process::run(&mut cargo(["build", "--release", "-p", "ringscope", "--bin", "ringscope"]))?;
            example("ringscope", "bench_takeover", arguments)
        }
        Bench::Http => {
            tools::ensure(&[tools::WRK])?;
            let mut build = cargo(["build", "--release", "-p", "ringscope", "--bin", "ringscope"]);
            crate::process::run(build.args(["--example", "simulate_cluster"]))?;
            example("ringscope", "bench_http", arguments)
        }
        Bench::Log => example("ringscope", "bench_log", arguments),
        Bench::Agent => example("ringscope", "bench_agent", arguments),
        Bench::Collective => crate::collective::bench(arguments),
        Bench::Summation => {
            tools::ensure(&[tools::IPERF3])?;
            example("ringscope-engine", "bench_summation", arguments)
        }
        Bench::Observer => {
            crate::process::run(cargo(["build", "--release"]).args(COLLECTOR))?;
            let arguments: Vec<String> =
                std::iter::once("observer".to_owned()).chain(arguments.iter().cloned()).collect();
            example("ringscope-engine", "bench_summation", &arguments)
        }
        Bench::Python => {
            crate::process::run(&mut cargo(["build", "--release", "-p", "ringscope-engine"]))?;
            crate::python::bench(arguments)
        }
        Bench::ProcessGroups => {
            crate::process::run(&mut cargo(["build", "--release", "-p", "ringscope-engine"]))?;
            crate::python::bench_process_groups(arguments)
        }
        Bench::Page => crate::screens::bench(arguments),
    }
}

/// All of the collector's figures, also where some are above their limits.
fn costs(arguments: &[String]) -> Result<()> {
    let benches = [Bench::Collector, Bench::Plugin, Bench::Poller];
    let ran = benches.map(|bench| (format!("{bench:?}").to_lowercase(), run(bench, arguments)));
    let rows = ("fork, exec, exit".to_owned(), crate::harm::costs());
    let missed: Vec<String> =
        ran.into_iter().chain([rows]).filter_map(|(name, ran)| ran.is_err().then_some(name)).collect();
    ensure!(missed.is_empty(), "not within the limits: {}", missed.join("; "));
    Ok(())
}

/// Runs an example of a package with optimization.
pub(crate) fn example(package: &str, name: &str, arguments: &[String]) -> Result<()> {
    let mut command = cargo(["run", "--release", "-p", package, "--example", name, "--"]);
    crate::process::run(command.args(arguments))
}
