//! Calls of send and recv by communicator and peer: an open-addressed table in the segment. The calls of one communicator
//! come one after the other, so no key is inserted twice.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use ringscope_wire::Datatype;
use ringscope_wire::segment::Segment;
use ringscope_wire::segment::calls::hash::{Signature, check, of_pair};
use ringscope_wire::segment::calls::layout::{MAX_PAIRS, Pair};
use ringscope_wire::segment::layout::{DropReason, PAIRS_PER_REGION, link_key};

use crate::segment::{room, switch};

/// Entries looked at before a pair is given up: at half load a search rarely passes ten.
const MAX_PROBES: usize = 64;
/// Key of an entry whose communicator's slot has been used again. Readers skip it (bit 63 is 0).
const CLEARED: u64 = 1;

/// Counts one call of send or recv, of which the signature's root is the peer.
#[inline(never)]
pub(crate) fn add(segment: &Segment, slot: usize, generation: u32, call: Signature) {
    let Ok(peer) = u32::try_from(call.root) else { return };
    let slot = u16::try_from(slot).unwrap_or_default();
    let key = link_key(generation, slot, call.primitive as u8, peer);
    let Some(pair) = find_or_insert(segment, key) else {
        return switch::dropped(segment, DropReason::PairTableFull, 1);
    };
    let calls = pair.calls.load(Relaxed) + 1;
    let hash = of_pair(pair.hash.load(Relaxed), call.count, call.datatype);
    pair.hash.store(hash, Relaxed);
    let bytes = call.count.wrapping_mul(Datatype(call.datatype).size_bytes());
    pair.bytes.store(pair.bytes.load(Relaxed).wrapping_add(bytes), Relaxed);
    pair.check.store(check(calls, hash), Relaxed);
    pair.calls.store(calls, Release);
}

fn find_or_insert(segment: &Segment, key: u64) -> Option<&Pair> {
    let table = &segment.calls.pairs;
    if !room::ensure(segment, &table[indices(key).next()?]) {
        return None;
    }
    let take = |index: usize, from: u64| {
        segment.live.pair_regions.fetch_or(1 << (index / PAIRS_PER_REGION), Relaxed);
        table[index].key.compare_exchange(from, key, AcqRel, Relaxed).is_ok()
    };
    let mut cleared = None;
    for index in indices(key) {
        match table[index].key.load(Acquire) {
            known if known == key => return Some(&table[index]),
            CLEARED => cleared = cleared.or(Some(index)),
            0 => {
                return cleared
                    .filter(|index| take(*index, CLEARED))
                    .or_else(|| indices(key).find(|index| take(*index, 0)))
                    .map(|index| &table[index]);
            }
            _ => {}
        }
    }
    cleared.filter(|index| take(*index, CLEARED)).map(|index| &table[index])
}

fn indices(key: u64) -> impl Iterator<Item = usize> {
    // Fibonacci hashing; the high bits are the mixed ones.
    let start = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let start = start as usize % MAX_PAIRS;
    (start..start + MAX_PROBES).map(|index| index % MAX_PAIRS)
}

/// Frees the pairs of a slot that is being used again.
pub(crate) fn clear(segment: &Segment, slot: usize) {
    let regions = segment.live.pair_regions.load(Relaxed);
    let is_used = |region: &(usize, _)| regions >> region.0 & 1 != 0;
    for pair in
        segment.calls.pairs.chunks(PAIRS_PER_REGION).enumerate().filter(is_used).flat_map(|region| region.1)
    {
        let key = pair.key.load(Relaxed);
        if key >> 63 == 1 && (key >> 36 & 0xfff) as usize == slot {
            for word in [&pair.calls, &pair.bytes, &pair.hash, &pair.check] {
                word.store(0, Relaxed);
            }
            pair.key.store(CLEARED, Release);
        }
    }
}
