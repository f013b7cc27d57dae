//! What the environment says. The only place that reads it, once per segment.

#![expect(clippy::disallowed_methods, reason = "this is the module that reads the environment")]
#![expect(unsafe_code, reason = "takes variables away")]

use std::env::var_os;
use std::ffi::OsString;
use std::path::PathBuf;

use ringscope_wire::launch::Launch;
use ringscope_wire::segment::layout::{LEVEL_CHANNELS, LEVEL_COUNTERS, LEVEL_EVENTS, LEVEL_STEPS};
use ringscope_wire::settings::{LENT_LEVEL, LENT_SUBSYSTEMS};

/// Where segments lie if `RINGSCOPE_DIR` does not say: memory, not disk, and shared with the agent.
pub(super) const DEFAULT_DIR: &str = "/dev/shm/ringscope";

/// What all segments of a folder may take, if `RINGSCOPE_BUDGET_MIB` does not say: 512 processes with some communicators
/// each. Never more than a quarter of the file system.
const DEFAULT_BUDGET_MIB: u64 = 256;

/// The settings of one process. Empty texts and `None` mean: not said.
pub(crate) struct Config {
    /// Folder for the segment.
    pub(crate) dir: PathBuf,
    /// What all segments of the folder may take.
    pub(crate) budget_bytes: u64,
    pub(crate) launch: Launch,
    pub(crate) run_id: String,
    pub(crate) log_file: String,
    /// How much to ask the library for at start: one of `layout::LEVEL_*`.
    pub(crate) level: u32,
    /// Whether children share their parent's channels, where that is decided over the program's configuration: splits,
    /// shrinks.
    pub(crate) shares_of_children: [Option<bool>; 2],
}

impl Config {
    pub(crate) fn from_env() -> Self {
        Self {
            dir: var_os("RINGSCOPE_DIR")
                .filter(|dir| !dir.is_empty())
                .map_or(DEFAULT_DIR.into(), PathBuf::from),
            budget_bytes: budget_bytes(),
            launch: Launch::of(&|name| var_os(name).map(|value| value.to_string_lossy().into_owned())),
            run_id: text("RINGSCOPE_RUN_ID"),
            log_file: text("NCCL_DEBUG_FILE"),
            level: level(),
            shares_of_children: shares_of_children(),
        }
    }
}

/// As NCCL itself reads it, once, at the first communicator.
fn shares_of_children() -> [Option<bool>; 2] {
    ["NCCL_COMM_SPLIT_SHARE_RESOURCES", "NCCL_COMM_SHRINK_SHARE_RESOURCES"].map(|name| {
        text(name).trim().parse::<i32>().ok().filter(|number| *number >= 0).map(|number| number != 0)
    })
}

/// Takes back the log that `ringscope env` has lent (`daemon/src/run/lent_log.rs`), where the user has said something of his own
/// meanwhile: he asked for lines that he would never see. Before the library reads any of it, which it does once.
///
/// What may happen: before glibc 2.41 `unsetenv` moves the later pointers of `environ` down by one, so that a thread that calls
/// `getenv` in just that moment may miss a variable that is there, once. Nothing is freed or written into, so nobody reads what is
/// gone, and no value is ever half of another. That is borne because it is rare and short: it is done once in a process, at
/// the first call of the library (which reads its own variables after it, on this thread), and only where the user has
/// set one of the three variables after `ringscope env` had lent a log. Otherwise nothing is taken away.
pub(super) fn take_back_lent_log() {
    let lent = text("RINGSCOPE_LENT_LOG");
    if lent.is_empty() {
        return;
    }
    let parts =
        [("NCCL_DEBUG", LENT_LEVEL), ("NCCL_DEBUG_SUBSYS", LENT_SUBSYSTEMS), ("NCCL_DEBUG_FILE", &*lent)];
    let is_lent = |(name, value): &(&str, &str)| text(name) == *value;
    if parts.iter().all(is_lent) {
        return;
    }
    for (name, _) in parts.iter().filter(|part| is_lent(part)) {
        // SAFETY: `setenv` and `unsetenv` of other threads wait for glibc's lock. `getenv` takes none before 2.41: it reads
        // pointers that are whole, to strings that nobody frees, and at worst passes over one that is just being moved.
        unsafe { std::env::remove_var(name) };
    }
}

/// The profiler plugin that the program had configured before the collector took its place, as
/// `NCCL_PROFILER_PLUGIN` named it.
pub(crate) fn chained_plugin() -> Option<OsString> {
    var_os("RINGSCOPE_CHAIN_PLUGIN").filter(|plugin| !plugin.is_empty())
}

/// The least that gives counters, unless more is asked for.
fn level() -> u32 {
    match text("RINGSCOPE_LEVEL").trim() {
        "channels" => LEVEL_CHANNELS,
        "steps" => LEVEL_STEPS,
        "events" => LEVEL_EVENTS,
        _ => LEVEL_COUNTERS,
    }
}

fn budget_bytes() -> u64 {
    text("RINGSCOPE_BUDGET_MIB").trim().parse().unwrap_or(DEFAULT_BUDGET_MIB).saturating_mul(1 << 20)
}

fn text(name: &str) -> String {
    var_os(name).map(|value| value.to_string_lossy().into_owned()).unwrap_or_default()
}
