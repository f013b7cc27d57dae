//! How many channels communicators on the described machines have.

use std::sync::Arc;

use super::*;
use crate::topology::peers::{HostFacts, Placement};
use crate::topology::ranks::Topology;

/// Ranks on hosts, each host by its machine and its number of ranks.
fn described(hosts: &[(&str, usize)], collnet: bool, version: Version) -> Described {
    let mut peers = Vec::new();
    for (host, (machine, n_ranks)) in hosts.iter().enumerate() {
        let told = MachineSpec { machine: (*machine).to_owned(), collnet, nvls: true };
        let placement = Placement { machine: Some(told), ..Placement::default() };
        let facts = Arc::new(HostFacts { host_hash: host as u64, placement, ..HostFacts::default() });
        for _ in 0..*n_ranks {
            peers.push(PeerInfo {
                rank: peers.len(),
                shm: None,
                ports: Vec::new(),
                device: None,
                process: u32::try_from(peers.len()).unwrap(),
                facts: Arc::clone(&facts),
            });
        }
    }
    let hashes: Vec<u64> = peers.iter().map(|peer| peer.host_hash).collect();
    let place = Topology::new(&hashes);
    Described::new(&peers, (&place.nodes, &place.members), version).unwrap().unwrap()
}

fn init(described: &Described) -> Vec<usize> {
    (0..described.n_nodes()).map(|node| described.view(node).init_channels()).collect()
}

fn channels(described: &Described, limits: Limits) -> usize {
    let base = init(described).into_iter().min().unwrap();
    described.sources(base, limits, None).len()
}

/// Known of real ones: 24 and 16 of DGX A100, 24 and 16 of DGX H100.
#[test]
fn channels_are_as_many_as_on_real_machines() {
    type Hosts = &'static [(&'static str, usize)];
    type Row = (Hosts, Version, &'static [usize], usize, (usize, usize));
    let table: [Row; 9] = [
        (&[("dgx-a100", 8)], Version::V2_28, &[12], 24, (32, 32)),
        (&[("dgx-a100", 8), ("dgx-a100", 8)], Version::V2_28, &[8, 8], 16, (16, 2)),
        (&[("dgx-h100", 8)], Version::V2_30, &[12], 24, (32, 32)),
        (&[("dgx-h100", 8), ("dgx-h100", 8)], Version::V2_27, &[8, 8], 16, (16, 2)),
        // Hopper doubles once more what is left below 16: four times what the search found.
        (&[("dgx-h100", 6), ("dgx-h100", 6)], Version::V2_28, &[6, 6], 24, (32, 2)),
        // NVLS has 16 channels, and up to 2.27 the others are as many.
        (&[("dgx-h100", 2), ("dgx-h100", 2)], Version::V2_27, &[4, 4], 16, (16, 2)),
        (&[("dgx-h100", 2), ("dgx-h100", 2)], Version::V2_28, &[4, 4], 8, (8, 2)),
        // AMD's numbers of generations are not NVIDIA's: no rule of Hopper's.
        (&[("mi300x-like", 8), ("mi300x-like", 8)], Version::V2_27, &[7, 7], 14, (16, 2)),
        // The poorest host decides.
        (&[("dgx-a100", 8), ("pcie", 8)], Version::V2_28, &[8, 1], 2, (2, 1)),
    ];
    for (hosts, version, expected, n, p2p) in table {
        let described = described(hosts, false, version);
        assert_eq!(
            (init(&described), channels(&described, Limits::default())),
            (expected.to_vec(), n),
            "{hosts:?}"
        );
        assert_eq!(described.p2p_channels(0, n), p2p, "{hosts:?} {version:?}");
    }
}

#[test]
fn collnet_and_limits_count() {
    let hosts = [("dgx-a100", 8), ("dgx-a100", 8)];
    let with = described(&hosts, true, Version::V2_28);
    assert!(with.has_collnet());
    assert_eq!(channels(&with, Limits::default()), 24, "half of them more");
    let without = described(&hosts, false, Version::V2_28);
    let limits = Limits { max_channels: Some(3), min_channels: Some(8), ..Limits::default() };
    assert_eq!(without.sources(8, limits, None), [0, 1, 2, 0, 1, 2, 0, 1], "copies of the first three");
    assert!(!described(&hosts[..1], true, Version::V2_28).has_collnet(), "one node has no network");
}

/// One host of `machine` with ranks on these GPUs, or else the first ones.
fn host(machine: &str, channels: &[Channel], devices: &[Option<u32>]) -> Result<Option<Described>> {
    let told = MachineSpec { machine: machine.to_owned(), ..MachineSpec::default() };
    let placement = Placement { machine: Some(told), channels: channels.to_vec(), ..Placement::default() };
    let facts = Arc::new(HostFacts { host: "host-1".to_owned(), placement, ..HostFacts::default() });
    let peer = |(rank, device): (usize, &Option<u32>)| PeerInfo {
        rank,
        shm: None,
        ports: Vec::new(),
        device: *device,
        process: 1,
        facts: Arc::clone(&facts),
    };
    let peers: Vec<PeerInfo> = devices.iter().enumerate().map(peer).collect();
    let members: Vec<usize> = (0..peers.len()).collect();
    Described::new(&peers, (&vec![0; peers.len()], &[members]), Version::V2_28)
}

#[test]
fn a_host_has_no_more_ranks_than_gpus() {
    let refused =
        |machine: &str, devices: &[Option<u32>]| host(machine, &[], devices).unwrap_err().to_string();
    let many = refused("pcie", &[None; 9]);
    assert!(many.contains("9 ranks on a host of 8 GPUs"), "{many}");
    let unnumbered =
        r#"<system version="1"><cpu numaid="0"><pci busid="0000:14:00.0" class="0x030200"/></cpu></system>"#;
    let none = refused(unnumbered, &[None]);
    assert!(none.contains("1 ranks on a host of 0 GPUs"), "{none}");
    let twice = refused("pcie", &[Some(1), Some(1)]);
    assert!(
        twice.contains("Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 14000"),
        "{twice}"
    );
}

#[test]
fn a_graph_file_is_of_the_ranks_that_are_there() {
    let channel = |n: usize| Channel { enter: 90, exit: 90, order: (0..n).rev().collect() };
    let fits = host("dgx-a100", &[channel(4)], &[None; 4]).unwrap().unwrap();
    assert_eq!((init(&fits), fits.view(0).rings.channels[0].order.clone()), (vec![1], vec![3, 2, 1, 0]));
    for n in [8, 3] {
        let error = host("dgx-a100", &[channel(n)], &[None; 4]).unwrap_err().to_string();
        assert!(error.contains("its channels are not orders of the 4 ranks on host-1"), "{error}");
    }
}

/// The trees of two servers of eight H100, as NCCL 2.22.3 wrote them.
#[test]
fn trees_are_those_of_real_servers() {
    let described = described(&[("dgx-h100", 8), ("dgx-h100", 8)], false, Version::V2_28);
    let log = include_str!("../../../../../fixtures/logs/nccl-2.22.3-p5-h100-efa-16ranks-mpirun.log");
    for rank in 0..16 {
        let wanted = format!("[1,{rank}]<stdout>");
        let line = log.lines().find(|line| line.starts_with(&wanted) && line.contains("Trees [0]"));
        let real = line.and_then(|line| line.split_once("Trees").map(|(_, trees)| trees)).unwrap();
        let id = |rank: Option<usize>| rank.map_or_else(|| "-1".to_owned(), |rank| rank.to_string());
        let places = crate::topology::machine::trees::places(&described, rank, 8);
        let shown = |(channel, place): (usize, &crate::topology::machine::trees::Place)| {
            format!(" [{channel}] {}->{rank}->{}", place.down.map(id).join("/"), id(place.up))
        };
        let own: String = places.iter().enumerate().map(shown).collect();
        assert_eq!(own, real.trim_end(), "{rank}");
    }
}

#[test]
fn a_sender_and_its_receiver_mean_the_same_channels() {
    for version in Version::ALL {
        for hosts in [&[("dgx-a100", 8)][..], &[("dgx-a100", 8), ("dgx-a100", 8), ("dgx-a100", 4)]] {
            let described = described(hosts, false, version);
            let n: usize = hosts.iter().map(|host| host.1).sum();
            let of = |rank, peer, sends| {
                crate::topology::machine::pairs::channels(&described, rank, peer, sends, (16, 2))
            };
            for (rank, peer) in (0..n).flat_map(|rank| (0..n).map(move |peer| (rank, peer))) {
                assert_eq!(of(rank, peer, true), of(peer, rank, false), "{version:?} {rank} {peer}");
            }
            let firsts = (1..8).map(|peer| of(0, peer, true)[0]).collect::<std::collections::BTreeSet<_>>();
            let wanted = if hosts.len() == 1 { 7 } else { 2 };
            assert!(firsts.len() >= wanted, "{version:?}: {firsts:?}");
        }
    }
}
