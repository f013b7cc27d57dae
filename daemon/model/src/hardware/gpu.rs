//! GPUs of a host.

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
}

/// The GPUs that a host told of, by index.
pub(super) fn gpus(told: &[batch::Gpu], names: &mut Names, losses: &mut Losses) -> Vec<Gpu> {
    losses.add_many("gpu_limit", told.len().saturating_sub(MAX_GPUS));
    let gpu = |gpu: &batch::Gpu| Gpu {
        index: gpu.index,
        name: names.intern(&gpu.name),
        uuid: names.intern(&gpu.uuid),
        pci: names.intern(&gpu.pci),
        pci_path: path(&gpu.pci_path, names),
        numa_node: gpu.numa_node,
        memory_bytes: gpu.memory_bytes,
    };
    let mut gpus: Vec<Gpu> = told.iter().take(MAX_GPUS).map(gpu).collect();
    gpus.sort_by_key(|gpu| gpu.index);
    gpus
}
