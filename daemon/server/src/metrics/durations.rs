//! `ringscope_ingest_duration_seconds`, `ringscope_ingest_queue_seconds`, `ringscope_store_write_duration_seconds`,
//! `ringscope_hub_lock_wait_seconds` and `ringscope_judgement_delay_seconds`.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, Registry};

use crate::hub::Observers;

/// How long things take in the daemon.
#[derive(Clone, Debug)]
pub struct Durations {
    ingest: Histogram,
    ingest_queue: Histogram,
    store_write: Histogram,
    hub_lock_wait: Histogram,
    judgement_delay: Histogram,
}

impl Durations {
    pub(super) fn new() -> Result<Self, prometheus::Error> {
        Ok(Self {
            ingest: histogram(
                "ringscope_ingest_duration_seconds",
                "From a batch's last byte to its answer: its turn, applying it, and until its facts are stored.",
                &INGEST_S,
            )?,
            ingest_queue: histogram(
                "ringscope_ingest_queue_seconds",
                "How long batches wait for a thread that applies them; those that need none are not among them.",
                &WAIT_S,
            )?,
            store_write: histogram(
                "ringscope_store_write_duration_seconds",
                "What the database takes to write what has come since the last time, in one or more transactions.",
                &INGEST_S,
            )?,
            hub_lock_wait: histogram(
                "ringscope_hub_lock_wait_seconds",
                "How long batches, readers and judges wait for the lock of the model.",
                &WAIT_S,
            )?,
            judgement_delay: histogram(
                "ringscope_judgement_delay_seconds",
                "How far judgement is behind, looked at some times a second: see ringscope_judgement_lag_seconds.",
                &DELAY_S,
            )?,
        })
    }

    pub(super) fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        let all =
            [&self.ingest, &self.ingest_queue, &self.store_write, &self.hub_lock_wait, &self.judgement_delay];
        all.into_iter().try_for_each(|histogram| registry.register(Box::new(histogram.clone())))
    }

    /// A batch was answered.
    pub fn ingest(&self, took: Duration) {
        self.ingest.observe(took.as_secs_f64());
    }

    /// A batch had its turn.
    pub fn ingest_queue(&self, waited: Duration) {
        self.ingest_queue.observe(waited.as_secs_f64());
    }

    /// The database has what there was.
    pub fn store_write(&self, took: Duration) {
        self.store_write.observe(took.as_secs_f64());
    }

    /// What the hub is to tell of itself.
    #[must_use]
    pub fn of_hub(&self) -> Observers {
        let observe = |histogram: &Histogram| {
            let histogram = histogram.clone();
            Box::new(move |took: Duration| histogram.observe(took.as_secs_f64()))
        };
        Observers { lock_wait: observe(&self.hub_lock_wait), judgement_lag: observe(&self.judgement_delay) }
    }
}

fn histogram(name: &str, help: &str, buckets_s: &[f64]) -> Result<Histogram, prometheus::Error> {
    Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets_s.to_vec()))
}

/// A batch takes a millisecond, the database tens of them; an agent gives up after ten seconds.
const INGEST_S: [f64; 11] = [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0];
/// Mostly nobody waits; who waits for longer than a tick takes is late.
const WAIT_S: [f64; 10] = [0.000_01, 0.000_1, 0.000_5, 0.001, 0.002_5, 0.01, 0.025, 0.1, 0.25, 1.0];
/// Small communicators are judged at once, one of 100 000 ranks every ten seconds.
const DELAY_S: [f64; 8] = [0.001, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0];
