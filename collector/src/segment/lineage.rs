//! What a communicator hands down to its children: how many it has had, the number that grown ones are named after, and
//! the settings that a child without its own takes over. Sources: NCCL `src/init.cc`, `ncclCommInitChildComm`,
//! `ncclCommGrow`, `copyCommConfig`.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64};

use ringscope_wire::segment::layout::{COMMUNICATOR_ABORTED, MAX_COMMUNICATORS, Segment};

use crate::segment::table;
use crate::segment::table::SLOT_MASK;

/// What `ncclConfig_t` says of channels. Zero and false where the program left the default.
#[derive(Clone, Copy, Default)]
pub(crate) struct Settings {
    pub(crate) min_ctas: i32,
    pub(crate) max_ctas: i32,
    /// Children of a split use this communicator's channels.
    pub(crate) split_share: bool,
    /// Those of a shrink.
    pub(crate) shrink_share: bool,
}

/// How a child comes from its parent.
#[derive(Clone, Copy)]
pub(crate) enum Descent {
    Split,
    Shrink {
        /// What the parent was doing is given up first.
        is_abort: bool,
    },
}

struct Line {
    /// Splits and grows so far: NCCL's `childCount`. Shrinks do not count.
    children: AtomicI32,
    /// NCCL's `magic`; 0 while not known.
    magic: AtomicU64,
    /// `SPLIT_SHARE` and `SHRINK_SHARE`.
    shares: AtomicU32,
    /// Which `ncclCommInitAll` made it, from 1; 0 for any other call.
    made_together: AtomicU64,
}

const SPLIT_SHARE: u32 = 1;
const SHRINK_SHARE: u32 = 2;

static LINES: [Line; MAX_COMMUNICATORS] = [const {
    Line {
        children: AtomicI32::new(0),
        magic: AtomicU64::new(0),
        shares: AtomicU32::new(0),
        made_together: AtomicU64::new(0),
    }
}; MAX_COMMUNICATORS];

/// What the environment says of splits and of shrinks, over every program: one of the constants below.
static OVERRIDES: [AtomicU8; 2] = [const { AtomicU8::new(NOT_SAID) }; 2];
const NOT_SAID: u8 = 0;
const NO: u8 = 1;
const YES: u8 = 2;

/// A new segment, for a process whose environment says this of splits and of shrinks.
pub(crate) fn begin(shares_of_children: [Option<bool>; 2]) {
    for (place, said) in OVERRIDES.iter().zip(shares_of_children) {
        place.store(said.map_or(NOT_SAID, |shares| if shares { YES } else { NO }), Relaxed);
    }
}

fn said(place: &AtomicU8) -> Option<bool> {
    match place.load(Relaxed) {
        NOT_SAID => None,
        said => Some(said == YES),
    }
}

/// The slot gets a new communicator.
pub(crate) fn clear(slot: usize) {
    let line = &LINES[slot & SLOT_MASK];
    line.children.store(0, Relaxed);
    line.magic.store(0, Relaxed);
    line.shares.store(0, Relaxed);
    line.made_together.store(0, Relaxed);
}

/// Counts one more child of the slot's communicator and gives its number, from 1 as NCCL does.
pub(crate) fn next_child(slot: usize) -> i32 {
    LINES[slot & SLOT_MASK].children.fetch_add(1, Relaxed).wrapping_add(1)
}

/// The number that grown children of the slot's communicator are named after; 0 if it is not known.
pub(crate) fn magic(slot: usize) -> u64 {
    LINES[slot & SLOT_MASK].magic.load(Relaxed)
}

pub(crate) fn set_magic(slot: usize, magic: u64) {
    LINES[slot & SLOT_MASK].magic.store(magic, Relaxed);
}

/// The communicators of these slots are made by one `ncclCommInitAll`, so that they have one hash.
pub(crate) fn make_together(slots: impl Iterator<Item = usize>) {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let call = CALLS.fetch_add(1, Relaxed) + 1;
    slots.for_each(|slot| LINES[slot & SLOT_MASK].made_together.store(call, Relaxed));
}

/// The other slots of the same `ncclCommInitAll`.
pub(crate) fn siblings(slot: usize) -> impl Iterator<Item = usize> {
    let call = LINES[slot & SLOT_MASK].made_together.load(Relaxed);
    let is_sibling = move |other: &usize| *other != slot && LINES[*other].made_together.load(Relaxed) == call;
    let last = if call == 0 { 0 } else { MAX_COMMUNICATORS };
    (0..last).filter(is_sibling)
}

/// The settings of the slot's communicator.
pub(crate) fn settings(segment: &Segment, slot: usize) -> Settings {
    let communicator = table::at(segment, slot);
    let shares = LINES[slot & SLOT_MASK].shares.load(Relaxed);
    Settings {
        min_ctas: communicator.min_ctas.load(Relaxed),
        max_ctas: communicator.max_ctas.load(Relaxed),
        split_share: shares & SPLIT_SHARE != 0,
        shrink_share: shares & SHRINK_SHARE != 0,
    }
}

pub(crate) fn set_settings(segment: &Segment, slot: usize, settings: Settings) {
    let communicator = table::at(segment, slot);
    communicator.min_ctas.store(settings.min_ctas, Relaxed);
    communicator.max_ctas.store(settings.max_ctas, Relaxed);
    let split = if settings.split_share { SPLIT_SHARE } else { 0 };
    let shrink = if settings.shrink_share { SHRINK_SHARE } else { 0 };
    LINES[slot & SLOT_MASK].shares.store(split | shrink, Relaxed);
}

/// Whether a child shares its parent's channels, as `Communicator::shares_resources` says it: 1 no, 2 yes. The parent's
/// settings decide, not the child's, and the environment over both.
pub(crate) fn shares_resources(segment: &Segment, parent: usize, descent: Descent) -> u32 {
    let [split, shrink] = [&OVERRIDES[0], &OVERRIDES[1]].map(said);
    let settings = settings(segment, parent);
    let shares = match descent {
        Descent::Split => split.unwrap_or(settings.split_share),
        Descent::Shrink { is_abort } => !is_abort && shrink.unwrap_or(settings.shrink_share),
    };
    let is_revoked = table::at(segment, parent).state.load(Relaxed) == COMMUNICATOR_ABORTED;
    if shares && !is_revoked { 2 } else { 1 }
}
