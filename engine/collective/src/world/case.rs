//! One call of every rank: what goes in, how it is run, what must come out.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::collective::algorithm::Choice;
use crate::collective::operation::Operation;
use crate::collective::primitive::Primitive;
use crate::collective::schedule::Step;
use crate::comm::Comm;
use crate::comm::operators::{PreMul, Scalar};
use crate::error::Error;
use crate::kernels::{Reducer, Width};
use crate::memory::Region;
use crate::profiler::emit::OperationEvents;
use crate::run::drive::{self, Launch};
use crate::run::flat::cut::Cut;
use crate::run::flat::placed;
use crate::transport::shm::region;
use crate::types::{DataType, RedOp};
use crate::world::numbers::{float_bytes, integer_bytes, largest, mix, normal, uniform};
use crate::world::reference::{Order, Wanted, reduced, scaled};

/// A call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) primitive: Primitive,
    pub(super) data_type: DataType,
    pub(super) op: RedOp,
    /// Whether contributions are multiplied first (`ncclRedOpCreatePreMulSum`).
    pub(super) pre_mul: bool,
    pub(super) count: usize,
    pub(super) n_virtual: usize,
    pub(super) in_place: bool,
    pub(super) memory: Memory,
    /// Of the data.
    pub(super) seed: u64,
}

/// Where the buffers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// In memory of the rank's own.
    Own,
    /// In memory of `ncclMemAlloc`.
    Shared,
    /// In either, by rank.
    Mixed,
}

/// What a call left behind on one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) recv: Vec<u8>,
    pub(super) choice: Choice,
    /// By direction (is it sent), channel and peer.
    pub(super) traffic: Traffic,
}

pub(super) type Traffic = BTreeMap<(bool, u32, usize), u64>;

/// Bytes around and between the buffers that nobody may touch; odd, so that elements are not aligned.
const GAP: usize = 67;
const UNTOUCHED: u8 = 0xa5;

impl Case {
    /// The primitives, with a root where there is one.
    pub(super) fn primitives(root: usize) -> [Primitive; 8] {
        [
            Primitive::AllReduce,
            Primitive::AllGather,
            Primitive::ReduceScatter,
            Primitive::Broadcast { root },
            Primitive::Reduce { root },
            Primitive::AllToAll,
            Primitive::Gather { root },
            Primitive::Scatter { root },
        ]
    }

    /// Bytes of `blocks` times the count.
    fn bytes(&self, blocks: usize) -> usize {
        blocks * self.count * self.data_type.size_bytes()
    }

    /// Bytes of the send and of the receive buffer, as far as they count on `rank`.
    fn lens(&self, rank: usize, n_ranks: usize) -> (usize, usize) {
        let at = |root: usize, bytes: usize| if root == rank { bytes } else { 0 };
        let (one, all) = (self.bytes(1), self.bytes(n_ranks));
        match self.primitive {
            Primitive::AllGather => (one, all),
            Primitive::ReduceScatter => (all, one),
            Primitive::Broadcast { root } => (at(root, one), one),
            Primitive::Reduce { root } => (one, at(root, one)),
            Primitive::AllToAll => (all, all),
            Primitive::Gather { root } => (one, at(root, all)),
            Primitive::Scatter { root } => (at(root, all), one),
            _ => (one * self.n_virtual, one),
        }
    }

    /// The contribution of a (virtual) rank, all its blocks.
    pub(super) fn contribution(&self, virtual_rank: usize, n_ranks: usize) -> Vec<u8> {
        let has_blocks = matches!(
            self.primitive,
            Primitive::ReduceScatter | Primitive::AllToAll | Primitive::Scatter { .. }
        );
        let len = self.count * if has_blocks { n_ranks } else { 1 };
        let random = |index: usize| mix(self.seed ^ (virtual_rank as u64) << 40) ^ index as u64;
        (0..len).flat_map(|index| self.element(random(index))).collect()
    }

    /// Normally distributed, all bits of a whole number, or, as a factor, near to 1 either way. What is averaged is so large
    /// that the type could not hold the sum.
    fn element(&self, random: u64) -> Vec<u8> {
        let sign = if random & 1 == 0 { 1.0 } else { -1.0 };
        match (self.data_type.is_float(), self.op) {
            (true, RedOp::Prod) => float_bytes(self.data_type, sign * (0.5 + uniform(random))),
            (true, RedOp::Avg) => {
                let largest = largest(self.data_type);
                let value = normal(random) * largest / 3.0;
                float_bytes(self.data_type, value.clamp(-largest, largest))
            }
            (true, _) => float_bytes(self.data_type, normal(random)),
            (false, _) => integer_bytes(self.data_type, i128::from(mix(random))),
        }
    }

    fn scalar(&self) -> Vec<u8> {
        if self.data_type.is_float() {
            float_bytes(self.data_type, -0.7)
        } else {
            integer_bytes(self.data_type, 3)
        }
    }

    /// Runs it on this rank.
    pub(super) fn run(&self, comm: &Arc<Comm>) -> Outcome {
        let first = comm.rank * self.n_virtual;
        let ranks = first..first + self.n_virtual;
        let mut send: Vec<u8> = ranks.flat_map(|rank| self.contribution(rank, comm.n_ranks)).collect();
        let (sent, received) = self.lens(comm.rank, comm.n_ranks);
        send.truncate(sent);
        let own = comm.rank * self.bytes(1);
        let (send_at, recv_at) = match (self.in_place, sent < received) {
            (false, _) => (GAP, GAP + sent + GAP),
            // The block of a buffer that has one for each rank; else both are the same.
            (true, true) => (GAP + if sent == 0 { 0 } else { own }, GAP),
            (true, false) => (GAP, GAP + if received == 0 || received == sent { 0 } else { own }),
        };
        let len = 3 * GAP + sent + received;
        let is_shared = match self.memory {
            Memory::Own => false,
            Memory::Shared => true,
            Memory::Mixed => comm.rank.is_multiple_of(2),
        };
        let (mut own, mut shared) = (vec![0; len], is_shared.then(|| region::Memory::new(len)));
        let memory = shared.as_mut().map_or(own.as_mut_slice(), region::Memory::bytes);
        memory.fill(UNTOUCHED);
        memory[send_at..send_at + sent].copy_from_slice(&send);
        let before = memory.to_vec();
        let old = carried(comm);
        let choice = self.launch(comm, memory, (send_at, sent), (recv_at, received));
        let recv = recv_at..recv_at + received;
        assert_eq!(memory[..recv_at], before[..recv_at], "{self:?} writes before its result");
        assert_eq!(memory[recv.end..], before[recv.end..], "{self:?} writes behind its result");
        let mut traffic = carried(comm);
        traffic.iter_mut().for_each(|(end, bytes)| *bytes -= old.get(end).unwrap_or(&0));
        traffic.retain(|_, bytes| *bytes > 0);
        Outcome { recv: memory[recv].to_vec(), choice, traffic }
    }

    fn launch(
        &self,
        comm: &Arc<Comm>,
        memory: &mut [u8],
        (send_at, sent): (usize, usize),
        (recv_at, received): (usize, usize),
    ) -> Choice {
        let send = Region::of_slice_mut(&mut memory[send_at..send_at + sent]);
        let recv = Region::of_slice_mut(&mut memory[recv_at..recv_at + received]);
        let operation = self.operation(comm, send, recv);
        let choice = comm.choose(&operation);
        let ticket = comm.turns.issue();
        let launch = Launch { comm: Arc::clone(comm), ticket, operations: vec![operation] };
        drive::run(&[launch]).unwrap_or_else(|error| panic!("{self:?}: {error}"));
        choice
    }

    /// The error that the call ends with.
    pub(super) fn error(&self, comm: &Arc<Comm>) -> Error {
        let (sent, received) = self.lens(comm.rank, comm.n_ranks);
        let (send, mut recv) = (vec![0; sent], vec![0; received]);
        let operation = self.operation(comm, Region::of_slice(&send), Region::of_slice_mut(&mut recv));
        let ticket = comm.turns.issue();
        drive::run(&[Launch { comm: Arc::clone(comm), ticket, operations: vec![operation] }]).unwrap_err()
    }

    fn operation(&self, comm: &Comm, send: Region, recv: Region) -> Operation {
        let n_ranks = comm.n_ranks * self.n_virtual;
        let mut scalar = [0; 8];
        scalar[..self.data_type.size_bytes()].copy_from_slice(&self.scalar());
        let pre_mul = PreMul { data_type: self.data_type, scalar: Scalar::Immediate(scalar) };
        Operation {
            primitive: self.primitive,
            count: self.count,
            reducer: Reducer::new(self.data_type, self.op, n_ranks),
            n_virtual: self.n_virtual,
            pre_mul: self.pre_mul.then_some(pre_mul),
            send,
            recv,
            sequence: comm.next_collective(),
            events: OperationEvents::default(),
        }
    }

    /// What each rank must send on each channel to each other one, in closed form.
    pub(super) fn formula(&self, comm: &Comm, rank: usize) -> BTreeMap<(u32, usize), u64> {
        let nothing = || Region::of_slice(&[]);
        let operation = self.operation(comm, nothing(), nothing());
        let is_placed = self.memory == Memory::Shared && self.bytes(1) >= placed::from_bytes(comm.n_ranks);
        let cut = if is_placed && comm.is_flat(&operation) {
            Cut::in_place(self.bytes(1), comm.n_ranks, false)
        } else {
            Cut::new(self.bytes(1), comm.n_ranks)
        };
        comm.closed_form(&operation, &cut, rank)
    }

    /// What is reduced: the contribution of each (virtual) rank, multiplied.
    pub(super) fn inputs(&self, n_ranks: usize) -> Vec<Vec<u8>> {
        let n = n_ranks * self.n_virtual;
        let mut inputs: Vec<Vec<u8>> = (0..n).map(|rank| self.contribution(rank, n_ranks)).collect();
        if self.pre_mul {
            let (scalar, size) = (self.scalar(), self.data_type.size_bytes());
            let times = |element: &[u8]| scaled(self.data_type, element, &scalar);
            inputs.iter_mut().for_each(|input| *input = input.chunks(size).flat_map(times).collect());
        }
        inputs
    }

    /// The steps of this rank where partial results are rounded on their way, else none.
    pub(super) fn rounded_steps(&self, comm: &Comm) -> Vec<(u32, Step)> {
        let operation = self.operation(comm, Region::of_slice(&[]), Region::of_slice(&[]));
        let choice = comm.choose(&operation);
        let reducer = operation.moved_as(choice.algorithm);
        let is_rounded = !reducer.is_wide() && Reducer { width: Width::F32, ..reducer }.is_wide();
        if is_rounded { comm.steps(&operation, choice) } else { Vec::new() }
    }

    /// What every rank must get, element by element.
    pub(super) fn wanted(&self, n_ranks: usize, order: Order) -> Vec<Vec<Wanted>> {
        let inputs = self.inputs(n_ranks);
        let size = self.data_type.size_bytes();
        let reduced: Vec<Wanted> = if self.primitive.reduces() {
            let at =
                |index: usize| inputs.iter().map(|input| &input[index..index + size]).collect::<Vec<_>>();
            let element = |index| reduced(self.data_type, self.op, order, &at(index));
            (0..inputs[0].len()).step_by(size).map(element).collect()
        } else {
            Vec::new()
        };
        let exact = |bytes: &[u8]| bytes.chunks(size).map(|bytes| Wanted::Exactly(bytes.to_vec())).collect();
        let block = |rank: usize, index: usize| &inputs[rank][self.bytes(index)..self.bytes(index + 1)];
        let of_all = |index: usize| {
            exact(&(0..n_ranks).flat_map(|rank| block(rank, index)).copied().collect::<Vec<u8>>())
        };
        let only = |is_root: bool, wanted: Vec<Wanted>| if is_root { wanted } else { Vec::new() };
        let of_rank = |rank: usize| match self.primitive {
            Primitive::AllGather => of_all(0),
            Primitive::ReduceScatter => reduced[rank * self.count..(rank + 1) * self.count].to_vec(),
            Primitive::Broadcast { root } => exact(&inputs[root]),
            Primitive::Reduce { root } => only(rank == root, reduced.clone()),
            Primitive::AllToAll => of_all(rank),
            Primitive::Gather { root } => only(rank == root, of_all(0)),
            Primitive::Scatter { root } => exact(block(root, rank)),
            _ => reduced.clone(),
        };
        (0..n_ranks).map(of_rank).collect()
    }
}

fn carried(comm: &Comm) -> Traffic {
    let ends = comm.traffic().into_iter();
    ends.map(|end| ((end.is_send, end.channel, end.peer), end.payload_bytes)).collect()
}
