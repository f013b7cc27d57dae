//! What the daemon counts of itself.

use prometheus::{Gauge, IntCounter, IntGauge, Opts, Registry};

use super::{Durations, Notifications, RemoteWrites};

/// Counters of this process, from its start.
#[derive(Debug)]
#[expect(missing_docs, reason = "each has its help text below")]
pub struct OwnMetrics {
    pub ingest_batches: IntCounter,
    pub ingest_duplicates: IntCounter,
    pub ingest_bytes: IntCounter,
    pub ingest_refused: IntCounter,
    pub store_commits: IntCounter,
    pub store_errors: IntCounter,
    pub dropped_samples: IntCounter,
    pub unrestored_processes: IntGauge,
    pub scrape_seconds: Gauge,
    pub notifications: Notifications,
    pub durations: Durations,
    pub remote_writes: RemoteWrites,
    build_info: IntGauge,
}

impl OwnMetrics {
    /// All at zero.
    ///
    /// # Errors
    /// A name that Prometheus does not allow: a mistake in this module.
    pub fn new() -> Result<Self, prometheus::Error> {
        Ok(Self {
            ingest_batches: counter("ingest_batches", "Batches taken from agents.")?,
            ingest_duplicates: counter("ingest_duplicates", "Batches that had been taken before.")?,
            ingest_bytes: counter("ingest_bytes", "Bytes of batches, unpacked.")?,
            ingest_refused: counter(
                "ingest_refused",
                "Batches that are malformed, too large or of another version.",
            )?,
            store_commits: counter("store_commits", "Transactions committed.")?,
            store_errors: counter(
                "store_errors",
                "Transactions that failed, and databases that would not open.",
            )?,
            dropped_samples: counter(
                "store_dropped_samples",
                "Points of history lost because the database was away for too long.",
            )?,
            unrestored_processes: IntGauge::new(
                "ringscope_unrestored_processes",
                "Processes that ended before the daemon started and are still to be read back from the database.",
            )?,
            scrape_seconds: Gauge::new(
                "ringscope_scrape_duration_seconds",
                "Time that the last scrape took.",
            )?,
            notifications: Notifications::new()?,
            durations: Durations::new()?,
            remote_writes: RemoteWrites::new()?,
            build_info: build_info()?,
        })
    }

    pub(super) fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.build_info.clone()))?;
        registry.register(Box::new(self.scrape_seconds.clone()))?;
        registry.register(Box::new(self.unrestored_processes.clone()))?;
        self.notifications.register(registry)?;
        self.durations.register(registry)?;
        self.remote_writes.register(registry)?;
        let counters = [
            &self.ingest_batches,
            &self.ingest_duplicates,
            &self.ingest_bytes,
            &self.ingest_refused,
            &self.store_commits,
            &self.store_errors,
            &self.dropped_samples,
        ];
        counters.into_iter().try_for_each(|counter| registry.register(Box::new(counter.clone())))
    }
}

/// Which release this is.
pub(super) fn build_info() -> Result<IntGauge, prometheus::Error> {
    let version = Opts::new("ringscope_build_info", "1, with the version of this daemon.")
        .const_label("version", env!("CARGO_PKG_VERSION"));
    let build_info = IntGauge::with_opts(version)?;
    build_info.set(1);
    Ok(build_info)
}

fn counter(name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
    IntCounter::new(format!("ringscope_{name}_total"), help)
}
