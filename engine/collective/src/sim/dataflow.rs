//! The first pass: each rank's steps in program order, as far as messages have come, whatever the time.
//!
//! Every step carries the time at which it would be done, so steps that depend on each other come out right in whatever
//! order they are looked at, and each rank's memory stays in the processor's cache while thousands of its steps pass. A
//! port answers right only if it is asked in order of time: where it is not, or where two ask at once, [`Pass::in_order`] is false, the times are
//! worth nothing, and only the data flow and the bytes hold. Then `ordered` finds the times.

use std::collections::{HashMap, VecDeque};

use super::Job;
use super::fabric::{Path, Ports};
use super::memory::{Memory, Wrong};
use super::outcome::{Fate, Flaw, LinkUse};
use super::time::{Picos, duration};
use super::value::Data;
use crate::collective::schedule::{Action, Chunk, Step};
use crate::memory::Place;

/// Writes that are remembered, over all ranks and channels: 100 bytes each.
const REMEMBERED: usize = 1 << 17;
/// Writes that one rank remembers on one channel, at least and at most. A ring looks back one step; the most bounds
/// the search. What was not read yet is remembered beyond it.
const REMEMBERED_BY_RANK: (usize, usize) = (4, 4096);

/// What the pass found.
#[derive(Debug)]
pub(super) struct Pass {
    /// Whether the times hold.
    pub(super) in_order: bool,
    /// The ports.
    pub(super) ports: Ports,
    /// What became of each rank.
    pub(super) fates: Vec<Fate>,
    /// Bytes from rank to rank.
    pub(super) links: Vec<LinkUse>,
    /// Transfers in all.
    pub(super) n_transfers: u64,
    /// The first thing that is wrong with the data flow.
    pub(super) flaw: Option<Flaw>,
}

struct Program<'a> {
    rank: usize,
    channel: usize,
    steps: Box<dyn Iterator<Item = Step> + 'a>,
    held: Option<Step>,
    memory: Memory,
    done_at: Picos,
    /// Peer and flow of the last send, and of the last receive.
    last_out: (usize, usize),
    last_in: (usize, usize),
}

struct Flow {
    from: usize,
    to: usize,
    path: Path,
    queue: VecDeque<Message>,
    sent_until: Picos,
    received_until: Picos,
    /// Whether the receiver stopped here.
    is_awaited: bool,
    bytes: u64,
    transfers: u64,
}

struct Message {
    came_at: Picos,
    partial: bool,
    data: Data,
}

struct Run<'a> {
    job: &'a Job<'a>,
    ports: Ports,
    flows: Vec<Flow>,
    flow_of: HashMap<(usize, usize), usize>,
    runnable: VecDeque<usize>,
    /// When each rank's processor is free, and when it was asked last.
    cpus: Vec<(Picos, Picos)>,
    spare: Vec<VecDeque<Message>>,
}

/// Follows all data.
pub(super) fn follow(job: &Job<'_>) -> Pass {
    let n_programs = job.n_ranks() * job.schedules.len();
    let bound = (REMEMBERED / n_programs.max(1)).clamp(REMEMBERED_BY_RANK.0, REMEMBERED_BY_RANK.1);
    let mut programs: Vec<Program<'_>> = (0..n_programs)
        .map(|index| Program::new(job, index % job.n_ranks(), index / job.n_ranks(), bound))
        .collect();
    let mut run = Run {
        job,
        ports: job.fabric.ports(),
        flows: Vec::new(),
        flow_of: HashMap::new(),
        runnable: (0..n_programs).collect(),
        cpus: vec![(0, 0); job.n_ranks()],
        spare: Vec::new(),
    };
    let mut flaw = None;
    while let (Some(index), None) = (run.runnable.pop_front(), &flaw) {
        flaw = run.advance(&mut programs[index]).err();
    }
    flaw = flaw.or_else(|| missing_result(job, &programs));
    run.finish(&programs, flaw)
}

impl Pass {
    /// Whether all ranks came to their end.
    pub(super) fn is_complete(&self) -> bool {
        self.fates.iter().all(|fate| matches!(fate, Fate::Finished { .. }))
    }
}

impl<'a> Program<'a> {
    fn new(job: &'a Job<'a>, rank: usize, channel: usize, bound: usize) -> Self {
        Self {
            rank,
            channel,
            steps: job.schedules[channel].steps(rank),
            held: None,
            memory: Memory::new(rank, bound),
            done_at: 0,
            last_out: (usize::MAX, 0),
            last_in: (usize::MAX, 0),
        }
    }

    fn flaw(&self, step: &Step, words: String) -> Flaw {
        Flaw { rank: self.rank, channel: self.channel, step: format!("{step:?}"), words }
    }
}

impl Run<'_> {
    /// Runs a program until a message has not come.
    fn advance(&mut self, program: &mut Program<'_>) -> Result<(), Flaw> {
        let mut next = program.held.take().or_else(|| program.steps.next());
        while let Some(step) = &next {
            if !step.is_empty() && !self.carry_out(program, step)? {
                program.held = next;
                return Ok(());
            }
            next = program.steps.next();
        }
        Ok(())
    }

    /// Whether a step is done: not, if its message has not come. It is looked at where it lies, since a ring has 10^9 steps
    /// and a copy of each would wait for what was just written.
    fn carry_out(&mut self, program: &mut Program<'_>, step: &Step) -> Result<bool, Flaw> {
        let done = match step {
            Step::Send { peer, from } => self.send(program, *peer, *from),
            Step::Recv { peer, partial, into, action } => {
                let received = self.receive(program, *peer, *partial, into.len);
                let Some((data, at)) = received.map_err(|words| program.flaw(step, words))? else {
                    return Ok(false);
                };
                let done = self.outcome(program, data, at, *into, action);
                done.inspect(|done| self.flows[program.last_in.1].received_until = *done)
            }
            Step::Local { from, into, action } => {
                let read = program.memory.read(*from, &self.job.meaning);
                let done = read.and_then(|(data, at)| self.outcome(program, data, at, *into, action));
                done.inspect(|done| program.memory.keep(*from, *done))
            }
        };
        let at = done.map_err(|wrong| program.flaw(step, wrong.to_string()))?;
        program.done_at = program.done_at.max(at);
        Ok(true)
    }

    fn send(&mut self, program: &mut Program<'_>, peer: usize, from: Chunk) -> Result<Picos, Wrong> {
        let (data, ready) = program.memory.read(from, &self.job.meaning)?;
        if program.last_out.0 != peer {
            program.last_out = (peer, self.flow(program.rank, peer, program.channel));
        }
        let bytes = self.job.bytes(from.len, from.place == Place::Partial);
        let flow = &mut self.flows[program.last_out.1];
        let (left, asked) = self.ports.leave(flow.path, bytes, ready.max(flow.sent_until));
        let came_at = self.ports.enter(flow.path, bytes, asked, left);
        flow.sent_until = left;
        flow.bytes += bytes;
        flow.transfers += 1;
        if flow.queue.capacity() == 0 {
            flow.queue = self.spare.pop().unwrap_or_default();
        }
        flow.queue.push_back(Message { came_at, partial: from.place == Place::Partial, data });
        if std::mem::take(&mut flow.is_awaited) {
            self.runnable.push_back(program.channel * self.job.n_ranks() + peer);
        }
        program.memory.keep(from, left);
        Ok(left)
    }

    /// The next message from `peer` and when it is there; nothing if it has not come.
    fn receive(
        &mut self,
        program: &mut Program<'_>,
        peer: usize,
        partial: bool,
        len: usize,
    ) -> Result<Option<(Data, Picos)>, String> {
        if program.last_in.0 != peer {
            program.last_in = (peer, self.flow(peer, program.rank, program.channel));
        }
        let flow = &mut self.flows[program.last_in.1];
        let Some(message) = flow.queue.pop_front() else {
            flow.is_awaited = true;
            return Ok(None);
        };
        if flow.queue.is_empty() {
            // Only what is in flight takes memory.
            self.spare.push(std::mem::take(&mut flow.queue));
        }
        if (message.partial, message.data.len()) != (partial, len) {
            let sent = if message.partial { "partial results" } else { "elements" };
            return Err(format!("rank {peer} sent {} {sent} instead", message.data.len()));
        }
        Ok(Some((message.data, message.came_at.max(flow.received_until))))
    }

    /// Stores or reduces `data`, which are there at `at`: when that is done.
    fn outcome(
        &mut self,
        program: &mut Program<'_>,
        data: Data,
        at: Picos,
        into: Chunk,
        action: &Action,
    ) -> Result<Picos, Wrong> {
        let ready = program.memory.free_at(into, at);
        let Action::Reduce { with, .. } = action else {
            program.memory.write(into, data, ready, &self.job.meaning)?;
            return Ok(ready);
        };
        let (operand, since) = program.memory.read(*with, &self.job.meaning)?;
        let sum = operand.reduce(&data).ok_or(Wrong::Misaligned(into))?;
        let done = self.compute(program.rank, into.len, ready.max(since));
        program.memory.keep(*with, done);
        program.memory.write(into, sum, done, &self.job.meaning)?;
        Ok(done)
    }

    fn compute(&mut self, rank: usize, len: usize, at: Picos) -> Picos {
        let cost = duration(self.job.bytes(len, false), self.job.reduce_picos_per_byte);
        if cost == 0 {
            return at;
        }
        let (free_at, asked_at) = &mut self.cpus[rank];
        self.ports.in_order &= at > *asked_at || *free_at == 0;
        *asked_at = at;
        *free_at = at.max(*free_at) + cost;
        *free_at
    }

    fn flow(&mut self, from: usize, to: usize, channel: usize) -> usize {
        let program = |rank| channel * self.job.n_ranks() + rank;
        *self.flow_of.entry((program(from), program(to))).or_insert_with(|| {
            self.flows.push(Flow {
                from,
                to,
                path: self.job.fabric.path(&self.ports, from, to, channel),
                queue: VecDeque::new(),
                sent_until: 0,
                received_until: 0,
                is_awaited: false,
                bytes: 0,
                transfers: 0,
            });
            self.flows.len() - 1
        })
    }

    fn finish(self, programs: &[Program<'_>], flaw: Option<Flaw>) -> Pass {
        let mut fates = vec![Fate::Finished { at_picos: 0 }; self.job.n_ranks()];
        for program in programs {
            let fate = &mut fates[program.rank];
            *fate = match (&program.held, *fate) {
                (Some(Step::Recv { peer, .. }), _) => Fate::Waits { peer: *peer },
                (_, Fate::Finished { at_picos }) => {
                    Fate::Finished { at_picos: at_picos.max(program.done_at) }
                }
                (_, other) => other,
            };
        }
        let n_transfers = self.flows.iter().map(|flow| flow.transfers).sum();
        let links = self.flows.iter().filter(|flow| flow.bytes > 0);
        let links = links.map(|flow| LinkUse { from: flow.from, to: flow.to, bytes: flow.bytes }).collect();
        Pass { in_order: self.ports.in_order, ports: self.ports, fates, links, n_transfers, flaw }
    }
}

/// The first rank whose result is not whole, if all ran to their end.
fn missing_result(job: &Job<'_>, programs: &[Program<'_>]) -> Option<Flaw> {
    if programs.iter().any(|program| program.held.is_some()) {
        return None;
    }
    (0..job.n_ranks()).find_map(|rank| {
        let channels = programs.iter().skip(rank).step_by(job.n_ranks());
        let mut ranges: Vec<_> = channels.flat_map(|program| program.memory.results()).collect();
        ranges.sort_unstable();
        let reached = ranges.iter().fold(0, |end, range| if range.0 <= end { end.max(range.1) } else { end });
        let words =
            format!("ends with its result up to element {reached} of {}", job.meaning.result_len(rank));
        let flaw = Flaw { rank, channel: 0, step: "the end".to_owned(), words };
        (reached < job.meaning.result_len(rank)).then_some(flaw)
    })
}
