//! Namespaces of the rig's own. The kernel ends them with their last process, and every process in them with the first:
//! so Ctrl-C, a crash and SIGKILL all leave nothing behind, neither interfaces nor shared memory.

use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};

use super::stage::{self, Build, With};
use crate::tools;

/// How an attempt to enter went.
#[derive(Debug)]
pub(crate) enum Entry {
    /// The run inside is over.
    Ended(ExitCode),
    /// The kernel, or who runs this machine, does not let us.
    NotAllowed(String),
}

/// New mounts, network and processes. The outer `setpriv` hands on the death of this process as SIGKILL, `unshare` that
/// of itself, and with the first process inside all others end.
const UNSHARE: [&str; 10] = [
    "--pdeathsig",
    "KILL",
    "unshare",
    "--mount",
    "--net",
    "--pid",
    "--fork",
    "--kill-child=KILL",
    "--mount-proc",
    "--",
];

/// Fresh folders for names of network namespaces and for shared memory, which end with the mounts.
const MOUNT: &str =
    "mount -t tmpfs tmpfs /run && mkdir /run/netns && mount -t tmpfs tmpfs /dev/shm && exec \"$@\"";

/// What the rig needs of the kernel, tried once.
const PROBE: &str = "ip link set lo up && ip link add probe0 type bridge && ip netns add probe && \
    ip link add probe1 type veth peer name probe2 netns probe && \
    tc qdisc add dev probe1 root tbf rate 1mbit burst 32kb limit 32kb && ip netns exec probe true";

/// Runs this program again inside, with `words` as the arguments of `rig`.
pub(crate) fn enter(words: &[String], build: Build, with: With) -> Result<Entry> {
    tools::ensure(&[tools::IP, tools::NFT, tools::UNSHARE, tools::CC])?;
    if let Some(reason) = refusal()? {
        return Ok(Entry::NotAllowed(reason));
    }
    let programs = stage::build(build, with)?;
    let own = own_program()?;
    let mut inside = confined(&[own.as_str(), "rig"]);
    let status =
        inside.args(words).arg("--inside").arg(&programs).status().context("cannot start setpriv")?;
    Ok(Entry::Ended(match status.code() {
        Some(0) => ExitCode::SUCCESS,
        Some(_) => ExitCode::FAILURE,
        None => bail!("the run inside ended with {status}"),
    }))
}

/// Where this program lies. A build of the whole workspace may have linked it anew while it ran: then the kernel adds a
/// word to the name of the old file, and the new one is under the same name.
fn own_program() -> Result<String> {
    let own = std::env::current_exe().context("finding this program")?.display().to_string();
    Ok(own.strip_suffix(" (deleted)").unwrap_or(&own).to_owned())
}

/// Whether a skipped run is a failure.
#[expect(clippy::disallowed_methods, reason = "what CI systems set for all that runs in them")]
pub(crate) fn is_required() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty())
}

/// Why it cannot be done here.
fn refusal() -> Result<Option<String>> {
    let output = confined(&["sh", "-c", PROBE]).output().context("cannot start setpriv")?;
    if output.status.success() {
        return Ok(None);
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let reason = words.lines().next().unwrap_or("namespaces are not allowed");
    Ok(Some(format!("network namespaces are not allowed here ({reason}); they need root or CAP_SYS_ADMIN")))
}

fn confined(command: &[&str]) -> Command {
    let mut setpriv = Command::new("setpriv");
    setpriv.args(UNSHARE).args(["sh", "-c", MOUNT, "rig"]).args(command);
    setpriv
}

/// How a person enters a host while it stands.
pub(crate) fn entrance(host: &str) -> String {
    format!("nsenter -t $(pgrep -n -f 'xtask rig .*--inside') -m -p -n nsenter --net=/run/netns/{host} bash")
}
