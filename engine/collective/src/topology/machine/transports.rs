//! How two ranks are connected on a described machine: over each other's memory, shared memory or a NIC (`src/transport.cc`
//! `selectTransport`, `src/transport/p2p.cc`, `src/transport/net.cc`, `src/graph/search.cc` `ncclTopoGetNetDev`).

use super::described::Described;
use super::system::Kind;
use crate::topology::graph::PathType;

/// Ways as far as this are counted for a NIC that may be faster than the memory of a GPU.
const NEAR: PathType = PathType::Pxb;
/// Of GPUs over NVLink, Ampere's are read from.
const READS: u32 = 80;

/// What connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NcclTransport {
    /// The GPU's memory; whether the receiver reads it, and whether both are of one process.
    Memory {
        /// Whether the receiver reads.
        reads: bool,
        /// Whether both are of one process.
        same_process: bool,
    },
    /// The memory of a GPU in between, by its rank.
    Over {
        /// The rank.
        rank: usize,
        /// Whether the receiver reads.
        reads: bool,
    },
    /// Memory of the host.
    Shared,
    /// A NIC, by its number.
    Net {
        /// The number.
        device: usize,
        /// The rank whose GPU is beside it, if that is not the own one.
        proxy: Option<usize>,
        /// Whether the NIC reaches the GPU's memory.
        gdr: bool,
    },
}

/// Between which ranks, and which one asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    /// The sender.
    pub(crate) from: usize,
    /// The receiver.
    pub(crate) to: usize,
    /// Whether the sender asks, whose NIC counts then.
    pub(crate) sends: bool,
}

impl Described {
    /// The connection of a channel; `graph` has the NICs of collectives, send and receive have none.
    pub(crate) fn transport(&self, ends: Ends, channel: usize, graph: Option<GraphKind>) -> NcclTransport {
        let (from, to) = (ends.from, ends.to);
        if self.node(from) == self.node(to) && !self.is_net_faster(from, to) {
            return self.inside(from, to);
        }
        let (own, peer) = if ends.sends { (from, to) } else { (to, to) };
        let view = self.view(self.node(own));
        let (gpu, local) = (view.gpu(self.local(own)), self.local(own));
        let (net, proxy) = match graph {
            Some(GraphKind::Nvls) => {
                let own = view.nvls.iter().flat_map(|nvls| &nvls.channels);
                let own: Vec<usize> = own
                    .filter(|channel| channel.order.first() == Some(&local))
                    .map(|channel| channel.enter)
                    .collect();
                let net = own.get(channel % own.len().max(1)).copied().unwrap_or(0);
                (net, view.system.proxy(gpu, net))
            }
            Some(graph) => {
                let found = if graph == GraphKind::Trees { &view.trees } else { &view.rings };
                let channel = &found.channels[channel % found.channels.len().max(1)];
                let net = if channel.order.first() == Some(&local) { channel.enter } else { channel.exit };
                (net, view.system.proxy(gpu, net))
            }
            None => self.net_of_pair(own, peer, channel),
        };
        let relay = self.rank(self.node(own), view.system.gpu(proxy).1);
        NcclTransport::Net {
            device: net,
            proxy: (ends.sends && relay != own).then_some(relay),
            gdr: view.system.has_gdr(gpu, net),
        }
    }

    fn inside(&self, from: usize, to: usize) -> NcclTransport {
        let view = self.view(self.node(from));
        let (one, other) = (view.gpu(self.local(from)), view.gpu(self.local(to)));
        if !view.system.is_p2p(one, other) {
            return NcclTransport::Shared;
        }
        let path = view.system.between((Kind::Gpu, one), (Kind::Gpu, other));
        let ampere = [one, other].iter().all(|gpu| view.system.gpu(*gpu).2 == READS);
        let reads = ampere && path.is_some_and(|path| path.kind == PathType::Nvl);
        match view.system.relay(one, other) {
            Some(relay) => {
                NcclTransport::Over { rank: self.rank(self.node(from), view.system.gpu(relay).1), reads }
            }
            None => NcclTransport::Memory { reads, same_process: self.is_same_process(from, to) },
        }
    }

    /// Whether both reach NICs faster than each other (`ncclTopoCheckNet`).
    fn is_net_faster(&self, from: usize, to: usize) -> bool {
        let view = self.view(self.node(from));
        let gpus = [from, to].map(|rank| view.gpu(self.local(rank)));
        let own = view.system.between((Kind::Gpu, gpus[0]), (Kind::Gpu, gpus[1]));
        let speed = own.map_or(0.0, |path| path.bandwidth);
        gpus.iter().all(|gpu| {
            let nets = 0..view.system.of(Kind::Net).len();
            let paths = nets.filter_map(|net| view.system.between((Kind::Gpu, *gpu), (Kind::Net, net)));
            paths.filter(|path| path.kind <= NEAR).any(|path| path.bandwidth > speed)
        })
    }

    /// For send and receive the NIC beside the peer's GPU of the own node is taken, where the GPU there can pass on.
    fn net_of_pair(&self, own: usize, peer: usize, channel: usize) -> (usize, usize) {
        let node = self.node(own);
        let system = &self.view(node).system;
        let gpu = self.view(node).gpu(self.local(own));
        let first = (system.local_net(gpu, channel).unwrap_or(0), gpu);
        let twin = (0..system.n_gpus()).find(|gpu| system.gpu(*gpu).0 == self.device(peer));
        let net = twin.and_then(|twin| system.local_net(twin, channel));
        let relay =
            net.and_then(|net| system.local_gpus.get(net).copied().flatten().map(|relay| (net, relay)));
        let passes = |(net, relay): &(usize, usize)| {
            let near = system.between((Kind::Gpu, *relay), (Kind::Net, *net));
            let links = system.between((Kind::Gpu, *relay), (Kind::Gpu, gpu));
            links.is_some_and(|path| path.kind <= PathType::Nvl) && near.is_some_and(|path| path.kind <= NEAR)
        };
        relay.filter(passes).unwrap_or(first)
    }

    /// Of the rings between nodes: whether any goes over another GPU to its NIC, and whether all NICs reach the GPUs' memory.
    pub(crate) fn ring_nets(&self) -> (bool, bool) {
        let (mut proxies, mut all_gdr) = (false, true);
        for node in (0..self.n_nodes()).filter(|_| self.n_nodes() > 1) {
            let view = self.view(node);
            if (0..node).any(|other| std::ptr::eq(self.view(other), view)) {
                continue;
            }
            for channel in &view.rings.channels {
                let (Some(first), Some(last)) = (channel.order.first(), channel.order.last()) else {
                    continue;
                };
                let (first, last) = (view.gpu(*first), view.gpu(*last));
                proxies |= view.system.proxy(last, channel.exit) != last;
                all_gdr &=
                    view.system.has_gdr(first, channel.enter) && view.system.has_gdr(last, channel.exit);
            }
        }
        (proxies, all_gdr)
    }
}

/// Whose NICs a connection takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GraphKind {
    /// The rings'.
    Rings,
    /// The trees'.
    Trees,
    /// NVLS's, each of which has one GPU.
    Nvls,
}
