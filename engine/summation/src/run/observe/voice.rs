//! The way from one group to its watcher, which may have declined it.

use std::sync::{Arc, OnceLock};

use rsum_observer::END_FAILED;

use super::facts::Facts;
use super::plugin::{Context, Observer};
use rsccl_collective::comm::Comm;
use rsccl_collective::error::Error;

/// The watcher's ear for one group.
#[derive(Debug)]
pub(super) struct Voice {
    pub(super) observer: Arc<Observer>,
    /// Empty before the group begins, and if the watcher declines it.
    pub(super) context: OnceLock<Context>,
}

impl Voice {
    /// Of a group that has not begun.
    pub(super) fn new(observer: Arc<Observer>) -> Self {
        Self { observer, context: OnceLock::new() }
    }

    pub(super) fn round(&self, round: &rsum_observer::Round) {
        self.context.get().inspect(|context| context.round(round));
    }

    pub(super) fn finished(&self, finished: &rsum_observer::Finished) {
        self.context.get().inspect(|context| context.finished(finished));
    }

    /// The group begins, with all that there is to say of it.
    pub(super) fn begin(&self, facts: &Facts<'_>, session: u64) {
        facts.tell(session, |group| {
            let context = self.observer.begin(self.context.get(), group);
            if let Some(context) = context {
                let _ = self.context.set(context);
            }
        });
    }

    /// The group has failed.
    pub(super) fn fail(&self, comm: &Comm, error: &Error) {
        let Some(context) = self.context.get() else { return };
        let failure = comm.health.failure();
        let is_of =
            |name: &String| failure.as_ref().is_some_and(|failure| failure.what.starts_with(name.as_str()));
        context.end(END_FAILED, comm.names.iter().position(is_of), &error.to_string());
    }
}
