//! What the store keeps over time.

use std::collections::{BTreeMap, BTreeSet};

use ringscope_wire::Primitive;

use super::{Communicator, CommunicatorId, Model, Name, Neighbours, Totals, Traffic, traffic};

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
    /// `None`: a rank of the host sends bytes over the network that nobody counts.
    pub intra_bytes: Option<u64>,
    /// The same.
    pub inter_bytes: Option<u64>,
    /// Whether something tells of every rank of the host when its operations complete.
    pub knows_completion: bool,
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
        let neighbours = Neighbours::of(communicator, self);
        let is_one_host = communicator.is_one_host(self);
        let mut by_host: BTreeMap<&Name, BTreeMap<Primitive, Sample>> = BTreeMap::new();
        let (mut unmeasured, mut unaware) = (BTreeSet::<&Name>::new(), BTreeSet::<&Name>::new());
        for rank in communicator.ranks(self) {
            let host = &rank.identity.host;
            let samples = by_host.entry(host).or_default();
            let new = |primitive| move || Sample::new(communicator.id(), host, primitive);
            for (primitive, counted) in rank.local.counters().iter() {
                samples.entry(primitive).or_insert_with(new(primitive)).add_totals(counted.totals());
            }
            for (primitive, traffic) in traffic(&rank, &neighbours) {
                samples.entry(primitive).or_insert_with(new(primitive)).add_traffic(traffic);
            }
            if !rank.is_measured(is_one_host) {
                unmeasured.insert(host);
            }
            if !rank.knows_completion() {
                unaware.insert(host);
            }
        }
        for host in unaware {
            for sample in by_host.get_mut(host).into_iter().flat_map(BTreeMap::values_mut) {
                sample.knows_completion = false;
            }
        }
        for host in unmeasured {
            for sample in by_host.get_mut(host).into_iter().flat_map(BTreeMap::values_mut) {
                (sample.intra_bytes, sample.inter_bytes) = (None, None);
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
            intra_bytes: Some(0),
            inter_bytes: Some(0),
            knows_completion: true,
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
        let add = |sum: Option<u64>, bytes: u64| {
            sum.filter(|_| traffic.untold_by.is_none()).map(|sum| sum.saturating_add(bytes))
        };
        self.intra_bytes = add(self.intra_bytes, traffic.intra_bytes);
        self.inter_bytes = add(self.inter_bytes, traffic.inter_bytes);
    }
}
