//! `ringscope run -- CMD…`: gives a command the collector and a log that ringscope can read, and becomes that command.
//!
//! Never stays between the launcher and the job: after `exec` there is only the job's own process, with its own pid,
//! signals and exit status. Where the user wants to see the library's log themselves, a [`relay`] runs beside it.

mod lines;
mod log;
pub(crate) mod note;
pub mod relay;
pub mod shim;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::agent::log_folder;
use crate::agent::refused::{self, Reason};
use crate::agent::sweep::sweep;
use crate::config::Launch;
use crate::embedded::{self, Library, LibraryError};
use crate::program::Libraries;
use crate::shared_dir;
use note::Note;
use shim::ShimError;

/// Arguments of `ringscope run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ringscope run -- python train.py
  torchrun --no-python --nproc-per-node 8 ringscope run --job llama-70b -- python train.py
  srun ringscope run -- ./all_reduce_perf -b 8 -e 1G
  ringscope run --shim -- vllm serve model     (callers by dlsym or ctypes; `ringscope doctor` says if it is needed)

NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE keep their effect, and a plugin in NCCL_PROFILER_PLUGIN is called too.

Exit status: that of the command; 127 if it is not found, 126 if it cannot be executed, 1 if ringscope cannot prepare
it (a folder is not writable), 64 wrong usage")]
pub struct RunArgs {
    /// Job id to show the ranks under. Default: what SLURM, torchrun or Kubernetes say
    #[arg(long, env = "RINGSCOPE_JOB")]
    job: Option<String>,
    /// Folder for segments and logs, on tmpfs; the agent of this host must be given the same. Segments take at most
    /// RINGSCOPE_BUDGET_MIB (256) there, and a quarter of the file system
    #[arg(long, env = "RINGSCOPE_DIR", default_value = "/dev/shm/ringscope")]
    dir: PathBuf,
    /// Folder to unpack the libraries into. Default: $XDG_CACHE_HOME/ringscope, else ~/.cache/ringscope
    #[arg(long, env = "RINGSCOPE_CACHE_DIR")]
    cache_dir: Option<PathBuf>,
    /// How much to ask the library for from the start: counters, channels or steps
    #[arg(long, env = "RINGSCOPE_LEVEL", value_enum)]
    level: Option<Level>,
    /// Stand in for libnccl.so.2 itself, so that callers by dlsym, ctypes or RTLD_DEEPBIND are seen too. PATH is that of
    /// the real library; default: the one that the command would find
    #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    shim: Option<OsString>,
    /// Preload nothing: see the job only through NCCL's profiler interface (2.23 and later) and its log
    #[arg(long, conflicts_with = "shim")]
    plugin_only: bool,
    #[command(flatten)]
    inherited: Inherited,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// How much the library is asked for.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Level {
    /// Issued and completed calls and bytes, at the least cost
    Counters,
    /// Also when each channel of each operation finishes
    Channels,
    /// Also each network step, and so bytes per link
    Steps,
}

/// Settings of other programs that `run` must know in order not to overrule them.
#[derive(Debug, clap::Args)]
struct Inherited {
    #[arg(long = "inherited-ld-preload", env = "LD_PRELOAD", hide = true)]
    ld_preload: Option<OsString>,
    #[arg(long = "inherited-library-path", env = "LD_LIBRARY_PATH", hide = true)]
    library_path: Option<OsString>,
    #[arg(long = "inherited-path", env = "PATH", hide = true)]
    path: Option<OsString>,
    #[arg(long = "inherited-plugin", env = "NCCL_PROFILER_PLUGIN", hide = true)]
    profiler_plugin: Option<OsString>,
    #[arg(long = "inherited-observer", env = "RSUM_OBSERVER", hide = true)]
    summation_observer: Option<OsString>,
    #[arg(long = "inherited-debug-file", env = "NCCL_DEBUG_FILE", hide = true)]
    debug_file: Option<OsString>,
    #[arg(long = "inherited-debug", env = "NCCL_DEBUG", hide = true)]
    debug: Option<OsString>,
    #[arg(long = "inherited-debug-subsys", env = "NCCL_DEBUG_SUBSYS", hide = true)]
    debug_subsys: Option<OsString>,
    #[arg(long = "inherited-cache", env = "XDG_CACHE_HOME", hide = true)]
    xdg_cache_home: Option<PathBuf>,
    #[arg(long = "inherited-slurm-job", env = "SLURM_JOB_ID", hide = true)]
    slurm_job: Option<OsString>,
    #[arg(long = "inherited-elastic-run", env = "TORCHELASTIC_RUN_ID", hide = true)]
    elastic_run: Option<OsString>,
    #[arg(long = "inherited-job-name", env = "JOB_NAME", hide = true)]
    job_name: Option<OsString>,
    #[arg(long = "inherited-home", env = "HOME", hide = true)]
    home: Option<PathBuf>,
}

/// Why the command was not started.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The collector could not be had.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// There is no stand-in for the library.
    #[error(transparent)]
    Shim(#[from] ShimError),
    /// The folder for segments cannot be used.
    #[error("cannot use {dir} for segments and logs: {source}; make it writable or name another with --dir")]
    Dir {
        /// The folder.
        dir: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The loader would take the path for two.
    #[error(
        "cannot preload {path}: LD_PRELOAD cannot hold a path with a space or a colon; use another --cache-dir"
    )]
    Unloadable {
        /// The file.
        path: PathBuf,
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
            Self::Library(_) | Self::Shim(_) | Self::Dir { .. } | Self::Unloadable { .. } => 1,
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
    let cache = args.cache_dir();
    let collector = embedded::path_of(Library::Collector, &cache)?;
    let dir = prepare_dir(&args.dir).map_err(|source| RunError::Dir { dir: args.dir.clone(), source })?;
    if !refused::is_memory(&dir) {
        tracing::warn!(
            "the job will not be watched, because {}",
            Reason::OnDisk.words(&dir, refused::file_system_bytes(&dir))
        );
    }
    let swept = sweep(&dir, crate::clock::now());
    tracing::debug!(files = swept.files, bytes = swept.bytes, "removed what ended processes left");
    let (program, arguments) =
        args.command.split_first().unwrap_or_else(|| unreachable!("clap requires a command"));
    let mut command = Command::new(program);
    command.args(arguments);
    let run_id = uuid::Uuid::new_v4().simple().to_string();
    let libraries = Libraries::new(args.inherited.path.as_deref(), args.inherited.library_path.as_deref());
    if !args.plugin_only {
        set_preload(&mut command, args, &libraries, &collector)?;
    }
    command.env("RINGSCOPE_DIR", &dir).env("RINGSCOPE_RUN_ID", &run_id);
    if let Some(job) = &args.job {
        command.env("RINGSCOPE_JOB", job);
    }
    if let Some(level) = args.level {
        command.env("RINGSCOPE_LEVEL", format!("{level:?}").to_lowercase());
    }
    set_plugin(&mut command, &collector, args.inherited.profiler_plugin.as_deref(), &libraries);
    // Another watcher of the summation service keeps its place: only one is told.
    if args.inherited.summation_observer.as_ref().is_none_or(|observer| observer.is_empty()) {
        command.env("RSUM_OBSERVER", &collector);
    }
    set_log(&mut command, &args.inherited, &dir, &run_id);
    if let Err(error) = args.note().leave(&dir, &run_id) {
        tracing::warn!(%error, dir = %dir.display(), "cannot leave a note of this run for the agent");
    }
    Ok(command)
}

/// What is preloaded, and the stand-in for the library if there is to be one.
fn set_preload(
    command: &mut Command,
    args: &RunArgs,
    libraries: &Libraries,
    collector: &Path,
) -> Result<(), RunError> {
    let cache = args.cache_dir();
    let preload = embedded::path_of(Library::Preload, &cache)?;
    let mut ours = vec![preload.clone()];
    if let Some(real) = &args.shim {
        let shim = shim::prepare(Path::new(real), &args.command, libraries, &preload, &cache)?;
        command.env("RINGSCOPE_NCCL", &shim.real);
        ours.push(shim.path);
    }
    let ours: Vec<&Path> = ours.iter().map(PathBuf::as_path).collect();
    command.env("LD_PRELOAD", preloaded(&ours, args.inherited.ld_preload.as_deref())?);
    command.env("RINGSCOPE_COLLECTOR", collector);
    Ok(())
}

/// The folder for segments and logs, by a path that holds wherever the command goes.
fn prepare_dir(dir: &Path) -> io::Result<PathBuf> {
    shared_dir::create(dir)?;
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)?;
    dir.canonicalize()
}

/// The collector is named by its path, not as `STATIC_PLUGIN`: the path means the same object that is opened at the first
/// call, and still works in a child whose `LD_PRELOAD` somebody has taken away.
///
/// The library would have loaded the user's plugin, or a `libnccl-profiler.so` of the loader's path: the collector does
/// in its place.
fn set_plugin(command: &mut Command, collector: &Path, inherited: Option<&OsStr>, libraries: &Libraries) {
    let inherited = inherited.filter(|plugin| !plugin.is_empty());
    if inherited == Some(collector.as_os_str()) {
        return;
    }
    command.env("NCCL_PROFILER_PLUGIN", collector);
    let theirs = match inherited {
        // It means: no plugin.
        Some(plugin) if plugin.eq_ignore_ascii_case("none") => None,
        Some(plugin) => Some(plugin.to_owned()),
        None => libraries.find(DEFAULT_PLUGIN).map(PathBuf::into_os_string),
    };
    if let Some(theirs) = theirs {
        command.env("RINGSCOPE_CHAIN_PLUGIN", theirs);
    }
}

fn set_log(command: &mut Command, inherited: &Inherited, dir: &Path, run_id: &str) {
    let inherited = log::Inherited {
        level: inherited.debug.as_deref(),
        subsystems: inherited.debug_subsys.as_deref(),
        file: inherited.debug_file.as_deref(),
    };
    let Some(settings) = log::settings(inherited, dir) else { return };
    let file = match settings.file {
        Some(own) => own,
        None => match private_log(settings.wish.as_ref(), dir, run_id) {
            Ok(file) => file.into(),
            Err(error) => {
                tracing::warn!(
                    dir = %dir.display(),
                    %error,
                    "there is no folder for the library's log that is this user's alone: the rings of the job will not be \
                     known"
                );
                return;
            }
        },
    };
    command.env("NCCL_DEBUG", settings.level).env("NCCL_DEBUG_SUBSYS", settings.subsystems);
    command.env("NCCL_DEBUG_FILE", file);
}

/// The name of the private logs, in a folder into which nobody else can put anything.
fn private_log(wish: Option<&log::Wish>, dir: &Path, run_id: &str) -> io::Result<PathBuf> {
    let folder = log_folder::own(dir)?;
    let file = log::private(&folder, run_id);
    if let Some(wish) = wish
        && let Err(error) = relay::start(wish, &folder, run_id)
    {
        tracing::warn!(
            %error,
            "cannot start the process that copies what NCCL_DEBUG asks for: it is in {} only",
            file.display()
        );
    }
    Ok(file)
}

impl RunArgs {
    /// The job that the collector takes the process for: the same rules as its own (`config.rs` there).
    fn job(&self) -> Option<String> {
        let Inherited { slurm_job, elastic_run, job_name, .. } = &self.inherited;
        let text = |value: &Option<OsString>| {
            value.as_ref().map(|value| value.to_string_lossy().into_owned()).filter(|text| !text.is_empty())
        };
        (self.job.clone().filter(|job| !job.is_empty()))
            .or_else(|| text(slurm_job).map(|id| format!("slurm-{id}")))
            // torchrun says "none" where it was given no --rdzv-id.
            .or_else(|| text(elastic_run).filter(|id| id != "none"))
            .or_else(|| text(job_name))
    }

    fn note(&self) -> Note {
        let command = self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        Note::new(self.job(), command, crate::clock::now(), Launch::from_env())
    }

    fn cache_dir(&self) -> PathBuf {
        let Inherited { xdg_cache_home, home, .. } = &self.inherited;
        self.cache_dir
            .clone()
            .or_else(|| xdg_cache_home.as_ref().map(|dir| dir.join("ringscope")))
            .or_else(|| home.as_ref().map(|dir| dir.join(".cache/ringscope")))
            .unwrap_or_else(|| self.dir.join("cache"))
    }
}

/// Ours first: the collector's functions must not be called by others' in front of them. What an outer run has put there already
/// is not put there twice.
fn preloaded(ours: &[&Path], inherited: Option<&OsStr>) -> Result<OsString, RunError> {
    let mut preload = OsString::new();
    for path in ours {
        if path.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b' ' | b':')) {
            return Err(RunError::Unloadable { path: (*path).to_owned() });
        }
        if !preload.is_empty() {
            preload.push(":");
        }
        preload.push(path);
    }
    let inherited = inherited.unwrap_or_default().as_bytes();
    for name in inherited.split(|byte| matches!(byte, b' ' | b':')).filter(|name| !name.is_empty()) {
        let name = OsStr::from_bytes(name);
        if ours.iter().all(|path| path.as_os_str() != name) {
            preload.push(":");
            preload.push(name);
        }
    }
    Ok(preload)
}

/// What NCCL loads where no plugin is named.
const DEFAULT_PLUGIN: &str = "libnccl-profiler.so";
