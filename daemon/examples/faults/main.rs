//! Does ringscope name who the others wait for? Faults of jobs, each with healthy twins, and a table of what was said.
//!
//! `cargo xtask faults [-- engine|fleet] [--slow] [--seeds 3] [--only stop] [--ranks 1000] [--faithful 2.28] [--json FILE]`, and
//! `cargo xtask faults -- engine --healthy 60` for an hour of healthy jobs
//!
//! `engine`: real processes on the engine with `RSCCL_FAITHFUL`, under `ringscope run`, seen by a real daemon and
//! its agent. `fleet`: a job of that many ranks that is not there, told to a real daemon as agents tell it.
//!
//! Slow jobs (`--slow`: only those) are also scored by how soon the rank is named, and by what it is said to cost.
//!
//! Each fault happens at a random moment that follows from the seed. What ends it with exit status 1 is said below its help.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of its own")]
#![allow(missing_docs, reason = "not a library")]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small numbers, and figures to be read"
)]

mod arguments;
mod daemon;
mod engine;
mod fleet;
mod pace;
mod score;
#[path = "../sending/mod.rs"]
#[expect(dead_code, reason = "other examples use the rest")]
mod sending;

use std::process::ExitCode;

use arguments::{Arguments, Suite};
use clap::Parser as _;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Whoever ends it ends its daemon and its jobs with it, and leaves no folder behind.
    let result = tokio::select! {
        result = run(&arguments) => result,
        result = told_to_end() => result,
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(words) => {
            eprintln!("{words}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<bool, String> {
    arguments.check()?;
    let is_wanted = |name: &str| arguments.wants(name);
    let seeds = arguments.seed..arguments.seed + arguments.seeds;
    let trials = match &arguments.suite {
        Suite::Engine(options) => {
            engine::run(options, &arguments.ringscope, seeds, is_wanted, arguments.slow).await?
        }
        Suite::Fleet(options) => {
            fleet::run(options, &arguments.ringscope, seeds, is_wanted, arguments.slow).await?
        }
    };
    if trials.is_empty() {
        return Ok(true);
    }
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&trials).map_err(|error| error.to_string())?;
        std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(score::print(&trials))
}

/// Returns once somebody wants this process to end.
async fn told_to_end() -> Result<bool, String> {
    let words = |error: std::io::Error| format!("cannot hear signals: {error}");
    let mut terminate = signal(SignalKind::terminate()).map_err(words)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(words)?;
    tokio::select! {
        _ = terminate.recv() => Err("ended by SIGTERM".to_owned()),
        _ = interrupt.recv() => Err("ended by SIGINT".to_owned()),
    }
}
