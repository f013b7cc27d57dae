//! A reference interpreter for tests: runs the compiled plans of all ranks in memory, in a random order, with nothing
//! between the ranks that holds data. A transfer happens when both ends are ready for it, so what finishes here finishes
//! over any transport, however little that buffers.
//!
//! Elements are tokens. A reduction of tokens may be a sum, or a digest of both operands in their order, which shows the
//! association of every result.

use std::collections::HashMap;

use crate::collective::algorithm::Algorithm;
use crate::collective::catalog::{partials_in_recv, schedule};
use crate::collective::layout::Scope;
use crate::collective::plan::{Direction, Memory, Outcome, Plan, Slice};
use crate::collective::primitive::Primitive;
use crate::kernels::{Form, Reducer};
use crate::memory::{Place, Span};
use crate::types::{DataType, RedOp};

/// One operation of a made-up communicator.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) algorithm: Algorithm,
    pub(super) primitive: Primitive,
    pub(super) count: usize,
    /// Node of each rank.
    pub(super) nodes: Vec<usize>,
    pub(super) n_channels: usize,
    pub(super) n_virtual: usize,
    pub(super) piece: usize,
    pub(super) wide: bool,
    pub(super) in_place: bool,
}

/// A token's reduction.
pub(super) type Combine = fn(u64, u64) -> u64;

/// A digest of both operands, their order and the shape of the expression.
pub(super) fn digest(left: u64, right: u64) -> u64 {
    let mixed = left.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ right;
    mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (mixed >> 31)
}

/// The contribution of a virtual rank.
pub(super) fn token(virtual_rank: usize, element: usize) -> u64 {
    digest(virtual_rank as u64 + 1, element as u64 + 1)
}

impl World {
    pub(super) fn n_ranks(&self) -> usize {
        self.nodes.len()
    }

    /// The ring of a channel: rotated by it, as channels of real communicators are.
    fn order(&self, channel: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.n_ranks()).collect();
        order.sort_by_key(|rank| self.nodes[*rank]);
        order.rotate_left(channel % self.n_ranks());
        order
    }

    /// Elements of the send and of the receive buffer of one rank.
    fn lengths(&self) -> (usize, usize) {
        let (count, all) = (self.count, self.count * self.n_ranks());
        let (send, recv) = match self.primitive {
            Primitive::AllGather | Primitive::Gather { .. } => (count, all),
            Primitive::ReduceScatter | Primitive::Scatter { .. } => (all, count),
            Primitive::AllToAll => (all, all),
            _ => (count, count),
        };
        (send * self.n_virtual, recv)
    }

    /// Where the send buffer starts in the receive buffer, in elements, when in place.
    fn send_offset(&self, rank: usize) -> Option<i64> {
        let own = i64::try_from(rank * self.count).unwrap();
        self.in_place.then_some(match self.primitive {
            Primitive::AllGather | Primitive::Gather { .. } => own,
            Primitive::ReduceScatter | Primitive::Scatter { .. } => -own,
            _ => 0,
        })
    }

    fn data_type(&self) -> DataType {
        if self.wide { DataType::F16 } else { DataType::U64 }
    }

    fn reduce(&self) -> Reducer {
        Reducer::new(self.data_type(), RedOp::Sum, self.n_ranks())
    }

    /// Calls `visit` with the schedule's scope on each channel.
    pub(super) fn on_channels<T>(&self, mut visit: impl FnMut(&Scope<'_>) -> T) -> Vec<T> {
        let run = |channel| {
            let order = self.order(channel);
            visit(&Scope {
                n_ranks: self.n_ranks(),
                nodes: &self.nodes,
                order: &order,
                channel,
                n_channels: self.n_channels,
                wide: self.wide,
                n_virtual: self.n_virtual,
                piece: self.piece,
            })
        };
        (0..self.n_channels).map(run).collect()
    }

    fn plan(&self, rank: usize) -> Plan {
        let steps = self.on_channels(|scope| {
            let schedule = schedule(self.algorithm, self.primitive, self.count, scope);
            let channel = u32::try_from(scope.channel).unwrap();
            schedule.steps(rank).map(|step| (channel, step)).collect::<Vec<_>>()
        });
        let reducer = self.reduce();
        let bytes = reducer.bytes(Form::Element);
        let in_place = self.send_offset(rank).map(|offset| offset * i64::try_from(bytes).unwrap());
        let memory = Memory {
            reducer,
            step_bytes: 512 * 1024,
            partials_in_recv: partials_in_recv(self.algorithm, self.primitive),
            in_place,
        };
        Plan::compile(memory, || steps.iter().flatten().copied())
            .unwrap_or_else(|_| panic!("rank {rank} reads what it has overwritten: {self:?}"))
    }

    /// Runs it; what every rank's receive buffer holds then. None are elements that nobody wrote.
    pub(super) fn run(&self, combine: Combine, seed: u64) -> Vec<Vec<Option<u64>>> {
        let mut ranks: Vec<Rank> = (0..self.n_ranks()).map(|rank| Rank::new(self, rank)).collect();
        let plans: Vec<Plan> = (0..self.n_ranks()).map(|rank| self.plan(rank)).collect();
        let mut heads = Heads::new(&plans);
        let mut random = Random(seed);
        while let Some(pick) = heads.pick(&mut random) {
            let (rank, queue) = pick;
            let slice = heads.head(rank, queue);
            let data = match heads.sender(rank, queue) {
                Some((peer, from)) => {
                    let data = ranks[peer].read(heads.head(peer, from).from);
                    heads.advance(peer, from);
                    data
                }
                None => ranks[rank].read(slice.from),
            };
            ranks[rank].finish(slice, data, combine);
            heads.advance(rank, queue);
        }
        assert!(heads.all_done(), "stuck: {self:?}: {}", heads.stuck());
        ranks.into_iter().map(|rank| rank.recv(self)).collect()
    }
}

/// A sequence of numbers that the seed decides.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(1);
        usize::try_from(digest(self.0, self.0) % limit as u64).unwrap()
    }
}

/// One rank's memory, in tokens.
struct Rank {
    cells: HashMap<(u8, i64), u64>,
    reducer: Reducer,
    send_offset: Option<i64>,
}

impl Rank {
    fn new(world: &World, rank: usize) -> Self {
        let mut own =
            Self { cells: HashMap::new(), reducer: world.reduce(), send_offset: world.send_offset(rank) };
        let (send, _) = world.lengths();
        let one = send / world.n_virtual;
        let origin = if world.primitive == Primitive::AllGather { rank * world.count } else { 0 };
        for index in 0..send {
            let virtual_rank = rank * world.n_virtual + index.checked_div(one).unwrap_or(0);
            let cell = own.cell(Place::Send, index);
            let first = if matches!(world.primitive, Primitive::AllGather) { origin } else { 0 };
            own.cells.insert(cell, token(virtual_rank, first + index % one.max(1)));
        }
        own
    }

    fn cell(&self, place: Place, index: usize) -> (u8, i64) {
        let index = i64::try_from(index).unwrap();
        match (place, self.send_offset) {
            (Place::Send, Some(offset)) => (1, index + offset),
            (Place::Send, None) => (0, index),
            (Place::Recv, _) => (1, index),
            (Place::Scratch, _) => (2, index),
            (Place::Partial, _) => (3, index),
        }
    }

    fn cells_of(&self, span: Span) -> Vec<(u8, i64)> {
        let form = if span.place == Place::Partial { Form::Partial } else { Form::Element };
        let bytes = self.reducer.bytes(form);
        (span.offset / bytes..(span.offset + span.len) / bytes)
            .map(|index| self.cell(span.place, index))
            .collect()
    }

    fn read(&self, span: Span) -> Vec<u64> {
        let cells = self.cells_of(span);
        cells.iter().map(|cell| *self.cells.get(cell).expect("read before written")).collect()
    }

    fn finish(&mut self, slice: &Slice, mut data: Vec<u64>, combine: Combine) {
        if let Outcome::Reduce { with, .. } = slice.outcome {
            for (right, left) in data.iter_mut().zip(self.read(with)) {
                *right = combine(left, *right);
            }
        }
        let into = self.cells_of(slice.into);
        assert_eq!(into.len(), data.len(), "both ends cut alike");
        self.cells.extend(into.into_iter().zip(data));
    }

    fn recv(&self, world: &World) -> Vec<Option<u64>> {
        let (_, recv) = world.lengths();
        (0..recv).map(|index| self.cells.get(&self.cell(Place::Recv, index)).copied()).collect()
    }
}

/// How far each queue of each rank is.
struct Heads<'a> {
    plans: &'a [Plan],
    done: Vec<Vec<usize>>,
    /// Queues of local work and of receives.
    doers: Vec<(usize, usize)>,
    /// The queue that sends to a queue.
    senders: HashMap<(usize, usize), (usize, usize)>,
}

impl<'a> Heads<'a> {
    fn new(plans: &'a [Plan]) -> Self {
        let done = plans.iter().map(|plan| vec![0; plan.queues.len()]).collect();
        let mut sends = HashMap::new();
        let mut doers = Vec::new();
        for (rank, plan) in plans.iter().enumerate() {
            for (index, queue) in plan.queues.iter().enumerate() {
                if queue.direction == Direction::Send {
                    sends.insert((rank, queue.peer, queue.channel), (rank, index));
                } else {
                    doers.push((rank, index));
                }
            }
        }
        let mut senders = HashMap::new();
        for (rank, plan) in plans.iter().enumerate() {
            for (index, queue) in plan.queues.iter().enumerate() {
                if queue.direction == Direction::Recv {
                    let sender = sends.remove(&(queue.peer, rank, queue.channel));
                    senders.insert((rank, index), sender.expect("somebody sends what is received"));
                }
            }
        }
        assert!(sends.is_empty(), "nobody receives {sends:?}");
        Self { plans, done, doers, senders }
    }

    fn head(&self, rank: usize, queue: usize) -> &'a Slice {
        &self.plans[rank].queues[queue].slices[self.done[rank][queue]]
    }

    fn sender(&self, rank: usize, queue: usize) -> Option<(usize, usize)> {
        self.senders.get(&(rank, queue)).copied()
    }

    fn is_ready(&self, rank: usize, queue: usize) -> bool {
        let plan = &self.plans[rank];
        let Some(slice) = plan.queues[queue].slices.get(self.done[rank][queue]) else { return false };
        plan.waits(slice).iter().all(|(on, count)| self.done[rank][*on as usize] >= *count as usize)
    }

    /// A random slice that can be done now: local work, or a receive whose sender is ready.
    fn pick(&self, random: &mut Random) -> Option<(usize, usize)> {
        let first = random.below(self.doers.len().max(1));
        let (before, after) = self.doers.split_at(first);
        after.iter().chain(before).copied().find(|(rank, queue)| {
            let sender = self.sender(*rank, *queue);
            self.is_ready(*rank, *queue) && sender.is_none_or(|(peer, from)| self.is_ready(peer, from))
        })
    }

    fn advance(&mut self, rank: usize, queue: usize) {
        self.done[rank][queue] += 1;
    }

    fn all_done(&self) -> bool {
        self.plans
            .iter()
            .zip(&self.done)
            .all(|(plan, done)| plan.queues.iter().zip(done).all(|(queue, done)| queue.slices.len() == *done))
    }

    fn stuck(&self) -> String {
        let ranks = self.plans.iter().zip(&self.done).enumerate();
        let of_rank = |(rank, (plan, done)): (usize, (&Plan, &Vec<usize>))| {
            let queues = plan.queues.iter().zip(done).filter(|(queue, done)| queue.slices.len() > **done);
            let named: Vec<_> = queues
                .map(|(queue, done)| format!("{rank} {:?} {} at {done}", queue.direction, queue.peer))
                .collect();
            named.join(", ")
        };
        ranks.map(of_rank).collect::<Vec<_>>().join("; ")
    }
}
