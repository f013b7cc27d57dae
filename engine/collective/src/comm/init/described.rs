//! What the log says of a communicator on described machines while it is made.

use super::Init;
use crate::channels::Limits;
use crate::comm::Comm;
use crate::comm::wiring::{Own, Wiring};
use crate::error::Result;
use crate::faithful::Version;
use crate::log::lines::Dialect;
use crate::log::{self, Level, lines, machine, subsystem};
use crate::net::nic::Nic;
use crate::topology::machine::described::Described;
use crate::topology::machine::print;
use crate::topology::{PeerInfo, Topology};

impl Init {
    /// Itself on its machine, if one is described.
    pub(super) fn own<'a>(&'a self, machine: &'a Described) -> Own<'a> {
        let rank = (&self.identity, &self.rings[..]);
        Own::new((machine, &self.topology), rank, &self.settings.machine, self.limits())
    }

    /// Whether the log tells of connections with the first collective: NCCL connects so where memory is shared by cuMem.
    pub(super) fn connects_late(&self) -> bool {
        let wanted = self.settings.machine.runtime_connect;
        match &self.topology.machine {
            Some(machine) => self.own(machine).cumem && wanted.unwrap_or(true),
            None => self.settings.is_silent() && wanted.unwrap_or(false),
        }
    }

    /// The network that carries what goes between hosts.
    pub(super) fn log_network(&self, machine: &Described, nics: &[Nic]) {
        let ports = machine.view(machine.node(self.identity.rank)).machine.ports.iter();
        let mut named = ports.map(|(name, port, infiniband)| (name.as_str(), *port, *infiniband)).peekable();
        let bootstrap = nics.first().map(|nic| (nic.name.as_str(), nic.address));
        let init = subsystem::INIT | subsystem::NET;
        let Some(bootstrap) = bootstrap.filter(|_| named.peek().is_some()) else {
            return self.log_sockets(nics);
        };
        let line = machine::nics(named, bootstrap);
        if log::are_other_nics(&line) {
            self.info(init, machine::no_plugin(self.identity.version));
            self.info(init, &line);
            self.info(init, "Initialized NET plugin IB");
        }
        self.info(init, "Assigned NET plugin IB to comm");
        self.info(subsystem::INIT, "Using network IB");
    }

    /// The machine and all that was found in it.
    pub(super) fn log_machine(&self, machine: &Described) {
        let rank = self.identity.rank;
        let node = machine.node(rank);
        let view = machine.view(node);
        self.graph_lines(print::system(&view.system, machine.members(node)));
        let device = machine.device(rank);
        let affinity = view.affinity(view.gpu(machine.local(rank)));
        if !affinity.is_empty() {
            self.info(subsystem::INIT, &format!("Setting affinity for GPU {device} to {affinity}"));
        }
        if self.settings.machine.nvls && view.system.n_gpus() > 1 && !machine.is_amd() {
            let channels = machine.node_nvls_channels(node, self.limits());
            self.info(subsystem::INIT, &machine::multicast(self.identity.version, device, channels));
        }
        for found in view.found() {
            self.graph_lines(print::found(&view.system, found));
        }
    }

    fn graph_lines(&self, lines: Vec<String>) {
        if log::enabled(Level::Info, subsystem::GRAPH) {
            lines.iter().for_each(|line| self.info(subsystem::GRAPH, line));
        }
    }

    /// Rings, trees and counts.
    pub(super) fn log_channels(&self, machine: &Described) {
        let (rank, own) = (self.identity.rank, self.own(machine));
        let node = machine.node(rank);
        let trees = own.trees();
        self.log_trees(machine, &trees);
        if own.nvls_channels > 0 && machine.n_nodes() > 1 && node == 0 {
            for head in 0..machine.view(0).heads().len() {
                let of = |node: usize| {
                    machine.view(node).heads().get(head).map(|local| machine.rank(node, *local))
                };
                let ranks: Vec<usize> = (0..machine.n_nodes()).filter_map(of).collect();
                self.info(subsystem::INIT, &machine::nvls_head(head, &ranks));
            }
        }
        if rank == 0 {
            for (channel, ring) in self.rings.iter().enumerate() {
                self.info(subsystem::INIT, &lines::channel(channel, self.rings.len(), &ring.order));
            }
        }
        for (channel, ring) in self.rings.iter().enumerate() {
            let line = machine::ring(&self.identity, channel, ring.prev(), ring.next());
            self.info(subsystem::GRAPH, &line);
        }
        self.info(subsystem::INIT, &machine::trees(&self.identity, &trees));
        let (p2p, peer) = machine.p2p_channels(node, self.rings.len());
        let counts = [self.rings.len(), own.nvls_channels, p2p, peer];
        // NCCL writes this after connecting; here before, so that ranks that disagree show both numbers.
        self.info(subsystem::INIT, &machine::counts(&self.identity, machine.n_nodes(), counts));
    }

    /// Of ranks whose parent or child is on another node.
    fn log_trees(&self, machine: &Described, trees: &[machine::TreePlace]) {
        let rank = self.identity.rank;
        let away = |peer: &usize| machine.node(*peer) != machine.node(rank);
        for channel in 0..trees.len().div_ceil(2) {
            let copies = [channel, channel + trees.len().div_ceil(2)];
            let places =
                || copies.iter().filter_map(|channel| trees.get(*channel).map(|place| (*channel, *place)));
            if places().any(|(_, (up, down))| up.iter().chain(down.iter().flatten()).any(away)) {
                places().for_each(|(channel, place)| {
                    self.info(subsystem::GRAPH, &machine::tree(channel, rank, place))
                });
            }
        }
    }

    /// All that NCCL connects at init where it does not wait for the first collective.
    pub(super) fn log_wires(&self, machine: &Described) -> Wiring {
        let mut wiring = Wiring::default();
        if self.connects_late() {
            return wiring;
        }
        let own = self.own(machine);
        let lines = [wiring.rings(&own), wiring.trees(&own), wiring.nvls(&own)].concat();
        lines.iter().for_each(|(subsystem, line)| self.info(*subsystem, line));
        wiring
    }

    pub(super) fn limits(&self) -> Limits {
        Comm::limits(&self.settings, &self.request.config)
    }
}

/// The ranks on described machines, if all have told of one.
pub(super) fn machine(peers: &[PeerInfo], version: Version) -> Result<Option<Described>> {
    if peers.iter().any(|peer| peer.placement.machine.is_none()) {
        return Ok(None);
    }
    let hashes: Vec<u64> = peers.iter().map(|peer| peer.host_hash).collect();
    let place = Topology::new(&hashes);
    Described::new(peers, (&place.nodes, &place.members), version)
}

/// As whose library a machine's lines are worded.
pub(super) fn dialect(machine: &Described) -> Dialect {
    if machine.is_amd() { Dialect::Rccl } else { Dialect::Nccl }
}
