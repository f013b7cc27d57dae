//! `ringscope run -- CMD…`: gives a command the collector and a log that ringscope can read, and becomes that command.
//!
//! Never stays between the launcher and the job: after `exec` there is only the job's own process, with its own pid,
//! signals and exit status. Where the user wants to see the library's log themselves, or no agent reads it, a
//! [`relay`] runs beside it.

mod args;
mod descriptors;
mod library_folder;
mod lines;
mod log;
pub(crate) mod note;
pub mod relay;
mod sanitizers;
pub mod shim;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use args::Inherited;
use ringscope_agent::log_folder;
use ringscope_agent::refused;
use ringscope_agent::room;
use ringscope_agent::shared_dir;
use ringscope_agent::sweep::{is_served, sweep};

use crate::embedded::{self, Library, LibraryError};
use crate::program::Libraries;
pub use args::RunArgs;
use shim::ShimError;

/// Why the command was not started, or is not watched.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The collector could not be had.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// What `--shim` names is no library.
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
    /// Whether the user has to name another in an option.
    fn is_wrong_option(&self) -> bool {
        matches!(self, Self::Shim(_))
    }

    /// The exit status that tells it: for the command as shells and `env` have it, 1 for what is ringscope's.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Exec { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Self::Exec { .. } => 126,
            Self::Shim(_) => 64,
            // The command has been started.
            Self::Library(_) | Self::Dir { .. } | Self::Unloadable { .. } => 1,
        }
    }
}

/// Replaces this process by the command. Returns only if that failed.
#[must_use]
pub fn run(args: &RunArgs) -> RunError {
    let mut command = match prepare(args) {
        Ok(command) => command,
        Err(error) if error.is_wrong_option() => return error,
        Err(error) => {
            tracing::warn!("the command is started and not watched: {error}");
            args.plain()
        }
    };
    let source = command.exec();
    RunError::Exec { command: command.get_program().to_owned(), source }
}

fn prepare(args: &RunArgs) -> Result<Command, RunError> {
    let dir = args.dir();
    let dir = prepare_dir(&dir).map_err(|source| RunError::Dir { dir, source })?;
    let unpacked = Unpacked::any(&args.cache_dirs(&dir))?;
    let swept = sweep(&dir, ringscope_api::clock::now());
    tracing::debug!(files = swept.files, bytes = swept.bytes, "removed what ended processes left");
    let lack = room::lacks(&dir);
    if let Some(lack) = &lack {
        tracing::warn!("the job will not be watched, because {lack}");
    }
    let mut command = args.plain();
    let run_id = uuid::Uuid::new_v4().simple().to_string();
    let libraries = Libraries::new(args.inherited.path.as_deref(), args.inherited.library_path.as_deref());
    if !args.plugin_only {
        set_preload(&mut command, args, &libraries, &unpacked)?;
    }
    if args.wants_group_names() {
        set_python_path(&mut command, args.inherited.python_path.as_deref(), &unpacked.folder);
    }
    command.env("RINGSCOPE_DIR", &dir).env("RINGSCOPE_RUN_ID", &run_id);
    if let Some(job) = &args.job {
        command.env("RINGSCOPE_JOB", job);
    }
    if let Some(level) = args.level {
        command.env("RINGSCOPE_LEVEL", format!("{level:?}").to_lowercase());
    }
    if let Some(level) = args.unknown_level() {
        tracing::warn!(
            "RINGSCOPE_LEVEL={} is none of counters, channels, steps and events: the job begins at counters",
            level.display()
        );
    }
    set_plugin(&mut command, &unpacked.collector, args.inherited.profiler_plugin.as_deref(), &libraries);
    // Another watcher of the summation service keeps its place: only one is told.
    if args.inherited.summation_observer.as_ref().is_none_or(|observer| observer.is_empty()) {
        command.env("RSUM_OBSERVER", &unpacked.collector);
    }
    // A log would fill what is full, and could hold up the job on a disk, and nothing would come of it.
    if lack.is_none() {
        set_log(&mut command, &args.inherited, &dir, &run_id);
    }
    if let Err(error) = args.note().leave(&dir, &run_id)
        && lack.is_none()
    {
        tracing::warn!(%error, dir = %dir.display(), "cannot leave a note of this run for the agent");
    }
    Ok(command)
}

/// The libraries as files.
struct Unpacked {
    folder: PathBuf,
    collector: PathBuf,
    preload: PathBuf,
}

impl Unpacked {
    /// In the first of these folders that they can be had in.
    fn any(folders: &[PathBuf]) -> Result<Self, RunError> {
        let mut failed = None;
        for folder in folders {
            match Self::into(folder) {
                Ok(unpacked) => return Ok(unpacked),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| unreachable!("there is a folder")))
    }

    fn into(folder: &Path) -> Result<Self, RunError> {
        let collector = embedded::path_of(Library::Collector, folder)?;
        let preload = embedded::path_of(Library::Preload, folder)?;
        let unpacked = Self { folder: folder.to_owned(), collector, preload };
        preloaded(&[&unpacked.preload], None)?;
        // On a disk that several machines have, nobody knows who else uses what lies there.
        if refused::is_memory(folder) {
            let used = [unpacked.collector.as_path(), &unpacked.preload];
            library_folder::sweep(folder, &used, ringscope_api::clock::now());
        }
        Ok(unpacked)
    }
}

/// What is preloaded, and the stand-in for the library if there is to be one.
fn set_preload(
    command: &mut Command,
    args: &RunArgs,
    libraries: &Libraries,
    Unpacked { folder, collector, preload }: &Unpacked,
) -> Result<(), RunError> {
    let mut ours = vec![preload.clone()];
    if let Some(real) = &args.shim {
        match shim::prepare(Path::new(real), &args.command, libraries, preload, folder) {
            Ok(shim) => {
                command.env("RINGSCOPE_NCCL", &shim.real);
                library_folder::touch(&shim.path);
                ours.push(shim.path);
            }
            Err(error) if !real.is_empty() && error.is_of_library() => return Err(error.into()),
            Err(error) => tracing::warn!("{error}; callers by dlsym and ctypes are not seen"),
        }
    }
    let ours: Vec<&Path> = ours.iter().map(PathBuf::as_path).collect();
    command.env("LD_PRELOAD", preloaded(&ours, args.inherited.ld_preload.as_deref())?);
    command.env("RINGSCOPE_COLLECTOR", collector);
    let Inherited { path, asan_options, .. } = &args.inherited;
    if let Some(options) = sanitizers::options(&args.command, path.as_deref(), asan_options.as_deref()) {
        command.env("ASAN_OPTIONS", options);
    }
    Ok(())
}

/// Python looks for `sitecustomize` there first, and ours gives way to the program's own. Without it groups go by no name, and all
/// else is as it was.
fn set_python_path(command: &mut Command, inherited: Option<&OsStr>, cache_dir: &Path) {
    let folder = match embedded::python_hook(cache_dir) {
        Ok(folder) => folder,
        Err((dir, error)) => {
            tracing::debug!(%error, dir = %dir.display(), "groups of PyTorch's will have no names");
            return;
        }
    };
    if let Some(path) = python_path(&folder, inherited) {
        library_folder::touch(&folder.join("sitecustomize.py"));
        command.env("PYTHONPATH", path);
    }
}

/// An empty PYTHONPATH is none, and an empty folder in it is the current one: none is added.
fn python_path(ours: &Path, inherited: Option<&OsStr>) -> Option<OsString> {
    let ours = ours.as_os_str().as_bytes();
    if ours.contains(&b':') {
        return None;
    }
    let theirs = inherited.unwrap_or_default().as_bytes();
    let theirs = theirs.split(|byte| *byte == b':').filter(|folder| *folder != ours && !theirs.is_empty());
    Some(OsString::from_vec(std::iter::once(ours).chain(theirs).collect::<Vec<_>>().join(&b':')))
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
    let file = match private_log(settings.wish.as_ref(), dir, run_id) {
        Ok(file) => file,
        Err(error) => {
            tracing::warn!(
                dir = %dir.display(),
                "the rings of the job will not be known, and NCCL_DEBUG stays as it is: {error}"
            );
            return;
        }
    };
    command.env("NCCL_DEBUG", settings.level).env("NCCL_DEBUG_SUBSYS", settings.subsystems);
    command.env("NCCL_DEBUG_FILE", file);
}

/// The name of the private logs, in a folder into which nobody else can put anything.
fn private_log(wish: Option<&log::Wish>, dir: &Path, run_id: &str) -> io::Result<PathBuf> {
    let folder = log_folder::own(dir, log_folder::PREFIX).map_err(|error| {
        io::Error::other(format!(
            "there is no folder for the library's log that is this user's alone: {error}"
        ))
    })?;
    let file = log::private(&folder, run_id);
    // Where an agent reads the log, it frees what it has read.
    let is_wanted = wish.is_some() || !is_served(dir, ringscope_api::clock::now());
    if is_wanted && let Err(error) = relay::start(wish, &folder, run_id) {
        let error = format!("the process that reads the library's log cannot be started: {error}");
        if wish.is_some() {
            // What the user wants to see comes before what we do.
            return Err(io::Error::other(error));
        }
        tracing::warn!("{error}; nobody keeps the log short");
    }
    Ok(file)
}

/// Ours before others, which may get past what comes behind them; but a sanitizer's runtime first, which has nothing in front of
/// it. What an outer run has put there already is not put there twice.
fn preloaded(ours: &[&Path], inherited: Option<&OsStr>) -> Result<OsString, RunError> {
    let separates = |byte: &u8| matches!(byte, b' ' | b':');
    if let Some(path) = ours.iter().find(|path| path.as_os_str().as_bytes().iter().any(separates)) {
        return Err(RunError::Unloadable { path: (*path).to_owned() });
    }
    let ours: Vec<&[u8]> = ours.iter().map(|path| path.as_os_str().as_bytes()).collect();
    let theirs = inherited.unwrap_or_default().as_bytes().split(separates);
    let (first, others): (Vec<&[u8]>, Vec<&[u8]>) = theirs
        .filter(|name| !name.is_empty() && !ours.contains(name))
        .partition(|name| sanitizers::is_runtime(name));
    Ok(OsString::from_vec([first, ours, others].concat().join(&b':')))
}

/// What NCCL loads where no plugin is named.
const DEFAULT_PLUGIN: &str = "libnccl-profiler.so";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_for_python_comes_first_and_once_and_the_others_stay_as_they_are() {
        let check = |theirs: Option<&str>, expected: &str| {
            let path = python_path(Path::new("/h"), theirs.map(OsStr::new));
            assert_eq!(path.unwrap(), expected, "{theirs:?}");
        };
        check(None, "/h");
        check(Some(""), "/h");
        check(Some("/a::b"), "/h:/a::b");
        check(Some("/h:/a"), "/h:/a");
        check(Some(":"), "/h::");
        assert_eq!(python_path(Path::new("/a:b"), None), None);
    }

    #[test]
    fn ours_come_before_others_and_behind_sanitizers() {
        let ours = [Path::new("/c/p.so"), Path::new("/c/shim.so")];
        let check = |theirs: &str, expected: &str| {
            assert_eq!(preloaded(&ours, Some(OsStr::new(theirs))).unwrap(), expected, "{theirs}");
        };
        check("", "/c/p.so:/c/shim.so");
        check("a.so  b.so:/c/p.so", "/c/p.so:/c/shim.so:a.so:b.so");
        check("a.so:libasan.so.8", "libasan.so.8:/c/p.so:/c/shim.so:a.so");
        assert!(preloaded(&[Path::new("/a b.so")], None).is_err());
    }
}
