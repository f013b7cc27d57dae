//! On which channels two ranks send and receive: by the round in which they meet (`src/init.cc` `ncclP2pSchedule`,
//! `src/include/channel.h` `ncclP2pChannelBaseForRound`, `src/include/device.h` `ncclP2pChannelForPart`).

use super::described::Described;
use super::local::mirrored;
use crate::faithful::Version;

/// Sends and receives of a channel at a time, which is also the most ranks of a group.
const GROUP: usize = 8;

/// The channels of what `rank` sends to `peer`, or receives from it, of `(all, each)` channels.
pub(crate) fn channels(
    described: &Described,
    rank: usize,
    peer: usize,
    sends: bool,
    (all, each): (usize, usize),
) -> Vec<usize> {
    let (round, size) = round(described, rank, peer, sends);
    let base = if described.n_nodes() > 1 {
        round / size * size.div_ceil(GROUP) + round % size / GROUP
    } else {
        round
    };
    let newer = described.version() >= Version::V2_28;
    let base = if newer { mirrored(base, all) } else { base };
    let part = |part: usize| if newer { part } else { mirrored(part, all) };
    (0..each).map(|each| (base + part(each)) % all).collect()
}

/// In which round, and how many ranks a group has.
fn round(described: &Described, rank: usize, peer: usize, sends: bool) -> (usize, usize) {
    let n_nodes = described.n_nodes();
    let counts: Vec<usize> = (0..n_nodes).map(|node| described.members(node).len()).collect();
    let whole = if n_nodes > 1 { GROUP } else { counts.iter().copied().max().unwrap_or(1) };
    let size =
        counts.iter().fold(whole, |size, count| if count % size == 0 { size } else { gcd(size, *count) });
    let n_groups = counts.iter().sum::<usize>() / size;
    let place = |rank: usize| {
        let before: usize = counts[..described.node(rank)].iter().sum();
        let local = described.local(rank);
        ((before + local) / size, local % size)
    };
    let (own, other) = (place(rank), place(peer));
    let (from, to) = if sends { (own, other) } else { (other, own) };
    let delta = (to.0 + n_groups - from.0) % n_groups;
    let within = (to.1 + size - from.1) % size;
    // Triangular numbers modulo a power of two pass all of them once.
    let power = n_groups.next_power_of_two();
    let deltas = (0..power).map(|round| round * (round + 1) / 2 % power).filter(|delta| *delta < n_groups);
    let group_round = deltas.take_while(|other| *other != delta).count();
    (group_round * size + within, size)
}

fn gcd(one: usize, other: usize) -> usize {
    if other == 0 { one } else { gcd(other, one % other) }
}
