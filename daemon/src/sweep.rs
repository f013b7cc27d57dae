//! `ringscope sweep`: removes what ended processes have left in the folder of segments, where no agent does: what the epilog of
//! a scheduler calls.

use std::io::{self, Write};
use std::path::PathBuf;

use ringscope_agent::DEFAULT_DIR;
use ringscope_agent::sweep::{Swept, Whose, sweep_of};
use ringscope_api::clock;
use ringscope_api::words::{plural, size};

/// Arguments of `ringscope sweep`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ringscope sweep                                            what my own ended processes have left here
  ringscope sweep --user \"$SLURM_JOB_UID\"                    in an epilog, as root
  ringscope sweep --user 1000 --job slurm-7 --dry-run

Removed are segments whose process is gone, and their logs and notes; what says nothing of its process only after ten minutes.
What a living process has stays. No link is followed. Where an agent reads the folder nothing is removed: it has to read how
each process ended, and removes its files then.

Exit status: 0 removed, or nothing to remove; 1 the folder cannot be read, or another user's files are meant and you are not
root; 64 wrong usage")]
pub struct SweepArgs {
    /// Folder of segments
    #[arg(long, value_name = "DIR", env = "RINGSCOPE_DIR", default_value = DEFAULT_DIR)]
    dir: PathBuf,
    /// Number of the user whose files they are [default: you]
    #[arg(long, value_name = "UID")]
    user: Option<u32>,
    /// Only of processes of this job, e.g. slurm-7, and of its steps (slurm-7.1)
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
    /// Only say how much would be removed
    #[arg(long)]
    dry_run: bool,
}

/// Why nothing was removed.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The folder.
    #[error("cannot read {dir}: {source}; is it the folder that jobs are given (--dir)?")]
    Dir {
        /// The folder.
        dir: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Not root.
    #[error("files of user {0} are removed by root alone, or by that user")]
    NotRoot(u32),
    /// The terminal.
    #[error("cannot write: {0}")]
    Io(#[from] io::Error),
}

/// Removes, and says how much.
///
/// # Errors
/// [`SweepError`].
pub fn run(args: &SweepArgs, out: &mut impl Write) -> Result<(), SweepError> {
    let me = rustix::process::geteuid();
    let user = args.user.unwrap_or(me.as_raw());
    if user != me.as_raw() && !me.is_root() {
        return Err(SweepError::NotRoot(user));
    }
    let whose = Whose { user, job: args.job.clone(), is_dry: args.dry_run };
    let swept = sweep_of(&args.dir, whose, clock::now());
    let swept = swept.map_err(|source| SweepError::Dir { dir: args.dir.clone(), source })?;
    let dir = args.dir.display();
    match swept {
        Some(Swept { files, bytes }) => {
            let removed = if args.dry_run { "would be removed" } else { "removed" };
            writeln!(out, "{} of user {user} {removed} in {dir}, {}", plural(files, "file"), size(bytes))?;
        }
        None => writeln!(out, "nothing is removed: an agent reads {dir}, or did within ten minutes")?,
    }
    Ok(())
}
