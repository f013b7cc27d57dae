//! Deletes what is older than the retention, beside the keeper and never in its way.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::StoreState;
use crate::clock;

/// Sweeps whenever the store is open, until `stop`.
pub(super) async fn run(state: watch::Receiver<StoreState>, retention: Duration, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(SWEEP_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let StoreState::Open(store) = state.borrow().clone() else { continue };
        match stop.run_until_cancelled(store.sweep(clock::now(), retention)).await {
            None => return,
            Some(Ok(0)) => {}
            Some(Ok(rows)) => tracing::info!(rows, "deleted what was older than the retention"),
            Some(Err(error)) => tracing::warn!(%error, "could not delete what is older than the retention"),
        }
    }
}

/// How often old rows are deleted.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
