//! Writes what `/metrics` shows to a database that keeps it for long, by Prometheus' remote write 1.0: VictoriaMetrics, Mimir,
//! Thanos, or a Prometheus that takes it.
//!
//! What is not taken waits in a bounded queue and is tried again; where that is full the oldest goes, is counted, and said. Ingest
//! never waits for it: a round costs what a scrape costs, and sending has a task of its own.

mod encode;
mod queue;
mod send;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::metrics::{Metrics, RemoteWrites};
use encode::Encoder;
use queue::Queue;
use reqwest::Url;
use ringscope_api::clock;
use ringscope_tls::{TlsError, Trust};
use send::Sender;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Where to write, and how.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteWriteConfig {
    /// Where to.
    pub url: Url,
    /// Who writes.
    pub login: Login,
    /// Labels of all series that have none of that name.
    pub labels: Vec<(String, String)>,
    /// How often. Default 15 s: what Prometheus' own servers mostly scrape at.
    pub interval: Duration,
    /// Whom it is trusted to be by, where that is https.
    pub trust: Trust,
    /// What waits at most, packed. Default 64 MiB: 20 000 series for a quarter of an hour at least.
    pub queue_bytes_max: usize,
}

/// How somebody shows that they may write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Login {
    /// Not at all.
    #[default]
    Nobody,
    /// By the token in this file.
    Token(PathBuf),
    /// By a name, and the password in this file.
    Basic {
        /// Name.
        user: String,
        /// File.
        password: PathBuf,
    },
}

impl std::fmt::Debug for RemoteWriteConfig {
    /// An address may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteWriteConfig").field("interval", &self.interval).finish_non_exhaustive()
    }
}

/// Starts writing, until `stop`; then marks as ended what was written, within [`LAST_WITHIN`]. What waits by then is lost.
///
/// # Errors
/// [`TlsError`].
pub fn spawn(
    config: &RemoteWriteConfig,
    metrics: &Arc<Metrics>,
    counts: &RemoteWrites,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> Result<(), TlsError> {
    let queue = Arc::new(Queue::new(config.queue_bytes_max, counts.clone()));
    let sender = Sender::new(config, counts.clone())?;
    let (config, metrics, stop) = (config.clone(), Arc::clone(metrics), stop.clone());
    tasks.spawn(async move {
        let sending = stop.run_until_cancelled(sender.run(&queue));
        let (encoder, _) = tokio::join!(collect(config, metrics, &queue, &stop), sending);
        // So that no rule takes for what still holds what this daemon said last.
        let last = encoder.lock().unwrap_or_else(PoisonError::into_inner).end(clock::now());
        if tokio::time::timeout(LAST_WITHIN, sender.send_once(&last)).await.is_err() {
            tracing::warn!("remote write did not take in time that the series of this daemon have ended");
        }
    });
    Ok(())
}

/// Puts what is to be written into the queue, until `stop`.
async fn collect(
    config: RemoteWriteConfig,
    metrics: Arc<Metrics>,
    queue: &Arc<Queue>,
    stop: &CancellationToken,
) -> Arc<Mutex<Encoder>> {
    let all = Arc::new(Mutex::new(Encoder::new(config.labels)));
    let mut ticks = tokio::time::interval(config.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let (encoder, metrics, queue) = (Arc::clone(&all), Arc::clone(&metrics), Arc::clone(queue));
        let round = move || {
            let now = clock::now();
            let families = metrics.families();
            queue.push(encoder.lock().unwrap_or_else(PoisonError::into_inner).encode(&families, now));
        };
        if let Err(error) = tokio::task::spawn_blocking(round).await {
            tracing::error!(%error, "a round of remote write failed");
        }
    }
    all
}

/// Less than the daemon has for its end.
const LAST_WITHIN: Duration = Duration::from_millis(1200);
