//! The addition of a round whose contributions are all there: handed out by the service, for any thread to do, and taken
//! back with the result.

use super::fingerprint::fingerprint;
use super::part::{Association, Part, Reduction};

/// One addition. One that is dropped takes its round with it: nobody is ever answered.
#[derive(Debug, PartialEq, Eq)]
pub struct Addition {
    pub(super) key: u32,
    pub(super) round: u64,
    /// Whose contribution was complete last.
    pub(super) last_arriver: usize,
    pub(super) part: Part,
    pub(super) reduction: Reduction,
    pub(super) association: Association,
    /// In the order of the ranks.
    pub(super) contributions: Vec<Vec<u8>>,
    /// Contributions there were: what an average is divided by.
    pub(super) n_contributors: usize,
    /// Of the result, once it is there.
    pub(super) fingerprint: Option<u64>,
}

impl Addition {
    /// Of which part.
    #[must_use]
    pub fn key(&self) -> u32 {
        self.key
    }

    /// Bytes of all contributions.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.part.size_bytes().saturating_mul(self.n_contributors)
    }

    /// Adds the contributions up. The result takes the place of the first one.
    pub fn run(&mut self) {
        if self.fingerprint.is_some() {
            return;
        }
        let Some((first, others)) = self.contributions.split_first_mut() else { return };
        let others: Vec<&[u8]> = others.iter().map(Vec::as_slice).collect();
        self.fingerprint = Some(match self.association {
            Association::Left => self.part.reduce_left(self.reduction, first, &others),
            Association::Tree => {
                let mut result = vec![0; first.len()];
                let all: Vec<&[u8]> = std::iter::once(first.as_slice()).chain(others).collect();
                self.part.reduce_along_tree(self.reduction, &all, &mut result);
                *first = result;
                fingerprint(first)
            }
        });
    }
}
