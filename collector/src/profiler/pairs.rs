//! Events that another plugin follows too: the library gets one handle for both. An entry is used again in turn, but
//! not while its event is under way, and not while it is the parent of a graph's runs.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};

use crate::segment::handle::{Entry, Handle};

/// Entries of events without children that come later, which are free at their end.
const MAX_LEAVES: usize = 16_384;
/// Entries of the others. One stays findable for its children after its end until all others have been used: they
/// come when the operation runs, and a thousand operations may be queued, at about ten such events each.
const MAX_PARENTS: usize = 49_152;
const MAX_PAIRS: usize = MAX_LEAVES + MAX_PARENTS;
const _: () = assert!(MAX_PAIRS == 1 << 16);
/// Entries looked at for one that may be used again.
const MAX_PROBES: usize = 64;
/// Entries that graphs may hold, for good: nobody tells the end of a graph. Above it a captured call is treated as any other.
const MAX_PINNED: usize = MAX_PARENTS / 2;
/// Laps of its part of the table after which an event that never stopped is given up: some proxy operations never do.
const MAX_LAPS: usize = 64;

struct Pair {
    /// `lap << 34 | generation << 2 | PINNED | OPEN`.
    state: AtomicU64,
    ours: AtomicU64,
    theirs: AtomicUsize,
}

const OPEN: u64 = 1;
const PINNED: u64 = 2;
const GENERATION_SHIFT: u32 = 2;
const LAP_SHIFT: u32 = 34;

static PAIRS: [Pair; MAX_PAIRS] =
    [const { Pair { state: AtomicU64::new(0), ours: AtomicU64::new(0), theirs: AtomicUsize::new(0) } };
        MAX_PAIRS];
static NEXT_LEAF: AtomicUsize = AtomicUsize::new(0);
static NEXT_PARENT: AtomicUsize = AtomicUsize::new(0);
static N_PINNED: AtomicUsize = AtomicUsize::new(0);

/// An entry that was taken.
pub(super) struct Taken {
    pub(super) entry: Entry,
    /// Our handle of an event that was given up for it; 0 if none was.
    pub(super) given_up: u64,
}

/// Takes an entry; `None` if there is no room.
pub(super) fn take(is_leaf: bool) -> Option<Taken> {
    let (next, first, size) =
        if is_leaf { (&NEXT_LEAF, 0, MAX_LEAVES) } else { (&NEXT_PARENT, MAX_LEAVES, MAX_PARENTS) };
    let from = next.fetch_add(1, Relaxed);
    (from..from.wrapping_add(MAX_PROBES)).find_map(|number| {
        let (index, lap) = (first + number % size, number / size);
        let pair = &PAIRS[index];
        let state = pair.state.load(Relaxed);
        let is_lost = lap.saturating_sub((state >> LAP_SHIFT) as usize) > MAX_LAPS;
        if state & PINNED != 0 || state & OPEN != 0 && !is_lost {
            return None;
        }
        let generation = (state >> GENERATION_SHIFT).wrapping_add(1) & 0xffff_ffff;
        let taken = (lap as u64) << LAP_SHIFT | generation << GENERATION_SHIFT | OPEN;
        pair.state.compare_exchange(state, taken, AcqRel, Relaxed).ok()?;
        let given_up = if state & OPEN != 0 { pair.ours.load(Relaxed) } else { 0 };
        let generation = u32::try_from(generation).unwrap_or_default();
        Some(Taken { entry: Entry { index, generation }, given_up })
    })
}

/// Both handles of the event for which the entry was taken.
pub(super) fn put(entry: Entry, ours: u64, theirs: usize) {
    let Some(pair) = PAIRS.get(entry.index) else { return };
    pair.ours.store(ours, Relaxed);
    pair.theirs.store(theirs, Release);
    if matches!(Handle::decode(ours), Some(Handle::Template(_)))
        && N_PINNED.fetch_update(Relaxed, Relaxed, |held| (held < MAX_PINNED).then_some(held + 1)).is_ok()
    {
        pair.state.fetch_or(PINNED, AcqRel);
    }
}

/// Both handles, while the entry is still this event's.
pub(super) fn get(entry: Entry) -> Option<(u64, usize)> {
    let pair = PAIRS.get(entry.index)?;
    let both = (pair.ours.load(Acquire), pair.theirs.load(Acquire));
    // An entry that was never used has no handle of theirs.
    (is(pair.state.load(Acquire), entry) && both.1 != 0).then_some(both)
}

/// Ends the event; both handles if it was under way.
pub(super) fn stop(entry: Entry) -> Option<(u64, usize)> {
    let pair = PAIRS.get(entry.index)?;
    let both = (pair.ours.load(Acquire), pair.theirs.load(Acquire));
    let state = pair.state.load(Acquire);
    let was_open = is(state, entry)
        && state & OPEN != 0
        && pair.state.compare_exchange(state, state & !OPEN, AcqRel, Relaxed).is_ok();
    was_open.then_some(both)
}

fn is(state: u64, entry: Entry) -> bool {
    state >> GENERATION_SHIFT & 0xffff_ffff == u64::from(entry.generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_found_until_it_is_used_again_and_stops_once() {
        let first = take(false).unwrap().entry;
        put(first, 7, 8);
        assert_eq!((get(first), stop(first), stop(first)), (Some((7, 8)), Some((7, 8)), None));
        assert_eq!(get(first), Some((7, 8)), "children come after the end");
        let open = take(false).unwrap().entry;
        put(open, 1, 2);
        for _ in 0..MAX_PAIRS {
            let entry = take(false).unwrap().entry;
            assert_ne!(entry.index, open.index);
            stop(entry);
        }
        assert_eq!((get(first), get(open)), (None, Some((1, 2))));
        assert!(take(true).unwrap().entry.index < MAX_LEAVES);
        assert_eq!(get(Entry { index: 70_000, generation: 1 }), None);
        assert_eq!(get(Entry { index: MAX_LEAVES - 1, generation: 0 }), None, "never used");
    }
}
