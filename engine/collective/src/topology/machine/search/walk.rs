//! Lays channels, one after the other and GPU by GPU, and takes them up again where no link has room (`src/graph/search.cc`,
//! `ncclTopoSearchRec` and what it calls). GPUs before Ampere, whose links do not carry both ways alike, are not told apart.

use super::order;
use super::topo_graph::{Pattern, TopoGraph};
use super::ways::{Point, Ways};
use crate::topology::machine::system::{Kind, System};
use crate::topology::search::Channel;

/// Steps for the order of the PCI bus, which is tried first.
const PCI_ORDER_STEPS: i64 = 1 << 10;

/// What decides the order of a channel's GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The search.
    Free,
    /// That of the PCI bus.
    Pci,
    /// That of the channel before.
    Replay,
}

/// Which GPU of a channel, by its place, goes back to the NIC or to the first GPU.
#[derive(Clone, Copy, Debug)]
struct Back {
    net: Option<usize>,
    first: Option<usize>,
    order: Order,
}

/// Channels being laid.
pub(super) struct Walk<'a> {
    pub(super) system: &'a System,
    pub(super) tried: &'a mut TopoGraph,
    best: &'a mut TopoGraph,
    pub(super) ways: &'a Ways,
    /// GB/s left of each link.
    pub(super) left: Vec<f32>,
    /// Whole GB/s left of each port.
    net_left: Vec<f32>,
    /// The channel that is being laid: its NICs, and its GPUs by their number in the system.
    enter: usize,
    exit: usize,
    gpus: Vec<usize>,
    /// The channels before it, likewise.
    laid: Vec<Vec<usize>>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        system: &'a System,
        ways: &'a Ways,
        tried: &'a mut TopoGraph,
        best: &'a mut TopoGraph,
    ) -> Self {
        let nets = 0..system.of(Kind::Net).len();
        let net_left = nets.map(|net| system.net(net).map_or(0.0, |net| net.bandwidth)).collect();
        let left = ways.links.clone();
        let (gpus, laid) = (Vec::new(), Vec::new());
        Self { system, tried, best, ways, left, net_left, enter: 0, exit: 0, gpus, laid }
    }

    /// One channel more, and those after it.
    pub(super) fn run(&mut self, time: &mut i64) {
        let n = self.system.n_gpus();
        let is_ring = self.tried.pattern == Pattern::Ring;
        if self.system.inter {
            let net = Some(if is_ring { n - 1 } else { 0 });
            return self.begin_at_nets(Back { net, first: None, order: Order::Free }, time);
        }
        let back = Back { net: None, first: is_ring.then_some(n - 1), order: Order::Free };
        let none = self.tried.channels.is_empty();
        if self.tried.pattern == Pattern::Nvls {
            return self.enter_gpu(None, self.tried.channels.len(), 0, back, time);
        }
        match self.laid.last().map(|gpus| gpus[0]) {
            None => self.enter_gpu(None, 0, 0, Back { order: Order::Pci, ..back }, time),
            Some(first) => self.enter_gpu(None, first, 0, Back { order: Order::Replay, ..back }, time),
        }
        if !self.tried.same_channels || none {
            (0..n).for_each(|gpu| self.enter_gpu(None, gpu, 0, back, time));
        }
    }

    fn begin_at_nets(&mut self, back: Back, time: &mut i64) {
        let n_channels = self.tried.channels.len();
        let nets = self.ways.nets(None, self.tried.type_inter);
        let n_nets = nets.len();
        let by_heads = matches!(self.tried.pattern, Pattern::Nvls | Pattern::CollNetDirect);
        let bandwidth = self.tried.bw_inter.trunc();
        for index in 0..n_nets {
            let net = nets[(n_channels + index) % n_nets];
            if !self.may_enter(net, bandwidth) {
                continue;
            }
            self.enter = net;
            self.take_port(net, bandwidth);
            let found = if by_heads {
                self.begin_at_head(net, n_channels < n_nets, back, time)
            } else {
                self.begin_at_net(net, back, time);
                false
            };
            self.take_port(net, -bandwidth);
            if found {
                break;
            }
        }
    }

    fn may_enter(&self, net: usize, bandwidth: f32) -> bool {
        let crosses = self.tried.pattern == Pattern::Ring && self.tried.cross_nic == 2;
        let odd = self.tried.channels.last().filter(|_| crosses && self.tried.channels.len() % 2 == 1);
        let reduces = self.system.net(net).is_some_and(|net| net.coll);
        (reduces || !self.tried.collnet)
            && self.net_left[net] >= bandwidth
            && odd.is_none_or(|last| last.exit == net)
    }

    /// All ports of a card's number share it.
    fn take_port(&mut self, net: usize, bandwidth: f32) {
        for other in 0..self.net_left.len() {
            if self.is_same_port(net, other) {
                self.net_left[other] -= bandwidth;
            }
        }
    }

    fn is_same_port(&self, one: usize, other: usize) -> bool {
        let card = |net: usize| self.system.net(net).map(|net| (net.asic, net.port));
        card(one) == card(other)
    }

    /// NVLS and CollNet only need the GPU beside the NIC.
    fn begin_at_head(&mut self, net: usize, is_free: bool, back: Back, time: &mut i64) -> bool {
        let Some(gpu) = self.system.local_gpus[net].filter(|_| is_free) else { return false };
        if self.laid.iter().any(|gpus| gpus[0] == gpu) {
            return false;
        }
        self.enter_gpu(Some(self.ways.net(net)), gpu, 0, back, time);
        true
    }

    fn begin_at_net(&mut self, net: usize, back: Back, time: &mut i64) {
        let from = Some(self.ways.net(net));
        if self.tried.same_channels
            && let Some(first) = self.laid.last().map(|gpus| gpus[0])
        {
            return self.enter_gpu(from, first, 0, Back { order: Order::Replay, ..back }, time);
        }
        if self.tried.channels.is_empty() && self.system.of(Kind::Nvs).is_empty() {
            let mut steps = PCI_ORDER_STEPS;
            self.enter_gpu(from, 0, 0, Back { order: Order::Pci, ..back }, &mut steps);
            if steps == -1 {
                *time = -1;
            }
        }
        let local = self.system.local_gpus[net];
        let others = self.system.nearest((Kind::Net, net), Kind::Gpu).0;
        let others = others.into_iter().filter(|gpu| Some(*gpu) != local);
        for gpu in local.into_iter().chain(others) {
            self.enter_gpu(from, gpu, 0, back, time);
        }
    }

    /// Goes on to a GPU, if the way there has room.
    fn enter_gpu(&mut self, from: Option<Point>, gpu: usize, step: usize, back: Back, time: &mut i64) {
        if self.follow(from, gpu, 1.0) {
            self.at_gpu(gpu, step, back, time);
            self.leave(from, gpu, 1.0);
        }
    }

    fn at_gpu(&mut self, gpu: usize, step: usize, back: Back, time: &mut i64) {
        if *time <= 0 {
            return;
        }
        *time -= 1;
        let n = self.system.n_gpus();
        if step == n {
            return self.keep(time);
        }
        self.gpus.truncate(step);
        self.gpus.push(gpu);
        if back.net == Some(step) {
            if self.system.inter {
                self.back_to_net(gpu, step, back, time);
            }
        } else if self.tried.pattern == Pattern::Nvls {
            self.try_nvls(gpu, time);
        } else if self.tried.pattern == Pattern::CollNetDirect {
            self.try_direct(gpu, time);
        } else if step + 1 < n {
            for next in self.next(gpu, step, back) {
                self.gpus.truncate(step + 1);
                self.enter_gpu(Some(gpu), next, step + 1, back, time);
            }
        } else if back.first == Some(step) {
            let first = self.gpus[0];
            if self.follow(Some(gpu), first, 1.0) {
                self.at_gpu(first, step + 1, Back { first: None, ..back }, time);
                self.leave(Some(gpu), first, 1.0);
            }
        } else {
            self.at_gpu(gpu, n, Back { net: None, first: None, ..back }, time);
        }
    }

    fn next(&self, gpu: usize, step: usize, back: Back) -> Vec<usize> {
        match (back.order, self.laid.last()) {
            (Order::Pci, _) => vec![step + 1],
            (Order::Replay, Some(last)) => vec![last[step + 1]],
            _ => self.free_order(gpu, step, back),
        }
    }

    /// The best GPU first. As long as the channel does not go back to its NIC at once, GPUs near that are kept for later.
    fn free_order(&self, gpu: usize, step: usize, back: Back) -> Vec<usize> {
        let net = back.net.map(|_| self.enter);
        let free = self.ways.next(gpu, net).iter().filter(|(other, _)| !self.gpus.contains(other));
        let (mut next, mut classes) = (Vec::with_capacity(self.system.n_gpus()), (u8::MAX, 0));
        for (other, class) in free {
            next.push(*other);
            classes = (classes.0.min(*class), classes.1.max(*class));
        }
        if back.net.is_some_and(|net| net != step + 1) && classes.0 >= classes.1 {
            next.reverse();
        }
        if !self.system.of(Kind::Nvs).is_empty() {
            order::keep_neighbours(self.tried.pattern, gpu, self.system.n_gpus(), &mut next);
        }
        next
    }

    fn back_to_net(&mut self, gpu: usize, step: usize, back: Back, time: &mut i64) {
        let balanced = self.tried.pattern == Pattern::BalancedTree;
        for net in self.ways.nets(Some(gpu), self.tried.type_inter).iter().copied() {
            if !self.may_leave(net, step) {
                continue;
            }
            // A balanced tree has half of the traffic on each of its first two GPUs.
            let share = if balanced { 0.5 } else { 1.0 };
            let next = (balanced && step == 0).then_some(1);
            if self.follow(Some(gpu), self.ways.net(net), share) {
                self.exit = net;
                self.at_gpu(gpu, step, Back { net: next, ..back }, time);
                self.leave(Some(gpu), self.ways.net(net), share);
            }
        }
    }

    fn may_leave(&self, net: usize, step: usize) -> bool {
        let tried = &self.tried;
        if tried.pattern == Pattern::Tree && net != self.enter {
            return false;
        }
        if tried.pattern == Pattern::Ring && tried.cross_nic == 2 {
            let odd = tried.channels.last().filter(|_| tried.channels.len() % 2 == 1);
            return odd.is_none_or(|last| last.enter == net);
        }
        if tried.cross_nic == 0 && !self.is_same_port(net, self.enter) {
            return false;
        }
        tried.pattern != Pattern::BalancedTree || step == 0 || net == self.exit
    }

    /// NVLS: all GPUs to and from the switches, its own twice.
    fn try_nvls(&mut self, gpu: usize, time: &mut i64) {
        let (n, switch) = (self.system.n_gpus(), self.ways.switch());
        let times = |other: usize| if other == gpu { 2.0 } else { 1.0 };
        let down = (0..n).map(|other| (switch, other, times(other)));
        let up = (0..n).map(|other| (other, switch, times(other)));
        self.over_all(&down.chain(up).collect::<Vec<_>>(), gpu, time);
    }

    /// CollNet direct: from one GPU to all others and back.
    fn try_direct(&mut self, gpu: usize, time: &mut i64) {
        let n = self.system.n_gpus();
        let share = 1.0 / u8::try_from(n.saturating_sub(1)).map_or(255.0, f32::from);
        let out = (0..n).map(|other| (gpu, other, share));
        let back = (0..n).map(|other| (other, gpu, share));
        self.gpus.extend((0..n).filter(|other| *other != gpu));
        self.over_all(&out.chain(back).collect::<Vec<_>>(), gpu, time);
    }

    /// Goes on if all of these ways have room for their share of a channel.
    fn over_all(&mut self, legs: &[(Point, Point, f32)], gpu: usize, time: &mut i64) {
        let follows = |(from, to, share): &&(Point, Point, f32)| self.follow(Some(*from), *to, *share);
        let followed = legs.iter().take_while(follows).count();
        if followed == legs.len() {
            let back = Back { net: None, first: None, order: Order::Free };
            self.at_gpu(gpu, self.system.n_gpus(), back, time);
        }
        for (from, to, share) in legs[..followed].iter().rev() {
            self.leave(Some(*from), *to, *share);
        }
    }

    /// A channel is whole: is it the best so far, and is there room for another one?
    fn keep(&mut self, time: &mut i64) {
        let mut order: Vec<usize> = self.gpus.iter().map(|gpu| self.system.gpu(*gpu).1).collect();
        if self.tried.pattern == Pattern::Nvls {
            order.truncate(1);
        }
        self.tried.channels.push(Channel { enter: self.enter, exit: self.exit, order });
        if self.is_better() {
            self.best.clone_from(self.tried);
            if self.tried.channels.len() == self.tried.max_channels {
                *time = -1;
            }
        }
        if self.tried.channels.len() < self.tried.max_channels {
            let own = (self.enter, self.exit, std::mem::take(&mut self.gpus));
            self.laid.push(own.2.clone());
            self.run(time);
            self.laid.pop();
            (self.enter, self.exit, self.gpus) = own;
        }
        self.tried.channels.pop();
    }

    /// Whether what is laid is better than the best so far.
    fn is_better(&self) -> bool {
        let (tried, best) = (&self.tried, &self.best);
        let count = |found: &TopoGraph| u8::try_from(found.channels.len()).map_or(255.0, f32::from);
        if tried.channels.len() < tried.min_channels {
            return false;
        }
        if tried.pattern == Pattern::Nvls {
            let more =
                tried.channels.len() > best.channels.len() && tried.channels.len() <= self.system.n_gpus();
            return more || count(tried) * tried.bw_inter > count(best) * best.bw_inter;
        }
        let (own, known) = (count(tried) * tried.bw_intra, count(best) * best.bw_intra);
        let same = tried.pattern == best.pattern && tried.cross_nic == best.cross_nic;
        own > known || (own >= known && same && tried.n_hops < best.n_hops)
    }
}
