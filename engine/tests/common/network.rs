//! Hosts as network namespaces of a test's own. The kernel ends them with the test's inner process, and that with the
//! outer one, so that nothing is left behind whatever happens.

#![allow(clippy::print_stdout, reason = "skipped tests say so, and measured ones what they measured")]

use std::path::Path;
use std::process::Command;

use super::folder;

/// NICs of each host.
pub(crate) const NICS: usize = 2;

/// The death of the test is handed on; what hangs is killed.
const CONFINE: [&str; 15] = [
    "-s",
    "KILL",
    "400",
    "setpriv",
    "--pdeathsig",
    "KILL",
    "unshare",
    "--mount",
    "--net",
    "--pid",
    "--fork",
    "--kill-child=KILL",
    "--mount-proc",
    "sh",
    "-c",
];
/// Fresh folders for the names of namespaces and of shared memory.
const MOUNT: &str = "mount -t tmpfs tmpfs /run && mkdir /run/netns && \
    mount -t tmpfs -o size=64k tmpfs /dev/shm && ip link set lo up && exec \"$@\"";
/// What the tests need of the kernel.
const PROBE: &str = "ip link add probe0 type bridge && ip netns add probe && \
    ip link add probe1 type veth peer name probe2 netns probe && ip netns exec probe nft add table inet probe";
/// Set for the inner process.
const INSIDE: &str = "RSCCL_TEST_INSIDE";

/// Runs the test `name` of this program again with a network, processes and mounts of its own, where `body` is run. Skipped
/// with the reason where that is not allowed; with `CI` set, that is a failure.
pub(crate) fn confined(name: &str, body: impl FnOnce()) {
    if variable(INSIDE).is_some() {
        return body();
    }
    let probe =
        confine().args(["sh", "-c", PROBE]).output().expect("timeout is missing: apt-get install coreutils");
    if !probe.status.success() {
        let reason = String::from_utf8_lossy(&probe.stderr);
        assert!(variable("CI").is_none(), "CI must run {name}: {reason}");
        println!(
            "{name} skipped: namespaces need root, iproute2, nftables and util-linux: {}",
            reason.trim()
        );
        return;
    }
    let own = std::env::current_exe().unwrap();
    let mut inside = confine();
    inside.arg(own).args([name, "--exact", "--nocapture"]).env(INSIDE, "1").env("TMPDIR", folder(name));
    let output = inside.output().unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("1 passed"), "{name}: {}\n{said}", output.status);
    print!("{said}");
}

/// Hosts with [`NICS`] NICs each, one bridge per rail between them.
pub(crate) fn build(n_hosts: usize) {
    for rail in 0..NICS {
        sh(&format!("ip link add rail{rail} type bridge && ip link set rail{rail} up"));
    }
    for host in 0..n_hosts {
        sh(&format!("ip netns add host{host} && ip -n host{host} link set lo up"));
        for rail in 0..NICS {
            let (port, nic) = (format!("h{host}r{rail}"), format!("nic{rail}"));
            sh(&format!(
                "ip link add {port} type veth peer name {nic} netns host{host} && \
                 ip link set {port} master rail{rail} && ip link set {port} up && \
                 ip -n host{host} addr add {}/24 dev {nic} && ip -n host{host} link set {nic} up",
                address(host, rail)
            ));
        }
    }
}

/// Address of a NIC.
pub(crate) fn address(host: usize, rail: usize) -> String {
    format!("10.200.{rail}.{}", host + 1)
}

/// `program` on a host.
pub(crate) fn command_on(host: usize, program: &Path) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &format!("host{host}")]).arg(program);
    let nics = (0..NICS).map(|rail| format!("nic{rail}={}", address(host, rail))).collect::<Vec<_>>();
    command.env("RSCCL_HOST", format!("host-{host}")).env("RSCCL_NICS", nics.join(","));
    command
}

/// What a command of the shell says; it must succeed.
pub(crate) fn sh(script: &str) -> String {
    let output = Command::new("sh").args(["-ec", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn confine() -> Command {
    let mut command = Command::new("timeout");
    command.args(CONFINE).args([MOUNT, "confined"]);
    command
}

#[expect(clippy::disallowed_methods, reason = "the settings of this test")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
