//! What carries data between the hosts of a communicator: sockets, or a network plugin.

use std::net::TcpStream;
use std::sync::Arc;

use crate::error::Result;
use crate::transport::plugin::network::{Context, Network};
use crate::transport::plugin::recv::PluginRecv;
use crate::transport::plugin::send::PluginSend;
use crate::transport::tcp::recv::TcpRecv;
use crate::transport::tcp::send::TcpSend;
use crate::transport::{RecvHalf, SendHalf};

/// The carrier of one communicator.
#[derive(Clone, Debug)]
pub(crate) enum Carrier {
    /// The sockets themselves.
    Sockets,
    /// A network plugin, beside which the sockets stay.
    Plugin(Arc<Context>),
}

impl Carrier {
    /// Of a communicator of this hash.
    pub(crate) fn new(network: Option<&Arc<Network>>, comm_hash: u64) -> Result<Self> {
        let plugin = network.map(|network| Context::new(network, comm_hash).map(Self::Plugin));
        plugin.unwrap_or(Ok(Self::Sockets))
    }

    /// As NCCL calls it.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Sockets => "Socket",
            Self::Plugin(context) => context.network().name(),
        }
    }

    /// How many sockets a connection has, where so many are asked for.
    pub(crate) fn n_sockets(&self, asked: u8) -> u8 {
        if matches!(self, Self::Sockets) { asked } else { 1 }
    }

    /// The number of the device for a NIC of this name and place in the list.
    pub(crate) fn device(&self, (nic, place): (&str, usize)) -> usize {
        match self {
            Self::Sockets => place,
            Self::Plugin(context) => context.network().device_of(nic, place),
        }
    }

    /// The sending end of a connection that this rank has called for.
    pub(crate) fn send(&self, streams: Vec<TcpStream>, nic: (&str, usize)) -> Box<dyn SendHalf> {
        let context = match self {
            Self::Sockets => return Box::new(TcpSend::new(streams)),
            Self::Plugin(context) => Arc::clone(context),
        };
        Box::new(PluginSend::new(streams, self.device(nic), context))
    }

    /// The receiving end of a connection that `peer` has called for.
    pub(crate) fn recv(&self, streams: Vec<TcpStream>, peer: usize, nic: (&str, usize)) -> Box<dyn RecvHalf> {
        let context = match self {
            Self::Sockets => return Box::new(TcpRecv::new(streams, peer)),
            Self::Plugin(context) => Arc::clone(context),
        };
        Box::new(PluginRecv::new(streams, peer, self.device(nic), context))
    }
}
