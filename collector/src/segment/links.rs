//! Network bytes per (communicator, primitive, peer): an open-addressed table in the segment. Keys of one
//! communicator are inserted by its proxy thread alone, so no key is inserted twice.

use std::sync::atomic::Ordering::Relaxed;

use ringscope_wire::segment::layout::{DropReason, Link, Segment, link_key};

use crate::segment::handle::Operation;
use crate::segment::keyed::Keyed;
use crate::segment::{switch, table};

fn links(segment: &Segment) -> Keyed<'_, Link> {
    let (entries, regions) = (&segment.links, &segment.live.link_regions);
    Keyed { entries, regions, key_of: |link| &link.key, max_probes: 256 }
}

/// Index of the link from this rank to `peer` for the operation's communicator and primitive.
pub(crate) fn find_or_insert(segment: &Segment, operation: Operation, peer: u32) -> Option<usize> {
    let generation = table::at(segment, operation.slot).generation.load(Relaxed);
    let slot = u16::try_from(operation.slot).ok()?;
    let primitive = u8::try_from(operation.primitive).ok()?;
    let key = link_key(generation, slot, primitive, peer);
    let found = links(segment).find_or_insert(segment, key);
    if found.is_none() {
        switch::dropped(segment, DropReason::LinkTableFull, 1);
    }
    found
}

/// A network step of a link has completed, so many ticks after its bytes were handed to the network.
pub(crate) fn count(segment: &Segment, index: usize, bytes: u64, ticks: u64) {
    let Some(link) = segment.links.get(index) else { return };
    link.sent_bytes.fetch_add(bytes, Relaxed);
    link.sent_steps.fetch_add(1, Relaxed);
    link.sending_ticks.fetch_add(ticks, Relaxed);
}

/// Frees the links of a slot that is being used again; their last values have been read.
pub(crate) fn clear(segment: &Segment, slot: usize) {
    links(segment).clear(segment, slot, |link| {
        link.sent_bytes.store(0, Relaxed);
        link.sent_steps.store(0, Relaxed);
        link.sending_ticks.store(0, Relaxed);
    });
}
