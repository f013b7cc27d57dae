//! `ringscope_judgement_lag_seconds`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let help = "How long the communicator that waits longest has changed and not been judged: large ones wait their turn.";
    let lag_s = snapshot.judgement_lag.as_secs_f64();
    family::gauge("ringscope_judgement_lag_seconds", help, [(Vec::new(), lag_s)])
}
