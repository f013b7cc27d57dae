//! Records of the group's calls, for the watcher, which knows them by the ticket plus one.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{Counters, DropReason, MAX_PRIMITIVES, Record};
use ringscope_wire::{Datatype, Primitive};

use crate::calls::complete;
use crate::profiler::seen;
use crate::profiler::seen::Described;
use crate::segment::records::{record, subject};
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

/// Counts a recorded call as issued, or as failed.
fn count(segment: &Segment, ticket: u64, is_taken: bool) {
    let record = record(segment, ticket);
    let counters = counters(segment, record);
    if is_taken {
        counters.issued_calls.fetch_add(1, Relaxed);
        counters.issued_bytes.fetch_add(records::bytes(record), Relaxed);
    } else if record.ticket.load(Acquire) == ticket + 1 {
        records::refuse(segment, ticket, counters);
    }
}

fn end(segment: &Segment, ticket: u64, is_good: bool) {
    let record = record(segment, ticket);
    if record.ticket.load(Acquire) != ticket + 1 {
        return switch::dropped(segment, DropReason::RecordOverwritten, 1);
    }
    if is_good {
        complete::close(segment, ticket);
    } else {
        records::refuse(segment, ticket, counters(segment, record));
    }
}

fn counters<'a>(segment: &'a Segment, record: &Record) -> &'a Counters {
    let (slot, primitive) = subject(record);
    &communicators::at(segment, slot).counters[primitive & (MAX_PRIMITIVES - 1)]
}
