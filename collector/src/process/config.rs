//! What the environment says. The only place that reads it, once per segment.

#![expect(clippy::disallowed_methods, reason = "this is the module that reads the environment")]

use std::env::var_os;
use std::ffi::OsString;
use std::path::PathBuf;

use ringscope_wire::segment::layout::{LEVEL_CHANNELS, LEVEL_COUNTERS, LEVEL_EVENTS, LEVEL_STEPS};

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
    pub(crate) host: String,
    pub(crate) job: String,
    pub(crate) run_id: String,
    pub(crate) global_rank: Option<i32>,
    pub(crate) world_size: Option<i32>,
    pub(crate) local_rank: Option<i32>,
    pub(crate) k8s_namespace: String,
    pub(crate) k8s_pod: String,
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
            host: host(),
            job: job(),
            run_id: text("RINGSCOPE_RUN_ID"),
            global_rank: number(&["RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"]),
            world_size: number(&["WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"]),
            local_rank: number(&["LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"]),
            k8s_namespace: text("POD_NAMESPACE"),
            k8s_pod: pod(),
            log_file: text("NCCL_DEBUG_FILE"),
            level: level(),
            shares_of_children: shares_of_children(),
        }
    }
}

/// As NCCL itself reads it, once, at the first communicator.
fn shares_of_children() -> [Option<bool>; 2] {
    ["NCCL_COMM_SPLIT_SHARE_RESOURCES", "NCCL_COMM_SHRINK_SHARE_RESOURCES"]
        .map(|name| number(&[name]).map(|number| number != 0))
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

/// ringscope's engine names its logs by `RSCCL_HOST`: a host that is pretended to it is pretended here too.
fn host() -> String {
    Some(text("RINGSCOPE_HOST")).filter(|host| !host.is_empty()).unwrap_or_else(|| text("RSCCL_HOST"))
}

fn job() -> String {
    let slurm = || Some(text("SLURM_JOB_ID")).filter(|id| !id.is_empty()).map(|id| format!("slurm-{id}"));
    // torchrun says "none" where it was given no --rdzv-id.
    let elastic = || Some(text("TORCHELASTIC_RUN_ID")).filter(|id| !id.is_empty() && id != "none");
    Some(text("RINGSCOPE_JOB"))
        .filter(|job| !job.is_empty())
        .or_else(slurm)
        .or_else(elastic)
        .unwrap_or_else(|| text("JOB_NAME"))
}

/// The host name is the pod's name only inside Kubernetes.
fn pod() -> String {
    let name = text("POD_NAME");
    if name.is_empty() && var_os("KUBERNETES_SERVICE_HOST").is_some() { text("HOSTNAME") } else { name }
}

fn text(name: &str) -> String {
    var_os(name).map(|value| value.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The first of these that holds a number.
fn number(names: &[&str]) -> Option<i32> {
    names.iter().find_map(|name| text(name).trim().parse().ok().filter(|number| *number >= 0))
}
