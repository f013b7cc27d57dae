//! The second pass: all steps in order of time, for fabrics whose ports are shared and for worlds that lose a rank.
//!
//! A rank looks at the steps ahead of it up to a bound, and starts each one when what it must wait for is over: steps that
//! touch the same memory, the steps before it of the same direction with the same peer, its message. Events are taken in
//! order of time, so each port and processor serves whoever asks first. Data is not looked at: `dataflow` has.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use super::Job;
use super::fabric::{Path, Ports};
use super::memory::overlap;
use super::outcome::{Fate, LinkUse};
use super::time::{Picos, duration};
use crate::collective::schedule::{Action, Chunk, Schedule, Step};
use crate::memory::Place;

/// Steps that are looked at ahead, over all ranks and channels: 200 bytes each.
const AHEAD: usize = 1 << 22;
/// Steps that one rank looks ahead on one channel, at least and at most: enough for a tree's way down to overlap its way
/// up, and a bound on the search for what a step must wait for.
const AHEAD_BY_RANK: (usize, usize) = (64, 4096);
const NOT_DONE: Picos = Picos::MAX;

/// What the pass found.
#[derive(Debug)]
pub(super) struct Pass {
    /// The ports.
    pub(super) ports: Ports,
    /// What became of each rank.
    pub(super) fates: Vec<Fate>,
    /// Bytes from rank to rank that have left.
    pub(super) links: Vec<LinkUse>,
    /// Transfers that have left.
    pub(super) n_transfers: u64,
}

struct Program<'a> {
    rank: usize,
    channel: usize,
    steps: Box<dyn Iterator<Item = Step> + 'a>,
    /// Number of the first of `nodes`.
    base: u64,
    /// Steps from the first unfinished one on.
    nodes: VecDeque<Node>,
    accesses: VecDeque<Access>,
    exhausted: bool,
    will_wake: bool,
    done_at: Picos,
}

struct Node {
    work: Work,
    /// The latest of what it waited for so far.
    ready: Picos,
    /// What it still waits for.
    waits: usize,
    dependents: Vec<u64>,
    done_at: Picos,
}

#[derive(Clone, Copy)]
enum Work {
    Send { flow: usize, bytes: u64 },
    Recv { flow: usize, cost: Picos, has_come: bool },
    Local { cost: Picos },
}

struct Access {
    step: u64,
    chunk: Chunk,
    is_write: bool,
}

struct Flow {
    from: usize,
    to: usize,
    path: Path,
    came: VecDeque<Picos>,
    receivers: VecDeque<u64>,
    last_send: Option<u64>,
    last_recv: Option<u64>,
    bytes: u64,
    transfers: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A step may start.
    Start { program: usize, step: u64 },
    /// A transfer asks the receiving port.
    Enter { flow: usize, bytes: u64, left: Picos },
    /// A rank may look further ahead.
    Wake { program: usize },
}

struct Run<'a> {
    job: &'a Job<'a>,
    ports: Ports,
    programs: Vec<Program<'a>>,
    flows: Vec<Flow>,
    flow_of: HashMap<(usize, usize), usize>,
    cpu_free_at: Vec<Picos>,
    /// By time, then by the order in which they came up.
    events: BinaryHeap<Reverse<(Picos, u64, Event)>>,
    n_events: u64,
    now: Picos,
    ahead: usize,
}

/// Runs all steps.
pub(super) fn run(job: &Job<'_>) -> Pass {
    let n_programs = job.n_ranks() * job.schedules.len();
    let mut run = Run {
        job,
        ports: job.fabric.ports(),
        programs: (0..n_programs).map(|index| Program::new(job, index)).collect(),
        flows: Vec::new(),
        flow_of: HashMap::new(),
        cpu_free_at: vec![0; job.n_ranks()],
        events: BinaryHeap::new(),
        n_events: 0,
        now: 0,
        ahead: (AHEAD / n_programs.max(1)).clamp(AHEAD_BY_RANK.0, AHEAD_BY_RANK.1),
    };
    (0..n_programs).for_each(|program| run.look_ahead(program));
    while let Some(Reverse((at, _, event))) = run.events.pop() {
        run.now = at;
        run.handle(event);
    }
    run.finish()
}

impl<'a> Program<'a> {
    fn new(job: &'a Job<'a>, index: usize) -> Self {
        let (rank, channel) = (index % job.n_ranks(), index / job.n_ranks());
        let schedule: &dyn Schedule = job.schedules[channel].as_ref();
        Self {
            rank,
            channel,
            steps: schedule.steps(rank),
            base: 0,
            nodes: VecDeque::new(),
            accesses: VecDeque::new(),
            exhausted: false,
            will_wake: false,
            done_at: 0,
        }
    }

    fn node(&mut self, step: u64) -> Option<&mut Node> {
        let index = usize::try_from(step.checked_sub(self.base)?).ok()?;
        self.nodes.get_mut(index)
    }

    fn next_number(&self) -> u64 {
        self.base + self.nodes.len() as u64
    }

    /// Forgets what is over by `now`.
    fn retire(&mut self, now: Picos) {
        while self.nodes.front().is_some_and(|node| node.done_at <= now) {
            self.nodes.pop_front();
            self.base += 1;
        }
        while self.accesses.front().is_some_and(|access| access.step < self.base) {
            self.accesses.pop_front();
        }
    }

    /// Adds a step after all others; it waits for `also` and for what touches the same memory.
    fn add(&mut self, mut node: Node, accesses: &[(Chunk, bool)], also: Option<u64>) {
        let number = self.next_number();
        let conflicts = |old: &&Access| {
            accesses.iter().any(|(chunk, writes)| (*writes || old.is_write) && overlap(old.chunk, *chunk) > 0)
        };
        let mut on: Vec<u64> =
            self.accesses.iter().filter(conflicts).map(|old| old.step).chain(also).collect();
        on.dedup();
        for step in on {
            let Some(other) = self.node(step) else { continue };
            if other.done_at == NOT_DONE {
                other.dependents.push(number);
                node.waits += 1;
            } else {
                node.ready = node.ready.max(other.done_at);
            }
        }
        let touches = accesses.iter().filter(|(chunk, _)| chunk.place != Place::Send);
        self.accesses.extend(touches.map(|(chunk, writes)| Access {
            step: number,
            chunk: *chunk,
            is_write: *writes,
        }));
        self.nodes.push_back(node);
    }
}

impl Run<'_> {
    fn handle(&mut self, event: Event) {
        match event {
            Event::Start { program, step } => {
                self.start(program, step);
                self.look_ahead(program);
            }
            Event::Enter { flow, bytes, left } => {
                let came_at = self.ports.enter(self.flows[flow].path, bytes, self.now, left);
                self.flows[flow].came.push_back(came_at);
                self.deliver(flow);
                self.look_ahead(self.flows[flow].to);
            }
            Event::Wake { program } => {
                self.programs[program].will_wake = false;
                self.look_ahead(program);
            }
        }
    }

    /// Takes up steps while there is room; asks to be woken if there will be.
    fn look_ahead(&mut self, index: usize) {
        let program = &mut self.programs[index];
        program.retire(self.now);
        while !self.programs[index].exhausted && self.programs[index].nodes.len() < self.ahead {
            match self.programs[index].steps.next() {
                Some(step) if step.is_empty() => {}
                Some(step) => self.take_up(index, step),
                None => self.programs[index].exhausted = true,
            }
        }
        let program = &mut self.programs[index];
        let frees_at = program.nodes.front().map_or(NOT_DONE, |node| node.done_at);
        if !program.exhausted && !program.will_wake && frees_at != NOT_DONE {
            program.will_wake = true;
            self.push(frees_at, Event::Wake { program: index });
        }
    }

    fn take_up(&mut self, index: usize, step: Step) {
        let program = &self.programs[index];
        let (rank, channel, number) = (program.rank, program.channel, program.next_number());
        let mut node = Node {
            work: Work::Local { cost: 0 },
            ready: self.now,
            waits: 0,
            dependents: Vec::new(),
            done_at: NOT_DONE,
        };
        let mut before = None;
        match step {
            Step::Send { peer, from } => {
                let flow = self.flow(channel, rank, peer);
                let bytes = self.job.bytes(from.len, from.place == Place::Partial);
                node.work = Work::Send { flow, bytes };
                before = self.flows[flow].last_send.replace(number);
            }
            Step::Recv { peer, into, action, .. } => {
                let flow = self.flow(channel, peer, rank);
                node.work = Work::Recv { flow, cost: self.cost(into, action), has_come: false };
                node.waits = 1;
                before = self.flows[flow].last_recv.replace(number);
                self.flows[flow].receivers.push_back(number);
            }
            Step::Local { into, action, .. } => node.work = Work::Local { cost: self.cost(into, action) },
        }
        let work = node.work;
        self.programs[index].add(node, &accesses(step), before);
        if let Work::Recv { flow, .. } = work {
            self.deliver(flow);
        } else {
            self.release(index, number, 0, 0);
        }
    }

    /// Hands arrived messages to the receives that wait for them, in order.
    fn deliver(&mut self, flow: usize) {
        let to = self.flows[flow].to;
        while !self.flows[flow].receivers.is_empty()
            && let Some(came_at) = self.flows[flow].came.pop_front()
        {
            let Some(step) = self.flows[flow].receivers.pop_front() else { return };
            if let Some(Node { work: Work::Recv { has_come, .. }, .. }) = self.programs[to].node(step) {
                *has_come = true;
            }
            self.release(to, step, came_at, 1);
        }
    }

    /// `n` things that a step waited for are over since `at`; it starts once nothing is left.
    fn release(&mut self, program: usize, step: u64, at: Picos, n: usize) {
        let Some(node) = self.programs[program].node(step) else { return };
        node.ready = node.ready.max(at);
        node.waits -= n;
        if node.waits == 0 {
            let ready = node.ready;
            self.push(ready, Event::Start { program, step });
        }
    }

    fn start(&mut self, program: usize, step: u64) {
        let rank = self.programs[program].rank;
        let Some(node) = self.programs[program].node(step) else { return };
        match node.work {
            Work::Send { flow, bytes } => {
                let (left, asked) = self.ports.leave(self.flows[flow].path, bytes, self.now);
                if self.complete(program, step, left) {
                    self.flows[flow].bytes += bytes;
                    self.flows[flow].transfers += 1;
                    self.push(asked, Event::Enter { flow, bytes, left });
                }
            }
            Work::Recv { cost, .. } | Work::Local { cost } => {
                let done_at = if cost == 0 { self.now } else { self.now.max(self.cpu_free_at[rank]) + cost };
                self.cpu_free_at[rank] = self.cpu_free_at[rank].max(done_at);
                self.complete(program, step, done_at);
            }
        }
    }

    /// Whether a step is over at `at`: of a rank that is lost by then, it never is.
    fn complete(&mut self, program: usize, step: u64, at: Picos) -> bool {
        let rank = self.programs[program].rank;
        if self.job.lose.is_some_and(|(lost, lost_at)| lost == rank && at > lost_at) {
            return false;
        }
        self.programs[program].done_at = self.programs[program].done_at.max(at);
        let Some(node) = self.programs[program].node(step) else { return false };
        node.done_at = at;
        for dependent in std::mem::take(&mut node.dependents) {
            self.release(program, dependent, at, 1);
        }
        true
    }

    fn finish(self) -> Pass {
        let fates = (0..self.job.n_ranks()).map(|rank| self.fate(rank)).collect();
        let n_ranks = self.job.n_ranks();
        let used = self.flows.iter().filter(|flow| flow.transfers > 0);
        let links = used.map(|flow| LinkUse { from: flow.from, to: flow.to % n_ranks, bytes: flow.bytes });
        let n_transfers = self.flows.iter().map(|flow| flow.transfers).sum();
        Pass { fates, links: links.collect(), n_transfers, ports: self.ports }
    }

    fn fate(&self, rank: usize) -> Fate {
        let programs = || self.programs.iter().skip(rank).step_by(self.job.n_ranks());
        let unfinished =
            || programs().flat_map(|program| &program.nodes).filter(|node| node.done_at == NOT_DONE);
        if unfinished().next().is_none() {
            let at_picos = programs().map(|program| program.done_at).max().unwrap_or(0);
            return Fate::Finished { at_picos };
        }
        let peer = unfinished().find_map(|node| match node.work {
            Work::Recv { flow, has_come: false, .. } => Some(self.flows[flow].from),
            _ => None,
        });
        match (self.job.lose, peer) {
            (Some((lost, _)), _) if lost == rank => Fate::Lost,
            (_, Some(peer)) => Fate::Waits { peer },
            (_, None) => Fate::Waits { peer: rank },
        }
    }

    fn cost(&self, into: Chunk, action: Action) -> Picos {
        let is_reduced = matches!(action, Action::Reduce { .. });
        if is_reduced { duration(self.job.bytes(into.len, false), self.job.reduce_picos_per_byte) } else { 0 }
    }

    fn push(&mut self, at: Picos, event: Event) {
        self.n_events += 1;
        self.events.push(Reverse((at, self.n_events, event)));
    }

    fn flow(&mut self, channel: usize, from: usize, to: usize) -> usize {
        let program = |rank| channel * self.job.n_ranks() + rank;
        *self.flow_of.entry((program(from), program(to))).or_insert_with(|| {
            self.flows.push(Flow {
                from,
                to: program(to),
                path: self.job.fabric.path(&self.ports, from, to, channel),
                came: VecDeque::new(),
                receivers: VecDeque::new(),
                last_send: None,
                last_recv: None,
                bytes: 0,
                transfers: 0,
            });
            self.flows.len() - 1
        })
    }
}

/// What a step reads and, with true, writes.
fn accesses(step: Step) -> Vec<(Chunk, bool)> {
    let operand = |action| match action {
        Action::Reduce { with, .. } => Some((with, false)),
        Action::Store => None,
    };
    match step {
        Step::Send { from, .. } => vec![(from, false)],
        Step::Recv { into, action, .. } => operand(action).into_iter().chain([(into, true)]).collect(),
        Step::Local { from, into, action } => {
            operand(action).into_iter().chain([(from, false), (into, true)]).collect()
        }
    }
}
