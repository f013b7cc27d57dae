//! The log, as NCCL writes it: one line, one write; settings latched at the first line.

pub(crate) mod connections;
pub(crate) mod lines;
pub(crate) mod machine;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, OnceLock};

use crate::config::LogSettings;
use crate::faithful::Version;
use crate::file;
use crate::lock::lock;

/// How important a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The version line alone.
    Version,
    /// Warnings.
    Warn,
    /// All that a reader of rings and channels needs.
    Info,
}

/// Bits of NCCL's subsystems.
pub mod subsystem {
    /// Initialisation.
    pub const INIT: u64 = 0x1;
    /// The memory of GPUs.
    pub(crate) const P2P: u64 = 0x4;
    /// Shared memory.
    pub(crate) const SHM: u64 = 0x8;
    /// Networks.
    pub(crate) const NET: u64 = 0x10;
    /// The channel search and the rings.
    pub(crate) const GRAPH: u64 = 0x20;
    /// The choice of algorithms.
    pub(crate) const TUNING: u64 = 0x40;
    /// Settings.
    pub(crate) const ENV: u64 = 0x80;
    /// NVSwitches that reduce.
    pub(crate) const NVLS: u64 = 0x800;
    /// How ranks meet.
    pub(crate) const BOOTSTRAP: u64 = 0x1000;
    /// Profiler plugins.
    pub const PROFILE: u64 = 0x4000;
    /// How communicators end, since 2.30.
    pub(crate) const DESTROY: u64 = 0x10000;
    /// Every subsystem.
    pub const ALL: u64 = u64::MAX;
    /// What NCCL 2.28 logs where nothing is chosen: INIT, BOOTSTRAP, ENV.
    pub(crate) const DEFAULT: u64 = INIT | ENV | BOOTSTRAP;

    const NAMES: [(&str, u64); 18] = [
        ("INIT", INIT),
        ("COLL", 0x2),
        ("P2P", P2P),
        ("SHM", SHM),
        ("NET", NET),
        ("GRAPH", GRAPH),
        ("TUNING", TUNING),
        ("ENV", ENV),
        ("ALLOC", 0x100),
        ("CALL", 0x200),
        ("PROXY", 0x400),
        ("NVLS", NVLS),
        ("BOOTSTRAP", BOOTSTRAP),
        ("REG", 0x2000),
        ("PROFILE", PROFILE),
        ("RAS", 0x8000),
        ("DESTROY", DESTROY),
        ("ALL", ALL),
    ];

    /// From `NCCL_DEBUG_SUBSYS`: names with commas; a leading `^` takes them away from all.
    pub(crate) fn parse(text: &str) -> u64 {
        let (names, inverted) = text.strip_prefix('^').map_or((text, false), |names| (names, true));
        let bit = |name: &str| {
            let found = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.trim()));
            found.map_or(0, |(_, bit)| *bit)
        };
        let chosen = names.split(',').map(bit).fold(0, |mask, bit| mask | bit);
        if inverted { !chosen } else { chosen }
    }
}

struct Logger {
    level: Option<Level>,
    is_level_set: bool,
    subsystems: u64,
    host: String,
    file: Option<Mutex<File>>,
}

static LOGGER: OnceLock<Logger> = OnceLock::new();
/// The NICs that were told of last.
static NICS: Mutex<String> = Mutex::new(String::new());

/// Whether a line of the process's NICs says anything new. NCCL looks for them once in a process; here they are judged anew by
/// each communicator, and what a number means must be known.
pub(crate) fn are_other_nics(line: &str) -> bool {
    let mut last = lock(&NICS);
    let is_other = *last != line;
    line.clone_into(&mut last);
    is_other
}

/// What is written once per process, as NCCL writes its version and its settings.
static WRITTEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
/// The level where `NCCL_DEBUG` is not set.
static DEFAULT_LEVEL: OnceLock<Level> = OnceLock::new();

/// For a program of our own, before its first line.
pub fn warn_by_default() {
    let _ = DEFAULT_LEVEL.set(Level::Warn);
}

/// Whether `text` is asked for the first time in this process.
pub(crate) fn is_first(text: &str) -> bool {
    lock(&WRITTEN).insert(text.to_owned())
}

/// Whether a line of this kind would be written.
pub(crate) fn enabled(level: Level, subsystem: u64) -> bool {
    logger().enabled(level, subsystem)
}

/// Writes one line: `HOST:PID:TID [DEV] NCCL INFO text`.
pub fn write(level: Level, subsystem: u64, device: usize, text: &str) {
    let logger = logger();
    if !logger.enabled(level, subsystem) {
        return;
    }
    let (pid, tid) = (std::process::id(), rustix::thread::gettid().as_raw_nonzero());
    let host = &logger.host;
    let line = match level {
        Level::Version => format!("{text}\n"),
        Level::Warn => format!("\n{host}:{pid}:{tid} [{device}] NCCL WARN {text}\n"),
        Level::Info => format!("{host}:{pid}:{tid} [{device}] NCCL INFO {text}\n"),
    };
    logger.put(line.as_bytes());
}

/// Writes a warning that a user is to see who has not said what to log: to stderr then, for stdout may be the program's result.
pub fn warn(device: usize, text: &str) {
    let logger = logger();
    if logger.is_level_set {
        return write(Level::Warn, subsystem::ALL, device, text);
    }
    let (host, pid) = (&logger.host, std::process::id());
    let line = format!("{host}:{pid} [{device}] WARN {text}\n");
    let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
}

/// The version line: bare at the levels below INFO, as NCCL's `showVersion`.
pub(crate) fn write_version(version: Version, device: usize) {
    let info = enabled(Level::Info, subsystem::ALL);
    write(if info { Level::Info } else { Level::Version }, subsystem::ALL, device, &lines::version(version));
}

/// `%h` and `%p` of a file name.
pub(crate) fn expand(pattern: &str, host: &str) -> String {
    pattern.replace("%h", host).replace("%p", &std::process::id().to_string())
}

fn logger() -> &'static Logger {
    LOGGER.get_or_init(|| Logger::new(&LogSettings::from_env()))
}

impl Logger {
    fn new(settings: &LogSettings) -> Self {
        let level = settings.level.as_deref().and_then(|text| match text.to_ascii_uppercase().as_str() {
            "VERSION" => Some(Level::Version),
            "WARN" => Some(Level::Warn),
            "INFO" | "ABORT" | "TRACE" => Some(Level::Info),
            _ => None,
        });
        let level = level.or_else(|| DEFAULT_LEVEL.get().copied().filter(|_| settings.level.is_none()));
        // A file that cannot be made leaves stdout, as in NCCL.
        let file = settings.file.as_deref().filter(|_| level.is_some_and(|level| level > Level::Version));
        let file = file.and_then(|pattern| file::create(expand(pattern, &settings.host)).ok());
        let subsystems = settings.subsystems.as_deref().map_or(subsystem::DEFAULT, subsystem::parse);
        let is_level_set = settings.level.is_some() || level.is_some();
        Self { level, is_level_set, subsystems, host: settings.host.clone(), file: file.map(Mutex::new) }
    }

    fn enabled(&self, level: Level, subsystem: u64) -> bool {
        self.level.is_some_and(|chosen| level <= chosen)
            && (level < Level::Info || self.subsystems & subsystem != 0)
    }

    fn put(&self, line: &[u8]) {
        let _ = match &self.file {
            Some(file) => lock(file).write_all(line),
            None => rustix::io::write(rustix::stdio::stdout(), line).map(drop).map_err(Into::into),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsystems_are_names_or_all_but_names() {
        assert_eq!(subsystem::parse("INIT,graph"), subsystem::INIT | subsystem::GRAPH);
        assert_eq!(subsystem::parse("^NET"), !subsystem::NET);
    }

    #[test]
    fn info_needs_its_subsystem_and_warnings_do_not() {
        let settings = LogSettings { level: Some("info".to_owned()), ..LogSettings::default() };
        let logger = Logger::new(&settings);
        assert!(logger.enabled(Level::Info, subsystem::INIT));
        assert!(!logger.enabled(Level::Info, subsystem::GRAPH));
        assert!(logger.enabled(Level::Warn, subsystem::GRAPH));
        let unset = Logger::new(&LogSettings::default());
        assert!(!unset.enabled(Level::Warn, subsystem::ALL) && !unset.is_level_set);
    }
}
