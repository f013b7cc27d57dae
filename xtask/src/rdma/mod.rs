//! `cargo xtask rdma`: two guests (QEMU, Debian's kernel, soft RoCE) on two cables, and stages on them: predicted beside measured. It
//! needs neither root nor KVM nor an HCA, and leaves nothing behind but its cache, `target/rdma/`.
//!
//! * [`packages`]: Debian's packages, the kernel
//! * [`image`], [`archive`]: the first file system; [`cache`]: where it is kept
//! * [`machine`]: a QEMU process; [`pair`]: two of them, the API of stages
//! * [`shell`]: commands in a guest
//! * [`network`]: names and addresses; [`links`]: up and down, loss, counters
//! * [`stages`]: the experiments, and how to add one
//! * [`record`]: what a guest shows, into `fixtures/rdma/`

mod archive;
mod cache;
mod image;
mod links;
mod machine;
mod network;
mod options;
mod packages;
mod pair;
mod record;
mod shell;
mod stages;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Args as _, FromArgMatches as _};

use crate::clock::Stopwatch;
use crate::process::say;
use image::Extras;
use options::Options;
use pair::Pair;
use stages::{Runs, STAGES, Stage};

/// Everything, on two cores, building included.
const TOTAL_LIMIT: Duration = Duration::from_secs(12 * 60);
/// What `cargo xtask test` runs of it.
const TEST_LIMIT: Duration = Duration::from_secs(4 * 60);

/// Arguments of `cargo xtask rdma`.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask rdma                    all stages
  cargo xtask rdma --only loss        one of them
  cargo xtask rdma --run 'g1 rdma link' --run 'g2 ibv_devinfo'
  cargo xtask rdma --program /usr/bin/python3 --folder /usr/lib/python3.11 --run 'g1 python3 -V'
  cargo xtask rdma --record           fixtures/rdma anew

The first run fetches a kernel (70 MB) and installs Debian's qemu-system-x86, perftest and
others through apt. What guests boot is kept in target/rdma; consoles of the last run lie there
too.

Exit status: 0 every criterion met; 1 one missed, a stage failed, or QEMU cannot be had")]
pub(crate) struct Args {
    /// Only stages whose name begins so; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Say which stages there are, and run none
    #[arg(long)]
    list: bool,
    /// Boot, run a command in guest g1 or g2 in place of the stages, and print what it says; may be given several times
    #[arg(long, value_name = "GUEST COMMAND")]
    run: Vec<String>,
    /// Give guests a file of this machine, as /share/NAME; may be given several times
    #[arg(long, value_name = "FILE", requires = "run")]
    put: Vec<PathBuf>,
    /// Give guests a program of this machine, under the same path and with its libraries; may be given several times
    #[arg(long, value_name = "FILE")]
    program: Vec<PathBuf>,
    /// Give guests a folder of this machine, under the same path and with the libraries of libraries in it
    #[arg(long, value_name = "FOLDER")]
    folder: Vec<PathBuf>,
    /// Record what the guests show before and after loss, in place of the stages: fixtures/rdma
    #[arg(long)]
    record: bool,
    /// Memory of each guest
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(256..))]
    memory_mib: u32,
    /// Processors of each guest; more than one is no faster without KVM
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=8))]
    processors: u32,
    /// Use KVM. Off, for guests that are everywhere the same; not every /dev/kvm that opens works
    #[arg(long)]
    kvm: bool,
    /// The same arguments, behind `--`
    #[arg(last = true, hide = true)]
    rest: Vec<String>,
}

/// Runs the stages that were asked for.
pub(crate) fn run(args: &Args) -> Result<()> {
    if !args.rest.is_empty() {
        return run(&args.behind_dashes()?);
    }
    let stages: Vec<&Stage> = STAGES.iter().filter(|stage| args.wants(stage)).collect();
    if stages.is_empty() {
        bail!(
            "no stage begins with {}: `cargo xtask rdma --list` says which there are",
            args.only.join(" or ")
        );
    }
    if args.list {
        stages.iter().for_each(|stage| say(&format!("{:12} {}", stage.name, stage.about)));
        return Ok(());
    }
    packages::ensure_installed().context("cargo xtask rdma needs QEMU and RDMA's programs")?;
    if args.record {
        return record::all(&args.options());
    }
    if !args.run.is_empty() {
        return commands(args);
    }
    stages::run(&stages, &args.options())
}

/// For `cargo xtask test`: skipped, with the reason, where QEMU, the kernel or the programs can't be had.
pub(crate) fn test() -> Result<()> {
    let there = packages::ensure_installed().and_then(|()| packages::kernel().map(drop));
    if let Err(error) = there {
        let reason = format!("{error:#}").replace('\n', " ");
        say(&format!("skipped: RDMA between guests: {reason}"));
        return Ok(());
    }
    let stages: Vec<&Stage> = STAGES.iter().filter(|stage| stage.runs == Runs::InTest).collect();
    stages::run(&stages, &Options { limit: TEST_LIMIT, ..Options::default() })
        .context("`cargo xtask rdma` runs it again")
}

/// Boots, and runs commands of a person's.
fn commands(args: &Args) -> Result<()> {
    let pair = Pair::boot(&args.options())?;
    for file in &args.put {
        pair.guest(1).put(file)?;
    }
    for words in &args.run {
        let (guest, command) = match words.split_once(' ') {
            Some(("g1", command)) => (pair.guest(1), command),
            Some(("g2", command)) => (pair.guest(2), command),
            _ => bail!("{words:?} does not begin with g1 or g2: --run 'g1 rdma link'"),
        };
        let output = guest.run(command, TOTAL_LIMIT)?;
        say(&format!("{words}: exit status {}, {:.2} s", output.code, output.seconds));
        if output.dropped_bytes > 0 {
            say(&format!("{} bytes of what it said were dropped", output.dropped_bytes));
        }
        say(&format!("{}{}", output.text(), output.complaints()));
    }
    Ok(())
}

impl Args {
    fn wants(&self, stage: &Stage) -> bool {
        match self.only.as_slice() {
            [] => self.list || stage.runs != Runs::ByName,
            names => names.iter().any(|name| stage.name.starts_with(name.as_str())),
        }
    }

    fn options(&self) -> Options {
        let (memory_mib, processors, kvm) = (self.memory_mib, self.processors, self.kvm);
        let extras =
            Extras { programs: self.program.clone(), folders: self.folder.clone(), ports: Vec::new() };
        Options { memory_mib, processors, kvm, extras, limit: TOTAL_LIMIT }
    }

    fn behind_dashes(&self) -> Result<Self> {
        let command = Self::augment_args(clap::Command::new("cargo xtask rdma").no_binary_name(true));
        let matches = command.try_get_matches_from(&self.rest)?;
        Ok(Self::from_arg_matches(&matches)?)
    }
}

/// How long a stage ran.
fn seconds(watch: Stopwatch) -> String {
    format!("{:.1}", watch.seconds())
}
