//! What the library is told about its log, so that ringscope reads what it needs and the user gets what they asked for.
//!
//! The library writes INFO of INIT, GRAPH and ENV and of what the user named into private files, and [`super::relay`] copies the
//! lines that the user asked for to where they asked. Who asked for nothing gets nothing.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The user's own settings.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inherited<'a> {
    pub(super) level: Option<&'a OsStr>,
    pub(super) subsystems: Option<&'a OsStr>,
    pub(super) file: Option<&'a OsStr>,
}

/// What the command gets.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) level: String,
    pub(super) subsystems: String,
    /// What must be copied, and where to; `None` where nothing has to be.
    pub(super) wish: Option<Wish>,
}

/// What to copy, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    /// `Version`, `Warn`, or `Info` for all levels above.
    pub(super) level: Level,
    /// Subsystems that only ringscope asked for.
    pub(super) without: Vec<String>,
    /// The user's `NCCL_DEBUG_FILE`; standard output if they named none.
    pub(super) file: Option<OsString>,
}

/// The settings for a command whose private logs lie below `dir`; `None` where an outer `ringscope run` has made them
/// already.
pub(super) fn settings(inherited: Inherited<'_>, dir: &Path) -> Option<Settings> {
    let Inherited { level, subsystems, file } = inherited;
    if file.is_some_and(|file| is_private(Path::new(file), dir)) {
        return None;
    }
    let asked = level.and_then(|level| Level::parse(&level.to_string_lossy()));
    let theirs = match subsystems.map(OsStr::to_string_lossy) {
        Some(names) if !names.is_empty() => names.into_owned(),
        _ => DEFAULT_SUBSYSTEMS.to_owned(),
    };
    // Below INFO the subsystems that the user names have no effect.
    let wants_info = matches!(asked, Some(Level::Info | Level::Trace | Level::Abort));
    let subsystems = if wants_info { merged(&theirs) } else { NEEDED.join(",") };
    let level = match asked {
        Some(Level::Trace) => "TRACE",
        Some(Level::Abort) => "ABORT",
        _ => "INFO",
    };
    let file = file.filter(|file| !file.is_empty());
    let wish = asked.map(|level| Wish {
        level: if wants_info { Level::Info } else { level },
        without: if wants_info { not_asked(&theirs) } else { Vec::new() },
        // A process at VERSION never opens the file.
        file: file.filter(|_| level != Level::Version).map(OsStr::to_owned),
    });
    Some(Settings { level: level.to_owned(), subsystems, wish })
}

/// Whether a `NCCL_DEBUG_FILE` is a private one, below the folder of segments.
pub(super) fn is_private(file: &Path, dir: &Path) -> bool {
    let name = file.file_name().unwrap_or_default();
    file.starts_with(dir) && name.as_bytes().starts_with(LOG_PREFIX.as_bytes())
}

/// The name of the private logs of a run in this folder, one per process.
pub(super) fn private(folder: &Path, run_id: &str) -> PathBuf {
    folder.join(format!("{LOG_PREFIX}{run_id}-%h-%p.log"))
}

/// NCCL's levels that say something. Source: `src/debug.cc`, `ncclDebugInit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Level {
    Version,
    Warn,
    Info,
    Abort,
    Trace,
}

impl Level {
    fn parse(text: &str) -> Option<Self> {
        let known = [
            ("VERSION", Self::Version),
            ("WARN", Self::Warn),
            // Between WARN and INFO, from 2.32 on.
            ("ATTN", Self::Warn),
            ("INFO", Self::Info),
            ("ABORT", Self::Abort),
            ("TRACE", Self::Trace),
        ];
        known.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, level)| *level)
    }
}

/// Whether a path means a file and not a stream of the process. Memory that has files lies among the devices.
pub(super) fn is_regular(file: &OsStr) -> bool {
    let is_below = |folder: &str| Path::new(file).starts_with(folder);
    is_below("/dev/shm") || !(is_below("/dev") || is_below("/proc"))
}

/// The user's subsystems and those that are needed. `^A,B` means all but A and B.
fn merged(theirs: &str) -> String {
    let is_needed = |name: &&str| NEEDED.iter().any(|needed| needed.eq_ignore_ascii_case(name));
    if let Some(excluded) = theirs.strip_prefix('^') {
        let excluded: Vec<&str> =
            names(excluded).filter(|name| !is_needed(name) && !name.eq_ignore_ascii_case("ALL")).collect();
        return if excluded.is_empty() { "ALL".to_owned() } else { format!("^{}", excluded.join(",")) };
    }
    names(theirs).filter(|name| !is_needed(name)).fold(NEEDED.join(","), |list, name| list + "," + name)
}

/// Subsystems that the user has not asked for, of those whose lines come anyway.
fn not_asked(theirs: &str) -> Vec<String> {
    let (list, is_inverted) = theirs.strip_prefix('^').map_or((theirs, false), |list| (list, true));
    let is_named = |needed: &str| {
        names(list).any(|name| name.eq_ignore_ascii_case(needed) || name.eq_ignore_ascii_case("ALL"))
    };
    let coming = NEEDED.iter().chain(&SHARED);
    coming.filter(|name| is_named(name) == is_inverted).map(|&name| name.to_owned()).collect()
}

fn names(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// How the names of private logs begin.
pub(super) const LOG_PREFIX: &str = "nccl-";
/// What the rings and channels stand in.
const NEEDED: [&str; 3] = ["INIT", "GRAPH", "ENV"];
/// Subsystems that bring about lines which INIT brings about too.
const SHARED: [&str; 5] = ["NET", "P2P", "SHM", "NVLS", "PROFILE"];
/// What NCCL 2.23 and later log where nothing is chosen; older ones know fewer of these names and ignore the others.
const DEFAULT_SUBSYSTEMS: &str = "INIT,BOOTSTRAP,ENV";

#[cfg(test)]
mod tests {
    use super::*;

    fn check(level: &str, subsystems: &str, file: &str, expected: (&str, &str), wish: Option<&str>) {
        fn text(text: &str) -> Option<&OsStr> {
            Some(OsStr::new(text)).filter(|text| !text.is_empty())
        }
        let inherited = Inherited { level: text(level), subsystems: text(subsystems), file: text(file) };
        let found = settings(inherited, Path::new("/d")).unwrap();
        assert_eq!((found.level.as_str(), found.subsystems.as_str()), expected, "{level} {subsystems}");
        let found = found.wish.map(|wish| {
            let file = wish.file.map_or("-".into(), |file| file.to_string_lossy().into_owned());
            format!("{:?} without {} to {file}", wish.level, wish.without.join("+"))
        });
        assert_eq!(found.as_deref(), wish, "{level} {subsystems} {file}");
    }

    #[test]
    fn what_the_user_asked_for_is_merged_with_what_is_needed() {
        let needed = ("INFO", "INIT,GRAPH,ENV");
        check("", "", "", needed, None);
        check("none", "ALL", "/mine.%p", needed, None);
        check("warn", "COLL", "", needed, Some("Warn without  to -"));
        check("VERSION", "", "/mine.%p", needed, Some("Version without  to -"));
        let with_default = ("INFO", "INIT,GRAPH,ENV,BOOTSTRAP");
        check("INFO", "", "", with_default, Some("Info without GRAPH+NET+P2P+SHM+NVLS+PROFILE to -"));
        check(
            "INFO",
            "",
            "/mine.%h",
            with_default,
            Some("Info without GRAPH+NET+P2P+SHM+NVLS+PROFILE to /mine.%h"),
        );
        let merged = ("INFO", "INIT,GRAPH,ENV,COLL,NET");
        check(
            "Info",
            "coll, NET".to_uppercase().as_str(),
            "",
            merged,
            Some("Info without INIT+GRAPH+ENV+P2P+SHM+NVLS+PROFILE to -"),
        );
        check("INFO", "^GRAPH,NET", "", ("INFO", "^NET"), Some("Info without GRAPH+NET to -"));
        check("INFO", "^INIT", "", ("INFO", "ALL"), Some("Info without INIT to -"));
        check("TRACE", "ALL", "", ("TRACE", "INIT,GRAPH,ENV,ALL"), Some("Info without  to -"));
    }

    #[test]
    fn a_file_per_process_gets_what_it_would_have_got() {
        check("WARN", "", "/mine.%h.%p", ("INFO", "INIT,GRAPH,ENV"), Some("Warn without  to /mine.%h.%p"));
        check(
            "INFO",
            "NET",
            "/mine.%p",
            ("INFO", "INIT,GRAPH,ENV,NET"),
            Some("Info without INIT+GRAPH+ENV+P2P+SHM+NVLS+PROFILE to /mine.%p"),
        );
    }

    #[test]
    fn a_stream_of_the_process_is_no_file() {
        for (path, expected) in [
            ("/dev/stderr", false),
            ("/dev/fd/2", false),
            ("/proc/self/fd/2", false),
            ("/dev/shm/mine", true),
            ("/dev//shm/mine", true),
            ("/dev/shmem", false),
            ("/devices/mine", true),
            ("mine", true),
        ] {
            assert_eq!(is_regular(OsStr::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn what_an_outer_run_has_made_is_left_alone() {
        let private = private(Path::new("/d/logs-7"), "outer");
        for file in [private.as_os_str(), OsStr::new("/d/nccl-outer-%h-%p.log")] {
            let inherited =
                Inherited { level: Some(OsStr::new("INFO")), file: Some(file), ..Inherited::default() };
            assert_eq!(settings(inherited, Path::new("/d")), None);
        }
    }
}
