//! `cargo xtask rig`: hosts as network namespaces with two NICs each behind rate-limited links, and experiments on them
//! under ringscope: a real daemon, an agent for each host, ranks started by `ringscope run`.
//!
//! Everything happens inside namespaces of its own (network, mounts, processes), which the kernel takes down with the
//! last process in them: nothing is left behind, whatever ended the run.

mod accounts;
pub(crate) mod confine;
mod daemon;
mod engine;
mod formulas;
mod hops;
mod job;
mod n1;
mod n2;
mod n3;
mod n4;
mod n5;
mod network;
pub(crate) mod report;
mod scaling;
mod stage;
mod summation;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::ValueEnum;

use crate::process::say;
use confine::Entry;
use report::Report;
pub(crate) use stage::Build;
use stage::With;
use summation::{Experiment, Scale};

/// Arguments of `cargo xtask rig`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask rig list
  cargo xtask rig n2                a NIC goes down: predicted and measured
  cargo xtask rig n2 --keep         the same, and the hosts stay until Ctrl-C
  cargo xtask rig all --json        every experiment on rings, the report on stdout
  cargo xtask rig b2                how long a push-pull takes by the summation service
  cargo xtask rig b8 --rounds 10000
  cargo xtask rig summation --small every experiment on summation, small
  cargo xtask rig scaling           how many machines help: tables, and target/rig/scaling/scaling.svg
  cargo xtask rig scaling --gradients 8 --compute-ms 900 --mbit 200    the same of another model and network
  cargo xtask rig scaling --predict --gradients 98 --compute-ms 180 --mbit 25000    formulas and simulation alone

Exit status: 0 every criterion met, 1 one missed or the rig broken, 77 skipped because namespaces are not allowed here (1
where CI is set)")]
pub(crate) struct Args {
    /// Which experiment
    #[arg(value_enum)]
    what: What,
    /// Print one JSON report to stdout
    #[arg(long)]
    json: bool,
    /// Let hosts and daemon stand at the end of the first experiment until Ctrl-C, and say how to enter them
    #[arg(long)]
    keep: bool,
    /// Run the debug build: no waiting for a release build, and figures that say less
    #[arg(long)]
    debug: bool,
    /// Of the experiments on summation and scaling: small models and few rounds, which tells whether they work, not how fast
    #[arg(long, visible_alias = "quick")]
    small: bool,
    /// Rounds with random delays, of B7 and B8; of scaling, how often each step is measured
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    rounds: Option<u64>,
    /// Deaths of each kind, of B12
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,
    #[command(flatten)]
    scaling: scaling::Options,
    /// Folder of the built programs, for the part that runs inside the namespaces
    #[arg(long, hide = true)]
    inside: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum, PartialEq, Eq)]
pub(crate) enum What {
    /// Say what there is
    List,
    /// Bytes: counters equal the formulas, for every primitive and 2 to 8 ranks
    N1,
    /// Channel shortfall: a NIC is down, the culprit is named and bandwidth halves
    N2,
    /// Congestion: a link gets half its rate, and is named; then a rail does
    N3,
    /// A hang: a stopped rank and a cut link, told apart and named
    N4,
    /// Slowness: a NIC falls to half its rate and says so, and the job's slowdown is put down to it
    N5,
    /// All of these
    All,
    /// Summation: bytes of every node, by Equations 1 and 2
    B1,
    /// Summation: time of a push-pull beside own ring and own parameter server
    B2,
    /// Summation: placements of real models, by the time they take over the best one
    B3,
    /// Summation: what small parts are worth
    B4,
    /// Summation: one sender in proportion beside one for each connection
    B5,
    /// Summation: the first layer by priority, and first come, first served
    B6,
    /// Summation: one input has one sum, in bits
    B7,
    /// Summation: late pulls get their own round
    B8,
    /// Summation: 16-bit floats rounded once, and each time
    B9,
    /// Summation: asynchronous schedules beside a parameter server
    B10,
    /// Summation: servers come and go between rounds
    B11,
    /// Summation: SIGKILL to servers and workers is named
    B12,
    /// All on summation
    Summation,
    /// How many machines help: training steps on 1 to 8 hosts, and simulated on to 1024
    Scaling,
    /// The first two, B1, B9 and scaling with few sizes, on the debug build: what the tests run
    Quick,
}

/// Exit status of a run that could not be made here, as automake's tests have it.
pub(crate) const SKIPPED: u8 = 77;

/// Runs the experiment, in namespaces of its own.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.what == What::List {
        list();
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(programs) = &args.inside {
        return experiments(args, programs);
    }
    let build = if args.debug || args.what == What::Quick { Build::Debug } else { Build::Release };
    if args.what == What::Scaling && args.scaling.predicts() {
        // Without hosts, and so without namespaces.
        return experiments(args, &stage::build(build, args.what.needs())?);
    }
    run_with(build, args)
}

/// The same with a build of the caller's.
pub(crate) fn run_with(build: Build, args: &Args) -> Result<ExitCode> {
    match confine::enter(&args.words(), build, args.what.needs())? {
        Entry::Ended(code) => Ok(code),
        Entry::NotAllowed(reason) => {
            say(&format!("skipped: {reason}"));
            Ok(if confine::is_required() { ExitCode::FAILURE } else { ExitCode::from(SKIPPED) })
        }
    }
}

/// For `cargo xtask test`: skipped with the reason where namespaces are not allowed, unless CI is set.
pub(crate) fn test() -> Result<()> {
    let code = run(&Args::quick())?;
    if code == ExitCode::SUCCESS || code == ExitCode::from(SKIPPED) {
        return Ok(());
    }
    anyhow::bail!("the rig's experiments failed; `cargo xtask rig quick` runs them again")
}

impl Args {
    fn quick() -> Self {
        let (what, rounds, repeat) = (What::Quick, None, None);
        let scaling = scaling::Options::default();
        Self {
            what,
            json: false,
            keep: false,
            debug: true,
            small: true,
            rounds,
            repeat,
            scaling,
            inside: None,
        }
    }

    /// One experiment in full.
    pub(crate) fn of(what: What) -> Self {
        Self { what, small: false, debug: false, ..Self::quick() }
    }

    /// The same arguments for the run inside.
    fn words(&self) -> Vec<String> {
        let what = self.what.to_possible_value().map(|value| value.get_name().to_owned());
        let flags = [("--json", self.json), ("--keep", self.keep), ("--small", self.small)];
        let flags = flags.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag.to_owned());
        let rounds = self.rounds.map(|rounds| format!("--rounds={rounds}"));
        let repeat = self.repeat.map(|repeat| format!("--repeat={repeat}"));
        what.into_iter().chain(flags).chain(rounds).chain(repeat).chain(self.scaling.words()).collect()
    }

    fn scale(&self) -> Scale {
        Scale { is_small: self.small || self.what == What::Quick, rounds: self.rounds, repeat: self.repeat }
    }
}

impl What {
    /// What it runs of what can be built.
    fn needs(self) -> With {
        let scaling = matches!(self, Self::Scaling | Self::Quick);
        let summation = self == Self::Quick || !self.on_summation().is_empty();
        With { ringscope: self == Self::Quick || !summation && !scaling, summation, scaling }
    }

    fn on_summation(self) -> &'static [Experiment] {
        match self {
            Self::B1 => &[Experiment::B1],
            Self::B2 => &[Experiment::B2],
            Self::B3 => &[Experiment::B3],
            Self::B4 => &[Experiment::B4],
            Self::B5 => &[Experiment::B5],
            Self::B6 => &[Experiment::B6],
            Self::B7 => &[Experiment::B7],
            Self::B8 => &[Experiment::B8],
            Self::B9 => &[Experiment::B9],
            Self::B10 => &[Experiment::B10],
            Self::B11 => &[Experiment::B11],
            Self::B12 => &[Experiment::B12],
            Self::Summation => &Experiment::ALL,
            Self::List | Self::N1 | Self::N2 | Self::N3 | Self::N4 | Self::N5 | Self::All => &[],
            Self::Scaling | Self::Quick => &[],
        }
    }
}

fn experiments(args: &Args, programs: &std::path::Path) -> Result<ExitCode> {
    let mut report = Report::default();
    match args.what {
        What::List => {}
        What::N1 => n1::run(programs, &n1::FULL, args.keep, &mut report)?,
        What::N2 => n2::run(programs, &n2::FULL, args.keep, &mut report)?,
        What::N3 => n3::run(programs, args.keep, &mut report)?,
        What::N4 => n4::run(programs, args.keep, &mut report)?,
        What::N5 => n5::run(programs, args.keep, &mut report)?,
        What::All => {
            n1::run(programs, &n1::FULL, args.keep, &mut report)?;
            n2::run(programs, &n2::FULL, args.keep, &mut report)?;
            n3::run(programs, args.keep, &mut report)?;
            n4::run(programs, args.keep, &mut report)?;
            n5::run(programs, args.keep, &mut report)?;
        }
        What::Quick => {
            n1::run(programs, &n1::QUICK, args.keep, &mut report)?;
            n2::run(programs, &n2::QUICK, args.keep, &mut report)?;
            Experiment::B1.run(programs, args.scale(), &mut report)?;
            Experiment::B9.run(programs, args.scale(), &mut report)?;
            scaling::run(programs, &args.scaling, (true, args.json, Some(1)), &mut report)?;
        }
        What::Scaling => {
            scaling::run(programs, &args.scaling, (args.small, args.json, args.rounds), &mut report)?
        }
        on_summation => {
            for experiment in on_summation.on_summation() {
                if let Err(error) = experiment.run(programs, args.scale(), &mut report) {
                    say(&format!("error: {experiment:?}: {error:#}"));
                    report.add("", format!("{experiment:?} comes to its end"), "yes", "no", false);
                }
            }
        }
    }
    report.print(args.json)?;
    Ok(if report.is_met() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn list() {
    for what in What::value_variants() {
        if let Some(value) = what.to_possible_value() {
            let help = value.get_help().map(ToString::to_string).unwrap_or_default();
            say(&format!("{:11}{help}", value.get_name()));
        }
    }
}
