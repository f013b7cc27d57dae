//! What each rank sends to each other one, in closed form: no schedule is walked, so that a schedule, a transport and the
//! collector can be checked against something else than themselves.
//!
//! Counted in elements of both forms, since accumulators may be wider; [`Sent::bytes`] makes bytes of them.

#![allow(dead_code, reason = "tests hold schedules, transports and simulations against it")]

use std::collections::BTreeMap;
use std::ops::{AddAssign, Range};

use crate::collective::algorithm::Algorithm;
use crate::collective::catalog::supports;
use crate::collective::fixed_tree::{FixedTree, Node};
use crate::collective::halving_doubling::{Pairing, Role, halves};
use crate::collective::hierarchical::Hosts;
use crate::collective::layout::{Layout, Scope};
use crate::collective::partition::part;
use crate::collective::primitive::Primitive;
use crate::collective::tree::{Family, half};
use crate::kernels::{Form, Reducer};
use crate::memory::Place;

/// Elements sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// As elements.
    pub(crate) elements: usize,
    /// As accumulators.
    pub(crate) partials: usize,
}

/// By peer; who gets nothing is not there.
pub(crate) type SentTo = BTreeMap<usize, Sent>;

/// What `rank` sends on the channel of `scope`, for `count` elements as the API counts them. The algorithm is the one
/// asked for, where it supports the primitive, else the one that [`schedule`](crate::collective::catalog::schedule) takes.
pub(crate) fn sent(
    algorithm: Algorithm,
    primitive: Primitive,
    count: usize,
    scope: &Scope<'_>,
    rank: usize,
) -> SentTo {
    let layout = Layout::new(primitive, count, scope);
    let mut account = Account { primitive, layout, scope, rank, sent: SentTo::new() };
    let algorithm = [algorithm, Algorithm::Ring].into_iter().find(|one| supports(*one, primitive, scope));
    if scope.n_ranks > 1 {
        match algorithm {
            Some(Algorithm::Ring) => account.ring(),
            Some(Algorithm::Tree) => account.tree(),
            Some(Algorithm::HalvingDoubling) => account.halving_doubling(),
            Some(Algorithm::RecursiveDoubling) => account.recursive_doubling(),
            Some(Algorithm::Hierarchical) => account.hierarchical(),
            Some(Algorithm::FixedTree) => account.fixed_tree(count),
            Some(Algorithm::Direct) | None => account.direct(),
        }
    }
    account.sent.retain(|_, sent| *sent != Sent::default());
    account.sent
}

impl Sent {
    /// Bytes on the wire.
    pub(crate) fn bytes(self, reducer: Reducer) -> usize {
        self.elements * reducer.bytes(Form::Element) + self.partials * reducer.bytes(Form::Partial)
    }
}

impl AddAssign for Sent {
    fn add_assign(&mut self, other: Self) {
        self.elements += other.elements;
        self.partials += other.partials;
    }
}

struct Account<'a> {
    primitive: Primitive,
    layout: Layout,
    scope: &'a Scope<'a>,
    rank: usize,
    sent: SentTo,
}

impl Account<'_> {
    fn elements(&mut self, peer: usize, elements: usize) {
        *self.sent.entry(peer).or_default() += Sent { elements, partials: 0 };
    }

    fn partials(&mut self, peer: usize, partials: usize) {
        *self.sent.entry(peer).or_default() += Sent { elements: 0, partials };
    }

    fn block(&self, rank: usize) -> usize {
        self.layout.block(rank).len()
    }

    /// All ranks' blocks on this channel.
    fn all_blocks(&self) -> usize {
        // Blocks differ by one element at most, the longer ones first.
        let n = self.scope.n_ranks;
        let longer = self.layout.total() % n;
        longer * self.block(0) + (n - longer) * self.block(n - 1)
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let rank = self.rank;
        (0..self.scope.n_ranks).filter(move |peer| *peer != rank)
    }

    /// Reduce-scatter in a circle: the previous one's block as contributed, all others but the own one reduced.
    fn circle_scatter(&mut self, next: usize, [all, prev, own]: [usize; 3], contributed: Place) {
        match contributed {
            Place::Send => self.elements(next, prev),
            _ => self.partials(next, prev),
        }
        self.partials(next, all - prev - own);
    }

    fn ring(&mut self) {
        let [prev, next] = neighbours(self.scope.order, self.rank);
        let share = self.layout.share().len();
        let blocks = [self.all_blocks(), self.block(prev), self.block(self.rank)];
        let gathered = blocks[0] - self.block(next);
        match self.primitive {
            Primitive::Broadcast { root } if next == root => {}
            Primitive::Broadcast { .. } => self.elements(next, share),
            Primitive::Reduce { root } if self.rank == root => {}
            Primitive::Reduce { root } if prev == root => self.elements(next, share),
            Primitive::Reduce { .. } => self.partials(next, share),
            Primitive::ReduceScatter => self.circle_scatter(next, blocks, Place::Send),
            Primitive::AllGather => self.elements(next, gathered),
            _ => {
                self.circle_scatter(next, blocks, Place::Send);
                self.elements(next, gathered);
            }
        }
    }

    fn tree(&mut self) {
        let (ups, downs) = match self.primitive {
            Primitive::Broadcast { .. } => (false, true),
            Primitive::Reduce { .. } => (true, false),
            _ => (true, true),
        };
        for tree in 0..2 {
            let family = Family::new(tree, self.primitive.root(), self.scope.nodes);
            let len = half(&self.layout, tree).len();
            if let Some(parent) = family.parent(self.rank).filter(|_| ups) {
                if family.is_leaf(self.rank) {
                    self.elements(parent, len);
                } else {
                    self.partials(parent, len);
                }
            }
            for child in family.children(self.rank).iter().filter(|_| downs) {
                self.elements(*child, len);
            }
        }
    }

    fn halving_doubling(&mut self) {
        let pairing = Pairing::new(self.scope.nodes);
        let share = self.layout.share();
        match self.primitive {
            Primitive::ReduceScatter | Primitive::AllGather => self.halve_blocks(),
            _ => match pairing.role(self.rank) {
                Role::Represented { by } => self.elements(by, share.len()),
                Role::Participant { index, represents } => {
                    represents.into_iter().for_each(|other| self.elements(other, share.len()));
                    self.halve(&pairing, index, share);
                }
            },
        }
    }

    /// With the partner of a step, the given half goes there before and the kept one after.
    fn halve(&mut self, pairing: &Pairing, index: usize, mut range: Range<usize>) {
        for step in 0..pairing.n_participants().trailing_zeros() {
            let peer = pairing.rank(index ^ (1 << step));
            let (kept, given) = halves(&range, index >> step & 1);
            if step == 0 && !pairing.is_pair(index) {
                self.elements(peer, given.len());
            } else {
                self.partials(peer, given.len());
            }
            self.elements(peer, kept.len());
            range = kept;
        }
    }

    /// The whole share to the partner of every bit.
    fn recursive_doubling(&mut self) {
        let pairing = Pairing::new(self.scope.nodes);
        let len = self.layout.share().len();
        match pairing.role(self.rank) {
            Role::Represented { by } => self.elements(by, len),
            Role::Participant { index, represents } => {
                represents.into_iter().for_each(|other| self.elements(other, len));
                for step in 0..pairing.n_participants().trailing_zeros() {
                    let peer = pairing.rank(index ^ (1 << step));
                    if step == 0 && !pairing.is_pair(index) {
                        self.elements(peer, len);
                    } else {
                        self.partials(peer, len);
                    }
                }
            }
        }
    }

    /// 2^j blocks to the partner of bit j.
    fn halve_blocks(&mut self) {
        let n_steps = self.scope.n_ranks.trailing_zeros();
        for step in 0..n_steps {
            let (peer, len) = (self.rank ^ (1 << step), self.block(0) << step);
            if self.primitive == Primitive::AllGather || step + 1 == n_steps {
                self.elements(peer, len);
            } else {
                self.partials(peer, len);
            }
        }
    }

    fn hierarchical(&mut self) {
        let hosts = Hosts::new(self.scope);
        let (members, share) = (hosts.of(self.rank), self.layout.share());
        let at = |members: &[usize], rank| members.iter().position(|member| *member == rank).unwrap_or(0);
        let local = at(members, self.rank);
        let shard = |index| hosts.shard(&share, index).len();
        if members.len() > 1 {
            let [prev, next] = neighbours(members, self.rank);
            let blocks = [share.len(), shard(at(members, prev)), shard(local)];
            self.circle_scatter(next, blocks, Place::Send);
            self.elements(next, share.len() - shard(at(members, next)));
        }
        if let Some(owners) = hosts.owners().get(local).filter(|owners| owners.len() > 1) {
            let [prev, next] = neighbours(owners, self.rank);
            let block = |rank| part(shard(local), owners.len(), at(owners, rank)).len();
            let blocks = [shard(local), block(prev), block(self.rank)];
            self.circle_scatter(next, blocks, hosts.scattered_in(self.rank));
            self.elements(next, shard(local) - block(next));
        }
    }

    fn direct(&mut self) {
        let (rank, share, n_virtual) = (self.rank, self.layout.share().len(), self.scope.n_virtual);
        match self.primitive {
            Primitive::Reduce { root } if rank != root => self.elements(root, share * n_virtual),
            Primitive::Gather { root } if rank != root => self.elements(root, self.block(rank)),
            Primitive::Reduce { .. } | Primitive::Gather { .. } => {}
            Primitive::Broadcast { root } | Primitive::Scatter { root } if rank != root => {}
            Primitive::Broadcast { .. } => self.others().for_each(|peer| self.elements(peer, share)),
            Primitive::AllGather => self.others().for_each(|peer| self.elements(peer, self.block(rank))),
            Primitive::AllReduce => self.others().for_each(|peer| {
                self.elements(peer, n_virtual * self.block(peer) + self.block(rank));
            }),
            Primitive::ReduceScatter => {
                self.others().for_each(|peer| self.elements(peer, n_virtual * self.block(peer)));
            }
            _ => self.others().for_each(|peer| self.elements(peer, self.block(peer))),
        }
    }

    /// A value moves once between the holders of a node and of its parent, if they differ.
    fn fixed_tree(&mut self, count: usize) {
        let tree = FixedTree::new(self.primitive, count, self.scope);
        for (target, range) in tree.blocks() {
            self.below(&tree, tree.root(), target, range.len());
        }
        if self.primitive == Primitive::AllReduce {
            self.others().for_each(|peer| self.elements(peer, self.block(self.rank)));
        }
    }

    fn below(&mut self, tree: &FixedTree, node: Node, target: usize, len: usize) {
        let hosts = tree.hosts(node);
        if hosts.len() == 1 || !hosts.contains(&self.rank) {
            return;
        }
        let (left, right) = tree.halves(node);
        let holder = tree.holder(node, target);
        for half in std::iter::once(left).chain(right) {
            if tree.holder(half, target) == self.rank && holder != self.rank {
                if tree.is_single(half) {
                    self.elements(holder, len);
                } else {
                    self.partials(holder, len);
                }
            }
            self.below(tree, half, target, len);
        }
    }
}

/// The members before and after `rank` in a circle.
fn neighbours(members: &[usize], rank: usize) -> [usize; 2] {
    let at = members.iter().position(|member| *member == rank).unwrap_or(0);
    let n = members.len();
    [members[(at + n - 1) % n], members[(at + 1) % n]]
}

#[cfg(test)]
#[path = "bytes_tests.rs"]
mod tests;
