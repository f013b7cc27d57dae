//! How fast services sum, beside what the memory allows, how fast gradients get round over loopback, beside iperf3, and what
//! codecs cost and save.
//!
//! `cargo xtask bench summation` runs it; `-- --help` has options.

#![expect(unsafe_code, reason = "stores past the caches need raw memory")]
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it measures and prints"
)]

#[path = "bench_summation/codecs.rs"]
mod codecs;
#[path = "bench_summation/observer.rs"]
mod observer;
#[path = "bench_summation/round_trips.rs"]
mod round_trips;
#[path = "bench_summation/steps.rs"]
mod steps;
#[path = "bench_summation/sums.rs"]
mod sums;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measure the summation service.
#[derive(Debug, Parser)]
#[command(
    name = "bench_summation",
    after_help = "Examples:
  cargo xtask bench summation                         sums and round trips
  cargo xtask bench summation -- sums --rounds 20
  cargo xtask bench summation -- round-trips --megabytes 16
  cargo xtask bench summation -- codecs --links 1000
  cargo xtask bench observer -- --rounds 101"
)]
struct Cli {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Bytes of contributions that one core sums per second, beside a loop that reads two streams and writes one
    Sums(sums::Options),
    /// Push-pulls of two workers over loopback TCP, processes all, beside iperf3
    RoundTrips(round_trips::Options),
    /// What codecs cost a core and save a link
    Codecs(codecs::Options),
    /// What being watched costs a step of training
    Observer(observer::Options),
    #[command(hide = true)]
    CodecRank(codecs::CodecRank),
    #[command(hide = true)]
    Rank(round_trips::Rank),
    #[command(hide = true)]
    StepRank(steps::StepRank),
    #[command(hide = true)]
    Events(observer::Events),
}

fn main() -> ExitCode {
    let done = match Cli::parse().what {
        None => sums::Options::default().run().and_then(|()| round_trips::Options::default().run()),
        Some(What::Sums(options)) => options.run(),
        Some(What::RoundTrips(options)) => options.run(),
        Some(What::Rank(rank)) => rank.run(),
        Some(What::Codecs(options)) => options.run(),
        Some(What::CodecRank(rank)) => rank.run(),
        Some(What::Observer(options)) => options.run(),
        Some(What::StepRank(rank)) => rank.run(),
        Some(What::Events(events)) => events.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("bench_summation: {what}");
            ExitCode::FAILURE
        }
    }
}

/// The middle one, the least and the largest.
fn spread(mut figures: Vec<f64>) -> (f64, f64, f64) {
    figures.sort_by(f64::total_cmp);
    let at = |index: usize| figures.get(index).copied().unwrap_or(f64::NAN);
    (at(figures.len() / 2), at(0), at(figures.len().saturating_sub(1)))
}
