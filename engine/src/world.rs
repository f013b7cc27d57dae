//! Property tests: every primitive × type × operator × count × number of ranks against a naive reference. Ranks are
//! threads of this process on pretended hosts.

use std::sync::Arc;

use proptest::prelude::*;

use crate::collective::operation::{Operation, Primitive};
use crate::comm::init::{Request, init};
use crate::comm::{Comm, CommConfig};
use crate::config::Settings;
use crate::kernels::Fold;
use crate::kernels::float8::{e4m3_to_f32, e5m2_to_f32, f32_to_e4m3, f32_to_e5m2};
use crate::kernels::float16::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use crate::memory::Region;
use crate::net::root;
use crate::profiler::emit::OperationEvents;
use crate::run::drive::{self, Launch};
use crate::types::{DataType, RedOp};

const OPS: [RedOp; 5] = [RedOp::Sum, RedOp::Prod, RedOp::Max, RedOp::Min, RedOp::Avg];

/// Runs `rank` on each rank of a new communicator.
fn world<T: Send>(n_ranks: usize, rank: impl Fn(Arc<Comm>) -> T + Sync) -> Vec<T> {
    let root = root::start("127.0.0.1".parse().unwrap(), std::time::Duration::from_secs(20)).unwrap();
    let id = root.to_bytes();
    let rank = &rank;
    std::thread::scope(|scope| {
        let start = |index: usize| {
            let config = CommConfig::default();
            let request = Request { api: "ncclCommInitRank", id, rank: index, n_ranks, config, split: None };
            scope.spawn(move || {
                let comm = init(request, settings(index)).unwrap();
                let result = rank(Arc::clone(&comm));
                comm.destroy();
                result
            })
        };
        let threads: Vec<_> = (0..n_ranks).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Two ranks per host, two NICs each.
fn settings(rank: usize) -> Settings {
    let host = rank / 2 + 1;
    Settings::parse(|name| match name {
        "RSCCL_HOST" => Some(format!("host-{host}")),
        "RSCCL_NICS" => Some(format!("mlx5_0=127.0.{host}.1,mlx5_1=127.0.{host}.2")),
        "NCCL_PROFILER_PLUGIN" => Some("none".to_owned()),
        _ => None,
    })
    .unwrap()
}

/// Small whole numbers, exact in every type, whose sums and products of few ranks are exact too.
fn value(rank: usize, index: usize) -> u8 {
    u8::try_from((rank * 7 + index * 3) % 3 + 1).unwrap()
}

fn encode(data_type: DataType, value: f64) -> Vec<u8> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the values are small and positive"
    )]
    match data_type {
        DataType::I8 => (value as i8).to_ne_bytes().to_vec(),
        DataType::U8 => (value as u8).to_ne_bytes().to_vec(),
        DataType::I32 => (value as i32).to_ne_bytes().to_vec(),
        DataType::U32 => (value as u32).to_ne_bytes().to_vec(),
        DataType::I64 => (value as i64).to_ne_bytes().to_vec(),
        DataType::U64 => (value as u64).to_ne_bytes().to_vec(),
        DataType::F16 => f32_to_f16(value as f32).to_ne_bytes().to_vec(),
        DataType::Bf16 => f32_to_bf16(value as f32).to_ne_bytes().to_vec(),
        DataType::F8e4m3 => vec![f32_to_e4m3(value as f32)],
        DataType::F8e5m2 => vec![f32_to_e5m2(value as f32)],
        DataType::F32 => (value as f32).to_ne_bytes().to_vec(),
        DataType::F64 => value.to_ne_bytes().to_vec(),
    }
}

fn decode(data_type: DataType, bytes: &[u8]) -> f64 {
    match data_type {
        DataType::F16 => f64::from(f16_to_f32(u16::from_ne_bytes(bytes.try_into().unwrap()))),
        DataType::Bf16 => f64::from(bf16_to_f32(u16::from_ne_bytes(bytes.try_into().unwrap()))),
        DataType::F8e4m3 => f64::from(e4m3_to_f32(bytes[0])),
        DataType::F8e5m2 => f64::from(e5m2_to_f32(bytes[0])),
        _ => (0..=u8::MAX)
            .map(f64::from)
            .find(|value| encode(data_type, *value) == bytes)
            .unwrap_or_else(|| f64::from(f32::from_ne_bytes(bytes[..4].try_into().unwrap_or_default()))),
    }
}

fn buffer(data_type: DataType, rank: usize, count: usize) -> Vec<u8> {
    (0..count).flat_map(|index| encode(data_type, f64::from(value(rank, index)))).collect()
}

fn reduced(op: RedOp, data_type: DataType, n_ranks: usize, index: usize) -> f64 {
    let values = (0..n_ranks).map(|rank| f64::from(value(rank, index)));
    match op {
        RedOp::Sum => values.sum(),
        RedOp::Prod => values.product(),
        RedOp::Max => values.fold(f64::MIN, f64::max),
        RedOp::Min => values.fold(f64::MAX, f64::min),
        RedOp::Avg => {
            let mean = values.sum::<f64>() / n_ranks as f64;
            let float = data_type.is_float();
            if float { mean } else { mean.floor() }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    primitive: Primitive,
    data_type: DataType,
    op: RedOp,
    count: usize,
    n_ranks: usize,
    in_place: bool,
}

impl Case {
    /// What `rank` gets, where it gets anything.
    fn expected(&self, rank: usize) -> Option<Vec<u8>> {
        let Case { data_type, op, count, n_ranks, .. } = *self;
        let element = |index| encode(data_type, reduced(op, data_type, n_ranks, index));
        match self.primitive {
            Primitive::AllReduce => Some((0..count).flat_map(element).collect()),
            Primitive::Reduce { root } => (root == rank).then(|| (0..count).flat_map(element).collect()),
            Primitive::ReduceScatter => Some((rank * count..(rank + 1) * count).flat_map(element).collect()),
            Primitive::AllGather => {
                Some((0..n_ranks).flat_map(|rank| buffer(data_type, rank, count)).collect())
            }
            Primitive::Broadcast { root } => Some(buffer(data_type, root, count)),
            Primitive::AllToAll => Some((0..n_ranks).flat_map(|from| self.block(from, rank)).collect()),
            Primitive::Gather { root } => {
                (root == rank).then(|| (0..n_ranks).flat_map(|rank| buffer(data_type, rank, count)).collect())
            }
            Primitive::Scatter { root } => Some(self.block(root, rank)),
            Primitive::Send { .. } | Primitive::Recv { .. } => None,
        }
    }

    /// Block `index` of a rank's buffer.
    fn block(&self, rank: usize, index: usize) -> Vec<u8> {
        let block = self.count * self.data_type.size_bytes();
        let whole = buffer(self.data_type, rank, self.count * (index + 1));
        whole[index * block..].to_vec()
    }

    fn run(&self, comm: &Arc<Comm>) -> Vec<u8> {
        let Case { primitive, data_type, op, count, n_ranks, in_place } = *self;
        let block = count * data_type.size_bytes();
        let (sends, receives) = match primitive {
            Primitive::AllGather | Primitive::Gather { .. } => (1, n_ranks),
            Primitive::ReduceScatter | Primitive::Scatter { .. } => (n_ranks, 1),
            Primitive::AllToAll => (n_ranks, n_ranks),
            _ => (1, 1),
        };
        let mut send = buffer(data_type, comm.rank, count * sends);
        let mut recv = vec![0xee; block * receives];
        let own = comm.rank * block;
        let result = if in_place && matches!(primitive, Primitive::AllGather | Primitive::Gather { .. }) {
            recv[own..own + block].copy_from_slice(&send);
            self.launch(comm, Region::of_slice(&recv[own..own + block]), Region::of_slice_mut(&mut recv));
            recv
        } else if in_place && matches!(primitive, Primitive::ReduceScatter | Primitive::Scatter { .. }) {
            let target = Region::of_slice_mut(&mut send[own..own + block]);
            self.launch(comm, Region::of_slice(&send), target);
            send[own..own + block].to_vec()
        } else if in_place {
            self.launch(comm, Region::of_slice(&send), Region::of_slice_mut(&mut send));
            send
        } else {
            let before = send.clone();
            self.launch(comm, Region::of_slice(&send), Region::of_slice_mut(&mut recv));
            assert_eq!(send, before, "{self:?}: the send buffer is the caller's");
            recv
        };
        assert_eq!(op, self.op);
        result
    }

    fn launch(&self, comm: &Arc<Comm>, send: Region, recv: Region) {
        let Case { primitive, data_type, op, count, n_ranks, .. } = *self;
        let operation = Operation {
            primitive,
            count,
            fold: Fold { data_type, op, n_ranks },
            n_virtual: 1,
            pre_mul: None,
            send,
            recv,
            sequence: comm.next_collective(),
            events: OperationEvents::default(),
        };
        let ticket = comm.turns.issue();
        drive::run(&[Launch { comm: Arc::clone(comm), ticket, operations: vec![operation] }]).unwrap();
    }
}

fn check(cases: &[Case]) {
    let n_ranks = cases[0].n_ranks;
    world(n_ranks, |comm| {
        for case in cases {
            let result = case.run(&comm);
            let Some(expected) = case.expected(comm.rank) else { continue };
            let size = case.data_type.size_bytes();
            for (index, (got, want)) in result.chunks(size).zip(expected.chunks(size)).enumerate() {
                if got == want {
                    continue;
                }
                let (got, want) = (decode(case.data_type, got), decode(case.data_type, want));
                let close = (got - want).abs() <= want.abs() * 0.01;
                assert!(close, "{case:?} rank {} element {index}: {got}, not {want}", comm.rank);
            }
            assert_eq!(result.len(), expected.len());
        }
    });
}

fn primitives(root: usize) -> [Primitive; 8] {
    let (broadcast, reduce) = (Primitive::Broadcast { root }, Primitive::Reduce { root });
    let (gather, scatter) = (Primitive::Gather { root }, Primitive::Scatter { root });
    let (all_gather, reduce_scatter) = (Primitive::AllGather, Primitive::ReduceScatter);
    [
        Primitive::AllReduce,
        all_gather,
        reduce_scatter,
        broadcast,
        reduce,
        Primitive::AllToAll,
        gather,
        scatter,
    ]
}

#[test]
fn every_type_with_every_operator() {
    let mut cases = Vec::new();
    for data_type in DataType::ALL {
        for op in OPS {
            for primitive in primitives(1) {
                cases.push(Case {
                    primitive,
                    data_type,
                    op,
                    count: 13,
                    n_ranks: 3,
                    in_place: op == RedOp::Max,
                });
            }
        }
    }
    check(&cases);
}

/// Bytes that are sent and received, over all ranks and in all, as the connections count them.
fn traffic(n_ranks: usize, case: Case) -> (Vec<u64>, u64) {
    let counts = world(n_ranks, |comm| {
        case.run(&comm);
        let bytes = |is_send| {
            let ends = comm.traffic().into_iter().filter(move |end| end.is_send == is_send);
            ends.map(|end| end.payload_bytes).sum::<u64>()
        };
        (bytes(true), bytes(false))
    });
    let received = counts.iter().map(|(_, received)| received).sum();
    (counts.into_iter().map(|(sent, _)| sent).collect(), received)
}

#[test]
fn connections_carry_what_the_formula_says() {
    let (n_ranks, count) = (4, 100_000);
    let case = |primitive| Case {
        primitive,
        data_type: DataType::F32,
        op: RedOp::Sum,
        count,
        n_ranks,
        in_place: false,
    };
    let bytes = count as u64 * 4;
    for (primitive, per_rank) in [
        (Primitive::AllReduce, vec![2 * 3 * bytes / 4; 4]),
        (Primitive::AllGather, vec![3 * bytes; 4]),
        (Primitive::ReduceScatter, vec![3 * bytes; 4]),
        (Primitive::AllToAll, vec![3 * bytes; 4]),
        (Primitive::Gather { root: 2 }, vec![bytes, bytes, 0, bytes]),
        (Primitive::Scatter { root: 2 }, vec![0, 0, 3 * bytes, 0]),
    ] {
        let (sent, received) = traffic(n_ranks, case(primitive));
        assert_eq!(sent, per_rank, "{primitive:?}");
        assert_eq!(received, per_rank.iter().sum::<u64>(), "{primitive:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn every_primitive_equals_the_reference(
        n_ranks in 1_usize..7,
        counts in prop::collection::vec(0_usize..3000, 4),
        large in 20_000_usize..60_000,
        root in 0_usize..7,
        in_place: bool,
        data_type in prop::sample::select(DataType::ALL.to_vec()),
        op in prop::sample::select(vec![RedOp::Sum, RedOp::Max, RedOp::Min, RedOp::Avg]),
    ) {
        let mut cases = Vec::new();
        for count in counts.into_iter().chain([large]) {
            for primitive in primitives(root % n_ranks) {
                cases.push(Case { primitive, data_type, op, count, n_ranks, in_place });
            }
        }
        check(&cases);
    }
}
