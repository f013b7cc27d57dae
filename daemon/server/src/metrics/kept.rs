//! What stays from one scrape of a hub to the next: what had series, and how everything stood.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringscope_api::Health;
use ringscope_api::clock::Timestamp;
use ringscope_judge::Diagnosis;
use ringscope_model::{CommunicatorId, Model};
use ringscope_view as view;

use super::room::Memory;
use crate::hub::Hub;

/// What was shown of each kind at the last scrape.
#[derive(Default)]
pub(super) struct LastShown {
    pub(super) communicators: Memory<CommunicatorId>,
    pub(super) groups: Memory<String>,
    pub(super) hosts: Memory<String>,
    pub(super) jobs: Memory<String>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Kept {
    last_shown: Mutex<LastShown>,
    health: Mutex<KeptHealth>,
}

#[derive(Default)]
struct KeptHealth {
    known: Option<(Timestamp, Health)>,
    /// When a scrape last asked for that of a large model.
    asked: Option<Timestamp>,
}

impl Kept {
    pub(super) fn last_shown(&self) -> MutexGuard<'_, LastShown> {
        self.last_shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How everything stands; of a large model as it stood some seconds ago, for to say that takes longer than all the rest of a
    /// scrape.
    pub(super) fn health(&self, model: &Model, diagnosis: &Diagnosis, now: Timestamp) -> Health {
        let is_large = model.n_processes() >= LARGE_PROCESSES;
        let mut kept = self.lock();
        kept.asked = is_large.then_some(now);
        match &kept.known {
            Some((at, health)) if is_large && is_within(*at, now, HEALTH_FRESH) => health.clone(),
            _ => {
                let health = view::health_now(model, diagnosis, now);
                kept.known = Some((now, health.clone()));
                health
            }
        }
    }

    /// Looks anew how everything stands, while somebody scrapes. To be called each [`REFRESH`].
    pub(super) fn refresh(&self, hub: &Hub, now: Timestamp) {
        let asked = self.lock().asked;
        if asked.is_some_and(|asked| is_within(asked, now, SCRAPED_LATELY)) {
            let health = hub.read(|model, diagnosis| view::health_now(model, diagnosis, now));
            self.lock().known = Some((now, health));
        }
    }

    fn lock(&self) -> MutexGuard<'_, KeptHealth> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A clock that was set back makes nothing young.
fn is_within(at: Timestamp, now: Timestamp, time: Duration) -> bool {
    at <= now && now.since(at) < time
}

/// From so many processes on.
const LARGE_PROCESSES: usize = 256;
/// How often the health of a large model is looked at anew while it is scraped.
pub const REFRESH: Duration = Duration::from_secs(5);
/// Twice as long: the looking itself takes time.
const HEALTH_FRESH: Duration = Duration::from_secs(10);
/// Prometheus comes once a minute or more often.
const SCRAPED_LATELY: Duration = Duration::from_secs(150);

#[cfg(test)]
mod tests {
    use super::*;
    use ringscope_api::HealthLevel;
    use ringscope_samples::cluster::{Cluster, at};

    #[test]
    fn the_health_of_a_large_model_is_some_seconds_old_and_never_older() {
        let hosts: Vec<String> = (0..LARGE_PROCESSES).map(|host| format!("host-{host}")).collect();
        let hosts: Vec<(&str, u32, u32)> = hosts.iter().map(|host| (host.as_str(), 2, 2)).collect();
        let hub = Hub::new(Duration::from_secs(1));
        let kept = Kept::default();
        let level = |s| hub.read(|model, diagnosis| kept.health(model, diagnosis, at(s))).level;
        assert_eq!(level(1), HealthLevel::Empty, "a small one at once");
        hub.ingest(&Cluster::new(&hosts, 2).batch(1, 1), at(1));
        assert_eq!(level(2), HealthLevel::Empty);
        kept.refresh(&hub, at(6));
        let looked = level(7);
        assert_ne!(looked, HealthLevel::Empty);
        kept.refresh(&hub, at(600));
        assert_ne!(kept.lock().known.as_ref().map(|(at, _)| *at), Some(at(600)), "nobody scrapes");
        level(700);
        assert_eq!(kept.lock().known.as_ref().map(|(at, _)| *at), Some(at(700)), "too old");
    }
}
