//! The ranks of a communicator, looked up once.

use ringscope_model::{Communicator, Model, RankRef};

/// See the module: ascending by rank.
pub struct Ranks<'a>(Vec<RankRef<'a>>);

impl<'a> Ranks<'a> {
    /// Those heard of.
    #[must_use]
    pub fn of(communicator: &'a Communicator, model: &'a Model) -> Self {
        Self(communicator.ranks(model).collect())
    }

    /// Each of them.
    pub fn iter(&self) -> std::slice::Iter<'_, RankRef<'a>> {
        self.0.iter()
    }

    /// How many were heard of.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The one at a place.
    #[must_use]
    pub fn at(&self, place: usize) -> Option<&RankRef<'a>> {
        self.0.get(place)
    }

    /// The place of a rank. Where all were heard of it is the rank itself.
    #[must_use]
    pub fn place(&self, rank: u32) -> Option<usize> {
        let guess = rank as usize;
        match self.0.get(guess) {
            Some(known) if known.rank == rank => Some(guess),
            _ => self.0.binary_search_by_key(&rank, |known| known.rank).ok(),
        }
    }
}
