//! Records of the group's calls, for the watcher, which knows them by the ticket plus one.

use std::sync::atomic::Ordering::Relaxed;

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::Counters;
use ringscope_wire::{Datatype, Primitive};

use crate::calls::complete;
use crate::profiler::seen;
use crate::profiler::seen::Described;
use crate::segment::{communicators, guard, records, segment, switch, ticks};
use crate::summation::group;

/// [`ringscope_wire::watcher::Collector::issue`]
pub(super) extern "C" fn issue(primitive: u8, count: u64, datatype: u8) -> u64 {
    guard(|| {
        let segment = segment().filter(|segment| switch::is_on(segment))?;
        let described = describe(primitive, count, datatype)?;
        Some(seen::write(segment, &described, ticks::now()) + 1)
    })
    .flatten()
    .unwrap_or(0)
}

/// [`ringscope_wire::watcher::Collector::settle`]
pub(super) extern "C" fn settle(record: u64, is_taken: bool) {
    guard(|| segment().zip(record.checked_sub(1)).map(|(segment, ticket)| count(segment, ticket, is_taken)));
}

/// [`ringscope_wire::watcher::Collector::close`]
pub(super) extern "C" fn close(record: u64, is_good: bool) {
    guard(|| segment().zip(record.checked_sub(1)).map(|(segment, ticket)| end(segment, ticket, is_good)));
}

/// [`ringscope_wire::watcher::Collector::add`]
pub(super) extern "C" fn add(primitive: u8, n_elements: u64, datatype: u8, took_ns: u64, is_good: bool) {
    guard(|| {
        let segment = segment().filter(|segment| switch::is_on(segment))?;
        let described = describe(primitive, n_elements, datatype)?;
        let took_ticks = ticks::of_duration(&segment.fixed, took_ns);
        let ticket = seen::write(segment, &described, ticks::now().saturating_sub(took_ticks));
        count(segment, ticket, true);
        end(segment, ticket, is_good);
        Some(())
    });
}

/// A call of the group, if there is one.
fn describe(primitive: u8, count: u64, datatype: u8) -> Option<Described> {
    let (slot, primitive) = group::carrier().zip(Primitive::from_index(primitive))?;
    Some(Described { slot, primitive, count, datatype: Datatype(datatype), peer: -1 })
}

/// Counts a recorded call as issued, or as failed. One whose record has gone to another call is not counted: what it was
/// stood there, and that it is lost has been said by who took the place.
fn count(segment: &Segment, ticket: u64, is_taken: bool) {
    let Some((counters, bytes)) = counters(segment, ticket) else { return };
    if is_taken {
        counters.issued_calls.fetch_add(1, Relaxed);
        counters.issued_bytes.fetch_add(bytes, Relaxed);
    } else {
        records::refuse(segment, ticket, counters);
    }
}

fn end(segment: &Segment, ticket: u64, is_good: bool) {
    if is_good {
        complete::close(segment, ticket);
    } else if let Some((counters, _)) = counters(segment, ticket) {
        records::refuse(segment, ticket, counters);
    }
}

/// The counters of a recorded call, and its bytes.
fn counters(segment: &Segment, ticket: u64) -> Option<(&Counters, u64)> {
    let (slot, primitive, bytes) = records::call_of(segment, ticket)?;
    Some((&communicators::at(segment, slot).counters[primitive], bytes))
}
