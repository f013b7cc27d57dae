//! Who has which of a parameter that is not the same on all workers.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Workers that have the same parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Party {
    /// Of its bits.
    pub hash: u64,
    /// By number.
    pub workers: Vec<u32>,
}

/// By hash of each worker: the most workers first, and of equal parties the one of the lower number.
#[must_use]
pub fn parties(hashes: &[u64]) -> Vec<Party> {
    let mut workers: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for (worker, hash) in (0..).zip(hashes) {
        workers.entry(*hash).or_default().push(worker);
    }
    let mut parties: Vec<Party> =
        workers.into_iter().map(|(hash, workers)| Party { hash, workers }).collect();
    parties.sort_by_key(|party| (Reverse(party.workers.len()), party.workers.first().copied()));
    parties
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_party_comes_first() {
        let workers = |hashes: &[u64]| {
            parties(hashes).into_iter().map(|party| party.workers).collect::<Vec<Vec<u32>>>()
        };
        assert_eq!(workers(&[9, 1, 1, 8]), [vec![1, 2], vec![0], vec![3]]);
        assert_eq!(workers(&[9, 1]), [[0], [1]]);
        assert_eq!(workers(&[5, 5]), [[0, 1]]);
        assert!(workers(&[]).is_empty());
    }
}
