//! What the counts of RAS prove. Ranks run ahead of each other by any number of calls, and it asks them one after the
//! other, so a job that runs looks in one answer as one in which a rank is stuck. Only ranks that stand still from one
//! answer to another show that somebody waits.

use std::collections::BTreeMap;

use ringscope_api::Fnv;
use ringscope_api::clock::Timestamp;
use ringscope_wire::Primitive;

use super::inspector;
use super::ras::{Dump, RasCommunicator, RasRank};

/// What the answers of RAS say of one communicator together.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// No later answer tells of it.
    pub(super) is_newest: bool,
    /// Its ranks give the same counts in two answers.
    pub(super) stands_still: bool,
    /// The call that not all have made, if that is sure.
    pub(super) wait: Option<Wait>,
}

/// A call that some ranks have made and others have not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    /// Its number: whoever has made no more calls than that has not made it.
    pub(super) number: u64,
    pub(super) primitive: Primitive,
    /// Its number among the calls of the primitive.
    pub(super) of_primitive: u64,
    /// When it was made already. 0: not known.
    pub(super) since: Timestamp,
}

impl Counts {
    /// Of the communicator as the `index`th answer has it, by all answers, oldest first.
    pub(super) fn of(
        answers: &[(String, Timestamp, Dump)],
        index: usize,
        communicator: &RasCommunicator,
    ) -> Self {
        let is_it =
            |other: &&RasCommunicator| (&other.hash, other.size) == (&communicator.hash, communicator.size);
        let tells = |answer: &(String, Timestamp, Dump)| answer.2.communicators.iter().any(|one| is_it(&one));
        let is_newest = !answers.iter().skip(index + 1).any(tells);
        let told = counts(communicator);
        // A rank that is missing by now says nothing of the others.
        let same = |other: &RasCommunicator| {
            let others = counts(other);
            !told.is_empty() && told.iter().all(|(rank, counts)| others.get(rank) == Some(counts))
        };
        let seen = answers.iter().filter(|(_, _, dump)| dump.communicators.iter().filter(is_it).any(same));
        let seen: Vec<Timestamp> = seen.map(|(_, at, _)| *at).collect();
        Self { is_newest, stands_still: seen.len() > 1, wait: wait(communicator, &seen) }
    }
}

fn counts(communicator: &RasCommunicator) -> BTreeMap<u32, &BTreeMap<String, u64>> {
    communicator.ranks.iter().map(|rank| (rank.rank, &rank.collective_counts)).collect()
}

fn wait(newest: &RasCommunicator, seen: &[Timestamp]) -> Option<Wait> {
    let totals = || newest.ranks.iter().map(total);
    let (least, most) = (totals().min()?, totals().max()?);
    if least == most || seen.len() < 2 {
        return None;
    }
    let names = newest.ranks.iter().flat_map(|rank| rank.collective_counts.keys());
    let differs = names.filter_map(|name| {
        let count = |rank: &RasRank| rank.collective_counts.get(name).copied().unwrap_or_default();
        let fewest = newest.ranks.iter().map(count).min()?;
        let is_uneven = newest.ranks.iter().any(|rank| count(rank) > fewest);
        inspector::primitive(name).filter(|_| is_uneven).map(|primitive| (primitive, fewest))
    });
    let (primitive, of_primitive) = differs.min()?;
    let (first, last) = (seen.iter().min()?, seen.iter().max()?);
    let is_timed = last.since(*first) >= TIMED;
    let since = if is_timed { *first } else { Timestamp(0) };
    Some(Wait { number: least, primitive, of_primitive, since })
}

/// Collective calls that a rank has made.
pub(super) fn total(rank: &RasRank) -> u64 {
    rank.collective_counts.values().fold(0, |sum, count| sum.saturating_add(*count))
}

/// Ranks with as many calls have made the same ones if this is the same.
pub(super) fn hash(rank: &RasRank) -> u64 {
    let counted = rank.collective_counts.iter().filter(|(_, count)| **count > 0);
    counted.fold(Fnv::new(), |hash, (name, count)| hash.text(name).number(*count)).finish()
}

/// Files that were written closer together than this say nothing of the time between the answers.
const TIMED: std::time::Duration = std::time::Duration::from_secs(1);
