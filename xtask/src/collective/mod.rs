//! How fast the engine's all-reduce is beside other libraries and beside what the memory allows.
//!
//! One process set per library stays alive; in each round all libraries take turns at each size, so that a noisy
//! neighbour of the machine hits all of them.

mod contender;
mod machine;
mod options;
mod programs;
mod report;
mod rounds;
mod statistics;
mod team;
mod tune;

use anyhow::Result;
use clap::Parser as _;

use options::Options;

pub(crate) use tune::Tune;

/// `cargo xtask bench collective -- ARGUMENTS`.
pub(crate) fn bench(arguments: &[String]) -> Result<()> {
    let command = std::iter::once("bench collective").chain(arguments.iter().map(String::as_str));
    let options = Options::try_parse_from(command).unwrap_or_else(|error| error.exit());
    let programs = programs::build(&options)?;
    let results = rounds::run(&options, &programs)?;
    report::write(&options, &results)
}
