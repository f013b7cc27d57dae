//! Hosts as network namespaces, each with two NICs: veth pairs whose other ends are in a switch, one bridge per rail. Both
//! ends of a pair send at the link's rate, so each direction has it. A third, unlimited pair carries what ringscope sends,
//! so that the NICs carry the job alone.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// NICs of each host that the job uses.
pub(crate) const NICS: usize = 2;
/// Address of the switch in the network of ringscope.
pub(crate) const DAEMON: &str = "10.200.9.254";
/// Largest packet with all that Ethernet, IP and TCP add, and the payload in it.
pub(crate) const WIRE_PER_PAYLOAD: f64 = 1514.0 / 1448.0;
/// Bytes that may be sent at once beyond the rate: more than the largest packet that a veth hands over (64 KiB).
const BURST_BYTES: u64 = 128 * 1024;
/// Bytes that wait in a link's queue; beyond, packets are dropped and TCP slows down.
const QUEUE_BYTES: u64 = 256 * 1024;

/// The hosts and their switch. Ends with the namespaces of the rig.
#[derive(Debug)]
pub(crate) struct Network {
    n_hosts: usize,
}

impl Network {
    /// `n_hosts` hosts with links of `rate_mbit` 10⁶ bits per second in each direction.
    pub(crate) fn build(n_hosts: usize, rate_mbit: u32) -> Result<Self> {
        let network = Self { n_hosts };
        ip(&["link", "set", "lo", "up"])?;
        for bridge in (0..NICS).map(rail).chain([MANAGEMENT.to_owned()]) {
            ip(&["link", "add", &bridge, "type", "bridge"])?;
            ip(&["link", "set", &bridge, "up"])?;
        }
        ip(&["addr", "add", &format!("{DAEMON}/24"), "dev", MANAGEMENT])?;
        for host in 0..n_hosts {
            network.add_host(host, rate_mbit)?;
        }
        Ok(network)
    }

    fn add_host(&self, host: usize, rate_mbit: u32) -> Result<()> {
        let name = host_name(host);
        ip(&["netns", "add", &name])?;
        ip(&["-n", &name, "link", "set", "lo", "up"])?;
        for index in 0..NICS {
            plug(&name, &nic(index), &port(host, index), &rail(index))?;
            ip(&["-n", &name, "addr", "add", &format!("{}/24", address(host, index)), "dev", &nic(index)])?;
            self.set_nic(host, index, true)?;
            // bbr, some machines' default, measures rates of its own and is off on such short links.
            let network = format!("10.200.{index}.0/24");
            ip(&["-n", &name, "route", "change", &network, "dev", &nic(index), "congctl", "cubic"])?;
            for end in [End::Host, End::Switch] {
                tbf(host, index, end, rate_mbit, "add")?;
            }
        }
        plug(&name, MANAGEMENT, &management_port(host), MANAGEMENT)?;
        ip(&["-n", &name, "addr", "add", &format!("10.200.9.{}/24", host + 1), "dev", MANAGEMENT])?;
        ip(&["-n", &name, "link", "set", MANAGEMENT, "up"])
    }

    /// Sets a NIC up or down, as an administrator does.
    pub(crate) fn set_nic(&self, host: usize, index: usize, up: bool) -> Result<()> {
        ip(&["-n", &host_name(host), "link", "set", &nic(index), if up { "up" } else { "down" }])
    }

    /// Gives what a host sends through a NIC another rate.
    pub(crate) fn set_sending_rate(&self, host: usize, index: usize, rate_mbit: u32) -> Result<()> {
        tbf(host, index, End::Host, rate_mbit, "change")
    }

    /// Gives a NIC another rate, in both directions.
    pub(crate) fn set_rate(&self, host: usize, index: usize, rate_mbit: u32) -> Result<()> {
        [End::Host, End::Switch].into_iter().try_for_each(|end| tbf(host, index, end, rate_mbit, "change"))
    }

    /// A program on a host, which has a name of its own too.
    pub(crate) fn command_on(&self, host: usize, program: &Path) -> Command {
        let name = host_name(host);
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &name, "unshare", "--uts", "sh", "-c", NAMED, &name]);
        command.arg(program).stdin(Stdio::null());
        command
    }

    /// Takes hosts and switch away. The kernel takes a namespace's cables away when it has time, long after the namespace
    /// perhaps; the next switch needs their names at once.
    pub(crate) fn clear(&self) -> Result<()> {
        for host in 0..self.n_hosts {
            let ports = (0..NICS).map(|index| port(host, index)).chain([management_port(host)]);
            ports.into_iter().try_for_each(|port| ip(&["link", "del", &port]))?;
            ip(&["netns", "del", &host_name(host)])?;
        }
        let bridges = (0..NICS).map(rail).chain([MANAGEMENT.to_owned()]);
        bridges.into_iter().try_for_each(|bridge| ip(&["link", "del", &bridge]))
    }

    /// Bytes that a host has sent through a NIC, by the queue's own count: whole packets.
    pub(crate) fn sent_on_wire_bytes(&self, host: usize, index: usize) -> Result<u64> {
        let output = tc(host, End::Host).args(["-s", "-j", "qdisc", "show", "dev", &nic(index)]).output()?;
        let queues: Value = serde_json::from_slice(&output.stdout).context("tc")?;
        queues[0]["bytes"].as_u64().with_context(|| format!("no bytes in {queues}"))
    }

    /// Bytes that all hosts have sent through all NICs.
    pub(crate) fn all_sent_on_wire_bytes(&self) -> Result<u64> {
        let nics = (0..self.n_hosts).flat_map(|host| (0..NICS).map(move |index| (host, index)));
        nics.map(|(host, index)| self.sent_on_wire_bytes(host, index)).sum()
    }
}

/// The two ends of a host's link: what it sends, and what it is sent.
#[derive(Clone, Copy, Debug)]
enum End {
    Host,
    Switch,
}

/// One cable: `name` on the host, `port` in the switch, on `bridge`.
fn plug(host: &str, name: &str, port: &str, bridge: &str) -> Result<()> {
    ip(&["link", "add", port, "type", "veth", "peer", "name", name, "netns", host])?;
    ip(&["link", "set", port, "master", bridge])?;
    ip(&["link", "set", port, "up"])
}

fn tbf(host: usize, index: usize, end: End, rate_mbit: u32, verb: &str) -> Result<()> {
    let device = match end {
        End::Host => nic(index),
        End::Switch => port(host, index),
    };
    let (rate, burst) = (format!("{rate_mbit}mbit"), BURST_BYTES.to_string());
    let limit = QUEUE_BYTES.to_string();
    let limits = ["rate", &rate, "burst", &burst, "limit", &limit];
    run(tc(host, end).args(["qdisc", verb, "dev", &device, "root", "tbf"]).args(limits))
}

fn tc(host: usize, end: End) -> Command {
    let mut tc = Command::new("tc");
    if matches!(end, End::Host) {
        tc.args(["-n", &host_name(host)]);
    }
    tc
}

/// Name of a host and of its namespace.
pub(crate) fn host_name(host: usize) -> String {
    format!("host-{host}")
}

/// Name of a NIC on its host.
pub(crate) fn nic(index: usize) -> String {
    format!("nic{index}")
}

/// Address of a NIC: each rail is a network of its own.
pub(crate) fn address(host: usize, index: usize) -> String {
    format!("10.200.{index}.{}", host + 1)
}

fn rail(index: usize) -> String {
    format!("rail{index}")
}

fn port(host: usize, index: usize) -> String {
    format!("h{host}r{index}")
}

fn management_port(host: usize) -> String {
    format!("{MANAGEMENT}{host}")
}

fn ip(arguments: &[&str]) -> Result<()> {
    run(Command::new("ip").args(arguments))
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// Network of ringscope itself.
const MANAGEMENT: &str = "mgmt";
/// Gives the host its name, then is the program.
const NAMED: &str = "echo \"$0\" > /proc/sys/kernel/hostname && exec \"$@\"";
