//! What the rig's links carry of payload.

use anyhow::{Context as _, Result};
use serde_json::json;

use super::super::network::address;
use super::group::Ground;
use super::theory::as_f64;

/// Links, all alike.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    rate_bytes_per_s: f64,
    bytes_per_s: f64,
}

impl Links {
    /// Sends so many bytes from one host to another.
    pub(super) fn calibrate(ground: &Ground, rate_mbit: u32, bytes: u64) -> Result<Self> {
        let mut group = ground.group("calibration", 2)?;
        let address = address(1, 0);
        let sink = group.ask_one(1, &json!({ "do": "sink", "address": address }))?;
        group.job.tell(1, &json!({ "do": "drain" }).to_string())?;
        let pour = json!({ "do": "pour", "address": address, "port": sink["port"], "bytes": bytes });
        group.ask_one(0, &pour)?;
        let drained = group.answer(1)?;
        group.job.finish()?;
        let number = |name: &str| drained[name].as_u64().with_context(|| format!("no {name} in {drained}"));
        let rate_bytes_per_s = f64::from(rate_mbit) * 1e6 / 8.0;
        let bytes_per_s = as_f64(number("bytes")?) / (as_f64(number("ns")?) / 1e9);
        Ok(Self { rate_bytes_per_s, bytes_per_s })
    }

    /// Payload by rate.
    pub(super) fn goodput(self) -> f64 {
        self.bytes_per_s / self.rate_bytes_per_s
    }

    /// What so many bytes of payload take.
    pub(super) fn seconds(self, bytes: u64) -> f64 {
        as_f64(bytes) / self.bytes_per_s
    }
}
