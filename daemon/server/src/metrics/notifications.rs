//! `ringscope_notifications_total`.

use prometheus::{IntCounterVec, Opts, Registry};

use crate::notify::TargetKind;

/// What was told to Alertmanager and to webhooks.
#[derive(Clone, Debug)]
pub struct Notifications(IntCounterVec);

impl Notifications {
    pub(super) fn new() -> Result<Self, prometheus::Error> {
        let opts = Opts::new(
            "ringscope_notifications_total",
            "Alerts and messages that the daemon sent itself, could not send, or left out because they were too many.",
        );
        let counts = IntCounterVec::new(opts, &["result", "target"])?;
        // A rate needs the zero before the first.
        for target in [TargetKind::Alertmanager, TargetKind::Webhook] {
            for result in ["sent", "failed", "dropped"] {
                counts.with_label_values(&[result, target.label()]);
            }
        }
        Ok(Self(counts))
    }

    pub(super) fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.0.clone()))
    }

    /// So many were taken.
    pub fn sent(&self, target: TargetKind, n: usize) {
        self.count("sent", target, n);
    }

    /// So many were not taken, however often they were tried.
    pub fn failed(&self, target: TargetKind, n: usize) {
        self.count("failed", target, n);
    }

    /// So many were too many to be sent.
    pub fn dropped(&self, target: TargetKind, n: usize) {
        self.count("dropped", target, n);
    }

    fn count(&self, result: &str, target: TargetKind, n: usize) {
        self.0.with_label_values(&[result, target.label()]).inc_by(n as u64);
    }
}
