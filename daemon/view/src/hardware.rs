//! NICs and GPUs of a host, and what goes through them.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use ringscope_api::clock::Timestamp;
use ringscope_api::{self as api, Finding, FindingKind, GpuNic, NicChannels, NicError, NicFlow};
use ringscope_model::{self as model, CommunicatorId, Model, Name, Port, Process};

use super::connections::gid_kind;
use super::text;

/// NICs and GPUs of a host. `processes`: the host's. `in_use`: whether a communicator is. `firing`: findings about the host.
pub(super) fn hardware(
    model: &Model,
    host: &str,
    processes: &[&Process],
    in_use: impl Fn(CommunicatorId) -> bool,
    firing: &[&Finding],
    now: Timestamp,
) -> Option<api::Hardware> {
    let known = model.hardware_of(host)?;
    let through = channels(processes, in_use);
    let is_fresh = known.is_fresh(now);
    let nics = known.nics.iter().map(|(port, known)| nic(port, known, &through, firing, is_fresh));
    let gpus = known.gpus.as_ref().map(|gpus| gpus.iter().map(|one| gpu(one, known)).collect());
    Some(api::Hardware { read_at: known.read_at, nics: nics.collect(), gpus })
}

/// The findings about one port of a NIC.
fn about<'a>(port: &Port, firing: &[&'a Finding]) -> Vec<&'a Finding> {
    let label = port.label();
    let is_about = |finding: &&&Finding| {
        let is_of_nics = finding.finding == FindingKind::NicDegraded || finding.finding.is_about_rdma();
        is_of_nics && finding.nic.as_deref() == Some(&*label)
    };
    firing.iter().filter(is_about).copied().collect()
}

/// Channels of communicators in use, by the name that rings give the NIC.
type Through = BTreeMap<Name, BTreeMap<CommunicatorId, BTreeSet<u32>>>;

fn channels(processes: &[&Process], in_use: impl Fn(CommunicatorId) -> bool) -> Through {
    let mut through = Through::new();
    for rank in processes.iter().flat_map(|process| process.ranks()) {
        let Some(comm) = rank.local.communicator().filter(|comm| in_use(*comm)) else { continue };
        for (channel, place) in rank.facts.rings.iter() {
            for nic in [&place.nic, &place.recv_nic].into_iter().filter(|nic| !nic.is_empty()) {
                through.entry(nic.clone()).or_default().entry(comm).or_default().insert(channel);
            }
        }
    }
    through
}

fn nic(port: &Port, known: &model::Nic, through: &Through, firing: &[&Finding], is_fresh: bool) -> api::Nic {
    let mut channels: BTreeMap<CommunicatorId, BTreeSet<u32>> = BTreeMap::new();
    for (comm, more) in through.iter().filter(|(name, _)| known.is_named(port, name)).flat_map(|(_, of)| of) {
        channels.entry(*comm).or_default().extend(more);
    }
    let findings = about(port, firing);
    let (sent, received) = known.bytes();
    let (sent_per_s, received_per_s) = known.bytes_per_s();
    let payload = known.payload_bytes_per_s();
    api::Nic {
        name: port.nic.to_string(),
        rdma: !port.is_interface,
        port: port.number,
        up: known.up,
        state: known.state.to_string(),
        physical_state: text(&known.physical_state),
        rate_bytes_per_s: known.rate_bits_per_s.map(bytes_per_s),
        link_layer: known.link_layer.to_string(),
        interface: text(&known.interface),
        pci: text(&known.pci),
        numa_node: known.numa_node,
        model: text(&known.model),
        sent_bytes: sent,
        received_bytes: received,
        sent_bytes_per_s: sent_per_s.filter(|_| is_fresh),
        received_bytes_per_s: received_per_s.filter(|_| is_fresh),
        payload_bytes_per_s: payload.map(|(per_s, _)| per_s).filter(|_| is_fresh),
        payload_estimated: payload.is_some_and(|(_, is_estimated)| is_estimated && is_fresh),
        link_downs: known.link_downs(),
        errors: known.errors().map(error).collect(),
        retransmits: known.retransmits().map(error).collect(),
        failures: known.failures().map(error).collect(),
        congestion: known.congestion().map(|count| flow(count, is_fresh)).collect(),
        mtu_bytes: known.mtu_bytes,
        gids: known.gids.iter().map(gid).collect(),
        severity: findings.iter().map(|finding| finding.severity).max(),
        reasons: findings.iter().map(|finding| finding.message.clone()).collect(),
        channels: channels
            .into_iter()
            .map(|(comm, channels)| NicChannels {
                comm: comm.to_string(),
                channels: channels.into_iter().collect(),
            })
            .collect(),
    }
}

fn error(count: model::ErrorCount) -> NicError {
    NicError { name: count.name.to_string(), value: count.value, risen: count.risen }
}

fn flow(count: model::FlowCount, is_fresh: bool) -> NicFlow {
    let per_s = count.per_s.filter(|_| is_fresh);
    NicFlow { name: count.name.to_string(), value: count.value, per_s }
}

fn gid(entry: &model::Gid) -> api::Gid {
    let kind = gid_kind(entry.kind);
    api::Gid { index: entry.index, gid: entry.text(), kind, interface: text(&entry.interface) }
}

/// Of bits.
#[expect(clippy::cast_precision_loss, reason = "no link has 2^53 bits per second")]
#[must_use]
pub fn bytes_per_s(bits_per_s: u64) -> f64 {
    bits_per_s as f64 / 8.0
}

fn gpu(known: &model::Gpu, hardware: &model::Hardware) -> api::Gpu {
    let mut nics: Vec<(Distance, GpuNic)> = Vec::new();
    for (port, nic) in &hardware.nics {
        let is_of_interest =
            !nic.is_missing && !nic.pci.is_empty() && (!port.is_interface || !hardware.has_rdma());
        if is_of_interest && !nics.iter().any(|(_, other)| *other.nic == *port.nic) {
            let distance = Distance::between(&Place::of_gpu(known), &Place::of_nic(nic));
            nics.push((distance, GpuNic { nic: port.nic.to_string(), distance: distance.word().to_owned() }));
        }
    }
    nics.sort_by_key(|(distance, _)| *distance);
    api::Gpu {
        index: known.index,
        name: text(&known.name),
        uuid: text(&known.uuid),
        pci: known.pci.to_string(),
        numa_node: known.numa_node,
        memory_bytes: known.memory_bytes,
        nics: nics.into_iter().map(|(_, nic)| nic).collect(),
    }
}

/// Where a PCI device is.
struct Place<'a> {
    address: &'a str,
    /// Bridges above it, from the root complex downwards.
    bridges: &'a [Name],
    numa_node: Option<u32>,
}

impl<'a> Place<'a> {
    fn of_gpu(gpu: &'a model::Gpu) -> Self {
        Self { address: &gpu.pci, bridges: &gpu.pci_path, numa_node: gpu.numa_node }
    }

    fn of_nic(nic: &'a model::Nic) -> Self {
        Self { address: &nic.pci, bridges: &nic.pci_path, numa_node: nic.numa_node }
    }

    /// Domain and bus of the root complex that it hangs under.
    fn root(&self) -> Option<&str> {
        let first = self.bridges.first().map_or(self.address, |bridge| &**bridge);
        first.rsplit_once(':').map(|(bus, _)| bus)
    }
}

/// As `nvidia-smi topo -m` tells distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Distance {
    Pix,
    Pxb,
    Phb,
    Node,
    Sys,
}

impl Distance {
    /// A switch is two bridges, one upwards and one down to each device: below the last one that both share, a device of
    /// the same switch has one more at most.
    fn between(one: &Place<'_>, other: &Place<'_>) -> Self {
        let common = one.bridges.iter().zip(other.bridges).take_while(|(one, other)| one == other).count();
        let deepest = one.bridges.len().max(other.bridges.len()) - common;
        let same_numa_node = one.numa_node.is_some() && one.numa_node == other.numa_node;
        match (common > 0, deepest <= 1) {
            (true, true) => Self::Pix,
            (true, false) => Self::Pxb,
            _ if one.root().is_some() && one.root() == other.root() => Self::Phb,
            _ if same_numa_node => Self::Node,
            _ => Self::Sys,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::Phb => "PHB",
            Self::Node => "NODE",
            Self::Sys => "SYS",
        }
    }
}
