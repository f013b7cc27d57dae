//! What stages build on this machine for the guests: our libraries, and C programs that drive them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::process::{cargo, command, root, run, target_dir};
use crate::rdma::image::Extras;
use crate::rdma::network::Link;
use crate::rdma::pair::{Guest, Pair};
use crate::rdma::shell::Running;
use crate::tools;

/// The plugin, as NCCL looks for it. Cargo gives a library no name with hyphens.
const PLUGIN: [&str; 2] = ["libnccl_net_ringscope.so", "libnccl-net-ringscope.so"];
/// One of ours that takes memory back too early.
const STALE_PLUGIN: &str = "stale_plugin.so";
/// For a program that takes seconds where nothing is lost.
pub(super) const LIMIT: Duration = Duration::from_secs(150);

/// Before a command of a guest's: 64 KiB of locked memory, and no right to more.
pub(super) const LITTLE_MEMORY: &str =
    "ulimit -l 64; exec setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock env";
/// Before a command of a guest's: four objects of the RDMA device.
pub(super) const FEW_QUEUE_PAIRS: &str = "mkdir -p /tmp/cg; mountpoint -q /tmp/cg || mount -t cgroup2 none /tmp/cg && \
     echo +rdma > /tmp/cg/cgroup.subtree_control && mkdir -p /tmp/cg/few && \
     echo 'rxe0 hca_object=4' > /tmp/cg/few/rdma.max && echo $$ > /tmp/cg/few/cgroup.procs; exec env";

/// Settings of a rank of the engine whose memory becomes stale while it is written to.
pub(super) fn stale(folder: &str) -> String {
    let ours = PLUGIN[1];
    format!("env -u RSCCL_NET NCCL_NET_PLUGIN={folder}/{STALE_PLUGIN} STALE_OF={folder}/{ours}")
}

/// The plugin and the engine, and the programs that call them.
pub(super) fn build() -> Result<Extras> {
    tools::ensure_libclang()?;
    run(&mut cargo(["build", "-p", "ringscope-net", "-p", "ringscope-engine", "--locked"]))?;
    let folder = folder()?;
    let built = target_dir().join("debug");
    copy(&built.join(PLUGIN[0]), &folder.join(PLUGIN[1]))?;
    for name in ["librsccl.so", "ringscope-sumd"] {
        copy(&built.join(name), &folder.join(name))?;
    }
    compile("net/harness.c", "harness", &[])?;
    let here = folder.display().to_string();
    let engine = ["-L", here.as_str(), "-lrsccl", "-lm", "-Wl,-rpath,$ORIGIN"];
    compile("net/stale_plugin.c", STALE_PLUGIN, &["-shared", "-fPIC"])?;
    compile("primitives.c", "primitives", &engine)?;
    compile("rank.c", "rank", &engine)?;
    compile("root.c", "root", &engine)?;
    compile("sum.c", "sum", &engine)?;
    Ok(Extras::default())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::copy(from, to).map(drop).with_context(|| format!("cannot copy {}", from.display()))
}

/// Where what is built lies.
fn folder() -> Result<PathBuf> {
    let folder = target_dir().join("rdma").join("programs");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// Compiles a file of the engine's tests.
fn compile(source: &str, name: &str, arguments: &[&str]) -> Result<()> {
    let engine = root().join("engine");
    let mut cc = command("cc", ["-Wall", "-Wextra", "-Werror", "-O1"]);
    cc.arg("-I").arg(engine.join("include")).arg(engine.join("tests/c").join(source));
    cc.arg("-o").arg(folder()?.join(name)).args(arguments).args(["-ldl", "-pthread"]);
    run(&mut cc)
}

/// Gives the guests what was built: the folder there.
pub(super) fn put(pair: &Pair) -> Result<&'static str> {
    let libraries = [PLUGIN[1], STALE_PLUGIN, "librsccl.so"];
    let programs = ["harness", "primitives", "rank", "root", "sum", "ringscope-sumd"];
    for name in libraries.into_iter().chain(programs) {
        pair.guest(1).put(&folder()?.join(name))?;
    }
    Ok("/share")
}

/// Settings under which the two ends meet on the cable for TCP, and give up a dead path within seconds.
pub(super) fn settings(guest: &Guest) -> String {
    format!("NCCL_SOCKET_IFNAME=tcp0 NCCL_IB_HCA=rxe0 NCCL_IB_TIMEOUT=14 RSCCL_HOST={}", guest.name())
}

/// The same of a rank of the engine. The NIC's name is the device's, so that the log says over what data go; its address is the one
/// for TCP.
pub(super) fn over(guest: &Guest, settings: &str) -> String {
    format!("{} RSCCL_NICS=rxe0={} {settings}", self::settings(guest), Link::Tcp.address(guest.number()))
}

/// The root of a communicator, in guest 1: ended when it is dropped.
pub(super) struct Root {
    _running: Running,
    /// The unique id, in hexadecimal.
    pub(super) id: String,
}

impl Root {
    /// Starts it, under the settings of the ranks.
    pub(super) fn start(pair: &Pair, folder: &str, settings: &str) -> Result<Self> {
        let guest = pair.guest(1);
        let running = guest.spawn(&format!("{} exec {folder}/root", over(guest, settings)))?;
        running.wait_for("\n", LIMIT)?;
        let said = running.said();
        let id = said.trim().strip_prefix("ID ").with_context(|| format!("no unique id: {said}"))?.to_owned();
        Ok(Self { _running: running, id })
    }
}
