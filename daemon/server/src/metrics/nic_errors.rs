//! `ringscope_nic_errors_total`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = snapshot.nics.iter().flat_map(|nic| {
        nic.errors.iter().map(|error| {
            let labels = vec![
                ("counter", &*error.name),
                ("host", nic.host.as_str()),
                ("nic", nic.nic.as_str()),
                ("port", nic.port.as_str()),
            ];
            (labels, family::number(error.value))
        })
    });
    let help = "Errors that the port of a NIC counted, by counter; only those that are not 0.";
    family::counter("ringscope_nic_errors_total", help, rows)
}
