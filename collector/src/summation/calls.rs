//! Calls of the service that have not ended: a table without locks, from tensor and turn to records.
//!
//! Rounds of a tensor end in the order in which they were called, so the engine's word that a round of a tensor is over
//! is about the oldest call. A round whose call is not in the table (it went past the wrappers, came before the group
//! began, or found no place) is recorded when it ends.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{DropReason, MAX_PRIMITIVES};
use ringscope_wire::{Datatype, Primitive};

use crate::calls::complete;
use crate::profiler::seen;
use crate::profiler::seen::Described;
use crate::segment::records::{record, subject};
use crate::segment::{communicators, records, segment, switch, ticks};
use crate::summation::group;

/// Tensors whose calls are told apart: more than a model has.
const MAX_TENSORS: usize = 65_536;
/// Calls that can be open at once: as many as the engine takes. A power of two.
const MAX_OPEN: usize = 16_384;
/// Places tried for a call.
const MAX_PROBES: usize = 64;
/// [`Entry::push`]: the call was refused.
const REFUSED: u64 = u64::MAX;

/// What a tensor is: `elements << 8 | datatype`.
static SIZES: [AtomicU64; MAX_TENSORS] = [const { AtomicU64::new(0) }; MAX_TENSORS];
/// By tensor: turns that were given, and turns that have ended.
static GIVEN: [AtomicU32; MAX_TENSORS] = [const { AtomicU32::new(0) }; MAX_TENSORS];
static ENDED: [AtomicU32; MAX_TENSORS] = [const { AtomicU32::new(0) }; MAX_TENSORS];
/// Groups so far, so that a call of one group is not taken for one of the next.
static N_GROUPS: AtomicU32 = AtomicU32::new(0);

static OPEN: [Entry; MAX_OPEN] = [const {
    Entry {
        key: AtomicU64::new(0),
        primitive: AtomicU8::new(0),
        push: AtomicU64::new(0),
        pull: AtomicU64::new(0),
    }
}; MAX_OPEN];
/// By handle of a push: handle plus one, and the key of its call.
static PUSHES: [[AtomicU64; 2]; MAX_OPEN] = [const { [const { AtomicU64::new(0) }; 2] }; MAX_OPEN];

struct Entry {
    /// 0 while free.
    key: AtomicU64,
    /// What was called.
    primitive: AtomicU8,
    /// Ticket plus one of the call's record; 0 if it has none.
    push: AtomicU64,
    /// The same of the call that asked for the sum, where that is another one.
    pull: AtomicU64,
}

/// A call that is being forwarded.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    /// 0 if it is not followed.
    key: u64,
    /// Ticket plus one; 0 without a record.
    ticket: u64,
}

/// A tensor was declared.
pub(crate) fn declared(tensor: i32, count: u64, datatype: i32) {
    let datatype = u8::try_from(datatype).unwrap_or(u8::MAX);
    let size = usize::try_from(tensor).ok().and_then(|tensor| SIZES.get(tensor));
    size.inspect(|size| size.store(count << 8 | u64::from(datatype), Relaxed));
}

/// A push, or a push and pull in one, is about to be forwarded.
pub(crate) fn begin(primitive: Primitive, tensor: i32) -> Option<Call> {
    let tensor = usize::try_from(tensor).ok().filter(|tensor| *tensor < MAX_TENSORS)?;
    let turn = GIVEN[tensor].fetch_add(1, AcqRel);
    let key = key(tensor, turn);
    let entry = take(key)?;
    entry.primitive.store(primitive as u8, Relaxed);
    let ticket = start(primitive, tensor);
    entry.push.store(ticket, Release);
    Some(Call { key, ticket })
}

/// It was taken, or refused.
pub(crate) fn finish(call: &Call, is_taken: bool) {
    let Some(segment) = segment() else { return };
    if call.ticket > 0 {
        settle(segment, call.ticket - 1, is_taken);
    }
    if !is_taken && let Some(entry) = find(call.key) {
        entry.push.store(REFUSED, Release);
    }
}

/// The same of a call that asks for a sum.
pub(crate) fn finish_pull(call: &Call, is_taken: bool) {
    let Some(ticket) = call.ticket.checked_sub(1) else { return };
    if let Some(segment) = segment() {
        settle(segment, ticket, is_taken);
    }
}

/// The push with this handle was taken.
pub(crate) fn pushed(call: &Call, handle: i32) {
    if let Ok(handle) = u64::try_from(handle) {
        let [known, key] = &PUSHES[place(handle)];
        key.store(call.key, Relaxed);
        known.store(handle + 1, Release);
    }
}

/// The sum of a push is about to be asked for.
pub(crate) fn begin_pull(push: i32) -> Option<Call> {
    let handle = u64::try_from(push).ok()?;
    let [known, key] = &PUSHES[place(handle)];
    let key = Some(key.load(Relaxed)).filter(|_| known.load(Acquire) == handle + 1)?;
    let entry = find(key)?;
    let ticket = start(Primitive::Pull, tensor_of(key));
    entry.pull.store(ticket, Release);
    Some(Call { key, ticket })
}

/// A round of a tensor is over, which began so many ticks ago.
pub(crate) fn ended(segment: &Segment, tensor: u32, bytes: u64, took_ticks: u64, is_good: bool) {
    let known = usize::try_from(tensor).ok().filter(|tensor| *tensor < MAX_TENSORS).and_then(next_ended);
    let unseen = |primitive| end_unseen(segment, primitive, (tensor, bytes, took_ticks), is_good);
    let Some(entry) = known else { return unseen(Primitive::PushPull) };
    let (push, pull) = (entry.push.load(Acquire), entry.pull.load(Acquire));
    let primitive = Primitive::from_index(entry.primitive.load(Relaxed));
    free(entry);
    if push == 0 {
        unseen(primitive.unwrap_or(Primitive::PushPull));
    }
    for ticket in [push, pull].into_iter().filter_map(|ticket| ticket.checked_sub(1)) {
        close(segment, ticket, is_good);
    }
}

/// The group has ended: what is open has failed, and turns begin anew.
pub(crate) fn fail_all(segment: &Segment) {
    N_GROUPS.fetch_add(1, AcqRel);
    for entry in OPEN.iter().filter(|entry| entry.key.load(Acquire) != 0) {
        let (push, pull) = (entry.push.load(Acquire), entry.pull.load(Acquire));
        free(entry);
        let tickets = [push, pull].into_iter().filter(|ticket| *ticket != REFUSED);
        tickets.filter_map(|ticket| ticket.checked_sub(1)).for_each(|ticket| close(segment, ticket, false));
    }
    for turn in GIVEN.iter().chain(&ENDED).filter(|turn| turn.load(Relaxed) != 0) {
        turn.store(0, Release);
    }
}

/// The oldest call of a tensor that was not refused, if its round is in the table.
fn next_ended(tensor: usize) -> Option<&'static Entry> {
    while ENDED[tensor].load(Acquire) != GIVEN[tensor].load(Acquire) {
        let turn = ENDED[tensor].fetch_add(1, AcqRel);
        let entry = find(key(tensor, turn))?;
        if entry.push.load(Acquire) != REFUSED {
            return Some(entry);
        }
        free(entry);
    }
    None
}

/// A record for a call, as issued now; its ticket plus one, or 0 while there is no group or nothing is to be recorded.
fn start(primitive: Primitive, tensor: usize) -> u64 {
    let slot = group::carrier();
    let Some((segment, slot)) = segment().filter(|segment| switch::is_on(segment)).zip(slot) else {
        return 0;
    };
    let size = SIZES[tensor % MAX_TENSORS].load(Relaxed);
    let datatype = Datatype((size & 0xff) as u8);
    let seen = Described { slot, primitive, count: size >> 8, datatype, peer: -1 };
    seen::write(segment, &seen, ticks::now()) + 1
}

/// Counts a recorded call as issued, or as failed.
fn settle(segment: &Segment, ticket: u64, is_taken: bool) {
    let record = record(segment, ticket);
    let (slot, primitive) = subject(record);
    let counters = &communicators::at(segment, slot).counters[primitive & (MAX_PRIMITIVES - 1)];
    if is_taken {
        counters.issued_calls.fetch_add(1, Relaxed);
        counters.issued_bytes.fetch_add(records::bytes(record), Relaxed);
    } else if record.ticket.load(Acquire) == ticket + 1 {
        records::refuse(record, counters);
    }
}

fn close(segment: &Segment, ticket: u64, is_good: bool) {
    let record = record(segment, ticket);
    if record.ticket.load(Acquire) != ticket + 1 {
        return switch::dropped(segment, DropReason::RecordOverwritten, 1);
    }
    if is_good {
        complete::close(segment, record);
    } else {
        let (slot, primitive) = subject(record);
        let counters = &communicators::at(segment, slot).counters[primitive & (MAX_PRIMITIVES - 1)];
        records::refuse(record, counters);
    }
}

/// A round whose call has no record: of a tensor, with its bytes and the ticks that it took.
fn end_unseen(
    segment: &Segment,
    primitive: Primitive,
    (tensor, bytes, took_ticks): (u32, u64, u64),
    is_good: bool,
) {
    let Some(slot) = group::carrier().filter(|_| switch::is_on(segment)) else { return };
    let size = SIZES.get(tensor as usize).map_or(0, |size| size.load(Relaxed));
    // Without a declaration that was seen, only the bytes are known: ncclInt8.
    let (count, datatype) = if size > 0 { (size >> 8, (size & 0xff) as u8) } else { (bytes, 0) };
    let seen = Described { slot, primitive, count, datatype: Datatype(datatype), peer: -1 };
    let ticket = seen::write(segment, &seen, ticks::now().saturating_sub(took_ticks));
    settle(segment, ticket, true);
    close(segment, ticket, is_good);
}

/// `1 << 63 | group (low 15 bits) << 48 | tensor << 32 | turn`.
fn key(tensor: usize, turn: u32) -> u64 {
    let group = u64::from(N_GROUPS.load(Relaxed) & 0x7fff);
    1 << 63 | group << 48 | (tensor as u64 & 0xffff) << 32 | u64::from(turn)
}

fn tensor_of(key: u64) -> usize {
    (key >> 32 & 0xffff) as usize
}

fn take(key: u64) -> Option<&'static Entry> {
    let entry = places(key).find(|entry| entry.key.compare_exchange(0, key, AcqRel, Relaxed).is_ok())?;
    Some(entry)
}

fn find(key: u64) -> Option<&'static Entry> {
    places(key).find(|entry| entry.key.load(Acquire) == key)
}

fn free(entry: &Entry) {
    entry.push.store(0, Relaxed);
    entry.pull.store(0, Relaxed);
    entry.key.store(0, Release);
}

fn places(key: u64) -> impl Iterator<Item = &'static Entry> {
    // Fibonacci hashing; the high bits are the mixed ones.
    let start = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (0..MAX_PROBES as u64).map(move |probe| &OPEN[place(start + probe)])
}

/// A place in a table of [`MAX_OPEN`].
fn place(number: u64) -> usize {
    usize::try_from(number % MAX_OPEN as u64).unwrap_or(0)
}

/// In a forked child: the calls are the parent's.
pub(crate) fn forget() {
    OPEN.iter().for_each(free);
    GIVEN.iter().chain(&ENDED).for_each(|turn| turn.store(0, Relaxed));
}
