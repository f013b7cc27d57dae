//! The graph of who waits for whom while it is being made.

use std::collections::HashMap;

use super::places::{Place, Waiter};

/// A place, with those who wait there.
pub(super) struct Node<'s> {
    pub(super) place: Place,
    pub(super) waiters: Vec<Waiter<'s>>,
    /// Who has waited longest. Many ask, so it is known.
    pub(super) first: Option<Waiter<'s>>,
}

impl<'s> Node<'s> {
    fn new(place: Place, waiters: Vec<Waiter<'s>>) -> Self {
        let first = waiters.iter().min_by_key(|waiter| waiter.since_ours).copied();
        Self { place, waiters, first }
    }
}

/// A graph that grows.
pub(super) struct Building<'s> {
    n_processes: u32,
    pub(super) nodes: Vec<Node<'s>>,
    by_place: HashMap<Place, u32>,
    edges: Vec<(u32, u32)>,
}

impl<'s> Building<'s> {
    pub(super) fn new(n_processes: u32, waits: Vec<(Place, Vec<Waiter<'s>>)>) -> Self {
        let nodes: Vec<_> = waits.into_iter().map(|(place, waiters)| Node::new(place, waiters)).collect();
        let by_place = nodes.iter().zip(0..).map(|(node, index)| (node.place, index)).collect();
        Self { n_processes, nodes, by_place, edges: Vec::new() }
    }

    pub(super) fn connect_waiters(&mut self) {
        for (node, index) in self.nodes.iter().zip(0_u32..) {
            let waits = node.waiters.iter().map(|waiter| (waiter.process, self.n_processes + index));
            self.edges.extend(waits);
        }
    }

    /// The node of a place, made if there is none.
    pub(super) fn place(&mut self, place: Place) -> u32 {
        let next = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        let index = *self.by_place.entry(place).or_insert(next);
        if index == next {
            self.nodes.push(Node::new(place, Vec::new()));
        }
        self.n_processes + index
    }

    pub(super) fn wait(&mut self, from: u32, to: u32) {
        self.edges.push((from, to));
    }

    /// The place of a node. Absent: it is a process.
    pub(super) fn node(&self, node: u32) -> Option<&Node<'s>> {
        self.nodes.get(node.checked_sub(self.n_processes)? as usize)
    }

    /// Who waits for whom so far.
    pub(super) fn edges(&self) -> &[(u32, u32)] {
        &self.edges
    }

    /// The places, and who waits for whom, in order.
    pub(super) fn done(mut self) -> (Vec<Node<'s>>, Vec<(u32, u32)>) {
        self.edges.sort_unstable();
        self.edges.dedup();
        (self.nodes, self.edges)
    }
}
