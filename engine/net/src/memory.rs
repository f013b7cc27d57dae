//! What is registered with a device: each range once, for as long as somebody uses it.
//!
//! NCCL registers a buffer again for each connection and each operation (`reg_is_global`): what lies in a range that is
//! registered is found, not registered again.

use std::sync::Arc;

use verbs::Region;

/// The regions of one device.
#[derive(Debug, Default)]
pub(crate) struct Cache {
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

/// The whole pages of a range: neighbours in one page share a region.
pub(crate) fn pages(address: u64, len: usize) -> (u64, u64) {
    let page = rustix::param::page_size() as u64;
    (address - address % page, (address + len as u64).next_multiple_of(page))
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
        self.entries.push(Entry { start, end, users: 1, region: Arc::clone(&region) });
        Ok((Registered { region }, false))
    }

    /// One user less; with the last one the region is given back.
    pub(crate) fn release(&mut self, registered: &Registered) {
        let is = |entry: &Entry| Arc::ptr_eq(&entry.region, &registered.region);
        let Some(at) = self.entries.iter().position(is) else { return };
        self.entries[at].users -= 1;
        if self.entries[at].users == 0 {
            self.entries.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_whole_pages() {
        let page = rustix::param::page_size() as u64;
        assert_eq!(pages(page, 16), (page, 2 * page));
        assert_eq!(pages(page + 904, 10), (page, 2 * page));
        assert_eq!(pages(2 * page - 2, 10), (page, 3 * page));
    }
}
