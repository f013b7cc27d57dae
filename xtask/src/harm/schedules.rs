//! `cargo xtask harm schedules`: random schedules of threads, forks, communicators, copies of the library and levels, bare and
//! with the collector. A program runs each seed in a process of its own and says a hash of all answers; what hangs or dies is said
//! too. Bare and with, the lines must be the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, bail};

use super::case::{Place, Program};
use super::command;
use super::stage::{Sanitizer, Stage};
use crate::clock::Stopwatch;
use crate::process::say;

/// Which schedules.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask harm schedules --seeds 10000      on the stubs of NCCL and of the CUDA driver
  cargo xtask harm schedules --seed 4711        one of them again
  cargo xtask harm schedules --on copies        on copies of NCCL that come and go
  cargo xtask harm schedules --on engine        on the engine
  cargo xtask harm schedules --sanitize thread  all C of ours under a sanitizer")]
pub(super) struct Schedules {
    /// How many
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first one
    #[arg(long, default_value_t = 0, value_name = "N")]
    from: u64,
    /// Only this one
    #[arg(long, value_name = "N", conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// On what
    #[arg(long, value_enum, default_value_t = On::Stubs, value_name = "WHAT")]
    on: On,
    /// Build programs, stubs and what is preloaded with it
    #[arg(long, value_enum, value_name = "KIND")]
    sanitize: Option<Sanitizer>,
}

/// What the schedules run on.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum On {
    /// A stub of NCCL over a stub of the CUDA driver, and copies of it beside it
    Stubs,
    /// Copies of that stub alone, loaded and unloaded
    Copies,
    /// The engine
    Engine,
}

impl On {
    const fn program(self) -> Program {
        match self {
            Self::Stubs => Program::Gpu("schedule"),
            Self::Copies => Program::Copies("schedule_copies"),
            Self::Engine => Program::Engine("schedule"),
        }
    }
}

impl Schedules {
    pub(super) fn sanitizer(&self) -> Option<Sanitizer> {
        self.sanitize
    }

    /// Runs them; says which differ, and fails if one does.
    pub(super) fn run(&self, stage: &Stage) -> Result<()> {
        let (from, n) = self.seed.map_or((self.from, self.seeds), |seed| (seed, 1));
        let program = self.on.program();
        stage.program(program)?;
        let watch = Stopwatch::start();
        let (next, wrong) = (AtomicU64::new(from), Mutex::new(Vec::new()));
        let worker = || -> Result<()> {
            loop {
                let first = next.fetch_add(BATCH, Ordering::Relaxed);
                if first >= from + n {
                    return Ok(());
                }
                let found = batch(stage, program, first, BATCH.min(from + n - first))?;
                found.iter().for_each(|line| say(line));
                wrong.lock().map_err(|_| anyhow::anyhow!("a worker has panicked"))?.extend(found);
            }
        };
        std::thread::scope(|scope| -> Result<()> {
            let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(worker)).collect();
            workers
                .into_iter()
                .try_for_each(|worker| worker.join().map_err(|_| anyhow::anyhow!("a worker has panicked"))?)
        })?;
        let n_wrong = wrong.into_inner().map_or(0, |wrong| wrong.len());
        let seconds = watch.seconds();
        if n_wrong > 0 {
            bail!("{n_wrong} of {n} schedules are not as bare ({seconds:.0} s)");
        }
        say(&format!("{n} schedules are as bare ({seconds:.0} s)"));
        Ok(())
    }
}

/// Some seeds, bare and with; what differs.
fn batch(stage: &Stage, program: Program, first: u64, n: u64) -> Result<Vec<String>> {
    let bare = lines(stage, program, first, n, None)?;
    let folder = stage.folder(Place::Shm)?;
    let with = lines(stage, program, first, n, Some(&folder.join("segments")))?;
    let seeds: BTreeSet<&String> = bare.keys().chain(with.keys()).collect();
    let nothing = Vec::new();
    let differ = seeds.into_iter().filter_map(|seed| {
        let (bare, with) = (bare.get(seed).unwrap_or(&nothing), with.get(seed).unwrap_or(&nothing));
        // A schedule that does not end well bare says nothing about the collector, and is a mistake of the program.
        let is_same = bare == with && is_good(bare);
        (!is_same).then(|| format!("seed {seed}: {}; bare {}", told(with), told(bare)))
    });
    Ok(differ.collect())
}

fn told(lines: &[String]) -> String {
    if lines.is_empty() { "nothing".to_owned() } else { lines.join("\n  ") }
}

/// A hash, and no other end or word.
fn is_good(lines: &[String]) -> bool {
    matches!(lines, [hash] if hash.len() == 16)
}

/// What a batch said, by seed; what is of none comes under its first one.
fn lines(
    stage: &Stage,
    program: Program,
    first: u64,
    n: u64,
    segments: Option<&Path>,
) -> Result<BTreeMap<String, Vec<String>>> {
    let folder = stage.folder(Place::Shm)?;
    let mut command: Command = stage.sanitized(program, segments)?;
    command.args([first.to_string(), n.to_string()]).current_dir(&folder.0);
    let ended = command::ended(&mut command, &folder.0, LIMIT_S).context("a batch of schedules")?;
    let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let end = (ended.status != "exit 0").then_some(ended.status.as_str());
    for line in ended.words.lines().chain(end) {
        let of_seed = line.strip_prefix("seed ").and_then(|rest| rest.split_once(' '));
        let (seed, said) =
            of_seed.map_or_else(|| (first.to_string(), line), |(seed, said)| (seed.to_owned(), said));
        lines.entry(seed).or_default().push(said.to_owned());
    }
    Ok(lines)
}

/// Seeds for which a program is started.
const BATCH: u64 = 10;
/// Beside each other: bare and with are compared, not timed.
const WORKERS: usize = 2;
/// A batch in which every seed hangs.
const LIMIT_S: f64 = 10.0 * 31.0;
