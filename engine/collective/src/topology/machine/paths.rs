//! The ways through a node (`src/graph/paths.cc`, `ncclTopoComputePaths`): the shortest ones, then those that take another
//! turn: between GPUs that cannot reach each other's memory, over a GPU to its NIC (PXN), to NICs that cannot reach a GPU's memory.

use super::system::{Facts, Kind, Path, System};
use crate::topology::graph::{LOC_BANDWIDTH, LinkKind, PathType};

/// As far as GPUs reach each other's memory, and NICs that of GPUs.
const DIRECT: PathType = PathType::Pxb;
/// GPUs up to which those behind AMD's processors always reach each other's memory.
const FEW_GPUS: usize = 2;

impl System {
    /// The way from one node to another.
    pub(crate) fn path(&self, from: usize, to: usize) -> Option<&Path> {
        self.paths.get(from)?.get(to)?.as_ref()
    }

    /// The way between two of their kinds.
    pub(crate) fn between(&self, from: (Kind, usize), to: (Kind, usize)) -> Option<&Path> {
        self.path(*self.of(from.0).get(from.1)?, *self.of(to.0).get(to.1)?)
    }

    pub(super) fn find_paths(&mut self) {
        self.paths = vec![vec![None; self.nodes.len()]; self.nodes.len()];
        for kind in [Kind::Cpu, Kind::Gpu, Kind::Net, Kind::Nvs] {
            for base in self.of(kind).to_vec() {
                self.find_paths_to(base);
            }
        }
        for to in 0..self.n_gpus() {
            for from in 0..self.n_gpus() {
                if !self.is_p2p(from, to) {
                    let cpu = self.local_cpu(to);
                    self.detour((Kind::Gpu, from), (Kind::Cpu, cpu), (Kind::Gpu, to));
                }
            }
        }
        for net in 0..self.of(Kind::Net).len() {
            for gpu in 0..self.n_gpus() {
                self.find_path_to_net(gpu, net);
            }
        }
        self.local_gpus = (0..self.of(Kind::Net).len()).map(|net| self.local_gpu(net)).collect();
    }

    /// Of all nodes to this one, breadth first.
    fn find_paths_to(&mut self, base: usize) {
        self.paths[base][base] =
            Some(Path { links: Vec::new(), bandwidth: LOC_BANDWIDTH, kind: PathType::Loc });
        let mut level = vec![base];
        while !level.is_empty() {
            let mut next = Vec::new();
            for node in level {
                for link in 0..self.nodes[node].links.len() {
                    let Some((at, path)) = self.longer(base, node, link) else { continue };
                    self.paths[at][base] = Some(path);
                    if !next.contains(&at) {
                        next.push(at);
                    }
                }
            }
            level = next;
        }
    }

    /// The way to `base` from where a link of `node` leads, if it is better than what is known.
    fn longer(&self, base: usize, node: usize, link: usize) -> Option<(usize, Path)> {
        let path = self.path(node, base)?;
        let link = self.nodes[node].links[link];
        let (kind, to) = (self.nodes[node].kind, self.nodes[link.to].kind);
        let relays = link.kind == LinkKind::Nvl && to == Kind::Gpu && path.links.len() <= 1;
        if node != base && kind == Kind::Gpu && !relays {
            return None;
        }
        let bandwidth = path.bandwidth.min(link.bandwidth);
        if let Some(known) = self.path(link.to, base)
            && (known.links.len() <= path.links.len() || known.bandwidth >= bandwidth)
        {
            return None;
        }
        let back = self.nodes[link.to].links.iter();
        let back = back.clone().position(|back| back.to == node && back.kind == link.kind)?;
        let mut links = vec![(link.to, back)];
        links.extend(&path.links);
        let own = match link.kind {
            LinkKind::Loc | LinkKind::Net => PathType::Loc,
            LinkKind::Nvl if kind == Kind::Gpu && path.kind == PathType::Nvl && links.len() > 1 => {
                PathType::Nvb
            }
            LinkKind::Nvl => PathType::Nvl,
            LinkKind::Pci if kind == Kind::Cpu || to == Kind::Cpu => PathType::Phb,
            LinkKind::Pci if kind == Kind::Pci && to == Kind::Pci => PathType::Pxb,
            LinkKind::Pci => PathType::Pix,
            LinkKind::Sys => PathType::Sys,
        };
        Some((link.to, Path { links, bandwidth, kind: path.kind.max(own) }))
    }

    /// Leads the way over another node.
    fn detour(&mut self, from: (Kind, usize), over: (Kind, usize), to: (Kind, usize)) {
        let (Some(first), Some(second)) = (self.between(from, over), self.between(over, to)) else { return };
        let kind = if over.0 == Kind::Gpu { PathType::Pxn } else { first.kind.max(second.kind) };
        let path = Path {
            links: first.links.iter().chain(&second.links).copied().collect(),
            bandwidth: first.bandwidth.min(second.bandwidth),
            kind,
        };
        let (from, to) = (self.of(from.0)[from.1], self.of(to.0)[to.1]);
        self.paths[from][to] = Some(path);
    }

    /// Whether two GPUs reach each other's memory (`ncclTopoCheckP2p`).
    pub(crate) fn is_p2p(&self, one: usize, other: usize) -> bool {
        let (arch, vendor, _) = self.cpu();
        let most = if (arch, vendor) == (1, 2) && self.n_gpus() <= FEW_GPUS { PathType::Sys } else { DIRECT };
        self.between((Kind::Gpu, one), (Kind::Gpu, other)).is_some_and(|path| path.kind <= most)
    }

    /// The GPU in between, where two reach each other over a third one.
    pub(crate) fn relay(&self, one: usize, other: usize) -> Option<usize> {
        let path = self.between((Kind::Gpu, one), (Kind::Gpu, other)).filter(|path| path.links.len() == 2)?;
        let over = path.links[1].0;
        self.of(Kind::Gpu).iter().position(|gpu| *gpu == over)
    }

    /// The GPU over which a GPU reaches a port, itself without PXN (`ncclTopoGetIntermediateRank`).
    pub(crate) fn proxy(&self, gpu: usize, net: usize) -> usize {
        let path = self.between((Kind::Gpu, gpu), (Kind::Net, net));
        let Some(path) = path.filter(|path| path.kind == PathType::Pxn) else { return gpu };
        let passed = path.links.iter().skip(1).map(|(node, _)| *node);
        let mut gpus = passed.filter_map(|node| self.of(Kind::Gpu).iter().position(|gpu| *gpu == node));
        gpus.next().unwrap_or(gpu)
    }

    /// Whether a port reaches a GPU's memory (`ncclTopoCheckGdr`).
    pub(crate) fn has_gdr(&self, gpu: usize, net: usize) -> bool {
        let gdr = matches!(self.nodes[self.of(Kind::Gpu)[gpu]].facts, Facts::Gpu { gdr: true, .. });
        let near = self.between((Kind::Gpu, self.proxy(gpu, net)), (Kind::Net, net));
        gdr && self.net(net).is_some_and(|net| net.gdr) && near.is_some_and(|path| path.kind <= DIRECT)
    }

    fn find_path_to_net(&mut self, gpu: usize, net: usize) {
        let (own, port) = ((Kind::Gpu, gpu), (Kind::Net, net));
        let local = self.local_gpu(net).filter(|local| *local != gpu);
        if let Some(local) = local.map(|local| (Kind::Gpu, local))
            && let (Some(own_path), Some(near)) = (self.between(own, port), self.between(local, port))
            && self.between(local, own).is_some_and(|path| path.kind <= PathType::Nvl)
            && near.kind <= DIRECT
            && (near.bandwidth > own_path.bandwidth || own_path.kind > PathType::Pxn)
        {
            self.detour(own, local, port);
        }
        let is_near = self.between(own, port).is_some_and(|path| path.kind < PathType::Phb);
        if is_near && !self.has_gdr(gpu, net) {
            let cpu = (Kind::Cpu, self.local_cpu(gpu));
            self.detour(port, cpu, own);
            self.detour(own, cpu, port);
        }
    }
}
