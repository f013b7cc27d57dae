//! The ways that channels take, and the bandwidth that is left on their links (`src/graph/search.cc`, `ncclTopoFollowPath`). A
//! search goes along them half a million times, so they are laid out for that.

use super::found::Pattern;
use super::order;
use super::walk::Walk;
use crate::topology::graph::{LinkKind, PathType};
use crate::topology::machine::system::{Facts, Kind, System};

/// What Intel's processors make of traffic between GPUs: more of it.
const INTEL_OVERHEAD: f32 = 6.0 / 5.0;

/// A GPU, a port or the NVSwitches, by its number among these.
pub(super) type Point = usize;

/// A way.
#[derive(Debug)]
struct Way {
    kind: PathType,
    /// Each link by its number, and how much more of it is taken than a channel carries.
    links: Vec<(usize, f32)>,
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

    fn way(&self, from: Point, to: Point) -> Option<&Way> {
        let n = self.ways.len().isqrt();
        self.ways.get(from * n + to)?.as_ref()
    }

    fn is_inside(&self, point: Point) -> bool {
        point < self.n_gpus || point >= self.switch()
    }
}

impl Walk<'_> {
    /// Takes the bandwidth of a way, if it is short enough and has room. A channel's beginning without a NIC is no way.
    pub(super) fn follow(&mut self, from: Option<Point>, to: Point, share: f32) -> bool {
        let Some(from) = from else { return true };
        let ways = self.ways;
        let Some(way) = ways.way(from, to) else { return false };
        let (most, bandwidth) = self.limit_of(from, to);
        let is_tree = matches!(self.tried.pattern, Pattern::BalancedTree | Pattern::Tree);
        let back_is_far = || is_tree && ways.way(to, from).is_some_and(|back| back.kind > most);
        if self.tried.pattern != Pattern::CollNetDirect && (way.kind > most || back_is_far()) {
            return false;
        }
        let taken = self.take(way, bandwidth * share, way.links.len());
        if taken < way.links.len() {
            self.take(way, -bandwidth * share, taken);
            return false;
        }
        self.tried.n_hops += self.hops(way, share);
        true
    }

    /// Gives it back.
    pub(super) fn leave(&mut self, from: Option<Point>, to: Point, share: f32) {
        let Some(from) = from else { return };
        let ways = self.ways;
        let (_, bandwidth) = self.limit_of(from, to);
        if let Some(way) = ways.way(from, to) {
            self.take(way, -bandwidth * share, way.links.len());
            self.tried.n_hops -= self.hops(way, share);
        }
    }

    /// How far a way may be, and GB/s of a channel on it: within the node, or to its NICs.
    fn limit_of(&self, from: Point, to: Point) -> (PathType, f32) {
        if self.ways.is_inside(from) && self.ways.is_inside(to) {
            (self.tried.type_intra, self.tried.bw_intra)
        } else {
            (self.tried.type_inter, self.tried.bw_inter)
        }
    }

    /// Takes from the first links of a way; as many as have room.
    fn take(&mut self, way: &Way, bandwidth: f32, n_links: usize) -> usize {
        for (step, (link, more)) in way.links[..n_links].iter().enumerate() {
            let left = &mut self.left[*link];
            let wanted = bandwidth * more;
            if *left < wanted {
                return step;
            }
            *left = ((*left - wanted) * 1000.0).round() / 1000.0;
        }
        n_links
    }

    /// Links of a way, as often as it is taken; of a balanced tree's the whole, for each half.
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "a few links")]
    fn hops(&self, way: &Way, share: f32) -> i64 {
        let share = if self.tried.pattern == Pattern::BalancedTree { 1.0 } else { share };
        (share * way.links.len() as f32) as i64
    }
}
