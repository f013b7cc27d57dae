//! `ringscope_wire_bytes_total`.

use std::collections::BTreeMap;

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let mut sums: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    let samples =
        snapshot.communicators.iter().flat_map(|one| one.samples.iter().map(move |sample| (one, sample)));
    for (one, sample) in samples {
        // What nobody counts is no zero: then there is no row.
        let (Some(of_intra), Some(of_inter)) = (sample.intra_bytes, sample.inter_bytes) else { continue };
        let (intra, inter) = sums.entry((sample.comm, sample.host.as_str(), &*one.job)).or_default();
        *intra = intra.saturating_add(of_intra);
        *inter = inter.saturating_add(of_inter);
    }
    let rows = sums.iter().flat_map(|((comm, host, job), (intra, inter))| {
        [("inter", *inter), ("intra", *intra)].map(|(scope, bytes)| {
            let labels = vec![("comm", comm.as_str()), ("host", *host), ("job", *job), ("scope", scope)];
            (labels, family::number(bytes))
        })
    });
    let help = "Bytes sent to ranks on the same host (intra) and on other hosts (inter).";
    family::counter("ringscope_wire_bytes_total", help, rows)
}
