//! A schedule, compiled for one rank: queues of slices, in bytes, each with what it must wait for.
//!
//! A queue is one direction of one connection, or the rank's own work; it runs in order. A transfer is cut into slices of
//! at most [`Memory::step_bytes`], counted in elements from its start in the wider of their two forms, so that both ends cut it
//! alike whatever form it travels in, and a slice can travel on while the next one arrives. What a slice waits for is found
//! by overlap of memory alone. Plans say nothing of connections or of time, and are used again by equal calls.
//!
//! In NCCL's words: a step of the algorithm moves a chunk, which a schedule names; what is posted by itself is a slice. A step of
//! the buffer is an eighth of it, which a slice fills here: NCCL's may fill several.

use std::ops::Range;

use crate::collective::hazards::{Access, Clobbered, Hazards, Waits};
use crate::collective::schedule::{Action, Chunk, Step};
use crate::kernels::{Form, Reducer, Shape};
use crate::memory::{Place, Span};

/// Which way a queue's data go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// To the peer.
    Send,
    /// From the peer.
    Recv,
    /// Nowhere.
    Local,
}

/// What becomes of a slice's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Stored as they are.
    Store,
    /// `into = with op data`.
    Reduce {
        /// The other operand.
        with: Span,
        /// The operands' forms.
        shape: Shape,
    },
}

/// One transfer, or one piece of own work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    /// What is sent, or worked on; of a received slice only the length counts.
    pub(crate) from: Span,
    /// Where the outcome goes; nowhere for a send.
    pub(crate) into: Span,
    /// What becomes of the data.
    pub(crate) outcome: Outcome,
    /// Range of [`Plan::waits`].
    waits: Range<u32>,
}

/// Slices that run one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    /// The channel.
    pub(crate) channel: u32,
    /// The other rank; this one for local work.
    pub(crate) peer: usize,
    /// Which way.
    pub(crate) direction: Direction,
    /// In order.
    pub(crate) slices: Vec<Slice>,
}

/// What one rank does for one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// In the order of their first slices.
    pub(crate) queues: Vec<Queue>,
    /// Bytes of [`Place::Scratch`].
    pub(crate) scratch_bytes: usize,
    /// Bytes of [`Place::Partial`].
    pub(crate) partial_bytes: usize,
    waits: Vec<(u32, u32)>,
}

/// What a plan depends on beside the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Element arithmetic.
    pub(crate) reducer: Reducer,
    /// Payload of one slice at most; room for one element at least.
    pub(crate) step_bytes: usize,
    /// Whether the schedule's partial results have the indices of the results that they become, so that the receive
    /// buffer may hold them: see [`catalog::partials_in_recv`](crate::collective::catalog::partials_in_recv).
    pub(crate) partials_in_recv: bool,
    /// Where the send buffer begins, relative to the receive buffer, if they overlap.
    pub(crate) in_place: Option<i64>,
}

impl Plan {
    /// Compiles `steps`, each with its channel, in program order. Partial results live in the receive buffer where they
    /// may and nothing else is lost by it.
    ///
    /// # Errors
    /// The schedule reads its input after the result has been written over it.
    pub(crate) fn compile<S>(memory: Memory, steps: impl Fn() -> S) -> Result<Self, Clobbered>
    where
        S: Iterator<Item = (u32, Step)>,
    {
        let run = |partial_in_recv| {
            let mut compiler = Compiler::new(memory, partial_in_recv);
            steps().try_for_each(|(channel, step)| compiler.step(channel, step))?;
            Ok(compiler.plan)
        };
        let may = memory.partials_in_recv && !memory.reducer.is_wide();
        if may { run(true).or_else(|_| run(false)) } else { run(false) }
    }

    /// What `slice` waits for: queues, and how many of their slices must be done.
    pub(crate) fn waits(&self, slice: &Slice) -> &[(u32, u32)] {
        self.waits.get(slice.waits.start as usize..slice.waits.end as usize).unwrap_or(&[])
    }

    /// Slices in all.
    pub(crate) fn n_slices(&self) -> usize {
        self.queues.iter().map(|queue| queue.slices.len()).sum()
    }
}

struct Compiler {
    memory: Memory,
    partial_in_recv: bool,
    hazards: Hazards,
    plan: Plan,
}

/// Where buffers that are not the receive buffer's memory lie on the axis of addresses; none is 2^60 bytes long.
const SEND_BASE: u64 = 1 << 60;
const RECV_BASE: u64 = 2 << 60;
const SCRATCH_BASE: u64 = 4 << 60;
const PARTIAL_BASE: u64 = 5 << 60;

impl Compiler {
    fn new(memory: Memory, partial_in_recv: bool) -> Self {
        Self { memory, partial_in_recv, hazards: Hazards::default(), plan: Plan::default() }
    }

    fn step(&mut self, channel: u32, step: Step) -> Result<(), Clobbered> {
        let (direction, peer, from, into, action) = match step {
            Step::Send { peer, from } => (Direction::Send, peer, from, from, Action::Store),
            Step::Recv { peer, partial, into, action } => {
                let place = if partial { Place::Partial } else { Place::Recv };
                (Direction::Recv, peer, Chunk { place, ..into }, into, action)
            }
            Step::Local { from, into, action } => (Direction::Local, usize::MAX, from, into, action),
        };
        if into.len == 0 || (direction == Direction::Local && self.is_same(from, into, action)) {
            return Ok(());
        }
        let queue = self.queue(channel, peer, direction);
        let step = self.elements_per_slice();
        for start in (0..into.len).step_by(step) {
            let len = step.min(into.len - start);
            let piece = |chunk: Chunk| Chunk { start: chunk.start + start, len, ..chunk };
            self.slice(queue, direction, piece(from), piece(into), cut(action, piece))?;
        }
        Ok(())
    }

    fn slice(
        &mut self,
        queue: usize,
        direction: Direction,
        from: Chunk,
        into: Chunk,
        action: Action,
    ) -> Result<(), Clobbered> {
        let index = self.plan.queues[queue].slices.len();
        let by = Access { queue: number(queue), index: number(index) };
        let mut waits = Waits::default();
        if direction != Direction::Recv {
            self.hazards.read(self.range(from), from.place, by, &mut waits)?;
        }
        if let Action::Reduce { with, .. } = action {
            self.hazards.read(self.range(with), with.place, by, &mut waits)?;
        }
        if direction != Direction::Send {
            self.measure(into);
            self.hazards.write(self.range(into), into.place, by, &mut waits);
        }
        waits.forget(by.queue);
        let first = number(self.plan.waits.len());
        self.plan.waits.extend(waits.iter());
        let waits = first..number(self.plan.waits.len());
        let outcome = self.outcome(action, from, into);
        let slice = Slice { from: self.span(from), into: self.span(into), outcome, waits };
        self.plan.queues[queue].slices.push(slice);
        Ok(())
    }

    fn outcome(&self, action: Action, from: Chunk, into: Chunk) -> Outcome {
        let form = |chunk: Chunk| if chunk.place == Place::Partial { Form::Partial } else { Form::Element };
        match action {
            Action::Store => Outcome::Store,
            Action::Reduce { with, finish } => {
                let shape = Shape { with: form(with), data: form(from), into: form(into), finish };
                Outcome::Reduce { with: self.span(with), shape }
            }
        }
    }

    fn queue(&mut self, channel: u32, peer: usize, direction: Direction) -> usize {
        let queues = &mut self.plan.queues;
        let same = |queue: &Queue| (queue.channel, queue.peer, queue.direction) == (channel, peer, direction);
        queues.iter().position(same).unwrap_or_else(|| {
            queues.push(Queue { channel, peer, direction, slices: Vec::new() });
            queues.len() - 1
        })
    }

    /// A buffer that is copied onto itself.
    fn is_same(&self, from: Chunk, into: Chunk, action: Action) -> bool {
        action == Action::Store && self.range(from) == self.range(into)
    }

    fn elements_per_slice(&self) -> usize {
        let reducer = self.memory.reducer;
        self.memory.step_bytes / reducer.bytes(Form::Partial).max(reducer.bytes(Form::Element))
    }

    fn element_bytes(&self, place: Place) -> usize {
        let form = if place == Place::Partial { Form::Partial } else { Form::Element };
        self.memory.reducer.bytes(form)
    }

    /// Keeps account of the operation's own memory.
    fn measure(&mut self, into: Chunk) {
        let end = (into.start + into.len) * self.element_bytes(into.place);
        match into.place {
            Place::Scratch => self.plan.scratch_bytes = self.plan.scratch_bytes.max(end),
            Place::Partial if !self.partial_in_recv => {
                self.plan.partial_bytes = self.plan.partial_bytes.max(end);
            }
            _ => {}
        }
    }

    fn span(&self, chunk: Chunk) -> Span {
        let bytes = self.element_bytes(chunk.place);
        let in_recv = chunk.place == Place::Partial && self.partial_in_recv;
        let place = if in_recv { Place::Recv } else { chunk.place };
        Span { place, offset: chunk.start * bytes, len: chunk.len * bytes }
    }

    fn range(&self, chunk: Chunk) -> Range<u64> {
        let span = self.span(chunk);
        let base = match span.place {
            Place::Send => {
                self.memory.in_place.map_or(SEND_BASE, |offset| RECV_BASE.wrapping_add_signed(offset))
            }
            Place::Recv => RECV_BASE,
            Place::Scratch => SCRATCH_BASE,
            Place::Partial => PARTIAL_BASE,
        };
        let start = base + span.offset as u64;
        start..start + span.len as u64
    }
}

fn cut(action: Action, piece: impl Fn(Chunk) -> Chunk) -> Action {
    match action {
        Action::Store => Action::Store,
        Action::Reduce { with, finish } => Action::Reduce { with: piece(with), finish },
    }
}

/// Queues, slices and waits are counted in 32 bits: 2^32 slices exceed any memory.
fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
