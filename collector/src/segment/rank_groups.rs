//! Groups of ranks that the program's framework has made: the segment's table of them.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::fence;

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::groups::{Group, MAX_GROUPS};

use crate::segment::names::Name;
use crate::segment::room;

/// Writes down a group, or what it is called now; false where there is no room for it.
pub(crate) fn note(segment: &Segment, id: u64, name: &Name, ranks: u64, n_ranks: u64) -> bool {
    let area = &segment.groups;
    if !room::ensure(segment, &area.n_taken) {
        return false;
    }
    let n = usize::try_from(area.n_taken.load(Acquire)).unwrap_or(MAX_GROUPS).min(MAX_GROUPS);
    let known = area.groups.iter().take(n).find(|group| group.id.load(Relaxed) == id);
    let Some(group) = known.or_else(|| take(segment)) else { return false };
    group.ranks.store(0, Relaxed);
    fence(Release);
    group.id.store(id, Relaxed);
    group.n_ranks.store(n_ranks, Relaxed);
    group.name.iter().zip(name).for_each(|(word, value)| word.store(*value, Relaxed));
    group.ranks.store(ranks, Release);
    true
}

/// The next free place. Python makes groups one after the other; threads that do so at once get a place each.
fn take(segment: &Segment) -> Option<&Group> {
    let area = &segment.groups;
    let next = |taken: u64| (taken < MAX_GROUPS as u64).then(|| taken + 1);
    let place = area.n_taken.load(Acquire);
    let group = area.groups.get(usize::try_from(place).ok()?)?;
    if !room::ensure(segment, group) {
        return None;
    }
    let taken = area.n_taken.fetch_update(AcqRel, Acquire, next).ok()?;
    let group = area.groups.get(usize::try_from(taken).ok()?)?;
    room::ensure(segment, group).then_some(group)
}
