//! A job whose hosts tell of RDMA connections and ports, and what is found.

mod failures;
mod mismatch;
mod pauses;
mod queue_pairs;
mod retransmits;

use ringscope_api::Finding;
use ringscope_model::Model;
use ringscope_samples::cluster::{Cluster, at, batch, connection, ended, hardware, nic};
use ringscope_wire::batch::{
    Connection, ConnectionEnd, ConnectionState, FailedQueuePair, GidKind, HostHardware, Nic, NicCounter,
    ProcessState, QueuePairState,
};

use crate::Diagnosis;

/// A daemon that is told of a job's connections and of its hosts' hardware, every five seconds.
struct World {
    cluster: Cluster,
    model: Model,
    diagnosis: Diagnosis,
    seq_number: u64,
    s: u64,
}

impl World {
    /// A rank on each of so many hosts: host-0 and on.
    fn new(n: usize) -> Self {
        let names: Vec<String> = (0..n).map(|i| format!("host-{i}")).collect();
        Self::named(&names.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn named(names: &[&str]) -> Self {
        let hosts: Vec<(&str, u32, u32)> = names.iter().map(|name| (*name, 1, 2)).collect();
        let cluster = Cluster::new(&hosts, 2);
        let (model, diagnosis) = (Model::new(), Diagnosis::new());
        Self { cluster, model, diagnosis, seq_number: 0, s: 0 }
    }

    fn apply(&mut self, processes: Vec<ringscope_wire::batch::Process>, hosts: Vec<HostHardware>) {
        self.s += 5;
        self.seq_number += 1;
        let mut hosts: Vec<_> =
            hosts.into_iter().map(|host| HostHardware { read_at_ns: at(self.s).0, ..host }).collect();
        let pairs =
            hosts.iter_mut().flat_map(|host| &mut host.nics).flat_map(|nic| &mut nic.failed_queue_pairs);
        pairs.filter(|pair| pair.asked_at_ns == 0).for_each(|pair| pair.asked_at_ns = at(self.s).0);
        let told =
            ringscope_wire::batch::Batch { hardware: hosts, ..batch(self.seq_number, self.s, processes) };
        self.model.apply(&told, at(self.s));
        self.diagnosis.update(&self.model, None, at(self.s));
    }

    /// Each rank's connections, told whole.
    fn connect(&mut self, ranks: &[Vec<Connection>]) {
        let tell = |(rank, connections): (u32, &Vec<Connection>)| {
            let connections = connections.clone();
            ringscope_wire::batch::Process { connections, ..self.cluster.process(rank) }
        };
        let told = (0..).zip(ranks).map(tell).collect();
        self.apply(told, Vec::new());
    }

    /// The hardware of each host: one port.
    fn read(&mut self, nics: Vec<Nic>) {
        let hosts = nics.into_iter().enumerate();
        let hosts = hosts.map(|(i, nic)| hardware(&format!("host-{i}"), 0, vec![nic])).collect();
        self.apply(Vec::new(), hosts);
    }

    fn end(&mut self, rank: u32, state: ProcessState) {
        let told = ended(self.cluster.process(rank), state, self.s);
        self.apply(vec![told], Vec::new());
    }

    fn wait(&mut self, s: u64) {
        for _ in 0..s / 5 {
            self.apply(Vec::new(), Vec::new());
        }
    }

    fn firing(&self) -> Vec<&Finding> {
        let mut found: Vec<&Finding> =
            self.diagnosis.firing().filter(|finding| finding.finding.is_about_rdma()).collect();
        found.sort_by(|one, other| (&one.host, &one.nic).cmp(&(&other.host, &other.nic)));
        found
    }

    /// What fires, as lines, sorted.
    fn fires(&self) -> Vec<String> {
        let line = |finding: &&Finding| {
            let (kind, severity) = (finding.finding.label(), finding.severity.label());
            format!("{kind} {severity} [{}] {}", finding.cause, finding.message)
        };
        let mut lines: Vec<String> = self.firing().iter().map(line).collect();
        lines.sort();
        lines
    }
}

/// A connection from this device to rank `rank`, on the host of its number.
fn to(rank: u32) -> Connection {
    let mut one = connection("mlx5_0", &format!("host-{rank}"), "mlx5_0");
    let remote = one.remote.as_mut().unwrap();
    (remote.pid, remote.global_rank) = (1_000 + rank, Some(rank));
    one
}

fn received(one: Connection) -> Connection {
    Connection { is_send: false, ..one }
}

fn at_place(place: u32, one: Connection) -> Connection {
    Connection { place, ..one }
}

fn failed(one: Connection) -> Connection {
    let error = "transport retry counter exceeded (status 12)".to_owned();
    Connection { state: ConnectionState::Failed.into(), error, ..one }
}

fn counter(name: &str, value: u64) -> Vec<NicCounter> {
    vec![NicCounter { name: name.to_owned(), value }]
}

fn retransmits(name: &str, value: u64) -> Nic {
    Nic { retransmits: counter(name, value), ..nic("mlx5_0") }
}

/// Two readings: the counter of each host rises so far, while each sends so many bytes.
fn lose(world: &mut World, counter: &str, risen: &[u64], sent_bytes: u64) {
    for reading in 0..2 {
        let port = |risen: &u64| Nic {
            sent_bytes: Some(1 << 40 | (sent_bytes * reading)),
            ..retransmits(counter, 1_000_000 + risen * reading)
        };
        world.read(risen.iter().map(port).collect());
    }
}

const GIGABYTE: u64 = 1_000_000_000;
