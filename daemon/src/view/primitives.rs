//! Counters by primitive, summed and per rank.

use std::collections::{BTreeMap, BTreeSet};

use ringscope_wire::Primitive;

use super::bandwidth::{bus_factor, rate};
use crate::api::{PrimitiveTotals, Primitives, RankPrimitives};
use crate::clock::Timestamp;
use crate::diagnose::Diagnosis;
use crate::model::{Model, Neighbours, RankRef, Totals, Traffic, traffic};

/// The counters of a communicator.
#[must_use]
pub fn primitives(model: &Model, _diagnosis: &Diagnosis, now: Timestamp, id: &str) -> Option<Primitives> {
    let known = model.communicator(id.parse().ok()?)?;
    let neighbours = Neighbours::of(known, model);
    let (is_one_host, mut all_measured) = (known.is_one_host(model), true);
    let mut sums: BTreeMap<Primitive, Sum> = BTreeMap::new();
    let mut ranks = Vec::new();
    for rank in known.ranks(model) {
        let of_rank = sum(&rank, &neighbours, now);
        for (primitive, counted) in &of_rank {
            sums.entry(*primitive).or_default().add(counted);
        }
        let is_measured = rank.is_measured(is_one_host);
        all_measured &= is_measured;
        ranks.push(RankPrimitives {
            rank: rank.rank,
            host: rank.identity.host.to_string(),
            primitives: totals(of_rank, known.n_ranks(), 1, is_measured),
        });
    }
    let n_seen = known.n_ranks_seen();
    Some(Primitives {
        id: id.to_owned(),
        primitives: totals(sums, known.n_ranks(), n_seen, all_measured),
        ranks,
    })
}

#[derive(Clone, Copy, Default)]
struct Sum {
    totals: Totals,
    traffic: Traffic,
    completed_bytes_per_s: f64,
}

impl Sum {
    fn add(&mut self, other: &Self) {
        self.totals.add(&other.totals);
        self.traffic.add(other.traffic);
        self.completed_bytes_per_s += other.completed_bytes_per_s;
    }
}

fn sum(rank: &RankRef<'_>, neighbours: &Neighbours<'_>, now: Timestamp) -> BTreeMap<Primitive, Sum> {
    let counters = rank.local.counters();
    let traffic = traffic(rank, neighbours);
    let primitives: BTreeSet<Primitive> = counters.keys().chain(traffic.keys()).copied().collect();
    let of = |primitive: &Primitive| Sum {
        totals: counters.get(primitive).map(|counted| *counted.totals()).unwrap_or_default(),
        traffic: traffic.get(primitive).copied().unwrap_or_default(),
        completed_bytes_per_s: counters.get(primitive).map_or(0.0, |counted| rate(rank, counted, now)),
    };
    primitives.into_iter().map(|primitive| (primitive, of(&primitive))).collect()
}

/// The sums over `n_summed` ranks of a communicator of `n_ranks`. What was not counted over the network has no sum.
fn totals(
    sums: BTreeMap<Primitive, Sum>,
    n_ranks: u32,
    n_summed: u32,
    is_measured: bool,
) -> Vec<PrimitiveTotals> {
    let is_known = |sum: &Sum| is_measured && !sum.traffic.is_partial;
    let of = |(primitive, sum): (Primitive, Sum)| PrimitiveTotals {
        primitive: primitive.label().to_owned(),
        issued_calls: sum.totals.issued_calls,
        issued_bytes: sum.totals.issued_bytes,
        completed_calls: sum.totals.completed_calls,
        completed_bytes: sum.totals.completed_bytes,
        failed_calls: sum.totals.failed_calls,
        captured_calls: sum.totals.captured_calls,
        captured_bytes: sum.totals.captured_bytes,
        replayed_calls: sum.totals.replayed_calls,
        replayed_bytes: sum.totals.replayed_bytes,
        intra_bytes: is_known(&sum).then_some(sum.traffic.intra_bytes),
        inter_bytes: is_known(&sum).then_some(sum.traffic.inter_bytes),
        backlog_bytes: sum.totals.issued_bytes.saturating_sub(sum.totals.completed_bytes),
        completed_bytes_per_s: sum.completed_bytes_per_s,
        bus_bytes_per_s: sum.completed_bytes_per_s * bus_factor(primitive, n_ranks)
            / f64::from(n_summed.max(1)),
    };
    sums.into_iter().map(of).collect()
}
