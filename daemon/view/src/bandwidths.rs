//! What operations of each size reach on a communicator, beside the best of those like it.

use std::collections::BTreeMap;

use ringscope_api::{BandwidthCurve, BandwidthOfSize, Bandwidths, BestBandwidth};
use ringscope_model::{
    Communicator, CommunicatorId, Curve, Model, OfSize, RankRef, Timed, alg_factor, bus_factor,
};
use ringscope_wire::Primitive;
use ringscope_wire::batch::Level;

/// `GET communicators/{id}/bandwidth`. `None`: there is no such communicator.
#[must_use]
pub fn bandwidths(model: &Model, id: &str) -> Option<Bandwidths> {
    let known = model.communicator(id.parse().ok()?)?;
    let mut curves: BTreeMap<Primitive, BandwidthCurve> = BTreeMap::new();
    let empty = |primitive: Primitive| BandwidthCurve {
        primitive: primitive.label().to_owned(),
        sizes: Vec::new(),
        best: Vec::new(),
    };
    let own = model.curve(known.id());
    for (primitive, log2, size) in own.into_iter().flat_map(Curve::sizes) {
        let curve = curves.entry(primitive).or_insert_with(|| empty(primitive));
        curve.sizes.extend(of_size((primitive, log2), size, known.n_ranks()));
    }
    let alike: Vec<(CommunicatorId, &Curve)> =
        model.curves().filter(|(_, other)| own.is_some_and(|own| own.is_like(other))).collect();
    for ((primitive, log2), (comm, timed)) in best(&alike) {
        // Of what the communicator has not called nothing is compared.
        if let Some(curve) = curves.get_mut(&primitive) {
            curve.best.push(BestBandwidth {
                from_bytes: 1 << log2,
                bytes: timed.bytes,
                seconds: timed.seconds(),
                bus_bytes_per_s: timed.bytes_per_s() * bus_factor(primitive, known.n_ranks()),
                comm: comm.to_string(),
            });
        }
    }
    let n_like = alike.iter().filter(|(comm, _)| *comm != known.id()).count();
    let curves: Vec<BandwidthCurve> = curves.into_values().collect();
    Some(Bandwidths {
        id: known.id().to_string(),
        n_ranks: known.n_ranks(),
        n_hosts: own.map(Curve::n_hosts),
        n_like,
        lacks: lacks(model, known, &curves, n_like),
        curves,
    })
}

/// The fastest of each size, and whose.
fn best(alike: &[(CommunicatorId, &Curve)]) -> BTreeMap<(Primitive, u32), (CommunicatorId, Timed)> {
    let mut best: BTreeMap<(Primitive, u32), (CommunicatorId, Timed)> = BTreeMap::new();
    for (comm, curve) in alike {
        for (primitive, log2, size) in curve.sizes() {
            let of_all = || size.mean().filter(|_| size.n() >= FEWEST);
            let Some(timed) = size.best().or_else(of_all) else { continue };
            let rank = |comm: CommunicatorId, timed: Timed| (timed.bytes_per_s(), std::cmp::Reverse(comm));
            let known = best.entry((primitive, log2)).or_insert((*comm, timed));
            if rank(*comm, timed) > rank(known.0, known.1) {
                *known = (*comm, timed);
            }
        }
    }
    best
}

fn of_size((primitive, log2): (Primitive, u32), size: &OfSize, n_ranks: u32) -> Option<BandwidthOfSize> {
    let median = size.median()?;
    let bytes_per_s = median.bytes_per_s();
    let least = Timed { ns: size.least_ns(), ..median };
    Some(BandwidthOfSize {
        from_bytes: 1 << log2,
        bytes: median.bytes,
        n_operations: size.n(),
        n_by_clocks: size.n_aligned(),
        seconds: median.seconds(),
        least_seconds: least.seconds(),
        algorithm_bytes_per_s: bytes_per_s * alg_factor(primitive, n_ranks),
        bus_bytes_per_s: bytes_per_s * bus_factor(primitive, n_ranks),
    })
}

fn lacks(model: &Model, known: &Communicator, curves: &[BandwidthCurve], n_like: usize) -> Vec<String> {
    let mut lacks = Vec::new();
    let mut say = |is_so: bool, words: &str| lacks.extend(is_so.then(|| words.to_owned()));
    let sizes = || curves.iter().flat_map(|curve| &curve.sizes);
    let ranks: Vec<RankRef<'_>> = known.ranks(model).collect();
    say(known.n_ranks() == 1, "One rank alone moves no bytes: there is nothing to time.");
    let nothing = sizes().next().is_none() && known.n_ranks() > 1;
    say(
        nothing && known.n_ranks_seen() < known.n_ranks(),
        "Not all of its ranks are seen, and an operation is timed only where all have told of it.",
    );
    say(
        nothing && known.n_ranks_seen() == known.n_ranks(),
        "No operation was timed since this daemon started: one is once all ranks have told when they completed it.",
    );
    say(
        ranks.iter().any(|rank| !rank.local.pairs().is_empty()),
        "Sends and receives are not in it: which send belongs to which receive is not told of single ones.",
    );
    let tells_all =
        |rank: &RankRef<'_>| matches!(rank.process.collector().level, Level::Channels | Level::Steps);
    say(
        !nothing && !ranks.iter().all(tells_all),
        "Of each communicator one or two operations a second are timed, so sizes that are seldom used may be missing.",
    );
    say(
        sizes().any(|size| size.n_by_clocks < size.n_operations),
        "Where the clocks of hosts are not known well enough, the time is the least of any rank: who comes last waits for nobody.",
    );
    let newest =
        || model.curve(known.id()).into_iter().flat_map(Curve::sizes).flat_map(|(.., size)| size.newest());
    say(
        newest().any(|timed| !timed.is_started),
        "Times begin with the program's call where nothing tells when the device began: an operation that is queued behind others looks \
         slower than it is.",
    );
    say(
        !nothing && n_like == 0,
        "No other communicator of as many ranks on as many hosts was timed since this daemon started: the best is its own.",
    );
    lacks
}

/// Operations that make a best, where the clocks have timed too few: the mean of them.
const FEWEST: u64 = 8;

#[cfg(test)]
mod tests;
