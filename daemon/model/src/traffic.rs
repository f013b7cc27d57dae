//! Where the bytes of one rank went: to ranks on its own host, or to others.
//!
//! What the library sends over the network it reports step by step: those bytes are measured. What goes over NVLink,
//! PCIe or shared memory NCCL does not report: it is computed from the primitive's ring algorithm, whose traffic is
//! spread evenly over the channels (reference: NCCL `ncclTopoPostset`, and the ring kernels in `src/device/`). A hop
//! whose transport is not known is not computed, so the sum may be less than what moved, never more. A library that
//! reports its steps inside a host too, as ringscope's engine does, leaves nothing to compute.

use std::collections::{BTreeMap, BTreeSet};

use ringscope_wire::Primitive;

use super::Model;
use super::communicator::{Communicator, RankRef};
use super::names::Name;
use super::places::Position;

/// Bytes that a rank sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// To ranks on the same host.
    pub intra_bytes: u64,
    /// To ranks on other hosts.
    pub inter_bytes: u64,
    /// Version of a library that has not told all that went over the network ([`Primitive::is_untold_by`]).
    pub untold_by: Option<u32>,
}

impl Traffic {
    /// Adds another rank's or primitive's.
    pub fn add(&mut self, other: Self) {
        self.intra_bytes = self.intra_bytes.saturating_add(other.intra_bytes);
        self.inter_bytes = self.inter_bytes.saturating_add(other.inter_bytes);
        self.untold_by = self.untold_by.max(other.untold_by);
    }
}

/// Where the ranks of a communicator are, and what is reported of the ways between them.
#[derive(Clone, Debug)]
pub struct Neighbours<'a> {
    /// The host of each rank, by rank, where known.
    hosts: Vec<Option<&'a Name>>,
    /// Whether the library reports what it sends inside a host without the network.
    tells_inside: bool,
}

impl<'a> Neighbours<'a> {
    /// Of a communicator.
    #[must_use]
    pub fn of(communicator: &'a Communicator, model: &'a Model) -> Self {
        let mut neighbours = Self { hosts: communicator.hosts_by_rank(model), tells_inside: false };
        neighbours.tells_inside = communicator.ranks(model).any(|rank| neighbours.are_told_by(&rank));
        neighbours
    }

    fn is_intra(&self, rank: &RankRef<'_>, peer: u32) -> bool {
        self.hosts.get(peer as usize).copied().flatten() == Some(&rank.identity.host)
    }

    /// Whether a rank reports bytes to another one on its host, and not because its rings use the network there.
    fn are_told_by(&self, rank: &RankRef<'_>) -> bool {
        let mut rings = rank.facts.rings.values().filter(|place| self.is_intra(rank, place.next));
        let mut links = rank.local.links().keys();
        !rank.facts.rings.is_empty()
            && rings.all(is_unreported)
            && links.any(|(_, peer)| *peer != rank.rank && self.is_intra(rank, *peer))
    }
}

/// Whether NCCL would not report what goes over this hop.
fn is_unreported(place: &Position) -> bool {
    !place.transport.is_empty() && !place.transport.starts_with("NET")
}

/// What one rank sent, by primitive.
#[must_use]
pub fn traffic(rank: &RankRef<'_>, neighbours: &Neighbours<'_>) -> BTreeMap<Primitive, Traffic> {
    let is_intra = |peer: u32| neighbours.is_intra(rank, peer);
    let mut traffic: BTreeMap<Primitive, Traffic> = BTreeMap::new();
    for ((primitive, peer), sent) in rank.local.links() {
        traffic.entry(*primitive).or_default().add(on(is_intra(*peer), sent.bytes));
    }
    let hosts = &neighbours.hosts;
    if !is_one_host(rank, hosts) {
        let version = rank.identity.library_version;
        let called = rank.local.counters().iter().filter(|(_, counted)| counted.totals().completed_calls > 0);
        for (primitive, _) in called.filter(|(primitive, _)| primitive.is_untold_by(version)) {
            traffic.entry(primitive).or_default().untold_by = Some(version);
        }
    }
    if neighbours.tells_inside {
        return traffic;
    }
    let share = RingShare::of(rank, is_intra);
    for (primitive, counted) in rank.local.counters().iter() {
        let completed = counted.totals().completed_bytes;
        let computed = match primitive {
            Primitive::AllToAll => Traffic {
                intra_bytes: to_neighbours(rank, primitive, completed, hosts),
                ..Traffic::default()
            },
            Primitive::Send if is_one_host(rank, hosts) && !traffic.contains_key(&primitive) => {
                on(true, completed)
            }
            _ => share.of_ring(ring_bytes(primitive, completed, rank.facts.n_ranks)),
        };
        traffic.entry(primitive).or_default().add(computed);
    }
    traffic
}

/// Bytes that each rank of a ring sends for `completed` payload bytes. Of a broadcast or reduce the last rank sends
/// none; which one that is differs by root, so each is given the mean.
fn ring_bytes(primitive: Primitive, completed: u64, n_ranks: u32) -> u128 {
    let (bytes, n) = (u128::from(completed), u128::from(n_ranks.max(1)));
    match primitive {
        Primitive::AllReduce => bytes * 2 * (n - 1) / n,
        // Counted by what one rank contributes, NCCL's convention: it passes on everyone else's as well.
        Primitive::AllGather | Primitive::ReduceScatter => bytes * (n - 1),
        Primitive::Broadcast | Primitive::Reduce => bytes * (n - 1) / n,
        _ => 0,
    }
}

/// All-to-all goes to each peer directly: bytes to those on the same host that it has no network link to.
fn to_neighbours(rank: &RankRef<'_>, primitive: Primitive, bytes: u64, hosts: &[Option<&Name>]) -> u64 {
    let linked: BTreeSet<u32> =
        rank.local.links().keys().filter(|link| link.0 == primitive).map(|link| link.1).collect();
    let own = &rank.identity.host;
    let neighbours = (0_u32..)
        .zip(hosts)
        .filter(|(peer, host)| **host == Some(own) && *peer != rank.rank && !linked.contains(peer))
        .count();
    bytes.saturating_mul(neighbours as u64)
}

fn is_one_host(rank: &RankRef<'_>, hosts: &[Option<&Name>]) -> bool {
    hosts.len() == rank.facts.n_ranks as usize && hosts.iter().all(|host| *host == Some(&rank.identity.host))
}

fn on(intra: bool, bytes: u64) -> Traffic {
    if intra {
        Traffic { intra_bytes: bytes, ..Traffic::default() }
    } else {
        Traffic { inter_bytes: bytes, ..Traffic::default() }
    }
}

/// How many of a rank's channels leave it by something else than the network, and where to.
struct RingShare {
    intra: u128,
    inter: u128,
    channels: u128,
}

impl RingShare {
    fn of(rank: &RankRef<'_>, is_intra: impl Fn(u32) -> bool) -> Self {
        let rings = &rank.facts.rings;
        let mut share = Self { intra: 0, inter: 0, channels: rings.len() as u128 };
        for place in rings.values().filter(|place| is_unreported(place)) {
            if is_intra(place.next) {
                share.intra += 1;
            } else {
                // NVLink between hosts.
                share.inter += 1;
            }
        }
        share
    }

    fn of_ring(&self, bytes: u128) -> Traffic {
        let part = |channels: u128| {
            let bytes = (bytes * channels).checked_div(self.channels).unwrap_or(0);
            u64::try_from(bytes).unwrap_or(u64::MAX)
        };
        Traffic { intra_bytes: part(self.intra), inter_bytes: part(self.inter), ..Traffic::default() }
    }
}
