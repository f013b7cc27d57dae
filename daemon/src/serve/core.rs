//! The daemon's model, what keeps it, and all that works on it, from the first batch to the last row.

use std::sync::Arc;
use std::time::Duration;

use ringscope_access::Hash;
use ringscope_api::clock;
use ringscope_server::gate::{self, Gate, GateConfig};
use ringscope_server::http::{App, Guard};
use ringscope_server::hub::Hub;
use ringscope_server::ingest::{Ingest, Keeper, KeeperConfig, Lead};
use ringscope_server::metrics::{self, Metrics, OwnMetrics};
use ringscope_server::notify;
use ringscope_server::oidc::Oidc;
use ringscope_server::remote_write;
use ringscope_store::{Claim, Keep};
use ringscope_tls::Own;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::error::ServeError;
use crate::config::ServeConfig;

/// What a core is made of.
#[derive(Clone, Copy)]
pub(super) struct Of<'s> {
    pub(super) config: &'s ServeConfig,
    /// Where people open the page, if the configuration does not say it.
    pub(super) url: &'s str,
    pub(super) tls: Option<&'s Arc<Own>>,
    pub(super) oidc: Option<&'s Arc<Oidc>>,
    /// Of the agent inside this process.
    pub(super) own_token: Hash,
}

pub(super) struct Core {
    pub(super) app: App,
    /// Ends all but those who keep.
    pub(super) stop: CancellationToken,
    pub(super) tasks: TaskTracker,
    /// The keeper outlives the requests that wait for it.
    stop_keeping: CancellationToken,
}

impl Core {
    /// `claim`: on the database, where it has been taken already. `lead`: as whom it leads, where it is one of several.
    pub(super) fn start(of: Of<'_>, claim: Option<Claim>, lead: Option<Lead>) -> Result<Self, ServeError> {
        let Of { config, url, tls, oidc, own_token } = of;
        let (tasks, stop, stop_keeping) =
            (TaskTracker::new(), CancellationToken::new(), CancellationToken::new());
        let hub = Arc::new(Hub::new(config.sample_interval));
        hub.set_look(config.look);
        hub.set_tenant_share(config.access.tenant_share);
        let own = Arc::new(OwnMetrics::new()?);
        hub.observe(own.durations.of_hub());
        let keep = Keep { samples: config.raw_retention, all: config.retention };
        let term_secret = lead.as_ref().map(|lead| lead.secret.clone());
        let keeping = KeeperConfig { url: config.database_url.clone(), keep, claim, lead };
        let keeper = Keeper::spawn(Arc::clone(&hub), keeping, Arc::clone(&own), &tasks, stop_keeping.clone());
        let metrics = metrics_of((&hub, &keeper, &own), tls, config, &tasks, &stop)?;
        if term_secret.is_some() {
            metrics.show_leads()?;
        }
        notify::spawn(&config.notify, url, &hub, &keeper, &own.notifications, &tasks, &stop)?;
        let gate = Arc::new(Gate::new(gate_config(config, own_token), keeper.clone()));
        tasks.spawn(gate::run(Arc::clone(&gate), stop.clone()));
        if let Some(oidc) = oidc {
            tasks.spawn(Arc::clone(oidc).greet(stop.clone()));
        }
        tasks.spawn(tick(Arc::clone(&hub), stop.clone()));
        tasks.spawn(publish(Arc::clone(&hub), stop.clone()));
        let app = App {
            ingest: Ingest::new(Arc::clone(&hub), keeper.clone(), own),
            hub,
            keeper,
            metrics,
            guard: Guard::new(config.body_limit_bytes),
            gate,
            body_limit_bytes: config.body_limit_bytes,
            tls: tls.cloned(),
            oidc: oidc.cloned(),
            injection: config.kubernetes.clone().map(Arc::new),
            stop: stop.clone(),
            of_tenant: None,
            term_secret,
            unreached: Arc::default(),
        };
        Ok(Self { app, stop, tasks, stop_keeping })
    }

    /// Stores what is left, when nobody asks any more.
    pub(super) async fn end(self) {
        self.stop.cancel();
        self.stop_keeping.cancel();
        self.tasks.close();
        if tokio::time::timeout(STORE_GRACE, self.tasks.wait()).await.is_err() {
            tracing::error!(
                "the database did not take the last changes in time; agents will send them again"
            );
        }
    }
}

/// How the door is kept; the agent inside this process has the secret of `own`.
fn gate_config(config: &ServeConfig, own: Hash) -> GateConfig {
    GateConfig {
        doors: config.access.doors(config.listen),
        proxies: config.access.proxies.clone(),
        has_oidc: config.access.oidc.is_some(),
        database: config.database_url.to_string(),
        own,
    }
}

/// What is scraped of these rooms, and written elsewhere.
fn metrics_of(
    (hub, keeper, own): (&Arc<Hub>, &Keeper, &Arc<OwnMetrics>),
    tls: Option<&Arc<Own>>,
    config: &ServeConfig,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> Result<Arc<Metrics>, ServeError> {
    let keeper = keeper.clone();
    let cut = move |now| keeper.cut(false, now);
    let metrics = Metrics::new(Arc::clone(hub), cut, Arc::clone(own), config.metrics)?;
    if let Some(tls) = tls {
        metrics.show_tls(Arc::clone(tls))?;
    }
    let metrics = Arc::new(metrics);
    tasks.spawn(refresh_metrics(Arc::clone(&metrics), stop.clone()));
    if let Some(config) = &config.remote_write {
        remote_write::spawn(config, &metrics, &own.remote_writes, tasks, stop)?;
    }
    Ok(metrics)
}

async fn tick(hub: Arc<Hub>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(TICK / TICK_PARTS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for part in (0..TICK_PARTS).cycle() {
        if stop.run_until_cancelled(ticks.tick()).await.is_none() {
            return;
        }
        let hub = Arc::clone(&hub);
        // Judging thousands of ranks takes milliseconds, which no request should wait for.
        let ticked = tokio::task::spawn_blocking(move || match part {
            0 => hub.tick(clock::now()),
            _ => hub.look_again(clock::now()),
        });
        if let Err(error) = ticked.await {
            tracing::error!(%error, "a tick failed");
        }
    }
}

async fn refresh_metrics(metrics: Arc<Metrics>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(metrics::REFRESH);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let metrics = Arc::clone(&metrics);
        if let Err(error) = tokio::task::spawn_blocking(move || metrics.refresh()).await {
            tracing::error!(%error, "the metrics could not be prepared");
        }
    }
}

async fn publish(hub: Arc<Hub>, stop: CancellationToken) {
    stop.run_until_cancelled(hub.publish_changes()).await;
}

/// How often what time alone changes is looked at.
const TICK: Duration = Duration::from_secs(1);
/// How often within that jobs are looked at of which more may be known soon.
const TICK_PARTS: u32 = 4;
/// Of that, for the store.
const STORE_GRACE: Duration = Duration::from_millis(1500);
