//! The ways that channels take, and the bandwidth that is left on their links (`src/graph/search.cc`, `ncclTopoFollowPath`). A
//! search goes along them half a million times, so they are laid out for that.

use super::order;
use crate::topology::graph::{LinkKind, PathType};
use crate::topology::machine::system::{Facts, Kind, System};

/// What Intel's processors make of traffic between GPUs: more of it.
const INTEL_OVERHEAD: f32 = 6.0 / 5.0;

/// A GPU, a port or the NVSwitches, by its number among these.
pub(super) type Point = usize;

/// A way.
#[derive(Debug)]
pub(super) struct Way {
    /// How far.
    pub(super) kind: PathType,
    /// Each link by its number, and how much more of it is taken than a channel carries.
    pub(super) links: Vec<(usize, f32)>,
}

/// All ways between points, and in which order GPUs are tried.
#[derive(Debug)]
pub(super) struct Ways {
    n_gpus: usize,
    n_nets: usize,
    ways: Vec<Option<Way>>,
    /// GB/s of each link.
    pub(super) links: Vec<f32>,
    /// By GPU and NIC that the channel came in by, none last: the other GPUs, the best first, each with a number that is the
    /// same for those that are as near.
    next: Vec<Vec<(usize, u8)>>,
    /// By how far they may be and GPU, that of all last: the ports that a channel may take, the best first.
    nets: Vec<Vec<usize>>,
}

impl Ways {
    pub(super) fn new(system: &System) -> Self {
        let offsets: Vec<usize> = system
            .nodes
            .iter()
            .scan(0, |sum, node| {
                *sum += node.links.len();
                Some(*sum - node.links.len())
            })
            .collect();
        let points = [Kind::Gpu, Kind::Net, Kind::Nvs].map(|kind| system.of(kind).to_vec()).concat();
        let way = |from: usize, to: usize| {
            let path = system.path(from, to)?;
            let to_of = |(node, link): &(usize, usize)| system.nodes[*node].links[*link];
            let intel = path
                .links
                .iter()
                .any(|link| matches!(system.nodes[to_of(link).to].facts, Facts::Cpu((1, 1, _))));
            let over = intel && path.kind == PathType::Phb && system.nodes[from].kind == Kind::Gpu;
            let share = |link: &(usize, usize)| {
                if over && to_of(link).kind == LinkKind::Pci { INTEL_OVERHEAD } else { 1.0 }
            };
            let links = path.links.iter().map(|link| (offsets[link.0] + link.1, share(link))).collect();
            Some(Way { kind: path.kind, links })
        };
        let ways = points.iter().flat_map(|from| points.iter().map(|to| way(*from, *to))).collect();
        let links =
            system.nodes.iter().flat_map(|node| node.links.iter().map(|link| link.bandwidth)).collect();
        let (n_gpus, n_nets) = (system.n_gpus(), system.of(Kind::Net).len());
        let nets = || (0..n_nets).map(Some).chain([None]);
        let next =
            (0..n_gpus).flat_map(|gpu| nets().map(move |net| order::next_gpus(system, gpu, net))).collect();
        let gpus = || (0..n_gpus).map(Some).chain([None]);
        let far = PathType::ALL.into_iter().filter(|_| system.inter);
        let nets = far.flat_map(|far| gpus().map(move |gpu| order::nets(system, far, gpu))).collect();
        Self { n_gpus, n_nets, ways, links, next, nets }
    }

    pub(super) fn net(&self, net: usize) -> Point {
        self.n_gpus + net
    }

    pub(super) fn switch(&self) -> Point {
        self.n_gpus + self.n_nets
    }

    /// The GPUs that may follow one, in a channel that came in by `net` if that is to be taken into account.
    pub(super) fn next(&self, gpu: usize, net: Option<usize>) -> &[(usize, u8)] {
        &self.next[gpu * (self.n_nets + 1) + net.unwrap_or(self.n_nets)]
    }

    /// The ports that a GPU, or any, may take.
    pub(super) fn nets(&self, gpu: Option<usize>, far: PathType) -> &[usize] {
        &self.nets[far as usize * (self.n_gpus + 1) + gpu.unwrap_or(self.n_gpus)]
    }

    /// The way from one point to another.
    pub(super) fn way(&self, from: Point, to: Point) -> Option<&Way> {
        let n = self.ways.len().isqrt();
        self.ways.get(from * n + to)?.as_ref()
    }

    /// Whether a point is no port.
    pub(super) fn is_inside(&self, point: Point) -> bool {
        point < self.n_gpus || point >= self.switch()
    }
}
