//! What `ringscope run` is told: its options, and what the environment says. A wrong option is the user's error and starts
//! nothing; whatever stands in the environment starts the command all the same.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum as _;
use ringscope_agent::DEFAULT_DIR;

use super::library_folder;
use super::note::Note;
use crate::config;

/// Arguments of `ringscope run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ringscope run -- python train.py
  torchrun --no_python --nproc_per_node 8 ringscope run --job llama-70b -- python train.py
  srun ringscope run -- ./all_reduce_perf -b 8 -e 1G
  ringscope run --shim -- vllm serve model     (callers by dlsym or ctypes; `ringscope doctor` says if it is needed)

NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE keep their effect, and a plugin in NCCL_PROFILER_PLUGIN is called too.

Where ringscope cannot prepare it (a folder is not writable), it says so and starts the command unwatched.

Exit status: that of the command; 127 if it is not found, 126 if it cannot be executed, 64 wrong options")]
pub struct RunArgs {
    #[command(flatten)]
    pub(super) watch: Watch,
    /// Stand in for libnccl.so.2 itself, so that callers by dlsym, ctypes or RTLD_DEEPBIND are seen too. PATH is that of
    /// the real library; default: the one that the command would find
    #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true, default_missing_value = "",
        conflicts_with = "plugin_only")]
    pub(super) shim: Option<OsString>,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub(super) command: Vec<OsString>,
}

/// How a command is to be watched: what `run` and `env` are both told.
#[derive(Debug, clap::Args)]
pub(super) struct Watch {
    /// Job id to show the ranks under. Default: RINGSCOPE_JOB, else what SLURM, torchrun or Kubernetes say
    #[arg(long)]
    pub(super) job: Option<String>,
    /// Folder for segments and logs, on tmpfs; the agent of this host must be given the same. Segments take at most
    /// RINGSCOPE_BUDGET_MIB (256) there, and a quarter of the file system. Default: RINGSCOPE_DIR, else /dev/shm/ringscope
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Folder to unpack the libraries into. Default: RINGSCOPE_CACHE_DIR, else memory, below --dir, if programs may
    /// be run from there, else $XDG_CACHE_HOME/ringscope or ~/.cache/ringscope
    #[arg(long)]
    cache_dir: Option<PathBuf>,
    /// How much to ask the library for from the start. Default: RINGSCOPE_LEVEL, else counters
    #[arg(long, value_enum)]
    pub(super) level: Option<Level>,
    /// Preload nothing: see the job only through NCCL's profiler interface (2.23 and later) and its log
    #[arg(long)]
    pub(super) plugin_only: bool,
    /// Do not ask PyTorch before 2.15 what its groups are called, by a sitecustomize in PYTHONPATH. RINGSCOPE_GROUP_NAMES=0
    /// says the same
    #[arg(long)]
    pub(super) no_group_names: bool,
    /// The run that it is watched as, where who starts it writes down how it ends
    #[arg(long, hide = true)]
    pub(super) reaped_as: Option<String>,
    #[command(flatten)]
    pub(super) inherited: Inherited,
}

/// How much the library is asked for.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Level {
    /// Issued and completed calls and bytes, at the least cost
    Counters,
    /// Also when each channel of each operation finishes
    Channels,
    /// Also each network step, and so bytes per link
    Steps,
    /// As counters, and when the device begins and ends each operation, by CUDA events
    Events,
}

/// What the environment says: settings of `run`, and those of other programs that it must know in order not to overrule them.
/// Any bytes are taken: what stands there by chance must not keep a command from starting.
#[derive(Debug, clap::Args)]
pub(super) struct Inherited {
    #[arg(id = "inherited-dir", long = "inherited-dir", env = "RINGSCOPE_DIR", hide = true)]
    dir: Option<OsString>,
    #[arg(
        id = "inherited-cache-dir",
        long = "inherited-cache-dir",
        env = "RINGSCOPE_CACHE_DIR",
        hide = true
    )]
    cache_dir: Option<OsString>,
    #[arg(id = "inherited-level", long = "inherited-level", env = "RINGSCOPE_LEVEL", hide = true)]
    level: Option<OsString>,
    #[arg(long = "inherited-ld-preload", env = "LD_PRELOAD", hide = true)]
    pub(super) ld_preload: Option<OsString>,
    #[arg(long = "inherited-asan-options", env = "ASAN_OPTIONS", hide = true)]
    pub(super) asan_options: Option<OsString>,
    #[arg(long = "inherited-python-path", env = "PYTHONPATH", hide = true)]
    pub(super) python_path: Option<OsString>,
    #[arg(long = "inherited-group-names", env = "RINGSCOPE_GROUP_NAMES", hide = true)]
    group_names: Option<OsString>,
    #[arg(long = "inherited-library-path", env = "LD_LIBRARY_PATH", hide = true)]
    pub(super) library_path: Option<OsString>,
    #[arg(long = "inherited-path", env = "PATH", hide = true)]
    pub(super) path: Option<OsString>,
    #[arg(long = "inherited-plugin", env = "NCCL_PROFILER_PLUGIN", hide = true)]
    pub(super) profiler_plugin: Option<OsString>,
    #[arg(long = "inherited-observer", env = "RSUM_OBSERVER", hide = true)]
    pub(super) summation_observer: Option<OsString>,
    #[arg(long = "inherited-lent-log", env = "RINGSCOPE_LENT_LOG", hide = true)]
    pub(super) lent_log: Option<OsString>,
    #[arg(long = "inherited-chain-plugin", env = "RINGSCOPE_CHAIN_PLUGIN", hide = true)]
    pub(super) chain_plugin: Option<OsString>,
    #[arg(long = "inherited-slurm-node", env = "SLURMD_NODENAME", hide = true)]
    pub(super) slurm_node: Option<OsString>,
    #[arg(long = "inherited-host", env = "RINGSCOPE_HOST", hide = true)]
    pub(super) host: Option<OsString>,
    #[arg(long = "inherited-set-host", env = "RINGSCOPE_SET_HOST", hide = true)]
    pub(super) set_host: Option<OsString>,
    #[arg(long = "inherited-debug-file", env = "NCCL_DEBUG_FILE", hide = true)]
    pub(super) debug_file: Option<OsString>,
    #[arg(long = "inherited-debug", env = "NCCL_DEBUG", hide = true)]
    pub(super) debug: Option<OsString>,
    #[arg(long = "inherited-debug-subsys", env = "NCCL_DEBUG_SUBSYS", hide = true)]
    pub(super) debug_subsys: Option<OsString>,
    #[arg(long = "inherited-cache", env = "XDG_CACHE_HOME", hide = true)]
    xdg_cache_home: Option<OsString>,
    #[arg(long = "inherited-home", env = "HOME", hide = true)]
    pub(super) home: Option<OsString>,
    #[arg(long = "inherited-nccl-conf", env = "NCCL_CONF_FILE", hide = true)]
    pub(super) nccl_conf_file: Option<OsString>,
}

impl RunArgs {
    pub(super) fn note(&self) -> Note {
        let command = self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let mut note =
            Note::new(self.watch.job(), command, ringscope_api::clock::now(), config::launch_note());
        note.reaped = self.watch.reaped_as.is_some();
        note
    }

    /// The command with nothing of ringscope's.
    pub(crate) fn plain(&self) -> Command {
        let (program, arguments) =
            self.command.split_first().unwrap_or_else(|| unreachable!("clap requires a command"));
        let mut command = Command::new(program);
        command.args(arguments);
        command
    }
}

impl Watch {
    /// The job that the collector takes the process for.
    fn job(&self) -> Option<String> {
        let named = self.job.clone().filter(|job| !job.is_empty());
        named.or_else(|| Some(config::launch().job).filter(|job| !job.is_empty()))
    }

    /// The folder for segments and logs.
    pub(super) fn dir(&self) -> PathBuf {
        let named = self.dir.clone().or_else(|| said(&self.inherited.dir).map(PathBuf::from));
        named.unwrap_or_else(|| DEFAULT_DIR.into())
    }

    /// Folders to unpack the libraries into, the best first. One that the user has named is the only one.
    pub(super) fn cache_dirs(&self, dir: &Path) -> Vec<PathBuf> {
        let Inherited { cache_dir, xdg_cache_home, home, .. } = &self.inherited;
        let of = |value, folder: &str| said(value).map(|dir| Path::new(dir).join(folder));
        if let Some(named) = self.cache_dir.clone().or_else(|| of(cache_dir, "")) {
            return vec![named];
        }
        let on_disk = of(xdg_cache_home, "ringscope").or_else(|| of(home, ".cache/ringscope"));
        let on_disk = on_disk.unwrap_or_else(|| dir.join("cache"));
        library_folder::in_memory(dir).into_iter().chain([on_disk]).collect()
    }

    /// The level that the environment names, where there is none such and no other is given.
    pub(super) fn unknown_level(&self) -> Option<&OsStr> {
        let named = said(&self.inherited.level).filter(|_| self.level.is_none())?;
        let is_known = named.to_str().is_some_and(|text| Level::from_str(text.trim(), false).is_ok());
        (!is_known).then_some(named)
    }

    /// Whether Python is to say what its groups of ranks are called. It does so through what is preloaded.
    pub(super) fn wants_group_names(&self) -> bool {
        let is_off = self.inherited.group_names.as_deref() == Some(OsStr::new("0"));
        !self.no_group_names && !self.plugin_only && !is_off
    }
}

/// The value, where it says anything.
pub(super) fn said(value: &Option<OsString>) -> Option<&OsStr> {
    value.as_deref().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Cli {
        #[command(flatten)]
        args: RunArgs,
    }

    #[test]
    fn an_empty_variable_is_one_that_is_not_set() {
        let mut args = Cli::try_parse_from(["run", "--", "true"]).unwrap().args.watch;
        args.inherited.dir = Some(OsString::new());
        args.inherited.level = Some(OsString::new());
        assert_eq!((args.dir().as_path(), args.unknown_level()), (Path::new(DEFAULT_DIR), None));
    }

    #[test]
    fn a_folder_that_the_user_names_is_the_only_one_and_memory_comes_before_a_disk() {
        let shm = tempfile::tempdir_in("/dev/shm").unwrap();
        let folders = |words: &[&str]| Cli::try_parse_from(words).unwrap().args.watch.cache_dirs(shm.path());
        assert_eq!(folders(&["run", "--cache-dir", "/c", "--", "true"]), [Path::new("/c")]);
        let by_default = folders(&["run", "--", "true"]);
        let in_memory: Vec<PathBuf> = library_folder::in_memory(shm.path()).into_iter().collect();
        assert_eq!(by_default[..by_default.len() - 1], in_memory);
        assert!(!by_default.last().unwrap().starts_with("/dev/shm"), "{by_default:?}");
    }
}
