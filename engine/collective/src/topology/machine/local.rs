//! What is nearest to what (`src/graph/topo.cc`, `ncclTopoGetLocal` and what is built on it).

use super::system::{Kind, System};
use crate::channels::MAX_CHANNELS;
use crate::topology::graph::PathType;

impl System {
    /// Of a kind, those with the fastest and then the shortest way from a node, and how far they are.
    pub(crate) fn nearest(&self, from: (Kind, usize), kind: Kind) -> (Vec<usize>, Option<PathType>) {
        let (mut most, mut least, mut found) = (0.0, None, Vec::new());
        for index in 0..self.of(kind).len() {
            let Some(path) = self.between(from, (kind, index)) else { continue };
            let nearer = least.is_none_or(|least| path.kind < least);
            if path.bandwidth > most || (path.bandwidth >= most && nearer) {
                (most, least) = (path.bandwidth, Some(path.kind));
                found.clear();
            }
            if path.bandwidth >= most && Some(path.kind) == least {
                found.push(index);
            }
        }
        (found, least)
    }

    /// The NUMA node with the fewest links from a GPU.
    pub(crate) fn local_cpu(&self, gpu: usize) -> usize {
        let links = |cpu: &usize| {
            self.between((Kind::Gpu, gpu), (Kind::Cpu, *cpu)).map_or(usize::MAX, |p| p.links.len())
        };
        (0..self.of(Kind::Cpu).len()).min_by_key(links).unwrap_or(0)
    }

    /// The port of a GPU on a channel (`ncclTopoGetLocalNet`): GPUs that share ports take turns.
    pub(crate) fn local_net(&self, gpu: usize, channel: usize) -> Option<usize> {
        let nets = self.nearest((Kind::Gpu, gpu), Kind::Net).0;
        let sharing = self.nearest((Kind::Net, *nets.first()?), Kind::Gpu).0.len().max(1);
        let device = self.gpu(gpu).0 as usize;
        let first = if nets.len().is_power_of_two() { mirrored(device, nets.len()) } else { device };
        nets.get((first + channel % nets.len().div_ceil(sharing)) % nets.len()).copied()
    }

    /// The GPU of a port: the first nearest one that would take it (`ncclTopoGetLocalGpu`).
    pub(super) fn local_gpu(&self, net: usize) -> Option<usize> {
        let gpus = self.nearest((Kind::Net, net), Kind::Gpu).0;
        (0..MAX_CHANNELS)
            .find_map(|channel| gpus.iter().copied().find(|gpu| self.local_net(*gpu, channel) == Some(net)))
    }

    /// The shortest and the longest way from the GPUs to those of a kind; itself does not count.
    pub(crate) fn extremes(&self, kind: Kind) -> (PathType, PathType) {
        let mut found = (PathType::Sys, PathType::Loc);
        for gpu in 0..self.n_gpus() {
            for other in (0..self.of(kind).len()).filter(|other| kind != Kind::Gpu || *other != gpu) {
                let path =
                    self.between((Kind::Gpu, gpu), (kind, other)).map_or(PathType::Sys, |path| path.kind);
                found = (found.0.min(path), found.1.max(path));
            }
        }
        found
    }

    /// Whether there are two islands of GPUs with NVLink and none between (`ncclTopoSplitNvLink`).
    pub(crate) fn is_split(&self) -> bool {
        let n = self.n_gpus();
        let mut island: Vec<usize> = (0..n).collect();
        for gpu in 0..n {
            for other in gpu + 1..n {
                let path = self.between((Kind::Gpu, gpu), (Kind::Gpu, other));
                if path.is_some_and(|path| path.kind == PathType::Nvl) {
                    island[other] = island[gpu];
                }
            }
        }
        let several = |of: &usize| island.iter().filter(|other| *other == of).count() > 1;
        (0..n).filter(several).count() == 2
    }
}

/// The bits of a number in reverse, within a power of two.
pub(super) fn mirrored(value: usize, power: usize) -> usize {
    let bits = power.trailing_zeros();
    (0..bits).filter(|bit| value >> bit & 1 == 1).map(|bit| power >> 1 >> bit).sum()
}
