//! The bandwidth of the ways that channels take (`src/graph/search.cc`, `ncclTopoFollowPath`).

use super::found::Pattern;
use super::walk::Walk;
use crate::topology::graph::{LinkKind, PathType};
use crate::topology::machine::system::{Facts, Kind, Path};

/// What Intel's processors make of traffic between GPUs: more of it.
const INTEL_OVERHEAD: f32 = 6.0 / 5.0;

impl Walk<'_> {
    /// Takes the bandwidth of a way, if it is short enough and has room. A channel's beginning without a NIC is no way.
    pub(super) fn follow(&mut self, from: Option<(Kind, usize)>, to: (Kind, usize), share: f32) -> bool {
        let Some(from) = from else { return true };
        let system = self.system;
        let (intra, bandwidth) = self.kind_of(from, to);
        let Some(path) = system.between(from, to) else { return false };
        let most = if intra { self.tried.type_intra } else { self.tried.type_inter };
        let is_tree = matches!(self.tried.pattern, Pattern::BalancedTree | Pattern::Tree);
        let back = system.between(to, from).filter(|_| is_tree);
        let is_far = path.kind > most || back.is_some_and(|back| back.kind > most);
        if is_far && self.tried.pattern != Pattern::CollNetDirect {
            return false;
        }
        let taken = self.take(path, from, bandwidth * share, path.links.len());
        if taken < path.links.len() {
            self.take(path, from, -bandwidth * share, taken);
            return false;
        }
        self.tried.n_hops += self.hops(path, share);
        true
    }

    pub(super) fn leave(&mut self, from: Option<(Kind, usize)>, to: (Kind, usize), share: f32) {
        let Some(from) = from else { return };
        let system = self.system;
        let (_, bandwidth) = self.kind_of(from, to);
        if let Some(path) = system.between(from, to) {
            self.take(path, from, -bandwidth * share, path.links.len());
            self.tried.n_hops -= self.hops(path, share);
        }
    }

    /// Whether a way is within the node, and GB/s of a channel on it.
    fn kind_of(&self, from: (Kind, usize), to: (Kind, usize)) -> (bool, f32) {
        let inside = |kind: Kind| matches!(kind, Kind::Gpu | Kind::Nvs);
        let intra = inside(from.0) && inside(to.0);
        (intra, if intra { self.tried.bw_intra } else { self.tried.bw_inter })
    }

    /// Takes from the first links of a way; as many as have room.
    fn take(&mut self, path: &Path, from: (Kind, usize), bandwidth: f32, n_links: usize) -> usize {
        let over_intel = from.0 == Kind::Gpu
            && path.kind == PathType::Phb
            && path.links.iter().any(|(node, link)| {
                let to = self.system.nodes[*node].links[*link].to;
                matches!(self.system.nodes[to].facts, Facts::Cpu((1, 1, _)))
            });
        for (step, (node, link)) in path.links.iter().take(n_links).enumerate() {
            let is_pci = self.system.nodes[*node].links[*link].kind == LinkKind::Pci;
            let wanted = if is_pci && over_intel { bandwidth * INTEL_OVERHEAD } else { bandwidth };
            let left = &mut self.left[*node][*link];
            if *left < wanted {
                return step;
            }
            *left = ((*left - wanted) * 1000.0).round() / 1000.0;
        }
        n_links
    }

    /// Links of a way, as often as it is taken; of a balanced tree's the whole, for each half.
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "a few links")]
    fn hops(&self, path: &Path, share: f32) -> i64 {
        let share = if self.tried.pattern == Pattern::BalancedTree { 1.0 } else { share };
        (share * path.links.len() as f32) as i64
    }
}
