//! Which call each thread is in: an entry per thread in the segment, taken at the thread's first call and kept.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::calls::layout::{MAX_THREADS, Thread, call_word};

use crate::segment::local::{Inside, Local};
use crate::segment::map::segment;
use crate::segment::{room, switch, table, thread_id, ticks};

/// The entry of this thread, if it has one.
#[inline(always)]
pub(crate) fn entry(segment: &'static Segment, local: &Local) -> Option<&'static Thread> {
    local.thread.get().or_else(|| find(segment, local))
}

/// The thread enters a call at these ticks.
#[inline(always)]
pub(crate) fn enter(thread: &Thread, function: u8, slot: usize, generation: u32, now: u64) {
    thread.call.store(call_word(function, Some((slot, generation))), Relaxed);
    thread.entered_ticks.store(now, Release);
}

/// Marks the thread as inside a function of the library that may block, on behalf of the communicator in a slot. When
/// it returns the clock is read.
pub(crate) fn enter_slow(local: &Local, function: u8, slot: Option<usize>) -> Inside<'_> {
    let thread = segment().filter(|segment| switch::is_on(segment)).and_then(|segment| {
        let thread = entry(segment, local)?;
        let subject = slot.map(|slot| (slot, table::at(segment, slot).generation.load(Relaxed)));
        thread.call.store(call_word(function, subject), Relaxed);
        thread.entered_ticks.store(ticks::now(), Release);
        Some(thread)
    });
    local.enter_slow(thread)
}

/// Once per thread: with system calls.
#[cold]
fn find(segment: &'static Segment, local: &Local) -> Option<&'static Thread> {
    if local.has_looked_for_thread.replace(true) {
        return None;
    }
    let own = thread_id::own();
    // A thread that has ended and whose id is ours now needs its entry no more.
    let thread = used(segment)
        .find(|thread| thread.thread.load(Acquire) == own)
        .or_else(|| take_fresh(segment, own))
        .or_else(|| used(segment).find(|thread| take_over(thread, own)))?;
    thread.call.store(0, Relaxed);
    thread.returned_ticks.store(thread.entered_ticks.load(Relaxed), Release);
    local.thread.set(Some(thread));
    Some(thread)
}

/// The entries that some thread has had. Where the file system had no page for one, there is none.
pub(crate) fn used(segment: &Segment) -> impl Iterator<Item = &Thread> {
    let used = (segment.live.n_threads.load(Acquire) as usize).min(MAX_THREADS);
    segment.calls.threads[..used].iter().filter(|thread| room::is_given(segment, *thread))
}

fn take_fresh(segment: &'static Segment, own: u32) -> Option<&'static Thread> {
    let taken = segment
        .live
        .n_threads
        .fetch_update(AcqRel, Relaxed, |used| ((used as usize) < MAX_THREADS).then(|| used + 1));
    let thread =
        segment.calls.threads.get(taken.ok()? as usize).filter(|thread| room::ensure(segment, *thread))?;
    thread.thread.store(own, Release);
    Some(thread)
}

/// Takes the entry of a thread that has ended.
fn take_over(thread: &Thread, own: u32) -> bool {
    let other = thread.thread.load(Acquire);
    other != 0
        && !thread_id::is_alive(other)
        && thread.thread.compare_exchange(other, own, AcqRel, Relaxed).is_ok()
}
