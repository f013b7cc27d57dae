//! `ringscope_health`.

use prometheus::proto::MetricFamily;
use ringscope_api::HealthLevel as Level;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let all = [Level::Empty, Level::Idle, Level::Ok, Level::Unknown, Level::Warning, Level::Critical];
    let is_it = |level: Level| f64::from(u8::from(snapshot.health.level == level));
    let rows = all.map(|level| (vec![("level", level.label())], is_it(level)));
    let help =
        "1 for how everything stands: empty, idle, ok, unknown, warning or critical; 0 for the others.";
    family::gauge("ringscope_health", help, rows)
}
