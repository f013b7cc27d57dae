//! Network steps under way: how many bytes each was handed, until the library says that it is done.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use ringscope_wire::segment::layout::{DropReason, Segment};

use crate::handle::Handle;
use crate::{links, switch};

/// Steps followed at once: a channel has at most `NCCL_STEPS` (8) under way, times 64 channels, times four
/// communicators busy at once.
const MAX_STEPS: usize = 2048;
/// Entries looked at for a free one before a step goes unfollowed.
const MAX_PROBES: usize = 64;

/// `TAKEN | SENT | link << 40 | bytes`; 0 if free. The library's steps are at most some MiB.
static STEPS: [AtomicU64; MAX_STEPS] = [const { AtomicU64::new(0) }; MAX_STEPS];
static NEXT: AtomicUsize = AtomicUsize::new(0);

const TAKEN: u64 = 1 << 63;
/// The step's bytes were handed to the network.
const SENT: u64 = 1 << 62;
const LINK_SHIFT: u32 = 40;
const BYTES_MASK: u64 = (1 << LINK_SHIFT) - 1;

/// A step of the link has begun.
pub(crate) fn start(segment: &Segment, link: usize) -> Handle {
    let from = NEXT.fetch_add(1, Relaxed);
    let free = (from..from.wrapping_add(MAX_PROBES)).map(|index| index % MAX_STEPS).find(|index| {
        let entry = TAKEN | (link as u64) << LINK_SHIFT;
        STEPS[*index].compare_exchange(0, entry, AcqRel, Relaxed).is_ok()
    });
    match free {
        Some(index) => Handle::Step(index),
        None => {
            switch::dropped(segment, DropReason::StepTableFull, 1);
            Handle::LooseStep(link)
        }
    }
}

/// The step's bytes were handed to the network.
pub(crate) fn sent(index: usize, bytes: u64) {
    let Some(step) = STEPS.get(index) else { return };
    let entry = step.load(Acquire);
    if entry & TAKEN != 0 {
        step.store(entry & !BYTES_MASK | SENT | bytes.min(BYTES_MASK), Relaxed);
    }
}

/// The network has finished the step.
pub(crate) fn stop(segment: &Segment, index: usize) {
    let Some(step) = STEPS.get(index) else { return };
    let entry = step.swap(0, AcqRel);
    if entry & SENT != 0 {
        let link = (entry & !TAKEN & !SENT) >> LINK_SHIFT;
        links::count(segment, usize::try_from(link).unwrap_or(usize::MAX), entry & BYTES_MASK);
    }
}

/// In a forked child: the parent's steps are not its own.
pub(crate) fn forget() {
    for step in &STEPS {
        step.store(0, Relaxed);
    }
}
