//! The rings that the ranks of a communicator make together.

use std::collections::{BTreeMap, BTreeSet};

use super::{AssembledCommunicator, RingsSource};

/// `next` of each rank, by channel.
type Nexts = BTreeMap<u32, BTreeMap<u32, u32>>;

/// Finds the rings, each from the best lines that there are of it.
pub(super) fn find(communicator: &mut AssembledCommunicator) {
    let nexts = of_ring_lines(communicator);
    if communicator.n_ranks.is_none() {
        communicator.n_ranks = nexts.values().next().and_then(closed);
        if let Some(n_ranks) = communicator.n_ranks {
            communicator.members.values_mut().for_each(|member| member.facts.n_ranks = n_ranks);
        }
    }
    let Some(n_ranks) = communicator.n_ranks else { return };
    let rank_0 = communicator.members.get(&0).map(|member| &member.facts.orders);
    let orders = rank_0.into_iter().flatten().filter(|(_, order)| is_ring(order, n_ranks));
    let sources = [
        (RingsSource::EveryRank, cycles(&nexts, n_ranks)),
        (RingsSource::Rank0, orders.map(|(channel, order)| (*channel, from_0(order))).collect()),
        (RingsSource::Connections, cycles(&of_connections(communicator), n_ranks)),
    ];
    // Channel by channel: one torn line must not hide what others tell whole.
    for (source, rings) in sources {
        if !rings.is_empty() {
            communicator.rings_source.get_or_insert(source);
        }
        for (channel, ring) in rings {
            communicator.rings.entry(channel).or_insert(ring);
        }
    }
}

fn of_ring_lines(communicator: &AssembledCommunicator) -> Nexts {
    let mut nexts = Nexts::new();
    for (rank, member) in &communicator.members {
        for ring in &member.facts.rings {
            nexts.entry(ring.channel).or_default().insert(*rank, ring.next);
        }
    }
    nexts
}

/// Channels on which every rank sends to exactly one other: there trees run along the ring, or are not connected.
fn of_connections(communicator: &AssembledCommunicator) -> Nexts {
    let mut nexts = Nexts::new();
    let mut several = BTreeSet::new();
    for (rank, member) in &communicator.members {
        for (channel, to) in &member.facts.edges {
            let before = nexts.entry(*channel).or_default().insert(*rank, *to);
            if before.is_some_and(|before| before != *to) {
                several.insert(*channel);
            }
        }
    }
    nexts.retain(|channel, _| !several.contains(channel));
    nexts
}

fn cycles(nexts: &Nexts, n_ranks: u32) -> BTreeMap<u32, Vec<u32>> {
    let cycle = |(channel, next): (&u32, &BTreeMap<u32, u32>)| {
        let ring = cycle(next)?;
        (ring.len() == n_ranks as usize).then_some((*channel, ring))
    };
    nexts.iter().filter_map(cycle).collect()
}

/// The ring through rank 0, if it closes and nothing lies beside it.
fn cycle(next: &BTreeMap<u32, u32>) -> Option<Vec<u32>> {
    let mut ring = vec![0];
    let mut at = *next.get(&0)?;
    while at != 0 {
        if ring.len() >= next.len() {
            return None;
        }
        ring.push(at);
        at = *next.get(&at)?;
    }
    (ring.len() == next.len()).then_some(ring)
}

/// Number of ranks of a ring that closes over 0 to n-1.
fn closed(next: &BTreeMap<u32, u32>) -> Option<u32> {
    let n_ranks = u32::try_from(cycle(next)?.len()).ok()?;
    next.keys().copied().eq(0..n_ranks).then_some(n_ranks)
}

fn is_ring(order: &[u32], n_ranks: u32) -> bool {
    let ranks: BTreeSet<_> = order.iter().collect();
    order.len() == n_ranks as usize && ranks.len() == order.len() && ranks.iter().all(|rank| **rank < n_ranks)
}

fn from_0(order: &[u32]) -> Vec<u32> {
    let at = order.iter().position(|rank| *rank == 0).unwrap_or(0);
    [&order[at..], &order[..at]].concat()
}
