//! `ringscope_communicator_ranks`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = snapshot.communicators.iter().map(|summary| {
        (vec![("comm", summary.id.as_str()), ("job", summary.job.as_str())], f64::from(summary.n_ranks))
    });
    family::gauge("ringscope_communicator_ranks", "Ranks of each communicator in use.", rows)
}
