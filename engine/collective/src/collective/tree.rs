//! Double binary tree: reduces up, broadcasts down, piece by piece.
//!
//! Two trees with the same root, each over one half of the buffer. On one host, a rank other than the root has children
//! in one of them at most, so what it receives and sends is balanced. Source of the pair of trees: Sanders, Speck and
//! Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan" (2009).
//!
//! With n ranks, S the bytes of the buffer, and c(h) a rank's children in the tree of half h:
//!
//! | primitive | sent by each rank |
//! |---|---|
//! | `all_reduce` | up S (the root nothing), down the sum of c(h)·S/2 |
//! | `broadcast` | the sum of c(h)·S/2 |
//! | `reduce` | S; the root nothing |
//!
//! All together 2(n−1)·S for an all-reduce, as with a ring, in about 2·log2(n) steps of latency. Leaves send elements,
//! others partial results. On several hosts the trees join the hosts, with a tree inside each host below its leader, so each
//! half crosses into a host once.
//!
//! In program order the pieces of both trees take turns, first all on their way up and then all on their way down. Where a
//! pair of ranks is joined in both trees, its connection carries pieces of both, and in this order none waits for a piece
//! that comes later by itself: piece by piece, a leaf's next one would wait for the last one's way to the root and back.
//! On the way up as on the way down all ranks' ports are busy, and pieces go down as soon as they are whole.
//!
//! The trees do not depend on the channel, nor which tree an element takes: results do not depend on the number of
//! channels.

use std::ops::Range;

use crate::collective::layout::{Layout, Partials, Scope, groups, piece};
use crate::collective::primitive::Primitive;
use crate::collective::schedule::{Chunk, Schedule, Step};

/// Pieces kept while they are passed on; more than two, so that one late hop does not stop the others.
const PIECE_SLOTS: usize = 4;

/// The tree algorithm on one channel.
#[derive(Debug)]
pub(crate) struct Tree {
    primitive: Primitive,
    layout: Layout,
    wide: bool,
    piece: usize,
    halves: [Family; 2],
}

/// Who is whose parent in one tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Family {
    parents: Vec<Option<usize>>,
    children: Vec<Vec<usize>>,
}

impl Tree {
    /// Of `count` elements, as the API counts them.
    pub(crate) fn new(primitive: Primitive, count: usize, scope: &Scope<'_>) -> Self {
        let root = primitive.root();
        Self {
            primitive,
            layout: Layout::new(primitive, count, scope),
            wide: scope.wide,
            piece: scope.piece,
            halves: [0, 1].map(|tree| Family::new(tree, root, scope.nodes)),
        }
    }

    fn partials(&self) -> Partials {
        if self.primitive == Primitive::AllReduce && !self.wide {
            Partials::InPlace
        } else {
            self.layout.piece_slots(PIECE_SLOTS, self.piece.min(self.layout.total()))
        }
    }

    /// Reduces what the children send, and passes it on.
    fn up(&self, tree: usize, rank: usize, piece: &Range<usize>, turn: usize) -> Vec<Step> {
        let family = &self.halves[tree];
        let own = self.layout.contribution(rank, piece);
        let sum = self.partials().chunk(piece, turn);
        let children = &family.children[rank];
        let mut steps = Vec::with_capacity(children.len() + 1);
        for (index, child) in children.iter().enumerate() {
            let finish = family.parents[rank].is_none() && index + 1 == children.len();
            let into = if finish { self.layout.result(rank, piece) } else { sum };
            let with = if index == 0 { own } else { sum };
            steps.push(Step::reduce(*child, !family.is_leaf(*child), into, with, finish));
        }
        let passed = if children.is_empty() { own } else { sum };
        steps.extend(family.parents[rank].map(|parent| Step::send(parent, passed)));
        steps
    }

    /// Passes on what the parent sends.
    fn down(&self, tree: usize, rank: usize, from: Chunk, into: Chunk) -> impl Iterator<Item = Step> {
        let family = &self.halves[tree];
        let recv = family.parents[rank].map(|parent| Step::store(parent, into));
        recv.into_iter().chain(family.children[rank].iter().map(move |child| Step::send(*child, from)))
    }

    /// Takes the result of a piece from the parent, and passes it on.
    fn down_piece(&self, tree: usize, rank: usize, piece: Range<usize>) -> impl Iterator<Item = Step> {
        let result = self.layout.result(rank, &piece);
        let source = match self.primitive {
            Primitive::Broadcast { root } if rank == root => self.layout.contribution(rank, &piece),
            _ => result,
        };
        self.down(tree, rank, source, result)
    }

    /// The pieces of both trees in turns: tree, number and range.
    fn turns(&self) -> impl Iterator<Item = (usize, usize, Range<usize>)> + '_ {
        let halves = [0, 1].map(|tree| half(&self.layout, tree));
        let n = halves.iter().map(|half| half.len().div_ceil(self.piece.max(1))).max().unwrap_or(0);
        (0..2 * n).filter_map(move |index| {
            let (tree, turn) = (index % 2, index / 2);
            let piece = piece(&halves[tree], self.piece, turn);
            (!piece.is_empty()).then_some((tree, turn, piece))
        })
    }
}

impl Schedule for Tree {
    fn steps(&self, rank: usize) -> Box<dyn Iterator<Item = Step> + '_> {
        let keeps = matches!(self.primitive, Primitive::Broadcast { root } if root == rank);
        let share = self.layout.share();
        let copy = keeps
            .then(|| Step::copy(self.layout.contribution(rank, &share), self.layout.result(rank, &share)));
        let (ups, downs) = match self.primitive {
            Primitive::Broadcast { .. } => (false, true),
            Primitive::Reduce { .. } => (true, false),
            _ => (true, true),
        };
        // A rank that is inside one tree keeps clear of the slots that its other tree uses first.
        let turn_of = |tree: usize, turn| turn + tree * PIECE_SLOTS / 2;
        let up = ups.then(|| self.turns()).into_iter().flatten();
        let up = up.flat_map(move |(tree, turn, piece)| self.up(tree, rank, &piece, turn_of(tree, turn)));
        let down = downs.then(|| self.turns()).into_iter().flatten();
        let down = down.flat_map(move |(tree, _, piece)| self.down_piece(tree, rank, piece));
        Box::new(copy.into_iter().chain(up).chain(down))
    }
}

impl Family {
    /// Tree 0 or 1 over all ranks, with `root` at the root of both.
    pub(crate) fn new(tree: usize, root: usize, nodes: &[usize]) -> Self {
        let mut hosts = groups(nodes);
        hosts.rotate_left(nodes[root]);
        for host in &mut hosts {
            // The second tree has other leaders, so that no rank leads in both.
            let first = if tree == 1 { host.len() - 1 } else { 0 };
            let leader = host.iter().position(|rank| *rank == root).unwrap_or(first);
            host.rotate_left(leader);
        }
        let mut family = Self { parents: vec![None; nodes.len()], children: vec![Vec::new(); nodes.len()] };
        for (index, host) in hosts.iter().enumerate() {
            if index > 0 {
                family.join(hosts[parent(tree, index, hosts.len())][0], host[0]);
            }
            for local in 1..host.len() {
                family.join(host[parent(tree, local, host.len())], host[local]);
            }
        }
        family
    }

    fn join(&mut self, parent: usize, child: usize) {
        self.parents[child] = Some(parent);
        self.children[parent].push(child);
    }

    /// A rank's parent.
    pub(crate) fn parent(&self, rank: usize) -> Option<usize> {
        self.parents[rank]
    }

    /// A rank's children.
    pub(crate) fn children(&self, rank: usize) -> &[usize] {
        &self.children[rank]
    }

    /// Whether a rank has no children.
    pub(super) fn is_leaf(&self, rank: usize) -> bool {
        self.children[rank].is_empty()
    }
}

/// The elements of a channel that take a tree.
pub(super) fn half(layout: &Layout, tree: usize) -> Range<usize> {
    let (share, middle) = (layout.share(), layout.total().div_ceil(2));
    if tree == 0 {
        share.start.min(middle)..share.end.min(middle)
    } else {
        share.start.max(middle)..share.end.max(middle)
    }
}

/// The parent of position `index` (not 0) among `n`, in tree 0 or 1; 0 is the root of both and has one child. The second
/// tree is the first one mirrored, or shifted by one where mirroring would put leaves on leaves.
fn parent(tree: usize, index: usize, n: usize) -> usize {
    let mirrors = n % 2 == 1;
    let there = match tree {
        0 => index,
        _ if mirrors => n - index,
        _ if index == 1 => n - 1,
        _ => index - 1,
    };
    match (tree, in_order_parent(there, n)) {
        (_, 0) => 0,
        (0, place) => place,
        (_, place) if mirrors => n - place,
        (_, place) if place == n - 1 => 1,
        (_, place) => place + 1,
    }
}

/// The binary tree whose in-order walk is 1, 2, … n−1, hung below 0: odd places are leaves, and a place's height is the
/// number of its trailing zeros.
fn in_order_parent(place: usize, n: usize) -> usize {
    let lowest = place & place.wrapping_neg();
    let right_of_parent = place ^ lowest;
    let left_of_parent = right_of_parent | (lowest << 1);
    if left_of_parent < n { left_of_parent } else { right_of_parent }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(family: &Family, mut rank: usize) -> usize {
        let mut depth = 0;
        while let Some(parent) = family.parent(rank) {
            rank = parent;
            depth += 1;
            assert!(depth <= family.parents.len(), "a circle");
        }
        depth
    }

    #[test]
    fn every_rank_hangs_below_the_root_and_is_inside_one_tree_at_most() {
        for n in 2..200_usize {
            let families = [0, 1].map(|tree| Family::new(tree, n / 3, &vec![0; n]));
            let height = n.ilog2() as usize + 1;
            for rank in 0..n {
                for family in &families {
                    assert!(depth(family, rank) <= height, "{n} {rank}");
                    assert!(family.children[rank].len() <= 2);
                }
                let inside = families.iter().filter(|family| !family.is_leaf(rank)).count();
                assert!(inside <= 1 || rank == n / 3, "{n} {rank}");
            }
        }
    }

    #[test]
    fn a_half_enters_each_host_once() {
        let nodes = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3];
        for tree in 0..2 {
            let family = Family::new(tree, 4, &nodes);
            let crossings = (0..nodes.len())
                .filter(|rank| family.parent(*rank).is_some_and(|parent| nodes[parent] != nodes[*rank]));
            assert_eq!(crossings.count(), 3);
        }
    }
}
