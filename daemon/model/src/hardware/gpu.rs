//! GPUs of a host.

use ringscope_api::clock::Timestamp;
use ringscope_wire::batch;

use super::path;
use crate::Name;
use crate::limits::MAX_GPUS;
use crate::losses::Losses;
use crate::names::Names;

/// One GPU.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are those of batch.proto's Gpu")]
pub struct Gpu {
    pub index: u32,
    pub name: Name,
    pub uuid: Name,
    pub pci: Name,
    pub pci_path: Box<[Name]>,
    pub numa_node: Option<u32>,
    pub memory_bytes: Option<u64>,
    pub clock_mhz: Option<u32>,
    pub throttle_reasons: Option<u64>,
    pub temperature_c: Option<u32>,
    pub utilization_percent: Option<u32>,
    pub uncorrected_errors: Option<u64>,
    /// How many more of these than when it was first told of.
    pub uncorrected_risen: Option<u64>,
    /// When they last became more, by our clock.
    pub uncorrected_rose: Option<Timestamp>,
}

/// The GPUs that a host told of, by index. `before`: what it told the time before.
pub(super) fn gpus(
    told: &[batch::Gpu],
    before: &[Gpu],
    now: Timestamp,
    names: &mut Names,
    losses: &mut Losses,
) -> Vec<Gpu> {
    losses.add_many("gpu_limit", told.len().saturating_sub(MAX_GPUS));
    let gpu = |gpu: &batch::Gpu| Gpu {
        index: gpu.index,
        name: names.intern(&gpu.name),
        uuid: names.intern(&gpu.uuid),
        pci: names.intern(&gpu.pci),
        pci_path: path(&gpu.pci_path, names),
        numa_node: gpu.numa_node,
        memory_bytes: gpu.memory_bytes,
        clock_mhz: gpu.clock_mhz,
        throttle_reasons: gpu.throttle_reasons,
        temperature_c: gpu.temperature_c,
        utilization_percent: gpu.utilization_percent,
        uncorrected_errors: gpu.uncorrected_errors,
        uncorrected_risen: risen(gpu, before),
        uncorrected_rose: rose(gpu, before, now),
    };
    let mut gpus: Vec<Gpu> = told.iter().take(MAX_GPUS).map(gpu).collect();
    gpus.sort_by_key(|gpu| gpu.index);
    gpus
}

fn rose(told: &batch::Gpu, before: &[Gpu], now: Timestamp) -> Option<Timestamp> {
    let known = known(told, before)?;
    if risen(told, before) > known.uncorrected_risen { Some(now) } else { known.uncorrected_rose }
}

fn known<'g>(told: &batch::Gpu, before: &'g [Gpu]) -> Option<&'g Gpu> {
    before.iter().find(|known| *known.pci == *told.pci && *known.uuid == *told.uuid)
}

/// A counter that fell counts anew.
fn risen(told: &batch::Gpu, before: &[Gpu]) -> Option<u64> {
    let now = told.uncorrected_errors?;
    let more = known(told, before).and_then(|known| {
        let more = now.checked_sub(known.uncorrected_errors?).unwrap_or(now);
        Some(known.uncorrected_risen.unwrap_or(0).saturating_add(more))
    });
    Some(more.unwrap_or(0))
}
