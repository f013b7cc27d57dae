//! What a scrape shows of NICs.

use ringscope_model::{ErrorCount, Model};

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
    pub(super) errors: Vec<ErrorCount>,
}

impl NicPort {
    /// Its series.
    pub(super) fn n_series(&self) -> usize {
        let told = [self.rate_bits_per_s, self.sent_bytes, self.received_bytes, self.link_downs];
        1 + told.iter().flatten().count() + self.errors.len()
    }
}

/// All of all hosts.
pub(super) fn nics(model: &Model) -> Vec<NicPort> {
    let ports = model.hardware().flat_map(|(host, hardware)| {
        hardware.nics.iter().map(|(port, nic)| {
            let (sent_bytes, received_bytes) = nic.bytes();
            NicPort {
                host: host.to_string(),
                nic: port.nic.to_string(),
                port: port.number.to_string(),
                up: nic.up,
                rate_bits_per_s: nic.rate_bits_per_s,
                sent_bytes,
                received_bytes,
                link_downs: nic.link_downs(),
                errors: nic.errors().collect(),
            }
        })
    });
    ports.collect()
}
