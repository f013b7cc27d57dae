//! Whether all ranks of a communicator have made the same calls, from the hashes that they tell; nearly free in peace.
//!
//! A running hash keeps every difference for ever, so of each rank only its newest word and its newest mark are compared.
//! Ranks that go on are rarely seen after as many calls; all of them have the same marks.

use std::collections::{BTreeMap, HashMap};

use super::scene::{Communicator, Life, Mark, Member};
use super::sight::Sight;

/// The hashes that were told first, for each communicator by number of calls.
#[derive(Debug, Default)]
pub(super) struct Hashes(HashMap<String, Known>);

#[derive(Debug, Default)]
struct Known {
    marks: BTreeMap<u64, u64>,
    /// Hashes between marks. Apart, because ranks that are far ahead tell many.
    between: BTreeMap<u64, u64>,
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
            if let Some(last) = member.marks.last() {
                if !known.marks.contains_key(&last.calls) {
                    let marks = member.marks.iter().map(|mark| (mark.calls, mark.hash));
                    marks.for_each(|(calls, hash)| _ = known.marks.entry(calls).or_insert(hash));
                }
                differs |= known.marks.get(&last.calls).is_some_and(|hash| *hash != last.hash);
            }
            if let Some(newest) = newest(sight, member) {
                differs |= *known.between.entry(newest.calls).or_insert(newest.hash) != newest.hash;
            }
        }
        for kept in [&mut known.marks, &mut known.between] {
            while kept.len() > KEPT {
                kept.pop_first();
            }
        }
        differs
    }
}

/// A rank's hash after all of its calls. Inside of a group their order is not settled.
fn newest(sight: &Sight<'_, '_>, member: &Member<'_>) -> Option<Mark> {
    let calls = member.calls?;
    let process = sight.process(member.process);
    let at_rest = process.open_calls.is_empty() && member.queued.is_none();
    let is_settled = at_rest && member.open.iter().all(|operation| operation.group == 0) && calls.made > 0;
    is_settled.then_some(Mark { calls: calls.made, hash: calls.hash })
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
    let mut differing = by_calls.iter().filter(|(_, hashes)| hashes.len() > 1).peekable();
    let differ = *differing.peek()?.0;
    // What differed once differs ever after: the number of which most ranks have told says best who are fewer.
    let n_told = |hashes: &BTreeMap<u64, Vec<u32>>| hashes.values().map(Vec::len).sum::<usize>();
    let (_, hashes) = differing.max_by_key(|(calls, hashes)| (n_told(hashes), std::cmp::Reverse(**calls)))?;
    let mut agree =
        by_calls.range(..differ).filter(|(_, hashes)| hashes.values().any(|ranks| ranks.len() > 1));
    let agree = agree.next_back().map_or(0, |(calls, _)| *calls);
    let most = hashes.values().max_by_key(|ranks| (ranks.len(), std::cmp::Reverse(ranks.first())))?;
    let is_even = hashes.values().filter(|ranks| ranks.len() == most.len()).count() > 1;
    if is_even && n_told(hashes) < communicator.members.len() {
        // Those who have not come so far will say who of them is odd.
        return None;
    }
    let mut odd: Vec<u32> = hashes.values().filter(|ranks| *ranks != most).flatten().copied().collect();
    odd.sort_unstable();
    Some(Differ { communicator: index, agree, differ, odd, most: most.clone() })
}

/// Whether a rank can still be asked.
pub(super) fn can_be_asked(life: Life) -> bool {
    life == Life::Running
}

/// Marks of one communicator that are kept, and hashes between them: ranks are no further apart.
const KEPT: usize = 64;
