//! What a search tries first: the next GPU of a channel, and the NICs that it may take (`src/graph/search.cc`,
//! `ncclTopoSearchNextGpuSort` and `ncclTopoSelectNets`).

use std::cmp::Reverse;

use super::topo_graph::Pattern;
use crate::channels::MAX_CHANNELS;
use crate::topology::graph::{LinkKind, PathType};
use crate::topology::machine::system::{Kind, System};

/// Whole GB/s, as NCCL compares them.
#[expect(clippy::cast_possible_truncation, reason = "a few thousand at most")]
fn whole(bandwidth: f32) -> i64 {
    bandwidth as i64
}

/// The other GPUs, as they may follow one in a channel that came in by `net`, if that is to be taken into account: the best
/// first. Those that are as near to it have the same number.
pub(super) fn next_gpus(system: &System, gpu: usize, net: Option<usize>) -> Vec<(usize, u8)> {
    let n = system.n_gpus();
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
    let mut scores: Vec<_> = (1..n).filter_map(score).collect();
    scores.sort_unstable_by_key(|(inter, intra, step, _)| (*inter, *intra, *step));
    let mut near: Vec<_> = scores.iter().map(|score| score.1).collect();
    near.sort_unstable();
    near.dedup();
    let class = |score: &_| near.iter().position(|other| other == score).and_then(|at| u8::try_from(at).ok());
    scores.iter().map(|score| (score.3, class(&score.1).unwrap_or(u8::MAX))).collect()
}

/// Behind NVSwitches only the neighbours are tried, which keeps the number of peers small.
pub(super) fn keep_neighbours(pattern: Pattern, gpu: usize, n: usize, next: &mut Vec<usize>) {
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
