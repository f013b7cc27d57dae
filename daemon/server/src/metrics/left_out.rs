//! `ringscope_metrics_left_out`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = snapshot.left_out.iter().map(|(kind, n)| (vec![("kind", *kind)], family::number(*n as u64)));
    family::gauge("ringscope_metrics_left_out", HELP, rows)
}

const HELP: &str = "What has no series here, because the limit of series leaves no room: the healthy and small first. Of \
                    communicators_by_host and summation_groups_by_host only the sums over all hosts are here, of \
                    hosts_nics all but the NICs.";
