//! Fewer operations, where there are more than somebody asked for: the same ones of all ranks, so that they stand side by side.

use ringscope_model::{Completed, Model};

use super::Shown;

/// What was left out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thinned {
    /// How many operations there were.
    pub(super) n_all: usize,
    /// The numbers of those that stayed are divisible by this.
    pub(super) every: u64,
    /// So are the ranks, in the job.
    pub(super) every_rank: u32,
    /// Even of these some had to go.
    pub(super) is_cut: bool,
}

impl Thinned {
    /// Of how many operations of a rank one stayed, at least.
    pub(super) fn every(self) -> u64 {
        self.every.max(if self.is_cut { 2 } else { 1 })
    }
}

/// Leaves `limit` operations at most: those of rounder numbers. Of the roundest ones those of some ranks, if there are too many.
/// `None`: all stayed.
pub(super) fn thin(model: &Model, found: &mut [Shown<'_>], limit: usize) -> Option<Thinned> {
    let n_all = count(found);
    if n_all <= limit {
        return None;
    }
    let every = by_number(found, n_all, limit);
    let every_rank = if count(found) > limit { by_rank(model, found, limit) } else { 1 };
    let is_cut = count(found) > limit;
    let mut room = limit;
    for shown in found {
        // Newer ones stand behind.
        let surplus = shown.operations.len().saturating_sub(room);
        shown.operations.drain(..surplus);
        room -= shown.operations.len();
    }
    Some(Thinned { n_all, every, every_rank, is_cut })
}

fn count(found: &[Shown<'_>]) -> usize {
    found.iter().map(|shown| shown.operations.len()).sum()
}

/// Those of the roundest number stay in any case.
fn by_number(found: &mut [Shown<'_>], n_all: usize, limit: usize) -> u64 {
    let mut by_roundness = [0_usize; 65];
    for (operation, _) in found.iter().flat_map(|shown| &shown.operations) {
        by_roundness[roundness(operation) as usize] += 1;
    }
    let (mut left, mut log2) = (n_all, 0);
    for (n, rounder) in by_roundness.into_iter().zip(1..) {
        if left <= limit || n == left {
            break;
        }
        if n > 0 {
            left -= n;
            log2 = rounder;
        }
    }
    for shown in found {
        shown.operations.retain(|(operation, _)| roundness(operation) >= log2);
    }
    1_u64.checked_shl(log2).unwrap_or(u64::MAX)
}

/// Zero has the roundest number of all, and what has none is not round.
fn roundness(operation: &Completed) -> u32 {
    operation.call_number.map_or(0, u64::trailing_zeros)
}

fn by_rank(model: &Model, found: &mut [Shown<'_>], limit: usize) -> u32 {
    let ranks: Vec<Vec<u32>> = found.iter().map(|shown| shown.ranks_in_job(model)).collect();
    let of = |ranks: &[u32], operation: &Completed| {
        ranks.get(operation.rank as usize).copied().unwrap_or(operation.rank)
    };
    let mut every = 1_u32;
    let mut left = usize::MAX;
    while left > limit && every < 1 << 31 {
        every *= 2;
        let stays = found.iter().zip(&ranks).map(|(shown, ranks)| {
            let operations = shown.operations.iter();
            operations.filter(|(operation, _)| of(ranks, operation).is_multiple_of(every)).count()
        });
        left = stays.sum();
        if left == 0 {
            // Nobody tells which has rank 0: the limit cuts.
            return 1;
        }
    }
    for (shown, ranks) in found.iter_mut().zip(&ranks) {
        shown.operations.retain(|(operation, _)| of(ranks, operation).is_multiple_of(every));
    }
    every
}
