//! What is registered with a device: each range once, for as long as somebody uses it.
//!
//! NCCL registers a buffer again for each connection and each operation (`reg_is_global`): what lies in a range that is
//! registered is found, not registered again.

use std::sync::Arc;

use verbs::Region;

/// Regions are registered in whole pages, so that neighbours in one page share a region.
const PAGE_BYTES: u64 = 4096;

/// The regions of one device.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    /// By their beginnings.
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    start: u64,
    end: u64,
    users: usize,
    region: Arc<Region>,
}

/// Memory that a connection may use: what NCCL calls an `mhandle`.
#[derive(Debug)]
pub(crate) struct Registered {
    /// The region that it lies in.
    pub(crate) region: Arc<Region>,
}

/// The whole pages of a range.
pub(crate) fn pages(address: u64, len: usize) -> (u64, u64) {
    let start = address - address % PAGE_BYTES;
    (start, (address + len as u64).next_multiple_of(PAGE_BYTES))
}

impl Cache {
    /// The region that a range lies in, with one more user; made by `register` if there is none. Also whether it was there.
    ///
    /// # Errors
    /// `register`'s.
    pub(crate) fn take<E>(
        &mut self,
        (start, end): (u64, u64),
        register: impl FnOnce() -> Result<Region, E>,
    ) -> Result<(Registered, bool), E> {
        let holds = |entry: &&mut Entry| entry.start <= start && end <= entry.end;
        if let Some(entry) = self.entries.iter_mut().find(holds) {
            entry.users += 1;
            return Ok((Registered { region: Arc::clone(&entry.region) }, true));
        }
        let region = Arc::new(register()?);
        let at = self.entries.partition_point(|entry| entry.start < start);
        self.entries.insert(at, Entry { start, end, users: 1, region: Arc::clone(&region) });
        Ok((Registered { region }, false))
    }

    /// One user less; with the last one the region is given back.
    pub(crate) fn release(&mut self, registered: &Registered) {
        let is = |entry: &Entry| Arc::ptr_eq(&entry.region, &registered.region);
        let Some(at) = self.entries.iter().position(is) else { return };
        self.entries[at].users -= 1;
        if self.entries[at].users == 0 {
            self.entries.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_whole_pages() {
        assert_eq!(pages(4096, 4096), (4096, 8192));
        assert_eq!(pages(5000, 10), (4096, 8192));
        assert_eq!(pages(8190, 10), (4096, 12288));
    }
}
