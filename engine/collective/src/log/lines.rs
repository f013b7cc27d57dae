//! The log's lines, in the wording of NCCL 2.28 (`src/init.cc`, `src/graph/*.cc`, `src/transport/net.cc`).
//!
//! `busId` is 0 where no machine is described, since a CPU rank has no PCI device; in the rows of the search, a GPU's local id
//! is its rank's index on the node then. The tree's `Pattern 1` line repeats the ring's count, because readers take the lower of both; trees do not
//! depend on the search.

use crate::collective::tree::Family;
use crate::comm::links::{P2P_CHANNEL, Traffic};
use crate::faithful::Version;
use std::fmt::Write;

/// Characters of a rank 0 channel line at most, as in NCCL 2.23+.
const MAX_CHANNEL_LINE: usize = 128;

/// Children that a line of trees shows at least, as in NCCL.
const TREE_ARITY: usize = 3;

/// The version line outside the faithful mode: whole, for those who look for it in the library's file.
const VERSION_LINE: &str = concat!("NCCL version 2.28.9+rsccl", env!("CARGO_PKG_VERSION"));

/// The version.
pub(crate) fn version(version: Version) -> String {
    VERSION_LINE.replace(&Version::default().release(), &version.release())
}

/// A communicator at init, as its lines name it.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The API function.
    pub(crate) api: &'static str,
    /// The value of the `ncclComm_t`.
    pub handle: usize,
    /// This rank.
    pub(crate) rank: usize,
    /// Ranks.
    pub(crate) n_ranks: usize,
    /// The number of this rank's GPU in its host: its index on its node, where no machine is described.
    pub(crate) device: usize,
    /// The bus id of its GPU; 0 where no machine is described.
    pub(crate) bus_id: u64,
    /// The library as which the lines are worded.
    pub(crate) dialect: Dialect,
    /// The communicator's hash.
    pub comm_hash: u64,
    /// The version of NCCL as which the lines are worded.
    pub(crate) version: Version,
    /// For a split: the parent's handle, the parent's count of splits, color and key.
    pub(crate) split: Option<(usize, i32, i32, i32)>,
}

/// A library of which lines are worded as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// NVIDIA's.
    #[default]
    Nccl,
    /// AMD's, where it words them otherwise.
    Rccl,
}

/// `… - Init START` and `… - Init COMPLETE`.
pub(crate) fn init(identity: &Identity, stage: &str) -> String {
    let Identity { api, handle, rank, n_ranks, device, bus_id, comm_hash, version, split, dialect } =
        identity;
    let api = api_name(api, *dialect);
    let newer = *version >= Version::V2_30;
    let before =
        if newer && split.is_none() && stage == "START" { format!("[Rank {rank}] ") } else { String::new() };
    let head = format!(
        "{before}{api} comm {handle:#x} rank {rank} nranks {n_ranks} cudaDev {device} nvmlDev {device} busId {bus_id:x}"
    );
    match split {
        Some((parent, count, color, key)) => {
            let id =
                if *version >= Version::V2_32 { format!(" commId {comm_hash:#x}") } else { String::new() };
            let counted = if newer { "childCount" } else { "splitCount" };
            // So it is up to 2.30.
            let gap = if stage == "START" && *version < Version::V2_32 { "" } else { " " };
            format!(
                "{head}{id} parent {parent:#x} {counted} {count} color {color} key {key}{gap}- Init {stage}"
            )
        }
        None => format!("{head} commId {comm_hash:#x} - Init {stage}"),
    }
}

/// The name of a function as the library's own lines have it.
pub(crate) fn api_name(api: &str, dialect: Dialect) -> String {
    let end = if dialect == Dialect::Rccl { "_impl" } else { "" };
    format!("{api}{end}")
}

/// `… - Destroy COMPLETE` and `… - Abort COMPLETE`.
pub(crate) fn gone(identity: &Identity, how: &str) -> String {
    let Identity { handle, rank, n_ranks, device, bus_id, .. } = identity;
    format!(
        "comm {handle:#x} rank {rank} nranks {n_ranks} cudaDev {device} busId {bus_id:x} - {how} COMPLETE"
    )
}

/// `… - Abort START` and `… - Revoke START`, since 2.28.
pub(crate) fn ending(identity: &Identity, how: &str) -> String {
    let Identity { handle, rank, n_ranks, device, bus_id, .. } = identity;
    format!("comm {handle:#x} rank {rank} nRanks {n_ranks} cudaDev {device} busId {bus_id:x} - {how} START")
}

/// A setting that is set.
pub(crate) fn setting(name: &str, value: &str) -> String {
    format!("{name} set by environment to {value}.")
}

/// A setting as NCCL words it, with a full stop behind numbers only (`src/misc/param.cc`); none for what NCCL does not
/// know. Limits of the channels are told by NCCL's name, since they do what NCCL's do.
pub(crate) fn nccl_setting(name: &str, value: &str, version: Version) -> Option<String> {
    let name = match name {
        // 2.27 says it with the plugin, once that is found (`src/plugin/plugin_open.cc`).
        "NCCL_PROFILER_PLUGIN" if version < Version::V2_28 => return None,
        "RSCCL_MIN_NCHANNELS" => "NCCL_MIN_NCHANNELS",
        "RSCCL_MAX_NCHANNELS" => "NCCL_MAX_NCHANNELS",
        other => Some(other).filter(|name| name.starts_with("NCCL_"))?,
    };
    let stop = if value.trim().parse::<i64>().is_ok() { "." } else { "" };
    Some(format!("{name} set by environment to {value}{stop}"))
}

/// The interface over which ranks meet.
pub(crate) fn bootstrap(name: &str, address: std::net::IpAddr) -> String {
    format!("Bootstrap: Using {name}:{address}<0>")
}

/// The NICs.
pub(crate) fn nics<'a>(nics: impl Iterator<Item = (&'a str, std::net::IpAddr)>) -> String {
    nics.enumerate().fold(String::from("NET/Socket : Using"), |mut line, (index, (name, address))| {
        let _ = write!(line, " [{index}]{name}:{address}<0>");
        line
    })
}

/// Where a rank is, after the gather.
pub(crate) fn place(
    identity: &Identity,
    n_nodes: usize,
    (local_rank, local_ranks): (usize, usize),
) -> String {
    let Identity { handle, rank, n_ranks, .. } = identity;
    format!(
        "comm {handle:#x} rank {rank} nRanks {n_ranks} nNodes {n_nodes} localRanks {local_ranks} localRank {local_rank} MNNVL 0"
    )
}

/// A ring's whole order, from rank 0.
pub(crate) fn channel(channel: usize, channels: usize, order: &[usize]) -> String {
    let mut line = format!("Channel {channel:02}/{channels:02} :");
    let width = order.len().saturating_sub(1).to_string().len();
    let first = order.iter().position(|rank| *rank == 0).unwrap_or(0);
    for rank in order[first..].iter().chain(&order[..first]) {
        let next = format!(" {rank:width$}");
        if line.len() + next.len() > MAX_CHANNEL_LINE - 4 {
            line.push_str(" ...");
            break;
        }
        line.push_str(&next);
    }
    line
}

/// A rank's children and parent in the tree of each channel. Each channel carries both trees, each for a half of the
/// elements; as in NCCL, the first half of the channels shows the first tree.
pub(crate) fn trees(channels: usize, rank: usize, families: &[Family; 2]) -> String {
    let id = |rank: Option<usize>| rank.map_or_else(|| "-1".to_owned(), |rank| rank.to_string());
    (0..channels).fold(String::from("Trees"), |mut line, channel| {
        let family = &families[usize::from(channel >= channels.div_ceil(2))];
        let children = family.children(rank);
        let width = children.len().max(TREE_ARITY);
        let below: Vec<String> = (0..width).map(|index| id(children.get(index).copied())).collect();
        let _ = write!(line, " [{channel}] {}->{rank}->{}", below.join("/"), id(family.parent(rank)));
        line
    })
}

/// A rank's neighbours on a ring.
pub(crate) fn ring(channel: usize, prev: usize, rank: usize, next: usize) -> String {
    format!("Ring {channel:02} : {prev} -> {rank} -> {next}")
}

/// A hop: sender and receiver as (rank, index on its node); by a network and the number of its NIC, or without one through
/// shared memory.
pub(crate) fn hop(
    channel: usize,
    connection: u8,
    from: (usize, usize),
    to: (usize, usize),
    direction: &str,
    nic: Option<(&str, usize)>,
    version: Version,
) -> String {
    let ((sender, sender_device), (receiver, receiver_device)) = (from, to);
    let hop = format!("{sender}[{sender_device}] -> {receiver}[{receiver_device}]");
    match nic {
        Some((network, nic)) => {
            format!("Channel {channel:02}/{connection} : {hop} [{direction}] via NET/{network}/{nic}")
        }
        None if version >= Version::V2_30 => format!("Channel {channel:02} : {hop} via SHM/direct"),
        None => format!("Channel {channel:02} : {hop} via SHM/direct/direct"),
    }
}

/// The counts.
pub(crate) fn counts(channels: usize) -> String {
    format!(
        "{channels} coll channels, 0 collnet channels, 0 nvls channels, 1 p2p channels, 1 p2p channels per peer"
    )
}

/// What a connection has carried by its end; not NCCL's.
pub(crate) fn traffic(rank: usize, traffic: &Traffic) -> String {
    let Traffic { channel, peer, is_send, payload_bytes, parts } = *traffic;
    let (from, to) = if is_send { (rank, peer) } else { (peer, rank) };
    let verb = if is_send { "sent" } else { "received" };
    let channel = if channel == P2P_CHANNEL { "p2p".to_owned() } else { format!("{channel:02}") };
    format!("Traffic channel {channel} : {from} -> {to} {verb} {payload_bytes} bytes in {parts} parts")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(split: Option<(usize, i32, i32, i32)>) -> Identity {
        let api = if split.is_some() { "ncclCommSplit" } else { "ncclCommInitRankConfig" };
        Identity {
            api,
            handle: 0x55aa,
            rank: 1,
            n_ranks: 4,
            device: 1,
            bus_id: 0,
            dialect: Dialect::Nccl,
            comm_hash: 0xabc,
            version: Version::default(),
            split,
        }
    }

    #[test]
    fn lines_read_as_nccl_writes_them() {
        let table = [
            (
                init(&identity(None), "START"),
                "ncclCommInitRankConfig comm 0x55aa rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 0 commId 0xabc - Init START",
            ),
            (
                init(&identity(Some((0x77, 2, 1, 0))), "COMPLETE"),
                "ncclCommSplit comm 0x55aa rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 0 parent 0x77 splitCount 2 color 1 key 0 - Init COMPLETE",
            ),
            (
                place(&identity(None), 2, (1, 2)),
                "comm 0x55aa rank 1 nRanks 4 nNodes 2 localRanks 2 localRank 1 MNNVL 0",
            ),
            (channel(0, 8, &[3, 2, 0, 1]), "Channel 00/08 : 0 1 3 2"),
            (ring(3, 0, 1, 2), "Ring 03 : 0 -> 1 -> 2"),
            (
                hop(0, 0, (1, 1), (2, 0), "send", Some(("Socket", 1)), Version::V2_28),
                "Channel 00/0 : 1[1] -> 2[0] [send] via NET/Socket/1",
            ),
            (
                hop(0, 0, (1, 1), (2, 2), "send", None, Version::V2_28),
                "Channel 00 : 1[1] -> 2[2] via SHM/direct/direct",
            ),
            (
                counts(8),
                "8 coll channels, 0 collnet channels, 0 nvls channels, 1 p2p channels, 1 p2p channels per peer",
            ),
            (setting("RSCCL_MIN_NCHANNELS", "8"), "RSCCL_MIN_NCHANNELS set by environment to 8."),
            (
                gone(&identity(None), "Abort"),
                "comm 0x55aa rank 1 nranks 4 cudaDev 1 busId 0 - Abort COMPLETE",
            ),
        ];
        for (line, expected) in table {
            assert_eq!(line, expected);
        }
    }

    #[test]
    fn each_version_words_its_lines() {
        let of = |version, split| Identity { version, ..identity(split) };
        let split = Some((0x77, 2, 1, 0));
        let table = [
            (
                Version::V2_27,
                "ncclCommInitRankConfig comm 0x55aa",
                "busId 0 parent 0x77 splitCount 2 color",
                "SHM/direct/direct",
            ),
            (
                Version::V2_28,
                "ncclCommInitRankConfig comm 0x55aa",
                "busId 0 parent 0x77 splitCount 2 color",
                "SHM/direct/direct",
            ),
            (
                Version::V2_30,
                "[Rank 1] ncclCommInitRankConfig comm 0x55aa",
                "busId 0 parent 0x77 childCount 2 color",
                "SHM/direct",
            ),
            (
                Version::V2_32,
                "[Rank 1] ncclCommInitRankConfig comm 0x55aa",
                "busId 0 commId 0xabc parent 0x77 childCount 2 color",
                "SHM/direct",
            ),
        ];
        for (version, start, child, path) in table {
            assert!(init(&of(version, None), "START").starts_with(start), "{version:?}");
            assert!(
                init(&of(version, None), "COMPLETE").starts_with("ncclCommInitRankConfig"),
                "{version:?}"
            );
            assert!(init(&of(version, split), "COMPLETE").contains(child), "{version:?}");
            assert!(hop(0, 0, (1, 1), (2, 2), "send", None, version).ends_with(&format!("via {path}")));
        }
        let setting = |name, value| nccl_setting(name, value, Version::V2_28);
        assert_eq!(setting("RSCCL_HOST", "a"), None);
        assert_eq!(setting("NCCL_HOSTID", "a").unwrap(), "NCCL_HOSTID set by environment to a");
        assert_eq!(
            setting("RSCCL_MIN_NCHANNELS", "8").unwrap(),
            "NCCL_MIN_NCHANNELS set by environment to 8."
        );
        let plugin = |version| nccl_setting("NCCL_PROFILER_PLUGIN", "a", version).is_some();
        assert_eq!(Version::ALL.map(plugin), [false, true, true, true]);
    }

    #[test]
    fn nics_are_numbered() {
        let list = [("mlx5_0", "127.0.2.1".parse().unwrap()), ("mlx5_1", "127.0.2.2".parse().unwrap())];
        assert_eq!(
            nics(list.into_iter()),
            "NET/Socket : Using [0]mlx5_0:127.0.2.1<0> [1]mlx5_1:127.0.2.2<0>"
        );
    }

    #[test]
    fn trees_show_children_and_parent() {
        let families = [0, 1].map(|tree| Family::new(tree, 0, &[0, 1, 2, 3]));
        let line = trees(2, 0, &families);
        let shape = |part: &str| {
            part.ends_with("->0->-1") && part.split("->").next().unwrap().matches('/').count() == 2
        };
        let parts: Vec<&str> = line.split_whitespace().collect();
        assert_eq!((parts[0], parts[1], parts[3]), ("Trees", "[0]", "[1]"), "{line}");
        assert!(shape(parts[2]) && shape(parts[4]), "the root has no parent: {line}");
        let both: usize = (1..4).map(|rank| trees(1, rank, &families).matches("->-1").count()).sum();
        assert_eq!(both, 0, "all others have one");
    }

    #[test]
    fn long_channel_lines_are_cut() {
        let line = channel(0, 2, &(0..500).collect::<Vec<_>>());
        assert!(line.len() <= MAX_CHANNEL_LINE && line.ends_with("..."), "{line}");
    }
}
