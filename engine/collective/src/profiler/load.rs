//! Fence: finds a profiler plugin and loads it.
//!
//! Lookup and words of the log as in NCCL (`src/plugin/plugin_open.cc`, `src/plugin/profiler.cc`,
//! `src/plugin/profiler/profiler_v*.cc`); 2.27 has other words than later ones.

#![expect(unsafe_code, reason = "a plugin is a library that the user names")]

use std::ffi::CStr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::faithful::Version;
use crate::lock::lock;
use crate::log::{self, Level, subsystem};
use crate::profiler::layout::NEWEST;
use crate::profiler::plugin::{Plugin, ProfilerVtable};

/// What NCCL calls a plugin that is linked into the process.
const STATIC_PLUGIN: &str = "STATIC_PLUGIN";
/// The tables that a plugin may offer, the oldest first.
const SYMBOLS: [&CStr; NEWEST as usize] = [
    c"ncclProfiler_v1",
    c"ncclProfiler_v2",
    c"ncclProfiler_v3",
    c"ncclProfiler_v4",
    c"ncclProfiler_v5",
    c"ncclProfiler_v6",
    c"ncclProfiler_v7",
];

/// Whether NCCL would not look for a plugin again in this process.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);
/// The plugin that is loaded now; unloaded with its last communicator.
static LOADED: Mutex<Weak<Plugin>> = Mutex::new(Weak::new());

/// The plugin that the setting names: a path, a soname, a suffix of `libnccl-profiler-…so`, a prefix of
/// `STATIC_PLUGIN` (any case) for one that is in the process already, or `none` (since 2.28). Without a setting,
/// `libnccl-profiler.so` where the loader finds it. Of the tables that it offers, the newest that `nccl` knows.
pub(crate) fn load(setting: Option<&str>, nccl: Option<Version>) -> Option<Arc<Plugin>> {
    let mut loaded = lock(&LOADED);
    if let Some(plugin) = loaded.upgrade() {
        return Some(plugin);
    }
    if nccl.is_some() && HAS_FAILED.load(Ordering::Relaxed) {
        return None;
    }
    let knows_none = nccl != Some(Version::V2_27);
    let is_none = knows_none && setting.is_some_and(|value| value.eq_ignore_ascii_case("none"));
    let found = if is_none { None } else { open_any(setting.filter(|value| !value.is_empty()), nccl) };
    HAS_FAILED.store(found.is_none(), Ordering::Relaxed);
    let plugin = Arc::new(found?);
    *loaded = Arc::downgrade(&plugin);
    Some(plugin)
}

/// The first of the names under which the setting may be found, loaded.
fn open_any(setting: Option<&str>, nccl: Option<Version>) -> Option<Plugin> {
    let is_2_27 = nccl == Some(Version::V2_27);
    let mut missing = String::new();
    for file in candidates(setting) {
        let shown = file.as_deref().unwrap_or(STATIC_PLUGIN);
        match open(file.as_deref()) {
            Ok(library) => {
                if is_2_27 && setting.is_some() {
                    info(&format!("PROFILER/Plugin: Plugin name set by env to {shown}"));
                }
                return plugin(library, file.as_deref(), nccl);
            }
            Err(why) if why.contains("No such file or directory") => missing = format!("{missing} {shown}"),
            Err(why) if is_2_27 => info(&format!("PROFILER/Plugin: {why}")),
            Err(why) => info(&format!("PROFILER/Plugin: {shown}: {why}")),
        }
    }
    if !missing.is_empty() {
        let stop = if is_2_27 { ". " } else { "" };
        info(&format!("PROFILER/Plugin: Could not find:{missing}{stop}"));
    }
    None
}

/// A path is taken as it is, and so is the name of a library; anything else may be a suffix too.
fn candidates(setting: Option<&str>) -> Vec<Option<String>> {
    let Some(value) = setting else { return vec![Some("libnccl-profiler.so".to_owned())] };
    let is_static = STATIC_PLUGIN.get(..value.len()).is_some_and(|prefix| prefix.eq_ignore_ascii_case(value));
    if is_static {
        return vec![None];
    }
    let is_whole = value.contains('/') || (value.starts_with("lib") && value.ends_with(".so"));
    let suffixed = (!is_whole).then(|| format!("libnccl-profiler-{value}.so"));
    std::iter::once(value.to_owned()).chain(suffixed).map(Some).collect()
}

fn open(file: Option<&str>) -> Result<Library, String> {
    let Some(file) = file else { return Ok(Library::this()) };
    // SAFETY: the user names this library to be loaded into the process; its initialisers run as for any dlopen.
    let opened = unsafe { Library::open(Some(Path::new(file)), RTLD_NOW | RTLD_LOCAL) };
    opened.map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        cause.unwrap_or_else(|| error.to_string())
    })
}

/// The newest table of the interface that NCCL of this version tries; without the faithful mode, all are.
fn plugin(library: Library, file: Option<&str>, nccl: Option<Version>) -> Option<Plugin> {
    let newest = match nccl {
        Some(Version::V2_27) => 4,
        Some(Version::V2_28) => 5,
        Some(Version::V2_30) => 6,
        Some(Version::V2_32) | None => NEWEST,
    };
    let is_2_27 = nccl == Some(Version::V2_27);
    let known = (1..).zip(&SYMBOLS[..newest as usize]).collect::<Vec<_>>();
    let found = known.into_iter().rev().find_map(|(interface, symbol)| {
        // SAFETY: by NCCL's interface, the symbol of this name is a table of this version.
        let found = unsafe { library.get::<*const ProfilerVtable>(symbol.to_bytes_with_nul()) };
        if found.is_err() && is_2_27 {
            let stop = if interface == 1 { "." } else { "" };
            info_2_27(&format!("PROFILER/Plugin: failed to find ncclProfiler_v{interface}{stop}"));
        }
        Some((found.ok()?.as_raw_ptr(), interface))
    });
    let Some((symbol, interface)) = found else {
        let said = file.filter(|_| !is_2_27);
        said.iter().for_each(|file| info(&format!("External profiler plugin {file} is unsupported")));
        return None;
    };
    // The address of the symbol is the table itself, not a pointer to it.
    let table: *const ProfilerVtable = symbol.cast();
    // SAFETY: as above; the library is loaded.
    let plugin = unsafe { Plugin::new(table, interface, nccl, library) };
    if is_2_27 {
        info_2_27(&format!("PROFILER/Plugin: loaded {}", plugin.name()));
        return Some(plugin);
    }
    info(&format!("PROFILER/Plugin: Loaded {} (v{interface})", plugin.name()));
    // A plugin that is linked into the process has no path.
    let file = file.unwrap_or_default();
    info(&format!("Successfully loaded external profiler plugin {file}"));
    Some(plugin)
}

fn info(text: &str) {
    log::write(Level::Info, subsystem::INIT, 0, text);
}

fn info_2_27(text: &str) {
    log::write(Level::Info, subsystem::INIT | subsystem::ENV, 0, text);
}
