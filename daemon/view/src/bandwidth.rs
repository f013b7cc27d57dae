//! Rates of ranks.

use ringscope_api::clock::Timestamp;
use ringscope_model::{Counted, RankRef};

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
