//! Makes old history coarser and deletes what is older than the retention, beside the keeper and never in its way.

use std::time::Duration;

use ringscope_api::clock;
use ringscope_store::{Keep, Store, Swept};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::StoreState;

/// Sweeps whenever the store is open, until `stop`.
pub(super) async fn run(mut state: watch::Receiver<StoreState>, keep: Keep, stop: CancellationToken) {
    // At once, and not an interval later: an older history is missed until it is moved.
    let opened = state.wait_for(|state| matches!(state, StoreState::Open(_)));
    if stop.run_until_cancelled(opened).await.is_none_or(|opened| opened.is_err()) {
        return;
    }
    let mut ticks = tokio::time::interval(SWEEP_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let StoreState::Open(store) = state.borrow().clone() else { continue };
        // A server that is cut off does not say so; what was done by then stays.
        let swept = tokio::time::timeout(SWEPT_WITHIN, sweep(&store, keep));
        match stop.run_until_cancelled(swept).await {
            None => return,
            Some(Ok(())) => {}
            Some(Err(_)) => tracing::warn!(
                "rolling up history and deleting what is old took more than {} s; going on in a minute",
                SWEPT_WITHIN.as_secs()
            ),
        }
    }
}

async fn sweep(store: &Store, keep: Keep) {
    loop {
        match store.roll_up(clock::now()).await {
            Ok(true) => break,
            // Writers have their turn between the parts.
            Ok(false) => tokio::task::yield_now().await,
            Err(error) => {
                tracing::warn!(%error, "could not roll up history; its samples stay");
                break;
            }
        }
    }
    match store.sweep(clock::now(), keep).await {
        Ok(swept) if swept == Swept::default() => {}
        Ok(Swept { days, rows }) => tracing::info!(days, rows, "deleted what was older than the retention"),
        Err(error) => tracing::warn!(%error, "could not delete what is older than the retention"),
    }
}

/// A sweep that takes longer goes on at the next tick.
const SWEPT_WITHIN: Duration = Duration::from_secs(900);
/// How often history is rolled up and old rows are deleted.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
