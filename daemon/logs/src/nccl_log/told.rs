//! Facts in the words of the batch: what the agent sends of a live log and an import of an old one.

use ringscope_wire::batch::{self, RingPosition};

use super::facts::{CommunicatorFacts, RingFact, RowFact, TreeFact};

impl CommunicatorFacts {
    /// A place on a ring of this rank, with how it reaches the next one and hears from the one before.
    pub fn position(&self, ring: &RingFact) -> RingPosition {
        let hop = self.hops.get(&ring.channel).or_else(|| self.edge_hops.get(&(ring.channel, ring.next)));
        let hop = hop.cloned().unwrap_or_default();
        let recv = self.recv_hops.get(&ring.channel);
        let recv = recv.or_else(|| self.recv_edge_hops.get(&(ring.channel, ring.prev)));
        let recv = recv.cloned().unwrap_or_default();
        RingPosition {
            channel: ring.channel,
            prev: ring.prev,
            next: ring.next,
            transport: hop.transport,
            nic: hop.nic.unwrap_or_default(),
            gpu_direct: hop.gpu_direct,
            recv_nic: recv.nic.unwrap_or_default(),
            nic_index: hop.nic_index,
            recv_nic_index: recv.nic_index,
            proxy_rank: hop.proxy_rank,
        }
    }

    /// What the searches of its node found, and its trees. `None`: the log does not say.
    pub fn graphs(&self) -> Option<batch::Graphs> {
        let row = |row: &RowFact| batch::GraphRow {
            ranks: row.ranks.clone(),
            enter: row.enter.clone().unwrap_or_default(),
            leave: row.leave.clone().unwrap_or_default(),
        };
        let place = |(channel, tree): (&u32, &TreeFact)| batch::TreePosition {
            channel: *channel,
            up: tree.up,
            down: tree.down.clone(),
        };
        let graphs = batch::Graphs {
            rings: self.searched.rings.iter().map(row).collect(),
            trees: self.searched.trees.iter().map(row).collect(),
            places: self.trees.iter().map(place).collect(),
        };
        (graphs != batch::Graphs::default()).then_some(graphs)
    }

    /// The lines that prove the facts, of a log that its reader knows as `file`.
    pub fn evidence_in(&self, file: &str) -> impl Iterator<Item = batch::Evidence> {
        self.evidence.iter().map(move |line| batch::Evidence {
            fact: line.fact.clone(),
            file: file.to_owned(),
            line: line.line,
            text: line.text.clone(),
        })
    }
}
