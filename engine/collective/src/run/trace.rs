//! What a profiler is told of a running operation: one KernelCh per channel, one ProxyOp per connection and direction,
//! one ProxyStep per part.
//!
//! A channel begins with its operation, as a kernel does on a GPU: whether anything comes to it is another question, which
//! the steps answer. Nothing of this exists without a profiler.

use crate::collective::plan::{Direction, Plan, Queue};
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
    /// Parts that are not done.
    left: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Proxy {
    op: Option<Event>,
    step: Option<Event>,
    begun: bool,
    /// Whether a profiler hears of it.
    is_told: bool,
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
                Some(channel) => channel.left += queue.parts.len(),
                None => {
                    let left = queue.parts.len();
                    let kernels = events.kernel_start(queue.channel);
                    channels.push(Channel { id: queue.channel, kernels, left });
                }
            }
        }
        let proxy = |(queue, is_network): (&Queue, &bool)| {
            let is_told = *is_network || !events.has_proxies_of_networks_alone();
            let op = if is_told { proxy_op(events, queue) } else { None };
            Proxy { op, is_told, ..Proxy::default() }
        };
        let queues = plan.queues.iter().zip(is_network).map(proxy).collect();
        Some(Box::new(Self { events: events.clone(), channels, queues }))
    }

    /// A send of `bytes` begins; later calls for the same part are nothing new.
    pub(crate) fn send_start(&mut self, queue: usize, index: u32, bytes: usize) {
        if !self.queues[queue].begun {
            self.step_start(queue, index);
            self.events.sending(self.queues[queue].step, bytes);
        }
    }

    /// It has been handed to the transport whole.
    pub(crate) fn send_stop(&mut self, plan: &Plan, queue: usize, index: u32) {
        self.step_stop(plan, queue, index);
    }

    /// A receive has begun; later calls for the same part are nothing new.
    pub(crate) fn recv_start(&mut self, queue: usize, index: u32) {
        if !self.queues[queue].begun {
            self.step_start(queue, index);
            self.events.receiving(self.queues[queue].step);
        }
    }

    /// It has come whole.
    pub(crate) fn recv_stop(&mut self, plan: &Plan, queue: usize, index: u32, bytes: usize) {
        self.events.received(self.queues[queue].step, bytes);
        self.step_stop(plan, queue, index);
    }

    /// Own work is done.
    pub(crate) fn work_stop(&mut self, plan: &Plan, queue: usize) {
        self.part_done(plan, queue);
    }

    fn step_start(&mut self, queue: usize, index: u32) {
        let proxy = &mut self.queues[queue];
        proxy.begun = true;
        proxy.step = if proxy.is_told { self.events.proxy_step(proxy.op, index) } else { None };
    }

    fn step_stop(&mut self, plan: &Plan, queue: usize, index: u32) {
        let proxy = &mut self.queues[queue];
        proxy.begun = false;
        self.events.stop(proxy.step.take());
        if index as usize + 1 == plan.queues[queue].parts.len() {
            self.events.stop(proxy.op.take());
        }
        self.part_done(plan, queue);
    }

    fn part_done(&mut self, plan: &Plan, queue: usize) {
        let id = plan.queues[queue].channel;
        if let Some(channel) = self.channels.iter_mut().find(|channel| channel.id == id) {
            channel.left -= 1;
            if channel.left == 0 {
                self.events.kernel_stop(&channel.kernels);
            }
        }
    }
}

fn proxy_op(events: &OperationEvents, queue: &Queue) -> Option<Event> {
    if queue.direction == Direction::Local {
        return None;
    }
    let transfers = Transfers {
        peer: queue.peer,
        n_steps: queue.parts.len(),
        chunk_bytes: queue.parts.iter().map(|part| part.from.len).max().unwrap_or(0),
    };
    events.proxy_op(queue.channel, transfers, queue.direction == Direction::Send)
}
