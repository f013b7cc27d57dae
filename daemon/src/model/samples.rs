//! What the store keeps over time.

use std::collections::{BTreeMap, BTreeSet};

use ringscope_wire::Primitive;

use super::{Communicator, CommunicatorId, Model, Name, Totals, Traffic, traffic};

/// Cumulative counters of one primitive of a communicator on one host, summed over the host's ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the counters are those of api::PrimitiveTotals")]
pub struct Sample {
    /// Communicator.
    pub comm: CommunicatorId,
    /// Host.
    pub host: String,
    /// Primitive.
    pub primitive: Primitive,
    pub issued_calls: u64,
    pub issued_bytes: u64,
    pub completed_calls: u64,
    pub completed_bytes: u64,
    pub captured_calls: u64,
    pub replayed_calls: u64,
    pub intra_bytes: u64,
    pub inter_bytes: u64,
}

impl Model {
    /// The counters of these communicators per (communicator, host, primitive), in that order.
    #[must_use]
    pub fn samples(&self, communicators: &BTreeSet<CommunicatorId>) -> Vec<Sample> {
        communicators
            .iter()
            .filter_map(|id| self.communicator(*id))
            .flat_map(|communicator| self.samples_of(communicator))
            .collect()
    }

    fn samples_of(&self, communicator: &Communicator) -> Vec<Sample> {
        let hosts = communicator.hosts_by_rank(self);
        let mut by_host: BTreeMap<&Name, BTreeMap<Primitive, Sample>> = BTreeMap::new();
        for rank in communicator.ranks(self) {
            let host = &rank.identity.host;
            let samples = by_host.entry(host).or_default();
            let new = |primitive| move || Sample::new(communicator.id(), host, primitive);
            for (primitive, counted) in rank.local.counters() {
                samples.entry(*primitive).or_insert_with(new(*primitive)).add_totals(counted.totals());
            }
            for (primitive, traffic) in traffic(&rank, &hosts) {
                samples.entry(primitive).or_insert_with(new(primitive)).add_traffic(traffic);
            }
        }
        by_host.into_values().flat_map(BTreeMap::into_values).collect()
    }
}

impl Sample {
    fn new(comm: CommunicatorId, host: &str, primitive: Primitive) -> Self {
        Self {
            comm,
            host: host.to_owned(),
            primitive,
            issued_calls: 0,
            issued_bytes: 0,
            completed_calls: 0,
            completed_bytes: 0,
            captured_calls: 0,
            replayed_calls: 0,
            intra_bytes: 0,
            inter_bytes: 0,
        }
    }

    fn add_totals(&mut self, totals: &Totals) {
        self.issued_calls = self.issued_calls.saturating_add(totals.issued_calls);
        self.issued_bytes = self.issued_bytes.saturating_add(totals.issued_bytes);
        self.completed_calls = self.completed_calls.saturating_add(totals.completed_calls);
        self.completed_bytes = self.completed_bytes.saturating_add(totals.completed_bytes);
        self.captured_calls = self.captured_calls.saturating_add(totals.captured_calls);
        self.replayed_calls = self.replayed_calls.saturating_add(totals.replayed_calls);
    }

    fn add_traffic(&mut self, traffic: Traffic) {
        self.intra_bytes = self.intra_bytes.saturating_add(traffic.intra_bytes);
        self.inter_bytes = self.inter_bytes.saturating_add(traffic.inter_bytes);
    }
}
