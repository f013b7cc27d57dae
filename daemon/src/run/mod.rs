//! `ringscope run -- CMD…`: gives a command the collector and a private log of the library, and becomes that command.
//!
//! Never stays between the launcher and the job: after `exec` there is only the job's own process, with its own pid,
//! signals and exit status.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::embedded::{self, Library, LibraryError};

/// Arguments of `ringscope run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ringscope run -- python train.py
  torchrun --no-python --nproc-per-node 8 ringscope run --job llama-70b -- python train.py
  srun ringscope run -- ./all_reduce_perf -b 8 -e 1G")]
pub struct RunArgs {
    /// Job id to show the ranks under. Default: what SLURM, torchrun or Kubernetes say
    #[arg(long, env = "RINGSCOPE_JOB")]
    job: Option<String>,
    /// Folder for segments and logs; the agent of this host must be given the same
    #[arg(long, env = "RINGSCOPE_DIR", default_value = "/dev/shm/ringscope")]
    dir: PathBuf,
    /// Folder to unpack the collector into. Default: $XDG_CACHE_HOME/ringscope, else ~/.cache/ringscope
    #[arg(long, env = "RINGSCOPE_CACHE_DIR")]
    cache_dir: Option<PathBuf>,
    #[command(flatten)]
    inherited: Inherited,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Settings of other programs that `run` must know in order not to overrule them.
#[derive(Debug, clap::Args)]
struct Inherited {
    #[arg(long = "inherited-ld-preload", env = "LD_PRELOAD", hide = true)]
    ld_preload: Option<OsString>,
    #[arg(long = "inherited-plugin", env = "NCCL_PROFILER_PLUGIN", hide = true)]
    profiler_plugin: Option<OsString>,
    #[arg(long = "inherited-debug-file", env = "NCCL_DEBUG_FILE", hide = true)]
    debug_file: Option<OsString>,
    #[arg(long = "inherited-cache", env = "XDG_CACHE_HOME", hide = true)]
    xdg_cache_home: Option<PathBuf>,
    #[arg(long = "inherited-home", env = "HOME", hide = true)]
    home: Option<PathBuf>,
}

/// Why the command was not started.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The collector could not be had.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The folder for segments cannot be used.
    #[error("cannot use {dir} for segments and logs: {source}; make it writable or name another with --dir")]
    Dir {
        /// The folder.
        dir: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The command itself cannot be executed.
    #[error("cannot execute {command:?}: {source}")]
    Exec {
        /// Its first word.
        command: OsString,
        /// Why not.
        source: io::Error,
    },
}

/// Replaces this process by the command. Returns only if that failed.
#[must_use]
pub fn run(args: &RunArgs) -> RunError {
    match prepare(args) {
        Ok(mut command) => {
            let source = command.exec();
            RunError::Exec { command: command.get_program().to_owned(), source }
        }
        Err(error) => error,
    }
}

fn prepare(args: &RunArgs) -> Result<Command, RunError> {
    let collector = embedded::path_of(Library::Collector, &args.cache_dir())?;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&args.dir)
        .and_then(|()| args.dir.canonicalize())
        .map_err(|source| RunError::Dir { dir: args.dir.clone(), source })?;
    let (program, arguments) =
        args.command.split_first().unwrap_or_else(|| unreachable!("clap requires a command"));
    let mut command = Command::new(program);
    command.args(arguments);
    let run_id = uuid::Uuid::new_v4().simple().to_string();
    command.env("LD_PRELOAD", preload(&collector, args.inherited.ld_preload.as_deref()));
    command.env("RINGSCOPE_DIR", &args.dir).env("RINGSCOPE_RUN_ID", &run_id);
    if let Some(job) = &args.job {
        command.env("RINGSCOPE_JOB", job);
    }
    if args.inherited.profiler_plugin.is_none() {
        command.env("NCCL_PROFILER_PLUGIN", &collector);
    } else {
        tracing::warn!(
            "NCCL_PROFILER_PLUGIN is set already: calls are counted, their completion is not seen"
        );
    }
    if args.inherited.debug_file.is_none() {
        command.env("NCCL_DEBUG", "INFO").env("NCCL_DEBUG_SUBSYS", "INIT,GRAPH,ENV");
        command.env("NCCL_DEBUG_FILE", args.dir.join(format!("nccl-{run_id}-%h-%p.log")));
    } else {
        tracing::warn!(
            "NCCL_DEBUG_FILE is set already and is left alone: rings and channels are known only if that log \
             has NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,GRAPH,ENV"
        );
    }
    Ok(command)
}

impl RunArgs {
    fn cache_dir(&self) -> PathBuf {
        let Inherited { xdg_cache_home, home, .. } = &self.inherited;
        self.cache_dir
            .clone()
            .or_else(|| xdg_cache_home.as_ref().map(|dir| dir.join("ringscope")))
            .or_else(|| home.as_ref().map(|dir| dir.join(".cache/ringscope")))
            .unwrap_or_else(|| self.dir.join("cache"))
    }
}

/// The collector first: what it wraps must not be wrapped by others before it.
fn preload(collector: &Path, inherited: Option<&OsStr>) -> OsString {
    let mut preload = collector.as_os_str().to_owned();
    if let Some(inherited) = inherited.filter(|value| !value.is_empty()) {
        preload.push(":");
        preload.push(inherited);
    }
    preload
}
