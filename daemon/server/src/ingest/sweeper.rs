//! Makes old history coarser and deletes what is older than the retention, beside the keeper and never in its way.

use std::time::Duration;

use ringscope_api::clock;
use ringscope_store::{Keep, Store};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::StoreState;

/// Sweeps whenever the store is open, until `stop`.
pub(super) async fn run(state: watch::Receiver<StoreState>, keep: Keep, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(SWEEP_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let StoreState::Open(store) = state.borrow().clone() else { continue };
        if stop.run_until_cancelled(sweep(&store, keep)).await.is_none() {
            return;
        }
    }
}

async fn sweep(store: &Store, keep: Keep) {
    match store.roll_up(clock::now()).await {
        Ok(true) => {}
        Ok(false) => tracing::info!("rolled up a part of the history; the next part follows"),
        Err(error) => tracing::warn!(%error, "could not roll up history; its samples stay"),
    }
    match store.sweep(clock::now(), keep).await {
        Ok(0) => {}
        Ok(rows) => tracing::info!(rows, "deleted what was older than the retention"),
        Err(error) => tracing::warn!(%error, "could not delete what is older than the retention"),
    }
}

/// How often history is rolled up and old rows are deleted.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
