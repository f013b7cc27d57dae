//! What a search tries first: the next GPU of a channel, and the NICs that it may take (`src/graph/search.cc`,
//! `ncclTopoSearchNextGpuSort` and `ncclTopoSelectNets`).

use std::cmp::Reverse;

use super::found::Pattern;
use crate::channels::MAX_CHANNELS;
use crate::topology::graph::{LinkKind, PathType};
use crate::topology::machine::system::{Kind, System};

/// How the NIC of a channel is taken into account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Toward {
    /// Not at all.
    Nowhere,
    /// The next GPU goes back to it.
    Net(usize),
    /// A later GPU goes back to it, so GPUs near it are kept.
    Away(usize),
}

/// Whole GB/s, as NCCL compares them.
#[expect(clippy::cast_possible_truncation, reason = "a few thousand at most")]
fn whole(bandwidth: f32) -> i64 {
    bandwidth as i64
}

/// GPUs that may follow one, the best first; `is_used` says which the channel has already.
pub(super) fn next_gpus(
    system: &System,
    pattern: Pattern,
    gpu: usize,
    is_used: impl Fn(usize) -> bool,
    toward: Toward,
) -> Vec<usize> {
    let n = system.n_gpus();
    let net = match toward {
        Toward::Nowhere => None,
        Toward::Net(net) | Toward::Away(net) => Some(net),
    };
    let score = |step: usize| {
        let other = (gpu + step) % n;
        let intra =
            system.between((Kind::Gpu, gpu), (Kind::Gpu, other)).filter(|path| !path.links.is_empty())?;
        let inter = net.and_then(|net| system.between((Kind::Net, net), (Kind::Gpu, other)));
        let inter = inter.map_or((0, 0, 0), |path| {
            (whole(path.bandwidth), pci_bandwidth(system, other), path.links.len())
        });
        let order = (Reverse(inter.0), Reverse(inter.1), inter.2);
        Some((order, (Reverse(whole(intra.bandwidth)), intra.links.len()), step, other))
    };
    let mut scores: Vec<_> = (1..n).filter(|step| !is_used((gpu + step) % n)).filter_map(score).collect();
    scores.sort_unstable_by_key(|(inter, intra, step, _)| (*inter, *intra, *step));
    let all_alike = scores.windows(2).all(|pair| pair[0].1 == pair[1].1);
    let mut next: Vec<usize> = scores.into_iter().map(|score| score.3).collect();
    if matches!(toward, Toward::Away(_)) && all_alike {
        next.reverse();
    }
    if !system.of(Kind::Nvs).is_empty() {
        keep_neighbours(pattern, gpu, n, &mut next);
    }
    next
}

/// Behind NVSwitches only the neighbours are tried, which keeps the number of peers small.
fn keep_neighbours(pattern: Pattern, gpu: usize, n: usize, next: &mut Vec<usize>) {
    let (before, after) = ((gpu + n - 1) % n, (gpu + 1) % n);
    let first: &[usize] = match pattern {
        _ if before == after => &[after],
        Pattern::Ring => &[after, before],
        Pattern::BalancedTree => &[before, after],
        _ => &[after],
    };
    let mut count = 0;
    for wanted in first {
        if let Some(at) = next.iter().position(|gpu| gpu == wanted) {
            next[..=at].rotate_right(1);
            count += 1;
        }
    }
    next.truncate(count);
}

fn pci_bandwidth(system: &System, gpu: usize) -> i64 {
    let node = system.of(Kind::Gpu)[gpu];
    let Some(up) = system.nodes[node].links.iter().find(|link| link.kind == LinkKind::Pci) else { return -1 };
    let down = system.nodes[up.to].links.iter().find(|link| link.to == node);
    down.map_or(-1, |down| whole(up.bandwidth.min(down.bandwidth)))
}

/// The NICs for a channel, or for one of its GPUs, the best first.
pub(super) fn nets(system: &System, type_inter: PathType, gpu: Option<usize>) -> Vec<usize> {
    let gpus = || (0..system.n_gpus()).filter(|other| gpu.is_none_or(|gpu| gpu == *other));
    let mut nets = Vec::new();
    let add = |nets: &mut Vec<usize>, net: usize| {
        if !nets.contains(&net) {
            nets.push(net);
        }
    };
    for gpu in gpus() {
        let first = system.local_net(gpu, 0);
        for channel in 0..MAX_CHANNELS {
            let net = system.local_net(gpu, channel);
            if channel > 0 && net == first {
                break;
            }
            net.into_iter().for_each(|net| add(&mut nets, net));
        }
    }
    for far in PathType::ALL.into_iter().filter(|far| *far <= type_inter) {
        for gpu in gpus() {
            let is_so_far = |net: &usize| {
                system.between((Kind::Gpu, gpu), (Kind::Net, *net)).is_some_and(|path| path.kind == far)
            };
            (0..system.of(Kind::Net).len()).filter(is_so_far).for_each(|net| add(&mut nets, net));
        }
    }
    nets
}
