//! The variables that a command gets so that it is watched: one set, which `run` gives to the command that it becomes and
//! `env` prints for whoever starts one. Nothing is started here.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use ringscope_agent::{room, shared_dir, sweep};

use super::args::{Inherited, Watch, said};
use super::error::RunError;
use super::libraries::{self, Unpacked};
use super::{library_folder, sanitizers};
use crate::embedded;
use crate::program::Libraries;

/// Changes of an environment.
#[derive(Debug, Default)]
pub(super) struct Variables(BTreeMap<&'static str, Option<OsString>>);

impl Variables {
    /// Gives a variable a value.
    pub(super) fn set(&mut self, name: &'static str, value: impl Into<OsString>) {
        self.0.insert(name, Some(value.into()));
    }

    /// Takes a variable away.
    pub(super) fn unset(&mut self, name: &'static str) {
        self.0.insert(name, None);
    }

    /// Changes the environment of a command.
    pub(super) fn give_to(&self, command: &mut Command) {
        for (name, value) in self.iter() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
    }

    /// All changes, by name; `None` takes the variable away.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, Option<&OsStr>)> {
        self.0.iter().map(|(name, value)| (*name, value.as_deref()))
    }
}

/// Where a command that is about to start will be watched.
#[derive(Debug)]
pub(super) struct Prepared {
    /// Folder of segments and logs.
    pub(super) dir: PathBuf,
    /// Why nothing that starts there now can be watched; `None`: it can.
    pub(super) lack: Option<String>,
    pub(super) run_id: String,
    pub(super) unpacked: Unpacked,
    pub(super) libraries: Libraries,
}

impl Prepared {
    /// Makes the folder, unpacks the libraries, and removes what ended processes have left.
    pub(super) fn prepare(watch: &Watch) -> Result<Self, RunError> {
        let dir = watch.dir();
        let dir = prepare_dir(&dir).map_err(|source| RunError::Dir { dir, source })?;
        let unpacked = Unpacked::any(&watch.cache_dirs(&dir))?;
        let swept = sweep::sweep(&dir, ringscope_api::clock::now());
        tracing::debug!(files = swept.files, bytes = swept.bytes, "removed what ended processes left");
        let inherited = &watch.inherited;
        let libraries = Libraries::new(inherited.path.as_deref(), inherited.library_path.as_deref());
        let new = || uuid::Uuid::new_v4().simple().to_string();
        let run_id = watch.reaped_as.clone().unwrap_or_else(new);
        Ok(Self { lack: room::lacks(&dir), dir, run_id, unpacked, libraries })
    }

    /// What every command gets. `shim`: what is preloaded besides; `words`: the command, where it is known.
    pub(super) fn variables(
        &self,
        watch: &Watch,
        shim: Option<&Path>,
        words: Option<&[OsString]>,
    ) -> Result<Variables, RunError> {
        let mut variables = Variables::default();
        if !watch.plugin_only {
            self.preload(&mut variables, watch, shim, words)?;
        }
        if watch.wants_group_names() {
            self.python_path(&mut variables, watch.inherited.python_path.as_deref());
        }
        variables.set("RINGSCOPE_DIR", &self.dir);
        variables.set("RINGSCOPE_RUN_ID", &self.run_id);
        if let Some(job) = &watch.job {
            variables.set("RINGSCOPE_JOB", job);
        }
        if let Some(level) = watch.level {
            variables.set("RINGSCOPE_LEVEL", format!("{level:?}").to_lowercase());
        }
        if let Some(level) = watch.unknown_level() {
            tracing::warn!(
                "RINGSCOPE_LEVEL={} is none of counters, channels, steps and events: the job begins at counters",
                level.display()
            );
        }
        self.plugin(&mut variables, watch);
        host(&mut variables, &watch.inherited);
        // Another watcher of the summation service keeps its place: only one is told.
        let observer = said(&watch.inherited.summation_observer);
        if observer.is_none_or(libraries::is_collector) {
            variables.set("RSUM_OBSERVER", &self.unpacked.collector);
        }
        Ok(variables)
    }

    fn preload(
        &self,
        variables: &mut Variables,
        watch: &Watch,
        shim: Option<&Path>,
        words: Option<&[OsString]>,
    ) -> Result<(), RunError> {
        let Unpacked { collector, preload, .. } = &self.unpacked;
        let ours: Vec<&Path> = std::iter::once(preload.as_path()).chain(shim).collect();
        let inherited = &watch.inherited;
        variables.set("LD_PRELOAD", libraries::preloaded(&ours, inherited.ld_preload.as_deref())?);
        variables.set("RINGSCOPE_COLLECTOR", collector);
        let asan = words.and_then(|words| {
            sanitizers::options(words, inherited.path.as_deref(), inherited.asan_options.as_deref())
        });
        if let Some(options) = asan {
            variables.set("ASAN_OPTIONS", options);
        }
        Ok(())
    }

    /// Python looks for `sitecustomize` there first, and ours gives way to the program's own. Without it groups go by no
    /// name, and all else is as it was.
    fn python_path(&self, variables: &mut Variables, inherited: Option<&OsStr>) {
        let folder = match embedded::python_hook(&self.unpacked.folder) {
            Ok(folder) => folder,
            Err((dir, error)) => {
                tracing::debug!(%error, dir = %dir.display(), "groups of PyTorch's will have no names");
                return;
            }
        };
        if let Some(path) = python_path(&folder, inherited, embedded::is_python_hook) {
            library_folder::touch(&folder.join("sitecustomize.py"));
            variables.set("PYTHONPATH", path);
        }
    }

    /// The collector is named by its path, not as `STATIC_PLUGIN`: the path means the same object that is opened at the
    /// first call, and still works in a child whose `LD_PRELOAD` somebody has taken away.
    ///
    /// The library would have loaded the user's plugin, or a `libnccl-profiler.so` of the loader's path: the collector does
    /// in its place.
    fn plugin(&self, variables: &mut Variables, watch: &Watch) {
        variables.set("NCCL_PROFILER_PLUGIN", &self.unpacked.collector);
        let theirs = match said(&watch.inherited.profiler_plugin) {
            // Whoever has put it there knew whose place it took.
            Some(plugin) if libraries::is_collector(plugin) => return,
            // It means: no plugin.
            Some(plugin) if plugin.eq_ignore_ascii_case("none") => None,
            Some(plugin) => Some(plugin.to_owned()),
            None => self.libraries.find(DEFAULT_PLUGIN).map(PathBuf::into_os_string),
        };
        match theirs {
            Some(theirs) => variables.set("RINGSCOPE_CHAIN_PLUGIN", theirs),
            None if said(&watch.inherited.chain_plugin).is_some() => {
                variables.unset("RINGSCOPE_CHAIN_PLUGIN")
            }
            None => {}
        }
    }
}

/// Several nodes of Slurm may be one machine (multiple slurmd): then processes count themselves to their node. The user's own
/// `RINGSCOPE_HOST` stays; one of ours, which may come from the node that the job began on, is known by `RINGSCOPE_SET_HOST`.
fn host(variables: &mut Variables, inherited: &Inherited) {
    let Some(node) = said(&inherited.slurm_node) else { return };
    let (host, ours) = (said(&inherited.host), said(&inherited.set_host));
    if host.is_some() && host != ours {
        return;
    }
    let machine = rustix::system::uname();
    let machine = machine.nodename().to_bytes();
    let short = machine.split(|byte| *byte == b'.').next().unwrap_or_default();
    if ![machine, short].contains(&node.as_bytes()) {
        variables.set("RINGSCOPE_HOST", node);
        variables.set("RINGSCOPE_SET_HOST", node);
    } else if host.is_some() {
        variables.unset("RINGSCOPE_HOST");
        variables.unset("RINGSCOPE_SET_HOST");
    }
}

/// The folder for segments and logs, by a path that holds wherever the command goes.
fn prepare_dir(dir: &Path) -> io::Result<PathBuf> {
    shared_dir::create(dir)?;
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)?;
    dir.canonicalize()
}

/// An empty PYTHONPATH is none, and an empty folder in it is the current one: none is added. Folders of ours that another
/// machine or release has put there go.
fn python_path(ours: &Path, inherited: Option<&OsStr>, is_ours: impl Fn(&Path) -> bool) -> Option<OsString> {
    let ours = ours.as_os_str().as_bytes();
    if ours.contains(&b':') {
        return None;
    }
    let theirs = inherited.unwrap_or_default().as_bytes();
    let is_kept = |folder: &&[u8]| {
        let path = Path::new(OsStr::from_bytes(folder));
        *folder != ours && !theirs.is_empty() && (folder.is_empty() || !is_ours(path))
    };
    let theirs = theirs.split(|byte| *byte == b':').filter(is_kept);
    Some(OsString::from_vec(std::iter::once(ours).chain(theirs).collect::<Vec<_>>().join(&b':')))
}

/// What NCCL loads where no plugin is named.
const DEFAULT_PLUGIN: &str = "libnccl-profiler.so";

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Cli {
        #[command(flatten)]
        inherited: Inherited,
    }

    #[test]
    fn a_host_that_the_user_has_named_stays() {
        let machine = rustix::system::uname().nodename().to_str().unwrap().to_owned();
        let check = |node: &str, host: &str, ours: &str, expected: &[(&str, Option<&str>)]| {
            let mut inherited = Cli::try_parse_from(["test"]).unwrap().inherited;
            inherited.slurm_node = Some(node.into());
            inherited.host = Some(host.into());
            inherited.set_host = Some(ours.into());
            let mut variables = Variables::default();
            super::host(&mut variables, &inherited);
            let found: Vec<_> =
                variables.iter().map(|(name, value)| (name, value.and_then(OsStr::to_str))).collect();
            assert_eq!(found, expected, "{node} {host} {ours}");
        };
        let set = [("RINGSCOPE_HOST", Some("n2")), ("RINGSCOPE_SET_HOST", Some("n2"))];
        let unset = [("RINGSCOPE_HOST", None), ("RINGSCOPE_SET_HOST", None)];
        check("n2", "", "", &set);
        check("n2", "n1", "n1", &set);
        check("n2", "mine", "", &[]);
        check("n2", "mine", "n1", &[]);
        check(&machine, "mine", "", &[]);
        check(&machine, "n1", "n1", &unset);
        check(&machine, "", "", &[]);
        check("", "n1", "n1", &[]);
    }

    #[test]
    fn the_folder_for_python_comes_first_and_once_and_the_others_stay_as_they_are() {
        let check = |theirs: Option<&str>, expected: &str| {
            let is_ours = |folder: &Path| folder == Path::new("/older");
            let path = python_path(Path::new("/h"), theirs.map(OsStr::new), is_ours);
            assert_eq!(path.unwrap(), expected, "{theirs:?}");
        };
        check(None, "/h");
        check(Some(""), "/h");
        check(Some("/a::b"), "/h:/a::b");
        check(Some("/h:/a"), "/h:/a");
        check(Some(":"), "/h::");
        check(Some("/older:/a:/older"), "/h:/a");
        assert_eq!(python_path(Path::new("/a:b"), None, |_| false), None);
    }
}
