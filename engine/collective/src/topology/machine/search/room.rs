//! Takes the bandwidth of a channel's ways, and gives it back.

use super::topo_graph::Pattern;
use super::walk::Walk;
use super::ways::{Point, Way};
use crate::topology::graph::PathType;

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
