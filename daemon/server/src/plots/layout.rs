//! Where things are: pure geometry. Angles in radians, 0 at the top, clockwise; lengths in pixels.

use std::collections::BTreeMap;
use std::f64::consts::TAU;

use ringscope_api::Ring;

/// Places of ranks and hosts on the circle.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) centre: (f64, f64),
    /// Of the circle of ranks.
    pub(super) radius: f64,
    /// Of a rank's dot.
    pub(super) dot: f64,
    /// Angle of each rank of the ring.
    pub(super) angles: BTreeMap<u32, f64>,
    pub(super) hosts: Vec<HostArc>,
    /// Place of each rank's host among `hosts`.
    pub(super) host_index: BTreeMap<u32, usize>,
}

/// The part of the circle that a host has.
#[derive(Debug, PartialEq)]
pub(super) struct HostArc {
    pub(super) host: String,
    pub(super) from: f64,
    pub(super) to: f64,
}

impl Layout {
    /// Ranks in the order of the ring, but those of one host side by side: then a ring that comes back to a host
    /// shows as lines across the circle.
    pub(super) fn new(ring: &Ring, centre: (f64, f64), radius: f64) -> Self {
        let mut hosts: Vec<(&str, Vec<u32>)> = Vec::new();
        let mut indices: BTreeMap<&str, usize> = BTreeMap::new();
        let mut host_index = BTreeMap::new();
        for hop in &ring.order {
            let index = *indices.entry(&hop.host).or_insert(hosts.len());
            if index == hosts.len() {
                hosts.push((&hop.host, Vec::new()));
            }
            hosts[index].1.push(hop.rank);
            host_index.insert(hop.rank, index);
        }
        let n_ranks = ring.order.len().max(1);
        let gap_ranks = if hosts.len() > 1 { HOST_GAP_RANKS } else { 0.0 };
        let step = TAU / (to_f64(n_ranks) + gap_ranks * to_f64(hosts.len()));
        let mut angles = BTreeMap::new();
        let mut arcs = Vec::new();
        let mut angle = 0.0;
        for (host, ranks) in hosts {
            let from = angle - step * ARC_OVERHANG;
            for rank in &ranks {
                angles.insert(*rank, angle);
                angle += step;
            }
            let to = angle - step * (1.0 - ARC_OVERHANG);
            arcs.push(HostArc { host: host.to_owned(), from, to });
            angle += step * gap_ranks;
        }
        let dot = (step * radius * 0.36).clamp(radius * 0.007, radius * 0.055);
        Self { centre, radius, dot, angles, hosts: arcs, host_index }
    }

    /// The point at an angle and a distance from the centre.
    pub(super) fn point(&self, angle: f64, distance: f64) -> (f64, f64) {
        (self.centre.0 + distance * angle.sin(), self.centre.1 - distance * angle.cos())
    }

    /// Points along an arc, close enough to look round.
    pub(super) fn arc(&self, from: f64, to: f64, distance: f64) -> Vec<(f64, f64)> {
        let steps =
            (2_u32..).find(|steps| (to - from) * distance / f64::from(*steps) <= ARC_STEP_PX).unwrap_or(2);
        (0..=steps)
            .map(|at| self.point(from + (to - from) * f64::from(at) / f64::from(steps), distance))
            .collect()
    }
}

/// `[tip, left, right]` of an arrow's head that ends at `to`.
pub(super) fn arrow_head(from: (f64, f64), to: (f64, f64), size: f64) -> [(f64, f64); 3] {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx.hypot(dy).max(1e-9);
    let (ux, uy) = (dx / length, dy / length);
    let base = (to.0 - ux * size, to.1 - uy * size);
    let side = (-uy * size * 0.5, ux * size * 0.5);
    [to, (base.0 + side.0, base.1 + side.1), (base.0 - side.0, base.1 - side.1)]
}

/// The line between two dots, shortened by their radius.
pub(super) fn between(from: (f64, f64), to: (f64, f64), dot: f64) -> ((f64, f64), (f64, f64)) {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx.hypot(dy).max(1e-9);
    let cut = (dot / length).min(0.45);
    ((from.0 + dx * cut, from.1 + dy * cut), (to.0 - dx * cut, to.1 - dy * cut))
}

#[expect(clippy::cast_precision_loss, reason = "numbers of ranks")]
pub(super) const fn to_f64(number: usize) -> f64 {
    number as f64
}

/// Room between hosts, in places of ranks.
const HOST_GAP_RANKS: f64 = 0.6;
/// How far a host's arc reaches beyond its outer ranks, in places of ranks.
const ARC_OVERHANG: f64 = 0.4;
const ARC_STEP_PX: f64 = 3.0;

#[cfg(test)]
mod tests {
    use super::*;
    use ringscope_api::Hop;

    fn hop(rank: u32, host: &str, next: u32) -> Hop {
        Hop {
            rank,
            host: host.into(),
            gpu: None,
            transport: None,
            nic: None,
            recv_nic: None,
            gpu_direct: None,
            proxy_rank: None,
            odd: Vec::new(),
            next,
            sent_bytes: None,
        }
    }

    #[test]
    fn ranks_of_a_host_are_neighbours_even_if_the_ring_comes_back() {
        let order = vec![hop(0, "a", 2), hop(2, "b", 1), hop(1, "a", 3), hop(3, "b", 0)];
        let ring = Ring { channel: 0, complete: true, missing_ranks: vec![], problem: None, order };
        let layout = Layout::new(&ring, (0.0, 0.0), 100.0);
        assert_eq!(layout.hosts.len(), 2);
        let a = &layout.hosts[0];
        for rank in [0, 1] {
            assert!((a.from..=a.to).contains(&layout.angles[&rank]), "{rank}");
        }
        assert!(layout.angles[&1] < layout.angles[&2]);
        assert!(layout.hosts[1].to <= TAU);
    }
}
