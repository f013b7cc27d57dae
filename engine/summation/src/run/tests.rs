//! Whole groups whose ranks are threads, against sums that are written down anew.

mod codecs;
mod faults;
mod generations;
mod kept;
mod local;
mod nics;
mod observed;
mod orders;
mod stores;

use std::sync::Arc;
use std::time::Duration;

use super::agree;
use super::group::{Group, Nics, Plan};
use super::members::{Members, Role};
use super::nics::Nic;
use crate::config::GroupSettings;
use crate::placement::machines::Machines;
use crate::placement::predict::predict;
use crate::placement::strategy::Strategy;
use crate::server::reduction::Reduction;
use crate::server::sums::Mode;
use crate::tensor::{Declaration, Declarations, Options};
use crate::worker;
use rsccl_collective::config::Settings;
use rsccl_collective::error::Result;
use rsccl_collective::kernels::float16::{f16_to_f32, f32_to_f16};
use rsccl_collective::lock::lock;
use rsccl_collective::memory::Region;
use rsccl_collective::net::root;
use rsccl_collective::net::unique_id::{UNIQUE_ID_BYTES, UniqueId};
use rsccl_collective::types::DataType;

/// How the ranks reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    /// Sockets between all of them.
    Tcp,
    /// Memory that all of them share.
    Shm,
    /// Memory inside hosts of two, sockets between them.
    Mixed,
}

const TRANSPORTS: [Transport; 3] = [Transport::Tcp, Transport::Shm, Transport::Mixed];

#[derive(Clone, Copy, Debug)]
struct Shape {
    transport: Transport,
    n_workers: usize,
    n_servers: usize,
    partition_bytes: u64,
    /// Of the NICs of four ranks.
    nic_mbit: Option<[u64; 4]>,
    /// What ranks know of their NICs, which measures the others; else `nic_mbit` counts.
    nics: Option<&'static [Nic]>,
    mode: Mode,
    pipeline: worker::Settings,
    /// By rank, where it is not as the transport has it.
    hosts: Option<&'static [usize]>,
    /// `RSUM_LOCAL`
    local: &'static str,
    /// `RSUM_KEPT_BYTES`
    kept_bytes: Option<usize>,
}

/// Name, elements and type: less than a part, several parts, none, one element.
const TENSORS: [(&str, u64, DataType); 6] = [
    ("conv.weight", 1000, DataType::F32),
    ("conv.bias", 333, DataType::F16),
    ("steps", 30_001, DataType::I32),
    ("nothing", 0, DataType::F32),
    ("fc.weight", 40_000, DataType::F32),
    ("fc.bias", 1, DataType::F16),
];

/// Parts of two frames.
const PARTITION_BYTES: u64 = 100_000;

impl Shape {
    fn new(transport: Transport, n_workers: usize, n_servers: usize, partition_bytes: u64) -> Self {
        let pipeline = worker::Settings::default();
        Self {
            transport,
            n_workers,
            n_servers,
            partition_bytes,
            nic_mbit: None,
            nics: None,
            mode: Mode::Rounds,
            pipeline,
            hosts: None,
            local: "off",
            kept_bytes: None,
        }
    }

    fn members(self) -> Members {
        Members { n_workers: self.n_workers, n_servers: self.n_servers }
    }

    /// Servers behind workers, as ranks are.
    fn roles(self) -> Vec<Role> {
        (0..self.n_workers).map(Role::Worker).chain((0..self.n_servers).map(Role::Server)).collect()
    }

    /// Runs `rank` as each rank; what it returned, by rank.
    fn run<T: Send>(self, rank: impl Fn(Group, Role) -> T + Sync) -> Vec<T> {
        self.run_some(&root().to_bytes(), &self.roles(), rank)
    }

    /// The same for some of the ranks.
    fn run_some<T: Send>(
        self,
        id: &[u8; UNIQUE_ID_BYTES],
        roles: &[Role],
        rank: impl Fn(Group, Role) -> T + Sync,
    ) -> Vec<T> {
        let rank = &rank;
        std::thread::scope(|scope| {
            let start = |role: &Role| {
                let (members, partition_bytes, role) = (self.members(), self.partition_bytes, *role);
                let settings = self.settings(members.rank(role));
                let plan = Plan {
                    id: *id,
                    members,
                    role,
                    session: 1,
                    epoch: 0,
                    mode: self.mode,
                    partition_bytes,
                    nics: self.nics(),
                    strategy: Strategy::Greedy,
                    settings,
                    sums: self.sums(),
                    residuals: Arc::default(),
                };
                scope.spawn(move || rank(Group::join(plan).unwrap(), role))
            };
            let threads: Vec<_> = roles.iter().map(start).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    fn settings(self, rank: usize) -> Settings {
        let of_transport = if self.transport == Transport::Mixed { rank / 2 + 1 } else { 1 };
        let host = self.hosts.map_or(of_transport, |hosts| hosts[rank]);
        Settings::parse(|name| match name {
            "RSCCL_HOST" => Some(format!("host-{host}")),
            "RSCCL_NICS" => Some(format!("mlx5_0=127.0.{host}.1")),
            "RSCCL_MIN_NCHANNELS" | "RSCCL_MAX_NCHANNELS" => Some("1".to_owned()),
            "RSCCL_SHM_DISABLE" => (self.transport == Transport::Tcp).then(|| "1".to_owned()),
            "NCCL_PROFILER_PLUGIN" => Some("none".to_owned()),
            _ => None,
        })
        .unwrap()
    }

    fn nics(self) -> Nics {
        let given = || Nics::Given(self.nic_mbit.map(Vec::from), self.pipeline);
        self.nics.map_or_else(given, |nics| Nics::Known(nics.to_vec()))
    }

    fn sums(self) -> GroupSettings {
        let setting = |name: &str| match name {
            "RSUM_LOCAL" => Some(self.local.to_owned()),
            "RSUM_KEPT_BYTES" => self.kept_bytes.map(|bytes| bytes.to_string()),
            _ => None,
        };
        GroupSettings::parse(setting).unwrap()
    }
}

/// Where the ranks of a group meet.
fn root() -> UniqueId {
    root::start("127.0.0.1".parse().unwrap(), Duration::from_secs(20)).unwrap()
}

/// Reproducible numbers (Steele, Lea and Flood, "splitmix", 2014).
fn mix(input: u64) -> u64 {
    let mut mixed = input.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// From -1000 to 1000, with a long fraction.
fn float(seed: u64) -> f32 {
    (mix(seed) % 2_000_001) as f32 / 1000.0 - 1000.0
}

fn element(data_type: DataType, seed: u64) -> Vec<u8> {
    match data_type {
        DataType::F32 => float(seed).to_ne_bytes().to_vec(),
        DataType::F16 => f32_to_f16(float(seed)).to_ne_bytes().to_vec(),
        _ => mix(seed).to_ne_bytes()[..data_type.size_bytes()].to_vec(),
    }
}

fn contribution(tensor: usize, round: u64, worker: usize) -> Vec<u8> {
    let (_, elements, data_type) = TENSORS[tensor];
    let seed = mix(mix(mix(tensor as u64) ^ round) ^ worker as u64);
    (0..elements).flat_map(|index| element(data_type, seed ^ index)).collect()
}

/// Half of the tensors are averaged.
fn reduction(tensor: usize) -> Reduction {
    [Reduction::Sum, Reduction::Average][tensor % 2]
}

/// The workers' contributions, added up in the order of their ranks.
fn wanted(tensor: usize, round: u64, n_workers: usize) -> Vec<u8> {
    let (_, elements, data_type) = TENSORS[tensor];
    let size = data_type.size_bytes();
    let contributions: Vec<Vec<u8>> =
        (0..n_workers).map(|worker| contribution(tensor, round, worker)).collect();
    let divisor = if reduction(tensor) == Reduction::Average { n_workers } else { 1 };
    let one = |index: usize| -> Vec<u8> {
        let elements = contributions.iter().map(|bytes| &bytes[index * size..(index + 1) * size]);
        let divided = |sum: f32| sum / divisor as f32;
        match data_type {
            DataType::F32 => {
                let values = elements.map(|bytes| f32::from_ne_bytes(bytes.try_into().unwrap()));
                divided(values.reduce(|a, b| a + b).unwrap()).to_ne_bytes().to_vec()
            }
            DataType::F16 => {
                let values = elements.map(|bytes| f16_to_f32(u16::from_ne_bytes(bytes.try_into().unwrap())));
                f32_to_f16(divided(values.reduce(|a, b| a + b).unwrap())).to_ne_bytes().to_vec()
            }
            _ => {
                let values = elements.map(|bytes| i32::from_ne_bytes(bytes.try_into().unwrap()));
                let sum = values.reduce(i32::wrapping_add).unwrap();
                (sum / i32::try_from(divisor).unwrap()).to_ne_bytes().to_vec()
            }
        }
    };
    (0..usize::try_from(elements).unwrap()).flat_map(one).collect()
}

/// Servers are told.
fn declare(group: &mut Group, role: Role) {
    let tensors = TENSORS.into_iter().filter(|_| matches!(role, Role::Worker(_)));
    for (name, elements, data_type) in tensors {
        declare_one(group, name, elements, data_type).unwrap();
    }
}

fn declare_one(group: &mut Group, name: &str, elements: u64, data_type: DataType) -> Result<usize> {
    group.declare(Declaration { name: name.to_owned(), elements, data_type }, Options::default())
}

/// All tensors of all rounds, in the order of their submission.
fn rounds(n_rounds: u64) -> impl Iterator<Item = (usize, u64)> {
    (0..n_rounds).flat_map(|round| (0..TENSORS.len()).map(move |tensor| (tensor, round)))
}

/// All rounds of all tensors are submitted before any is waited for; every other one in place.
fn sum_all(group: &Group, worker: usize, n_rounds: u64, wanted: &[Vec<u8>]) {
    let rounds = || rounds(n_rounds);
    let mut buffers: Vec<(Vec<u8>, Vec<u8>)> =
        rounds().map(|(tensor, round)| (contribution(tensor, round, worker), Vec::new())).collect();
    let mut handles = Vec::new();
    for ((tensor, round), (send, recv)) in rounds().zip(&mut buffers) {
        let in_place = (tensor as u64 + round).is_multiple_of(2);
        recv.resize(if in_place { 0 } else { send.len() }, 0xa5);
        let from = Region::of_slice_mut(send);
        let to = if in_place { from } else { Region::of_slice_mut(recv) };
        handles.push(group.push_pull(tensor, from, to, reduction(tensor)).unwrap());
    }
    for ((((tensor, round), handle), (send, recv)), wanted) in rounds().zip(handles).zip(&buffers).zip(wanted)
    {
        handle.wait().unwrap();
        assert_eq!(handle.poll(), Some(Ok(())));
        let got = if recv.is_empty() { send } else { recv };
        assert!(got == wanted, "round {round} of tensor {tensor} on {worker}");
    }
}

/// What worker 0 sends to each server to tell what is declared.
fn list_bytes(partition_bytes: u64) -> u64 {
    let tensors = TENSORS.map(|(name, elements, data_type)| {
        let name = name.to_owned();
        Declaration { name, elements, data_type }
    });
    agree::list(&Declarations::of(partition_bytes, tensors).unwrap()).unwrap().len() as u64
}

/// Payloads that left and came, on all connections.
fn payload_bytes(group: &Group) -> (u64, u64) {
    let traffic = lock(&group.comm().engine).links.traffic();
    let bytes = |is_send: bool| {
        traffic.iter().filter(|end| end.is_send == is_send).map(|end| end.payload_bytes).sum()
    };
    (bytes(true), bytes(false))
}

fn sums_and_bytes_are_right(shape: Shape) {
    const N_ROUNDS: u64 = 3;
    let Shape { n_workers, n_servers, .. } = shape;
    let machines = Machines::even(n_workers, n_servers, 1).unwrap();
    let wanted: Vec<Vec<u8>> =
        rounds(N_ROUNDS).map(|(tensor, round)| wanted(tensor, round, n_workers)).collect();
    shape.run(|mut group, role| {
        declare(&mut group, role);
        group.start().unwrap();
        if let Role::Worker(worker) = role {
            sum_all(&group, worker, N_ROUNDS, &wanted);
        }
        group.finish().unwrap();
        let prediction = predict(&machines, &group.placement().unwrap());
        let load = &prediction.loads()[shape.members().service_of_rank(group.comm().rank)];
        let (sent_lists, received_lists) = match role {
            Role::Worker(0) => (n_servers, 0),
            Role::Worker(_) => (0, 0),
            Role::Server(_) => (0, 1),
        };
        let list_bytes = list_bytes(shape.partition_bytes);
        let predicted = (
            N_ROUNDS * load.sent_bytes + sent_lists as u64 * list_bytes,
            N_ROUNDS * load.received_bytes + received_lists * list_bytes,
        );
        assert_eq!(payload_bytes(&group), predicted, "{role:?} of {shape:?}");
        group.leave().unwrap();
    });
}

#[test]
fn sums_are_right_and_bytes_as_predicted_over_tcp() {
    for (n_workers, n_servers) in [(2, 1), (1, 0), (1, 1), (3, 0), (3, 1), (4, 2)] {
        sums_and_bytes_are_right(Shape::new(Transport::Tcp, n_workers, n_servers, PARTITION_BYTES));
    }
}

#[test]
fn sums_are_right_and_bytes_as_predicted_over_memory_and_both() {
    for transport in [Transport::Shm, Transport::Mixed] {
        for (n_workers, n_servers) in [(2, 1), (3, 0), (3, 1), (4, 2)] {
            sums_and_bytes_are_right(Shape::new(transport, n_workers, n_servers, PARTITION_BYTES));
        }
    }
}

#[test]
fn the_smallest_credits_and_frames_hold_up_nobody() {
    let credits =
        worker::Settings { credit_bytes_per_server: 1, frame_bytes: 1000, ..worker::Settings::default() };
    for transport in [Transport::Tcp, Transport::Shm] {
        sums_and_bytes_are_right(Shape { pipeline: credits, ..Shape::new(transport, 3, 1, 4000) });
    }
}

#[test]
fn no_round_gets_the_sum_of_another_whenever_workers_pull() {
    const N_ROUNDS: u64 = 100;
    let shape = Shape::new(Transport::Mixed, 3, 1, 1000);
    let tensors = [0, 1];
    shape.run(|mut group, role| {
        declare(&mut group, role);
        group.start().unwrap();
        let Role::Worker(worker) = role else { return group.leave().unwrap() };
        for round in 0..N_ROUNDS {
            let delay = |salt: u64| {
                let micros = mix(round ^ mix(salt ^ worker as u64)) % 400;
                std::thread::sleep(Duration::from_micros(micros));
            };
            delay(1);
            let mut buffers = tensors.map(|tensor| contribution(tensor, round, worker));
            let regions: Vec<Region> = buffers.iter_mut().map(|bytes| Region::of_slice_mut(bytes)).collect();
            let push = |tensor: usize| group.push(tensor, regions[tensor], reduction(tensor)).unwrap();
            let pushed = tensors.map(push);
            delay(2);
            let handles: Vec<_> = pushed
                .into_iter()
                .zip(&regions)
                .map(|(pushed, recv)| group.pull(&pushed, *recv).unwrap())
                .collect();
            handles.iter().for_each(|handle| handle.wait().unwrap());
            for tensor in tensors {
                let is_right = buffers[tensor] == wanted(tensor, round, shape.n_workers);
                assert!(is_right, "round {round} of tensor {tensor} on {worker}");
            }
        }
        group.leave().unwrap();
    });
}

#[test]
fn what_does_not_fit_is_refused() {
    let shape = Shape::new(Transport::Tcp, 1, 0, 64);
    shape.run(|mut group, _| {
        let mut bytes = vec![0; 8];
        let region = Region::of_slice_mut(&mut bytes);
        declare_one(&mut group, "a", 2, DataType::F32).unwrap();
        assert!(declare_one(&mut group, "a", 2, DataType::F32).is_err());
        assert!(group.push(0, region, Reduction::Sum).is_err());
        group.start().unwrap();
        assert_eq!(declare_one(&mut group, "b", 2, DataType::F32), Ok(1));
        assert!(group.push(1, region, Reduction::Sum).is_err());
        let short = Region::of_slice_mut(&mut [0; 4]);
        assert!(group.push(0, short, Reduction::Sum).is_err());
        assert!(group.push_pull(0, region, region, Reduction::Sum).unwrap().wait().is_ok());
        group.leave().unwrap();
    });
}
