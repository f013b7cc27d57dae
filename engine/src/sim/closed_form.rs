//! What formulas say an all-reduce takes: the simulation must agree where they apply.
//!
//! n ranks, S bytes, α seconds of latency, B bytes per second of each port and direction, R bytes reduced per second.
//!
//! | algorithm | where | time | source |
//! |---|---|---|---|
//! | ring | one rank on each host, or one host | 2(n−1)(α + S/nB) + (n−1)·S/nR | Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009, §3; Thakur, Rabenseifner and Gropp, 2005, §4.4 |
//! | hierarchical | k hosts of m ranks with a NIC for each rank | 2(m−1)(αᵢ + S/mBᵢ) + 2(k−1)(α + S/mkB), and S/R·(1 − 1/mk) | the sum of its three rings; `collective/hierarchical.rs` |
//! | tree | n = 2^h ranks, one on each host; one element of p bytes | 2(hα + (2h−1)p/B) | below |
//!
//! One element takes one of the two trees. It hangs below a root with one child, h hops deep; a rank takes from its
//! children one after the other, and gives to them one after the other, at each hop but the root's. With more elements
//! both trees carry some, and where a pair of ranks is joined in both, what the second tree sends waits for what the
//! first one sends before it on that connection: a coupling for which there is no formula here.

use std::time::Duration;

use super::fabric::{Fabric, Link};
use crate::collective::algorithm::Algorithm;

/// What the formula says of `count` elements of 4 bytes, where there is one.
pub(crate) fn all_reduce(algorithm: Algorithm, fabric: &Fabric, count: usize) -> Option<Duration> {
    let seconds = match algorithm {
        Algorithm::Ring => {
            ring(fabric.n_ranks(), bytes(count), uniform_link(fabric)?, fabric.reduced_bytes_per_s)
        }
        Algorithm::Hierarchical => hierarchical(fabric, bytes(count))?,
        Algorithm::Tree => tree(fabric, count)?,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

/// Each step moves one of n blocks over every hop at once; the first n−1 steps reduce.
fn ring(n_ranks: usize, size_bytes: f64, link: Link, reduced_bytes_per_s: f64) -> f64 {
    let n = n_ranks as f64;
    let block = size_bytes / n;
    2.0 * (n - 1.0) * step(link, block) + (n - 1.0) * block / reduced_bytes_per_s
}

/// A ring inside each host over all, a ring between hosts over each rank's shard, a ring inside each host.
fn hierarchical(fabric: &Fabric, size_bytes: f64) -> Option<f64> {
    let (n_ranks, n_hosts) = (fabric.n_ranks(), fabric.n_hosts());
    let per_host = n_ranks / n_hosts;
    let is_even =
        per_host * n_hosts == n_ranks && fabric.nics_per_host == per_host && fabric.odd_nics.is_empty();
    let rate = fabric.reduced_bytes_per_s;
    let between = ring(n_hosts, size_bytes / per_host as f64, fabric.nic, rate);
    is_even.then_some(ring(per_host, size_bytes, fabric.intra, rate) + between)
}

fn tree(fabric: &Fabric, count: usize) -> Option<f64> {
    let n = fabric.n_ranks();
    let is_plain = n > 1 && n.is_power_of_two() && count == 1 && n == fabric.n_hosts();
    let (link, height) = (uniform_link(fabric)?, f64::from(n.ilog2()));
    let reducing_is_free = fabric.reduced_bytes_per_s.is_infinite();
    let pieces = (2.0 * height - 1.0) * bytes(count) / link.bytes_per_s;
    (is_plain && reducing_is_free).then_some(2.0 * (height * link.latency.as_secs_f64() + pieces))
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

fn bytes(count: usize) -> f64 {
    4.0 * count as f64
}
