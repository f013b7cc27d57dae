//! `ringscope level`: how much the collectors of a running job ask the library for, through the daemon or by hand.

use std::io::{self, Write};
use std::path::PathBuf;

use ringscope_agent as agent;
use ringscope_api::words::plural;
use ringscope_api::{JobLevel, LevelChoice, ProcessLevel};

use crate::client::{ClientError, DaemonArgs};

/// Arguments of `ringscope level`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ringscope level --job llama-70b
  ringscope level --job llama-70b steps
  ringscope level --dir /dev/shm/ringscope --pid 4711 channels

Levels: counters (issued and completed, the cheapest), channels (also each channel's end), steps (also bytes per link),
events (counters, and when the device begins and ends each operation, by CUDA events: for a library whose profiler does
not tell it, or where channels costs too much), default (as each process was started), off (nothing is counted). Through
the daemon it takes up to five seconds until every host has heard of it, and the daemon forgets it when it starts again;
with --dir it is written at once, on this host only.

Exit status: 0 good, 1 no answer, no such job, or not every process could be told, 64 wrong usage")]
#[command(group(clap::ArgGroup::new("which").required(true).args(["job", "dir"])))]
pub struct LevelArgs {
    /// Job whose level is shown, or set
    #[arg(long)]
    job: Option<String>,
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Write the level into the segments of this folder, without a daemon
    #[arg(long, requires = "level")]
    dir: Option<PathBuf>,
    /// With --dir: only of this process
    #[arg(long, requires = "dir", conflicts_with = "job")]
    pid: Option<u32>,
    /// counters, channels, steps, events, default or off; with --job and without it the level is shown
    #[arg(value_parser = str::parse::<LevelChoice>)]
    level: Option<LevelChoice>,
}

/// Why the level was not shown or set.
#[derive(Debug, thiserror::Error)]
pub enum LevelError {
    /// The daemon.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The folder of segments.
    #[error("cannot list the segments of {}: {source}. Is this the folder that `ringscope run` was given?", dir.display())]
    Dir {
        /// The folder.
        dir: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Nothing to write to.
    #[error("no living process has a segment in {}{}; `ringscope run -- CMD` makes one at the first communicator",
        dir.display(), pid.map(|pid| format!(" with process id {pid}")).unwrap_or_default())]
    NoProcess {
        /// The folder.
        dir: PathBuf,
        /// The process that was asked for.
        pid: Option<u32>,
    },
    /// Some could not be written.
    #[error("{} segment(s) could not be written:{}", .0.len(), list(.0))]
    Unwritable(Vec<(PathBuf, String)>),
    /// The terminal.
    #[error("cannot write: {0}")]
    Io(#[from] io::Error),
}

/// Shows or sets the level.
///
/// # Errors
/// [`LevelError`].
pub async fn run(args: &LevelArgs, out: &mut impl Write) -> Result<(), LevelError> {
    if let (Some(dir), Some(level)) = (&args.dir, args.level) {
        return write(dir.clone(), args.pid, level, out);
    }
    let client = args.daemon.client()?;
    let job = args.job.as_deref().unwrap_or_default();
    match args.level {
        None => show(&client.level(job).await?, out)?,
        Some(level) => {
            let told = client.wish_level(job, level).await?;
            writeln!(
                out,
                "{job} is asked for {}: {} told",
                level.label(),
                plural(told.processes.len(), "process")
            )?;
        }
    }
    Ok(())
}

fn write(dir: PathBuf, pid: Option<u32>, level: LevelChoice, out: &mut impl Write) -> Result<(), LevelError> {
    let written = agent::write_level(&dir, pid, level)
        .map_err(|source| LevelError::Dir { dir: dir.clone(), source })?;
    for pid in &written.pids {
        writeln!(out, "{pid}: {}", level.label())?;
    }
    match (written.failed.is_empty(), written.pids.is_empty()) {
        (false, _) => Err(LevelError::Unwritable(written.failed)),
        (true, true) => Err(LevelError::NoProcess { dir, pid }),
        (true, false) => Ok(()),
    }
}

fn show(level: &JobLevel, out: &mut impl Write) -> io::Result<()> {
    let wish = level.wish.map_or("nothing", LevelChoice::label);
    writeln!(out, "asked for: {wish}")?;
    for ProcessLevel { host, pid, global_rank, level, .. } in &level.processes {
        let rank = global_rank.map(|rank| format!(" rank {rank}")).unwrap_or_default();
        writeln!(out, "{host} {pid}{rank}: {}", level.map_or("not said", LevelChoice::label))?;
    }
    Ok(())
}

fn list(failed: &[(PathBuf, String)]) -> String {
    failed.iter().map(|(path, reason)| format!("\n  {}: {reason}", path.display())).collect()
}
