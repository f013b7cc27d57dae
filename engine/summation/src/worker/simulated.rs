//! Workers and servers over simulated NICs, driven by the real pipeline: how long a push and a pull of all tensors take.
//!
//! Time goes by frames. Each node has a full-duplex NIC of B bytes per second: a frame leaves through the sender's port,
//! and asks the receiver's port when its first byte is there, `latency_ns` later; ports serve in the order of asking.
//! A connection is in order and has a window: a frame counts against it until it is in at the receiver, and a connection
//! without room is not writable. Servers are perfect: they sum in no time and answer in the order of asking; tidings
//! without payload (summed, pull) take the latency and no bytes. What a worker owns itself does not touch its NIC.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::{Part, Pipeline, Send, Settings, Stage};

/// Who decides what a node's NIC sends next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Discipline {
    /// One sender: frames of the pipeline's choice in turn with answers of the server on the same machine.
    Proportional,
    /// One thread for each connection, in both roles: all connections that have something to send take turns.
    PerConnection,
}

#[derive(Clone, Debug)]
pub(super) struct Setup {
    /// Workers are nodes 0, 1 and so on; the server number i is on this node.
    pub(super) n_workers: usize,
    pub(super) node_of_server: Vec<usize>,
    pub(super) shares: Vec<f64>,
    pub(super) bytes_per_s: f64,
    pub(super) latency_ns: u64,
    pub(super) window_bytes: u64,
    pub(super) discipline: Discipline,
    pub(super) settings: Settings,
    /// A server that takes nothing in.
    pub(super) stopped: Option<usize>,
    /// Priority and parts, submitted by all workers at once.
    pub(super) tensors: Vec<(u32, Vec<Part>)>,
    /// By worker: the order in which it submits them, and in which they go out, if not as listed and by priority.
    pub(super) orders: Vec<Vec<usize>>,
}

#[derive(Debug)]
pub(super) struct Outcome {
    /// By worker, then tensor; those that did not end are missing.
    pub(super) done_ns: Vec<Vec<Option<u64>>>,
    /// By node.
    pub(super) sent_bytes: Vec<u64>,
    pub(super) most_credits_used: u64,
    pub(super) pipelines: Vec<Pipeline>,
}

impl Setup {
    /// Which tensor a worker submits at this turn.
    fn submitted(&self, worker: usize, turn: usize) -> usize {
        self.orders.get(worker).map_or(turn, |order| order[turn])
    }
}

impl Outcome {
    /// When all workers had all tensors.
    pub(super) fn end_s(&self) -> f64 {
        let last = self.done_ns.iter().flatten().map(|done| done.expect("a tensor that ended")).max();
        last.unwrap_or(0) as f64 / 1e9
    }

    /// When all workers had a tensor.
    pub(super) fn tensor_s(&self, tensor: usize) -> f64 {
        let last = self.done_ns.iter().map(|done| done[tensor].expect("a tensor that ended")).max();
        last.unwrap_or(0) as f64 / 1e9
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    PortFree { node: usize },
    Asks { frame: Frame },
    In { frame: Frame },
    Summed { worker: usize, server: usize, key: u32 },
    AskedFor { worker: usize, server: usize, key: u32, bytes: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Frame {
    worker: usize,
    server: usize,
    is_answer: bool,
    key: u32,
    len: u64,
}

struct Port {
    is_busy: bool,
    in_free_at: u64,
    /// For turns.
    pushes_next: bool,
    next_flow: usize,
}

/// Both directions between a worker and a server.
#[derive(Clone, Default)]
struct Flow {
    push_outstanding: u64,
    answer_outstanding: u64,
    answers: VecDeque<(u32, u64)>,
}

struct World<'a> {
    setup: &'a Setup,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    n_events: u64,
    ports: Vec<Port>,
    flows: Vec<Vec<Flow>>,
    /// Bytes that came for each key, and of how many the sum is.
    came: BTreeMap<u32, u64>,
    bytes_of: BTreeMap<u32, u64>,
    outcome: Outcome,
}

pub(super) fn run(setup: &Setup) -> Outcome {
    let n_nodes = setup.node_of_server.iter().max().map_or(0, |node| node + 1).max(setup.n_workers);
    let (n_workers, n_servers) = (setup.n_workers, setup.shares.len());
    let settings =
        |worker: usize| Settings { first_server: worker * n_servers / n_workers, ..setup.settings };
    let port = |_| Port { is_busy: false, in_free_at: 0, pushes_next: true, next_flow: 0 };
    let mut world = World {
        setup,
        now: 0,
        events: BinaryHeap::new(),
        n_events: 0,
        ports: (0..n_nodes).map(port).collect(),
        flows: vec![vec![Flow::default(); n_servers]; n_workers],
        came: BTreeMap::new(),
        bytes_of: setup
            .tensors
            .iter()
            .flat_map(|tensor| &tensor.1)
            .map(|part| (part.key, part.bytes))
            .collect(),
        outcome: Outcome {
            done_ns: vec![vec![None; setup.tensors.len()]; n_workers],
            sent_bytes: vec![0; n_nodes],
            most_credits_used: 0,
            pipelines: (0..n_workers).map(|worker| Pipeline::new(&setup.shares, settings(worker))).collect(),
        },
    };
    world.start();
    while world.step() {}
    world.outcome
}

impl World<'_> {
    fn start(&mut self) {
        let setup = self.setup;
        for (worker, pipeline) in self.outcome.pipelines.iter_mut().enumerate() {
            for (turn, listed) in (0..).zip(&setup.tensors) {
                let index = setup.submitted(worker, turn as usize);
                let parts = &setup.tensors[index].1;
                let priority = if setup.orders.is_empty() { listed.0 } else { turn };
                pipeline.submit(&format!("tensor {index}"), priority, parts, 0).expect("a tensor that fits");
            }
        }
        (0..self.setup.n_workers).for_each(|worker| self.work(worker));
    }

    /// Whether anything happens any more.
    fn step(&mut self) -> bool {
        let next = self.events.peek().map_or(u64::MAX, |event| event.0.0);
        let stuck = self.outcome.pipelines.iter().enumerate();
        let stuck = stuck.filter_map(|(worker, pipeline)| Some((pipeline.stuck_at_ns()?, worker))).min();
        if let Some((at, worker)) = stuck.filter(|stuck| stuck.0 < next) {
            self.now = self.now.max(at);
            self.pump(worker);
            return true;
        }
        let Some(Reverse((at, _, event))) = self.events.pop() else { return false };
        self.now = at;
        self.take(event);
        true
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::PortFree { node } => {
                self.ports[node].is_busy = false;
                self.pump(node);
            }
            Event::Asks { frame } if !frame.is_answer && self.setup.stopped == Some(frame.server) => {}
            Event::Asks { frame } => {
                let node = if frame.is_answer { frame.worker } else { self.node(frame.server) };
                let port = &mut self.ports[node];
                port.in_free_at = port.in_free_at.max(self.now) + cost_ns(frame.len, self.setup.bytes_per_s);
                let at = port.in_free_at;
                self.at(at, Event::In { frame });
            }
            Event::In { frame } => self.deliver(frame),
            Event::Summed { worker, server, key } => {
                self.outcome.pipelines[worker].summed(server, key, self.now).expect("a part at its server");
                self.work(worker);
            }
            Event::AskedFor { worker, server, key, bytes } => {
                self.flows[worker][server].answers.push_back((key, bytes));
                self.pump(self.node(server));
            }
        }
    }

    fn deliver(&mut self, frame: Frame) {
        let Frame { worker, server, key, len, is_answer } = frame;
        let flow = &mut self.flows[worker][server];
        if is_answer {
            flow.answer_outstanding -= len;
            self.outcome.pipelines[worker].pulled(server, key, len, self.now).expect("a part that is pulled");
            self.work(worker);
            self.pump(self.node(server));
            return;
        }
        flow.push_outstanding -= len;
        *self.came.entry(key).or_default() += len;
        if self.came[&key] == self.bytes_of[&key] * self.setup.n_workers as u64 {
            for worker in 0..self.setup.n_workers {
                self.tell(worker, server, Event::Summed { worker, server, key });
            }
        }
        self.pump(worker);
    }

    /// Does what a worker's pipeline says, but sending, and sends if its port is free.
    fn work(&mut self, worker: usize) {
        let mut is_idle = false;
        while !is_idle {
            is_idle = true;
            for stage in Stage::ALL {
                let pipeline = &mut self.outcome.pipelines[worker];
                let Some(work) = pipeline.next_work(stage, self.now) else { continue };
                is_idle = false;
                let (server, key, bytes) = (work.server, work.key, work.bytes);
                match stage {
                    Stage::Pull => {
                        self.tell(worker, server, Event::AskedFor { worker, server, key, bytes });
                    }
                    Stage::Compress => {
                        pipeline.compressed(key, (bytes, bytes), 0, self.now).expect("its report")
                    }
                    Stage::Decompress => pipeline.decompressed(key, 0, self.now).expect("its report"),
                    Stage::Push | Stage::Sum => {}
                }
            }
        }
        let pipeline = &mut self.outcome.pipelines[worker];
        while let Some(finished) = pipeline.next_finished() {
            let tensor = usize::try_from(finished.tensor.0).expect("a small number");
            self.outcome.done_ns[worker][self.setup.submitted(worker, tensor)] = Some(self.now);
        }
        self.pump(worker);
    }

    /// Sends what a node's NIC is to send next, if it is free.
    fn pump(&mut self, node: usize) {
        if node < self.setup.n_workers {
            self.push_to_self(node);
        }
        self.answer_to_self(node);
        if self.ports[node].is_busy {
            return;
        }
        let frame = match self.setup.discipline {
            Discipline::Proportional => self.choose_of_two(node),
            Discipline::PerConnection => self.choose_of_all(node),
        };
        let Some(frame) = frame else { return };
        let flow = &mut self.flows[frame.worker][frame.server];
        *(if frame.is_answer { &mut flow.answer_outstanding } else { &mut flow.push_outstanding }) +=
            frame.len;
        self.outcome.sent_bytes[node] += frame.len;
        self.ports[node].is_busy = true;
        self.at(self.now + cost_ns(frame.len, self.setup.bytes_per_s), Event::PortFree { node });
        self.at(self.now + self.setup.latency_ns, Event::Asks { frame });
    }

    fn choose_of_two(&mut self, node: usize) -> Option<Frame> {
        let writable: Vec<bool> = (0..self.setup.shares.len()).map(|s| self.is_writable(node, s)).collect();
        let pushes_next = self.ports[node].pushes_next;
        let frame = if pushes_next {
            self.push(node, &writable).or_else(|| self.answer_any(node))
        } else {
            self.answer_any(node).or_else(|| self.push(node, &writable))
        };
        self.ports[node].pushes_next = frame.is_none_or(|frame| frame.is_answer);
        frame
    }

    fn choose_of_all(&mut self, node: usize) -> Option<Frame> {
        let (n_servers, n_workers) = (self.setup.shares.len(), self.setup.n_workers);
        let n_flows = n_servers + n_workers;
        for _ in 0..n_flows {
            let flow = self.ports[node].next_flow;
            self.ports[node].next_flow = (flow + 1) % n_flows;
            let frame = if flow < n_servers {
                let writable: Vec<bool> =
                    (0..n_servers).map(|s| s == flow && self.is_writable(node, s)).collect();
                self.push(node, &writable)
            } else {
                self.answer(node, flow - n_servers)
            };
            if frame.is_some() {
                return frame;
            }
        }
        None
    }

    fn push(&mut self, worker: usize, writable: &[bool]) -> Option<Frame> {
        let pipeline = self.outcome.pipelines.get_mut(worker)?;
        let Send { server, key, len, .. } = pipeline.next_send(writable, self.now)?;
        let used = pipeline.credits.used_in_all();
        pipeline.sent(server, key, len, self.now).expect("the frame that was to be sent");
        self.outcome.most_credits_used = self.outcome.most_credits_used.max(used);
        Some(Frame { worker, server, is_answer: false, key, len })
    }

    fn answer_any(&mut self, node: usize) -> Option<Frame> {
        let n_workers = self.setup.n_workers;
        let first = self.ports[node].next_flow;
        let mut turns = (0..n_workers).map(|turn| (first + turn) % n_workers);
        let frame = turns.find_map(|worker| self.answer(node, worker));
        self.ports[node].next_flow = frame.map_or(first, |frame| frame.worker + 1);
        frame
    }

    fn answer(&mut self, node: usize, worker: usize) -> Option<Frame> {
        let server = self.setup.node_of_server.iter().position(|of| *of == node)?;
        let flow = &mut self.flows[worker][server];
        if worker == node || flow.answer_outstanding >= self.setup.window_bytes {
            return None;
        }
        let (key, left) = flow.answers.front_mut()?;
        let len = (*left).min(self.setup.settings.frame_bytes);
        let frame = Frame { worker, server, is_answer: true, key: *key, len };
        *left -= len;
        if *left == 0 {
            flow.answers.pop_front();
        }
        Some(frame)
    }

    fn push_to_self(&mut self, worker: usize) {
        let own: Vec<bool> = self.setup.node_of_server.iter().map(|node| *node == worker).collect();
        while let Some(frame) = self.push(worker, &own) {
            self.flows[worker][frame.server].push_outstanding += frame.len;
            self.at(self.now, Event::In { frame });
        }
    }

    fn answer_to_self(&mut self, node: usize) {
        let Some(server) = self.setup.node_of_server.iter().position(|of| *of == node) else { return };
        let Some(flow) = self.flows.get_mut(node).map(|flows| &mut flows[server]) else { return };
        let answers = std::mem::take(&mut flow.answers);
        flow.answer_outstanding += answers.iter().map(|answer| answer.1).sum::<u64>();
        for (key, len) in answers {
            self.at(self.now, Event::In { frame: Frame { worker: node, server, is_answer: true, key, len } });
        }
    }

    fn is_writable(&self, node: usize, server: usize) -> bool {
        let has_room = |flow: &Flow| flow.push_outstanding < self.setup.window_bytes;
        self.node(server) != node && self.flows.get(node).is_some_and(|flows| has_room(&flows[server]))
    }

    fn node(&self, server: usize) -> usize {
        self.setup.node_of_server[server]
    }

    fn tell(&mut self, worker: usize, server: usize, event: Event) {
        let latency = if self.node(server) == worker { 0 } else { self.setup.latency_ns };
        self.at(self.now + latency, event);
    }

    fn at(&mut self, at: u64, event: Event) {
        self.n_events += 1;
        self.events.push(Reverse((at, self.n_events, event)));
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a frame takes less than 500 years"
)]
fn cost_ns(bytes: u64, bytes_per_s: f64) -> u64 {
    (bytes as f64 / bytes_per_s * 1e9).round() as u64
}
