//! What the environment says about plugins and logs, and what follows from it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::PathBuf;

use crate::program::Libraries;

/// Settings of the environment that the command will inherit.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Inherited {
    #[arg(long = "inherited-path", env = "PATH", hide = true)]
    pub(super) path: Option<OsString>,
    #[arg(long = "inherited-library-path", env = "LD_LIBRARY_PATH", hide = true)]
    pub(super) library_path: Option<OsString>,
    #[arg(long = "inherited-plugin", env = "NCCL_PROFILER_PLUGIN", hide = true)]
    profiler_plugin: Option<OsString>,
    #[arg(long = "inherited-debug", env = "NCCL_DEBUG", hide = true)]
    debug: Option<OsString>,
    #[arg(long = "inherited-debug-file", env = "NCCL_DEBUG_FILE", hide = true)]
    debug_file: Option<OsString>,
    #[arg(long = "inherited-home", env = "HOME", hide = true)]
    home: Option<PathBuf>,
}

impl Inherited {
    pub(super) fn libraries(&self) -> Libraries {
        Libraries::new(self.path.as_deref(), self.library_path.as_deref())
    }

    /// Who else wants to be NCCL's profiler plugin.
    pub(super) fn other_plugin(&self, libraries: &Libraries) -> Option<String> {
        let named = self.profiler_plugin.as_deref().filter(|plugin| !plugin.is_empty());
        match named {
            Some(plugin) if is_collector(plugin) || plugin.eq_ignore_ascii_case("none") => None,
            Some(plugin) => Some(plugin.to_string_lossy().into_owned()),
            None => libraries.find("libnccl-profiler.so").map(|path| path.display().to_string()),
        }
    }

    /// Where the lines go that the user wants to see.
    pub(super) fn log(&self) -> String {
        let level = self.debug.as_deref().unwrap_or_default().to_string_lossy();
        let file = self.debug_file.as_deref().unwrap_or_default().to_string_lossy();
        if level.is_empty() || level.eq_ignore_ascii_case("none") {
            return "a private log of INIT, GRAPH and ENV lines".to_owned();
        }
        if file.contains("%p") {
            return format!(
                "{file} gets INFO lines of INIT, GRAPH and ENV beside what NCCL_DEBUG={level} asks for"
            );
        }
        let place = if file.is_empty() { "standard output" } else { &file };
        format!("a private log; what NCCL_DEBUG={level} asks for is copied to {place}")
    }

    /// A file of NCCL's own that sets the log: the environment, which `ringscope run` sets, overrules it.
    pub(super) fn overruled_file(&self) -> Option<String> {
        let own = self.home.as_ref().map(|home| home.join(".nccl.conf"));
        (own.into_iter().chain([PathBuf::from("/etc/nccl.conf")])).find_map(|path| {
            let text = fs::read_to_string(&path).ok()?;
            let sets = text.lines().any(|line| line.trim_start().starts_with("NCCL_DEBUG"));
            sets.then(|| path.display().to_string())
        })
    }
}

/// Whether a path is that of what `ringscope run` preloads.
pub(super) fn is_preload(path: &OsStr) -> bool {
    std::path::Path::new(path).file_name().is_some_and(|name| name == "libringscope_preload.so")
}

/// Whether a path is the collector's.
pub(super) fn is_collector(path: &OsStr) -> bool {
    std::path::Path::new(path).file_name().is_some_and(|name| name == "libringscope.so")
}
