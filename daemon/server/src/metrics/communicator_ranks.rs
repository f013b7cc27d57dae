//! `ringscope_communicator_ranks`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = snapshot
        .communicators
        .iter()
        .map(|one| (vec![("comm", one.id.as_str()), ("job", &*one.job)], f64::from(one.n_ranks)));
    family::gauge("ringscope_communicator_ranks", "Ranks of each communicator in use.", rows)
}
