//! Fence: registers the memory of regions with a NIC.

#![expect(unsafe_code, reason = "the NIC writes to memory behind the compiler's back")]

use verbs::{Access, Domain};

use crate::memory::Region;

/// Memory that a NIC knows, for as long as it does.
#[derive(Debug)]
pub(super) struct Registered {
    // Before the memory: the NIC forgets it first.
    region: verbs::Region,
    _memory: Region,
}

impl Registered {
    /// Registers all of a region; a GPU's by its dma-buf.
    pub(super) fn new(domain: &Domain, memory: &Region) -> Result<Self, String> {
        let len = usize::try_from(memory.size_bytes()).unwrap_or(usize::MAX);
        let region = match (memory.gpu(), memory.base()) {
            (Some(gpu), _) => {
                let none = || "the GPU's driver gives no dma-buf of this memory".to_owned();
                let (fd, offset) = gpu.dma_buf().ok_or_else(none)?;
                domain.register_dma_buf(fd, offset, len, gpu.address(), Access::ALL)
            }
            // SAFETY: the mapping is held beside the registration and lives longer. It is shared memory, of which slices
            // exist only while the links' flags keep its writers away.
            (None, Some(base)) => unsafe { domain.register(base, len, Access::ALL) },
            (None, None) => return Err("memory that is neither this machine's nor a GPU's".to_owned()),
        };
        let region = region.map_err(|error| error.to_string())?;
        Ok(Self { region, _memory: memory.clone() })
    }

    /// As the NIC knows it.
    pub(super) fn region(&self) -> &verbs::Region {
        &self.region
    }
}
