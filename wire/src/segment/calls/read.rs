//! Reads threads, marks and pairs. Never trusts a number that the file gives.

use std::mem::offset_of;

use zerocopy::FromBytes;

use super::super::layout::{
    Communicator as CommunicatorLayout, Live, MAX_COMMUNICATORS, PAIRS_PER_REGION, Segment,
};
use super::super::read::{Source, read_one, used_regions};
use super::hash::check;
use super::layout::{Area, FUNCTIONS, MARKS, Mark as MarkLayout, Pair as PairLayout, Thread as ThreadLayout};
use crate::Primitive;

/// A thread that has called the library, and its last call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Thread id as the process sees it.
    pub thread: u32,
    /// Function; empty if this build does not know it.
    pub function: &'static str,
    /// Slot of the communicator and its generation, if the call has one that is known.
    pub communicator: Option<(u16, u32)>,
    /// Ticks at which it was entered.
    pub entered_ticks: u64,
    /// Ticks at which it returned, or before which it did not; `None` while it has not.
    pub returned_ticks: Option<u64>,
}

/// Collective calls of a communicator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// Calls so far.
    pub calls: u64,
    /// Hash over their signatures.
    pub hash: u64,
    /// Marks so far.
    pub n_marks: u64,
}

/// The hash after so many calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Collective calls.
    pub calls: u64,
    /// Hash over them.
    pub hash: u64,
}

/// Calls to send to, or receive from, one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Slot of the communicator.
    pub communicator: u16,
    /// Low 15 bits of the slot's generation.
    pub generation: u32,
    /// Send or recv.
    pub primitive: Primitive,
    /// Rank in the communicator.
    pub peer: u32,
    /// Calls so far.
    pub calls: u64,
    /// Their payload bytes.
    pub bytes: u64,
    /// Hash over count and datatype of each.
    pub hash: u64,
}

impl Sequence {
    /// `None` while it is being written.
    pub(crate) fn of(calls: u64, hash: u64, checked: u64, n_marks: u64) -> Option<Self> {
        (check(calls, hash) == checked).then_some(Self { calls, hash, n_marks })
    }
}

/// The name of a function of this number; empty if this build does not know it.
#[must_use]
pub fn function(number: u32) -> &'static str {
    let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    index.and_then(|index| FUNCTIONS.get(index)).copied().unwrap_or_default()
}

pub(crate) fn threads<S: Source>(source: &mut S, n_threads: usize) -> Result<Vec<Thread>, S::Error> {
    if n_threads == 0 {
        return Ok(Vec::new());
    }
    let mut bytes = vec![0; n_threads * size_of::<ThreadLayout>()];
    source.read_at((offset_of!(Segment, calls) + offset_of!(Area, threads)) as u64, &mut bytes)?;
    let entries = bytes.chunks_exact(size_of::<ThreadLayout>());
    Ok(entries.filter_map(|entry| thread(ThreadLayout::read_from_bytes(entry).ok()?)).collect())
}

fn thread(raw: ThreadLayout) -> Option<Thread> {
    let thread = Some(raw.thread.into_inner()).filter(|thread| *thread != 0)?;
    let (call, entered_ticks) = (raw.call.into_inner(), raw.entered_ticks.into_inner());
    let returned_ticks = Some(raw.returned_ticks.into_inner()).filter(|returned| *returned >= entered_ticks);
    let slot = ((call >> 8 & 0xffff) as u16).checked_sub(1);
    Some(Thread {
        thread,
        function: function((call & 0xff) as u32),
        communicator: slot.map(|slot| (slot, (call >> 32) as u32)),
        entered_ticks,
        returned_ticks,
    })
}

/// The marks of a slot from number `from` on, as far as they are kept; with the number of the first one after them. Those
/// that may have been overwritten meanwhile are left out.
///
/// # Errors
/// The source's own.
pub fn marks<S: Source>(source: &mut S, slot: u16, from: u64) -> Result<(Vec<Mark>, u64), S::Error> {
    if usize::from(slot) >= MAX_COMMUNICATORS {
        return Ok((Vec::new(), from));
    }
    let counter = offset_of!(Segment, communicators)
        + usize::from(slot) * size_of::<CommunicatorLayout>()
        + offset_of!(CommunicatorLayout, n_marks);
    let before: u64 = read_one(source, counter)?;
    let at = offset_of!(Segment, calls)
        + offset_of!(Area, marks)
        + usize::from(slot) * MARKS * size_of::<MarkLayout>();
    let ring: [[u64; 2]; MARKS] = read_one(source, at)?;
    let after: u64 = read_one(source, counter)?;
    // While the counter stands at `after`, the mark of that number may be being written.
    let kept = after.saturating_sub(MARKS as u64 - 1);
    if after < before {
        return Ok((Vec::new(), from));
    }
    let first = from.max(kept).min(before).max(before.saturating_sub(MARKS as u64));
    let mark = |number: u64| {
        let [calls, hash] = ring[usize::try_from(number % MARKS as u64).unwrap_or_default()];
        Mark { calls, hash }
    };
    Ok(((first..before).map(mark).collect(), before))
}

/// Every pair that is not being written just now.
///
/// # Errors
/// The source's own.
pub fn pairs<S: Source>(source: &mut S) -> Result<Vec<Pair>, S::Error> {
    let regions: u64 = read_one(source, offset_of!(Segment, live) + offset_of!(Live, pair_regions))?;
    let table = offset_of!(Segment, calls) + offset_of!(Area, pairs);
    let bytes = used_regions(source, table, regions, size_of::<PairLayout>() * PAIRS_PER_REGION)?;
    Ok(bytes.chunks_exact(size_of::<PairLayout>()).filter_map(pair).collect())
}

fn pair(bytes: &[u8]) -> Option<Pair> {
    let raw = PairLayout::read_from_bytes(bytes).ok()?;
    let key = raw.key.into_inner();
    let (calls, hash) = (raw.calls.into_inner(), raw.hash.into_inner());
    if key >> 63 == 0 || check(calls, hash) != raw.check.into_inner() {
        return None;
    }
    Some(Pair {
        communicator: (key >> 36 & 0xfff) as u16,
        generation: (key >> 48 & 0x7fff) as u32,
        primitive: Primitive::from_index((key >> 32 & 0xf) as u8)?,
        peer: (key & 0xffff_ffff) as u32,
        calls,
        bytes: raw.bytes.into_inner(),
        hash,
    })
}
