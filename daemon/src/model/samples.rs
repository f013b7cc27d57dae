//! What the store keeps over time.

use std::collections::{BTreeMap, BTreeSet};

use ringscope_wire::Primitive;

use super::{Communicator, CommunicatorId, Model, Name, traffic};

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
        let mut samples: BTreeMap<(&Name, Primitive), Sample> = BTreeMap::new();
        for rank in communicator.ranks(self) {
            let host = &rank.identity.host;
            let traffic = traffic(&rank, &hosts);
            for primitive in rank.local.counters().keys().chain(traffic.keys()).collect::<BTreeSet<_>>() {
                let sample = samples
                    .entry((host, *primitive))
                    .or_insert_with(|| Sample::new(communicator.id(), host, *primitive));
                let totals = rank.local.counters().get(primitive).map(|counted| *counted.totals());
                let totals = totals.unwrap_or_default();
                let traffic = traffic.get(primitive).copied().unwrap_or_default();
                for (sum, more) in [
                    (&mut sample.issued_calls, totals.issued_calls),
                    (&mut sample.issued_bytes, totals.issued_bytes),
                    (&mut sample.completed_calls, totals.completed_calls),
                    (&mut sample.completed_bytes, totals.completed_bytes),
                    (&mut sample.intra_bytes, traffic.intra_bytes),
                    (&mut sample.inter_bytes, traffic.inter_bytes),
                ] {
                    *sum = sum.saturating_add(more);
                }
            }
        }
        samples.into_values().collect()
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
            intra_bytes: 0,
            inter_bytes: 0,
        }
    }
}
