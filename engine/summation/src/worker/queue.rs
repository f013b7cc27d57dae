//! A stage's queue: one lane for each server, in order of urgency, with a bound on how far the oldest is overtaken.

use std::collections::{BTreeMap, BTreeSet};

/// A part that waits, in order of urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Waiting {
    pub(super) priority: u32,
    pub(super) key: u32,
    pub(super) sequence: u64,
    pub(super) bytes: u64,
}

/// Parts of one server.
#[derive(Debug, Default)]
pub(super) struct Lane {
    by_urgency: BTreeSet<Waiting>,
    by_age: BTreeMap<u64, Waiting>,
    /// Bytes of later parts that went before the oldest one since it is the oldest.
    overtaken_bytes: u64,
}

/// A stage.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) lanes: Vec<Lane>,
    /// Parts of each server in the stage, waiting or begun, and those that have begun in the stage before.
    pub(super) slots: Vec<usize>,
    pub(super) begun: usize,
    pub(super) n_entered: u64,
    pub(super) n_left: u64,
    /// Of all parts that have begun: from coming to the stage to beginning there, in all and at most.
    pub(super) waited_ns: u64,
    pub(super) longest_wait_ns: u64,
    /// Of all parts that have left: from beginning there to leaving.
    pub(super) worked_ns: u64,
}

impl Lane {
    pub(super) fn add(&mut self, part: Waiting) {
        self.by_urgency.insert(part);
        self.by_age.insert(part.sequence, part);
    }

    /// Who is next.
    pub(super) fn head(&self, overtake_bytes: u64) -> Option<Waiting> {
        if self.is_overdue(overtake_bytes) { self.oldest() } else { self.by_urgency.first().copied() }
    }

    /// It goes; `false` if it was not there.
    pub(super) fn remove(&mut self, part: Waiting) -> bool {
        if self.oldest() == Some(part) {
            self.overtaken_bytes = 0;
        }
        self.by_age.remove(&part.sequence);
        self.by_urgency.remove(&part)
    }

    /// A part goes before those that stay.
    pub(super) fn let_pass(&mut self, part: Waiting) {
        if self.oldest().is_some_and(|oldest| oldest.sequence < part.sequence) {
            self.overtaken_bytes = self.overtaken_bytes.saturating_add(part.bytes);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_urgency.len()
    }

    fn is_overdue(&self, overtake_bytes: u64) -> bool {
        self.overtaken_bytes >= overtake_bytes.max(1)
    }

    fn oldest(&self) -> Option<Waiting> {
        self.by_age.first_key_value().map(|(_, part)| *part)
    }
}

impl Queue {
    pub(super) fn new(n_servers: usize) -> Self {
        let lanes = (0..n_servers).map(|_| Lane::default()).collect();
        Self { lanes, slots: vec![0; n_servers], ..Self::default() }
    }

    /// Who is next over all lanes, of those that `may` begin: overdue ones by age, then the others by urgency.
    pub(super) fn head(&self, overtake_bytes: u64, may: impl Fn(&Waiting) -> bool) -> Option<Waiting> {
        let rank = |lane: &Lane| {
            let head = lane.head(overtake_bytes).filter(&may)?;
            let is_overdue = lane.is_overdue(overtake_bytes);
            Some((!is_overdue, if is_overdue { head.sequence } else { u64::from(head.priority) }, head))
        };
        self.lanes.iter().filter_map(rank).min().map(|(_, _, head)| head)
    }

    /// A part begins where one worker serves all lanes, so that it passes all others.
    pub(super) fn pass_all(&mut self, part: Waiting) {
        self.lanes.iter_mut().for_each(|lane| lane.let_pass(part));
    }

    /// Parts that wait.
    pub(super) fn depth(&self) -> usize {
        self.lanes.iter().map(Lane::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(priority: u32, key: u32, sequence: u64) -> Waiting {
        Waiting { priority, key, sequence, bytes: 10 }
    }

    #[test]
    fn the_oldest_is_overtaken_by_no_more_than_the_bound() {
        let mut lane = Lane::default();
        lane.add(waiting(9, 0, 0));
        let mut served = Vec::new();
        for sequence in 1..6 {
            lane.add(waiting(1, 7, sequence));
            let head = lane.head(30).unwrap();
            lane.remove(head);
            lane.let_pass(head);
            served.push(head.sequence);
        }
        assert_eq!(served, [1, 2, 3, 0, 4]);
    }

    #[test]
    fn lanes_are_served_by_urgency_and_overdue_ones_first() {
        let mut queue = Queue::new(3);
        queue.lanes[0].add(waiting(9, 0, 0));
        queue.lanes[1].add(waiting(2, 1, 1));
        queue.lanes[2].add(waiting(1, 2, 2));
        assert_eq!(queue.head(20, |_| true).unwrap().key, 2);
        assert_eq!(queue.head(20, |part| part.key != 2).unwrap().key, 1);
        for sequence in 3..5 {
            queue.pass_all(waiting(0, 3, sequence));
        }
        assert_eq!(queue.head(20, |_| true).unwrap().key, 0);
    }
}
