//! What the threads of a process are in, and the order of its calls on each communicator.

use ringscope_api::clock::Timestamp;
use ringscope_wire::batch;

use super::limits::{MAX_MARKS, MAX_TOLD_MARKS};
use super::names::Name;
use super::word::Word;

/// A call into the library that has not returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// Thread id as the process sees it.
    pub thread: u32,
    /// Function, e.g. `ncclCommInitRank`.
    pub function: Name,
    /// The process's part of the communicator. Absent: the function has none, or it is not known.
    pub local_id: Option<u64>,
    /// When it was entered, by the clock of its host.
    pub entered: Timestamp,
}

/// The collective calls of one rank on one communicator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// Calls so far: the number that the next one gets.
    pub calls: u64,
    /// Hash over the signatures of all of them.
    pub hash: u64,
    /// The hash as it was earlier, oldest first; the newest of them.
    pub marks: Vec<Mark>,
    /// Operations are told one by one whose number is divisible by two to the power of this.
    pub sampled_log2: u32,
}

/// The hash after so many calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Calls.
    pub calls: u64,
    /// Hash.
    pub hash: u64,
}

/// Calls of send, or of recv, with one peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// Calls so far.
    pub calls: u64,
    /// Their payload bytes.
    pub bytes: u64,
    /// Hash over count and type of all of them in their order.
    pub hash: u64,
}

/// What the library said that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommError {
    /// `ncclResult_t`.
    pub code: u32,
    /// Function that said so. Empty: not known.
    pub function: Name,
    /// When, by the clock of its host. Absent: not known.
    pub at: Option<Timestamp>,
}

impl OpenCall {
    pub(super) fn told(told: &batch::OpenCall, word: &mut Word<'_>) -> Self {
        Self {
            thread: told.thread,
            function: word.names.intern(&told.function),
            local_id: told.local_id,
            entered: Timestamp(told.entered_at_ns),
        }
    }
}

impl Sequence {
    /// Takes what is newer. Calls never become fewer, so of two words the one with more calls is the newer one.
    /// Returns whether anything changed.
    pub(super) fn raise(&mut self, told: &batch::CallSequence, replaces: bool, word: &mut Word<'_>) -> bool {
        let mut changed = false;
        if told.calls > self.calls || (told.calls == self.calls && replaces) {
            changed = (self.calls, self.hash) != (told.calls, told.hash);
            (self.calls, self.hash) = (told.calls, told.hash);
            self.sampled_log2 = told.sampled_log2;
        }
        word.losses.add_many("sequence_mark_limit", told.marks.len().saturating_sub(MAX_TOLD_MARKS));
        for mark in told.marks.iter().rev().take(MAX_TOLD_MARKS).rev() {
            changed |= self.mark(Mark { calls: mark.calls, hash: mark.hash });
        }
        changed
    }

    fn mark(&mut self, mark: Mark) -> bool {
        let place = self.marks.partition_point(|known| known.calls < mark.calls);
        let is_known = self.marks.get(place).is_some_and(|known| known.calls == mark.calls);
        let is_full = self.marks.len() >= MAX_MARKS;
        if is_known || (is_full && place == 0) {
            return false;
        }
        self.marks.insert(place, mark);
        if is_full {
            self.marks.remove(0);
        }
        true
    }
}

impl Pair {
    /// As [`Sequence::raise`].
    pub(super) fn raise(&mut self, told: &batch::PairCalls, replaces: bool) -> bool {
        if told.calls < self.calls || (told.calls == self.calls && !replaces) {
            return false;
        }
        let newer = Self { calls: told.calls, bytes: told.bytes, hash: told.hash };
        let changed = *self != newer;
        *self = newer;
        changed
    }
}

impl CommError {
    pub(super) fn told(told: &batch::Communicator, word: &mut Word<'_>) -> Option<Self> {
        // Success and "in progress" are no errors.
        let code = told.error.filter(|code| !matches!(*code, SUCCESS | IN_PROGRESS))?;
        Some(Self {
            code,
            function: word.names.intern(&told.error_function),
            at: told.error_at_ns.map(Timestamp),
        })
    }
}

/// `ncclSuccess`.
const SUCCESS: u32 = 0;
/// `ncclInProgress`.
pub const IN_PROGRESS: u32 = 7;

#[cfg(test)]
mod tests;
