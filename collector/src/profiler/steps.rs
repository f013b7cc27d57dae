//! Network steps under way: how many bytes each was handed, until the library says that it is done.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use ringscope_wire::segment::layout::{DropReason, MAX_LINKS, Segment};

use crate::segment::handle::{Entry, Handle};
use crate::segment::{links, switch, ticks};

/// Steps followed at once: a channel has at most `NCCL_STEPS` (8) under way, times 64 channels, times four
/// communicators busy at once.
const MAX_STEPS: usize = 2048;
/// Entries looked at for a free one before a step goes unfollowed.
const MAX_PROBES: usize = 64;

/// `TAKEN | SENT | generation << 52 | link << 40 | bytes`; without `TAKEN` free. The library's steps are at most some
/// MiB, its operations some GiB.
static STEPS: [AtomicU64; MAX_STEPS] = [const { AtomicU64::new(0) }; MAX_STEPS];
/// Ticks at which the bytes of each were handed to the network.
static SENT_AT: [AtomicU64; MAX_STEPS] = [const { AtomicU64::new(0) }; MAX_STEPS];
static NEXT: AtomicUsize = AtomicUsize::new(0);

const TAKEN: u64 = 1 << 63;
/// The step's bytes were handed to the network.
const SENT: u64 = 1 << 62;
const GENERATION_SHIFT: u32 = 52;
const GENERATION_MASK: u64 = 0x3ff;
const LINK_SHIFT: u32 = 40;
const LINK_MASK: u64 = MAX_LINKS as u64 - 1;
const BYTES_MASK: u64 = (1 << LINK_SHIFT) - 1;
const _: () = assert!(MAX_LINKS == 1 << (GENERATION_SHIFT - LINK_SHIFT));

/// A step of the link has begun.
pub(crate) fn start(segment: &Segment, link: usize) -> Handle {
    let from = NEXT.fetch_add(1, Relaxed);
    let taken = (from..from.wrapping_add(MAX_PROBES)).find_map(|index| {
        let index = index % MAX_STEPS;
        let free = STEPS[index].load(Relaxed);
        if free & TAKEN != 0 {
            return None;
        }
        let generation = (free >> GENERATION_SHIFT).wrapping_add(1) & GENERATION_MASK;
        let entry = TAKEN | generation << GENERATION_SHIFT | (link as u64 & LINK_MASK) << LINK_SHIFT;
        STEPS[index].compare_exchange(free, entry, AcqRel, Relaxed).ok()?;
        Some(Entry { index, generation: u32::try_from(generation).unwrap_or_default() })
    });
    match taken {
        Some(entry) => Handle::Step(entry),
        None => {
            switch::dropped(segment, DropReason::StepTableFull, 1);
            Handle::LooseStep(link)
        }
    }
}

/// The step's bytes were handed to the network.
pub(crate) fn sent(segment: &Segment, handle: Entry, bytes: u64) {
    if let Some((step, entry)) = find(segment, handle) {
        // Steps are told of again while they go on.
        if entry & SENT == 0 {
            SENT_AT[handle.index].store(ticks::now(), Relaxed);
        }
        step.store(entry & !BYTES_MASK | SENT | bytes.min(BYTES_MASK), Relaxed);
    }
}

/// An operation followed as a whole has handed `bytes` to the network since it began: what is new counts.
pub(crate) fn sent_so_far(segment: &Segment, handle: Entry, bytes: u64) {
    let Some((step, entry)) = find(segment, handle) else { return };
    let bytes = bytes.min(BYTES_MASK);
    let known = entry & BYTES_MASK;
    if bytes > known {
        step.store(entry & !BYTES_MASK | bytes, Relaxed);
        links::count(segment, link_of(entry), bytes - known, 0);
    }
}

/// The network has finished the step.
pub(crate) fn stop(segment: &Segment, handle: Entry) {
    let Some((step, entry)) = find(segment, handle) else { return };
    let sent_at = SENT_AT[handle.index].load(Relaxed);
    let freed = entry & GENERATION_MASK << GENERATION_SHIFT;
    if step.compare_exchange(entry, freed, AcqRel, Relaxed).is_err() {
        return switch::dropped(segment, DropReason::EventOutOfOrder, 1);
    }
    if entry & SENT != 0 {
        let ticks = ticks::now().saturating_sub(sent_at);
        links::count(segment, link_of(entry), entry & BYTES_MASK, ticks);
    }
}

/// The step of a handle, while it is under way.
fn find(segment: &Segment, handle: Entry) -> Option<(&'static AtomicU64, u64)> {
    let found = STEPS.get(handle.index).map(|step| (step, step.load(Acquire))).filter(|(_, entry)| {
        entry & TAKEN != 0 && entry >> GENERATION_SHIFT & GENERATION_MASK == u64::from(handle.generation)
    });
    if found.is_none() {
        switch::dropped(segment, DropReason::EventOutOfOrder, 1);
    }
    found
}

fn link_of(entry: u64) -> usize {
    usize::try_from(entry >> LINK_SHIFT & LINK_MASK).unwrap_or(usize::MAX)
}

/// In a forked child: the parent's steps are not its own.
pub(crate) fn forget() {
    for step in &STEPS {
        step.store(0, Relaxed);
    }
}
