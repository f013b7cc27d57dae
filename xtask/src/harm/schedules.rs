//! `cargo xtask harm schedules`: random schedules of threads, forks, communicators, copies of the library and levels, bare and
//! with the collector. A program runs each seed in a process of its own and says a hash of all answers; what hangs or dies is said
//! too. Bare and with, the lines must be the same.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, bail};

use super::case::{Place, Program};
use super::command;
use super::stage::{Sanitizer, Stage};
use crate::process::say;
use crate::rig::clock::Stopwatch;

/// Which schedules.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask harm schedules --seeds 10000      on the stubs of NCCL and of the CUDA driver
  cargo xtask harm schedules --seed 4711        one of them again
  cargo xtask harm schedules --engine           on the engine
  cargo xtask harm schedules --sanitize thread  the C side under a sanitizer")]
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
    /// On the engine
    #[arg(long, conflicts_with = "sanitize")]
    engine: bool,
    /// Build program and stubs with it
    #[arg(long, value_enum, value_name = "KIND")]
    sanitize: Option<Sanitizer>,
}

impl Schedules {
    pub(super) fn sanitizer(&self) -> Option<Sanitizer> {
        self.sanitize
    }

    /// Runs them; says which differ, and fails if one does.
    pub(super) fn run(&self, stage: &Stage) -> Result<()> {
        let (from, n) = self.seed.map_or((self.from, self.seeds), |seed| (seed, 1));
        let program = if self.engine { Program::Engine("schedule_engine") } else { Program::Gpu("schedule") };
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
                found.iter().take(MAX_LINES).for_each(|line| say(line));
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
    let mut differ = Vec::new();
    for at in 0..bare.len().max(with.len()) {
        let (bare, with) = (bare.get(at), with.get(at));
        // A schedule that does not end well bare says nothing about the collector, and is a mistake of the program.
        if bare != with || bare.is_some_and(|line| !is_good(line)) {
            let nothing = "nothing".to_owned();
            differ.push(format!("{}, bare {}", with.unwrap_or(&nothing), bare.unwrap_or(&nothing)));
        }
    }
    Ok(differ)
}

/// `seed N HASH`, and no other end or word.
fn is_good(line: &str) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    matches!(words.as_slice(), ["seed", _, hash] if hash.len() == 16)
}

fn lines(
    stage: &Stage,
    program: Program,
    first: u64,
    n: u64,
    segments: Option<&Path>,
) -> Result<Vec<String>> {
    let folder = stage.folder(Place::Shm)?;
    let mut command: Command = stage.sanitized(program, segments)?;
    command.args([first.to_string(), n.to_string()]).current_dir(&folder.0);
    let ended = command::ended(&mut command, &folder.0, LIMIT_S).context("a batch of schedules")?;
    let mut lines: Vec<String> = ended.words.lines().map(ToOwned::to_owned).collect();
    if ended.status != "exit 0" {
        lines.push(format!("seeds from {first}: {}", ended.status));
    }
    Ok(lines)
}

/// Seeds for which a program is started.
const BATCH: u64 = 10;
/// Lines of a batch that are shown: a sanitizer says much.
const MAX_LINES: usize = 20;
/// Beside each other: bare and with are compared, not timed.
const WORKERS: usize = 2;
/// A batch in which every seed hangs.
const LIMIT_S: f64 = 10.0 * 31.0;
