//! `ringscope_communicator_info`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let numbers: Vec<(String, String)> = snapshot
        .communicators
        .iter()
        .map(|summary| (summary.n_ranks.to_string(), summary.n_nodes.to_string()))
        .collect();
    let rows = snapshot.communicators.iter().zip(&numbers).map(|(summary, (n_ranks, n_nodes))| {
        let labels = vec![
            ("comm", summary.id.as_str()),
            ("comm_hash", summary.comm_hash.as_str()),
            ("job", summary.job.as_str()),
            ("n_nodes", n_nodes.as_str()),
            ("n_ranks", n_ranks.as_str()),
            ("name", summary.name.as_deref().unwrap_or_default()),
        ];
        (labels, 1.0)
    });
    let help = "1 for each communicator in use, with what is known of it.";
    family::gauge("ringscope_communicator_info", help, rows)
}
