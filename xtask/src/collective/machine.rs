//! What the figures were taken on.

use std::fs;
use std::process::{Command, Stdio};

use serde::Serialize;

use super::options::Options;

/// The machine.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// The processor's name.
    pub(crate) processor: String,
    /// Its cores.
    pub(crate) cores: usize,
    /// The kernel's release.
    pub(crate) kernel: String,
    /// TCP's congestion control of each namespace in the runs over TCP; none where they run in the host's.
    pub(crate) congestion: Option<String>,
    /// The host's congestion control.
    pub(crate) host_congestion: String,
}

impl Machine {
    /// This one.
    pub(crate) fn this(options: &Options) -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        Self {
            processor: name.map_or_else(|| "unknown processor".to_owned(), |(_, name)| name.to_owned()),
            cores: cores(),
            kernel: read("/proc/sys/kernel/osrelease"),
            congestion: options.congestion.iter().find(|name| can_isolate(name)).cloned(),
            host_congestion: read("/proc/sys/net/ipv4/tcp_congestion_control"),
        }
    }
}

/// Whether a network namespace with this congestion control can be made.
fn can_isolate(congestion: &str) -> bool {
    let mut trial = isolated(congestion, &["true".to_owned()]);
    trial.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// A command in a network namespace of its own, with loopback alone and this congestion control.
pub(crate) fn isolated(congestion: &str, words: &[String]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", ISOLATE, congestion]).args(words);
    command
}

/// `$0` is the congestion control, `$@` the command. The pair of interfaces is for libraries that want one beside
/// loopback to agree on an address; what a host sends to itself goes through loopback all the same.
const ISOLATE: &str = "ip link set lo up \
    && ip link add bench0 type veth peer name bench1 \
    && ip addr add 198.18.0.1/24 dev bench0 && ip link set bench0 up && ip link set bench1 up \
    && echo \"$0\" > /proc/sys/net/ipv4/tcp_congestion_control && exec \"$@\"";

/// Cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
