//! Fence: the memory of `ncclMemAlloc`, which peers of the same host can map and read in place.
//!
//! Each allocation is a memfd of its own, so that a peer that is shown one sees nothing else. Small ones, and all where
//! no descriptor is left, are ordinary memory: they work as well, with one copy more.

#![expect(unsafe_code, reason = "memory is handed out and taken back as raw pointers")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::error::{Error, Result};
use crate::transport::shm::map::{self, Mapping, PAGE_BYTES};

/// Smaller allocations are never read in place, so a descriptor for each would be wasted.
const MIN_REGION_BYTES: usize = 8 * 1024;
/// Of ordinary memory: a cache line.
const ALIGNMENT: usize = 64;

/// Every allocation.
static REGIONS: RwLock<Regions> =
    RwLock::new(Regions { by_address: BTreeMap::new(), by_id: BTreeMap::new(), ordinary: BTreeSet::new() });
static NEXT_ID: AtomicU32 = AtomicU32::new(1);

/// An allocation that can be shared.
#[derive(Debug)]
pub(crate) struct Region {
    id: u32,
    fd: OwnedFd,
    map: Arc<Mapping>,
}

struct Regions {
    by_address: BTreeMap<usize, Arc<Region>>,
    by_id: BTreeMap<u32, Arc<Mapping>>,
    /// Where the memory is that cannot be shared.
    ordinary: BTreeSet<usize>,
}

impl Region {
    /// Names it in this process, for good.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// To be sent to peers.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Its bytes.
    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    fn new(size_bytes: usize) -> Result<Self> {
        let len = size_bytes.checked_next_multiple_of(PAGE_BYTES);
        let len = len.ok_or_else(|| Error::System(format!("cannot allocate {size_bytes} bytes")))?;
        let fd = map::memfd("rsccl-memory")?;
        map::reserve(&fd, 0, len, "ncclMemAlloc")?;
        let map = Arc::new(Mapping::new(&fd, 0, len, "ncclMemAlloc")?);
        Ok(Self { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), fd, map })
    }
}

/// Memory for the caller of `ncclMemAlloc`, aligned to a cache line at least; also for no bytes.
pub(crate) fn allocate(size_bytes: usize) -> Result<*mut c_void> {
    if size_bytes >= MIN_REGION_BYTES
        && let Ok(region) = Region::new(size_bytes)
    {
        let base = region.map.base();
        let mut regions = REGIONS.write().unwrap_or_else(PoisonError::into_inner);
        regions.by_id.insert(region.id, Arc::clone(&region.map));
        regions.by_address.insert(base.addr().get(), Arc::new(region));
        return Ok(base.as_ptr().cast());
    }
    let mut memory = std::ptr::null_mut();
    // SAFETY: a valid place, and an alignment that is a power of two.
    let code = unsafe { libc::posix_memalign(&raw mut memory, ALIGNMENT, size_bytes.max(1)) };
    if code != 0 {
        return Err(Error::System(format!("cannot allocate {size_bytes} bytes")));
    }
    REGIONS.write().unwrap_or_else(PoisonError::into_inner).ordinary.insert(memory.addr());
    Ok(memory)
}

/// Takes memory back; NULL is fine. Its pages are free at once, also if a peer still maps them. What [`allocate`] has not given,
/// or has been freed already, is refused.
///
/// # Safety
/// `memory` is not used any more.
pub(crate) unsafe fn free(memory: *mut c_void) -> Result<()> {
    if memory.is_null() {
        return Ok(());
    }
    let mut regions = REGIONS.write().unwrap_or_else(PoisonError::into_inner);
    let region = regions.by_address.remove(&memory.addr());
    // Who of this process reads it holds the mapping until it is done.
    let _ = region.as_ref().and_then(|region| regions.by_id.remove(&region.id));
    let is_ordinary = region.is_none() && regions.ordinary.remove(&memory.addr());
    drop(regions);
    match region {
        Some(region) => map::discard(&region.fd, region.len()),
        // SAFETY: it came from `posix_memalign`, and was not freed before.
        None if is_ordinary => unsafe { libc::free(memory) },
        None => {
            return Err(Error::InvalidArgument(format!(
                "ptr {memory:?}: it is not from ncclMemAlloc, or has been freed"
            )));
        }
    }
    Ok(())
}

/// The region that holds `bytes`, and where in it they start.
pub(crate) fn find(bytes: &[u8]) -> Option<(Arc<Region>, usize)> {
    let address = bytes.as_ptr().addr();
    let regions = REGIONS.read().unwrap_or_else(PoisonError::into_inner);
    let (start, region) = regions.by_address.range(..=address).next_back()?;
    let offset = address - start;
    region.map.holds(offset, bytes.len()).then(|| (Arc::clone(region), offset))
}

/// Whether a region still exists.
pub(crate) fn exists(id: u32) -> bool {
    REGIONS.read().unwrap_or_else(PoisonError::into_inner).by_id.contains_key(&id)
}

/// The bytes of a region, for another rank of this process; none once it has been freed.
pub(crate) fn mapping(id: u32) -> Option<Arc<Mapping>> {
    REGIONS.read().unwrap_or_else(PoisonError::into_inner).by_id.get(&id).cloned()
}

/// Memory of the API for tests.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Memory(*mut u8, usize);

#[cfg(test)]
impl Memory {
    /// Zeros.
    pub(crate) fn new(len: usize) -> Self {
        Self(allocate(len).unwrap().cast(), len)
    }

    /// All of it.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: allocated with this length, and borrowed from its only owner.
        unsafe { std::slice::from_raw_parts_mut(self.0, self.1) }
    }
}

#[cfg(test)]
impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, freed once.
        let freed = unsafe { free(self.0.cast()) };
        assert_eq!(freed, Ok(()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<'a>(memory: *mut c_void, len: usize) -> &'a mut [u8] {
        // SAFETY: the tests ask for what they allocated, before they free it.
        unsafe { std::slice::from_raw_parts_mut(memory.cast(), len) }
    }

    fn release(memory: *mut c_void) {
        // SAFETY: each test frees what it allocated, or what is refused.
        unsafe { free(memory) }.unwrap();
    }

    #[test]
    fn large_memory_is_found_by_any_part_of_it() {
        let memory = allocate(100_000).unwrap();
        let own = bytes(memory, 100_000);
        own.fill(3);
        let (region, offset) = find(&own[70_000..100_000]).unwrap();
        assert_eq!((offset, exists(region.id())), (70_000, true));
        let peer = Mapping::new(region.fd(), 0, region.len(), "a test").unwrap();
        assert_eq!(peer.read(offset, 30_000), vec![3; 30_000]);
        let own = mapping(region.id()).unwrap();
        release(memory);
        assert!(!exists(region.id()) && mapping(region.id()).is_none());
        assert_eq!(own.read(offset, 30_000), vec![0; 30_000]);
        assert_eq!(peer.read(offset, 30_000), vec![0; 30_000]);
    }

    #[test]
    fn small_and_no_memory_works_and_is_not_shared() {
        for size in [0, 1, 1000] {
            let memory = allocate(size).unwrap();
            assert!(!memory.is_null() && memory.addr().is_multiple_of(ALIGNMENT));
            bytes(memory, size).fill(1);
            assert!(find(bytes(memory, size)).is_none());
            release(memory);
        }
        release(std::ptr::null_mut());
    }

    #[test]
    fn what_is_not_from_here_is_refused() {
        let mut own = [0_u8; 64];
        let large = allocate(100_000).unwrap();
        let inside = large.wrapping_byte_add(ALIGNMENT);
        for memory in [own.as_mut_ptr().cast(), inside, std::ptr::without_provenance_mut(64)] {
            // SAFETY: nothing is done with what is refused.
            let refused = unsafe { free(memory) };
            assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{memory:?}");
        }
        release(large);
    }

    #[test]
    fn too_much_is_an_error() {
        // Overflows before anything is asked of the kernel.
        assert!(allocate(usize::MAX).unwrap_err().to_string().contains(&usize::MAX.to_string()));
    }
}
