//! What the log says of connections on a described machine: at init, or with the first collective that needs them. Each is
//! told once, though rings and trees may share it (`src/transport.cc`, `ncclTransportP2pSetup`).

use std::collections::HashSet;

use crate::channels::Limits;
use crate::log::lines::Identity;
use crate::log::{machine, subsystem};
use crate::topology::machine::described::Described;
use crate::topology::machine::transports::{Ends, GraphKind, NcclTransport};
use crate::topology::machine::{pairs, trees};
use crate::topology::settings::MachineSettings;
use crate::topology::{RingPlace, Topology};

/// Subsystem and text of a line.
pub(crate) type Line = (u64, String);

/// What has been told so far.
#[derive(Debug, Default)]
pub(crate) struct Wiring {
    /// By peer, channel, whether this rank sends, and whether it is for send and receive.
    known: HashSet<(usize, usize, bool, bool)>,
    rings: bool,
    trees: bool,
    nvls: bool,
}

/// A rank and what is known of its communicator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own<'a> {
    /// The names of its lines.
    pub(crate) identity: &'a Identity,
    /// The communicator's machines.
    pub(crate) machine: &'a Described,
    /// The channels that the search found, and what the final ones are of these.
    pub(crate) topology: &'a Topology,
    /// Its place on each ring.
    pub(crate) rings: &'a [RingPlace],
    /// Whether GPUs share memory by cuMem.
    pub(crate) cumem: bool,
    /// Channels of NVLS; 0 without it.
    pub(crate) nvls_channels: usize,
}

impl<'a> Own<'a> {
    /// Of a rank of a communicator that has these settings and this configuration.
    pub(crate) fn new(
        (machine, topology): (&'a Described, &'a Topology),
        (identity, rings): (&'a Identity, &'a [RingPlace]),
        settings: &MachineSettings,
        limits: Limits,
    ) -> Self {
        Self {
            identity,
            machine,
            topology,
            rings,
            cumem: settings.cumem && !machine.is_amd(),
            nvls_channels: if settings.nvls { machine.nvls_channels(limits) } else { 0 },
        }
    }
}

impl Wiring {
    /// The lines of the rings' connections; none if they are connected.
    pub(crate) fn rings(&mut self, own: &Own<'_>) -> Vec<Line> {
        if std::mem::replace(&mut self.rings, true) || own.identity.n_ranks == 1 {
            return Vec::new();
        }
        let recvs = own.rings.iter().enumerate().map(|(channel, ring)| (ring.prev(), channel, false));
        let sends = own.rings.iter().enumerate().map(|(channel, ring)| (ring.next(), channel, true));
        let mut lines = self.connect(own, recvs.chain(sends).collect(), Some(GraphKind::Rings));
        let (proxies, gdr) = own.machine.ring_nets();
        lines.push((subsystem::INIT, machine::connected_rings(proxies, gdr)));
        lines
    }

    /// The lines of the trees' connections; none if they are connected.
    pub(crate) fn trees(&mut self, own: &Own<'_>) -> Vec<Line> {
        if std::mem::replace(&mut self.trees, true) || own.identity.n_ranks == 1 {
            return Vec::new();
        }
        let mut wanted = Vec::new();
        for (channel, (up, down)) in own.trees().into_iter().enumerate() {
            for peer in down.into_iter().chain([up]).flatten() {
                wanted.extend([(peer, channel, false), (peer, channel, true)]);
            }
        }
        let mut lines = self.connect(own, wanted, Some(GraphKind::Trees));
        lines.push((subsystem::INIT, "Connected all trees".to_owned()));
        lines
    }

    /// The lines of NVLS: its memory, and between nodes the connections of its heads.
    pub(crate) fn nvls(&mut self, own: &Own<'_>) -> Vec<Line> {
        if std::mem::replace(&mut self.nvls, true) || own.nvls_channels == 0 || own.identity.n_ranks == 1 {
            return Vec::new();
        }
        let node = own.machine.node(own.identity.rank);
        let heads = own.machine.view(node).heads();
        let head = heads.iter().position(|local| *local == own.machine.local(own.identity.rank));
        let local_ranks = own.machine.members(node).len();
        let memory = machine::nvls_buffers(own.identity, head, heads.len(), local_ranks, own.nvls_channels);
        let mut lines = vec![(subsystem::INIT | subsystem::NVLS, memory)];
        if own.machine.n_nodes() > 1 {
            let mut wanted = Vec::new();
            for channel in (0..own.nvls_channels).filter(|_| head.is_some()) {
                let peers = trees::nodes_around(own.machine.n_nodes(), node, channel % 2);
                let of = |node: usize| {
                    let local = *own.machine.view(node).heads().get(head?)?;
                    Some(own.machine.rank(node, local))
                };
                for peer in peers.into_iter().filter_map(of) {
                    wanted.extend([(peer, channel, false), (peer, channel, true)]);
                }
            }
            lines.extend(self.connect(own, wanted, Some(GraphKind::Nvls)));
            lines.push((subsystem::INIT, "Connected NVLS tree".to_owned()));
        }
        lines
    }

    /// The lines of connections for send and receive to peers, with whether this rank sends.
    pub(crate) fn pairs(&mut self, own: &Own<'_>, peers: impl Iterator<Item = (usize, bool)>) -> Vec<Line> {
        let rank = own.identity.rank;
        let counts = own.machine.p2p_channels(own.machine.node(rank), own.rings.len());
        let others = peers.filter(|(peer, _)| *peer != rank);
        let wanted = others.flat_map(|(peer, sends)| {
            let channels = pairs::channels(own.machine, rank, peer, sends, counts);
            channels.into_iter().map(move |channel| (peer, channel, sends))
        });
        let wanted = wanted.collect();
        self.connect(own, wanted, None)
    }

    /// What is not connected yet: by the peer's distance, first what is received, then what is sent.
    fn connect(
        &mut self,
        own: &Own<'_>,
        mut wanted: Vec<(usize, usize, bool)>,
        graph: Option<GraphKind>,
    ) -> Vec<Line> {
        wanted.retain(|end| self.known.insert((end.0, end.1, end.2, graph.is_none())));
        let index = u8::from(graph.is_none());
        let (rank, n) = (own.identity.rank, own.identity.n_ranks);
        let distance =
            |peer: usize, sends: bool| if sends { (n + peer - rank) % n } else { (n + rank - peer) % n };
        wanted.sort_by_key(|(peer, channel, sends)| (distance(*peer, *sends), *sends, *channel));
        let line =
            |(peer, channel, sends): (usize, usize, bool)| own.line(peer, (channel, index), sends, graph);
        wanted.into_iter().filter_map(line).collect()
    }
}

impl Own<'_> {
    /// Its parent and children on each final channel.
    pub(crate) fn trees(&self) -> Vec<machine::TreePlace> {
        let places = trees::places(self.machine, self.identity.rank, self.topology.base);
        let of = |channel: &usize| places.get(*channel).copied().unwrap_or_default();
        self.topology.sources.iter().map(of).map(|place| (place.up, place.down)).collect()
    }

    /// Of a connection; of what is received only NICs have one.
    fn line(&self, peer: usize, channel: (usize, u8), sends: bool, graph: Option<GraphKind>) -> Option<Line> {
        let rank = self.identity.rank;
        let (from, to) = if sends { (rank, peer) } else { (peer, rank) };
        let path = match self.machine.transport(Ends { from, to, sends }, channel.0, graph) {
            NcclTransport::Net { device, proxy, gdr } => {
                machine::Path::Net(device, proxy, gdr, graph.is_none())
            }
            _ if !sends => return None,
            NcclTransport::Shared => machine::Path::Shared,
            NcclTransport::Over { rank, reads } => machine::Path::Over(self.end(rank), reads),
            NcclTransport::Memory { reads, same_process: true } => {
                machine::Path::Memory("direct pointer", reads)
            }
            NcclTransport::Memory { reads, .. } => {
                machine::Path::Memory(if self.cumem { "CUMEM" } else { "IPC" }, reads)
            }
        };
        let direction = if sends { "send" } else { "receive" };
        Some(machine::hop(self.identity, channel, (self.end(from), self.end(to)), &path, direction))
    }

    fn end(&self, rank: usize) -> machine::End {
        machine::End { rank, device: self.machine.device(rank), bus_id: self.machine.bus_id(rank) }
    }
}
