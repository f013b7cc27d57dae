//! CUDA graphs: a captured call is a template that runs when its graph does. The profiler shows each run as a task
//! below the API event of the capture, which is over long since, so templates have a table of their own.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use ringscope_wire::segment::layout::{DropReason, LOST_RUN, MAX_PRIMITIVES, Segment};

use crate::cuda_events::fit;
use crate::profiler::lost;
use crate::segment::handle::{Entry, Handle, NO_CHANNEL};
use crate::segment::{communicators, switch, ticks};

/// Captured calls kept: an inference server captures some hundred graphs of a hundred calls. With more, the runs of
/// the oldest are no longer counted ([`DropReason::UnmatchedEvent`]).
const MAX_TEMPLATES: usize = 16_384;
/// Runs followed at once, channel by channel. A run pushed out before its end is counted as never stopped.
const MAX_RUNS: usize = 1024;

struct Template {
    /// Use of this entry, from 1.
    generation: AtomicU32,
    subject: AtomicU32,
    /// Generation of the communicator slot.
    communicator: AtomicU32,
    bytes: AtomicU64,
}

static TEMPLATES: [Template; MAX_TEMPLATES] = [const {
    Template {
        generation: AtomicU32::new(0),
        subject: AtomicU32::new(0),
        communicator: AtomicU32::new(0),
        bytes: AtomicU64::new(0),
    }
}; MAX_TEMPLATES];
static NEXT_TEMPLATE: AtomicUsize = AtomicUsize::new(0);

/// In `subject`: the library reports the channels of each run.
const HAS_CHANNELS: u32 = 1 << 31;

struct Run {
    /// `generation << 32 | finished << 16 | expected`; 0 in the low half: over.
    state: AtomicU64,
    subject: AtomicU32,
    communicator: AtomicU32,
    bytes: AtomicU64,
    started_ticks: AtomicU64,
}

static RUNS: [Run; MAX_RUNS] = [const {
    Run {
        state: AtomicU64::new(0),
        subject: AtomicU32::new(0),
        communicator: AtomicU32::new(0),
        bytes: AtomicU64::new(0),
        started_ticks: AtomicU64::new(0),
    }
}; MAX_RUNS];
static NEXT_RUN: AtomicUsize = AtomicUsize::new(0);

/// A call on the slot's communicator was captured.
pub(crate) fn template(segment: &Segment, slot: usize, primitive: usize, bytes: u64) -> Handle {
    let index = NEXT_TEMPLATE.fetch_add(1, Relaxed) % MAX_TEMPLATES;
    let template = &TEMPLATES[index];
    let generation = template.generation.fetch_add(1, AcqRel).wrapping_add(1);
    let has_channels = if fit::profiler_tells() { HAS_CHANNELS } else { 0 };
    template.subject.store(subject(slot, primitive) | has_channels, Relaxed);
    template.communicator.store(communicators::at(segment, slot).generation.load(Relaxed), Relaxed);
    template.bytes.store(bytes, Release);
    Handle::Template(Entry { index, generation })
}

/// A graph with this template runs: its call counts as issued. It is completed when `n_channels` have finished. If the library
/// does not report them it counts at once, and the communicator is said to have runs of which nobody tells the end. `None` if another template has its place, or another communicator its slot.
pub(crate) fn run(segment: &Segment, entry: Entry, n_channels: u8) -> Option<Handle> {
    let template = TEMPLATES.get(entry.index)?;
    let (subject, communicator) = (template.subject.load(Acquire), template.communicator.load(Acquire));
    let bytes = template.bytes.load(Acquire);
    if template.generation.load(Acquire) != entry.generation {
        return None;
    }
    let n_channels = if subject & HAS_CHANNELS == 0 { 0 } else { n_channels.max(1) };
    begin(segment, subject & !HAS_CHANNELS, communicator, bytes, n_channels)
}

/// The same where no event of the capture is known: a library that speaks version 4 or less.
pub(crate) fn run_of(
    segment: &Segment,
    slot: usize,
    primitive: usize,
    bytes: u64,
    n_channels: u8,
) -> Option<Handle> {
    let communicator = communicators::at(segment, slot).generation.load(Relaxed);
    let n_channels = if fit::profiler_tells() { n_channels } else { 0 };
    begin(segment, subject(slot, primitive), communicator, bytes, n_channels)
}

fn begin(segment: &Segment, subject: u32, communicator: u32, bytes: u64, n_channels: u8) -> Option<Handle> {
    let (slot, primitive) = split(subject);
    let target = communicators::at(segment, slot);
    if target.generation.load(Relaxed) != communicator {
        return None;
    }
    let counters = &target.counters[primitive];
    counters.issued_calls.fetch_add(1, Relaxed);
    counters.issued_bytes.fetch_add(bytes, Relaxed);
    counters.replayed_calls.fetch_add(1, Relaxed);
    counters.replayed_bytes.fetch_add(bytes, Relaxed);
    if n_channels == 0 {
        communicators::lose(segment, slot, LOST_RUN);
        counters.completed_calls.fetch_add(1, Relaxed);
        counters.completed_bytes.fetch_add(bytes, Relaxed);
    }
    let number = NEXT_RUN.fetch_add(1, Relaxed);
    let (index, run) = (number % MAX_RUNS, &RUNS[number % MAX_RUNS]);
    let generation = u32::try_from((number / MAX_RUNS) & 0xffff_ffff).unwrap_or_default();
    push_out(segment, run);
    run.subject.store(subject, Relaxed);
    run.communicator.store(communicator, Relaxed);
    run.bytes.store(bytes, Relaxed);
    run.started_ticks.store(ticks::now(), Relaxed);
    run.state.store(u64::from(generation) << 32 | u64::from(n_channels), Release);
    Some(Handle::Run(Entry { index, generation }))
}

/// A newer run takes the place of this one. If that is not over, it will stay in flight.
fn push_out(segment: &Segment, run: &Run) {
    let state = run.state.swap(0, AcqRel);
    if state & 0xffff_ffff != 0 {
        switch::dropped(segment, DropReason::EventOutOfOrder, 1);
        let (slot, _) = split(run.subject.load(Relaxed));
        if communicators::at(segment, slot).generation.load(Relaxed) == run.communicator.load(Relaxed) {
            lost::of_slot(segment, slot);
        }
    }
}

/// One channel of a run begins.
pub(crate) fn channel_begun(entry: Entry, channel: u8) -> Handle {
    Handle::RunChannel(entry, if channel < 64 { channel } else { NO_CHANNEL })
}

/// One channel of a run has finished.
pub(crate) fn channel_done(segment: &Segment, entry: Entry) {
    let Some(run) = RUNS.get(entry.index) else { return };
    let state = run.state.load(Acquire);
    if state >> 32 != u64::from(entry.generation) || state & 0xffff_ffff == 0 {
        return switch::dropped(segment, DropReason::EventOutOfOrder, 1);
    }
    let state = run.state.fetch_add(1 << 16, AcqRel).wrapping_add(1 << 16);
    if state >> 16 & 0xffff != state & 0xffff {
        return;
    }
    let over = state & !0xffff_ffff;
    let (slot, primitive) = split(run.subject.load(Relaxed));
    let target = communicators::at(segment, slot);
    let is_ours = target.generation.load(Relaxed) == run.communicator.load(Relaxed);
    let (bytes, started) = (run.bytes.load(Relaxed), run.started_ticks.load(Relaxed));
    if run.state.compare_exchange(state, over, AcqRel, Relaxed).is_ok() && is_ours {
        let counters = &target.counters[primitive];
        counters.busy_ticks.fetch_add(ticks::now().saturating_sub(started), Relaxed);
        counters.completed_bytes.fetch_add(bytes, Relaxed);
        counters.completed_calls.fetch_add(1, Relaxed);
    }
}

/// Slot and primitive of a run, for its network bytes.
pub(crate) fn subject_of(entry: Entry) -> Option<(usize, usize)> {
    let run = RUNS.get(entry.index)?;
    (run.state.load(Acquire) >> 32 == u64::from(entry.generation)).then(|| split(run.subject.load(Relaxed)))
}

/// In a forked child: the parent's graphs run in the parent.
pub(crate) fn forget() {
    for template in &TEMPLATES {
        template.generation.fetch_add(1, Relaxed);
    }
    for run in &RUNS {
        run.state.store(0, Relaxed);
    }
}

fn subject(slot: usize, primitive: usize) -> u32 {
    u32::try_from(slot << 8 | primitive & (MAX_PRIMITIVES - 1)).unwrap_or_default()
}

fn split(subject: u32) -> (usize, usize) {
    ((subject >> 8) as usize, subject as usize & (MAX_PRIMITIVES - 1))
}
