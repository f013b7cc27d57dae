//! Experiments on two guests, one file each.
//!
//! To add one:
//! 1. `stages/NAME.rs` with `pub(super) fn run(pair: &Pair, report: &mut Report) -> Result<()>`: it uses [`Pair`] and its guests,
//!    and adds what was predicted and measured to the report. It leaves the network as it found it.
//! 2. A line in [`STAGES`], with [`Runs::InTest`] if `cargo xtask test` shall run it (all of these together: 4 min).
//! 3. What guests need beside the usual (python3, a port that this machine reaches) is what `prepare` gives; it also builds what is to be
//!    [`put`](super::pair::Guest::put) there, before guests are booted. All stages of a run share the guests; after one that fails, or
//!    kills a guest, they are booted anew.

mod boot;
mod bytes;
mod collectives;
mod faults;
mod link_down;
mod loss;
pub(super) mod perftest;
mod plugin;
mod programs;
mod seen;
mod summation;
mod tensors;
mod verbs;

use std::time::Duration;

use anyhow::{Result, bail};

use super::image::Extras;
use super::options::Options;
use super::pair::Pair;
use crate::clock::Stopwatch;
use crate::process::say;
use crate::rig::report::Report;

/// All of them, in the order in which they run.
pub(super) const STAGES: &[Stage] = &[
    Stage {
        name: "boot",
        about: "both guests are ready, see each other and their device",
        runs: Runs::InTest,
        limit: minutes(4),
        prepare: boot::prepare,
        run: boot::run,
    },
    Stage {
        name: "verbs",
        about: "perftest between them; packets by formula",
        runs: Runs::InTest,
        limit: minutes(2),
        prepare: nothing,
        run: verbs::run,
    },
    Stage {
        name: "loss",
        about: "one packet in a hundred is lost: data right, counters tell",
        runs: Runs::InTest,
        limit: minutes(3),
        prepare: nothing,
        run: loss::run,
    },
    Stage {
        name: "link-down",
        about: "a NIC goes down and comes back",
        runs: Runs::WithAll,
        limit: minutes(2),
        prepare: nothing,
        run: link_down::run,
    },
    Stage {
        name: "plugin",
        about: "the network plugin by itself, versions 8 to 11",
        runs: Runs::InTest,
        limit: minutes(4),
        prepare: programs::build,
        run: plugin::run,
    },
    Stage {
        name: "collectives",
        about: "every primitive, type and operator over it, two guests with two ranks each",
        runs: Runs::WithAll,
        limit: minutes(5),
        prepare: programs::build,
        run: collectives::run,
    },
    Stage {
        name: "bytes",
        about: "what the plugin, the device and the cable counted, by formula",
        runs: Runs::InTest,
        limit: minutes(2),
        prepare: programs::build,
        run: bytes::run,
    },
    Stage {
        name: "summation",
        about: "a summation group over verbs has the bits that it has over sockets",
        runs: Runs::WithAll,
        limit: minutes(3),
        prepare: programs::build,
        run: summation::run,
    },
    Stage {
        name: "tensors",
        about: "tensors as remote memory: digits with the bits of TCP, random ones on a bad cable",
        runs: Runs::WithAll,
        limit: minutes(5),
        prepare: tensors::prepare,
        run: tensors::run,
    },
    Stage {
        name: "transfers",
        about: "30 000 random tensors on a bad cable, where `tensors` has a tenth of them",
        runs: Runs::ByName,
        limit: minutes(30),
        prepare: tensors::prepare,
        run: tensors::all_transfers,
    },
    Stage {
        name: "seen",
        about: "ringscope in the guests: connections, bytes, and who is named for six faults",
        runs: Runs::WithAll,
        limit: minutes(6),
        prepare: seen::prepare,
        run: seen::run,
    },
    Stage {
        name: "faults",
        about: "port down, killed peer, stale key, refused memory, too many queue pairs: clear errors, no hang",
        runs: Runs::WithAll,
        limit: minutes(4),
        prepare: faults::prepare,
        run: faults::run,
    },
];

/// When a stage runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runs {
    /// In `cargo xtask test`, and wherever all run.
    InTest,
    /// Where all run.
    WithAll,
    /// Only where its name is given: it is long.
    ByName,
}

/// An experiment.
#[derive(Debug)]
pub(super) struct Stage {
    /// As a person names it.
    pub(super) name: &'static str,
    /// What it shows.
    pub(super) about: &'static str,
    /// When it runs.
    pub(super) runs: Runs,
    /// It fails if it takes longer.
    limit: Duration,
    /// Before guests are booted: builds programs on this machine, says what guests must have.
    prepare: fn() -> Result<Extras>,
    run: fn(&Pair, &mut Report) -> Result<()>,
}

/// Runs stages on one pair of guests, and prints how each went.
pub(super) fn run(stages: &[&Stage], options: &Options) -> Result<()> {
    let options = prepared(stages, options)?;
    // What is built is not among what the guests may take.
    let watch = Stopwatch::start();
    let mut pair = None;
    let mut lines = Vec::new();
    for stage in stages {
        let stage_watch = Stopwatch::start();
        let result = if watch.elapsed() > options.limit {
            Err(anyhow::anyhow!("not run: the limit of {} s is over", options.limit.as_secs()))
        } else {
            say(&format!("{}: {}", stage.name, stage.about));
            stage.run(&mut pair, &options)
        };
        let words = match result {
            Ok(()) => "met".to_owned(),
            Err(error) => {
                say(&format!("error: {}: {error:#}", stage.name));
                // Whatever it left.
                pair = None;
                format!("FAILED: {}", first_line(&format!("{error:#}")))
            }
        };
        lines.push([stage.name.to_owned(), words, super::seconds(stage_watch)]);
    }
    table(&lines, &super::seconds(watch));
    let n_failed = lines.iter().filter(|[_, words, _]| words != "met").count();
    if n_failed > 0 {
        bail!("{n_failed} of {} stages failed", lines.len());
    }
    Ok(())
}

impl Stage {
    fn run(&self, pair: &mut Option<Pair>, options: &Options) -> Result<()> {
        let booted = match pair.take() {
            Some(pair) if pair.is_whole() => pair,
            _ => Pair::boot(options)?,
        };
        let pair = pair.insert(booted);
        let (watch, mut report) = (Stopwatch::start(), Report::default());
        let result = (self.run)(pair, &mut report);
        report.print(false)?;
        result?;
        if !report.is_met() {
            bail!("a criterion was missed");
        }
        if watch.elapsed() > self.limit {
            bail!("took {} s, and may take {} s", super::seconds(watch), self.limit.as_secs());
        }
        Ok(())
    }
}

fn prepared(stages: &[&Stage], options: &Options) -> Result<Options> {
    let mut options = options.clone();
    for stage in stages {
        let Extras { programs, folders, ports } = (stage.prepare)()?;
        options.extras.ports.extend(
            ports.into_iter().filter(|port| !options.extras.ports.contains(port)).collect::<Vec<_>>(),
        );
        options.extras.programs.extend(programs);
        options.extras.folders.extend(folders);
    }
    Ok(options)
}

#[expect(clippy::print_stdout, reason = "the report is what stdout is for")]
fn table(lines: &[[String; 3]], seconds: &str) {
    println!("\n{:12} | {:>7} | result", "stage", "seconds");
    for [name, words, seconds] in lines {
        println!("{name:12} | {seconds:>7} | {words}");
    }
    println!("{:12} | {seconds:>7} |", "all");
}

fn first_line(words: &str) -> &str {
    words.lines().next().unwrap_or_default()
}

fn nothing() -> Result<Extras> {
    Ok(Extras::default())
}

const fn minutes(n: u64) -> Duration {
    Duration::from_secs(n * 60)
}
