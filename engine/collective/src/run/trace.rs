//! What a profiler is told of a running operation: one KernelCh per channel, one ProxyOp per connection and direction,
//! one ProxyStep per slice.
//!
//! A channel begins with its operation, as a kernel does on a GPU: whether anything comes to it is another question, which
//! the steps answer. It takes the collectives of a launch in turn. As many steps of a connection are under way as NCCL's proxy
//! has buffers for: a step begins when its
//! buffer is free, not when its slice moves (`sendProxyProgress`, `recvProxyProgress` in `src/transport/net.cc`). Nothing of
//! this exists without a profiler.

use std::collections::VecDeque;

use crate::collective::plan::{Direction, Plan, Queue};
use crate::comm::links::P2P_CHANNEL;
use crate::profiler::emit::OperationEvents;
use crate::profiler::emit::work::Transfers;
use crate::profiler::teller::Event;

/// The events of one operation.
#[derive(Debug)]
pub(crate) struct Trace {
    events: OperationEvents,
    channels: Vec<Channel>,
    /// Per queue.
    queues: Vec<Proxy>,
}

#[derive(Debug)]
struct Channel {
    id: u32,
    kernels: Vec<Event>,
    has_begun: bool,
    /// Slices that are not done.
    left: usize,
}

/// One connection's steps.
#[derive(Debug)]
struct Proxy {
    op: Option<Event>,
    is_send: bool,
    /// Of the slices from `done` on.
    steps: VecDeque<Option<Event>>,
    n_slices: u32,
    /// Slices whose buffer is free again.
    done: u32,
    /// Slices that were ready to be sent.
    ready: u32,
    /// Slices of which the network has taken something.
    taken: u32,
}

impl Trace {
    /// For an operation that begins; nothing without a profiler. `is_network` says of each queue whether it leaves the host.
    pub(crate) fn new(events: &OperationEvents, plan: &Plan, is_network: &[bool]) -> Option<Box<Self>> {
        if !events.is_wanted() {
            return None;
        }
        let mut channels: Vec<Channel> = Vec::new();
        for queue in &plan.queues {
            match channels.iter_mut().find(|channel| channel.id == queue.channel) {
                Some(channel) => channel.left += queue.slices.len(),
                None => {
                    let left = queue.slices.len();
                    channels.push(Channel { id: queue.channel, kernels: Vec::new(), has_begun: false, left });
                }
            }
        }
        let proxy = |(queue, is_network): (&Queue, &bool)| {
            let is_told = *is_network || !events.has_proxies_of_networks_alone();
            Proxy::new(events, queue, is_told && queue.direction != Direction::Local)
        };
        let queues = plan.queues.iter().zip(is_network).map(proxy).collect();
        Some(Box::new(Self { events: events.clone(), channels, queues }))
    }

    /// Begins the channels that no earlier operation of the launch is at; those that this one is at become `busy`. Sends and
    /// receives run together.
    pub(crate) fn begin_channels(&mut self, busy: &mut Vec<u32>) {
        for channel in &mut self.channels {
            if busy.contains(&channel.id) && channel.id != P2P_CHANNEL {
                continue;
            }
            if !channel.has_begun {
                channel.has_begun = true;
                channel.kernels = self.events.kernel_start(channel.id);
                if channel.left == 0 {
                    self.events.kernel_stop(&channel.kernels);
                }
            }
            if channel.left > 0 {
                busy.push(channel.id);
            }
        }
    }

    /// A slice may be sent; later calls for the same slice are nothing new.
    pub(crate) fn send_ready(&mut self, queue: usize, index: u32) {
        let Self { events, queues, .. } = self;
        let proxy = &mut queues[queue];
        if index >= proxy.ready {
            proxy.ready = index + 1;
            proxy.begin_steps(events, index + 1);
            events.ready(proxy.step(index));
        }
    }

    /// The network has taken something of a slice of `bytes`.
    pub(crate) fn send_start(&mut self, queue: usize, index: u32, bytes: usize) {
        let Self { events, queues, .. } = self;
        let proxy = &mut queues[queue];
        if index >= proxy.taken {
            proxy.taken = index + 1;
            events.sending(proxy.step(index), bytes);
        }
    }

    /// It has been handed to the transport whole: the channel has done with it.
    pub(crate) fn send_posted(&mut self, plan: &Plan, queue: usize) {
        self.part_done(plan, queue);
    }

    /// So many slices have been sent.
    pub(crate) fn sent(&mut self, queue: usize, done: u32) {
        let Self { events, queues, .. } = self;
        while queues[queue].done < done {
            queues[queue].end_step(events);
        }
    }

    /// A slice has come whole.
    pub(crate) fn received(&mut self, plan: &Plan, queue: usize, index: u32, bytes: usize) {
        let Self { events, queues, .. } = self;
        let proxy = &mut queues[queue];
        events.received(proxy.step(index), bytes);
        proxy.end_step(events);
        self.part_done(plan, queue);
    }

    /// Own work is done.
    pub(crate) fn work_stop(&mut self, plan: &Plan, queue: usize) {
        self.part_done(plan, queue);
    }

    fn part_done(&mut self, plan: &Plan, queue: usize) {
        let id = plan.queues[queue].channel;
        if let Some(channel) = self.channels.iter_mut().find(|channel| channel.id == id) {
            channel.left -= 1;
            if channel.left == 0 && channel.has_begun {
                self.events.kernel_stop(&channel.kernels);
            }
        }
    }
}

impl Proxy {
    fn new(events: &OperationEvents, queue: &Queue, is_told: bool) -> Self {
        let is_send = queue.direction == Direction::Send;
        let transfers = Transfers {
            peer: queue.peer,
            n_steps: queue.slices.len(),
            chunk_bytes: queue.slices.iter().map(|slice| slice.from.len).max().unwrap_or(0),
        };
        let is_told = is_told && !queue.slices.is_empty();
        let op = if is_told { events.proxy_op(queue.channel, transfers, is_send) } else { None };
        // A plan's slices are counted in 32 bits.
        let n_slices = u32::try_from(queue.slices.len()).unwrap_or(u32::MAX);
        let mut proxy = Self { op, is_send, steps: VecDeque::new(), n_slices, done: 0, ready: 0, taken: 0 };
        proxy.begin_steps(events, 0);
        proxy
    }

    fn step(&self, index: u32) -> Option<Event> {
        self.steps.get(index.checked_sub(self.done)? as usize).copied().flatten()
    }

    /// Of all slices for which there is a buffer, and of `at_least` so many.
    fn begin_steps(&mut self, events: &OperationEvents, at_least: u32) {
        if self.op.is_none() {
            return;
        }
        let end = (self.done + events.steps_at_once()).max(at_least).min(self.n_slices);
        // Steps under way are few.
        for index in self.done + u32::try_from(self.steps.len()).unwrap_or(u32::MAX)..end {
            let step = if self.is_send {
                events.send_step(self.op, index)
            } else {
                events.recv_step(self.op, index)
            };
            self.steps.push_back(step);
        }
    }

    /// The first step under way is over, and what its buffer was waited for begins.
    fn end_step(&mut self, events: &OperationEvents) {
        self.done += 1;
        events.stop(self.steps.pop_front().flatten());
        if self.done == self.n_slices {
            events.stop(self.op.take());
        } else {
            self.begin_steps(events, 0);
        }
    }
}
