//! How a communicator carries out an operation: algorithm, channels, steps, connections.

use std::net::TcpStream;

use crate::collective::algorithm::{Algorithm, Choice};
use crate::collective::catalog::{schedule, supports};
use crate::collective::layout::Scope;
use crate::collective::operation::Operation;
use crate::collective::plan::STEP_BYTES;
use crate::collective::schedule::Step;
use crate::comm::Comm;
use crate::comm::links::P2P_CHANNEL;
use crate::error::{Error, Result};
use crate::kernels::Form;
use crate::log::{lines, subsystem};
use crate::net::connect::{Target, call_peer};
use crate::net::hello::{Hello, Purpose};
use crate::topology::PeerNic;
use crate::transport::tcp::recv::TcpRecv;
use crate::transport::tcp::send::TcpSend;
use crate::transport::{RecvHalf, SendHalf};

impl Comm {
    /// The algorithm and the channels of an operation, the same on all ranks.
    pub(crate) fn choose(&self, operation: &Operation) -> Choice {
        let n_channels = operation.n_channels(self.rings.len());
        let order = self.rings.first().map_or(&[][..], |ring| &ring.order);
        let scope = self.scope(operation, order, 0, n_channels);
        let ordered = operation.n_virtual > 1 || self.settings.rank_order && operation.primitive.reduces();
        let wanted = self.settings.algorithm.into_iter().chain([Algorithm::Ring]);
        let mut wanted = wanted.filter(|algorithm| !ordered || algorithm.keeps_rank_order());
        let found = wanted.find(|algorithm| supports(*algorithm, operation.primitive, &scope));
        Choice { algorithm: found.unwrap_or(Algorithm::Direct), n_channels }
    }

    /// All steps of this rank, each with its channel.
    pub(crate) fn steps(&self, operation: &Operation, choice: Choice) -> Vec<(u32, Step)> {
        if let Some(message) = operation.message() {
            return vec![(P2P_CHANNEL, message)];
        }
        let mut steps = Vec::new();
        for (channel, ring) in (0_u32..).zip(&self.rings).take(choice.n_channels) {
            let scope = self.scope(operation, &ring.order, channel as usize, choice.n_channels);
            let count = operation.moved_count();
            let schedule = schedule(choice.algorithm, operation.primitive, count, &scope);
            steps.extend(schedule.steps(self.rank).map(|step| (channel, step)));
        }
        steps
    }

    fn scope<'a>(
        &'a self,
        operation: &Operation,
        order: &'a [usize],
        channel: usize,
        n_channels: usize,
    ) -> Scope<'a> {
        let fold = operation.moved_as();
        Scope {
            n_ranks: self.n_ranks,
            nodes: &self.topology.nodes,
            order,
            channel,
            n_channels,
            wide: fold.is_wide(),
            n_virtual: operation.n_virtual,
            piece: STEP_BYTES / fold.bytes(Form::Partial).max(fold.bytes(Form::Element)),
        }
    }

    /// A connection to `peer` for what this rank sends on `channel`.
    pub(crate) fn open_send(&self, channel: u32, peer: usize) -> Result<Box<dyn SendHalf>> {
        let (own, other) = (self.nic_of(self.rank, channel), self.nic_of(peer, channel));
        let target = Target { rank: peer, address: other.listen, from: own.address };
        let hello = Hello { purpose: Purpose::Data(channel), rank: self.rank };
        let stream = call_peer(&target, hello, &self.secret, self.settings.timeout).map_err(|error| {
            Error::Remote(format!("cannot connect to {} for a send: {error}", self.names[peer]))
        })?;
        let place = |rank| (rank, self.topology.local_rank(rank));
        let shown = if channel == P2P_CHANNEL { 0 } else { channel as usize };
        self.info(subsystem::INIT, &lines::hop(shown, 1, place(self.rank), place(peer), "send", 0));
        Ok(Box::new(TcpSend::new(stream, peer)))
    }

    /// The receiving end of a connection that `peer` has made.
    pub(crate) fn open_recv(&self, stream: TcpStream, peer: usize) -> Box<dyn RecvHalf> {
        Box::new(TcpRecv::new(stream, peer))
    }

    /// The NIC of `rank` on `channel`.
    fn nic_of(&self, rank: usize, channel: u32) -> &PeerNic {
        let nics = &self.peers[rank].nics;
        let channel = if channel == P2P_CHANNEL { 0 } else { channel as usize };
        &nics[(channel % self.base_channels) % nics.len()]
    }
}
