//! Groups of ranks that the program's framework has made, and which communicator has the same ranks. The library does not say
//! which communicator serves which group; where two groups have the same ranks and other names, neither names it.

use ringscope_wire::Primitive;
use ringscope_wire::batch;
use ringscope_wire::segment::groups::{MAX_GROUPS, ranks_hash};

use super::names::Name;
use super::word::Word;
use super::{Communicator, Model, Process};

/// One group of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RankGroup {
    ranks_hash: u64,
    n_ranks: u64,
    name: Name,
}

impl Process {
    /// Takes what the process says of its groups; whether anything changed.
    pub(super) fn merge_groups(&mut self, told: &[batch::RankGroup], word: &mut Word<'_>) -> bool {
        if told.is_empty() {
            return false;
        }
        word.losses.add_many("rank_group_limit", told.len().saturating_sub(MAX_GROUPS));
        let named = told.iter().take(MAX_GROUPS).filter(|group| !group.name.is_empty());
        let groups = named.map(|group| RankGroup {
            ranks_hash: group.ranks_hash,
            n_ranks: group.n_ranks,
            name: word.names.intern(&group.name),
        });
        let groups: Vec<RankGroup> = groups.collect();
        let changed = self.groups != groups;
        self.groups = groups;
        changed
    }

    /// The same, for the store.
    pub(super) fn told_groups(&self) -> Vec<batch::RankGroup> {
        let group = |group: &RankGroup| batch::RankGroup {
            ranks_hash: group.ranks_hash,
            n_ranks: group.n_ranks,
            name: group.name.to_string(),
        };
        self.groups.iter().map(group).collect()
    }
}

impl Communicator {
    /// What it is called: by the program, else as the framework's group of the same ranks.
    #[must_use]
    pub fn name<'a>(&'a self, model: &'a Model) -> Option<&'a Name> {
        let own = self.ranks(model).map(|rank| &rank.facts.name).find(|name| !name.is_empty());
        own.or_else(|| self.name_of_group(model))
    }

    fn name_of_group<'a>(&'a self, model: &'a Model) -> Option<&'a Name> {
        let groups = &self.ranks(model).next()?.process.groups;
        if groups.is_empty() || self.n_ranks_seen() < self.n_ranks() || self.is_of_a_pair(model) {
            return None;
        }
        let ranks: Option<Vec<u32>> = self.ranks(model).map(|rank| rank.identity.global_rank).collect();
        let (hash, n_ranks) = (ranks_hash(ranks?), u64::from(self.n_ranks()));
        let mut names =
            groups.iter().filter(|one| (one.ranks_hash, one.n_ranks) == (hash, n_ranks)).map(|one| &one.name);
        let first = names.next()?;
        names.all(|other| other == first).then_some(first)
    }

    /// PyTorch makes a communicator of two ranks also for those that send to each other within a larger group: so one that has
    /// no collective may be anybody's.
    fn is_of_a_pair(&self, model: &Model) -> bool {
        let sends = [Primitive::Send, Primitive::Recv];
        let has_collective = || {
            let counters = self.ranks(model).flat_map(|rank| rank.local.counters().iter());
            counters.into_iter().any(|(primitive, _)| !sends.contains(&primitive))
        };
        self.n_ranks() == 2 && !has_collective()
    }
}
