//! What the rig's links carry of payload.

use anyhow::{Context as _, Result};
use serde_json::json;

use super::super::network::address;
use super::group::{Ground, Group};
use super::theory::{as_f64, median};

/// Links, all alike.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    rate_bytes_per_s: f64,
    bytes_per_s: f64,
}

impl Links {
    /// Sends so many bytes from one host to another, some times, and believes the middle one.
    pub(super) fn calibrate(ground: &Ground, rate_mbit: u32, bytes: u64) -> Result<Self> {
        let mut group = ground.group("calibration", 2)?;
        let streams = (0..STREAMS).map(|_| stream(&mut group, bytes)).collect::<Result<Vec<f64>>>()?;
        group.job.finish()?;
        let rate_bytes_per_s = f64::from(rate_mbit) * 1e6 / 8.0;
        Ok(Self { rate_bytes_per_s, bytes_per_s: median(streams) })
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

/// Bytes per second of one stream.
fn stream(group: &mut Group, bytes: u64) -> Result<f64> {
    let address = address(1, 0);
    let sink = group.ask_one(1, &json!({ "do": "sink", "address": address }))?;
    group.job.tell(1, &json!({ "do": "drain" }).to_string())?;
    group.ask_one(0, &json!({ "do": "pour", "address": address, "port": sink["port"], "bytes": bytes }))?;
    let drained = group.answer(1)?;
    let number = |name: &str| drained[name].as_u64().with_context(|| format!("no {name} in {drained}"));
    Ok(as_f64(number("bytes")?) / (as_f64(number("ns")?) / 1e9))
}

/// Of a single one, a busy machine may notice begin or end late.
const STREAMS: usize = 3;
