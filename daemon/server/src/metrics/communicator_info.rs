//! `ringscope_communicator_info`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let numbers: Vec<[String; 3]> = snapshot
        .communicators
        .iter()
        .map(|one| [one.n_ranks.to_string(), one.n_nodes.to_string(), format!("{:#x}", one.comm_hash)])
        .collect();
    let rows = snapshot.communicators.iter().zip(&numbers).map(|(one, [n_ranks, n_nodes, comm_hash])| {
        let labels = vec![
            ("comm", one.id.as_str()),
            ("comm_hash", comm_hash.as_str()),
            ("job", &*one.job),
            ("n_nodes", n_nodes.as_str()),
            ("n_ranks", n_ranks.as_str()),
            ("name", &*one.name),
        ];
        (labels, 1.0)
    });
    let help = "1 for each communicator in use, with what is known of it.";
    family::gauge("ringscope_communicator_info", help, rows)
}
