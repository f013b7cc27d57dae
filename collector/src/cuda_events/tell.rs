//! What the events of [`times`] said becomes the times of records. On the polling thread alone. The driver is asked for the time between
//! two events, which it tells or refuses at once.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{OPERATION_ISSUED, Record, STARTED_SHIFT};

use crate::cuda_events::device_clock::DeviceClock;
use crate::cuda_events::driver::Elapsed;
use crate::cuda_events::times::{Span, Times};
use crate::cuda_events::{driver, poller, stream_events, times};
use crate::segment::{records, ticks};

/// After so long another event becomes the anchor: the driver tells times as `float`, which at a second has 0.06 us.
const LONGEST_ANCHOR_NS: f64 = 1e9;
/// Of a stream, at the exit, which waits for it.
const MOST_AT_EXIT: usize = 8;

/// Tells what is known of a stream by now, and of how many operations or groups. Before its calls are counted as completed, so that
/// those have their times.
pub(super) fn all(segment: &Segment, index: usize) -> usize {
    if !times::is_used() {
        return 0;
    }
    let times = times::at(index);
    let mut n_told = 0;
    let at_most = if poller::is_leaving() { MOST_AT_EXIT } else { usize::MAX };
    while n_told < at_most
        && let Some(position) = times.oldest()
    {
        let span = times.span(position);
        if !span.is_free() {
            let Some(state) = span.recorded() else { break };
            match one(segment, index, times, (position, span, state)) {
                Some(true) => n_told += 1,
                Some(false) => break,
                None => {
                    times::fail(segment);
                    times::give_up(index);
                }
            }
        }
        times.not_yet_ticks.store(0, Relaxed);
        times.tail.store(position.wrapping_add(1), Release);
    }
    if n_told > 0 {
        times::tell_error(segment, worst_error());
    }
    n_told
}

/// Whether the span is over, and was told; `None` if the driver will never say.
fn one(segment: &Segment, index: usize, times: &Times, oldest: (u32, &Span, u64)) -> Option<bool> {
    let (_, span, _) = oldest;
    let asked_ticks = ticks::now();
    match elapsed(index, times, &span.before, &span.after) {
        Elapsed::Never => None,
        Elapsed::NotYet => {
            times.not_yet_ticks.store(asked_ticks, Relaxed);
            begun(segment, index, times, oldest)
        }
        Elapsed::Ns(lasted_ns) => over(segment, index, times, (span, oldest.2), lasted_ns),
    }
}

/// It is not over. Tells its start, once, if it has begun.
fn begun(segment: &Segment, index: usize, times: &Times, oldest: (u32, &Span, u64)) -> Option<bool> {
    let (position, span, state) = oldest;
    let after = position.wrapping_add(1);
    if times.begun.load(Relaxed) == after {
        return Some(false);
    }
    // Without an anchor: whether the device has got there at all.
    let clock = times.clock();
    let from = if clock.is_some() { &times.anchor } else { &span.before };
    match elapsed(index, times, from, &span.before) {
        Elapsed::Never => return None,
        Elapsed::NotYet => return Some(false),
        Elapsed::Ns(since_ns) => {
            let now = now();
            let start = clock.map_or(now, |mut clock| {
                let since = of_ns(segment, since_ns);
                clock.narrow(since, signed(span.launched_ticks.load(Relaxed)), now);
                times.set_clock(clock);
                clock.at(since)
            });
            if span.recorded() == Some(state) {
                times.begun.store(after, Relaxed);
                span.records(segment, index, |record| note_start(record, start));
            }
        }
    }
    Some(false)
}

/// It is over, and lasted so long.
fn over(segment: &Segment, index: usize, times: &Times, span: (&Span, u64), lasted_ns: f64) -> Option<bool> {
    let (span, state) = span;
    let known = times.clock();
    let since_ns = match known {
        None => 0.0,
        Some(_) => match elapsed(index, times, &times.anchor, &span.after) {
            Elapsed::Ns(since_ns) => since_ns,
            Elapsed::NotYet => return Some(false),
            Elapsed::Never => return None,
        },
    };
    let latest = now();
    let (since, lasted) = (of_ns(segment, since_ns), of_ns(segment, lasted_ns));
    let earliest = signed(span.left_ticks.load(Relaxed)).max(signed(times.not_yet_ticks.load(Relaxed)));
    let mut clock = known.unwrap_or(DeviceClock { earliest, latest });
    clock.narrow(since, earliest, latest);
    clock.narrow(since - lasted, signed(span.launched_ticks.load(Relaxed)), latest);
    if !span.take(state) {
        return Some(false);
    }
    let (start, end) = (clock.at(since - lasted), clock.at(since));
    span.records(segment, index, |record| {
        note_start(record, start);
        note_end(record, end);
    });
    if known.is_none() || since_ns > LONGEST_ANCHOR_NS {
        let before = times.anchor.swap(span.after.load(Relaxed), Relaxed);
        span.after.store(before, Relaxed);
        clock.move_on(since, earliest, latest);
    }
    times.set_clock(clock);
    span.leave();
    Some(true)
}

/// Unless the context is gone, and the events with it, or the process is ending.
fn elapsed(index: usize, times: &Times, from: &AtomicU64, to: &AtomicU64) -> Elapsed {
    let context = stream_events::at(index).context.load(Relaxed);
    let id = times.context_id.load(Acquire);
    let ask = || {
        let is_there = driver::context_id(context) == Some(id);
        if is_there {
            driver::elapsed(from.load(Relaxed), to.load(Relaxed), context)
        } else {
            Elapsed::NotYet
        }
    };
    poller::unless_ending(ask).unwrap_or(Elapsed::NotYet)
}

/// By how much times may lie beside the truth, in ticks: the worst of all streams that have some.
fn worst_error() -> u64 {
    let clocks = stream_events::used().filter_map(|index| times::at(index).clock());
    clocks.map(|clock| clock.error().cast_unsigned().max(1)).max().unwrap_or_default()
}

fn note_start(record: &Record, start: i64) {
    if record.started.load(Relaxed) == 0 {
        let since = unsigned(start).saturating_sub(record.issued_ticks.load(Relaxed)) >> STARTED_SHIFT;
        record.started.store(u32::try_from(since).unwrap_or(u32::MAX).max(1), Relaxed);
    }
}

fn note_end(record: &Record, end: i64) {
    if records::kind(record.state.load(Acquire)) == OPERATION_ISSUED {
        let started = u64::from(record.started.load(Relaxed)) << STARTED_SHIFT;
        let earliest = record.issued_ticks.load(Relaxed).saturating_add(started);
        record.completed_ticks.store(unsigned(end).max(earliest), Relaxed);
    }
}

fn of_ns(segment: &Segment, ns: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "a cast of a float goes no further than the type")]
    let ns = ns as i64;
    let ticks = signed(ticks::of_duration(&segment.fixed, ns.unsigned_abs()));
    if ns < 0 { -ticks } else { ticks }
}

fn now() -> i64 {
    signed(ticks::now())
}

fn signed(ticks: u64) -> i64 {
    i64::try_from(ticks).unwrap_or(i64::MAX)
}

fn unsigned(ticks: i64) -> u64 {
    u64::try_from(ticks).unwrap_or_default()
}
