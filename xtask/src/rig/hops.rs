//! Bytes per hop, as the daemon shows them.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::accounts::Flows;

/// Bytes that the daemon shows from each rank to its next ones; the API's rings of a communicator.
pub(crate) fn hops(rings: &Value) -> Result<Flows> {
    let mut hops = Flows::new();
    for ring in rings["rings"].as_array().context("rings")? {
        for hop in ring["order"].as_array().context("order")? {
            let rank = |which: &str| hop[which].as_u64().and_then(|rank| usize::try_from(rank).ok());
            let pair = (rank("rank").context("rank")?, rank("next").context("next")?);
            hops.insert(pair, hop["sent_bytes"].as_u64().unwrap_or(0));
        }
    }
    Ok(hops)
}
