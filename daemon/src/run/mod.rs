//! `ringscope run -- CMD…`: gives a command the collector and a private log of the library, and becomes that command.
//!
//! Never stays between the launcher and the job: after `exec` there is only the job's own process, with its own pid,
//! signals and exit status.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::embedded::{self, Library, LibraryError};

/// How the names of private logs begin.
const LOG_PREFIX: &str = "nccl-";

/// Arguments of `ringscope run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ringscope run -- python train.py
  torchrun --no-python --nproc-per-node 8 ringscope run --job llama-70b -- python train.py
  srun ringscope run -- ./all_reduce_perf -b 8 -e 1G

Exit status: that of the command; 127 if it is not found, 126 if it cannot be executed, 1 if ringscope cannot prepare
it (a folder is not writable), 64 wrong usage")]
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
    #[arg(long = "inherited-debug", env = "NCCL_DEBUG", hide = true)]
    debug: Option<OsString>,
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
    #[error("cannot execute {command:?}: {source}; is it installed, executable and in PATH?")]
    Exec {
        /// Its first word.
        command: OsString,
        /// Why not.
        source: io::Error,
    },
}

impl RunError {
    /// The exit status that tells it: for the command as shells and `env` have it, 1 for what is ringscope's.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Exec { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Self::Exec { .. } => 126,
            Self::Library(_) | Self::Dir { .. } => 1,
        }
    }
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
    let dir = prepare_dir(&args.dir).map_err(|source| RunError::Dir { dir: args.dir.clone(), source })?;
    let (program, arguments) =
        args.command.split_first().unwrap_or_else(|| unreachable!("clap requires a command"));
    let mut command = Command::new(program);
    command.args(arguments);
    let run_id = uuid::Uuid::new_v4().simple().to_string();
    command.env("LD_PRELOAD", preload(&collector, args.inherited.ld_preload.as_deref()));
    command.env("RINGSCOPE_DIR", &dir).env("RINGSCOPE_RUN_ID", &run_id);
    if let Some(job) = &args.job {
        command.env("RINGSCOPE_JOB", job);
    }
    set_plugin(&mut command, &collector, args.inherited.profiler_plugin.as_deref());
    set_log(&mut command, &args.inherited, &dir.join(LOG_PREFIX), &run_id);
    Ok(command)
}

/// The folder for segments and logs, by a path that holds wherever the command goes.
fn prepare_dir(dir: &Path) -> io::Result<PathBuf> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)?;
    dir.canonicalize()
}

fn set_plugin(command: &mut Command, collector: &Path, inherited: Option<&OsStr>) {
    match inherited.filter(|plugin| *plugin != collector.as_os_str()) {
        None => drop(command.env("NCCL_PROFILER_PLUGIN", collector)),
        Some(plugin) => tracing::warn!(
            "NCCL_PROFILER_PLUGIN is set already, to {}, and is left alone: calls are counted, their completion is \
             not seen",
            plugin.display()
        ),
    }
}

/// The private log. One that the user has asked for stays as it is: somebody reads it.
fn set_log(command: &mut Command, inherited: &Inherited, prefix: &Path, run_id: &str) {
    let Inherited { debug, debug_file, .. } = inherited;
    if let Some(file) = debug_file {
        // An outer `ringscope run` has made its own; this one is its like.
        if !file.as_bytes().starts_with(prefix.as_os_str().as_bytes()) {
            tracing::warn!(
                "NCCL_DEBUG_FILE is set already, to {}, and is left alone: rings and channels are known only if \
                 that log has NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,GRAPH,ENV",
                file.display()
            );
        }
        return;
    }
    let mut file = prefix.as_os_str().to_owned();
    file.push(format!("{run_id}-%h-%p.log"));
    if let Some(level) = debug.as_ref().filter(|level| !level.is_empty()) {
        tracing::warn!(
            "NCCL_DEBUG={} is set without NCCL_DEBUG_FILE: what the library logs, its warnings too, goes to {} and not \
             to this terminal. To have it elsewhere, set NCCL_DEBUG_FILE, with NCCL_DEBUG=INFO and \
             NCCL_DEBUG_SUBSYS=INIT,GRAPH,ENV",
            level.display(),
            file.display()
        );
    }
    command.env("NCCL_DEBUG", "INFO").env("NCCL_DEBUG_SUBSYS", "INIT,GRAPH,ENV").env("NCCL_DEBUG_FILE", file);
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
