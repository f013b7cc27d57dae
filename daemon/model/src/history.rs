//! Operations that completed, of each communicator the newest: what a trace is made of.

use std::collections::{HashMap, HashSet, VecDeque};

use ringscope_wire::{Primitive, batch};

use super::CommunicatorId;
use super::limits::{MAX_COMMUNICATOR_HISTORY, MAX_HISTORY, MAX_RANK_HISTORY};

/// One operation of one rank.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields are those of batch.proto's Operation")]
pub struct Completed {
    pub rank: u32,
    pub primitive: Primitive,
    pub seq_number: u64,
    pub bytes: u64,
    pub count: u64,
    pub datatype: u8,
    pub peer: Option<u32>,
    pub channels: u32,
    pub call_number: Option<u64>,
    pub op: Option<u32>,
    pub group: u32,
    pub issued_at_ns: u64,
    pub started_at_ns: Option<u64>,
    pub completed_at_ns: u64,
}

/// The operations of all communicators.
#[derive(Debug, Default)]
pub(super) struct History {
    by_communicator: HashMap<CommunicatorId, Ring>,
    /// Operations in all of them.
    len: usize,
}

/// The operations of one communicator in the order in which they were told.
#[derive(Debug, Default)]
struct Ring {
    operations: VecDeque<Completed>,
    known: HashSet<(u32, Primitive, u64)>,
    /// Operations that were here, and made room for newer ones.
    forgotten: u64,
}

impl Completed {
    /// What a rank told, if it makes sense.
    pub(super) fn told(rank: u32, told: &batch::Operation) -> Option<Self> {
        Some(Self {
            rank,
            primitive: batch::Primitive::try_from(told.primitive).ok()?.known()?,
            seq_number: told.seq_number,
            bytes: told.bytes,
            count: told.count,
            datatype: u8::try_from(told.datatype).unwrap_or(u8::MAX),
            peer: told.peer,
            channels: told.channels_expected,
            call_number: told.call_number,
            op: told.op,
            group: told.group,
            issued_at_ns: told.issued_at_ns,
            started_at_ns: told.started_at_ns,
            completed_at_ns: told.completed_at_ns.filter(|completed| *completed >= told.issued_at_ns)?,
        })
    }
}

impl History {
    /// Takes an operation of a communicator of so many ranks, unless it is known. Returns whether it is new.
    pub(super) fn push(&mut self, comm: CommunicatorId, n_ranks: u32, operation: Completed) -> bool {
        let ring = self.by_communicator.entry(comm).or_default();
        if !ring.known.insert((operation.rank, operation.primitive, operation.seq_number)) {
            return false;
        }
        ring.operations.push_back(operation);
        self.len += 1;
        if ring.operations.len() > MAX_COMMUNICATOR_HISTORY.max(MAX_RANK_HISTORY * n_ranks as usize) {
            self.len -= ring.forget(1);
        }
        if self.len > MAX_HISTORY {
            self.make_room();
        }
        true
    }

    /// The operations of a communicator, and how many were there before them.
    pub(super) fn of(&self, comm: CommunicatorId) -> (impl Iterator<Item = &Completed>, u64) {
        let ring = self.by_communicator.get(&comm);
        (ring.into_iter().flat_map(|ring| &ring.operations), ring.map_or(0, |ring| ring.forgotten))
    }

    pub(super) fn forget(&mut self, comm: CommunicatorId) {
        self.len -= self.by_communicator.remove(&comm).map_or(0, |ring| ring.operations.len());
    }

    /// Forgets the oldest, some at a time: whose turn it is costs a look at every communicator.
    fn make_room(&mut self) {
        while self.len > MAX_HISTORY - MAX_HISTORY / 16 {
            let oldest =
                |ring: &&mut Ring| ring.operations.front().map_or(u64::MAX, |one| one.completed_at_ns);
            let Some(ring) = self.by_communicator.values_mut().min_by_key(oldest) else { return };
            self.len -= ring.forget(FORGOTTEN_AT_ONCE);
        }
    }
}

impl Ring {
    fn forget(&mut self, n: usize) -> usize {
        let n = n.min(self.operations.len());
        for operation in self.operations.drain(..n) {
            self.known.remove(&(operation.rank, operation.primitive, operation.seq_number));
        }
        self.forgotten += n as u64;
        n
    }
}

/// Operations of one communicator that make room at once.
const FORGOTTEN_AT_ONCE: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(rank: u32, seq_number: u64) -> Completed {
        let told = batch::Operation {
            primitive: batch::Primitive::AllReduce.into(),
            seq_number,
            issued_at_ns: seq_number,
            completed_at_ns: Some(seq_number + 1),
            ..batch::Operation::default()
        };
        Completed::told(rank, &told).unwrap()
    }

    fn comm(index: u64) -> CommunicatorId {
        format!("{index:012x}").parse().unwrap()
    }

    #[test]
    fn what_is_told_twice_is_known_once() {
        let mut history = History::default();
        for (rank, seq_number) in [(0, 1), (1, 1), (0, 1), (0, 2), (1, 1)] {
            history.push(comm(0), 2, operation(rank, seq_number));
        }
        assert_eq!(history.of(comm(0)).0.count(), 3);
        history.forget(comm(0));
        assert_eq!((history.len, history.of(comm(0)).0.count()), (0, 0));
    }

    #[test]
    fn the_oldest_make_room() {
        let mut history = History::default();
        let n = MAX_COMMUNICATOR_HISTORY as u64 + 10;
        (0..n).for_each(|seq_number| assert!(history.push(comm(0), 2, operation(0, seq_number))));
        let (mut operations, forgotten) = history.of(comm(0));
        assert_eq!((operations.next().map(|one| one.seq_number), forgotten), (Some(10), 10));
    }

    #[test]
    fn all_communicators_together_are_bounded() {
        let mut history = History::default();
        let n_communicators = (MAX_HISTORY / MAX_COMMUNICATOR_HISTORY + 2) as u64;
        for index in 0..n_communicators {
            for seq_number in 0..MAX_COMMUNICATOR_HISTORY as u64 {
                history.push(comm(index), 2, operation(0, index << 32 | seq_number));
            }
        }
        let kept: usize = (0..n_communicators).map(|index| history.of(comm(index)).0.count()).sum();
        assert!(kept == history.len && kept <= MAX_HISTORY, "{kept}");
        assert!(history.of(comm(0)).1 > 0, "the oldest went first");
        assert_eq!(history.of(comm(n_communicators - 1)).1, 0);
    }
}
