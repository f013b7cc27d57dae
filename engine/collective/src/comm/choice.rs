//! How a communicator carries out an operation: algorithm, channels, steps, connections.

#[cfg(test)]
use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::atomic::Ordering;

use crate::collective::algorithm::{Algorithm, Choice};
#[cfg(test)]
use crate::collective::bytes::sent;
use crate::collective::catalog::{schedule, supports};
use crate::collective::layout::Scope;
use crate::collective::nccl::Taken;
use crate::collective::operation::Operation;
use crate::collective::primitive::Primitive;
use crate::collective::schedule::Step;
use crate::comm::links::P2P_CHANNEL;
use crate::comm::member::Member;
use crate::error::{Error, Result};
use crate::kernels::{Form, Reducer};
use crate::log::{lines, subsystem};
use crate::memory::MAX_SOURCES;
use crate::net::connect::{Target, call_peer, strands};
use crate::net::hello::{Hello, Purpose};
#[cfg(test)]
use crate::run::flat::cut::Cut;
use crate::topology::ranks::Way;
use crate::transport::{RecvHalf, SendHalf};

/// What carries out here what NCCL takes: a tree, or the ring, over which goes also what only NVSwitches do; sends and receives
/// for what has neither.
fn nccl_algorithm(taken: Taken, primitive: Primitive, scope: &Scope<'_>) -> Algorithm {
    let wanted = match taken {
        Taken::Tree | Taken::NvlsTree => Algorithm::Tree,
        Taken::Ring | Taken::Nvls => Algorithm::Ring,
    };
    if supports(wanted, primitive, scope) { wanted } else { Algorithm::Direct }
}

impl Member {
    /// Whether an operation goes by flat rounds, without connections: the same on all ranks.
    pub(crate) fn is_flat(&self, operation: &Operation) -> bool {
        operation.primitive == Primitive::AllReduce
            && !self.is_silent()
            && operation.n_virtual == 1
            && operation.pre_mul.is_none()
            && (2..=MAX_SOURCES).contains(&self.n_ranks)
            && self.settings.algorithm.is_none()
            && self.settings.rank_order.is_none()
            && self.host.as_ref().is_some_and(|host| host.n_members() == self.n_ranks)
    }

    /// The algorithm and the channels of an operation, the same on all ranks.
    pub(crate) fn choose(&self, operation: &Operation) -> Choice {
        if self.is_flat(operation) {
            return Choice { algorithm: Algorithm::Direct, n_channels: 1 };
        }
        let n_channels = operation.n_channels(self.rings.len(), self.settings.channel_bytes);
        let order = self.rings.first().map_or(&[][..], |ring| &ring.order);
        let scope = self.scope(operation, operation.reducer, order, 0, n_channels);
        let primitive = operation.primitive;
        let wanted = self.settings.algorithm;
        if operation.n_virtual > 1 || primitive.reduces() && self.settings.rank_order.is_some() {
            let ordered = wanted.filter(|algorithm| algorithm.keeps_rank_order());
            let algorithm = self.settings.rank_order.or(ordered).unwrap_or(Algorithm::Direct);
            return Choice { algorithm, n_channels };
        }
        if let Some(algorithm) = wanted.filter(|algorithm| supports(*algorithm, primitive, &scope)) {
            return Choice { algorithm, n_channels };
        }
        let whole = self.whole_bytes(operation);
        if self.is_silent() {
            let algorithm = nccl_algorithm(self.taken(operation, whole), primitive, &scope);
            return Choice { algorithm, n_channels };
        }
        let pick = self.tuning.choose(primitive, whole, &scope);
        let n_channels = pick.channels.map_or(n_channels, |most| most.min(n_channels));
        if let Some(wanted) = wanted {
            self.note_replaced(primitive, wanted, pick.algorithm);
        }
        Choice { algorithm: pick.algorithm, n_channels }
    }

    /// The bytes of an operation, of all blocks where each rank has one.
    pub(crate) fn whole_bytes(&self, operation: &Operation) -> usize {
        let blocks = if operation.primitive.has_blocks() { self.n_ranks } else { 1 };
        operation.bytes().saturating_mul(blocks)
    }

    /// What the ranks' messages of an operation must agree on, beside the primitive. With silent faults the bytes alone: what
    /// differs otherwise gives garbage, as in NCCL.
    pub(crate) fn signature(&self, operation: &Operation, choice: Choice) -> u64 {
        if self.is_silent() { operation.bytes() as u64 } else { operation.signature(choice) }
    }

    /// Says once for each primitive that the algorithm of the settings cannot carry it out.
    fn note_replaced(&self, primitive: Primitive, wanted: Algorithm, taken: Algorithm) {
        let bit = 1 << primitive.code();
        if self.n_ranks > 1 && self.replaced.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            let (name, wanted, taken) = (primitive.name(), wanted.name(), taken.name());
            let line = format!("RSCCL_ALGO={wanted} cannot carry out {name} here: {taken} does");
            self.info(subsystem::TUNING, &line);
        }
    }

    /// All steps of this rank, each with its channel.
    pub(crate) fn steps(&self, operation: &Operation, choice: Choice) -> Vec<(u32, Step)> {
        if let Some(message) = operation.message() {
            return vec![(P2P_CHANNEL, message)];
        }
        let mut steps = Vec::new();
        let reducer = operation.moved_as(choice.algorithm);
        for (channel, ring) in (0_u32..).zip(&self.rings).take(choice.n_channels) {
            let scope = self.scope(operation, reducer, &ring.order, channel as usize, choice.n_channels);
            let count = operation.moved_count();
            let schedule = schedule(choice.algorithm, operation.primitive, count, &scope);
            steps.extend(schedule.steps(self.rank).map(|step| (channel, step)));
        }
        steps
    }

    /// What `rank` sends on each channel to each other rank, in bytes and closed form; `cut` is how flat rounds do.
    #[cfg(test)]
    pub(crate) fn closed_form(
        &self,
        operation: &Operation,
        cut: &Cut,
        rank: usize,
    ) -> BTreeMap<(u32, usize), u64> {
        if self.is_flat(operation) {
            let peers = (0..self.n_ranks).filter(|peer| *peer != rank && operation.count > 0);
            let bytes =
                |peer| (0..cut.n_rounds()).map(|round| cut.read_bytes(round, rank, peer) as u64).sum();
            return peers.map(|peer| ((0, peer), bytes(peer))).collect();
        }
        let choice = self.choose(operation);
        let (count, primitive) = (operation.moved_count(), operation.primitive);
        let mut links = BTreeMap::new();
        let reducer = operation.moved_as(choice.algorithm);
        for (channel, ring) in (0_u32..).zip(&self.rings).take(choice.n_channels) {
            let scope = self.scope(operation, reducer, &ring.order, channel as usize, choice.n_channels);
            for (peer, sent) in sent(choice.algorithm, primitive, count, &scope, rank) {
                links.insert((channel, peer), sent.bytes(reducer) as u64);
            }
        }
        links
    }

    fn scope<'a>(
        &'a self,
        operation: &Operation,
        reducer: Reducer,
        order: &'a [usize],
        channel: usize,
        n_channels: usize,
    ) -> Scope<'a> {
        Scope {
            n_ranks: self.n_ranks,
            nodes: &self.topology.nodes,
            order,
            channel,
            n_channels,
            wide: reducer.is_wide(),
            n_virtual: operation.n_virtual,
            piece: self.settings.step_bytes / reducer.bytes(Form::Partial).max(reducer.bytes(Form::Element)),
        }
    }

    /// A connection to `peer` for what this rank sends on `channel`.
    pub fn open_send(&self, channel: u32, peer: usize) -> Result<Box<dyn SendHalf>> {
        let place = |rank| (rank, self.topology.device(rank));
        let shown = if channel == P2P_CHANNEL { 0 } else { channel as usize };
        let log = |nic| {
            if self.topology.machine.is_some() {
                // The log has told of all that NCCL would connect.
                return;
            }
            // NCCL numbers connections of collectives 0, those of send and receive 1.
            let index = u8::from(channel == P2P_CHANNEL || !self.is_silent());
            let line =
                lines::hop(shown, index, place(self.rank), place(peer), "send", nic, self.identity.version);
            self.info(subsystem::INIT, &line);
        };
        if let Some(host) = self.host.as_ref().filter(|host| host.reaches(peer)) {
            let half = host.open_send(channel, peer)?;
            log(None);
            return Ok(Box::new(half));
        }
        let nic = self.topology.nic(self.rank, shown, Way::In);
        let address = self.peers[peer].listens(self.topology.nic(peer, shown, Way::In));
        let own = &self.peers[self.rank].nics[nic];
        let target = Target { rank: peer, address, from: own.address };
        let call = |strand| {
            let hello = Hello { purpose: Purpose::Data(strand), rank: self.rank, to: peer };
            call_peer(&target, hello, &self.secret, self.settings.timeout)
        };
        let streams: std::io::Result<Vec<_>> =
            strands(channel, self.carrier.n_sockets(self.settings.n_sockets)).map(call).collect();
        let streams = streams.map_err(|error| {
            let Target { address, from, .. } = target;
            let name = &self.names[peer];
            let what = format_args!("cannot connect from {from} to {name} at {address} for a send");
            match Error::calling(what, &error) {
                // Who reads this looks at its beginning for the rank that was lost.
                Error::Remote(_) => {
                    let how = format_args!("takes no connection from {from} at {address} for a send");
                    Error::Remote(format!("{name} {how}: {error}"))
                }
                own => own,
            }
        })?;
        let nic = (own.name.as_str(), nic);
        log(Some((self.carrier.name(), self.carrier.device(nic))));
        Ok(self.carrier.send(streams, nic))
    }

    /// The receiving end of a connection that `peer` has made.
    pub fn open_recv(&self, channel: u32, streams: Vec<TcpStream>, peer: usize) -> Box<dyn RecvHalf> {
        let shown = if channel == P2P_CHANNEL { 0 } else { channel as usize };
        // As `open_send` has it at the other end.
        let nic = self.topology.nic(self.rank, shown, Way::In);
        self.carrier.recv(streams, peer, (&self.peers[self.rank].nics[nic].name, nic))
    }

    /// The receiving end for `peer`, if it shares memory with this rank: no call of the peer is needed.
    pub fn open_shared_recv(&self, channel: u32, peer: usize) -> Result<Option<Box<dyn RecvHalf>>> {
        let Some(host) = self.host.as_ref().filter(|host| host.reaches(peer)) else { return Ok(None) };
        Ok(Some(Box::new(host.open_recv(channel, peer)?)))
    }
}
