//! `cargo xtask harm`: programs that a collector could hang, stop or slow, run bare and with it; what differs is told.
//!
//! * [`table`]: the rows
//! * [`case`]: one row's program, how it is run, what is compared
//! * [`command`]: runs a program within a time
//! * [`stage`]: builds programs and knows the collector
//! * [`facts`]: what a segment says, against what the program did
//! * [`special`]: rows that are more than one program
//! * [`debian`]: an older system
//! * [`report`]: the table for people and programs
//! * [`schedules`]: random programs

mod case;
mod command;
mod debian;
mod facts;
mod report;
mod schedules;
mod special;
mod stage;
mod table;

use std::path::PathBuf;

use anyhow::{Result, bail};

use case::Row;
use report::Line;
use stage::Stage;

/// What to run.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  cargo xtask harm                        all rows, some minutes
  cargo xtask harm --only abort-queue     one of them
  cargo xtask harm --quick --json         what `cargo xtask test` runs, for a program
  cargo xtask harm schedules --seeds 10000")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// Only rows whose name begins so; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Only what `cargo xtask test` runs: less than two minutes
    #[arg(long)]
    quick: bool,
    /// The collector to run with, a libringscope.so [default: built here]
    #[arg(long, value_name = "PATH", global = true)]
    collector: Option<PathBuf>,
    /// Build it optimized, for figures
    #[arg(long, conflicts_with = "collector", global = true)]
    release: bool,
    /// Fail also if a row cannot be run here (without the right to mount, say)
    #[arg(long)]
    strict: bool,
    /// Print one JSON object for each row
    #[arg(long)]
    json: bool,
    /// Say which rows there are, and run none
    #[arg(long)]
    list: bool,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum What {
    /// Random schedules of threads, forks, communicators, copies of the library and levels, bare and with the collector
    Schedules(schedules::Schedules),
}

/// What `cargo xtask test` runs.
pub(crate) fn test() -> Result<()> {
    let quick = Args {
        what: None,
        only: Vec::new(),
        quick: true,
        collector: None,
        release: false,
        strict: false,
        json: false,
        list: false,
    };
    run(&quick)
}

/// The rows that measure what fork, exec and exit take, with an optimized collector.
pub(crate) fn costs() -> Result<()> {
    run(&Args {
        what: None,
        only: ["fork-cost", "exec", "exit-cost"].map(str::to_owned).to_vec(),
        quick: false,
        collector: None,
        release: true,
        strict: true,
        json: false,
        list: false,
    })
}

/// Runs the rows that were asked for; fails if one differs from bare.
pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(What::Schedules(schedules)) = &args.what {
        let stage = Stage::build(args.collector.as_deref(), args.release, schedules.sanitizer())?;
        return schedules.run(&stage);
    }
    let rows: Vec<&Row> = table::rows().filter(|row| is_wanted(row, args)).collect();
    if rows.is_empty() {
        bail!(
            "no row begins with {}: `cargo xtask harm --list` says which there are",
            args.only.join(" or ")
        );
    }
    if args.list {
        rows.iter().for_each(|row| report::name(row));
        return Ok(());
    }
    let stage = Stage::build(args.collector.as_deref(), args.release, None)?;
    report::head(args.json);
    let (mut n_different, mut n_not_run) = (0, 0);
    for row in &rows {
        let line = Line::of(row, row.run(&stage));
        n_different += usize::from(!line.is_same());
        n_not_run += usize::from(!line.is_run());
        line.print(args.json);
    }
    report::foot(args.json, n_not_run, rows.len());
    if n_different > 0 {
        bail!("{n_different} of {} rows are not as bare", rows.len());
    }
    if args.strict && n_not_run > 0 {
        bail!("{n_not_run} of {} rows were not run", rows.len());
    }
    Ok(())
}

fn is_wanted(row: &Row, args: &Args) -> bool {
    let is_named = args.only.is_empty() || args.only.iter().any(|name| row.name.starts_with(name.as_str()));
    is_named && (!args.quick || row.is_quick && !table::NOT_YET.contains(&row.name))
}
