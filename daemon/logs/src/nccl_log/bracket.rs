//! One init: the lines of one thread from "Init START" to "Init COMPLETE" (up to 2.17, which has no START: from the
//! first line about a communicator).

use std::collections::BTreeMap;

use super::facts::{CommunicatorFacts, Evidence, Hop, RingFact, RowFact, Searched, TreeFact};
use super::formats::{Connection, Counts, Direction, Message, Nodes, Row, RowGpu};
use super::init_line::{InitLine, bus_id_text};

/// Channels beyond which a line is not believed (NCCL's MAXCHANNELS is 64).
const MAX_CHANNELS: u32 = 256;
/// Graph searches kept: NCCL makes at most six.
const MAX_SEARCHES: usize = 16;
/// Connections kept per init.
const MAX_CONNECTIONS: usize = 4096;
/// Rows of a search kept: NCCL's MAXCHANNELS.
const MAX_ROWS: u32 = 64;
/// GPUs of a node kept per init.
const MAX_GPUS: usize = 512;
/// Lines kept as proof per init, as many as a batch takes.
pub(super) const MAX_EVIDENCE: usize = 64;
/// Of these, warnings.
const MAX_WARNINGS: usize = 4;
/// Bytes of a line kept as proof.
const MAX_EVIDENCE_BYTES: usize = 240;

/// NCCL's code of the ring search; see `ncclTopoGraph` in `src/include/graph.h`.
const PATTERN_RING: u32 = 4;
/// Codes of the tree search.
const PATTERNS_TREE: std::ops::RangeInclusive<u32> = 1..=3;

/// A line as it stands in the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'l> {
    pub(super) number: u64,
    pub(super) text: &'l str,
}

impl Line<'_> {
    pub(super) fn proves(self, fact: impl Into<String>) -> Evidence {
        let end = self.text.floor_char_boundary(MAX_EVIDENCE_BYTES);
        Evidence { fact: fact.into(), line: self.number, text: self.text[..end].to_owned() }
    }
}

/// What the lines of one init have said so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Bracket {
    pub(super) started: Option<InitLine>,
    pub(super) cuda_device: Option<u32>,
    failed: bool,
    fell_back: bool,
    nodes: Option<Nodes>,
    searches: Vec<Search>,
    rank: Option<u32>,
    rings: BTreeMap<u32, (u32, u32)>,
    trees: BTreeMap<u32, TreeFact>,
    orders: BTreeMap<u32, Vec<u32>>,
    order_channels: Option<u32>,
    agreed: Option<Counts>,
    connections: Vec<Connection>,
    gpus: BTreeMap<u32, u64>,
    evidence: Vec<Evidence>,
    warnings: usize,
}

#[derive(Clone, Debug)]
struct Search {
    pattern: u32,
    channels: u32,
    bandwidth: Option<(f64, f64)>,
    rows: Vec<Row>,
}

/// NICs of a process: net plugin to index to name.
pub(super) type Nics = BTreeMap<String, BTreeMap<u32, String>>;

impl Bracket {
    /// An init that begins with this line.
    pub(super) fn started(init: InitLine, line: Line<'_>) -> Self {
        Self { evidence: vec![line.proves("start")], started: Some(init), ..Self::default() }
    }

    /// Takes a line of this init, and returns how much there is more to hold.
    pub(super) fn add(&mut self, message: Message, line: Line<'_>) -> usize {
        let held = self.held();
        match message {
            Message::Nodes(nodes) => {
                self.nodes = Some(nodes);
                self.prove("nodes", line);
            }
            Message::Search { pattern, channels, bandwidth } if self.searches.len() < MAX_SEARCHES => {
                self.search(Search { pattern, channels, bandwidth, rows: Vec::new() }, line);
            }
            Message::Row(row) => {
                let search = self.searches.last_mut();
                // As many as the line before them says; what follows a search that is not kept belongs to none.
                if let Some(search) =
                    search.filter(|search| search.rows.len() < search.channels.min(MAX_ROWS) as usize)
                {
                    search.rows.push(row);
                }
            }
            Message::Trees(trees) => {
                let places = trees.into_iter().filter(|(channel, _)| *channel < MAX_CHANNELS);
                self.trees = places.collect();
            }
            Message::FellBack { pattern } if pattern == PATTERN_RING || PATTERNS_TREE.contains(&pattern) => {
                self.fell_back = true;
                self.prove("fallback", line);
            }
            Message::Ring { channel, prev, rank, next } if channel < MAX_CHANNELS => {
                self.rank.get_or_insert(rank);
                self.rings.insert(channel, (prev, next));
            }
            Message::Order { channel, of, ranks } if channel < MAX_CHANNELS => {
                self.order_channels = Some(of);
                self.orders.extend(ranks.map(|ranks| (channel, ranks)));
            }
            Message::Final(counts) => {
                self.agreed = Some(counts);
                self.prove("final", line);
            }
            Message::Gpu { rank, bus_id } if self.gpus.len() < MAX_GPUS => {
                self.gpus.insert(rank, bus_id);
            }
            Message::Connection(connection) if self.connections.len() < MAX_CONNECTIONS => {
                self.connect(connection, line);
            }
            Message::Returned => {
                self.failed = true;
                self.warn(line);
            }
            _ => {}
        }
        // A ring told again may be shorter than before.
        self.held().saturating_sub(held)
    }

    /// Keeps the first lines that say why an init failed.
    pub(super) fn warn(&mut self, line: Line<'_>) {
        if self.warnings < MAX_WARNINGS {
            self.warnings += 1;
            self.prove("warning", line);
        }
    }

    /// About how many small things this holds.
    pub(super) fn held(&self) -> usize {
        let orders: usize = self.orders.values().map(|ranks| 1 + ranks.len() / 16).sum();
        let rows = self.searches.iter().flat_map(|search| &search.rows);
        let rows: usize = rows.map(|row| 1 + row.gpus.len() / 16).sum();
        4 + rows
            + self.trees.len() / 2
            + self.rings.len() / 2
            + orders
            + self.connections.len()
            + self.gpus.len() / 2
            + 2 * self.evidence.len()
    }

    fn prove(&mut self, fact: impl Into<String>, line: Line<'_>) {
        if self.evidence.len() < MAX_EVIDENCE {
            self.evidence.push(line.proves(fact));
        }
    }

    fn search(&mut self, search: Search, line: Line<'_>) {
        let first = |fits: fn(u32) -> bool| {
            fits(search.pattern) && !self.searches.iter().any(|other| fits(other.pattern))
        };
        if first(|pattern| pattern == PATTERN_RING) {
            self.prove("init", line);
        } else if first(|pattern| PATTERNS_TREE.contains(&pattern)) {
            self.prove("tree", line);
        }
        self.searches.push(search);
    }

    fn connect(&mut self, connection: Connection, line: Line<'_>) {
        let same = |other: &Connection| {
            other.direction == connection.direction
                && other.index == connection.index
                && other.hop == connection.hop
        };
        if connection.index == 0 && !self.connections.iter().rev().any(same) {
            self.prove(evidence_of(&connection), line);
        }
        self.connections.push(connection);
    }

    /// Whether anything was said that is worth telling without knowing the communicator.
    pub(super) fn is_fragment(&self) -> bool {
        self.started.is_none()
            && (!self.searches.is_empty()
                || !self.rings.is_empty()
                || !self.connections.is_empty()
                || self.agreed.is_some()
                || self.nodes.is_some())
    }

    /// The rank that the lines tell without naming the communicator.
    pub(super) fn rank(&self) -> Option<u32> {
        let connected = self.connections.first().map(Connection::own_rank);
        self.nodes.map(|nodes| nodes.rank).or(self.rank).or(connected)
    }

    /// The communicator as far as lines other than the init's first and last name it.
    pub(super) fn implied(&self) -> InitLine {
        let nodes = self.nodes.unwrap_or_default();
        // The bus id of a GPU is no such small number: a host bridge is there.
        let device = self.connections.first().and_then(|connection| connection.device);
        InitLine {
            nvml_device: device.filter(|device| Some(*device) == self.cuda_device),
            pointer: nodes.pointer,
            rank: self.rank().unwrap_or_default(),
            n_ranks: nodes.n_ranks,
            cuda_device: self.cuda_device,
            ..InitLine::default()
        }
    }

    /// What the init has said. `init` names the communicator.
    pub(super) fn facts(self, init: &InitLine, nics: &Nics) -> CommunicatorFacts {
        let counts = self.agreed.unwrap_or_default();
        let ring = self.searches.iter().find(|search| search.pattern == PATTERN_RING);
        let bus_id = init.bus_id.or_else(|| self.gpus.get(&init.rank).copied());
        let started = self.started.as_ref();
        let mut facts = CommunicatorFacts {
            comm_pointer: init.pointer,
            comm_hash: init.comm_hash.or_else(|| started?.comm_hash),
            rank: init.rank,
            n_ranks: init.n_ranks,
            n_nodes: self.nodes.map(|nodes| nodes.n_nodes),
            local_ranks: self.nodes.map_or_else(|| self.ranks_of_topology(), |nodes| nodes.local_ranks),
            local_rank: self.nodes.map_or_else(|| self.rank_in_topology(init.rank), |nodes| nodes.local_rank),
            mnnvl: self.nodes.and_then(|nodes| nodes.mnnvl),
            api: init.api.clone(),
            parent_pointer: init.parent,
            child_count: init.child_count,
            color: init.color,
            bus_id: bus_id.map(bus_id_text),
            cuda_device: init.cuda_device,
            nvml_device: init.nvml_device,
            init_channels: self.init_channels(),
            ring_bw_intra: ring.and_then(|search| search.bandwidth).map(|(intra, _)| intra),
            ring_bw_inter: ring.and_then(|search| search.bandwidth).map(|(_, inter)| inter),
            search_fell_back: self.fell_back,
            final_channels: self.agreed.map(|counts| counts.collective),
            collnet_channels: counts.collnet,
            nvls_channels: counts.nvls,
            p2p_channels: counts.p2p.zip(counts.p2p_per_peer),
            printed_channels: self.order_channels,
            rings: self.rings(init),
            searched: self.searched(init),
            failed: self.failed,
            evidence: self.evidence,
            ..CommunicatorFacts::default()
        };
        let n_ranks = init.n_ranks as usize;
        facts.trees = self.trees.into_iter().filter(|(_, tree)| tree.rank == init.rank).collect();
        facts.orders = self.orders.into_iter().filter(|(_, ranks)| ranks.len() == n_ranks).collect();
        for connection in self.connections {
            connected(&mut facts, connection, nics);
        }
        facts
    }

    /// The topology names the ranks of the node's GPUs.
    fn ranks_of_topology(&self) -> Option<u32> {
        u32::try_from(self.gpus.len()).ok().filter(|ranks| *ranks > 0)
    }

    fn rank_in_topology(&self, rank: u32) -> Option<u32> {
        let at = self.gpus.keys().position(|other| *other == rank)?;
        u32::try_from(at).ok()
    }

    /// Rows with the ranks of their GPUs; without those of which one is not known.
    fn searched(&self, init: &InitLine) -> Searched {
        let rank_of = |bus_id: u64| {
            let own = (init.bus_id == Some(bus_id)).then_some(init.rank);
            own.or_else(|| self.gpus.iter().find(|(_, other)| **other == bus_id).map(|(rank, _)| *rank))
        };
        let fact = |row: &Row| {
            let ranks = row.gpus.iter().map(|gpu| match gpu {
                RowGpu::Rank(rank) => Some(*rank),
                RowGpu::Bus(bus_id) => rank_of(*bus_id),
            });
            let ranks: Vec<u32> = ranks.collect::<Option<_>>()?;
            let fits = |rank: &u32| init.n_ranks == 0 || *rank < init.n_ranks;
            let (enter, leave) = (row.enter.clone(), row.leave.clone());
            ranks.iter().all(fits).then_some(RowFact { ranks, enter, leave })
        };
        let rows = |search: Option<&Search>| -> Vec<RowFact> {
            search.into_iter().flat_map(|search| &search.rows).filter_map(fact).collect()
        };
        let ring = self.searches.iter().find(|search| search.pattern == PATTERN_RING);
        let tree = self.searches.iter().find(|search| PATTERNS_TREE.contains(&search.pattern));
        Searched { rings: rows(ring), trees: rows(tree) }
    }

    /// min(ring, tree): the first ring search and the tree search after it (2.5: before it); later ones are NVLS and
    /// CollNet.
    fn init_channels(&self) -> Option<u32> {
        let ring = self.searches.iter().position(|search| search.pattern == PATTERN_RING)?;
        let (before, after) = self.searches.split_at(ring);
        let is_tree = |search: &&Search| PATTERNS_TREE.contains(&search.pattern);
        let tree = after.iter().find(is_tree).or_else(|| before.iter().find(is_tree))?;
        Some(self.searches[ring].channels.min(tree.channels))
    }

    /// From the "Ring" lines; on channels without one (INIT without GRAPH, torn lines) rank 0 has its place from the order
    /// that it prints.
    fn rings(&self, init: &InitLine) -> Vec<RingFact> {
        let ring = |(channel, (prev, next)): (&u32, &(u32, u32))| RingFact {
            channel: *channel,
            prev: *prev,
            next: *next,
        };
        // Without a number of ranks (GRAPH alone) nothing bounds them.
        let believed =
            |ring: &RingFact| init.n_ranks == 0 || ring.prev < init.n_ranks && ring.next < init.n_ranks;
        let ordered = self.orders.iter().filter(|(channel, ranks)| {
            ranks.len() == init.n_ranks as usize && !self.rings.contains_key(*channel)
        });
        let ordered = ordered.filter_map(|(channel, ranks)| place(*channel, ranks, init.rank));
        let mut rings: Vec<RingFact> = self.rings.iter().map(ring).chain(ordered).filter(believed).collect();
        rings.sort_by_key(|ring| ring.channel);
        rings
    }
}

/// Counts a connection of this rank, and keeps the path if it lies on a ring. Returns whether it is the first of its
/// kind.
pub(super) fn connected(facts: &mut CommunicatorFacts, connection: Connection, nics: &Nics) -> bool {
    let Connection { channel, index, from, to, direction, hop, .. } = connection;
    let hop = named(hop, nics);
    facts.nics_used.extend(hop.nic_index);
    facts.proxy_ranks.extend(hop.proxy_rank);
    let kind = kind_of(&hop, direction, index);
    let count = facts.connections.entry(kind).or_default();
    *count += 1;
    let is_new = *count == 1;
    if index != 0 {
        return is_new;
    }
    let prev = facts.rings.iter().find(|ring| ring.channel == channel).map(|ring| ring.prev);
    match direction {
        Direction::Receive if to == facts.rank && prev == Some(from) => {
            facts.recv_hops.entry(channel).or_insert(hop);
        }
        Direction::Receive
            if to == facts.rank && prev.is_none() && facts.recv_edge_hops.len() < MAX_CONNECTIONS =>
        {
            facts.recv_edge_hops.entry((channel, from)).or_insert(hop);
        }
        Direction::Send | Direction::Both if from == facts.rank => {
            if facts.edges.len() < MAX_CONNECTIONS && !facts.edges.contains(&(channel, to)) {
                facts.edges.push((channel, to));
            }
            match facts.next_on(channel) {
                Some(next) if next == to => {
                    facts.hops.entry(channel).or_insert(hop);
                }
                None if facts.edge_hops.len() < MAX_CONNECTIONS => {
                    facts.edge_hops.entry((channel, to)).or_insert(hop);
                }
                _ => {}
            }
        }
        _ => {}
    }
    is_new
}

/// In the words of [`CommunicatorFacts::connections`].
pub(super) fn kind_of(hop: &Hop, direction: Direction, index: u32) -> String {
    let end = match direction {
        Direction::Send => " send",
        Direction::Receive => " receive",
        Direction::Both => "",
    };
    if index == 0 {
        return [&hop.transport, end].concat();
    }
    format!("{}{end} (p2p conn /{index})", hop.transport)
}

/// Name of the proof of a connection, in the words of `batch.proto`.
pub(super) fn evidence_of(connection: &Connection) -> String {
    let end = if connection.direction == Direction::Receive { "recv" } else { "send" };
    format!("{end}/{}", connection.channel)
}

/// The place of `rank` in a ring given as the order of its ranks.
fn place(channel: u32, ranks: &[u32], rank: u32) -> Option<RingFact> {
    let at = ranks.iter().position(|other| *other == rank)?;
    let prev = ranks[(at + ranks.len() - 1) % ranks.len()];
    Some(RingFact { channel, prev, next: ranks[(at + 1) % ranks.len()] })
}

/// The hop with the NIC's name, where the process has listed it. A plugin may list its NICs under another name than it
/// gives its connections (`NET/IB : Using …` and `via NET/IBext_v10/0`).
pub(super) fn named(hop: Hop, nics: &Nics) -> Hop {
    let net = hop.transport.strip_prefix("NET/");
    let listed = net.and_then(|net| {
        let same = |name: &&String| {
            net.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with("ext"))
        };
        nics.get(nics.keys().find(same)?)
    });
    let nic = hop.nic_index.and_then(|index| listed?.get(&index).cloned());
    Hop { nic, ..hop }
}
