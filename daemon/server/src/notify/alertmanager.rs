//! The task that tells one Alertmanager: every incident that is open or was lately, when it changes and every
//! minute again. What came too late for one attempt is in the next.

use std::time::Duration;

use ringscope_api::clock::{self, Timestamp};
use ringscope_api::{FindingState, Incident};
use tokio::time::Instant;

use super::Teller;
use super::alert::{ALERTS_MAX, Alert, Known, alerts};

/// Tells until the daemon stops.
pub(super) async fn run(mut teller: Teller) {
    let (mut due, mut soonest) = (Instant::now(), Instant::now());
    let mut changed = false;
    let mut known = Known::default();
    loop {
        let Some(news) = teller.wait().await else { return };
        changed |= news;
        let now = Instant::now();
        if now < soonest || !changed && now < due {
            continue;
        }
        changed = false;
        let stop = teller.stop.clone();
        let Some(unsettled) = stop.run_until_cancelled(tell(&teller, &mut known)).await else { return };
        // Incidents may change all the time; what has not held for long enough yet is looked at again soon.
        soonest = Instant::now() + teller.pace.fire_after;
        due = Instant::now() + if unsettled { teller.pace.fire_after } else { teller.pace.repeat };
    }
}

/// Tells everything once. Returns whether something was too young to be told.
async fn tell(teller: &Teller, known: &mut Known) -> bool {
    let now = clock::now();
    let Some(all) = teller.incidents().await else { return true };
    let (told, young): (Vec<Incident>, Vec<Incident>) = all
        .into_iter()
        .filter(|incident| incident.severity >= teller.severity)
        .filter(|incident| incident.resolved_at.is_none_or(|at| now.since(at) < KEEP_RESOLVED))
        .partition(|incident| is_settled(incident, teller.pace.fire_after, now));
    let alive = teller.pace.repeat * LIFE_IN_REPEATS;
    let mut alerts = alerts(&told, &teller.links, now, alive);
    let beyond = alerts.len().saturating_sub(ALERTS_MAX);
    if beyond > 0 {
        tracing::warn!("{}: {beyond} alerts are too many and not told", teller.poster.target());
        teller.poster.dropped(beyond);
        alerts.truncate(ALERTS_MAX);
    }
    let superseded = known.superseded(&alerts, now, alive);
    alerts.extend(superseded);
    for chunk in alerts.chunks(CHUNK) {
        if !teller.poster.post::<[Alert]>(chunk, chunk.len()).await {
            break;
        }
    }
    !young.is_empty()
}

fn is_settled(incident: &Incident, fire_after: Duration, now: Timestamp) -> bool {
    incident.state == FindingState::Resolved || now.since(incident.first_seen) >= fire_after
}

/// What resolved is told again for so long, as Prometheus does: an Alertmanager that was away hears of it too.
const KEEP_RESOLVED: Duration = Duration::from_secs(15 * 60);
/// An alert that was not told again for so many repeats is over, as Prometheus has it.
const LIFE_IN_REPEATS: u32 = 4;
/// Alerts of one request, as Prometheus has it.
const CHUNK: usize = 64;
