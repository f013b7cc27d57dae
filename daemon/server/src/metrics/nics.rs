//! What a scrape shows of NICs.

use std::collections::{BTreeMap, HashMap};

use ringscope_api::ConnectionState;
use ringscope_model::{ErrorCount, FlowCount, Model, Name, Nic, Port};
use ringscope_view::connection_state;

/// One port of a NIC.
pub(super) struct NicPort {
    pub(super) host: String,
    pub(super) nic: String,
    pub(super) port: String,
    pub(super) up: bool,
    pub(super) rate_bits_per_s: Option<u64>,
    pub(super) sent_bytes: Option<u64>,
    pub(super) received_bytes: Option<u64>,
    pub(super) link_downs: Option<u64>,
    pub(super) errors: Vec<Count>,
    pub(super) retransmits: Vec<Count>,
    pub(super) failures: Vec<Count>,
    pub(super) congestion: Vec<Count>,
    /// RDMA connections by how they stand.
    pub(super) connections: BTreeMap<ConnectionState, u64>,
}

/// A counter of a port, by the kernel's name.
pub(super) type Count = (Name, u64);

impl NicPort {
    /// Its series.
    pub(super) fn n_series(&self) -> usize {
        let told = [self.rate_bits_per_s, self.sent_bytes, self.received_bytes, self.link_downs];
        let counters = [&self.errors, &self.retransmits, &self.failures, &self.congestion];
        let n_counters: usize = counters.map(Vec::len).iter().sum();
        1 + told.iter().flatten().count() + n_counters + self.connections.len()
    }
}

/// All of all hosts.
pub(super) fn nics(model: &Model) -> Vec<NicPort> {
    let connections = connections(model);
    let ports = model.hardware().flat_map(|(host, hardware)| {
        hardware.nics.iter().map(|(port, nic)| shown(host, port, nic, &connections))
    });
    ports.collect()
}

fn shown(host: &Name, port: &Port, nic: &Nic, connections: &Connections<'_>) -> NicPort {
    let (sent_bytes, received_bytes) = nic.bytes();
    let errors = |count: ErrorCount| (count.name, count.value);
    let flows = |count: FlowCount| (count.name, count.value);
    NicPort {
        host: host.to_string(),
        nic: port.nic.to_string(),
        port: port.number.to_string(),
        up: nic.up,
        rate_bits_per_s: nic.rate_bits_per_s,
        sent_bytes,
        received_bytes,
        link_downs: nic.link_downs(),
        errors: nic.errors().map(errors).collect(),
        retransmits: nic.retransmits().map(errors).collect(),
        failures: nic.failures().map(errors).collect(),
        congestion: nic.congestion().map(flows).collect(),
        connections: connections.get(&(&**host, &*port.nic, port.number)).cloned().unwrap_or_default(),
    }
}

/// How the connections stand that go over each port: host, device and number.
type Connections<'m> = HashMap<(&'m str, &'m str, u32), BTreeMap<ConnectionState, u64>>;

/// Closed ones stay in a process's table until their places are needed: how many is of no meaning.
fn connections(model: &Model) -> Connections<'_> {
    let mut counted = Connections::new();
    for process in model.hosts().flat_map(|(_, processes)| processes).filter(|one| one.is_living()) {
        let Some(identity) = process.identity() else { continue };
        for one in process.connections() {
            let state = connection_state(one);
            if state != ConnectionState::Closed {
                let port = (&*identity.host, &*one.local.device, one.local.port);
                *counted.entry(port).or_default().entry(state).or_default() += 1;
            }
        }
    }
    counted
}
