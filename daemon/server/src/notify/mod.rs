//! Tells incidents to people: to Alertmanager as alerts, to a webhook as messages in Slack's shape.
//!
//! A task for each target looks at the hub when incidents change. An Alertmanager is told everything again every minute,
//! as Prometheus does, so nothing need be remembered but what it was told lately: an alert that has other labels now is
//! ended. A webhook is told once when something fires and once when it is over; what it was told is in the store, so that
//! a restart repeats nothing. Never holds up the daemon: a target that is away is tried again later with what holds then.
//! Never shows an address whole: it may be a secret.

pub mod alert;
mod alertmanager;
pub mod links;
pub mod message;
pub mod post;
mod target;
mod told;
mod webhook;

pub use links::public_url;

pub use target::{Target, TargetKind};

use std::sync::Arc;
use std::time::Duration;

use links::Links;
use post::Poster;
use ringscope_api::{Changed, Incident, Severity};
use ringscope_tls::{TlsError, Trust};
use ringscope_view::{self as view, IncidentFilter};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::hub::Hub;
use crate::ingest::Keeper;
use crate::metrics::Notifications;

/// Whom to tell, of what.
#[derive(Clone, Debug, PartialEq)]
pub struct NotifyConfig {
    /// Whom. Default: nobody.
    pub targets: Vec<Target>,
    /// Nothing below is told. Default warning: what is only explained wakes nobody.
    pub severity: Severity,
    /// Where people open the page, without a `/` at the end. `None`: at the address that the daemon listens on.
    pub public_url: Option<String>,
    /// Whom they are trusted to be by, where they are told by https.
    pub trust: Trust,
    /// How fast.
    pub pace: Pace,
}

/// How fast things are told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// An incident must have been open for so long, else it was nothing. Default 5 s.
    pub fire_after: Duration,
    /// And must be over for so long, so that flapping makes one message. Default 20 s: longer than an agent takes to restart.
    pub resolve_after: Duration,
    /// How often an Alertmanager is told again, and a target that failed is tried again. Default 1 min.
    pub repeat: Duration,
    /// The first wait before another attempt; the next ones are longer. Default 1 s.
    pub retry: Duration,
}

impl Default for NotifyConfig {
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            severity: Severity::Warning,
            public_url: None,
            trust: Trust::default(),
            pace: Pace::default(),
        }
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            fire_after: Duration::from_secs(5),
            resolve_after: Duration::from_secs(20),
            repeat: Duration::from_secs(60),
            retry: Duration::from_secs(1),
        }
    }
}

/// What a task that tells one target has.
struct Teller {
    hub: Arc<Hub>,
    keeper: Keeper,
    links: Links,
    severity: Severity,
    pace: Pace,
    poster: Poster,
    changes: Receiver<Changed>,
    stop: CancellationToken,
}

/// Starts telling, until `stop`.
///
/// # Errors
/// [`TlsError`]: the CA that they are to be trusted by cannot be read.
pub fn spawn(
    config: &NotifyConfig,
    local_url: &str,
    hub: &Arc<Hub>,
    keeper: &Keeper,
    metrics: &Notifications,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> Result<(), TlsError> {
    for target in &config.targets {
        tracing::info!("telling incidents of severity {} and above to {target}", config.severity.label());
        let teller = Teller {
            hub: Arc::clone(hub),
            keeper: keeper.clone(),
            links: Links::new(config.public_url.as_deref().unwrap_or(local_url)),
            severity: config.severity,
            pace: config.pace,
            poster: Poster::new(target.clone(), &config.trust, config.pace.retry, metrics.clone())?,
            changes: hub.subscribe(),
            stop: stop.clone(),
        };
        match target.kind() {
            TargetKind::Alertmanager => tasks.spawn(alertmanager::run(teller)),
            TargetKind::Webhook => tasks.spawn(webhook::run(teller)),
        };
    }
    Ok(())
}

impl Teller {
    /// The incidents, those below the severity that is told too, worst first, open before over. Nobody is woken for what
    /// was imported. `None`: nobody knows now.
    async fn incidents(&self) -> Option<Vec<Incident>> {
        let hub = Arc::clone(&self.hub);
        // It may have to wait for the lock.
        let asked = tokio::task::spawn_blocking(move || {
            hub.read(|model, diagnosis| view::incidents(model, diagnosis, &IncidentFilter::default()))
        });
        let all =
            asked.await.inspect_err(|error| tracing::error!(%error, "incidents cannot be told")).ok()?;
        Some(all.into_iter().filter(|incident| !incident.imported).collect())
    }

    /// Waits for [`LOOK_INTERVAL`], or less if incidents change; says whether they did. `None`: stopped.
    async fn wait(&mut self) -> Option<bool> {
        let deadline = tokio::time::Instant::now() + LOOK_INTERVAL;
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return None,
                () = tokio::time::sleep_until(deadline) => return Some(false),
                change = self.changes.recv() => match change {
                    Ok(Changed { incidents: false, .. }) => {}
                    Ok(_) | Err(RecvError::Lagged(_)) => return Some(true),
                    Err(RecvError::Closed) => return None,
                },
            }
        }
    }
}

/// How often what time alone makes due is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
