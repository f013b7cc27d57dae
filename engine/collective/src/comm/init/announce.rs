//! What a communicator that is being made says in the log, in NCCL's order.

use super::Init;
use crate::collective::tree::Family;
use crate::comm::CommConfig;
use crate::comm::links::Links;
use crate::config;
use crate::log::connections::{self, Hop};
use crate::log::lines::Dialect;
use crate::log::{self, Level, lines, machine, subsystem};
use crate::net::nic::Nic;
use crate::topology::place;
use crate::topology::print;
use crate::topology::processor::Processor;
use crate::topology::ranks::Way;
use crate::transport::Description;
use crate::transport::carrier::Carrier;

impl Init {
    pub(super) fn info(&self, subsystem: u64, text: &str) {
        log::write(Level::Info, subsystem, self.identity.device, text);
    }

    pub(super) fn log_start(&self, nics: &[Nic]) {
        let is_silent = self.settings.is_silent();
        if is_silent && self.identity.dialect == Dialect::Nccl && log::is_first("bootstrap") {
            self.log_bootstrap(nics);
        }
        let says_version = if is_silent { log::is_first("version") } else { self.identity.rank == 0 };
        if says_version {
            self.log_version();
        }
        if is_silent && self.request.split.is_none() {
            self.log_config();
        }
        if !is_silent && self.settings.machine.machine.is_some() && log::is_first("machine") {
            let text = "RSCCL_MACHINE has an effect only with RSCCL_FAITHFUL";
            log::write(Level::Warn, subsystem::INIT, self.identity.device, text);
        }
        for (name, value) in &self.settings.reported {
            if !is_silent {
                self.info(subsystem::ENV, &lines::setting(name, value));
            } else {
                let line = lines::nccl_setting(name, value, self.identity.version);
                line.iter()
                    .filter(|line| log::is_first(line))
                    .for_each(|line| self.info(subsystem::ENV, line));
            }
        }
        match &self.topology.machine {
            Some(machine) => self.log_network(machine, nics),
            None => self.log_sockets(nics),
        }
        self.info(subsystem::INIT, &lines::init(&self.identity, "START"));
    }

    fn log_bootstrap(&self, nics: &[Nic]) {
        let named = nics.iter().find(|nic| Some(&nic.name) == self.settings.socket_ifname.as_ref());
        if let Some(nic) = named.or(nics.first()) {
            self.info(subsystem::BOOTSTRAP, &lines::bootstrap(&nic.name, nic.address));
        }
    }

    /// What the program has set of a communicator that has no parent, whose child's would not be told from its own.
    fn log_config(&self) {
        let CommConfig { name, min_ctas, max_ctas, blocking } = &self.request.config;
        let told = [
            blocking.map(|blocking| format!("Blocking set to {}", u8::from(blocking))),
            min_ctas.map(|count| format!("Min CTAs set to {count}")),
            max_ctas.map(|count| format!("Max CTAs set to {count}")),
            name.as_ref().map(|name| format!("Comm name set to {name}")),
        ];
        told.iter().flatten().for_each(|text| self.info(subsystem::ENV, &format!("Comm config {text}")));
    }

    fn log_version(&self) {
        let (version, device) = (config::nccl_version(), self.identity.device);
        match self.identity.dialect {
            Dialect::Nccl => log::write_version(version, device),
            Dialect::Rccl => {
                let text = machine::rccl_version(version, &self.settings.host);
                log::write(Level::Info, subsystem::ALL, device, &text);
            }
        }
    }

    /// The machine's interfaces, which carry what goes between hosts.
    pub(super) fn log_sockets(&self, nics: &[Nic]) {
        let named = nics.iter().map(|nic| (nic.name.as_str(), nic.address));
        let nics = lines::nics(named);
        if !self.settings.is_silent() || log::are_other_nics(&nics) {
            self.info(subsystem::INIT | subsystem::NET, &nics);
        }
        let name = self.carrier.name();
        if matches!(self.carrier, Carrier::Plugin(_)) {
            self.info(subsystem::INIT, &format!("Initialized NET plugin {name}"));
            self.info(subsystem::INIT, &format!("Assigned NET plugin {name} to comm"));
        }
        self.info(subsystem::INIT | subsystem::NET, &format!("Using network {name}"));
    }

    /// The node's graph, and what the search found in it, for the ring and again for the tree.
    pub(super) fn log_search(&self, notes: &[String], warnings: &[String]) {
        let rank = self.identity.rank;
        // NCCL tells of a topology file that is not there like of one that is.
        let level = if self.settings.is_silent() { Level::Info } else { Level::Warn };
        for warning in warnings {
            log::write(level, subsystem::GRAPH | subsystem::ENV, self.identity.device, warning);
        }
        for note in notes.iter().chain(&place::dump(&self.settings, &self.peers, &self.topology, rank)) {
            self.info(subsystem::GRAPH | subsystem::ENV, note);
        }
        if let Some(machine) = &self.topology.machine {
            return self.log_machine(machine);
        }
        if !log::enabled(Level::Info, subsystem::GRAPH) {
            return;
        }
        let node = self.topology.nodes[rank];
        let inter = self.topology.n_nodes() > 1;
        let system = self.topology.system(&self.peers, node);
        let ranks = &self.topology.members[node];
        for line in print::system(&system, &Processor::of_machine(), ranks, inter) {
            self.info(subsystem::GRAPH, &line);
        }
        for pattern in [4, 1] {
            for line in print::graph(&self.topology.graphs[node], pattern, inter) {
                self.info(subsystem::GRAPH, &line);
            }
        }
    }

    pub(super) fn log_rings(&self) {
        let (n_nodes, local_ranks) = (self.topology.n_nodes(), self.topology.local_ranks(self.identity.rank));
        let local = (self.topology.local_rank(self.identity.rank), local_ranks);
        self.info(subsystem::INIT, &lines::place(&self.identity, n_nodes, local));
        if let Some(machine) = &self.topology.machine {
            return self.log_channels(machine);
        }
        let count = self.rings.len();
        if self.identity.rank == 0 {
            for (channel, ring) in self.rings.iter().enumerate() {
                self.info(subsystem::INIT, &lines::channel(channel, count, &ring.order));
            }
        }
        let families = [0, 1].map(|tree| Family::new(tree, 0, &self.topology.nodes));
        self.info(subsystem::INIT, &lines::trees(count, self.identity.rank, &families));
        for (channel, ring) in self.rings.iter().enumerate() {
            self.info(subsystem::GRAPH, &lines::ring(channel, ring.prev(), self.identity.rank, ring.next()));
        }
        // NCCL writes this after connecting; here before, so that ranks that disagree show both numbers.
        self.info(subsystem::INIT, &lines::counts(count));
    }

    /// The connections; with runtime connect, what the first collective is to say of them.
    pub(super) fn log_hops(&self, links: &Links) -> Vec<(u64, String)> {
        let mut said = Vec::new();
        let own = self.identity.rank;
        let place = |rank| (rank, self.topology.device(rank));
        let mut hops = Vec::new();
        let mut sends: Vec<_> = links.sends.iter().collect();
        sends.sort_by_key(|end| end.channel);
        let mut recvs: Vec<_> = links.recvs.iter().collect();
        recvs.sort_by_key(|end| end.channel);
        for (send, recv) in sends.into_iter().zip(recvs) {
            let channel = send.channel as usize;
            let nic = |way| self.topology.nic(own, channel, way);
            let (into, out) = (nic(Way::In), nic(Way::Out));
            let (prev, next) = (recv.peer, send.peer);
            let over = |description: Option<Description>, nic: usize| match description {
                Some(Description::Tcp { .. } | Description::Plugin { .. }) => {
                    let named = (self.peers[own].nics[nic].name.as_str(), nic);
                    Some((self.carrier.name(), self.carrier.device(named)))
                }
                _ => None,
            };
            let from = over(recv.half.as_ref().map(|half| half.describe()), into);
            let to = over(send.half.as_ref().map(|half| half.describe()), out);
            // Of shared memory, only the sender writes a line, as in NCCL.
            if from.is_some() {
                let line =
                    lines::hop(channel, 0, place(prev), place(own), "receive", from, self.identity.version);
                said.push((subsystem::INIT | subsystem::NET, line));
            }
            let transport = if to.is_some() { subsystem::NET } else { subsystem::SHM };
            let line = lines::hop(channel, 0, place(own), place(next), "send", to, self.identity.version);
            said.push((subsystem::INIT | transport, line));
            let name = |nic: usize| self.peers[own].nics[nic].name.as_str();
            let hop = |direction, peer, nic| Hop {
                comm_hash: self.identity.comm_hash,
                rank: own,
                channel,
                peer,
                direction,
                nic: name(nic),
            };
            let halves = (send.half.as_ref(), recv.half.as_ref());
            hops.extend(halves.0.map(|half| (hop("send", next, out), half.describe())));
            hops.extend(halves.1.map(|half| (hop("recv", prev, into), half.describe())));
        }
        said.push((subsystem::INIT, "Connected all rings, use ring PXN 0 GDR 0".to_owned()));
        let path = self.settings.connection_log.as_deref().map(|path| log::expand(path, &self.settings.host));
        if let Some(Err(error)) = path.map(|path| connections::append(&path, &hops)) {
            // A job goes on without its logs.
            log::write(Level::Warn, subsystem::INIT, self.identity.device, &error.to_string());
        }
        if self.topology.machine.is_some() {
            return Vec::new();
        }
        if !self.connects_late() {
            said.drain(..).for_each(|(subsystem, line)| self.info(subsystem, &line));
        }
        said
    }
}
