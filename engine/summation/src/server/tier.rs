//! Sums of sums: who contributes to a key where the workers of a host sum first.
//!
//! A host's sum is one of a service of its own, whose contributors are the host's workers. It goes on to the service that
//! owns the part, whose contributors are the hosts; what comes back is the result for the host's workers. Each of both adds
//! in a fixed order, so the whole is a fixed tree. Floats of 16 and 8 bits are rounded once by each of the two, and an
//! average is divided by the second one, by the number of all workers.

use std::sync::Arc;

use super::reduction::Reduction;

/// Who contributes to a key, and what becomes of the sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Tier {
    /// All workers, whose sum is the result.
    #[default]
    Only,
    /// These workers of one host, whose sum goes on.
    Host(Arc<[usize]>),
    /// For each host one, added in this order; averages are over `n_workers`.
    Hosts {
        /// In the order of their hosts.
        contributors: Arc<[usize]>,
        /// Of all hosts.
        n_workers: usize,
    },
}

/// A host's sum, on its way.
#[derive(Debug, PartialEq, Eq)]
pub struct Partial {
    /// Of which part.
    pub key: u32,
    /// Of which of its rounds.
    pub round: u64,
    /// What the round's contributions become in the end.
    pub reduction: Reduction,
    /// Of the host's workers the one whose contribution was complete last.
    pub last_arriver: usize,
    /// The sum, then the result.
    pub bytes: Vec<u8>,
}

impl Tier {
    /// Whether a worker contributes.
    pub(super) fn asks(&self, worker: usize) -> bool {
        match self {
            Self::Only => true,
            Self::Host(contributors) | Self::Hosts { contributors, .. } => contributors.contains(&worker),
        }
    }

    /// Contributors that come in the order of their ranks, in that of the addition.
    pub(super) fn in_order(&self, contributors: impl Iterator<Item = usize>) -> Vec<usize> {
        let mut contributors: Vec<usize> = contributors.collect();
        if let Self::Hosts { contributors: order, .. } = self {
            contributors.sort_by_key(|worker| order.iter().position(|other| other == worker));
        }
        contributors
    }

    /// Of an average over so many contributions.
    pub(super) fn divisor(&self, n_contributions: usize) -> usize {
        if let Self::Hosts { n_workers, .. } = self { *n_workers } else { n_contributions }
    }

    /// Whether the sum is a host's.
    pub(super) fn is_host(&self) -> bool {
        matches!(self, Self::Host(_))
    }
}
