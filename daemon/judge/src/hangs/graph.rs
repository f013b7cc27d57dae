//! Who waits for whom, over all communicators, and who waits for nobody.
//!
//! Nodes are processes and the places where they wait; an edge leads from a process to the place it is in, and from a
//! place to each process that it waits for. Places of one communicator lead to each other in the order of their
//! numbers, so that there are never more edges than ranks, whatever they wait in. Those who are waited for and wait for
//! nobody are the sinks of the strongly connected components (Tarjan 1972, without recursion).

use std::collections::HashSet;

use super::absent;
use super::building::{Building, Node};
use super::places::{self, Place, Waiter};
use super::sight::Sight;

/// Who waits for whom.
pub(super) struct Graph<'s> {
    n_processes: u32,
    nodes: Vec<Node<'s>>,
    forward: Edges,
    backward: Edges,
}

/// Somebody who is waited for and waits for nobody, or several who wait for each other.
#[derive(Debug)]
pub(super) struct Sink {
    /// Nodes: processes, and from `n_processes` on places.
    pub(super) nodes: Vec<u32>,
}

/// A node as what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    Process(u32),
    /// Index in the nodes.
    Place(u32),
}

/// Adjacency, packed.
struct Edges {
    begins: Vec<u32>,
    ends: Vec<u32>,
}

impl<'s> Graph<'s> {
    /// `one_queue`: as if each process had one stream only, for GPUs may run all in the order of the calls.
    pub(super) fn new(sight: &Sight<'s, '_>, one_queue: bool) -> Self {
        let n_processes = u32::try_from(sight.scene.processes.len()).unwrap_or(u32::MAX);
        let heads: Vec<_> = (0..n_processes).map(|process| sight.heads_over(process, one_queue)).collect();
        let mut waits: Vec<(Place, Vec<Waiter<'s>>)> = places::waits(sight, &heads).into_iter().collect();
        waits.sort_by_key(|(place, _)| *place);
        let mut building = Building::new(n_processes, waits);
        building.connect_waiters();
        absent::connect(sight, &heads, &mut building);
        let (nodes, edges) = building.done();
        let n = n_processes as usize + nodes.len();
        let backward = Edges::new(n, edges.iter().map(|(from, to)| (*to, *from)));
        let forward = Edges::new(n, edges.iter().copied());
        Self { n_processes, nodes, forward, backward }
    }

    pub(super) fn at(&self, node: u32) -> At {
        if node < self.n_processes { At::Process(node) } else { At::Place(node - self.n_processes) }
    }

    pub(super) fn node(&self, index: u32) -> &Node<'s> {
        &self.nodes[index as usize]
    }

    /// The places that wait for this node themselves, not through others.
    pub(super) fn places_before(&self, node: u32) -> Vec<u32> {
        let mut places = Vec::new();
        for before in self.backward.of(node) {
            let At::Place(index) = self.at(*before) else { continue };
            match self.node(index).place {
                // The chain above it belongs to the place of the same number, which is the first that leads here.
                Place::Behind { communicator, number } => {
                    let own = Place::Collective { communicator, number };
                    places.extend(self.backward.of(*before).iter().filter_map(
                        |above| match self.at(*above) {
                            At::Place(above) if self.node(above).place == own => Some(above),
                            _ => None,
                        },
                    ));
                }
                _ => places.push(index),
            }
        }
        places.sort_unstable();
        places.dedup();
        places
    }

    /// The places in which those are for whom this one waits.
    pub(super) fn places_after(&self, place: u32) -> Vec<u32> {
        let mut places = Vec::new();
        let mut seen = HashSet::new();
        let mut next = vec![self.place_node(place)];
        while let Some(node) = next.pop() {
            for to in self.forward.of(node) {
                match self.at(*to) {
                    At::Process(process) => places.extend(self.places_of(process)),
                    At::Place(between) => next.extend(seen.insert(between).then_some(*to)),
                }
            }
        }
        places.sort_unstable();
        places.dedup();
        places
    }

    /// The places that this process waits in.
    pub(super) fn places_of(&self, process: u32) -> impl Iterator<Item = u32> {
        self.forward.of(process).iter().filter_map(|node| match self.at(*node) {
            At::Place(index) => Some(index),
            At::Process(_) => None,
        })
    }

    pub(super) fn place_node(&self, index: u32) -> u32 {
        self.n_processes + index
    }

    /// The nodes of the places for which this holds.
    pub(super) fn places_where(&self, holds: impl Fn(Place) -> bool) -> Vec<u32> {
        let all = self.nodes.iter().zip(self.n_processes..);
        all.filter(|(node, _)| holds(node.place)).map(|(_, node)| node).collect()
    }

    /// All processes from which one of these nodes is reached, ascending, without `except`.
    pub(super) fn victims(&self, nodes: &[u32], except: &[u32]) -> Vec<u32> {
        let mut seen = vec![false; self.n_processes as usize + self.nodes.len()];
        let mut next: Vec<u32> = nodes.to_vec();
        for node in nodes {
            seen[*node as usize] = true;
        }
        while let Some(node) = next.pop() {
            for before in self.backward.of(node) {
                if !std::mem::replace(&mut seen[*before as usize], true) {
                    next.push(*before);
                }
            }
        }
        let reached = (0..self.n_processes).filter(|process| seen[*process as usize]);
        let is_waiting = |process: &u32| !self.forward.of(*process).is_empty();
        reached.filter(is_waiting).filter(|process| except.binary_search(process).is_err()).collect()
    }

    /// Those who are waited for, or wait, and from whom nothing leads out.
    pub(super) fn sinks(&self) -> Vec<Sink> {
        let (component, count) = self.components();
        let mut leads_out = vec![false; count];
        let mut members: Vec<Vec<u32>> = vec![Vec::new(); count];
        for (node, own) in (0_u32..).zip(&component) {
            members[*own].push(node);
            if self.forward.of(node).iter().any(|to| component[*to as usize] != *own) {
                leads_out[*own] = true;
            }
        }
        let is_idle = |nodes: &[u32]| {
            nodes.iter().all(|node| *node < self.n_processes && self.backward.of(*node).is_empty())
        };
        let sinks = members.into_iter().zip(leads_out).filter(|(nodes, out)| !out && !is_idle(nodes));
        sinks.map(|(nodes, _)| Sink { nodes }).collect()
    }

    /// The strongly connected component of each node, and how many there are.
    fn components(&self) -> (Vec<usize>, usize) {
        let n = self.n_processes as usize + self.nodes.len();
        let mut walk =
            Walk { order: vec![0; n], low: vec![0; n], component: vec![usize::MAX; n], ..Walk::default() };
        for root in 0..n {
            if walk.order[root] == 0 {
                walk.from(u32::try_from(root).unwrap_or(u32::MAX), &self.forward);
            }
        }
        (walk.component, walk.n_components)
    }
}

/// Tarjan's walk: the stack of the recursion is `path`.
#[derive(Default)]
struct Walk {
    /// When each was found, from 1 on; 0: not yet.
    order: Vec<u32>,
    low: Vec<u32>,
    component: Vec<usize>,
    n_components: usize,
    n_found: u32,
    open: Vec<u32>,
    path: Vec<(u32, usize)>,
}

impl Walk {
    fn from(&mut self, root: u32, edges: &Edges) {
        self.enter(root);
        while let Some((node, next)) = self.path.last_mut() {
            let (node, at) = (*node, *next);
            *next += 1;
            match edges.of(node).get(at) {
                Some(to) if self.order[*to as usize] == 0 => self.enter(*to),
                Some(to) if self.component[*to as usize] == usize::MAX => {
                    self.low[node as usize] = self.low[node as usize].min(self.order[*to as usize]);
                }
                Some(_) => {}
                None => self.leave(node),
            }
        }
    }

    fn enter(&mut self, node: u32) {
        self.n_found += 1;
        self.order[node as usize] = self.n_found;
        self.low[node as usize] = self.n_found;
        self.open.push(node);
        self.path.push((node, 0));
    }

    fn leave(&mut self, node: u32) {
        self.path.pop();
        if let Some((above, _)) = self.path.last() {
            self.low[*above as usize] = self.low[*above as usize].min(self.low[node as usize]);
        }
        if self.low[node as usize] == self.order[node as usize] {
            while let Some(done) = self.open.pop() {
                self.component[done as usize] = self.n_components;
                if done == node {
                    break;
                }
            }
            self.n_components += 1;
        }
    }
}

impl Edges {
    fn new(n: usize, edges: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut begins = vec![0_u32; n + 1];
        for (from, _) in edges.clone() {
            begins[from as usize + 1] += 1;
        }
        for at in 1..begins.len() {
            begins[at] += begins[at - 1];
        }
        let mut next = begins.clone();
        let mut ends = vec![0; begins.last().copied().unwrap_or_default() as usize];
        for (from, to) in edges {
            let at = &mut next[from as usize];
            ends[*at as usize] = to;
            *at += 1;
        }
        Self { begins, ends }
    }

    fn of(&self, node: u32) -> &[u32] {
        let node = node as usize;
        &self.ends[self.begins[node] as usize..self.begins[node + 1] as usize]
    }
}
