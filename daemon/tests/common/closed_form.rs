//! What each rank of a communicator sends, by algorithm, from the formulas and not from the engine's code: to the byte,
//! uneven sizes included. What is only copied is cut by bytes, what is reduced by elements of 4.

#![allow(clippy::cast_possible_truncation, reason = "counts of a short job")]

use std::collections::{BTreeMap, BTreeSet};

use ringscope_api::PrimitiveTotals;
use ringscope_daemon::demo::report::{Report, ReportedCommunicator};

use super::stage::faithful;

const F32_BYTES: usize = 4;
/// A channel carries at least this much, so small operations take fewer channels.
const CHANNEL_BYTES: usize = 64 * 1024;

/// How an operation is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Ring,
    Tree,
    Hierarchical,
}

/// Bytes to ranks on the own host, and to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    pub intra_bytes: usize,
    pub inter_bytes: usize,
}

/// The same for each rank, inside its host and between hosts, to the byte. Of a library that does not tell what stays inside a
/// host, that part is the daemon's to compute, and not looked at here.
pub fn each_rank_obeys_its_formula(
    report: &Report,
    tells_inside: bool,
    algorithm: impl Fn(&ReportedCommunicator, &str, usize) -> Algorithm,
) {
    let mut sums = Split::default();
    for one in report.communicators.iter().filter(|one| one.n_ranks > 1) {
        for rank in &one.rank_primitives {
            let sender = Sender::new(one, rank.rank);
            for totals in &rank.primitives {
                if !tells_inside && is_untold(one, totals) {
                    let told = (totals.intra_bytes, totals.inter_bytes);
                    assert_eq!(told, (None, None), "{:?} rank {}", one.name, rank.rank);
                    continue;
                }
                let mut expected = Split::default();
                for (calls, elements) in payloads(one, totals) {
                    let algorithm = algorithm(one, &totals.primitive, elements);
                    let sent = sender.sends(algorithm, &totals.primitive, elements, calls);
                    expected.intra_bytes += sent.intra_bytes;
                    expected.inter_bytes += sent.inter_bytes;
                }
                if !tells_inside {
                    expected.intra_bytes = totals.intra_bytes.unwrap() as usize;
                }
                let shown = Split {
                    intra_bytes: totals.intra_bytes.unwrap() as usize,
                    inter_bytes: totals.inter_bytes.unwrap() as usize,
                };
                assert_eq!(shown, expected, "{:?} rank {} {totals:?}", one.name, rank.rank);
                sums.intra_bytes += shown.intra_bytes;
                sums.inter_bytes += shown.inter_bytes;
            }
        }
    }
    assert!(sums.intra_bytes > 0 && sums.inter_bytes > 0, "{sums:?}");
}

/// Whether NCCL of the version that the engine follows under test tells nothing of what goes between hosts.
pub fn is_untold(one: &ReportedCommunicator, totals: &PrimitiveTotals) -> bool {
    let hosts: BTreeSet<&str> = one.ranks.iter().map(|rank| rank.host.as_str()).collect();
    faithful() == "2.30" && totals.primitive == "broadcast" && hosts.len() > 1
}

/// (calls, elements) of a primitive's calls in a communicator.
fn payloads(one: &ReportedCommunicator, totals: &PrimitiveTotals) -> Vec<(usize, usize)> {
    let calls = totals.completed_calls as usize;
    if totals.primitive == "all_reduce" {
        return all_reduces(one, calls);
    }
    let elements = totals.completed_bytes as usize / 4 / calls.max(1);
    assert_eq!(elements * 4 * calls, totals.completed_bytes as usize, "all alike: {totals:?}");
    vec![(calls, elements)]
}

/// (calls, elements) of the all-reduces in a communicator, of which there were `calls` in all. See the worker: a step
/// reduces four buckets in the world and one in each other communicator, and before each step, and once more at the
/// end, the world agrees on one number.
fn all_reduces(one: &ReportedCommunicator, calls: usize) -> Vec<(usize, usize)> {
    let name = one.name.as_deref().unwrap();
    if name.starts_with("world") {
        let steps = (calls - 1) / 5;
        assert_eq!(calls, steps * 5 + 1, "{name}");
        vec![(steps, 262_144), (steps, 65_537), (steps, 4_099), (steps, 7), (steps + 1, 1)]
    } else if name.starts_with("data") {
        vec![(calls, 65_537)]
    } else {
        vec![(calls, 4_099)]
    }
}

/// One rank's view of a communicator.
struct Sender<'a> {
    one: &'a ReportedCommunicator,
    rank: usize,
}

/// Part `index` of `total` cut into `parts`: the larger ones first.
fn part(total: usize, parts: usize, index: usize) -> usize {
    total / parts + usize::from(index < total % parts)
}

impl<'a> Sender<'a> {
    fn new(one: &'a ReportedCommunicator, rank: u32) -> Self {
        Self { one, rank: rank as usize }
    }

    /// What `calls` calls of `primitive` send; `elements` of f32 as the API counts them, of a broadcast from rank 0.
    fn sends(&self, algorithm: Algorithm, primitive: &str, elements: usize, calls: usize) -> Split {
        let mut split = Split::default();
        let unit_bytes = if primitive.contains("reduce") { F32_BYTES } else { 1 };
        let units = elements * F32_BYTES / unit_bytes;
        for (peer, sent) in self.units_by_peer(algorithm, primitive, units, unit_bytes) {
            let bytes = sent * unit_bytes * calls;
            if self.host(peer) == self.host(self.rank) {
                split.intra_bytes += bytes;
            } else {
                split.inter_bytes += bytes;
            }
        }
        split
    }

    fn units_by_peer(
        &self,
        algorithm: Algorithm,
        primitive: &str,
        units: usize,
        unit_bytes: usize,
    ) -> BTreeMap<usize, usize> {
        let n = self.one.n_ranks as usize;
        match primitive {
            "send" => return BTreeMap::from([((self.rank + 1) % n, units)]),
            "recv" => return BTreeMap::new(),
            // From rank 0 or to it, one block each.
            "gather" | "scatter" if (self.rank == 0) == (primitive == "gather") => return BTreeMap::new(),
            "gather" => return BTreeMap::from([(0, units)]),
            "scatter" | "all_to_all" => {
                return (0..n).filter(|peer| *peer != self.rank).map(|peer| (peer, units)).collect();
            }
            _ => {}
        }
        let whole = if primitive.starts_with("all_r") || primitive == "broadcast" { 1 } else { n };
        let n_channels = (units * unit_bytes * whole).div_ceil(CHANNEL_BYTES).min(self.one.rings.len());
        let mut sums = BTreeMap::new();
        for channel in 0..n_channels {
            let cut = (n_channels, channel);
            let sent = match algorithm {
                Algorithm::Ring => self.ring(primitive, units, cut),
                Algorithm::Tree => self.tree(primitive, units, cut),
                Algorithm::Hierarchical => self.hierarchical(units, cut),
            };
            for (peer, units) in sent {
                *sums.entry(peer).or_default() += units;
            }
        }
        sums
    }

    /// All to the next rank: a reduce-scatter sends everything but the own block, an all-gather all but the next rank's.
    fn ring(
        &self,
        primitive: &str,
        units: usize,
        (n_channels, channel): (usize, usize),
    ) -> Vec<(usize, usize)> {
        let (n, order) = (self.one.n_ranks as usize, self.order(channel));
        let next = after(&order, self.rank);
        let block = |rank| {
            let whole = if primitive == "all_reduce" { part(units, n, rank) } else { units };
            part(whole, n_channels, channel)
        };
        let all: usize = (0..n).map(block).sum();
        let sent = match primitive {
            "all_reduce" => 2 * all - block(self.rank) - block(next),
            "reduce_scatter" => all - block(self.rank),
            "all_gather" => all - block(next),
            _ if next == 0 => 0,
            _ => part(units, n_channels, channel),
        };
        vec![(next, sent)]
    }

    /// Each half of the buffer up a tree and down again, or only down. Hosts form a tree, and ranks one below their host's
    /// leader; of two, the other one hangs below the first.
    fn tree(
        &self,
        primitive: &str,
        units: usize,
        (n_channels, channel): (usize, usize),
    ) -> Vec<(usize, usize)> {
        assert_eq!(n_channels, 1, "small payloads take one channel; channel {channel}");
        let halves = [units.div_ceil(2), units / 2];
        let mut sent = Vec::new();
        for (half, units) in halves.into_iter().enumerate() {
            let parent_of = self.parents(half);
            if primitive == "all_reduce" {
                sent.extend(parent_of[self.rank].map(|parent| (parent, units)));
            }
            let children = parent_of.iter().enumerate().filter(|(_, parent)| **parent == Some(self.rank));
            sent.extend(children.map(|(child, _)| (child, units)));
        }
        sent
    }

    /// With rank 0 at the root. In the second tree the last rank of every other host leads.
    fn parents(&self, half: usize) -> Vec<Option<usize>> {
        let hosts = self.hosts(&(0..self.one.n_ranks as usize).collect::<Vec<_>>());
        assert!(hosts.len() <= 2 && hosts.iter().all(|host| host.len() <= 2), "of two there is one tree");
        let mut parents = vec![None; self.one.n_ranks as usize];
        for (index, ranks) in hosts.iter().enumerate() {
            let leader = if half == 1 && index > 0 { ranks[ranks.len() - 1] } else { ranks[0] };
            parents[leader] = (index > 0).then_some(0);
            ranks.iter().filter(|rank| **rank != leader).for_each(|rank| parents[*rank] = Some(leader));
        }
        parents
    }

    /// A ring inside each host leaves each rank a shard, rings between hosts reduce each shard, and the first way back.
    fn hierarchical(&self, units: usize, (n_channels, channel): (usize, usize)) -> Vec<(usize, usize)> {
        let share = part(units, n_channels, channel);
        let hosts = self.hosts(&self.order(channel));
        let own = hosts.iter().position(|host| host.contains(&self.rank)).unwrap();
        let (inside, m, k) = (&hosts[own], hosts[own].len(), hosts.len());
        assert!(hosts.iter().all(|host| host.len() == m), "as many ranks on every host");
        let local = inside.iter().position(|rank| *rank == self.rank).unwrap();
        let shard = |local: usize| part(share, m, local % m);
        let block = |host: usize| part(shard(local), k, host % k);
        let to_neighbour = if m == 1 { 0 } else { 2 * share - shard(local) - shard(local + 1) };
        let to_host = if k == 1 { 0 } else { 2 * shard(local) - block(own) - block(own + 1) };
        vec![(after(inside, self.rank), to_neighbour), (hosts[(own + 1) % k][local], to_host)]
    }

    /// The channel's ring as the engine begins it, with rank c of the first host; the API begins it with rank 0.
    fn order(&self, channel: usize) -> Vec<usize> {
        let on_first_host =
            (0..self.one.n_ranks as usize).filter(|rank| self.host(*rank) == self.host(0)).count();
        let first = channel % self.one.base.unwrap() as usize % on_first_host;
        let mut order: Vec<usize> =
            self.one.rings[channel].order.iter().map(|hop| hop.rank as usize).collect();
        let place = order.iter().position(|rank| *rank == first).unwrap();
        order.rotate_left(place);
        order
    }

    /// Ranks by host, hosts in the order of their lowest ranks.
    fn hosts(&self, order: &[usize]) -> Vec<Vec<usize>> {
        let mut names: Vec<&str> = Vec::new();
        for rank in 0..self.one.n_ranks as usize {
            if !names.contains(&self.host(rank)) {
                names.push(self.host(rank));
            }
        }
        let of = |name| order.iter().copied().filter(|rank| self.host(*rank) == name).collect();
        names.into_iter().map(of).collect()
    }

    fn host(&self, rank: usize) -> &'a str {
        &self.one.ranks.iter().find(|one| one.rank as usize == rank).unwrap().host
    }
}

fn after(order: &[usize], rank: usize) -> usize {
    let place = order.iter().position(|one| *one == rank).unwrap();
    order[(place + 1) % order.len()]
}
