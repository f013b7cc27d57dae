//! How many bytes each rank sends to each other one, from the closed forms and the rule by which the
//! engine cuts and orders: written down here a second time, so that the engine's own counting is held against it.

use std::collections::{BTreeMap, BTreeSet};

use super::accounts::Flows;

/// Primitives of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Primitive {
    AllReduce,
    AllGather,
    ReduceScatter,
    Broadcast,
    Reduce,
    AllToAll,
    Gather,
    Scatter,
    /// Every rank to the next one by number.
    Send,
}

impl Primitive {
    /// All.
    pub(crate) const ALL: [Self; 9] = [
        Self::AllReduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::Broadcast,
        Self::Reduce,
        Self::AllToAll,
        Self::Gather,
        Self::Scatter,
        Self::Send,
    ];

    /// The word of the API, and of the rank program.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::AllToAll => "all_to_all",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Send => "send",
        }
    }
}

/// Channels of a communicator as the topology predicts them.
#[derive(Clone, Debug)]
pub(crate) struct Rings {
    /// Host of each rank.
    hosts: Vec<usize>,
    /// Order of the ranks in each channel.
    orders: Vec<Vec<usize>>,
}

impl Rings {
    /// For ranks on these hosts, whose searches find `base` channels each: node after node, the ranks of each rotated by
    /// the channel, and all of it twice, as NCCL doubles what its search found.
    pub(crate) fn of(hosts: &[usize], base: usize) -> Self {
        let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (rank, host) in hosts.iter().enumerate() {
            members.entry(*host).or_default().push(rank);
        }
        let order = |channel: usize| {
            let rotated = |ranks: &Vec<usize>| {
                let mut ranks = ranks.clone();
                let n_ranks = ranks.len();
                ranks.rotate_left(channel % base % n_ranks);
                ranks
            };
            members.values().flat_map(rotated).collect()
        };
        Self { hosts: hosts.to_vec(), orders: (0..2 * base).map(order).collect() }
    }

    /// Host of each rank.
    pub(crate) fn hosts(&self) -> &[usize] {
        &self.hosts
    }

    /// Ranks that follow each other in a channel, each pair once.
    pub(crate) fn hops(&self) -> BTreeSet<(usize, usize)> {
        let of = |order: &Vec<usize>| {
            let next = order.iter().cycle().skip(1);
            order.iter().copied().zip(next.copied()).collect::<Vec<_>>()
        };
        self.orders.iter().flat_map(of).collect()
    }

    /// Bytes that flow from rank to rank in one operation on `count` elements (of each block, where there are several).
    pub(crate) fn flows(&self, primitive: Primitive, count: usize, root: usize) -> Flows {
        let n_ranks = self.orders[0].len();
        let ranks = 0..n_ranks;
        let others = |rank: usize| ranks.clone().filter(move |other| *other != rank);
        let pairs: Vec<(usize, usize)> = match primitive {
            Primitive::Send => ranks.clone().map(|rank| (rank, (rank + 1) % n_ranks)).collect(),
            Primitive::AllToAll => {
                ranks.clone().flat_map(|from| others(from).map(move |to| (from, to))).collect()
            }
            Primitive::Gather => others(root).map(|from| (from, root)).collect(),
            Primitive::Scatter => others(root).map(|to| (root, to)).collect(),
            _ => return self.around(primitive, count, root),
        };
        pairs.into_iter().map(|pair| (pair, bytes(count))).collect()
    }

    /// The primitives that go round the rings, each channel with its share.
    fn around(&self, primitive: Primitive, count: usize, root: usize) -> Flows {
        let mut flows = Flows::new();
        let n_ranks = self.orders[0].len();
        let blocks =
            if matches!(primitive, Primitive::AllGather | Primitive::ReduceScatter) { n_ranks } else { 1 };
        let n_channels =
            (ELEMENT_BYTES * count * blocks).div_ceil(MIN_CHANNEL_BYTES).clamp(1, self.orders.len());
        for (channel, order) in self.orders.iter().take(n_channels).enumerate() {
            let share = part(count, n_channels, channel);
            let share_bytes = part(ELEMENT_BYTES * count, n_channels, channel) as u64;
            for (place, rank) in order.iter().enumerate() {
                let next = order[(place + 1) % n_ranks];
                let sends = match primitive {
                    // Block b belongs to rank b: all but the own one in the first half, all but the next rank's in the
                    // second. Of each block, a channel carries its slice.
                    Primitive::AllReduce => {
                        let slice = |block: usize| part(part(count, n_ranks, block), n_channels, channel);
                        let all: usize = (0..n_ranks).map(slice).sum();
                        bytes(2 * all - slice(*rank) - slice(next))
                    }
                    Primitive::ReduceScatter => bytes((n_ranks - 1) * share),
                    Primitive::AllGather => (n_ranks - 1) as u64 * share_bytes,
                    Primitive::Broadcast if next != root => share_bytes,
                    Primitive::Reduce if *rank != root => bytes(share),
                    _ => 0,
                };
                *flows.entry((*rank, next)).or_default() += sends;
            }
        }
        flows
    }
}

/// Part `index` (of any round) of `total` cut into `parts`: sizes differ by at most one, the larger ones first.
fn part(total: usize, parts: usize, index: usize) -> usize {
    total / parts + usize::from(index % parts < total % parts)
}

fn bytes(elements: usize) -> u64 {
    (elements * ELEMENT_BYTES) as u64
}

/// Elements are 32-bit floats.
pub(crate) const ELEMENT_BYTES: usize = 4;
/// An operation uses one channel for every such number of bytes begun, up to all.
const MIN_CHANNEL_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn total(flows: &Flows) -> u64 {
        flows.values().sum()
    }

    #[test]
    fn an_even_all_reduce_sends_the_textbook_bytes_from_every_rank() {
        let rings = Rings::of(&[0, 0, 1, 1], 2);
        let count = 4 * 4 * 10_000;
        let flows = rings.flows(Primitive::AllReduce, count, 0);
        for rank in 0..4 {
            let sent: u64 = flows.iter().filter(|((from, _), _)| *from == rank).map(|(_, bytes)| bytes).sum();
            assert_eq!(sent, 4 * count as u64 * 2 * 3 / 4);
        }
        let leaves: u64 =
            flows.iter().filter(|((from, to), _)| from / 2 == 0 && to / 2 == 1).map(|(_, bytes)| bytes).sum();
        assert_eq!(leaves, 4 * count as u64 * 3 / 2, "a node sends 1.5 S");
    }

    #[test]
    fn uneven_ones_send_the_same_in_all() {
        for n_ranks in 2..=8_usize {
            let rings = Rings::of(&(0..n_ranks).map(|rank| rank / 2).collect::<Vec<_>>(), 2);
            for count in [1, 7, 65_537, 100_003] {
                let sum = |primitive| total(&rings.flows(primitive, count, n_ranks - 1));
                let (size, others) = (4 * count as u64, n_ranks as u64 - 1);
                assert_eq!(sum(Primitive::AllReduce), 2 * others * size);
                assert_eq!(sum(Primitive::AllGather), (others + 1) * others * size);
                assert_eq!(sum(Primitive::ReduceScatter), (others + 1) * others * size);
                assert_eq!(sum(Primitive::Broadcast), others * size);
                assert_eq!(sum(Primitive::Reduce), others * size);
                assert_eq!(sum(Primitive::AllToAll), (others + 1) * others * size);
                assert_eq!([sum(Primitive::Gather), sum(Primitive::Scatter)], [others * size; 2]);
            }
        }
    }
}
