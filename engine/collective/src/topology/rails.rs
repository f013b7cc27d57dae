//! Puts the channels of all nodes on rails: NICs of the same name, which a cluster wires to the same switch.
//!
//! Channel `c` of every node takes the same rail, so a hop does not change switches. Rails that every node has come
//! first; where the nodes have no name in common, a NIC's index is its rail. Nodes whose channels cross NICs in pairs do
//! so only together, and only where their number is even: else a hop would change rails.

use std::sync::Arc;

use crate::topology::graph::{NodeNic, System};
use crate::topology::peers::PeerInfo;
use crate::topology::search::{self, Channel, CrossNic, Graph};
use crate::topology::seat::Seat;

/// The channels of each node.
pub(crate) fn graphs(peers: &[PeerInfo], members: &[Vec<usize>]) -> Vec<Graph> {
    let (kinds, which) = kinds(peers, members);
    let systems: Vec<&System> = kinds.iter().map(|(system, _)| system).collect();
    if let [members] = members {
        return vec![replaced(peers, members, systems[0], search::search_inside(systems[0]), false)];
    }
    let best: Vec<(f32, Vec<usize>)> = systems.iter().map(|system| search::best_class(system)).collect();
    let orders = orders(&systems, &best);
    let found = |most: CrossNic| {
        let kind = |kind: usize| {
            let cross = kinds[kind].1;
            let cross = if cross == CrossNic::IfBetter { most } else { cross };
            search::search(systems[kind], best[kind].0, &orders[kind], cross)
        };
        (0..kinds.len()).map(kind).collect::<Vec<Graph>>()
    };
    let mut graphs = found(CrossNic::IfBetter);
    if !paired_alike(&systems, &graphs, members.len()) {
        graphs = found(CrossNic::Never);
    }
    let nodes = members.iter().zip(which);
    nodes.map(|(members, kind)| replaced(peers, members, systems[kind], graphs[kind].clone(), true)).collect()
}

/// The kinds of nodes, each with what it was told of crossing NICs, and the kind of each node: a cluster has few, and each is
/// searched once.
fn kinds(peers: &[PeerInfo], members: &[Vec<usize>]) -> (Vec<(System, CrossNic)>, Vec<usize>) {
    let mut known: Vec<(Vec<Seat>, Vec<NodeNic>, CrossNic)> = Vec::new();
    let kind = |members: &Vec<usize>| {
        let cross = peers[members[0]].placement.cross_nic;
        let wanted = (seats(peers, members), nics(peers, members), cross);
        known.iter().position(|kind| *kind == wanted).unwrap_or_else(|| {
            known.push(wanted);
            known.len() - 1
        })
    };
    let which = members.iter().map(kind).collect();
    (known.iter().map(|(seats, nics, cross)| (System::new(seats, nics), *cross)).collect(), which)
}

/// The graph of a node's ranks.
pub(crate) fn system(peers: &[PeerInfo], members: &[usize]) -> System {
    System::new(&seats(peers, members), &nics(peers, members))
}

fn seats(peers: &[PeerInfo], members: &[usize]) -> Vec<Seat> {
    let seat = |(index, rank): (usize, &usize)| -> Seat {
        let placement = &peers[*rank].placement;
        placement.seats.get(index).unwrap_or(&placement.seat).clone()
    };
    members.iter().enumerate().map(seat).collect()
}

/// The NICs that all ranks of a node can use, by name; where they share none, as many as the poorest rank has.
pub(crate) fn nics(peers: &[PeerInfo], members: &[usize]) -> Vec<NodeNic> {
    let Some(first) = members.first().map(|rank| &peers[*rank].nics) else { return Vec::new() };
    let has = |rank: &usize, name: &str| peers[*rank].nics.iter().any(|nic| nic.name == name);
    let differ = |rank: &&usize| !Arc::ptr_eq(&peers[**rank].facts, &peers[members[0]].facts);
    let others: Vec<&usize> = members.iter().filter(differ).collect();
    let shared = first.iter().filter(|nic| others.iter().all(|rank| has(rank, &nic.name)));
    let mut nics: Vec<&_> = shared.collect();
    if nics.is_empty() {
        let fewest = members.iter().map(|rank| peers[*rank].nics.len()).min().unwrap_or(0);
        nics = first.iter().take(fewest).collect();
    }
    let part = |nic: &&crate::topology::PeerNic| NodeNic {
        name: nic.name.clone(),
        speed_mbit: nic.speed_mbit,
        port: nic.port,
        seat: nic.seat.clone(),
    };
    nics.iter().map(part).collect()
}

/// The channels that a graph file tells a rank, if they fit a node of `n_ranks`.
pub(crate) fn told(peer: &PeerInfo, n_ranks: usize) -> Option<&[Channel]> {
    let channels = &peer.placement.channels;
    let fits = |channel: &Channel| {
        let mut order = channel.order.clone();
        order.sort_unstable();
        order.into_iter().eq(0..n_ranks)
    };
    (!channels.is_empty() && channels.iter().all(fits)).then_some(channels)
}

/// A graph file of the first rank that has one takes the place of what the search found.
fn replaced(peers: &[PeerInfo], members: &[usize], system: &System, found: Graph, inter: bool) -> Graph {
    let mut told = members.iter().filter_map(|rank| told(&peers[*rank], members.len()));
    let Some(channels) = told.next() else { return found };
    let n_nics = system.nics().len().max(1);
    let fitting = |channel: &Channel| Channel {
        enter: channel.enter % n_nics,
        exit: channel.exit % n_nics,
        order: channel.order.clone(),
    };
    let channels: Vec<Channel> = channels.iter().map(fitting).collect();
    let crosses = channels.iter().any(|channel| channel.enter != channel.exit);
    let graph = Graph { channels, cross_nic: u8::from(crosses), ..Graph::bare(found.bw_inter) };
    search::typed(system, graph, inter)
}

/// Of each node, the NICs of its best class: those on rails that all nodes use first, in the first node's order.
fn orders(systems: &[&System], best: &[(f32, Vec<usize>)]) -> Vec<Vec<usize>> {
    let find = |node: usize, name: &str| {
        best[node]
            .1
            .iter()
            .copied()
            .find(|nic| systems[node].nics().get(*nic).is_some_and(|n| n.name == name))
    };
    let names = best[0].1.iter().filter_map(|nic| systems[0].nics().get(*nic)).map(|nic| nic.name.as_str());
    let shared: Vec<&str> =
        names.filter(|name| (0..systems.len()).all(|node| find(node, name).is_some())).collect();
    let order = |node: usize| {
        let mut order: Vec<usize> = shared.iter().filter_map(|name| find(node, name)).collect();
        let rest: Vec<usize> = best[node].1.iter().copied().filter(|nic| !order.contains(nic)).collect();
        order.extend(rest);
        order
    };
    (0..systems.len()).map(order).collect()
}

/// Whether the nodes that cross NICs in pairs all do so, and on the same rails. Of each kind of node, and the number of nodes.
fn paired_alike(systems: &[&System], graphs: &[Graph], n_nodes: usize) -> bool {
    if graphs.iter().all(|graph| graph.cross_nic != 2) {
        return true;
    }
    let rails = |node: usize| -> Vec<[&str; 2]> {
        let name = |nic: usize| systems[node].nics().get(nic).map_or("", |nic| nic.name.as_str());
        graphs[node].channels.iter().map(|channel| [name(channel.enter), name(channel.exit)]).collect()
    };
    let first = rails(0);
    n_nodes.is_multiple_of(2)
        && graphs.iter().all(|graph| graph.cross_nic == 2)
        && (1..graphs.len()).all(|node| rails(node) == first)
}
