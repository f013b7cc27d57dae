//! Whether all ranks of a communicator have made the same calls, from the hashes that they tell; nearly free in peace.
//!
//! A running hash keeps every difference for ever, so of each rank only the newest mark is compared.

use std::collections::{BTreeMap, HashMap};

use super::scene::{Communicator, Life, Mark, Member};
use super::sight::Sight;

/// The hashes that were told first, for each communicator by number of calls.
#[derive(Debug, Default)]
pub(super) struct Hashes(HashMap<String, Known>);

#[derive(Debug, Default)]
struct Known {
    marks: BTreeMap<u64, u64>,
    in_use: bool,
}

/// Ranks have different hashes after as many calls.
#[derive(Debug)]
pub(super) struct Differ {
    pub(super) communicator: u32,
    /// After so many calls all agree, as far as is known.
    pub(super) agree: u64,
    /// After so many they do not.
    pub(super) differ: u64,
    /// Ranks (places in the members) of the fewer, and of the most.
    pub(super) odd: Vec<u32>,
    pub(super) most: Vec<u32>,
}

impl Hashes {
    /// Compares the newest marks of all ranks with what others told before. Returns the communicators that differ.
    pub(super) fn compare(&mut self, sight: &Sight<'_, '_>) -> Vec<Differ> {
        let mut differing = Vec::new();
        for (communicator, index) in sight.scene.communicators.iter().zip(0_u32..) {
            if communicator.members.len() > 1 && self.differs(sight, communicator) {
                differing.extend(vote(sight, communicator, index));
            }
        }
        self.0.retain(|_, known| std::mem::replace(&mut known.in_use, false));
        differing
    }

    fn differs(&mut self, sight: &Sight<'_, '_>, communicator: &Communicator<'_>) -> bool {
        if !self.0.contains_key(communicator.id) {
            self.0.insert(communicator.id.to_owned(), Known::default());
        }
        let Some(known) = self.0.get_mut(communicator.id) else { return false };
        known.in_use = true;
        let mut differs = false;
        for member in &communicator.members {
            let Some(newest) = newest(sight, member) else { continue };
            match known.marks.get(&newest.calls) {
                Some(hash) => differs |= *hash != newest.hash,
                None => {
                    for mark in member.marks.iter().chain([&newest]) {
                        known.marks.entry(mark.calls).or_insert(mark.hash);
                    }
                }
            }
        }
        while known.marks.len() > KEPT {
            known.marks.pop_first();
        }
        differs
    }
}

/// A rank's hash after as many calls as possible. Inside of a group the order of its calls is not settled.
fn newest(sight: &Sight<'_, '_>, member: &Member<'_>) -> Option<Mark> {
    let calls = member.calls?;
    let process = sight.process(member.process);
    let at_rest = process.open_calls.is_empty() && member.queued.is_none();
    if at_rest && member.open.iter().all(|operation| operation.group == 0) && calls.made > 0 {
        return Some(Mark { calls: calls.made, hash: calls.hash });
    }
    member.marks.last().copied()
}

/// Finds the first number after which ranks differ, and who are fewer.
fn vote(sight: &Sight<'_, '_>, communicator: &Communicator<'_>, index: u32) -> Option<Differ> {
    let mut by_calls: BTreeMap<u64, BTreeMap<u64, Vec<u32>>> = BTreeMap::new();
    for (member, place) in communicator.members.iter().zip(0_u32..) {
        let own =
            newest(sight, member).filter(|own| member.marks.last().is_none_or(|last| last.calls < own.calls));
        for mark in member.marks.iter().chain(own.as_ref()) {
            by_calls.entry(mark.calls).or_default().entry(mark.hash).or_default().push(place);
        }
    }
    let (differ, hashes) = by_calls.iter().find(|(_, hashes)| hashes.len() > 1)?;
    let mut agree =
        by_calls.range(..differ).filter(|(_, hashes)| hashes.values().any(|ranks| ranks.len() > 1));
    let agree = agree.next_back().map_or(0, |(calls, _)| *calls);
    let most = hashes.values().max_by_key(|ranks| (ranks.len(), std::cmp::Reverse(ranks.first())))?;
    let mut odd: Vec<u32> = hashes.values().filter(|ranks| *ranks != most).flatten().copied().collect();
    odd.sort_unstable();
    Some(Differ { communicator: index, agree, differ: *differ, odd, most: most.clone() })
}

/// Whether a rank can still be asked.
pub(super) fn can_be_asked(life: Life) -> bool {
    life == Life::Running
}

/// Marks of one communicator that are kept: ranks are no further apart.
const KEPT: usize = 64;
