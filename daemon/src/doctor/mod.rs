//! `ringscope doctor`: says what ringscope will see of a command, or sees of a running process, why not more, and what
//! to set.
//!
//! Reads files and `/proc`. Never runs the command, never touches the process.

mod environment;
mod files;
mod process;
mod report;
mod segment;
mod verdict;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use crate::program::{CommandError, ObjectError};
pub use report::{Copy, Report, Sees, Source, Verdict};

/// Arguments of `ringscope doctor`.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["pid", "command"])))]
#[command(after_help = "Examples:
  ringscope doctor -- python train.py          before the run: how NCCL is linked, what will be seen, what to set
  ringscope doctor --shim -- vllm serve model  the same, as `ringscope run --shim` would start it
  ringscope doctor --pid 4711                  beside the run: what is seen of this process

Exit status: 0 all is seen, 2 partly or unknown, 1 the command or process cannot be judged, 64 wrong usage")]
pub struct DoctorArgs {
    /// A running process
    #[arg(long, conflicts_with_all = ["shim", "plugin_only", "command"])]
    pid: Option<u32>,
    /// Judge the command as `ringscope run --shim` would start it
    #[arg(long)]
    shim: bool,
    /// Judge the command as `ringscope run --plugin-only` would start it
    #[arg(long, conflicts_with = "shim")]
    plugin_only: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    inherited: environment::Inherited,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
pub enum DoctorError {
    /// The command is not there.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The program cannot be read.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The process cannot be looked into.
    #[error("cannot look into process {pid}: {source}; does it run on this machine, and as your user?")]
    Process {
        /// Its id.
        pid: u32,
        /// Why not.
        source: std::io::Error,
    },
    /// The report cannot be written.
    #[error("cannot write the report: {0}")]
    Write(#[from] std::io::Error),
}

/// How the command would be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Preload,
    Shim,
    PluginOnly,
}

/// Writes the report.
///
/// # Errors
/// [`DoctorError`].
pub fn run(args: &DoctorArgs, out: &mut impl Write) -> Result<Verdict, DoctorError> {
    let report = match args.pid {
        Some(pid) => process::judge(pid).map_err(|source| DoctorError::Process { pid, source })?,
        None => files::judge(&args.command, &args.inherited, args.way())?,
    };
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &report).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        report.print(out)?;
    }
    Ok(report.verdict)
}

impl DoctorArgs {
    fn way(&self) -> Way {
        match (self.shim, self.plugin_only) {
            (true, _) => Way::Shim,
            (_, true) => Way::PluginOnly,
            _ => Way::Preload,
        }
    }
}

/// Where segments lie if nothing else is said.
fn default_dir() -> PathBuf {
    PathBuf::from(ringscope_agent::DEFAULT_DIR)
}
