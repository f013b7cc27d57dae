//! Brings back what had ended before the daemon started, in pieces, while it serves: it is of interest for as long as the model
//! remembers what ended, and nobody waits for it. Until it is there, the daemon says what is missing.

use std::sync::Arc;
use std::time::Duration;

use prometheus::IntGauge;
use ringscope_api::clock::{self, Timestamp};
use ringscope_model::limits::ENDED_KEPT;
use ringscope_store::{Store, StoreError};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::hub::Hub;

/// When the oldest of those ended that are brought back.
pub(super) fn since(now: Timestamp) -> Timestamp {
    Timestamp(now.0.saturating_sub(u64::try_from(ENDED_KEPT.as_nanos()).unwrap_or(u64::MAX)))
}

/// Brings them back once the store is open; `left` is how many are missing.
pub(super) async fn run(
    opened: oneshot::Receiver<Store>,
    hub: Arc<Hub>,
    left: IntGauge,
    stop: CancellationToken,
) {
    let Some(Ok(store)) = stop.run_until_cancelled(opened).await else { return };
    let since = since(clock::now());
    let mut keys: Option<Vec<String>> = None;
    loop {
        // A server that is cut off does not say so; what was read by then stays.
        let read = tokio::time::timeout(READ_WITHIN, pieces(&store, &hub, &left, since, &mut keys));
        let problem = match stop.run_until_cancelled(read).await {
            None => return,
            Some(Ok(Ok(()))) => break,
            Some(Ok(Err(error))) => error.to_string(),
            Some(Err(_)) => format!("not done within {} s", READ_WITHIN.as_secs()),
        };
        tracing::warn!("could not read back what had ended: {problem}; trying again");
        if stop.run_until_cancelled(tokio::time::sleep(RETRY_INTERVAL)).await.is_none() {
            return;
        }
    }
    left.set(0);
}

async fn pieces(
    store: &Store,
    hub: &Arc<Hub>,
    left: &IntGauge,
    since: Timestamp,
    keys: &mut Option<Vec<String>>,
) -> Result<(), StoreError> {
    let keys = match keys {
        Some(keys) => keys,
        // Those that ended last are wanted first: they go from the back.
        None => keys.insert(store.ended(since).await?.into_iter().rev().collect()),
    };
    left.set(i64::try_from(keys.len()).unwrap_or(i64::MAX));
    while !keys.is_empty() {
        let first = keys.len().saturating_sub(PIECE);
        let restored = store.processes(&keys[first..]).await?;
        if restored.unreadable_rows > 0 {
            tracing::warn!(rows = restored.unreadable_rows, "rows of processes that ended could not be read");
        }
        let hub = Arc::clone(hub);
        let taken = tokio::task::spawn_blocking(move || hub.restore_ended(restored.processes, clock::now()));
        if !taken.await.map_err(|_| StoreError::crashed())? {
            tracing::warn!(
                left = keys.len(),
                "processes that ended are left out: the model has room only for those that come"
            );
            return Ok(());
        }
        keys.truncate(first);
        left.set(i64::try_from(keys.len()).unwrap_or(i64::MAX));
    }
    Ok(())
}

/// Processes at a time: some milliseconds of the model's lock.
const PIECE: usize = 128;
/// A try that takes longer is begun again where it stopped.
const READ_WITHIN: Duration = Duration::from_secs(120);
/// How soon it is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
