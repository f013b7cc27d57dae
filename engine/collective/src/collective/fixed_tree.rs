//! Fixed tree: every element is reduced by one binary tree over the virtual ranks, whatever the number of processes.
//!
//! The tree over N virtual ranks: a node of level l covers the 2^l virtual ranks from a multiple of 2^l on, as far as they
//! exist; its value is the value of its left half reduced with that of its right half, in this order; where the right half
//! does not exist, it is that of the left. Form (T) of a fixed order. A process hosts consecutive virtual ranks and reduces
//! the nodes whose virtual ranks are all its own; for others one of the two holders sends its value to the other one.
//!
//! Each block has a target process, and a value travels towards it by the bits of the target's first virtual rank, so
//! that all ranks reduce equally much. With n processes that host equal powers of two of virtual ranks each, n a power of
//! two, S the bytes of the whole buffer:
//!
//! | primitive | steps | sent by each rank |
//! |---|---|---|
//! | `reduce_scatter` | log2(n) | (n−1)/n·S |
//! | `all_reduce` | log2(n) + 1 | 2(n−1)/n·S where n divides |
//! | `reduce` | log2(n) | S; the root nothing |
//!
//! These are the bounds for any reduction, so a fixed order costs no bytes. Other placements send more, since a process
//! may then not reduce all it hosts. Single virtual ranks send elements, reductions accumulators.

use std::ops::Range;

use crate::collective::direct::gather_results;
use crate::collective::layout::{Layout, Scope, pieces};
use crate::collective::primitive::Primitive;
use crate::collective::schedule::{Action, Chunk, Schedule, Step};
use crate::memory::Place;

/// Sets of slots that take turns, so that a piece is reduced while the one before is sent.
const TURNS: usize = 2;

/// The fixed-tree algorithm on one channel.
#[derive(Debug)]
pub(crate) struct FixedTree {
    primitive: Primitive,
    layout: Layout,
    channel: usize,
    n_ranks: usize,
    n_virtual: usize,
    piece: usize,
}

/// A node of the tree: the virtual ranks from `first` on, 2^`level` of them or as many as there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node {
    first: usize,
    level: u32,
}

/// The reduction of one piece of a block, as one rank takes part in it.
struct Reducer<'a> {
    tree: &'a FixedTree,
    rank: usize,
    target: usize,
    range: Range<usize>,
    turn: usize,
    steps: Vec<Step>,
}

impl FixedTree {
    /// Of `count` elements, as the API counts them.
    pub(crate) fn new(primitive: Primitive, count: usize, scope: &Scope<'_>) -> Self {
        let layout = Layout::new(primitive, count, scope);
        Self {
            primitive,
            layout,
            channel: scope.channel,
            n_ranks: scope.n_ranks,
            n_virtual: scope.n_virtual,
            piece: scope.piece.min(layout.total()).max(1),
        }
    }

    /// What is reduced, and for whom.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let root = if let Primitive::Reduce { root } = self.primitive { Some(root) } else { None };
        let targets = root.map_or(0..self.n_ranks, |root| root..root + 1);
        let range =
            move |target| if root.is_some() { self.layout.share() } else { self.layout.block(target) };
        targets.map(move |target| (target, range(target)))
    }

    /// Every virtual rank.
    pub(super) fn root(&self) -> Node {
        Node { first: 0, level: self.n_leaves().next_power_of_two().trailing_zeros() }
    }

    fn n_leaves(&self) -> usize {
        self.n_ranks * self.n_virtual
    }

    fn last(&self, node: Node) -> usize {
        (node.first + (1 << node.level)).min(self.n_leaves()) - 1
    }

    /// Whether its value is one contribution.
    pub(super) fn is_single(&self, node: Node) -> bool {
        self.last(node) == node.first
    }

    /// Its halves; the right one may not exist.
    pub(super) fn halves(&self, node: Node) -> (Node, Option<Node>) {
        let level = node.level - 1;
        let right = Node { first: node.first + (1 << level), level };
        (Node { level, ..node }, (right.first < self.n_leaves()).then_some(right))
    }

    /// The processes that host it.
    pub(super) fn hosts(&self, node: Node) -> Range<usize> {
        node.first / self.n_virtual..self.last(node) / self.n_virtual + 1
    }

    /// The process that has its value in the end, for the block of `target`.
    pub(super) fn holder(&self, node: Node, target: usize) -> usize {
        let hosts = self.hosts(node);
        if hosts.len() == 1 {
            return hosts.start;
        }
        match self.halves(node) {
            (_, Some(right)) if (target * self.n_virtual) >> right.level & 1 == 1 => {
                self.holder(right, target)
            }
            (left, _) => self.holder(left, target),
        }
    }

    fn reduce(&self, rank: usize, target: usize, range: Range<usize>, turn: usize) -> Vec<Step> {
        let mut reducer = Reducer { tree: self, rank, target, range, turn, steps: Vec::new() };
        reducer.value(self.root(), 0);
        reducer.steps
    }
}

impl Schedule for FixedTree {
    fn steps(&self, rank: usize) -> Box<dyn Iterator<Item = Step> + '_> {
        let pieces = self
            .blocks()
            .flat_map(|(target, range)| pieces(range, self.piece).map(move |piece| (target, piece)));
        let reduced = pieces
            .enumerate()
            .flat_map(move |(turn, (target, piece))| self.reduce(rank, target, piece, turn));
        if self.primitive != Primitive::AllReduce {
            return Box::new(reduced);
        }
        let own = self.layout.result(rank, &self.layout.block(rank));
        Box::new(reduced.chain(gather_results(self.layout, self.n_ranks, rank, own)))
    }
}

impl Reducer<'_> {
    /// Steps until the value of `node` is at its holder; where it is, if this rank is that. Slots from `slot` on are free.
    fn value(&mut self, node: Node, slot: usize) -> Option<Chunk> {
        if !self.tree.hosts(node).contains(&self.rank) {
            return None;
        }
        if self.tree.is_single(node) {
            let index = node.first % self.tree.n_virtual;
            return Some(self.tree.layout.virtual_contribution(self.rank, index, &self.range));
        }
        let (left, right) = self.tree.halves(node);
        let Some(right) = right else { return self.value(left, slot) };
        let values = (self.value(left, slot), self.value(right, slot + 1));
        self.join(node, [left, right], values, slot)
    }

    fn join(
        &mut self,
        node: Node,
        [left, right]: [Node; 2],
        values: (Option<Chunk>, Option<Chunk>),
        slot: usize,
    ) -> Option<Chunk> {
        let holders = [left, right].map(|half| self.tree.holder(half, self.target));
        if self.tree.holder(node, self.target) != self.rank {
            let halves = [(values.0, holders[1]), (values.1, holders[0])];
            self.steps.extend(halves.into_iter().filter_map(|(own, to)| own.map(|own| Step::send(to, own))));
            return None;
        }
        let finish = node == self.tree.root();
        let into = if finish {
            self.tree.layout.result(self.rank, &self.range)
        } else {
            self.slot(Place::Partial, slot)
        };
        match values {
            (Some(left), Some(right)) => self.steps.push(Step::reduce_local(left, right, into, finish)),
            (Some(left), None) => {
                let partial = !self.tree.is_single(right);
                self.steps.push(Step::reduce(holders[1], partial, into, left, finish));
            }
            (None, Some(right)) => {
                let arrived = self.arrive(left, holders[0], slot);
                self.steps.push(Step::reduce_local(arrived, right, into, finish));
            }
            (None, None) => {}
        }
        Some(into)
    }

    /// Keeps a left operand that comes from `peer`, so that operands keep their order.
    fn arrive(&mut self, node: Node, peer: usize, slot: usize) -> Chunk {
        let partial = !self.tree.is_single(node);
        let into = self.slot(if partial { Place::Partial } else { Place::Scratch }, slot);
        self.steps.push(Step::Recv { peer, partial, into, action: Action::Store });
        into
    }

    fn slot(&self, place: Place, slot: usize) -> Chunk {
        let per_turn = self.tree.root().level as usize + 1;
        let index = (self.tree.channel * TURNS + self.turn % TURNS) * per_turn + slot;
        Chunk { place, start: index * self.tree.piece, len: self.range.len() }
    }
}
