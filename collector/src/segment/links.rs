//! Network bytes per (communicator, primitive, peer): an open-addressed table in the segment. Keys of one
//! communicator are inserted by its proxy thread alone, so no key is inserted twice.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use ringscope_wire::segment::layout::{DropReason, LINKS_PER_REGION, MAX_LINKS, Segment, link_key};

use crate::segment::handle::Operation;
use crate::segment::{room, switch, table};

/// Entries looked at before a link is given up: at half load a search rarely passes ten.
const MAX_PROBES: usize = 256;
/// Key of an entry whose communicator's slot has been used again. Readers skip it (bit 63 is 0).
const CLEARED: u64 = 1;

/// Index of the link from this rank to `peer` for the operation's communicator and primitive.
pub(crate) fn find_or_insert(segment: &Segment, operation: Operation, peer: u32) -> Option<usize> {
    let generation = table::at(segment, operation.slot).generation.load(Relaxed);
    let slot = u16::try_from(operation.slot).ok()?;
    let primitive = u8::try_from(operation.primitive).ok()?;
    let key = link_key(generation, slot, primitive, peer);
    let first = indices(key).next()?;
    let has_room = room::ensure(segment, &segment.links[first]);
    let found = has_room.then(|| probe(segment, key)).flatten();
    if found.is_none() {
        switch::dropped(segment, DropReason::LinkTableFull, 1);
    }
    found
}

fn probe(segment: &Segment, key: u64) -> Option<usize> {
    let mut cleared = None;
    for index in indices(key) {
        match segment.links[index].key.load(Acquire) {
            known if known == key => return Some(index),
            CLEARED => cleared = cleared.or(Some(index)),
            0 => {
                return cleared
                    .filter(|index| take(segment, *index, CLEARED, key))
                    .or_else(|| indices(key).find(|index| take(segment, *index, 0, key)));
            }
            _ => {}
        }
    }
    cleared.filter(|index| take(segment, *index, CLEARED, key))
}

fn take(segment: &Segment, index: usize, from: u64, key: u64) -> bool {
    segment.live.link_regions.fetch_or(1 << (index / LINKS_PER_REGION), Relaxed);
    segment.links[index].key.compare_exchange(from, key, AcqRel, Relaxed).is_ok()
}

fn indices(key: u64) -> impl Iterator<Item = usize> {
    // Fibonacci hashing; the high bits are the mixed ones.
    let start = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let start = start as usize % MAX_LINKS;
    (start..start + MAX_PROBES).map(|index| index % MAX_LINKS)
}

/// A network step of a link has completed.
pub(crate) fn count(segment: &Segment, index: usize, bytes: u64) {
    let Some(link) = segment.links.get(index) else { return };
    link.sent_bytes.fetch_add(bytes, Relaxed);
    link.sent_steps.fetch_add(1, Relaxed);
}

/// Frees the links of a slot that is being used again; their last values have been read.
pub(crate) fn clear(segment: &Segment, slot: usize) {
    let regions = segment.live.link_regions.load(Relaxed);
    let is_used = |region: &(usize, _)| regions >> region.0 & 1 != 0;
    for link in segment.links.chunks(LINKS_PER_REGION).enumerate().filter(is_used).flat_map(|region| region.1)
    {
        let key = link.key.load(Relaxed);
        if key >> 63 == 1 && (key >> 36 & 0xfff) as usize == slot {
            link.sent_bytes.store(0, Relaxed);
            link.sent_steps.store(0, Relaxed);
            link.key.store(CLEARED, Release);
        }
    }
}
