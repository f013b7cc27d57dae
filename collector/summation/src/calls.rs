//! Calls of the service that have not ended: a table without locks, from tensor and turn to records.
//!
//! Rounds of a tensor end in the order in which they were called, so the engine's word that a round of a tensor is over
//! is about the oldest call. A round whose call is not in the table (it went past the wrappers, came before the group
//! began, or found no place) is recorded when it ends.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use ringscope_wire::Primitive;
use ringscope_wire::watcher::{Call, Collector};

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
    /// The call's record; 0 if it has none.
    push: AtomicU64,
    /// The same of the call that asked for the sum, where that is another one.
    pull: AtomicU64,
}

/// A tensor was declared.
pub(crate) fn declared(tensor: i32, count: u64, datatype: i32) {
    let datatype = u8::try_from(datatype).unwrap_or(u8::MAX);
    let size = usize::try_from(tensor).ok().and_then(|tensor| SIZES.get(tensor));
    size.inspect(|size| size.store(count << 8 | u64::from(datatype), Relaxed));
}

/// A push, or a push and pull in one, is about to be forwarded.
pub(crate) fn contribute(collector: &Collector, primitive: u8, tensor: i32) -> Option<Call> {
    let tensor = usize::try_from(tensor).ok().filter(|tensor| *tensor < MAX_TENSORS)?;
    let turn = GIVEN[tensor].fetch_add(1, AcqRel);
    let key = key(tensor, turn);
    let entry = take(key)?;
    entry.primitive.store(primitive, Relaxed);
    let record = issue(collector, primitive, tensor);
    entry.push.store(record, Release);
    Some(Call { key, record, is_pull: false })
}

/// The sum of a push is about to be asked for.
pub(crate) fn ask(collector: &Collector, push: i32) -> Option<Call> {
    let handle = u64::try_from(push).ok()?;
    let [known, key] = &PUSHES[place(handle)];
    let key = Some(key.load(Relaxed)).filter(|_| known.load(Acquire) == handle + 1)?;
    let entry = find(key)?;
    let record = issue(collector, Primitive::Pull as u8, tensor_of(key));
    entry.pull.store(record, Release);
    Some(Call { key, record, is_pull: true })
}

/// The call was taken, or refused.
pub(crate) fn finish(collector: &Collector, call: &Call, is_taken: bool) {
    if call.record != 0 {
        (collector.settle)(call.record, is_taken);
    }
    if !is_taken
        && call.key != 0
        && !call.is_pull
        && let Some(entry) = find(call.key)
    {
        entry.push.store(REFUSED, Release);
    }
}

/// The push with this handle was taken.
pub(crate) fn pushed(call: &Call, handle: i32) {
    if call.key != 0
        && let Ok(handle) = u64::try_from(handle)
    {
        let [known, key] = &PUSHES[place(handle)];
        key.store(call.key, Relaxed);
        known.store(handle + 1, Release);
    }
}

/// A round of a tensor is over, which took so long.
pub(crate) fn ended(collector: &Collector, tensor: u32, bytes: u64, took_ns: u64, is_good: bool) {
    let known = usize::try_from(tensor).ok().filter(|tensor| *tensor < MAX_TENSORS).and_then(next_ended);
    let unseen = |primitive| add_unseen(collector, primitive, (tensor, bytes, took_ns), is_good);
    let Some(entry) = known else { return unseen(Primitive::PushPull as u8) };
    let (push, pull) = (entry.push.load(Acquire), entry.pull.load(Acquire));
    let primitive = entry.primitive.load(Relaxed);
    free(entry);
    if push == 0 {
        unseen(primitive);
    }
    for record in [push, pull].into_iter().filter(|record| *record != 0) {
        (collector.close)(record, is_good);
    }
}

/// The group has ended: what is open has failed, and turns begin anew.
pub(crate) fn fail_all(collector: &Collector) {
    end_all(|record| (collector.close)(record, false));
}

/// In another process than before: the calls are the parent's.
pub(crate) fn forget() {
    end_all(|_| ());
}

/// Reads all tables and writes only what is not empty: a child takes no page of its parent's that holds nothing.
fn end_all(close: impl Fn(u64)) {
    N_GROUPS.fetch_add(1, AcqRel);
    for entry in OPEN.iter().filter(|entry| entry.key.load(Acquire) != 0) {
        let records = [entry.push.load(Acquire), entry.pull.load(Acquire)];
        free(entry);
        records.into_iter().filter(|record| !matches!(*record, 0 | REFUSED)).for_each(&close);
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

/// A record for a call, as issued now; 0 if it gets none.
fn issue(collector: &Collector, primitive: u8, tensor: usize) -> u64 {
    let size = SIZES[tensor % MAX_TENSORS].load(Relaxed);
    (collector.issue)(primitive, size >> 8, datatype_of(size))
}

/// A round whose call has no record: of a tensor, with its bytes and how long it took.
fn add_unseen(
    collector: &Collector,
    primitive: u8,
    (tensor, bytes, took_ns): (u32, u64, u64),
    is_good: bool,
) {
    let size = SIZES.get(tensor as usize).map_or(0, |size| size.load(Relaxed));
    // Without a declaration that was seen, only the bytes are known: ncclInt8.
    let (count, datatype) = if size > 0 { (size >> 8, datatype_of(size)) } else { (bytes, 0) };
    (collector.add)(primitive, count, datatype, took_ns, is_good);
}

fn datatype_of(size: u64) -> u8 {
    (size & 0xff) as u8
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
