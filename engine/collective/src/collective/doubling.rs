//! Recursive doubling: in each step a rank exchanges all that it has reduced so far with a partner that has reduced as
//! much, and both reduce both.
//!
//! With n ranks, p the largest power of two up to n, S the bytes of the whole buffer:
//!
//! | primitive | steps | sent by each rank |
//! |---|---|---|
//! | `all_reduce` | log2(p), and 2 if n > p | log2(p)·S; see below for n > p |
//!
//! Where n > p, the first n−p pairs of neighbours are one participant each, as in
//! [`halving_doubling`](crate::collective::halving_doubling): the second rank of the pair sends its buffer (S) before and
//! gets the result (S) after. Nobody needs fewer steps, so it is the algorithm of small buffers (Thakur, Rabenseifner and
//! Gropp, 2005); its bytes exceed a ring's as soon as n > 2.
//!
//! Every rank reduces every element itself. All reduce the same two operands in the same order, that of the participants, so
//! that all have the same bits: what the lower partner sends is kept, and then the own part is reduced into it.

use crate::collective::halving_doubling::{Pairing, Role};
use crate::collective::layout::{Layout, Scope};
use crate::collective::primitive::Primitive;
use crate::collective::schedule::{Action, Chunk, Schedule, Step};
use crate::memory::Place;

/// An all-reduce by recursive doubling on one channel.
#[derive(Debug)]
pub(crate) struct Doubling {
    layout: Layout,
    pairing: Pairing,
}

impl Doubling {
    /// Of `count` elements.
    pub(crate) fn new(count: usize, scope: &Scope<'_>) -> Self {
        Self { layout: Layout::new(Primitive::AllReduce, count, scope), pairing: Pairing::new(scope.nodes) }
    }

    fn participant(&self, index: usize, represents: Option<usize>) -> Vec<Step> {
        let [own, sum, inbox] = [Place::Send, Place::Partial, Place::Scratch].map(|place| self.chunk(place));
        let n_steps = self.pairing.n_participants().trailing_zeros();
        let mut steps = Vec::new();
        let mut held = own;
        if let Some(other) = represents {
            let into = if n_steps == 0 { self.chunk(Place::Recv) } else { sum };
            steps.push(Step::reduce(other, false, into, own, n_steps == 0));
            held = sum;
        }
        for step in 0..n_steps {
            let (partner, last) = (index ^ (1 << step), step + 1 == n_steps);
            let peer = self.pairing.rank(partner);
            let partial = step > 0 || self.pairing.is_pair(partner);
            let into = if last { self.chunk(Place::Recv) } else { sum };
            steps.push(Step::send(peer, held));
            if index < partner {
                steps.push(Step::reduce(peer, partial, into, held, last));
            } else {
                let inbox = if partial { self.partial_inbox() } else { inbox };
                steps.push(Step::Recv { peer, partial, into: inbox, action: Action::Store });
                steps.push(Step::reduce_local(inbox, held, into, last));
            }
            held = sum;
        }
        steps.extend(represents.map(|other| Step::send(other, self.chunk(Place::Recv))));
        steps
    }

    fn chunk(&self, place: Place) -> Chunk {
        Chunk::new(place, &self.layout.share())
    }

    /// Accumulators of the partner: behind all channels' own ones.
    fn partial_inbox(&self) -> Chunk {
        let own = self.chunk(Place::Partial);
        Chunk { start: self.layout.total() + own.start, ..own }
    }
}

impl Schedule for Doubling {
    fn steps(&self, rank: usize) -> Box<dyn Iterator<Item = Step> + '_> {
        let steps = match self.pairing.role(rank) {
            Role::Participant { index, represents } => self.participant(index, represents),
            Role::Represented { by } => {
                vec![Step::send(by, self.chunk(Place::Send)), Step::store(by, self.chunk(Place::Recv))]
            }
        };
        Box::new(steps.into_iter())
    }
}
