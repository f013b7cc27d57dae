//! `ringscope_remote_write_samples_total` and `ringscope_remote_write_pending_samples`.

use prometheus::{IntCounterVec, IntGauge, Opts, Registry};

/// What became of samples that are written to another database.
#[derive(Clone, Debug)]
pub struct RemoteWrites {
    samples: IntCounterVec,
    pending: IntGauge,
}

impl RemoteWrites {
    /// All at zero.
    ///
    /// # Errors
    /// A name that Prometheus does not allow: a mistake in this module.
    pub fn new() -> Result<Self, prometheus::Error> {
        let help =
            "Samples for remote write: sent, failed (refused for good), or dropped because too much waited.";
        let samples =
            IntCounterVec::new(Opts::new("ringscope_remote_write_samples_total", help), &["result"])?;
        // A rate needs the zero before the first.
        for result in ["sent", "failed", "dropped"] {
            samples.with_label_values(&[result]);
        }
        let help = "Samples that wait to be sent by remote write.";
        Ok(Self { samples, pending: IntGauge::new("ringscope_remote_write_pending_samples", help)? })
    }

    pub(super) fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.samples.clone()))?;
        registry.register(Box::new(self.pending.clone()))
    }

    /// So many were taken.
    pub fn sent(&self, n: usize) {
        self.count("sent", n);
    }

    /// So many were refused, and would be again.
    pub fn failed(&self, n: usize) {
        self.count("failed", n);
    }

    /// So many made room for newer ones.
    pub fn dropped(&self, n: usize) {
        self.count("dropped", n);
    }

    /// So many wait now.
    pub fn pending(&self, n: usize) {
        self.pending.set(i64::try_from(n).unwrap_or(i64::MAX));
    }

    fn count(&self, result: &str, n: usize) {
        self.samples.with_label_values(&[result]).inc_by(n as u64);
    }

    /// Sent, failed, dropped, pending.
    #[cfg(test)]
    pub(crate) fn values(&self) -> (u64, u64, u64, i64) {
        let [sent, failed, dropped] =
            ["sent", "failed", "dropped"].map(|result| self.samples.with_label_values(&[result]).get());
        (sent, failed, dropped, self.pending.get())
    }
}
