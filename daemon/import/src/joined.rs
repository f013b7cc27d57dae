//! Which process groups of the Flight Recorder are communicators that logs or RAS tell of too. A dump has neither the
//! library's hash nor a host nor a pid, so this goes by the ranks alone, and only where no other answer fits: the group of
//! all ranks is the only communicator that has as many, and by its ranks it is known which process is which; another group
//! is the only communicator that these processes make up.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::{Homes, Place};

/// A process group: its name, and its ranks in the job.
pub(super) type GroupKey<'g> = (&'g str, &'g [u32]);

/// What was found to be one.
#[derive(Debug, Default)]
pub(super) struct Joined<'g> {
    /// The communicators' hashes.
    pub(super) hashes: BTreeMap<GroupKey<'g>, u64>,
    /// The processes, by rank in the job.
    pub(super) places: BTreeMap<u32, Place>,
}

impl<'g> Joined<'g> {
    /// Of these groups and the ranks that other files tell of.
    pub(super) fn of(groups: &[GroupKey<'g>], homes: &Homes) -> Self {
        let mut joined = Self::default();
        let Some((world, hash)) = world(groups, homes) else { return joined };
        let n_ranks = size(world);
        joined.places = (0..n_ranks)
            .filter_map(|rank| Some((rank, homes.get(&(hash, n_ranks, rank))?.clone())))
            .collect();
        joined.hashes.insert(world, hash);
        for group in groups.iter().filter(|group| **group != world) {
            // Two groups of the same ranks are two communicators, and nobody knows which is which.
            let is_only = groups.iter().filter(|other| other.1 == group.1).count() == 1;
            if let Some(hash) = joined.same(*group, homes).filter(|_| is_only) {
                joined.hashes.insert(*group, hash);
            }
        }
        joined
    }

    /// The only communicator that has these processes as its ranks.
    fn same(&self, group: GroupKey<'_>, homes: &Homes) -> Option<u64> {
        let n_ranks = size(group);
        let places: Option<Vec<&Place>> = group.1.iter().map(|rank| self.places.get(rank)).collect();
        let places = places?;
        let fits = |hash: &u64| {
            let told =
                (0_u32..).zip(&places).map(|(rank, place)| (homes.get(&(*hash, n_ranks, rank)), *place));
            let mut told = told.filter_map(|(home, place)| Some((home?, place))).peekable();
            told.peek().is_some() && told.all(|(home, place)| home == place)
        };
        only(hashes(homes, n_ranks).into_iter().filter(fits))
    }
}

/// The group of all ranks, and the communicator that it is.
fn world<'g>(groups: &[GroupKey<'g>], homes: &Homes) -> Option<(GroupKey<'g>, u64)> {
    let most = groups.iter().map(|group| group.1.len()).max()?;
    let is_world =
        |group: &&GroupKey<'_>| group.1.len() == most && (0_u32..).zip(group.1).all(|(n, rank)| n == *rank);
    let world = *only(groups.iter().filter(is_world))?;
    Some((world, only(hashes(homes, size(world)).into_iter())?))
}

fn size(group: GroupKey<'_>) -> u32 {
    u32::try_from(group.1.len()).unwrap_or(u32::MAX)
}

/// The communicators of so many ranks.
fn hashes(homes: &Homes, n_ranks: u32) -> BTreeSet<u64> {
    homes.keys().filter(|(_, n, _)| *n == n_ranks).map(|(hash, ..)| *hash).collect()
}

fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    all.next().filter(|_| all.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORLD: GroupKey<'static> = ("0", &[0, 1, 2, 3]);

    /// The ranks of a communicator, each of which is the process of this rank of the job.
    fn homes(communicators: &[(u64, &[u32])]) -> Homes {
        let ranks = communicators.iter().flat_map(|(hash, ranks)| {
            let n_ranks = u32::try_from(ranks.len()).unwrap();
            let home = move |(rank, global): (u32, &u32)| {
                ((*hash, n_ranks, rank), ("host".to_owned(), format!("{}", 100 + global)))
            };
            (0_u32..).zip(*ranks).map(home)
        });
        ranks.collect()
    }

    #[track_caller]
    fn check(groups: &[GroupKey<'_>], communicators: &[(u64, &[u32])], hashes: &[(&str, u64)]) {
        let joined = Joined::of(groups, &homes(communicators));
        let found: Vec<(&str, u64)> = joined.hashes.iter().map(|((name, _), hash)| (*name, *hash)).collect();
        assert_eq!(found, hashes);
    }

    #[test]
    fn a_group_is_the_communicator_of_the_same_processes() {
        let pairs: [GroupKey<'_>; 3] = [WORLD, ("1", &[0, 2]), ("2", &[1, 3])];
        let all = &[0, 1, 2, 3][..];
        check(&pairs, &[(7, all)], &[("0", 7)]);
        check(&pairs, &[(7, all), (9, &[1, 3]), (8, &[0, 2])], &[("0", 7), ("1", 8), ("2", 9)]);
        assert_eq!(Joined::of(&pairs, &homes(&[(7, all)])).places[&3].1, "103");
    }

    #[test]
    fn where_two_would_fit_nothing_is_joined() {
        let all = &[0, 1, 2, 3][..];
        check(&[WORLD], &[(7, all), (8, all)], &[]);
        check(&[WORLD, ("9", &[0, 1, 2, 3])], &[(7, all)], &[]);
        check(&[WORLD, ("1", &[0, 2]), ("2", &[0, 2])], &[(7, all), (8, &[0, 2])], &[("0", 7)]);
        check(&[WORLD], &[(8, &[0, 2])], &[]);
    }
}
