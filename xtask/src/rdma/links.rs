//! A guest's links: up and down, impaired, and what its RDMA device counts.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::network::{DEVICE, Link};
use super::pair::Guest;
use crate::clock::eventually;

/// A command that only looks or sets.
const QUICK: Duration = Duration::from_secs(60);
/// For a port to follow its NIC, or a server to listen.
const SETTLE: Duration = Duration::from_secs(60);

impl Guest {
    /// Sets its end of a link up or down, as an administrator does.
    pub(crate) fn set_link(&self, link: Link, up: bool) -> Result<()> {
        let state = if up { "up" } else { "down" };
        self.run(&format!("ip link set {} {state}", link.nic()), QUICK)?.ok().map(drop)
    }

    /// Impairs what it sends on a link, by `tc`'s words: "loss 1%", "delay 2ms", "delay 2ms reorder 20%", "rate 100mbit".
    pub(crate) fn set_netem(&self, link: Link, words: &str) -> Result<()> {
        self.run(&format!("tc qdisc replace dev {} root netem {words}", link.nic()), QUICK)?.ok().map(drop)
    }

    /// Impairs it no more.
    pub(crate) fn clear_netem(&self, link: Link) -> Result<()> {
        let command = format!("tc qdisc del dev {} root", link.nic());
        self.run(&command, QUICK)?.ok().map(drop)
    }

    /// What its RDMA device counts: `ports/1/hw_counters`, by name.
    pub(crate) fn counters(&self) -> Result<BTreeMap<String, u64>> {
        let folder = format!("/sys/class/infiniband/{DEVICE}/ports/1/hw_counters");
        let told = self.run(&format!("cd {folder} && grep -H '' *"), QUICK)?.ok()?.text();
        let counter = |line: &str| {
            let (name, value) = line.split_once(':').with_context(|| format!("no counter: {line}"))?;
            Ok((name.to_owned(), value.trim().parse().with_context(|| format!("no number: {line}"))?))
        };
        // How old the kernel's own copy may be, no counter.
        told.lines().filter(|line| !line.starts_with("lifespan:")).map(counter).collect()
    }

    /// The state of its RDMA port, as "ACTIVE".
    pub(crate) fn port_state(&self) -> Result<String> {
        let told =
            self.run(&format!("cat /sys/class/infiniband/{DEVICE}/ports/1/state"), QUICK)?.ok()?.text();
        Ok(told.trim().rsplit(' ').next().unwrap_or_default().to_owned())
    }

    /// Waits until its RDMA port is in that state.
    pub(crate) fn wait_for_port(&self, state: &str) -> Result<()> {
        eventually(&format!("the RDMA port of {} {state}", self.name()), SETTLE, || {
            Ok((self.port_state()? == state).then_some(()))
        })
    }

    /// Index of the GID that is its IPv4 address; other indices come and go with addresses.
    pub(crate) fn gid_index(&self) -> Result<u32> {
        let [a, b, c, d] = [10, 9, 0, self.number()];
        let gid = format!("0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}");
        let command = format!("cd /sys/class/infiniband/{DEVICE}/ports/1/gids && grep -lx {gid} *");
        let told = self.run(&command, QUICK)?.ok()?.text();
        told.lines().next().unwrap_or_default().parse().with_context(|| format!("no GID {gid}: {told:?}"))
    }

    /// Waits until something in it listens on a TCP port.
    pub(crate) fn wait_for_listener(&self, port: u16) -> Result<()> {
        let command = format!(
            "grep -qi ':{port:04x} 0*:0000 0A ' /proc/net/tcp || grep -qi ':{port:04x} 0*:0000 0A ' /proc/net/tcp6"
        );
        eventually(&format!("{} listens on port {port}", self.name()), SETTLE, || {
            Ok((self.run(&command, QUICK)?.code == 0).then_some(()))
        })
    }
}

/// What was counted between two looks, but for what was not.
pub(crate) fn moved(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let since = |(name, value): (&String, &u64)| {
        let n = value.saturating_sub(before.get(name).copied().unwrap_or_default());
        (n > 0).then(|| (name.clone(), n))
    };
    after.iter().filter_map(since).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_moved_is_told() {
        let counters =
            |pairs: &[(&str, u64)]| pairs.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        let moved = moved(&counters(&[("a", 1), ("b", 2)]), &counters(&[("a", 1), ("b", 5), ("new", 7)]));
        assert_eq!(moved, counters(&[("b", 3), ("new", 7)]));
    }
}
