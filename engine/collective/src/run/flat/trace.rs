//! What a profiler is told of flat rounds: one KernelCh, a ProxyOp per other rank and direction, a ProxyStep per round
//! with the bytes that are read.

use crate::profiler::emit::OperationEvents;
use crate::profiler::emit::work::Transfers;
use crate::profiler::teller::Event;
use crate::run::flat::cut::Cut;

/// The channel that flat rounds count as.
const CHANNEL: u32 = 0;

/// The events of one operation.
#[derive(Debug)]
pub(crate) struct Trace {
    events: OperationEvents,
    cut: Cut,
    own: usize,
    kernels: Vec<Event>,
    /// Rounds that have begun.
    started: usize,
    /// Two per other rank: to it and from it.
    flows: Vec<Flow>,
}

#[derive(Debug)]
struct Flow {
    peer: usize,
    is_send: bool,
    op: Option<Event>,
    /// Of a round and the one after it, which may begin before it is over.
    steps: [Option<Event>; 2],
}

impl Trace {
    /// For an operation; nothing without a profiler.
    pub(crate) fn new(events: &OperationEvents, cut: Cut, own: usize, n_ranks: usize) -> Option<Box<Self>> {
        if !events.is_wanted() {
            return None;
        }
        let peers = (0..n_ranks).filter(|peer| *peer != own);
        let both = |peer| [true, false].map(|is_send| Flow { peer, is_send, op: None, steps: [None, None] });
        let flows = peers.flat_map(both).collect();
        Some(Box::new(Self { events: events.clone(), cut, own, kernels: Vec::new(), started: 0, flows }))
    }

    /// The own block of `round` is about to be shown; perhaps again, because others could not read it in place.
    pub(crate) fn start(&mut self, round: usize) {
        if round < self.started {
            return;
        }
        self.started = round + 1;
        if round == 0 {
            self.kernels = self.events.kernel_start(CHANNEL);
        }
        let Self { events, cut, own, flows, .. } = self;
        for flow in flows {
            let bytes = flow.bytes(cut, *own, round);
            if round == 0 {
                let transfers = Transfers { peer: flow.peer, n_steps: cut.n_rounds(), chunk_bytes: bytes };
                flow.op = events.proxy_op(CHANNEL, transfers, flow.is_send);
            }
            let step = events.proxy_step(flow.op, u32::try_from(round).unwrap_or(u32::MAX));
            if flow.is_send {
                events.sending(step, bytes);
            }
            flow.steps[round % 2] = step;
        }
    }

    /// All that was to be done in `round` is.
    pub(crate) fn stop(&mut self, round: usize) {
        let last = round + 1 == self.cut.n_rounds();
        let Self { events, cut, own, flows, .. } = self;
        for flow in flows {
            let step = flow.steps[round % 2].take();
            if !flow.is_send {
                events.received(step, flow.bytes(cut, *own, round));
            }
            events.stop(step);
            if last {
                events.stop(flow.op.take());
            }
        }
        if last {
            self.events.kernel_stop(&std::mem::take(&mut self.kernels));
        }
    }
}

impl Flow {
    fn bytes(&self, cut: &Cut, own: usize, round: usize) -> usize {
        let (owner, reader) = if self.is_send { (own, self.peer) } else { (self.peer, own) };
        cut.read_bytes(round, owner, reader)
    }
}
