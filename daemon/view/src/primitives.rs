//! Counters by primitive, summed and per rank.

use std::collections::{BTreeMap, BTreeSet};

use ringscope_api::clock::Timestamp;
use ringscope_api::{PrimitiveTotals, Primitives, RankPrimitives};
use ringscope_judge::Diagnosis;
use ringscope_judge::version::Version;
use ringscope_model::{Model, Neighbours, RankRef, Totals, Traffic, bus_factor, traffic};
use ringscope_wire::Primitive;

use super::bandwidth::rate;

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
    let primitives: BTreeSet<Primitive> =
        counters.iter().map(|(known, _)| known).chain(traffic.keys().copied()).collect();
    let of = |primitive: &Primitive| Sum {
        totals: counters.get(*primitive).map(|counted| *counted.totals()).unwrap_or_default(),
        traffic: traffic.get(primitive).copied().unwrap_or_default(),
        completed_bytes_per_s: counters.get(*primitive).map_or(0.0, |counted| rate(rank, counted, now)),
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
    let of = |(primitive, sum): (Primitive, Sum)| {
        let reason = why_unknown(primitive, sum.traffic, is_measured);
        let is_known = reason.is_none();
        PrimitiveTotals {
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
            intra_bytes: is_known.then_some(sum.traffic.intra_bytes),
            inter_bytes: is_known.then_some(sum.traffic.inter_bytes),
            reason,
            backlog_bytes: sum.totals.issued_bytes.saturating_sub(sum.totals.completed_bytes),
            completed_bytes_per_s: sum.completed_bytes_per_s,
            bus_bytes_per_s: sum.completed_bytes_per_s * bus_factor(primitive, n_ranks)
                / f64::from(n_summed.max(1)),
        }
    };
    sums.into_iter().map(of).collect()
}

/// Why the bytes of a primitive are not known. What the library never tells is counted at no level, so that is said first.
fn why_unknown(primitive: Primitive, traffic: Traffic, is_measured: bool) -> Option<String> {
    let untold_by = traffic.untold_by.and_then(|code| Version::of("", code));
    untold_by
        .map(|version| format!("NCCL {version} does not tell what a {primitive} sends between hosts"))
        .or_else(|| (!is_measured).then(|| NOT_COUNTED.to_owned()))
}

/// A collector of a communicator between hosts is below level `steps`.
const NOT_COUNTED: &str = "counted at level `steps` alone, which `ringscope level` sets";
