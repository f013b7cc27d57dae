//! Does ringscope name who the others wait for? Faults of jobs, each with healthy twins, and a table of what was said.
//!
//! `cargo xtask faults [-- engine|fleet] [--seeds 3] [--only stop] [--ranks 1000] [--faithful 2.28] [--json FILE]`, and
//! `cargo xtask faults -- engine --healthy 60` for an hour of healthy jobs
//!
//! `engine`: real processes on the engine with `RSCCL_FAITHFUL`, under `ringscope run`, seen by a real daemon and
//! its agent. `fleet`: a job of that many ranks that is not there, told to a real daemon as agents tell it.
//!
//! Each fault happens at a random moment that follows from the seed. Exit status 1 if a fault was not named, somebody
//! innocent was accused, or a healthy twin was called anything but healthy.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of its own")]
#![allow(missing_docs, reason = "not a library")]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small numbers, and figures to be read"
)]

mod daemon;
mod engine;
mod fleet;
mod score;
#[path = "../sending/mod.rs"]
#[expect(dead_code, reason = "other examples use the rest")]
mod sending;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Faults of jobs, and whether ringscope names who is at fault
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    suite: Suite,
    /// The binary under test; the libraries lie beside it
    #[arg(long, global = true, default_value = "target/debug/ringscope")]
    ringscope: PathBuf,
    /// Random moments of each fault
    #[arg(long, global = true, default_value_t = 3)]
    seeds: u64,
    /// The first of them
    #[arg(long, global = true, default_value_t = 1)]
    seed: u64,
    /// Only faults whose name contains this
    #[arg(long, global = true)]
    only: Option<String>,
    /// Write every trial to this file too, as JSON
    #[arg(long, global = true)]
    json: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Suite {
    /// Real processes on the engine
    Engine(engine::Options),
    /// Ranks that are not there
    Fleet(fleet::Options),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(words) => {
            eprintln!("{words}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<bool, String> {
    let is_wanted = |name: &str| arguments.only.as_ref().is_none_or(|part| name.contains(part.as_str()));
    let seeds = arguments.seed..arguments.seed + arguments.seeds;
    let trials = match &arguments.suite {
        Suite::Engine(options) => engine::run(options, &arguments.ringscope, seeds, is_wanted).await?,
        Suite::Fleet(options) => fleet::run(options, &arguments.ringscope, seeds, is_wanted).await?,
    };
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&trials).map_err(|error| error.to_string())?;
        std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(score::print(&trials))
}
