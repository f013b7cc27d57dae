//! The init of a communicator, in NCCL's order: gather the peers, search, agree on channels, connect, agree that all
//! have connected.

mod alike;
mod announce;
mod described;
mod share;
mod tell;

use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use crate::channels;
use crate::collective::choose::TuningTable;
use crate::collective::nccl::Model;
use crate::collective::primitive::Primitive;
use crate::comm::links::Links;
use crate::comm::member::Member;
use crate::comm::operators::Operators;
use crate::comm::pending::Pending;
use crate::comm::spans::Spans;
use crate::comm::turns::Turns;
use crate::comm::wiring::Wiring;
use crate::comm::{Comm, CommConfig, Counters, nccl};
use crate::config::Settings;
use crate::error::{Error, Result};
use crate::hash;
use crate::lock::lock;
use crate::log::lines::{self, Dialect};
use crate::log::subsystem;
use crate::net::acceptor::{Acceptor, Inbox, Listening};
use crate::net::bootstrap::Bootstrap;
use crate::net::connect::{Plan, Target, connect};
use crate::net::control::Health;
use crate::net::descriptors;
use crate::net::nic;
use crate::net::unique_id::{UNIQUE_ID_BYTES, UniqueId};
use crate::net::wake::Wake;
use crate::net::watch::{self, ControlPeer, Neighbour, Watch};
use crate::profiler::load;
use crate::profiler::plugin::{self, About, Context};
use crate::profiler::teller::Teller;
use crate::run::affinity::{self, Affinity};
use crate::run::engine::Engine;
use crate::run::flat;
use crate::topology::place;
use crate::topology::ranks::Way;
use crate::topology::{PeerInfo, RingPlace, Topology, told};
use crate::transport::carrier::Carrier;
use crate::transport::plugin::load::load as load_network;
use crate::transport::plugin::network::Network;
use crate::transport::shm::connect::Endpoint;
use crate::transport::shm::host::{Host, Kin};

/// Whether the network that the settings name begins here. It is ended again.
///
/// # Errors
/// There is no such plugin, or it does not begin, in its own words.
pub fn check_network(settings: &Settings) -> Result<()> {
    load_network(&settings.network).map(drop)
}

/// What a communicator is made from.
#[derive(Clone, Debug)]
pub struct Request {
    /// The API function.
    pub api: &'static str,
    /// The unique id.
    pub id: [u8; UNIQUE_ID_BYTES],
    /// This rank.
    pub rank: usize,
    /// Ranks.
    pub n_ranks: usize,
    /// The caller's configuration.
    pub config: CommConfig,
    /// On a described machine, the GPU that the parent has given this rank.
    pub device: Option<u32>,
    /// For a split: parent's handle, its count of splits, color, key, and the new communicator's hash.
    pub split: Option<(usize, i32, i32, i32, u64)>,
    /// What it shares with the communicator that it is made of.
    pub kin: Option<Arc<Kin>>,
}

/// The second round of bootstrap: what must be known before ranks connect.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Ready {
    n_channels: usize,
    /// For what it would share with the ranks of its host.
    has_memory: bool,
}

/// Makes the communicator; every rank calls it.
#[cfg(test)]
pub(crate) fn init(request: Request, settings: Settings) -> Result<Arc<Comm>> {
    init_as(request, settings, &Pending::new())
}

/// Makes the communicator under a handle that exists already.
pub fn init_as(request: Request, settings: Settings, pending: &Arc<Pending>) -> Result<Arc<Comm>> {
    let outcome = make(request, settings, pending);
    pending.done();
    outcome
}

fn make(request: Request, settings: Settings, pending: &Arc<Pending>) -> Result<Arc<Comm>> {
    let id = UniqueId::from_bytes(&request.id)?;
    if request.rank >= request.n_ranks {
        return Err(Error::InvalidArgument(format!("rank {} of {} ranks", request.rank, request.n_ranks)));
    }
    descriptors::raise_limit();
    let mut spans = Spans::begin();
    let silent = settings.is_silent();
    let mut nics = nic::usable(&settings)?;
    let found = place::find(&settings, &mut nics);
    let network = load_network(&settings.network)?;
    let bootstrap = Bootstrap::join(id, request.rank, request.n_ranks, settings.timeout, pending)?;
    let inbox = Acceptor::of_process()?.expect_calls(&id.secret, request.rank, Wake::new()?);
    let mut endpoint =
        if settings.shm { Some(Endpoint::named(told::memory_name(&id.secret, request.rank))?) } else { None };
    let tuning = settings.tuning.clone().unwrap_or_else(TuningTable::built_in);
    let own = (request.rank, request.device);
    let info =
        tell::own_info(own, &settings, &nics, (endpoint.as_ref(), found.placement, network.as_deref()))?;
    let told = bootstrap.all_gather_told(&*info.facts, info.own_bytes(&id.secret)).inspect_err(|_| {
        // NCCL's ranks do not hear of a root that ends before all have come.
        if silent && bootstrap.failure().is_none() {
            pending.wait_until_called_off();
        }
    })?;
    let peers = tell::peers(&told, (&id.secret, info.host_hash))?;
    alike::check(&peers)?;
    spans.bootstrap = spans.lap();
    let mut init = Init::new(request, settings, (id, network), peers, pending)?;
    spans.graphs = spans.lap();
    init.log_start(&nics);
    init.log_search(&found.notes, &found.warnings);
    init.log_rings();
    let has_memory = init.reserve_memory(endpoint.as_mut());
    let readies = bootstrap.all_gather(&Ready { n_channels: init.rings.len(), has_memory })?;
    let finals: Vec<usize> = readies.iter().map(|ready| ready.n_channels).collect();
    if let Some(text) = channels::disagreement(&finals) {
        return Err(Error::InvalidUsage(text));
    }
    init.exclude(&readies);
    init.settings.check_lists(init.identity.n_ranks)?;
    let profiler = init.profiler();
    let connected = match init.connect(&inbox, endpoint, &bootstrap) {
        Ok(connected) => connected,
        // Its connections close, and that is all that the others get to know.
        Err(error) if silent => return Err(error),
        Err(error) => return Err(bootstrap.fail(error)),
    };
    bootstrap.all_gather_last(&())?;
    spans.connections = spans.lap();
    let listening = nics.into_iter().map(|nic| Arc::new(nic.listening)).collect();
    let comm = init.finish(connected, (inbox, listening), profiler, tuning)?;
    comm.note_timings(&spans);
    Ok(comm)
}

/// What has been connected.
struct Connections {
    links: Links,
    control: Vec<ControlPeer>,
    host: Option<Host>,
    /// What the log is to say of them with the first collective.
    late_lines: Vec<(u64, String)>,
    /// On a described machine, what the log has said of them.
    wiring: Option<Wiring>,
}

/// A communicator that is being made.
struct Init {
    request: Request,
    settings: Settings,
    id: UniqueId,
    peers: Vec<PeerInfo>,
    topology: Topology,
    rings: Vec<RingPlace>,
    identity: lines::Identity,
    carrier: Carrier,
    pending: Arc<Pending>,
}

impl Init {
    fn new(
        request: Request,
        settings: Settings,
        (id, network): (UniqueId, Option<Arc<Network>>),
        peers: Vec<PeerInfo>,
        pending: &Arc<Pending>,
    ) -> Result<Self> {
        let limits = Comm::limits(&settings, &request.config);
        let version = settings.faithful.unwrap_or_default();
        let mut topology = match described::machine(&peers, version)? {
            Some(machine) => Topology::described(&peers, machine),
            None => Topology::search(&peers),
        };
        let count = match settings.faithful {
            Some(version) if topology.machine.is_none() => {
                let facts = Self::facts(&topology, &peers, settings.machine.args_bytes);
                channels::rules::final_channels(version, topology.base, limits, &facts)
            }
            Some(_) => {
                topology.sources = topology.described_sources(limits, settings.machine.args_bytes);
                topology.sources.len()
            }
            None => channels::final_channels(topology.base, limits),
        };
        let place = |channel| RingPlace::new(topology.ring(channel), request.rank);
        let rings = (0..count).map(place).collect();
        let identity = lines::Identity {
            api: request.api,
            handle: pending.handle(),
            rank: request.rank,
            n_ranks: request.n_ranks,
            device: topology.device(request.rank),
            bus_id: topology.machine.as_ref().map_or(0, |machine| machine.bus_id(request.rank)),
            dialect: topology.machine.as_ref().map_or(Dialect::Nccl, described::dialect),
            version,
            comm_hash: request.split.map_or_else(|| hash::hash(&request.id), |split| split.4),
            split: request.split.map(|(parent, count, color, key, _)| (parent, count, color, key)),
        };
        let carrier = Carrier::new(network.as_ref(), identity.comm_hash)?;
        let pending = Arc::clone(pending);
        Ok(Self { request, settings, id, peers, topology, rings, identity, carrier, pending })
    }

    /// What NCCL's rules take into account where no machine is described: no CollNet, no unpacking network and no NVLS are
    /// pretended, and children share no resources (`splitShare` is 0 by default).
    fn facts(topology: &Topology, peers: &[PeerInfo], args_bytes: Option<usize>) -> channels::rules::Facts {
        let capabilities = peers.iter().map(|peer| peer.placement.compute_capability);
        channels::rules::Facts {
            compute_capability: capabilities.min().unwrap_or(0),
            n_nodes: topology.n_nodes(),
            ring_intra: topology.graphs.iter().map(|graph| graph.bw_intra).fold(f32::INFINITY, f32::min),
            args_bytes,
            ..channels::rules::Facts::default()
        }
    }

    fn profiler(&self) -> Option<Context> {
        let plugin = load::load(self.settings.profiler_plugin.as_deref(), self.settings.faithful)?;
        let name = plugin::comm_name(self.request.config.name.as_deref());
        let int = |value: usize| i32::try_from(value).unwrap_or(i32::MAX);
        let about = About {
            comm_hash: self.identity.comm_hash,
            name: name.as_deref(),
            n_nodes: int(self.topology.n_nodes()),
            n_ranks: int(self.identity.n_ranks),
            rank: int(self.identity.rank),
        };
        plugin.init(about)
    }

    fn teller(&self, profiler: Context) -> Teller {
        let nodes = &self.topology.nodes;
        let n_local = nodes.iter().filter(|node| **node == nodes[self.identity.rank]).count();
        Teller::new(profiler, self.settings.faithful, n_local)
    }

    /// Name and place of the own NIC of a channel.
    fn own_nic(&self, channel: usize, way: Way) -> (&str, usize) {
        let nic = self.topology.nic(self.identity.rank, channel, way);
        (&self.peers[self.identity.rank].nics[nic].name, nic)
    }

    fn target(&self, rank: usize, channel: usize) -> Target {
        let own = self.identity.rank;
        let from = self.peers[own].nics[self.topology.nic(own, channel, Way::Out)].address;
        Target { rank, address: self.peers[rank].listens(self.topology.nic(rank, channel, Way::In)), from }
    }

    fn connect(
        &self,
        inbox: &Inbox,
        endpoint: Option<Endpoint>,
        bootstrap: &Bootstrap,
    ) -> Result<Connections> {
        let host = self.share_memory(endpoint, bootstrap)?;
        let reaches = |rank: usize| host.as_ref().is_some_and(|host| host.reaches(rank));
        let lonely = self.identity.n_ranks == 1;
        let rings = || (0_u32..).zip(if lonely { &[][..] } else { &self.rings[..] });
        let send = |(channel, ring): (u32, &RingPlace)| (channel, self.target(ring.next(), channel as usize));
        let (first, silent) = (self.identity.rank == 0, self.settings.is_silent());
        let plan = Plan {
            rank: self.identity.rank,
            secret: self.id.secret,
            sends: rings().filter(|(_, ring)| !reaches(ring.next())).map(send).collect(),
            recvs: rings()
                .filter(|(_, ring)| !reaches(ring.prev()))
                .map(|(channel, ring)| (channel, ring.prev()))
                .collect(),
            coordinator: (!first && !silent).then(|| self.target(0, 0)),
            control_callers: if first && !silent { self.identity.n_ranks - 1 } else { 0 },
            n_sockets: self.carrier.n_sockets(self.settings.n_sockets),
            timeout: self.settings.timeout,
        };
        let connected = connect(&plan, inbox, bootstrap)?;
        let mut links = Links::default();
        for ((channel, target), streams) in plan.sends.iter().zip(connected.sends) {
            let nic = self.own_nic(*channel as usize, Way::Out);
            links.sends.connect(*channel, target.rank, self.carrier.send(streams, nic));
        }
        for ((channel, peer), streams) in plan.recvs.iter().zip(connected.recvs) {
            let nic = self.own_nic(*channel as usize, Way::In);
            links.recvs.connect(*channel, *peer, self.carrier.recv(streams, *peer, nic));
        }
        if let Some(host) = &host {
            for (channel, ring) in rings().filter(|(_, ring)| reaches(ring.next())) {
                links.sends.connect(channel, ring.next(), Box::new(host.open_send(channel, ring.next())?));
            }
            for (channel, ring) in rings().filter(|(_, ring)| reaches(ring.prev())) {
                links.recvs.connect(channel, ring.prev(), Box::new(host.open_recv(channel, ring.prev())?));
            }
        }
        let late_lines = self.log_hops(&links);
        let wiring = self.topology.machine.as_ref().map(|machine| self.log_wires(machine));
        Ok(Connections { links, control: connected.control, host, late_lines, wiring })
    }

    fn finish(
        self,
        connections: Connections,
        (inbox, mut listening): (Inbox, Vec<Arc<Listening>>),
        profiler: Option<Context>,
        tuning: TuningTable,
    ) -> Result<Arc<Comm>> {
        let Connections { links, control, host, late_lines, wiring } = connections;
        let connects_late = self.connects_late();
        let model = match self.settings.faithful {
            Some(_) => nccl::model(&self.topology, self.rings.len(), self.settings.machine.nvls),
            None => Model::default(),
        };
        let bell = host.as_ref().map(|host| host.doorbell().event().clone());
        let health = Arc::new(Health::woken_by(bell.map_or_else(Wake::new, Ok)?, inbox.wake().clone()));
        if let Some(host) = &host {
            let _ = health.bell.set(host.doorbell().ringer());
        }
        let all = host.as_ref().filter(|host| host.n_members() == self.identity.n_ranks);
        // Nobody calls who shares memory with this rank.
        if all.is_some() {
            listening.truncate(1);
        }
        let inbox = Some(inbox).filter(|_| all.is_none());
        let engine = Engine::new(links, all.map(flat::Lane::new));
        let name = |peer: &PeerInfo| format!("rank {} ({}, {})", peer.rank, peer.host, peer.nics[0].address);
        let names: Arc<[String]> = self.peers.iter().map(name).collect();
        let teller = profiler.map(|profiler| Arc::new(self.teller(profiler)));
        let affinity = Affinity::of(self.identity.rank, &self.peers, self.identity.comm_hash);
        let neighbours = host.as_ref().map(Host::neighbours).unwrap_or_default();
        let watcher = self.watch((control, neighbours), inbox, &names, &health)?;
        let profiled = teller.is_some();
        let member = Member {
            rank: self.identity.rank,
            n_ranks: self.identity.n_ranks,
            identity: self.identity,
            names,
            topology: self.topology,
            rings: self.rings,
            crowded: affinity::is_crowded(&self.peers),
            affinity: affinity.filter(|_| self.request.split.is_none()),
            host,
            tuning,
            replaced: AtomicU32::new(0),
            health,
            peers: self.peers,
            settings: self.settings,
            secret: self.id.secret,
            carrier: self.carrier,
            model,
        };
        let comm = Arc::new(Comm {
            member,
            engine: Mutex::new(engine),
            profiled,
            turns: Turns::default(),
            config: self.request.config,
            counters: Mutex::new(Counters::default()),
            profiler: Mutex::new(teller),
            watcher: Mutex::new(None),
            last_error: Mutex::new(None),
            operators: Operators::default(),
            listening,
            revoked: AtomicBool::new(false),
            awaited: AtomicBool::new(false),
            late_lines: Mutex::new(late_lines),
            wiring: wiring.map(Mutex::new),
            connects_late,
            pending: self.pending,
        });
        *lock(&comm.watcher) = watcher;
        if !comm.connects_late {
            comm.start_progress();
        }
        comm.info(subsystem::INIT, &lines::init(&comm.identity, "COMPLETE"));
        Ok(comm)
    }

    /// A communicator of one rank has nobody to watch. The listeners stay, for peers' later connections.
    /// With silent faults nobody judges.
    fn watch(
        &self,
        (peers, neighbours): (Vec<ControlPeer>, Vec<Arc<dyn Neighbour>>),
        inbox: Option<Inbox>,
        names: &Arc<[String]>,
        health: &Arc<Health>,
    ) -> Result<Option<std::thread::JoinHandle<()>>> {
        if self.identity.n_ranks == 1 {
            return Ok(None);
        }
        if self.settings.is_silent() {
            health.set_coordinator_gone();
        }
        let watch = Watch {
            rank: self.identity.rank,
            names: Arc::clone(names),
            peers,
            neighbours: if self.settings.is_silent() { Vec::new() } else { neighbours },
            inbox,
            timeout: self.settings.timeout,
            stall_timeout: self.settings.stall_timeout,
            health: Arc::clone(health),
            name_of: Primitive::name_of,
        };
        let started = watch::start(watch).map_err(|error| Error::no_thread("the watcher's thread", &error));
        started.map(Some)
    }
}
