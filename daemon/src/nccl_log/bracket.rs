//! One init: the lines of one thread from "Init START" to "Init COMPLETE" (up to 2.17, which has no START: from the
//! first line about a communicator).

use std::collections::BTreeMap;

use super::facts::{CommunicatorFacts, Hop, RingFact};
use super::formats::{Message, Via};
use super::init_line::{InitLine, bus_id_text};

/// Channels beyond which a line is not believed (NCCL's MAXCHANNELS is 64).
const MAX_CHANNELS: u32 = 256;
/// Graph searches kept: NCCL makes at most six.
const MAX_SEARCHES: usize = 16;
/// Connections kept per init.
const MAX_SENDS: usize = 4096;

/// NCCL's code of the ring search; see `ncclTopoGraph` in `src/include/graph.h`.
const PATTERN_RING: u32 = 4;

/// What the lines of one init have said so far.
#[derive(Debug, Default)]
pub(super) struct Bracket {
    pub(super) started: Option<InitLine>,
    n_nodes: Option<u32>,
    searches: Vec<(u32, u32)>,
    rings: BTreeMap<u32, (u32, u32)>,
    orders: BTreeMap<u32, Vec<u32>>,
    order_channels: Option<u32>,
    agreed: Option<u32>,
    sends: Vec<(u32, u32, u32, Via)>,
}

/// NICs of a process: net plugin to index to name.
pub(super) type Nics = BTreeMap<String, BTreeMap<u32, String>>;

impl Bracket {
    /// An init that begins with this line.
    pub(super) fn started(line: InitLine) -> Self {
        Self { started: Some(line), ..Self::default() }
    }

    /// Takes a line of this init.
    pub(super) fn add(&mut self, message: Message) {
        match message {
            Message::Nodes { n_nodes } => self.n_nodes = Some(n_nodes),
            Message::Search { pattern, channels } if self.searches.len() < MAX_SEARCHES => {
                self.searches.push((pattern, channels));
            }
            Message::Ring { channel, prev, next, .. } if channel < MAX_CHANNELS => {
                self.rings.insert(channel, (prev, next));
            }
            Message::Order { channel, of, ranks } if channel < MAX_CHANNELS => {
                self.order_channels = Some(of);
                self.orders.extend(ranks.map(|ranks| (channel, ranks)));
            }
            Message::Final { channels } => self.agreed = Some(channels),
            Message::Send { channel, from, to, via, .. } if self.sends.len() < MAX_SENDS => {
                self.sends.push((channel, from, to, via));
            }
            _ => {}
        }
    }

    /// What the init has said. `line` names the communicator.
    pub(super) fn facts(self, line: &InitLine, nics: &Nics) -> CommunicatorFacts {
        let mut facts = CommunicatorFacts {
            comm_pointer: line.pointer,
            comm_hash: line.comm_hash,
            rank: line.rank,
            n_ranks: line.n_ranks,
            n_nodes: self.n_nodes,
            bus_id: line.bus_id.map(bus_id_text),
            cuda_device: line.cuda_device,
            init_channels: self.init_channels(),
            final_channels: self.agreed.or(self.order_channels),
            rings: self.rings(line),
            ..CommunicatorFacts::default()
        };
        for (channel, from, to, via) in self.sends {
            if from == facts.rank && facts.next_on(channel) == Some(to) {
                facts.hops.entry(channel).or_insert_with(|| hop(via, nics));
            }
        }
        facts
    }

    /// min(ring, tree): the first ring search and the tree search after it; later ones are NVLS and CollNet.
    fn init_channels(&self) -> Option<u32> {
        let ring = self.searches.iter().position(|(pattern, _)| *pattern == PATTERN_RING)?;
        let tree = self.searches[ring + 1..].iter().find(|(pattern, _)| matches!(pattern, 1..=3))?;
        Some(self.searches[ring].1.min(tree.1))
    }

    /// From the "Ring" lines; where there are none (INIT without GRAPH), rank 0 has its place from the order it prints.
    fn rings(&self, line: &InitLine) -> Vec<RingFact> {
        let ring = |(channel, (prev, next)): (&u32, &(u32, u32))| RingFact {
            channel: *channel,
            prev: *prev,
            next: *next,
        };
        let believed = |ring: &RingFact| ring.prev < line.n_ranks && ring.next < line.n_ranks;
        if !self.rings.is_empty() {
            return self.rings.iter().map(ring).filter(believed).collect();
        }
        self.orders
            .iter()
            .filter(|(_, ranks)| ranks.len() == line.n_ranks as usize)
            .filter_map(|(channel, ranks)| place(*channel, ranks, line.rank))
            .filter(believed)
            .collect()
    }
}

/// The place of `rank` in a ring given as the order of its ranks.
fn place(channel: u32, ranks: &[u32], rank: u32) -> Option<RingFact> {
    let at = ranks.iter().position(|other| *other == rank)?;
    let prev = ranks[(at + ranks.len() - 1) % ranks.len()];
    Some(RingFact { channel, prev, next: ranks[(at + 1) % ranks.len()] })
}

/// The hop with the NIC's name, where the process has listed it. A plugin may list its NICs under another name than it
/// gives its connections (`NET/IB : Using …` and `via NET/IBext_v10/0`).
pub(super) fn hop(via: Via, nics: &Nics) -> Hop {
    let Via { mut hop, device } = via;
    let net = hop.transport.strip_prefix("NET/");
    let listed = net.and_then(|net| {
        let same = |name: &&String| net == name.as_str() || net.starts_with(&format!("{name}ext"));
        nics.get(nics.keys().find(same)?)
    });
    hop.nic = device.and_then(|device| listed?.get(&device).cloned());
    hop
}
