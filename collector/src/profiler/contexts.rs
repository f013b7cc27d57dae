//! The profiler's contexts: what the library said of each communicator at its init, and which communicator slot it means
//! by the number that it got then.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::MAX_COMMUNICATORS;

use crate::segment::communicators;
use crate::segment::names::Name;

/// Communicators that can have a context at once: more than slots, for those that only another plugin follows.
pub(crate) const MAX_CONTEXTS: usize = 2 * MAX_COMMUNICATORS;

/// What the library says of a communicator when it initialises the plugin for it, or (before version 4) with its
/// first task.
#[derive(Clone, Copy)]
pub(crate) struct Announcement {
    /// 0 if not said.
    pub(crate) comm_hash: u64,
    /// 0 if not said.
    pub(crate) n_nodes: i32,
    /// 0 if not said.
    pub(crate) n_ranks: i32,
    /// -1 if not said.
    pub(crate) rank: i32,
    pub(crate) name: Name,
}

/// How surely a context's slot is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Surety {
    /// No other communicator of the process fits what the library said: an event may tell better.
    Likely,
    /// By its hash and rank, by the thread that made it, or by an event inside a call.
    Sure,
}

struct Context {
    is_used: AtomicBool,
    /// `generation << 32 | IS_SURE | slot + 1`; 0 while it is not known which it is, or if it is not followed.
    bound: AtomicU64,
    comm_hash: AtomicU64,
    n_nodes: AtomicI32,
    n_ranks: AtomicI32,
    rank: AtomicI32,
    name: [AtomicU64; 8],
    /// The place of its library's mask ([`crate::profiler::masks`]).
    mask: AtomicUsize,
}

const IS_SURE: u64 = 1 << 31;

static CONTEXTS: [Context; MAX_CONTEXTS] = [const {
    Context {
        is_used: AtomicBool::new(false),
        bound: AtomicU64::new(0),
        comm_hash: AtomicU64::new(0),
        n_nodes: AtomicI32::new(0),
        n_ranks: AtomicI32::new(0),
        rank: AtomicI32::new(-1),
        name: [const { AtomicU64::new(0) }; 8],
        mask: AtomicUsize::new(0),
    }
}; MAX_CONTEXTS];
/// One more than the highest number that was ever given.
static N_CONTEXTS: AtomicUsize = AtomicUsize::new(0);
/// None before this one is free, but for those that threads have just raced for.
static FIRST_FREE: AtomicUsize = AtomicUsize::new(0);

/// What the library has as its context, never 0: without one it would not call `finalize`.
pub(crate) const UNFOLLOWED: usize = MAX_CONTEXTS + 1;

/// Takes a context, of a library whose mask `enter_mask` keeps; gives the number for the library. [`UNFOLLOWED`] if there is
/// no room.
pub(super) fn open(enter_mask: impl FnOnce() -> usize) -> usize {
    let take =
        |index: &usize| CONTEXTS[*index].is_used.compare_exchange(false, true, AcqRel, Acquire).is_ok();
    let from = FIRST_FREE.load(Relaxed).min(MAX_CONTEXTS);
    let taken = (from..MAX_CONTEXTS).find(take).or_else(|| (0..from).find(take));
    let Some(index) = taken else { return UNFOLLOWED };
    let _ = FIRST_FREE.compare_exchange(from, index + 1, Relaxed, Relaxed);
    CONTEXTS[index].rank.store(-1, Relaxed);
    CONTEXTS[index].mask.store(enter_mask(), Relaxed);
    N_CONTEXTS.fetch_max(index + 1, AcqRel);
    index + 1
}

/// The place of the mask of the context's library, once.
pub(super) fn take_mask(number: usize) -> usize {
    of(number).map_or(0, |context| context.mask.swap(0, AcqRel))
}

fn of(number: usize) -> Option<&'static Context> {
    CONTEXTS.get(number.wrapping_sub(1)).filter(|context| context.is_used.load(Acquire))
}

/// Keeps what the library said.
pub(super) fn announce(number: usize, announced: &Announcement) {
    let Some(context) = of(number) else { return };
    context.comm_hash.store(announced.comm_hash, Relaxed);
    context.n_nodes.store(announced.n_nodes, Relaxed);
    context.n_ranks.store(announced.n_ranks, Relaxed);
    for (word, value) in context.name.iter().zip(announced.name) {
        word.store(value, Relaxed);
    }
    context.rank.store(announced.rank, Release);
}

/// What the library said of it.
pub(super) fn announced(number: usize) -> Option<Announcement> {
    let context = of(number)?;
    Some(Announcement {
        rank: context.rank.load(Acquire),
        comm_hash: context.comm_hash.load(Relaxed),
        n_nodes: context.n_nodes.load(Relaxed),
        n_ranks: context.n_ranks.load(Relaxed),
        name: std::array::from_fn(|word| context.name[word].load(Relaxed)),
    })
}

/// The slot of a context, if it is known, followed, and still this communicator's.
#[inline(always)]
pub(crate) fn slot(segment: &Segment, number: usize) -> Option<usize> {
    let bound = CONTEXTS.get(number.wrapping_sub(1))?.bound.load(Acquire);
    let slot = slot_of(bound)?;
    let generation = communicators::at(segment, slot).generation.load(Relaxed);
    (u64::from(generation) == bound >> 32).then_some(slot)
}

/// The same, if it is known for sure.
#[inline(always)]
pub(super) fn sure_slot(segment: &Segment, number: usize) -> Option<usize> {
    slot(segment, number).filter(|_| is_sure(number))
}

pub(super) fn is_sure(number: usize) -> bool {
    of(number).is_some_and(|context| context.bound.load(Acquire) & IS_SURE != 0)
}

fn slot_of(bound: u64) -> Option<usize> {
    usize::try_from(bound & (IS_SURE - 1)).ok()?.checked_sub(1)
}

/// It has become known which slot it is.
pub(super) fn settle(segment: &Segment, number: usize, slot: usize, surety: Surety) {
    let Some(context) = of(number) else { return };
    let generation = communicators::at(segment, slot).generation.load(Relaxed);
    let sure = if surety == Surety::Sure { IS_SURE } else { 0 };
    context.bound.store(u64::from(generation) << 32 | sure | (slot as u64 + 1), Release);
}

/// It is another slot than was thought.
pub(super) fn unsettle(number: usize) {
    if let Some(context) = of(number) {
        context.bound.store(0, Release);
    }
}

/// The contexts of which it is not known which slot they are, by number.
pub(super) fn unknown() -> impl Iterator<Item = usize> {
    used().filter(|(_, context)| context.bound.load(Acquire) == 0).map(|(number, _)| number)
}

/// The context that is thought to be the slot's communicator.
pub(super) fn of_slot(segment: &Segment, of_slot: usize) -> Option<usize> {
    used().find(|(number, _)| slot(segment, *number) == Some(of_slot)).map(|(number, _)| number)
}

fn used() -> impl Iterator<Item = (usize, &'static Context)> {
    let used = N_CONTEXTS.load(Acquire);
    let contexts = CONTEXTS.iter().take(used).enumerate();
    contexts.filter(|(_, context)| context.is_used.load(Acquire)).map(|(index, context)| (index + 1, context))
}

/// The communicator has ended. False if there was no such context.
pub(crate) fn close(number: usize) -> bool {
    let Some(context) = CONTEXTS.get(number.wrapping_sub(1)) else { return number == UNFOLLOWED };
    context.bound.store(0, Release);
    context.n_ranks.store(0, Release);
    let was_used = context.is_used.swap(false, AcqRel);
    FIRST_FREE.fetch_min(number - 1, Relaxed);
    was_used
}

/// In a forked child: none of the parent's communicators is its own.
pub(crate) fn forget() {
    for context in CONTEXTS.iter().take(N_CONTEXTS.load(Relaxed)) {
        context.bound.store(0, Release);
        context.n_ranks.store(0, Release);
        context.is_used.store(false, Release);
    }
    N_CONTEXTS.store(0, Relaxed);
    FIRST_FREE.store(0, Relaxed);
}
