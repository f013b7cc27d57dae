//! How long operations of each size take on each communicator, from those that are told one by one. Sizes are powers of two.
//!
//! What the operations of a communicator reach is compared with its like: those of as many ranks on as many hosts.

use std::collections::{BTreeMap, HashMap, VecDeque};

use ringscope_api::clock::Timestamp;
use ringscope_wire::Primitive;

use super::CommunicatorId;
use super::limits::{MAX_CURVE_SIZES, MAX_SIZES};
use super::losses::Losses;
use super::rate::real;

/// An operation of which all ranks have told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// What it was.
    pub primitive: Primitive,
    /// Its payload by NCCL's convention: of those with a part for each rank, one part.
    pub bytes: u64,
    /// From when the last rank began it until the last had completed it; at least 1.
    pub ns: u64,
    /// When it completed, by our clock, to a second or so.
    pub at: Timestamp,
    /// Hosts of its ranks.
    pub n_hosts: u32,
    /// Whether the clocks of its hosts were known well enough. Else its time is the least of any rank.
    pub is_aligned: bool,
    /// Whether all ranks told when the device began it. Else it counts from the call, be it that it was queued.
    pub is_started: bool,
}

/// The operations of one communicator by what they are and how large.
#[derive(Debug, Default)]
pub struct Curve {
    n_ranks: u32,
    n_hosts: u32,
    sizes: BTreeMap<(Primitive, u32), OfSize>,
}

/// Operations of one primitive of about one size.
#[derive(Debug, Default)]
pub struct OfSize {
    n: u64,
    n_aligned: u64,
    newest: VecDeque<Timed>,
    best: Option<Timed>,
}

/// The curves of all communicators.
#[derive(Debug, Default)]
pub(super) struct Curves {
    by_communicator: HashMap<CommunicatorId, Curve>,
    /// Sizes of all of them.
    n_sizes: usize,
}

impl Timed {
    /// Bytes per second, of the bytes that were asked for.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        real(self.bytes) * 1e9 / real(self.ns)
    }

    /// How long it took.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        real(self.ns) / 1e9
    }

    /// The size that it counts to: two to the power of this, at least.
    #[must_use]
    pub fn log2(&self) -> u32 {
        self.bytes.checked_ilog2().unwrap_or_default()
    }
}

impl Curves {
    pub(super) fn take(&mut self, comm: CommunicatorId, n_ranks: u32, timed: Timed, losses: &mut Losses) {
        let curve = self.by_communicator.entry(comm).or_default();
        let key = (timed.primitive, timed.log2());
        let is_new = !curve.sizes.contains_key(&key);
        if is_new && (curve.sizes.len() >= MAX_CURVE_SIZES || self.n_sizes >= MAX_SIZES) {
            losses.add("size_limit");
            return;
        }
        self.n_sizes += usize::from(is_new);
        (curve.n_ranks, curve.n_hosts) = (n_ranks, timed.n_hosts);
        curve.sizes.entry(key).or_default().take(timed);
    }

    pub(super) fn of(&self, comm: CommunicatorId) -> Option<&Curve> {
        self.by_communicator.get(&comm)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (CommunicatorId, &Curve)> {
        self.by_communicator.iter().map(|(comm, curve)| (*comm, curve))
    }

    pub(super) fn forget(&mut self, comm: CommunicatorId) {
        self.n_sizes -= self.by_communicator.remove(&comm).map_or(0, |curve| curve.sizes.len());
    }
}

impl Curve {
    /// Its ranks.
    #[must_use]
    pub fn n_ranks(&self) -> u32 {
        self.n_ranks
    }

    /// The hosts that these are on.
    #[must_use]
    pub fn n_hosts(&self) -> u32 {
        self.n_hosts
    }

    /// Whether what one reaches can be expected of the other.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        (self.n_ranks, self.n_hosts) == (other.n_ranks, other.n_hosts)
    }

    /// Its primitives and sizes, in their order: a size is two to the power of this, at least, and less than twice that.
    pub fn sizes(&self) -> impl Iterator<Item = (Primitive, u32, &OfSize)> {
        self.sizes.iter().map(|((primitive, log2), size)| (*primitive, *log2, size))
    }

    /// One of these.
    #[must_use]
    pub fn size(&self, primitive: Primitive, log2: u32) -> Option<&OfSize> {
        self.sizes.get(&(primitive, log2))
    }
}

impl OfSize {
    fn take(&mut self, timed: Timed) {
        self.n += 1;
        self.n_aligned += u64::from(timed.is_aligned);
        if self.newest.len() >= NEWEST {
            self.newest.pop_front();
        }
        self.newest.push_back(timed);
        if self.n.is_multiple_of(LOOK_EVERY) {
            let faster = |one: &Timed, other: &Timed| one.bytes_per_s().total_cmp(&other.bytes_per_s());
            // Where the last call is not known, an operation may have been over before it, but for the last bytes.
            let aligned: Vec<&Timed> =
                self.newest.iter().rev().filter(|timed| timed.is_aligned).take(BEST_OF).collect();
            if aligned.len() == BEST_OF {
                self.best = self.best.into_iter().chain(median(aligned.into_iter())).max_by(faster);
            }
        }
    }

    /// Operations that were timed.
    #[must_use]
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Of these, those that were timed by the clocks of all their hosts.
    #[must_use]
    pub fn n_aligned(&self) -> u64 {
        self.n_aligned
    }

    /// Of the newest ones, that in the middle by bytes per second.
    #[must_use]
    pub fn median(&self) -> Option<Timed> {
        median(self.newest.iter())
    }

    /// The same of those eight in a row that were the fastest, of those that were timed by the clocks. `None`: there were not as many.
    #[must_use]
    pub fn best(&self) -> Option<Timed> {
        self.best
    }

    /// Of the newest ones, the mean size and the mean time: what all of them cost follows from it, also where some take very long.
    #[must_use]
    pub fn mean(&self) -> Option<Timed> {
        let n = u64::try_from(self.newest.len()).ok().filter(|n| *n > 0)?;
        let mean = |of: fn(&Timed) -> u64| {
            let sum = self.newest.iter().map(|timed| u128::from(of(timed))).sum::<u128>();
            u64::try_from(sum / u128::from(n)).unwrap_or(u64::MAX)
        };
        let (bytes, ns) = (mean(|timed| timed.bytes), mean(|timed| timed.ns));
        Some(Timed { bytes, ns, ..*self.newest.back()? })
    }

    /// The newest ones, the oldest of them first.
    pub fn newest(&self) -> impl DoubleEndedIterator<Item = &Timed> + ExactSizeIterator {
        self.newest.iter()
    }

    /// Of the newest ones, the least time.
    #[must_use]
    pub fn least_ns(&self) -> u64 {
        self.newest.iter().map(|timed| timed.ns).min().unwrap_or_default()
    }
}

/// What the bytes that were asked for are multiplied with to get S of nccl-tests (doc/PERFORMANCE.md), the size of the whole
/// buffer: of primitives with a part for each rank, NCCL's API counts one part.
#[must_use]
pub fn alg_factor(primitive: Primitive, n_ranks: u32) -> f64 {
    if has_parts(primitive) { f64::from(n_ranks.max(1)) } else { 1.0 }
}

/// What one rank's algbw is multiplied with to get its busbw, as nccl-tests defines both (doc/PERFORMANCE.md).
///
/// There S is the size of the whole buffer. For all-gather, reduce-scatter, all-to-all, gather and scatter we count,
/// by the convention of NCCL's API, the part of one rank (per peer), S/n: so the factor of (n-1)/n becomes n-1.
#[must_use]
pub fn bus_factor(primitive: Primitive, n_ranks: u32) -> f64 {
    let n = f64::from(n_ranks.max(1));
    match primitive {
        Primitive::AllReduce => 2.0 * (n - 1.0) / n,
        _ if has_parts(primitive) => n - 1.0,
        _ => 1.0,
    }
}

fn has_parts(primitive: Primitive) -> bool {
    matches!(
        primitive,
        Primitive::AllGather
            | Primitive::ReduceScatter
            | Primitive::AllToAll
            | Primitive::Gather
            | Primitive::Scatter
    )
}

fn median<'t>(timed: impl Iterator<Item = &'t Timed>) -> Option<Timed> {
    let mut all: Vec<Timed> = timed.copied().collect();
    all.sort_by(|one, other| one.bytes_per_s().total_cmp(&other.bytes_per_s()));
    all.get(all.len() / 2).copied()
}

/// Operations of late of one size: a quarter of a minute, where two a second are told and all are of one size.
const NEWEST: usize = 32;
/// One that was fast by chance is not the best: it is the middle one of so many ...
const BEST_OF: usize = 8;
/// ... and these are looked at as often.
const LOOK_EVERY: u64 = 8;

#[cfg(test)]
mod tests;
