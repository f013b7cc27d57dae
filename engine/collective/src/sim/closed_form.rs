//! What formulas say an all-reduce takes: the simulation must agree where they apply.
//!
//! n ranks, S bytes, α seconds of latency, B bytes per second of each port and direction, R bytes reduced per second.
//!
//! - ring, of one rank on each host or on one host: 2(n−1)(α + S/nB) + (n−1)·S/nR. Patarasuk and Yuan, "Bandwidth optimal
//!   all-reduce algorithms for clusters of workstations", 2009, §3; Thakur, Rabenseifner and Gropp, 2005, §4.4.
//! - hierarchical, of k hosts of m ranks with a NIC for each rank: 2(m−1)(αᵢ + S/mBᵢ) + 2(k−1)(α + S/mkB), and
//!   S/R·(1 − 1/mk). The sum of its three rings; `collective/hierarchical.rs`.
//! - tree, of n = 2^h ranks, one on each host, where reducing costs nothing: 2hα + (2S + (4h−5)p)/B, p the bytes of a piece
//!   or of a tree's half, if that is less. Sanders, Speck and Träff, 2009, §3, twice; below.
//!
//! Blocks are whole elements, so S/n is that of the largest block.
//!
//! The tree: it hangs below a root with one child, h hops deep. A rank takes a piece from its children one after the other
//! and gives one to them one after the other, at each hop but the root's: a piece is (2h−1)(p/B) + hα on its way up, and as
//! long on its way down. While the pieces of both trees go up, a rank that is inside one of them receives 2p for each turn of
//! one piece a tree, and every rank but the root sends 2p; on the way down the other way round. So the last turn is behind the
//! first one by 2(S − 2p)/B in each direction. The two trees meet at a port once, which costs p/B. In all
//! 2(hα + (2h−1)p/B) + 2(S − 2p)/B + p/B. With one element, one tree carries all and no trees meet: 2(hα + (2h−1)p/B).
//!
//! This is exact with one piece in each tree, S ≤ 2p: with pieces of 512 KiB up to 1 MiB, and at any size where a half is not
//! divided; held to 1 % from 4 B to 1 GiB so. With more pieces it leaves out two things: pieces go down while others still
//! come up, which is faster, if latency leaves the ports idle; and ports serve whoever asks first, so pieces of the two
//! trees hold each other up, which is slower. How far it is off then is tested beside it: less than 10 % at 8 and 64 ranks.
//! No form is known that holds to 1 % there.

use std::time::Duration;

use super::fabric::{Fabric, Link};
use crate::collective::algorithm::Algorithm;

/// What is reduced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elements {
    /// Elements.
    pub(crate) count: usize,
    /// Elements of a piece.
    pub(crate) piece: usize,
    /// Bytes of one, whether partial or not.
    pub(crate) size_bytes: usize,
}

/// What the formula says, where there is one.
pub(crate) fn all_reduce(algorithm: Algorithm, fabric: &Fabric, elements: Elements) -> Option<Duration> {
    let seconds = match algorithm {
        Algorithm::Ring => {
            ring(fabric.n_ranks(), elements, uniform_link(fabric)?, fabric.reduced_bytes_per_s)
        }
        Algorithm::Hierarchical => hierarchical(fabric, elements)?,
        Algorithm::Tree => tree(fabric, elements)?,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

/// Each step moves one of n blocks over every hop at once; the first n−1 steps reduce.
fn ring(n_ranks: usize, elements: Elements, link: Link, reduced_bytes_per_s: f64) -> f64 {
    let n = n_ranks as f64;
    let block = elements.bytes(elements.count.div_ceil(n_ranks));
    2.0 * (n - 1.0) * step(link, block) + (n - 1.0) * block / reduced_bytes_per_s
}

/// A ring inside each host over all, a ring between hosts over each rank's shard, a ring inside each host.
fn hierarchical(fabric: &Fabric, elements: Elements) -> Option<f64> {
    let (n_ranks, n_hosts) = (fabric.n_ranks(), fabric.n_hosts());
    let per_host = n_ranks / n_hosts;
    let is_even =
        per_host * n_hosts == n_ranks && fabric.nics_per_host == per_host && fabric.odd_nics.is_empty();
    let rate = fabric.reduced_bytes_per_s;
    let shard = Elements { count: elements.count.div_ceil(per_host), ..elements };
    let between = ring(n_hosts, shard, fabric.nic, rate);
    is_even.then_some(ring(per_host, elements, fabric.intra, rate) + between)
}

/// The way of one piece up and down, and what the ports carry beside it.
fn tree(fabric: &Fabric, elements: Elements) -> Option<f64> {
    let count = elements.count;
    let n = fabric.n_ranks();
    let is_plain = n > 1 && n.is_power_of_two() && n == fabric.n_hosts();
    let (link, height) = (uniform_link(fabric)?, f64::from(n.checked_ilog2()?));
    let reducing_is_free = fabric.reduced_bytes_per_s.is_infinite();
    let piece = elements.bytes(elements.piece.min(count.div_ceil(2)));
    let meeting = if count > 1 { piece } else { 0.0 };
    let beside = 2.0 * (elements.bytes(count) - 2.0 * piece).max(0.0) + meeting;
    let carried = 2.0 * (2.0 * height - 1.0) * piece + beside;
    (is_plain && reducing_is_free)
        .then_some(2.0 * height * link.latency.as_secs_f64() + carried / link.bytes_per_s)
}

/// α + size / B.
fn step(link: Link, size_bytes: f64) -> f64 {
    link.latency.as_secs_f64() + size_bytes / link.bytes_per_s
}

/// The one link that all pairs have: inside the only host, or between hosts of one rank and the same NICs.
fn uniform_link(fabric: &Fabric) -> Option<Link> {
    match fabric.n_hosts() {
        1 => Some(fabric.intra),
        n_hosts if n_hosts == fabric.n_ranks() && fabric.odd_nics.is_empty() => Some(fabric.nic),
        _ => None,
    }
}

impl Elements {
    fn bytes(self, count: usize) -> f64 {
        (self.size_bytes * count) as f64
    }
}
