//! The search over recorded and made-up machines, from the files of `/sys` to the rings.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::topology::graph::{PathType, System, TopoNode};
use crate::topology::peers::Placement;
use crate::topology::ranks::Way;
use crate::topology::search::{Channel, CrossNic};
use crate::topology::seat::Seat;
use crate::topology::sysfs::{self, NicFacts, Sysfs};
use crate::topology::{HostFacts, PeerInfo, PeerNic, Topology};

/// A tree of `tests/sysfs`, unpacked: `[folder]`, `name<TAB>text`, `name -> target`, `< tree to start from`.
struct Machine(PathBuf);

impl Machine {
    fn new(tree: &str) -> Self {
        static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("rsccl-sysfs-{}-{number}", std::process::id()));
        unpack(tree, &root);
        Self(root)
    }

    fn sysfs(&self) -> Sysfs {
        Sysfs::new(&self.0, &self.0.join("class/net"))
    }

    /// The NICs that are up.
    fn nics(&self) -> Vec<(String, NicFacts)> {
        let entries = std::fs::read_dir(self.0.join("class/net")).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        let facts = names.into_iter().map(|name| (name.clone(), self.sysfs().nic(&name)));
        facts.filter(|(_, facts)| facts.down.is_none()).collect()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn unpack(tree: &str, root: &Path) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/sysfs/{tree}.tree"));
    let mut folder = root.to_owned();
    for line in std::fs::read_to_string(&file).unwrap().lines().filter(|line| !line.starts_with('#')) {
        if let Some(base) = line.strip_prefix("< ") {
            unpack(base, root);
        } else if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            folder = root.join(name);
            std::fs::create_dir_all(&folder).unwrap();
        } else if let Some((name, text)) = line.split_once('\t') {
            std::fs::write(folder.join(name), format!("{text}\n")).unwrap();
        } else {
            let (name, target) = line.split_once(" -> ").unwrap();
            std::os::unix::fs::symlink(target, folder.join(name)).unwrap();
        }
    }
}

/// Ranks of one host on these NUMA nodes.
fn host(peers: &mut Vec<PeerInfo>, machine: &Machine, numas: &[Option<u32>], cross_nic: CrossNic) {
    let hash = peers.last().map_or(1, |peer| peer.host_hash + 1);
    let nic = |(name, facts): (String, NicFacts)| PeerNic {
        name,
        address: "127.0.0.1".parse().unwrap(),
        speed_mbit: facts.speed_mbit.unwrap_or(10_000),
        port: facts.port,
        seat: facts.seat,
    };
    for numa in numas {
        let seat = Seat { numa: *numa, pci: Vec::new() };
        peers.push(PeerInfo {
            rank: peers.len(),
            shm: None,
            ports: Vec::new(),
            device: None,
            process: 0,
            facts: Arc::new(HostFacts {
                host: format!("host-{hash}"),
                host_hash: hash,
                machine: 1,
                nics: machine.nics().into_iter().map(nic).collect(),
                placement: Placement { seat, cross_nic, ..Placement::default() },
                ..HostFacts::default()
            }),
        });
    }
}

fn hosts(machines: &[&Machine], numas: &[Option<u32>], cross_nic: CrossNic) -> Vec<PeerInfo> {
    let mut peers = Vec::new();
    machines.iter().for_each(|machine| host(&mut peers, machine, numas, cross_nic));
    peers
}

/// `NIC:ranks:NIC` of each channel of a node.
fn rows(peers: &[PeerInfo], topology: &Topology, node: usize) -> Vec<String> {
    let nics = &peers[topology.members[node][0]].nics;
    let row = |channel: &Channel| {
        let order: Vec<String> = channel.order.iter().map(usize::to_string).collect();
        format!("{}:{}:{}", nics[channel.enter].name, order.join(" "), nics[channel.exit].name)
    };
    topology.graphs[node].channels.iter().map(row).collect()
}

fn path(system: &System, from: &TopoNode, to: &TopoNode) -> crate::topology::graph::Path {
    let to = system.parts().position(|(part, _)| part == to).unwrap();
    system.paths(from)[to].unwrap()
}

fn of_numa(per_node: usize) -> Vec<Option<u32>> {
    (0..2).flat_map(|numa| std::iter::repeat_n(Some(numa), per_node)).collect()
}

#[test]
fn a_machine_is_read() {
    let machine = Machine::new("eight-nics");
    let nodes = machine.sysfs().numa_nodes();
    assert_eq!(nodes.iter().map(|node| (node.id, node.cores.len())).collect::<Vec<_>>(), [(0, 16), (1, 16)]);
    let home = |cores: &str| sysfs::home(&nodes, &sysfs::parse_cores(cores).unwrap());
    assert_eq!((home("1-3,17"), home("8"), home("7-8"), home("")), (Some(0), Some(1), None, None));
    let nics = machine.nics();
    assert_eq!(nics.len(), 8);
    let (name, facts) = &nics[5];
    let bus_ids: Vec<&str> = facts.seat.pci.iter().map(|device| device.bus_id.as_str()).collect();
    assert_eq!((name.as_str(), facts.speed_mbit, facts.port), ("rdma5", Some(400_000), 1));
    assert_eq!((facts.seat.numa, bus_ids), (Some(1), vec!["0000:96:00.0", "0000:99:00.0"]));
}

#[test]
fn what_makes_no_sense_is_counted_and_has_its_default() {
    let machine = Machine::new("broken");
    let mut sysfs = machine.sysfs();
    assert_eq!(sysfs.numa_nodes().iter().map(|node| node.id).collect::<Vec<_>>(), [1]);
    assert_eq!(sysfs.nic("eth0"), NicFacts::default());
    assert_eq!(sysfs.nic("mlx5_0").down.as_deref(), Some("DOWN"));
    assert_eq!(sysfs.nic("missing"), NicFacts::default());
    assert_eq!(sysfs.bad().0, 5, "cores, port, speed, NUMA node, rate");
    assert!(sysfs.bad().1.unwrap().ends_with("node0/cpulist"));
}

#[test]
fn init_channels_are_the_nics_of_the_best_class() {
    let table = [
        ("eight-nics", 8, 48.0),
        ("two-nics", 2, 1.2),
        ("one-down", 1, 1.2),
        // 12 + nothing beats 2 x 6, which is equal and slower.
        ("unequal", 1, 12.0),
        ("one-nic", 1, 3.0),
        ("loopback", 1, 1.2),
        ("crawling", 1, 0.1),
    ];
    for (tree, channels, bandwidth) in table {
        for per_node in [1, 8] {
            let machine = Machine::new(tree);
            let peers = hosts(&[&machine, &machine], &of_numa(per_node), CrossNic::Never);
            let topology = Topology::search(&peers);
            assert_eq!(topology.base, channels, "{tree}");
            assert_eq!(topology.init_channels, vec![channels; 4 * per_node], "{tree}");
            assert!(
                (topology.graphs[0].bw_inter - bandwidth).abs() < 1e-6,
                "{tree}: {:?}",
                topology.graphs[0]
            );
        }
    }
}

#[test]
fn one_node_has_two_channels_whatever_its_nics() {
    for (tree, n_ranks) in [("eight-nics", 1), ("one-nic", 16), ("loopback", 2)] {
        let machine = Machine::new(tree);
        let numas: Vec<Option<u32>> = of_numa(8).into_iter().take(n_ranks).collect();
        let topology = Topology::search(&hosts(&[&machine], &numas, CrossNic::IfBetter));
        assert_eq!((topology.base, topology.graphs[0].channels.len()), (2, 2), "{tree}");
        let mut ring = topology.ring(1);
        ring.sort_unstable();
        assert!(ring.into_iter().eq(0..n_ranks));
    }
}

#[test]
fn rings_stay_in_a_numa_node_and_come_back_to_their_nic() {
    let machine = Machine::new("eight-nics");
    let peers = hosts(&[&machine, &machine], &of_numa(3), CrossNic::Never);
    let topology = Topology::search(&peers);
    let rows = rows(&peers, &topology, 0);
    assert_eq!(rows[0], "rdma0:0 1 3 4 5 2:rdma0");
    assert_eq!(rows[1], "rdma1:1 2 4 5 3 0:rdma1");
    assert_eq!(rows[4], "rdma4:4 5 1 2 0 3:rdma4");
    let graph = &topology.graphs[0];
    assert_eq!((graph.cross_nic, graph.type_intra, graph.type_inter), (0, PathType::Sys, PathType::Phb));
    assert_eq!(&topology.ring(0)[..7], [0, 1, 3, 4, 5, 2, 6]);
}

#[test]
fn crossing_nics_spares_a_crossing_and_stays_on_the_rail() {
    let machine = Machine::new("eight-nics");
    let peers = hosts(&[&machine; 4], &of_numa(2), CrossNic::IfBetter);
    let topology = Topology::search(&peers);
    assert_eq!(rows(&peers, &topology, 0)[..2], ["rdma0:0 1 2 3:rdma4", "rdma4:3 2 1 0:rdma0"]);
    for channel in 0..8 {
        let ring = topology.ring(channel);
        for (from, to) in ring.iter().zip(ring.iter().cycle().skip(1)) {
            if topology.nodes[*from] != topology.nodes[*to] {
                let (out, into) =
                    (topology.nic(*from, channel, Way::Out), topology.nic(*to, channel, Way::In));
                assert_eq!(peers[*from].nics[out].name, peers[*to].nics[into].name, "channel {channel}");
            }
        }
    }
    let odd = Topology::search(&hosts(&[&machine; 3], &of_numa(2), CrossNic::IfBetter));
    assert_eq!(odd.graphs[0].cross_nic, 0, "the last hop of a ring over three nodes would leave its rail");
    let always = Topology::search(&hosts(&[&machine; 3], &of_numa(2), CrossNic::Always));
    assert_eq!(always.graphs[0].cross_nic, 1);
}

#[test]
fn channels_share_the_rails_that_all_nodes_have() {
    let (both, one) = (Machine::new("two-nics"), Machine::new("one-down"));
    let mut peers = Vec::new();
    host(&mut peers, &both, &[None, None], CrossNic::IfBetter);
    host(&mut peers, &one, &[None, None], CrossNic::IfBetter);
    let topology = Topology::search(&peers);
    assert_eq!(topology.init_channels, [2, 2, 1, 1]);
    assert_eq!(topology.base, 1);
    let name = |rank: usize| peers[rank].nics[topology.nic(rank, 5, Way::In)].name.as_str();
    assert_eq!([name(0), name(1), name(2), name(3)], ["nic1"; 4]);
    assert_eq!(topology.ring(0), [0, 1, 2, 3]);
    assert_eq!(rows(&peers, &topology, 0), ["nic1:0 1:nic1", "nic0:1 0:nic0"]);
}

#[test]
fn ranks_of_a_node_that_see_other_nics_use_those_that_they_share() {
    let machine = Machine::new("eight-nics");
    let mut peers = hosts(&[&machine; 2], &of_numa(1), CrossNic::Never);
    peers[0].nics.remove(2);
    let topology = Topology::search(&peers);
    assert_eq!(topology.init_channels, [7, 7, 8, 8]);
    let names = |rank: usize, channel| peers[rank].nics[topology.nic(rank, channel, Way::Out)].name.as_str();
    assert_eq!([names(0, 2), names(1, 2), names(2, 2)], ["rdma3"; 3]);
    for rank in [0, 1] {
        for nic in &mut peers[rank].nics {
            nic.name = format!("{}-of-{rank}", nic.name);
        }
    }
    assert_eq!(Topology::search(&peers).init_channels, [7, 7, 8, 8], "as many as the poorest rank has");
}

#[test]
fn a_rank_that_may_run_anywhere_is_far_from_all() {
    let machine = Machine::new("eight-nics");
    let peers = hosts(&[&machine; 2], &[None, Some(1)], CrossNic::IfBetter);
    let topology = Topology::search(&peers);
    let system = topology.system(&peers, 0);
    let kind = |rank, nic| path(&system, &TopoNode::Rank(rank), &TopoNode::Nic(nic)).kind;
    assert_eq!((kind(0, 0), kind(0, 7), kind(1, 0), kind(1, 7)), {
        use PathType::{Phb, Sys};
        (Sys, Sys, Sys, Phb)
    });
}

#[test]
fn paths_have_the_types_of_nccl() {
    let machine = Machine::new("eight-nics");
    let mut peers = hosts(&[&machine], &of_numa(1), CrossNic::Never);
    // As a topology file says it: the first rank behind the first NIC's switch.
    let mut pci = peers[0].nics[0].seat.pci.clone();
    pci[1].bus_id = "0000:1f:00.0".to_owned();
    peers[0].placement.seats = vec![Seat { numa: Some(0), pci }, Seat { numa: Some(1), pci: Vec::new() }];
    let system = Topology::search(&peers).system(&peers, 0);
    let path = |from, to| path(&system, &from, &to);
    let table = [
        (TopoNode::Rank(0), TopoNode::Rank(0), PathType::Loc, 0),
        (TopoNode::Rank(0), TopoNode::Nic(0), PathType::Pix, 4),
        (TopoNode::Rank(0), TopoNode::Nic(1), PathType::Pix, 4),
        (TopoNode::Rank(0), TopoNode::Nic(2), PathType::Phb, 6),
        (TopoNode::Rank(0), TopoNode::Nic(4), PathType::Sys, 7),
        (TopoNode::Rank(0), TopoNode::Rank(1), PathType::Sys, 5),
        (TopoNode::Nic(4), TopoNode::Nic(5), PathType::Pix, 4),
        (TopoNode::Nic(4), TopoNode::Nic(6), PathType::Phb, 6),
    ];
    for (from, to, kind, links) in table {
        let found = path(from.clone(), to.clone());
        assert_eq!((found.kind, found.links), (kind, links), "{from:?} to {to:?}");
    }
    assert!(
        (path(TopoNode::Rank(1), TopoNode::Nic(7)).bandwidth - 48.0).abs() < 1e-6,
        "PCI is narrower than the NIC"
    );
}

/// A NIC at a NUMA node: its number, its speed.
type MadeUpNic = (Option<u32>, u32);

fn made_up(nodes: &[(Vec<Option<u32>>, Vec<MadeUpNic>)], cross_nic: CrossNic) -> Vec<PeerInfo> {
    let machine = Machine::new("loopback");
    let mut peers = Vec::new();
    for (numas, nics) in nodes {
        let first = peers.len();
        host(&mut peers, &machine, numas, cross_nic);
        for peer in &mut peers[first..] {
            let template = peer.nics.remove(0);
            peer.nics = nics
                .iter()
                .enumerate()
                .map(|(index, (numa, speed_mbit))| PeerNic {
                    name: format!("nic{index}"),
                    speed_mbit: *speed_mbit,
                    seat: Seat { numa: *numa, pci: Vec::new() },
                    ..template.clone()
                })
                .collect();
        }
    }
    peers
}

proptest! {
    #[test]
    fn rings_pass_every_rank_once_and_use_each_nic_once(
        nodes in vec(
            (vec(option::of(0..3_u32), 1..9), vec((option::of(0..3_u32), select(vec![10, 10_000, 25_000, 400_000])), 1..9)),
            1..6,
        ),
        cross in select(vec![CrossNic::Never, CrossNic::Always, CrossNic::IfBetter]),
    ) {
        let peers = made_up(&nodes, cross);
        let topology = Topology::search(&peers);
        prop_assert!(topology.base >= 1);
        for graph in &topology.graphs {
            prop_assert!(graph.channels.len() >= topology.base);
            for end in [|channel: &Channel| channel.enter, |channel: &Channel| channel.exit] {
                let mut nics: Vec<usize> = graph.channels.iter().map(end).collect();
                nics.sort_unstable();
                nics.dedup();
                prop_assert!(nodes.len() == 1 || nics.len() == graph.channels.len(), "{:?}", graph);
            }
            prop_assert!(cross != CrossNic::Never || graph.cross_nic == 0);
        }
        for channel in 0..2 * topology.base {
            let mut ring = topology.ring(channel);
            ring.sort_unstable();
            prop_assert!(ring.into_iter().eq(0..peers.len()));
        }
    }

    #[test]
    fn hops_stay_on_their_rail_where_all_nodes_are_alike(
        numas in vec(option::of(0..2_u32), 1..9),
        nics in vec((option::of(0..2_u32), select(vec![10_000, 25_000])), 1..9),
        n_nodes in 2..6_usize,
        cross in select(vec![CrossNic::Never, CrossNic::IfBetter]),
    ) {
        let peers = made_up(&vec![(numas, nics); n_nodes], cross);
        let topology = Topology::search(&peers);
        for channel in 0..topology.base {
            let ring = topology.ring(channel);
            for (from, to) in ring.iter().zip(ring.iter().cycle().skip(1)) {
                let ends = (topology.nic(*from, channel, Way::Out), topology.nic(*to, channel, Way::In));
                prop_assert!(topology.nodes[*from] == topology.nodes[*to] || ends.0 == ends.1);
            }
        }
    }
}
