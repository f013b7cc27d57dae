//! The lines that need a described machine, in the wording of NCCL and, where that differs, of RCCL (`src/transport/*.cc`,
//! `src/graph/connect.cc`, `src/transport/nvls.cc`, `src/init.cc`; RCCL's by fixtures/logs).

use std::fmt::Write;
use std::net::IpAddr;

use super::lines::{Dialect, Identity, api_name};
use super::subsystem;
use crate::faithful::Version;

/// Nodes that a line of NVLS heads shows.
const HEADS_SHOWN: usize = 20;
/// Bytes of a buffer for NVLS, and buffers of each channel and head (`src/transport/nvls.cc`).
const NVLS_BUFFER: usize = 1 << 20;
const NVLS_STEPS: usize = 2;

/// An end of a connection: a rank, the number of its GPU and its bus id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// The rank.
    pub(crate) rank: usize,
    /// The number of its GPU.
    pub(crate) device: u32,
    /// The bus id of its GPU.
    pub(crate) bus_id: u64,
}

/// What connects two ranks, as it is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// `P2P/CUMEM/read`, whole.
    Memory(&'static str, bool),
    /// `P2P/indirect/3[3]`: over the GPU of this rank.
    Over(End, bool),
    /// `SHM/direct/direct`
    Shared,
    /// `NET/IB/0(3)/GDRDMA/Shared`: the NIC, the rank beside it, whether the GPU's memory is reached, whether the buffer is
    /// shared.
    Net(usize, Option<usize>, bool, bool),
}

/// A connection of a channel; `index` is 0 for collectives, 1 for send and receive.
pub(crate) fn hop(
    identity: &Identity,
    (channel, index): (usize, u8),
    (from, to): (End, End),
    path: &Path,
    direction: &str,
) -> (u64, String) {
    let Identity { version, dialect, handle, n_ranks, .. } = identity;
    let end = |end: End| match dialect {
        Dialect::Nccl => format!("{}[{}]", end.rank, end.device),
        Dialect::Rccl => format!("{}[{:x}]", end.rank, end.bus_id),
    };
    let reads = |reads: bool| if reads { "/read" } else { "" };
    let pair = format!("{} -> {}", end(from), end(to));
    let (subsystem, line) = match path {
        Path::Memory(name, read) => {
            (subsystem::P2P, format!("Channel {channel:02}/{index} : {pair} via P2P/{name}{}", reads(*read)))
        }
        Path::Over(over, read) => {
            let over = end(*over);
            (
                subsystem::P2P,
                format!("Channel {channel:02}/{index} : {pair} via P2P/indirect/{over}{}", reads(*read)),
            )
        }
        Path::Shared => {
            let path = if *version >= Version::V2_30 { "SHM/direct" } else { "SHM/direct/direct" };
            (subsystem::SHM, format!("Channel {channel:02} : {pair} via {path}"))
        }
        Path::Net(device, proxy, gdr, shared) => {
            let proxy = proxy.map(|rank| format!("({rank})")).unwrap_or_default();
            let (gdr, shared) = (if *gdr { "/GDRDMA" } else { "" }, if *shared { "/Shared" } else { "" });
            let path = format!("NET/IB/{device}{proxy}{gdr}{shared}");
            (subsystem::NET, format!("Channel {channel:02}/{index} : {pair} [{direction}] via {path}"))
        }
    };
    let whose = if *dialect == Dialect::Rccl {
        format!(" comm {handle:#x} nRanks {n_ranks:02}")
    } else {
        String::new()
    };
    (subsystem::INIT | subsystem, format!("{line}{whose}"))
}

/// The NICs, each by name, port and whether it is InfiniBand, and the interface of bootstrap.
pub(crate) fn nics<'a>(
    nics: impl Iterator<Item = (&'a str, u32, bool)>,
    (name, address): (&str, IpAddr),
) -> String {
    let mut line = String::from("NET/IB : Using");
    for (index, (name, port, infiniband)) in nics.enumerate() {
        let _ = write!(line, " [{index}]{name}:{port}/{}", if infiniband { "IB" } else { "RoCE" });
    }
    format!("{line} [RO]; OOB {name}:{address}<0>")
}

/// What is said of plugins of networks that are not there.
pub(crate) fn no_plugin(version: Version) -> &'static str {
    // 2.27 leaves a blank for what it does instead.
    if version < Version::V2_28 {
        "NET/Plugin: Could not find: libnccl-net.so. "
    } else {
        "NET/Plugin: Could not find: libnccl-net.so"
    }
}

/// `NVLS multicast support is …`; 2.30 does not tell the channels.
pub(crate) fn multicast(version: Version, device: u32, channels: usize) -> String {
    let not = if channels == 0 { "not " } else { "" };
    let told = if version < Version::V2_30 { format!(" (NVLS_NCHANNELS {channels})") } else { String::new() };
    format!("NVLS multicast support is {not}available on dev {device}{told}")
}

/// The ranks of all nodes that are head `head`.
pub(crate) fn nvls_head(head: usize, ranks: &[usize]) -> String {
    ranks.iter().take(HEADS_SHOWN).fold(format!("NVLS Head {head:2}:"), |mut line, rank| {
        let _ = write!(line, " {rank:2}");
        line
    })
}

/// What NVLS has in memory.
pub(crate) fn nvls_buffers(
    identity: &Identity,
    head: Option<usize>,
    n_heads: usize,
    local_ranks: usize,
    channels: usize,
) -> String {
    let handle = identity.handle;
    let head = head.map_or_else(|| "-1".to_owned(), |head| head.to_string());
    let each = NVLS_BUFFER * NVLS_STEPS * channels;
    format!(
        "NVLS comm {handle:#x} headRank {head} nHeads {n_heads} nvlsRanks {local_ranks} buffSize {NVLS_BUFFER} \
         nvlsPerRankSize {each} nvlsTotalSize {}",
        each * n_heads
    )
}

/// A rank's neighbours on a ring.
pub(crate) fn ring(identity: &Identity, channel: usize, prev: usize, next: usize) -> String {
    let Identity { rank, handle, n_ranks, bus_id, dialect, .. } = identity;
    match dialect {
        Dialect::Nccl => super::lines::ring(channel, prev, *rank, next),
        Dialect::Rccl => format!(
            "Ring {channel} : {prev} -> {rank} -> {next} comm {handle:#x} nRanks {n_ranks:02} busId {bus_id:x}"
        ),
    }
}

/// A place in a tree: the parent and three children.
pub(crate) type TreePlace = (Option<usize>, [Option<usize>; 3]);

fn id(rank: Option<usize>) -> String {
    rank.map_or_else(|| "-1".to_owned(), |rank| rank.to_string())
}

/// A rank's parent and children on each channel.
pub(crate) fn trees(identity: &Identity, places: &[TreePlace]) -> String {
    let Identity { rank, handle, n_ranks, bus_id, dialect, .. } = identity;
    let mut line = String::from("Trees");
    for (channel, (up, down)) in places.iter().enumerate() {
        let _ = write!(line, " [{channel}] {}->{rank}->{}", down.map(id).join("/"), id(*up));
    }
    line.truncate(MAX_TREES);
    if *dialect == Dialect::Rccl {
        let _ = write!(line, " comm {handle:#x} nRanks {n_ranks:02} busId {bus_id:x}");
    }
    line
}

/// Characters of the trees at most, behind the word.
const MAX_TREES: usize = 1022 + "Trees".len();

/// A place between nodes.
pub(crate) fn tree(channel: usize, rank: usize, (up, down): TreePlace) -> String {
    format!("Tree {channel} : {} -> {rank} -> {}", id(up), down.map(id).join("/"))
}

/// The counts: channels of collectives, of NVLS, of send and receive and of those to each peer. NCCL writes the first number
/// again where it says collnet.
pub(crate) fn counts(identity: &Identity, n_nodes: usize, [coll, nvls, p2p, peer]: [usize; 4]) -> String {
    let Identity { handle, n_ranks, dialect, .. } = identity;
    match dialect {
        Dialect::Nccl => format!(
            "{coll} coll channels, {coll} collnet channels, {nvls} nvls channels, {p2p} p2p channels, {peer} p2p channels per peer"
        ),
        Dialect::Rccl => format!(
            "comm:{handle:#x}, nRanks:{n_ranks}, nNodes:{n_nodes}, coll channels:{coll} collnet channels:{coll}, \
             nvls channels:{nvls}, p2p channels:{p2p}, p2p channels per peer:{peer}"
        ),
    }
}

/// `Connected all rings, …`: whether any goes over another GPU to its NIC, and whether all NICs reach the GPUs' memory.
pub(crate) fn connected_rings(proxies: bool, gdr: bool) -> String {
    format!("Connected all rings, use ring PXN {} GDR {}", u8::from(proxies), u8::from(gdr))
}

/// How long the parts of an init took, in seconds: all of it, bootstrap, search and connections.
pub(crate) fn timings(identity: &Identity, [total, bootstrap, graphs, connections]: [f64; 4]) -> String {
    let Identity { api, rank, n_ranks, dialect, .. } = identity;
    let api = api_name(api, *dialect);
    let rest = (total - bootstrap - graphs - connections).max(0.0);
    format!(
        "Init timings - {api}: rank {rank} nranks {n_ranks} total {total:.2} (kernels 0.00, alloc 0.00, bootstrap {bootstrap:.2}, \
         allgathers 0.00, topo 0.00, graphs {graphs:.2}, connections {connections:.2}, rest {rest:.2})"
    )
}

/// What a thread of its own says of a revoke, first and last.
pub(crate) fn revoking(identity: &Identity, (n_nodes, local_rank): (usize, usize)) -> [String; 3] {
    let Identity { handle, rank, n_ranks, device, bus_id, .. } = identity;
    [
        format!(
            "CommRevokeAsync START comm {handle:#x} rank {rank} nRanks {n_ranks} nNodes {n_nodes} localRank {local_rank} cudaDev {device}"
        ),
        format!("CommRevokeAsync END comm {handle:#x} result 0"),
        format!(
            "comm {handle:#x} rank {rank} nRanks {n_ranks} cudaDev {device} busId {bus_id:x} - Revoke COMPLETE, result 0"
        ),
    ]
}

/// The version as RCCL writes it.
pub(crate) fn rccl_version(version: Version, host: &str) -> String {
    format!("RCCL version : {}-rsccl:{}\nHostname     : {host}", version.release(), env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
