//! `cargo xtask rig`: hosts as network namespaces with two NICs each behind rate-limited links, and experiments on them
//! under ringscope: a real daemon, an agent for each host, ranks started by `ringscope run`.
//!
//! Everything happens inside namespaces of its own (network, mounts, processes), which the kernel takes down with the
//! last process in them: nothing is left behind, whatever ended the run.

mod accounts;
mod clock;
mod confine;
mod daemon;
mod engine;
mod formulas;
mod hops;
mod job;
mod n1;
mod n2;
mod n3;
mod n4;
mod network;
mod queues;
mod report;
mod speeds;
mod stage;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::ValueEnum;

use crate::process::say;
use confine::Entry;
use report::Report;
use stage::Build;

/// Arguments of `cargo xtask rig`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask rig list
  cargo xtask rig n2                a NIC goes down: predicted and measured
  cargo xtask rig n2 --keep         the same, and the hosts stay until Ctrl-C
  cargo xtask rig all --json        every experiment, the report on stdout

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
    /// Folder of the built programs, for the part that runs inside the namespaces
    #[arg(long, hide = true)]
    inside: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum, PartialEq, Eq)]
enum What {
    /// Say what there is
    List,
    /// Bytes: counters equal the formulas, for every primitive and 2 to 8 ranks
    N1,
    /// Channel shortfall: a NIC is down, the culprit is named and bandwidth halves
    N2,
    /// Congestion: a link gets half its rate, and is named
    N3,
    /// A hang: a stopped rank and a cut link, told apart and named
    N4,
    /// All of them
    All,
    /// The first two with few sizes, on the debug build: what the tests run
    Quick,
}

/// Exit status of a run that could not be made here, as automake's tests have it.
const SKIPPED: u8 = 77;

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
    match confine::enter(&args.words(), build)? {
        Entry::Ended(code) => Ok(code),
        Entry::NotAllowed(reason) => {
            say(&format!("skipped: {reason}"));
            Ok(if confine::is_required() { ExitCode::FAILURE } else { ExitCode::from(SKIPPED) })
        }
    }
}

/// For `cargo xtask test`: skipped with the reason where namespaces are not allowed, unless CI is set.
pub(crate) fn test() -> Result<()> {
    let code = run(&Args { what: What::Quick, json: false, keep: false, debug: true, inside: None })?;
    if code == ExitCode::SUCCESS || code == ExitCode::from(SKIPPED) {
        return Ok(());
    }
    anyhow::bail!("the rig's experiments failed; `cargo xtask rig quick` runs them again")
}

impl Args {
    /// The same arguments for the run inside.
    fn words(&self) -> Vec<String> {
        let what = self.what.to_possible_value().map(|value| value.get_name().to_owned());
        let flags = [("--json", self.json), ("--keep", self.keep)];
        let flags = flags.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag.to_owned());
        what.into_iter().chain(flags).collect()
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
        What::All => {
            n1::run(programs, &n1::FULL, args.keep, &mut report)?;
            n2::run(programs, &n2::FULL, args.keep, &mut report)?;
            n3::run(programs, args.keep, &mut report)?;
            n4::run(programs, args.keep, &mut report)?;
        }
        What::Quick => {
            n1::run(programs, &n1::QUICK, args.keep, &mut report)?;
            n2::run(programs, &n2::QUICK, args.keep, &mut report)?;
        }
    }
    report.print(args.json)?;
    Ok(if report.is_met() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn list() {
    for what in What::value_variants() {
        if let Some(value) = what.to_possible_value() {
            let help = value.get_help().map(ToString::to_string).unwrap_or_default();
            say(&format!("{:6}{help}", value.get_name()));
        }
    }
}
