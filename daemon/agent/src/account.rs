//! What is known of one process and what of it the daemon has been told. Communicators are kept apart from what changes
//! at every reading: they are long, and neither compared nor copied while nobody has written them anew.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::{Duration, Instant};

use ringscope_wire::batch::{self, Communicator};

use super::delta::{changed, delta};
use super::steady::goes_on;
use super::tell::has_ended;

/// Not queued, or queued in a batch that will not arrive.
const UNSAID: u64 = u64::MAX;

/// Completed operations in one batch; the format promises no more.
const MAX_HISTORY: usize = 256;

/// See the module.
#[derive(Debug)]
pub(super) struct Account {
    /// All but the communicators.
    pub(super) now: batch::Process,
    communicators: Vec<Communicator>,
    /// Grows when the communicators are written anew.
    version: u64,
    said: Option<Said>,
    /// Newest batch that names the process.
    last_said: u64,
    /// Batch by which the end of the process, and all before it, was said.
    end_said: u64,
    /// When that was acknowledged.
    pub(super) end_acknowledged: Option<Instant>,
    /// Batch in which the end of a communicator was said, by its local id; not yet acknowledged.
    ends_said: BTreeMap<u64, u64>,
}

#[derive(Debug)]
struct Said {
    rest: batch::Process,
    communicators: Vec<Communicator>,
    version: u64,
}

impl Account {
    pub(super) fn new(key: String) -> Self {
        Self {
            now: batch::Process { key, ..batch::Process::default() },
            communicators: Vec::new(),
            version: 0,
            said: None,
            last_said: UNSAID,
            end_said: UNSAID,
            end_acknowledged: None,
            ends_said: BTreeMap::new(),
        }
    }

    pub(super) fn key(&self) -> &str {
        &self.now.key
    }

    pub(super) fn job(&self) -> &str {
        self.now.identity.as_ref().map_or("", |identity| identity.job.as_str())
    }

    /// Whether a call of the living process has been open for a time in this range.
    pub(super) fn waits(&self, now_ns: u64, range: &Range<Duration>) -> bool {
        let entered = self.now.open_calls.iter().map(|call| call.entered_at_ns);
        let issued = self.now.in_flight.iter().map(|operation| operation.issued_at_ns);
        let mut ages = entered.chain(issued).map(|at| Duration::from_nanos(now_ns.saturating_sub(at)));
        self.now.ended_at_ns.is_none() && ages.any(|age| range.contains(&age))
    }

    pub(super) fn communicators(&self) -> &[Communicator] {
        &self.communicators
    }

    /// Writes the communicators anew. The ends of those that are gone need no acknowledgement any more.
    pub(super) fn set_communicators(&mut self, communicators: Vec<Communicator>) {
        let present: BTreeSet<u64> = communicators.iter().map(|one| one.local_id).collect();
        self.ends_said.retain(|id, _| present.contains(id));
        self.communicators = communicators;
        self.version += 1;
    }

    /// Adds completed operations to the next batch. Returns how many it has no room for.
    pub(super) fn completed(&mut self, operations: Vec<batch::Operation>) -> u64 {
        let known = &mut self.now.completed_operations;
        let surplus = (known.len() + operations.len()).saturating_sub(MAX_HISTORY);
        known.extend(operations);
        known.truncate(MAX_HISTORY);
        surplus as u64
    }

    /// Marks the end of the process; the first time that it is seen counts.
    pub(super) fn end(&mut self, state: batch::ProcessState, at_ns: u64) {
        self.now.state = state.into();
        self.now.ended_at_ns.get_or_insert(at_ns);
    }

    /// How it ended. `None`: it has not, as far as is known.
    pub(super) fn ended(&self) -> Option<batch::ProcessState> {
        self.now.ended_at_ns.map(|_| self.now.state())
    }

    /// Whether what changed since it was queued is nothing that anybody looks for at once: see [`super::steady`].
    pub(super) fn may_wait(&self) -> bool {
        match &self.said {
            _ if self.now.identity.is_none() => true,
            None => false,
            Some(said) => said.version == self.version && goes_on(&said.rest, &self.now),
        }
    }

    /// What changed since it was queued. Nothing while nothing has been read.
    pub(super) fn changes(&self) -> Option<batch::Process> {
        self.now.identity.as_ref()?;
        let Some(said) = &self.said else {
            return Some(batch::Process { communicators: self.communicators.clone(), ..self.now.clone() });
        };
        let communicators = if said.version == self.version {
            Vec::new()
        } else {
            changed(&said.communicators, &self.communicators, |one| one.local_id)
        };
        match delta(&said.rest, &self.now) {
            Some(changes) => Some(batch::Process { communicators, ..changes }),
            None if communicators.is_empty() => None,
            None => Some(batch::Process { identity: None, communicators, ..delta_of_none(&self.now) }),
        }
    }

    /// Notes that all of it is now queued, in batch `seq`.
    pub(super) fn queued(&mut self, seq: u64) {
        self.last_said = seq;
        self.now.completed_operations.clear();
        self.now.recalled.clear();
        self.now.sequences.iter_mut().for_each(|one| one.marks.clear());
        // Said once.
        (self.now.activity, self.now.look) = (None, None);
        self.now.own_time.iter_mut().for_each(|time| time.long_steps.clear());
        self.now.summations.iter_mut().for_each(|one| one.rounds.clear());
        let before = self.said.take();
        let communicators = match before {
            Some(said) if said.version == self.version => said.communicators,
            before => {
                let said = before.map(|said| said.communicators).unwrap_or_default();
                for one in self.communicators.iter().filter(|one| has_ended(one.state)) {
                    if !said.contains(one) {
                        self.ends_said.insert(one.local_id, seq);
                    }
                }
                self.communicators.clone()
            }
        };
        self.said = Some(Said { rest: self.now.clone(), communicators, version: self.version });
    }

    /// Whether nothing of what is known counts as told.
    pub(super) fn is_unsaid(&self) -> bool {
        self.said.is_none()
    }

    /// Batches were lost on their way: what they said must be said again before it counts as acknowledged.
    pub(super) fn unsay(&mut self) {
        self.said = None;
        self.ends_said.clear();
        (self.last_said, self.end_said) = (UNSAID, UNSAID);
    }

    /// The daemon has all batches up to `seq`. Returns the communicators whose end it has heard of by them.
    pub(super) fn acknowledged(&mut self, seq: u64, is_final: bool, monotonic: Instant) -> Vec<u64> {
        let heard = self.ends_said.extract_if(.., |_, said| *said <= seq).map(|(id, _)| id).collect();
        // The end may have been said before the log was read to its end.
        if is_final && self.is_said() {
            self.end_said = self.end_said.min(self.last_said);
        }
        if self.end_said <= seq {
            self.end_acknowledged.get_or_insert(monotonic);
        }
        heard
    }

    fn is_said(&self) -> bool {
        self.said.as_ref().is_some_and(|said| said.version == self.version && said.rest == self.now)
    }
}

/// A process of which only the communicators changed: the lists that are always whole, and the states.
fn delta_of_none(now: &batch::Process) -> batch::Process {
    batch::Process {
        counters: Vec::new(),
        links: Vec::new(),
        last_completed: Vec::new(),
        summations: Vec::new(),
        sequences: Vec::new(),
        pairs: Vec::new(),
        connections: Vec::new(),
        connection_counts: Vec::new(),
        ..now.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operations(numbers: Range<u64>) -> Vec<batch::Operation> {
        numbers.map(|seq_number| batch::Operation { seq_number, ..batch::Operation::default() }).collect()
    }

    #[test]
    fn completed_operations_beyond_what_a_batch_carries_are_counted() {
        let mut account = Account::new("h/1/1".into());
        assert_eq!(account.completed(operations(0..200)), 0);
        assert_eq!(account.completed(operations(200..300)), 44);
        assert_eq!(account.completed(operations(300..301)), 1);
        let numbers = |account: &Account| -> Vec<u64> {
            account.now.completed_operations.iter().map(|operation| operation.seq_number).collect()
        };
        assert_eq!(numbers(&account), (0..256).collect::<Vec<_>>(), "the oldest stay");
        // The next batch has room again.
        account.queued(1);
        assert_eq!(account.completed(operations(301..557)), 0);
        assert_eq!(numbers(&account), (301..557).collect::<Vec<_>>());
    }
}
