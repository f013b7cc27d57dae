//! Pairs of ranks of which the sends and the receives had other sizes: what came may be wrong for as long as the communicator
//! lives, though nobody waits any more and nobody tells of it again.

use std::collections::BTreeMap;

use super::scene::Pair;
use super::sight::{Sight, is_over};

/// The sends and the receives of pairs of ranks (from, to) that differed, by the communicator's id.
#[derive(Debug, Default)]
pub(super) struct Unequal(BTreeMap<String, ByPair>);

/// By sender and receiver what each of them has called.
type ByPair = BTreeMap<(u32, u32), (Pair, Pair)>;

impl Unequal {
    /// Notes that they differ.
    pub(super) fn note(&mut self, communicator: &str, ranks: (u32, u32), pairs: (Pair, Pair)) {
        let known = self.0.entry(communicator.to_owned()).or_default();
        if known.len() < MAX_PAIRS || known.contains_key(&ranks) {
            known.insert(ranks, pairs);
        }
    }

    /// Those of a communicator.
    pub(super) fn of(&self, communicator: &str) -> impl Iterator<Item = ((u32, u32), (Pair, Pair))> {
        let known = self.0.get(communicator).into_iter().flatten();
        known.map(|(ranks, pairs)| (*ranks, *pairs))
    }

    /// Forgets communicators that nobody uses any more. Returns whether something is left to tell.
    pub(super) fn forget_ended(&mut self, sight: &Sight<'_, '_>) -> bool {
        self.0.retain(|id, _| {
            let mut known = sight.scene.communicators.iter().filter(|known| known.id == id.as_str());
            known.any(|known| known.members.iter().any(|member| !is_over(member.state)))
        });
        !self.0.is_empty()
    }
}

/// Pairs of one communicator that are kept: more are not told.
const MAX_PAIRS: usize = super::MAX_JUDGEMENTS;
