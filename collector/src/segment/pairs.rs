//! Calls of send and recv by communicator and peer: an open-addressed table in the segment. The calls of one communicator
//! come one after the other, so no key is inserted twice.

use std::sync::atomic::Ordering::{Relaxed, Release};

use ringscope_wire::Datatype;
use ringscope_wire::segment::Segment;
use ringscope_wire::segment::calls::hash::{Signature, check, of_pair};
use ringscope_wire::segment::calls::layout::Pair;
use ringscope_wire::segment::layout::{DropReason, link_key};

use crate::segment::keyed::Keyed;
use crate::segment::switch;

fn pairs(segment: &Segment) -> Keyed<'_, Pair> {
    let (entries, regions) = (&segment.calls.pairs, &segment.live.pair_regions);
    Keyed { entries, regions, key_of: |pair| &pair.key, max_probes: 64 }
}

/// Counts one call of send or recv, of which the signature's root is the peer.
#[inline(never)]
pub(crate) fn add(segment: &Segment, slot: usize, generation: u32, call: Signature) {
    let Ok(peer) = u32::try_from(call.root) else { return };
    let slot = u16::try_from(slot).unwrap_or_default();
    let key = link_key(generation, slot, call.primitive as u8, peer);
    let Some(index) = pairs(segment).find_or_insert(segment, key) else {
        return switch::dropped(segment, DropReason::PairTableFull, 1);
    };
    let pair = &segment.calls.pairs[index];
    let calls = pair.calls.load(Relaxed) + 1;
    let hash = of_pair(pair.hash.load(Relaxed), call.count, call.datatype);
    pair.hash.store(hash, Relaxed);
    let bytes = call.count.wrapping_mul(Datatype(call.datatype).size_bytes());
    pair.bytes.store(pair.bytes.load(Relaxed).wrapping_add(bytes), Relaxed);
    pair.check.store(check(calls, hash), Relaxed);
    pair.calls.store(calls, Release);
}

/// Frees the pairs of a slot that is being used again.
pub(crate) fn clear(segment: &Segment, slot: usize) {
    pairs(segment).clear(segment, slot, |pair| {
        for word in [&pair.calls, &pair.bytes, &pair.hash, &pair.check] {
            word.store(0, Relaxed);
        }
    });
}
