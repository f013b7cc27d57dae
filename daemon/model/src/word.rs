//! A word about one process, host or group: who says it, as of when, and what it changed.

use ringscope_api::clock::Timestamp;

use super::agents::{Reading, Stamp};
use super::losses::Losses;
use super::names::Names;
use super::places::Ways;

/// Who says it, and as of when.
pub(super) struct Word<'a> {
    pub(super) stamp: Stamp,
    /// Time by our clock that the counters are of.
    pub(super) at: Timestamp,
    /// The same by the clock of which the word's times are. As `at` where that is not known: of files, and of the store,
    /// which keeps ends by our clock.
    pub(super) read_at: Timestamp,
    pub(super) now: Timestamp,
    /// Host of the agent. Empty: not an agent's word.
    pub(super) agent_host: &'a str,
    /// The job of the process, as it is called here. Empty: not said.
    pub(super) job: &'a str,
    pub(super) names: &'a mut Names,
    pub(super) ways: &'a mut Ways,
    pub(super) losses: &'a mut Losses,
}

impl Word<'_> {
    /// When something ended, by our clock. What ended in the future would never be forgotten.
    pub(super) fn ended(&self, at_ns: u64) -> Timestamp {
        Reading { read_at: self.read_at, at: self.at }.ours(Timestamp(at_ns)).min(self.now)
    }
}

/// What a word changed.
#[derive(Default)]
pub(super) struct Merged {
    /// Identity, state, or the facts of some communicator.
    pub(super) facts: bool,
    /// How the process is looked at: a fact of all its communicators.
    pub(super) collector: bool,
    pub(super) counters: bool,
    /// Something that hangs are judged by: calls, what a process does.
    pub(super) calls: bool,
    /// An RDMA connection came, went or stands otherwise.
    pub(super) connections: bool,
    /// Something of it that shall not wait for the next tick.
    pub(super) alarming: bool,
    /// Local ids of the communicators of which the facts changed.
    pub(super) changed: Vec<u64>,
    /// Local ids of the communicators of which only counters or operations changed.
    pub(super) counted: Vec<u64>,
}

impl Merged {
    /// Agents tell the counters of a communicator one after the other, so most repeats are of the last.
    pub(super) fn count(&mut self, local_id: u64) {
        if self.counted.last() != Some(&local_id) {
            self.counted.push(local_id);
        }
    }
}
