//! The ready queue of one iteration. Pure.

use std::collections::VecDeque;

use crate::graph::Operator;

/// Steps that may be tried, and what the others still wait for.
#[derive(Debug)]
pub(super) struct Queue {
    ready: VecDeque<usize>,
    missing: Vec<usize>,
    waiting: Vec<Vec<usize>>,
    left: usize,
    /// Steps that were tried since the last one that was done.
    in_vain: usize,
}

impl Queue {
    /// All steps of an iteration.
    pub(super) fn new(operators: &[Operator]) -> Self {
        let missing: Vec<usize> = operators.iter().map(|operator| operator.after.len()).collect();
        let mut waiting = vec![Vec::new(); operators.len()];
        for (step, operator) in operators.iter().enumerate() {
            for earlier in &operator.after {
                if let Some(waiting) = waiting.get_mut(*earlier) {
                    waiting.push(step);
                }
            }
        }
        let free = missing.iter().enumerate().filter(|(_, missing)| **missing == 0);
        let ready = free.map(|(step, _)| step).collect();
        Self { ready, missing, waiting, left: operators.len(), in_vain: 0 }
    }

    /// The next step to be tried; none where all are done.
    pub(super) fn next(&mut self) -> Option<usize> {
        self.ready.pop_front()
    }

    /// The step is done: those that waited for it alone are ready.
    pub(super) fn done(&mut self, step: usize) {
        self.left -= 1;
        self.in_vain = 0;
        for next in self.waiting.get(step).into_iter().flatten() {
            if let Some(missing) = self.missing.get_mut(*next) {
                *missing -= 1;
                if *missing == 0 {
                    self.ready.push_back(*next);
                }
            }
        }
    }

    /// The step waits: it goes to the end. Whether all that is ready was tried in vain.
    pub(super) fn later(&mut self, step: usize) -> bool {
        self.ready.push_back(step);
        self.in_vain += 1;
        self.in_vain.is_multiple_of(self.ready.len())
    }

    /// The steps that may be tried.
    pub(super) fn ready(&self) -> impl Iterator<Item = usize> {
        self.ready.iter().copied()
    }

    /// Steps that are not done.
    pub(super) fn left(&self) -> usize {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Step;

    #[test]
    fn what_waits_goes_to_the_end_and_blocks_nobody() {
        let step =
            |after: &[usize]| Operator { step: Step::Receive(0), after: after.iter().copied().collect() };
        let mut queue = Queue::new(&[step(&[]), step(&[]), step(&[1]), step(&[0, 2])]);
        assert_eq!(queue.next(), Some(0));
        assert!(!queue.later(0));
        assert_eq!(queue.next(), Some(1));
        queue.done(1);
        assert_eq!(queue.next(), Some(0));
        assert!(!queue.later(0));
        assert_eq!(queue.next(), Some(2));
        queue.done(2);
        assert_eq!(queue.next(), Some(0));
        assert!(queue.later(0) && queue.left() == 2);
        assert_eq!(queue.next(), Some(0));
        queue.done(0);
        assert_eq!(queue.next(), Some(3));
        queue.done(3);
        assert_eq!((queue.next(), queue.left()), (None, 0));
    }
}
