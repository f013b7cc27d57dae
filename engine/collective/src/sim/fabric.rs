//! The fabric: who shares which port with whom, and what a byte costs there.
//!
//! A transfer leaves through one port, travels for the path's latency, and enters through another. Each port carries
//! one transfer at a time, in the order in which they ask; what waits for a port waits outside, so a busy receiver never
//! holds up the sender's port. Ranks of one host meet at ports of their own (one out, one in, for each rank); ranks of
//! different hosts meet at NICs, which the ranks and channels of a host share in turn.

use super::time::{Picos, duration, picos_per_byte};

/// What one kind of port costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// From the last byte out to the last byte in, over an idle fabric.
    pub latency: std::time::Duration,
    /// Bytes per second of a port, in each direction.
    pub bytes_per_s: f64,
}

/// Hosts, ranks and what joins them.
#[derive(Clone, Debug, PartialEq)]
pub struct Fabric {
    /// The host of each rank; hosts are numbered from 0.
    pub node_of: Vec<usize>,
    /// NICs of each host. Rank number `i` of a host uses NIC `(i + channel) mod nics_per_host`.
    pub nics_per_host: usize,
    /// Between hosts.
    pub nic: Link,
    /// Inside a host.
    pub intra: Link,
    /// What one rank reduces, in bytes of the incoming operand per second; infinite if that costs nothing.
    pub reduced_bytes_per_s: f64,
    /// NICs that are slower or faster than the others: host, NIC, bytes per second.
    pub odd_nics: Vec<(usize, usize, f64)>,
}

/// The way from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) out: usize,
    pub(super) into: usize,
    pub(super) latency: Picos,
}

/// One direction of a link or NIC.
#[derive(Clone, Debug)]
pub(super) struct Port {
    picos_per_byte: f64,
    free_at: Picos,
    asked_at: Picos,
    /// Bytes that went through.
    pub(super) bytes: u64,
    /// How long it was in use.
    pub(super) busy: Picos,
}

/// The ports of a fabric while a simulation runs.
#[derive(Debug)]
pub(super) struct Ports {
    ports: Vec<Port>,
    /// The place of each rank among those of its host.
    local: Vec<usize>,
    /// Whether each port was asked in order of time so far, never twice at once: only then is what it answered right.
    pub(super) in_order: bool,
}

impl Fabric {
    /// `n_ranks` in blocks of equal size (the last ones smaller) over `n_hosts`, with one NIC each.
    pub fn even(n_ranks: usize, n_hosts: usize, nic: Link, intra: Link) -> Self {
        let per_host = n_ranks.div_ceil(n_hosts.max(1)).max(1);
        Self {
            node_of: (0..n_ranks).map(|rank| rank / per_host).collect(),
            nics_per_host: 1,
            nic,
            intra,
            reduced_bytes_per_s: f64::INFINITY,
            odd_nics: Vec::new(),
        }
    }

    /// Ranks.
    pub fn n_ranks(&self) -> usize {
        self.node_of.len()
    }

    /// Hosts.
    pub fn n_hosts(&self) -> usize {
        self.node_of.iter().max().map_or(0, |last| last + 1)
    }

    /// All ports, idle.
    pub(super) fn ports(&self) -> Ports {
        let mut seen = vec![0; self.n_hosts()];
        let mut next = |node: usize| {
            seen[node] += 1;
            seen[node] - 1
        };
        let local = self.node_of.iter().map(|&node| next(node)).collect();
        let intra = std::iter::repeat_n(picos_per_byte(self.intra.bytes_per_s), 2 * self.n_ranks());
        let nics = (0..2 * self.n_hosts() * self.nics_per_host).map(|index| self.nic_cost(index / 2));
        Ports { ports: intra.chain(nics).map(Port::idle).collect(), local, in_order: true }
    }

    /// The way from `from` to `to` on a channel.
    pub(super) fn path(&self, ports: &Ports, from: usize, to: usize, channel: usize) -> Path {
        if self.node_of[from] == self.node_of[to] {
            return Path { out: 2 * from, into: 2 * to + 1, latency: picos(self.intra.latency) };
        }
        let nic = |rank: usize| {
            let turn = (ports.local[rank] + channel) % self.nics_per_host;
            2 * (self.n_ranks() + self.node_of[rank] * self.nics_per_host + turn)
        };
        Path { out: nic(from), into: nic(to) + 1, latency: picos(self.nic.latency) }
    }

    /// Whether a port is a NIC's.
    pub(super) fn is_nic(&self, port: usize) -> bool {
        port / 2 >= self.n_ranks()
    }

    /// A port's name in a report.
    pub(super) fn port_name(&self, port: usize) -> String {
        let direction = if port.is_multiple_of(2) { "out" } else { "in" };
        match (port / 2).checked_sub(self.n_ranks()) {
            None => format!("rank {} {direction}", port / 2),
            Some(nic) => {
                format!("host {} nic {} {direction}", nic / self.nics_per_host, nic % self.nics_per_host)
            }
        }
    }

    fn nic_cost(&self, index: usize) -> f64 {
        let (host, nic) = (index / self.nics_per_host, index % self.nics_per_host);
        let odd = self.odd_nics.iter().find(|odd| (odd.0, odd.1) == (host, nic));
        picos_per_byte(odd.map_or(self.nic.bytes_per_s, |odd| odd.2))
    }
}

impl Ports {
    /// Sends what may go from `at` on: when the last byte has left, and when the other port is asked to take it.
    pub(super) fn leave(&mut self, path: Path, bytes: u64, at: Picos) -> (Picos, Picos) {
        let left = self.occupy(path.out, bytes, at);
        let cost = |port: usize| duration(bytes, self.ports[port].picos_per_byte);
        // A faster port need not begin with the first byte to end with the last one.
        (left, left + path.latency - cost(path.out).min(cost(path.into)))
    }

    /// Receives: when the last byte is in.
    pub(super) fn enter(&mut self, path: Path, bytes: u64, asked: Picos, left: Picos) -> Picos {
        self.occupy(path.into, bytes, asked).max(left + path.latency)
    }

    /// Every port that carried something.
    pub(super) fn used(&self) -> impl Iterator<Item = (usize, &Port)> {
        self.ports.iter().enumerate().filter(|(_, port)| port.bytes > 0)
    }

    fn occupy(&mut self, index: usize, bytes: u64, at: Picos) -> Picos {
        let port = &mut self.ports[index];
        let cost = duration(bytes, port.picos_per_byte);
        // Of two that ask at once, the order of asking here says nothing about who is served first.
        self.in_order &= at > port.asked_at || port.bytes == 0 || (at == port.asked_at && cost == 0);
        port.asked_at = at;
        port.free_at = port.free_at.max(at) + cost;
        port.bytes += bytes;
        port.busy += cost;
        port.free_at
    }
}

impl Port {
    fn idle(picos_per_byte: f64) -> Self {
        Self { picos_per_byte, free_at: 0, asked_at: 0, bytes: 0, busy: 0 }
    }
}

fn picos(wait: std::time::Duration) -> Picos {
    super::time::from_duration(wait)
}
