//! Hierarchical all-reduce: reduce-scatter inside each host, all-reduce between hosts, all-gather inside each host.
//!
//! The buffer of S bytes is cut into G shards, G the fewest ranks that any host has. The first G ranks of each host own
//! one shard each; where a host has more, the others contribute and receive and own nothing. With m ranks on a host and k
//! hosts, all three stages are rings:
//!
//! | stage | steps | sent |
//! |---|---|---|
//! | inside | m−1 | by each rank S less its own shard: (m−1)/m·S where m = G |
//! | between | 2(k−1) | by each owner 2(k−1)/k of its shard: 2(k−1)/k·S per host |
//! | inside | m−1 | by each rank S less the next one's shard |
//!
//! So two hosts of two ranks send 1.0·S each to the other, where a flat ring sends 1.5·S; and latency grows with m + 2k
//! instead of 2mk. Hosts of one rank skip the inner stages, a single host the one between.
//!
//! The shards are cut from a channel's share, so which rank reduces an element depends on the number of channels.

use std::ops::Range;

use crate::collective::layout::{Layout, Partials, Scope};
use crate::collective::partition::part;
use crate::collective::primitive::Primitive;
use crate::collective::ring::{Circle, Operands, all_gather, reduce_scatter};
use crate::collective::schedule::{Chunk, Schedule, Step};
use crate::memory::Place;

/// The hierarchical algorithm on one channel.
#[derive(Debug)]
pub(crate) struct Hierarchical {
    share: Range<usize>,
    hosts: Hosts,
}

/// Ranks by host, in the order of the channel's ring, and by shard.
#[derive(Debug)]
pub(super) struct Hosts {
    /// Host of each rank, as an index of `members`.
    nodes: Vec<usize>,
    /// Ranks of each host.
    members: Vec<Vec<usize>>,
    /// The owners of each shard, one a host.
    owners: Vec<Vec<usize>>,
}

impl Hierarchical {
    /// An all-reduce of `count` elements.
    pub(crate) fn new(count: usize, scope: &Scope<'_>) -> Self {
        let share = Layout::new(Primitive::AllReduce, count, scope).share();
        Self { share, hosts: Hosts::new(scope) }
    }

    fn shard(&self, index: usize) -> Range<usize> {
        self.hosts.shard(&self.share, index)
    }

    /// Inside the host: this rank's shard, reduced; the result if there is no other host.
    fn scatter<'a>(&'a self, circle: Circle<'a>) -> impl Iterator<Item = Step> + 'a {
        let result_origin = (self.hosts.members.len() == 1).then_some(0);
        let operands =
            Operands { own: Place::Send, prev: Place::Send, partials: Partials::InPlace, result_origin };
        reduce_scatter(circle, |member| self.shard(member), operands)
    }

    /// Between hosts: this rank's shard, reduced over all its owners.
    fn between(&self, local: usize, rank: usize) -> impl Iterator<Item = Step> + '_ {
        let owners = &self.hosts.owners[local];
        let circle = Circle::new(owners, rank);
        let shard = self.shard(local);
        let block = move |host: usize| {
            let block = part(shard.len(), owners.len(), host);
            shard.start + block.start..shard.start + block.end
        };
        let own = Chunk::new(Place::Recv, &block(circle.position()));
        let operands = Operands {
            own: self.hosts.scattered_in(rank),
            prev: self.hosts.scattered_in(circle.prev()),
            partials: Partials::InPlace,
            result_origin: Some(0),
        };
        reduce_scatter(circle, block.clone(), operands).chain(all_gather(circle, own, block))
    }
}

impl Schedule for Hierarchical {
    fn steps(&self, rank: usize) -> Box<dyn Iterator<Item = Step> + '_> {
        let circle = Circle::new(self.hosts.of(rank), rank);
        let local = circle.position();
        let owns = local < self.hosts.owners.len() && self.hosts.members.len() > 1;
        let between = owns.then(|| self.between(local, rank));
        let own = Chunk::new(Place::Recv, &self.shard(local));
        let gathered = all_gather(circle, own, |member| self.shard(member));
        Box::new(self.scatter(circle).chain(between.into_iter().flatten()).chain(gathered))
    }
}

impl Hosts {
    /// Of a channel.
    pub(super) fn new(scope: &Scope<'_>) -> Self {
        let n_hosts = scope.nodes.iter().max().map_or(0, |node| node + 1);
        let mut members = vec![Vec::new(); n_hosts];
        scope.order.iter().for_each(|rank| members[scope.nodes[*rank]].push(*rank));
        let fewest = members.iter().map(Vec::len).min().unwrap_or(0);
        let owners = (0..fewest).map(|local| members.iter().map(|host| host[local]).collect()).collect();
        Self { nodes: scope.nodes.to_vec(), members, owners }
    }

    /// Ranks of the host of `rank`.
    pub(super) fn of(&self, rank: usize) -> &[usize] {
        &self.members[self.nodes[rank]]
    }

    /// Where the inner stage leaves a rank's shard.
    pub(super) fn scattered_in(&self, rank: usize) -> Place {
        if self.of(rank).len() == 1 { Place::Send } else { Place::Partial }
    }

    /// Shard `index` of `share`; ranks beyond the owners have empty ones.
    pub(super) fn shard(&self, share: &Range<usize>, index: usize) -> Range<usize> {
        if index >= self.owners.len() {
            return share.end..share.end;
        }
        let shard = part(share.len(), self.owners.len(), index);
        share.start + shard.start..share.start + shard.end
    }

    /// The owners of each shard, one a host.
    pub(super) fn owners(&self) -> &[Vec<usize>] {
        &self.owners
    }
}
