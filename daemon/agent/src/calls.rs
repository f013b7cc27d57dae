//! What a process has asked the library for, in which order, and which of its calls have not returned.

use std::collections::{BTreeMap, BTreeSet};

use ringscope_wire::batch::{self, CallSequence, OpenCall, PairCalls, SequenceMark};
use ringscope_wire::segment::Snapshot;
use ringscope_wire::segment::calls::read::{Sequence, Thread, marks, pairs};
use ringscope_wire::segment::clock::Clock;
use ringscope_wire::segment::layout::{MADE_BY_SUMMATION, MADE_BY_UNSEEN};
use ringscope_wire::segment::read::{Communicator, Source};

/// Calls that have not returned: the oldest, as many as the format promises.
const MAX_OPEN_CALLS: usize = 64;
/// Marks of one communicator in one batch: the newest, as many as the format promises.
const MAX_MARKS: usize = 16;
/// A call that has not returned for so long is told; most return within microseconds, and to name those that a reading
/// happens to meet would only make noise.
const OPEN_AFTER_NS: u64 = 10_000_000;

/// What has been read of a process's calls.
#[derive(Debug, Default)]
pub(super) struct Calls {
    sequences: BTreeMap<u64, Known>,
    /// Calls that had not returned at the last reading, by thread and ticks of entering, and when they were entered.
    open: BTreeMap<(u32, u64), OpenCall>,
    /// When a call returned last: its ticks, and what was said of them.
    last_returned: Option<(u64, u64)>,
    /// The same of when the collector was switched off.
    off_since: Option<(u64, u64)>,
    pairs: Vec<PairCalls>,
}

#[derive(Debug, Default)]
struct Known {
    sequence: Sequence,
    /// Marks that have not been handed out.
    new_marks: Vec<SequenceMark>,
}

impl Calls {
    /// Reads what threads are in, and the order of calls. `now_ticks` is the reader's own clock.
    pub(super) fn update<S: Source>(
        &mut self,
        source: &mut S,
        snapshot: &Snapshot,
        clock: Clock,
        now_ticks: u64,
    ) -> Result<(), S::Error> {
        self.read_threads(&snapshot.threads, clock, now_ticks);
        self.off_since = snapshot.off_since_ticks.map(|ticks| said_once(self.off_since, ticks, clock));
        let numbered =
            snapshot.communicators.iter().filter(|slot| is_numbered(slot)).map(Communicator::local_id);
        let numbered: BTreeSet<u64> = numbered.collect();
        self.sequences.retain(|local_id, _| numbered.contains(local_id));
        for slot in snapshot.communicators.iter().filter(|slot| is_numbered(slot)) {
            // While it is being written, the last reading holds.
            let Some(sequence) = slot.sequence else { continue };
            let known = self.sequences.entry(slot.local_id()).or_default();
            let mut told = known.sequence.n_marks;
            if sequence.n_marks > told {
                let found;
                (found, told) = marks(source, slot.slot, told)?;
                let new = found.iter().map(|mark| SequenceMark { calls: mark.calls, hash: mark.hash });
                known.new_marks.extend(new);
                keep_newest(&mut known.new_marks);
            }
            known.sequence = Sequence { n_marks: told, ..sequence };
        }
        Ok(())
    }

    /// Reads the calls by peer of these communicators; of all others nothing is told.
    pub(super) fn read_pairs<S: Source>(
        &mut self,
        source: &mut S,
        communicators: &[Communicator],
        wanted: &BTreeSet<u64>,
    ) -> Result<(), S::Error> {
        self.pairs.clear();
        if wanted.is_empty() {
            return Ok(());
        }
        let slots: BTreeMap<(u16, u32), u64> = (communicators.iter())
            .map(|slot| ((slot.slot, slot.generation & 0x7fff), slot.local_id()))
            .filter(|(_, local_id)| wanted.contains(local_id))
            .collect();
        let told = pairs(source)?.into_iter().filter_map(|pair| {
            Some(PairCalls {
                local_id: *slots.get(&(pair.communicator, pair.generation))?,
                primitive: batch::Primitive::from(pair.primitive).into(),
                peer: pair.peer,
                calls: pair.calls,
                bytes: pair.bytes,
                hash: pair.hash,
            })
        });
        self.pairs.extend(told);
        self.pairs.sort_unstable_by_key(|pair| (pair.local_id, pair.primitive, pair.peer));
        Ok(())
    }

    /// What was told is to be told again: the marks too.
    pub(super) fn forget_told(&mut self) {
        self.sequences.values_mut().for_each(|known| known.sequence.n_marks = 0);
    }

    /// The order of calls on each communicator, with the marks that are new since they were handed out, and those of
    /// `before` that have not been sent. `sampled_log2`: which of its operations are told one by one.
    pub(super) fn sequences(
        &mut self,
        before: &[CallSequence],
        sampled_log2: impl Fn(u64) -> u32,
    ) -> Vec<CallSequence> {
        let told = self.sequences.iter_mut().map(|(local_id, known)| {
            let unsent = before.iter().find(|one| one.local_id == *local_id);
            let mut marks = unsent.map(|one| one.marks.clone()).unwrap_or_default();
            let newest = marks.last().map_or(0, |mark| mark.calls);
            marks.extend(known.new_marks.drain(..).filter(|mark| mark.calls > newest));
            keep_newest(&mut marks);
            CallSequence {
                local_id: *local_id,
                calls: known.sequence.calls,
                hash: known.sequence.hash,
                marks,
                sampled_log2: sampled_log2(*local_id),
            }
        });
        told.collect()
    }

    /// Calls that have not returned, oldest first.
    pub(super) fn open_calls(&self) -> Vec<OpenCall> {
        let mut open: Vec<OpenCall> = self.open.values().cloned().collect();
        open.sort_by_key(|call| call.entered_at_ns);
        open.truncate(MAX_OPEN_CALLS);
        open
    }

    pub(super) fn pairs(&self) -> Vec<PairCalls> {
        self.pairs.clone()
    }

    pub(super) fn last_returned_at_ns(&self) -> Option<u64> {
        self.last_returned.map(|(_, at_ns)| at_ns)
    }

    pub(super) fn off_since_ns(&self) -> Option<u64> {
        self.off_since.map(|(_, at_ns)| at_ns)
    }

    fn read_threads(&mut self, threads: &[Thread], clock: Clock, now_ticks: u64) {
        let mut before = std::mem::take(&mut self.open);
        let mut last_returned = self.last_returned.map(|(ticks, _)| ticks);
        for thread in threads.iter().filter(|thread| thread.entered_ticks > 0) {
            let key = (thread.thread, thread.entered_ticks);
            let known = before.remove(&key);
            if let Some(returned) = thread.returned_ticks {
                // Of an operation only the entering has a time. One that was seen inside has returned since then.
                let returned =
                    if known.is_some() && returned == thread.entered_ticks { now_ticks } else { returned };
                last_returned = last_returned.max(Some(returned));
            } else if clock.duration_ns(now_ticks.saturating_sub(thread.entered_ticks)) >= OPEN_AFTER_NS {
                self.open.insert(key, known.unwrap_or_else(|| open_call(thread, clock)));
            }
        }
        self.last_returned = last_returned.map(|ticks| said_once(self.last_returned, ticks, clock));
    }
}

fn open_call(thread: &Thread, clock: Clock) -> OpenCall {
    OpenCall {
        thread: thread.thread,
        function: thread.function.to_owned(),
        local_id: thread.communicator.map(|(slot, generation)| u64::from(generation) << 16 | u64::from(slot)),
        entered_at_ns: clock.wall_ns(thread.entered_ticks),
    }
}

/// Ticks, and their time as it was said the first time: the clock's rate gets better with every reading.
fn said_once(before: Option<(u64, u64)>, ticks: u64, clock: Clock) -> (u64, u64) {
    before.filter(|(known, _)| *known == ticks).unwrap_or_else(|| (ticks, clock.wall_ns(ticks)))
}

fn keep_newest(marks: &mut Vec<SequenceMark>) {
    marks.drain(..marks.len().saturating_sub(MAX_MARKS));
}

/// Whether the collector numbers calls on it: not where it only hears of them from the profiler.
fn is_numbered(slot: &Communicator) -> bool {
    !matches!(slot.made_by, MADE_BY_UNSEEN | MADE_BY_SUMMATION)
}

#[cfg(test)]
mod tests;
