//! Rates of ranks, and what they mean for a link.

use ringscope_api::clock::Timestamp;
use ringscope_model::{Counted, RankRef};
use ringscope_wire::Primitive;

/// What one rank's algbw is multiplied with to get its busbw, as nccl-tests defines both (doc/PERFORMANCE.md).
///
/// There S is the size of the whole buffer. For all-gather, reduce-scatter, all-to-all, gather and scatter we count,
/// by the convention of NCCL's API, the part of one rank (per peer), S/n: so the factor of (n-1)/n becomes n-1.
#[must_use]
pub fn bus_factor(primitive: Primitive, n_ranks: u32) -> f64 {
    let n = f64::from(n_ranks.max(1));
    match primitive {
        Primitive::AllReduce => 2.0 * (n - 1.0) / n,
        Primitive::AllGather
        | Primitive::ReduceScatter
        | Primitive::AllToAll
        | Primitive::Gather
        | Primitive::Scatter => n - 1.0,
        Primitive::Broadcast
        | Primitive::Reduce
        | Primitive::Send
        | Primitive::Recv
        | Primitive::PutSignal
        | Primitive::Push
        | Primitive::Pull
        | Primitive::PushPull => 1.0,
    }
}

/// Completed bytes per second of one primitive of a rank: none once it has ended.
pub(super) fn rate(rank: &RankRef<'_>, counted: &Counted, now: Timestamp) -> f64 {
    if rank.ended().is_some() { 0.0 } else { counted.completed_bytes_per_s(now) }
}

/// Issued bytes, completed bytes and completed bytes per second of a rank, all primitives.
pub(super) fn bytes(rank: &RankRef<'_>, now: Timestamp) -> Bytes {
    let mut sum = Bytes::default();
    for counted in rank.local.counters().values() {
        sum.add(&Bytes {
            issued: counted.totals().issued_bytes,
            completed: counted.totals().completed_bytes,
            completed_per_s: rate(rank, counted, now),
        });
    }
    sum
}

/// Payload bytes of all primitives.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bytes {
    pub(super) issued: u64,
    pub(super) completed: u64,
    pub(super) completed_per_s: f64,
}

impl Bytes {
    pub(super) fn add(&mut self, other: &Self) {
        self.issued = self.issued.saturating_add(other.issued);
        self.completed = self.completed.saturating_add(other.completed);
        self.completed_per_s += other.completed_per_s;
    }
}
