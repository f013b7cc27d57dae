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
    /// Registers all of a region.
    pub(super) fn new(domain: &Domain, memory: &Region) -> verbs::Result<Self> {
        let len = usize::try_from(memory.size_bytes()).unwrap_or(usize::MAX);
        // SAFETY: the mapping is held beside the registration and lives longer. It is shared memory, of which slices exist
        // only while the links' flags keep its writers away.
        let region = unsafe { domain.register(memory.base(), len, Access::ALL) }?;
        Ok(Self { region, _memory: memory.clone() })
    }

    /// As the NIC knows it.
    pub(super) fn region(&self) -> &verbs::Region {
        &self.region
    }
}
