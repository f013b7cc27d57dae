//! Fence: memory that a device may read and write.

#![expect(unsafe_code, reason = "calls libibverbs, and maps memory")]

use std::ffi::c_void;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64};

use rdma_mummy_sys as sys;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::context::{Context, Open};
use crate::error::{Error, Result};

/// What queue pairs and regions belong to: they can be used together where it is the same one.
#[derive(Clone, Debug)]
pub struct Domain {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) domain: NonNull<sys::ibv_pd>,
    _open: Arc<Open>,
}

// SAFETY: libibverbs' objects may be used by any thread.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// What others may do with a region by its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Peers may write.
    pub remote_write: bool,
    /// Peers may read.
    pub remote_read: bool,
    /// The device may order writes as it likes: faster on some machines. Data then are there when the completion is, and not
    /// when a byte behind them is.
    pub relaxed_ordering: bool,
}

/// Registered memory. What it covers stays its owner's.
#[derive(Debug)]
pub struct Region {
    region: NonNull<sys::ibv_mr>,
    address: u64,
    len: usize,
    _domain: Domain,
}

// SAFETY: libibverbs' objects may be used by any thread.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

/// Bytes of a region here, for a transfer.
#[derive(Clone, Copy, Debug)]
pub struct Local<'a> {
    pub(crate) region: &'a Region,
    pub(crate) offset: usize,
    pub(crate) len: u32,
}

/// Bytes of a region of a peer, as it told of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remote {
    /// Where they begin, in the peer's addresses.
    pub address: u64,
    /// The region's key.
    pub key: u32,
}

/// How large the pages of a buffer are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// The machine's.
    Ordinary,
    /// Huge ones where the kernel has them: fewer entries in the device's table of pages.
    Huge,
}

/// Memory of its own, in whole pages, registered once for all its life.
#[derive(Debug)]
pub struct Buffer {
    // Before the pages: the device forgets them first.
    region: Region,
    memory: Mapping,
}

#[derive(Debug)]
struct Mapping {
    address: NonNull<u8>,
    len: usize,
}

// SAFETY: plain memory.
unsafe impl Send for Mapping {}
// SAFETY: all access through it is by raw pointers or atomics.
unsafe impl Sync for Mapping {}

impl Context {
    /// A new domain.
    pub fn domain(&self) -> Result<Domain> {
        // SAFETY: an open device.
        let domain = unsafe { sys::ibv_alloc_pd(self.raw()) };
        let domain = NonNull::new(domain);
        let domain =
            domain.ok_or_else(|| Error::last(format!("make a protection domain of {}", self.name())))?;
        Ok(Domain { inner: Arc::new(Inner { domain, _open: Arc::clone(&self.open) }) })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: made by us; everything made of it holds it, so nothing is left. What cannot be freed stays.
        unsafe { sys::ibv_dealloc_pd(self.domain.as_ptr()) };
    }
}

impl Access {
    /// Peers may read and write.
    pub const ALL: Self = Self { remote_write: true, remote_read: true, relaxed_ordering: false };

    fn bits(self) -> i32 {
        let flags = [
            (true, sys::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE),
            (self.remote_write, sys::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE),
            (self.remote_read, sys::ibv_access_flags::IBV_ACCESS_REMOTE_READ),
            (self.relaxed_ordering, sys::ibv_access_flags::IBV_ACCESS_RELAXED_ORDERING),
        ];
        let bits = flags.iter().filter(|(wanted, _)| *wanted).fold(0, |bits, (_, flag)| bits | flag.0);
        bits.cast_signed()
    }
}

impl Domain {
    /// Registers memory of the program's.
    ///
    /// # Safety
    /// The memory is mapped for as long as the region lives. Nothing of the program refers to bytes while a peer, or a read of
    /// this process, may write them.
    pub unsafe fn register(&self, address: NonNull<u8>, len: usize, access: Access) -> Result<Region> {
        let start = address.as_ptr().cast::<c_void>();
        // SAFETY: the caller's promise.
        let region = unsafe { sys::ibv_reg_mr(self.raw(), start, len, access.bits()) };
        let region = NonNull::new(region).ok_or_else(|| refused(len))?;
        Ok(Region { region, address: address.as_ptr() as u64, len, _domain: self.clone() })
    }

    /// Registers memory of another device (a GPU's) by the descriptor of its dma-buf. `address` is what peers and work
    /// requests call its first byte.
    pub fn register_dma_buf(
        &self,
        fd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        address: u64,
        access: Access,
    ) -> Result<Region> {
        let fd = fd.as_raw_fd();
        // SAFETY: the kernel checks the descriptor and the bounds, and holds the buffer while the region lives.
        let region = unsafe { sys::ibv_reg_dmabuf_mr(self.raw(), offset, len, address, fd, access.bits()) };
        let region =
            NonNull::new(region).ok_or_else(|| Error::last(format!("register a dma-buf of {len} bytes")))?;
        Ok(Region { region, address, len, _domain: self.clone() })
    }

    pub(crate) fn raw(&self) -> *mut sys::ibv_pd {
        self.inner.domain.as_ptr()
    }
}

/// What most often stands in the way is said.
fn refused(len: usize) -> Error {
    let hint = match std::io::Error::last_os_error().raw_os_error() {
        Some(libc::ENOMEM) => " (locked memory is limited: see `ulimit -l`)",
        _ => "",
    };
    Error::last(format!("register {len} bytes{hint}"))
}

impl Region {
    /// The key by which work requests here name it.
    pub fn local_key(&self) -> u32 {
        // SAFETY: registered, and not yet given back.
        unsafe { self.region.as_ref() }.lkey
    }

    /// Where peers find a byte of it.
    pub fn remote(&self, offset: usize) -> Remote {
        // SAFETY: as above.
        let key = unsafe { self.region.as_ref() }.rkey;
        Remote { address: self.address + offset as u64, key }
    }

    /// Where it begins.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of it; a transfer moves less than 4 GiB.
    pub fn local(&self, offset: usize, len: usize) -> Result<Local<'_>> {
        let end = offset.saturating_add(len);
        match u32::try_from(len) {
            Ok(len) if end <= self.len => Ok(Local { region: self, offset, len }),
            _ => Err(Error::OutOfRegion { offset, end, len: self.len }),
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: registered by us. What cannot be given back stays registered.
        unsafe { sys::ibv_dereg_mr(self.region.as_ptr()) };
    }
}

impl Buffer {
    /// At least so many bytes, all zero.
    pub fn new(domain: &Domain, len: usize, pages: Pages, access: Access) -> Result<Self> {
        let memory = Mapping::new(len.max(1), pages)?;
        // SAFETY: the mapping lives as long as the buffer, and is reached by raw pointers and atomics alone.
        let region = unsafe { domain.register(memory.address, memory.len, access) }?;
        Ok(Self { region, memory })
    }

    /// As the device knows it.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Where it begins. Peers may write there at any time.
    pub fn as_ptr(&self) -> *mut u8 {
        self.memory.address.as_ptr()
    }

    /// Its bytes, which are whole pages.
    pub fn len(&self) -> usize {
        self.memory.len
    }

    /// Whether it has no bytes, which it never has.
    pub fn is_empty(&self) -> bool {
        self.memory.len == 0
    }

    /// A number in it that both ends see; none where it does not lie in the buffer, or not at a multiple of its size.
    pub fn number(&self, offset: usize) -> Option<&AtomicU64> {
        let at = self.place(offset, size_of::<u64>())?;
        // SAFETY: aligned, inside the mapping, which lives as long as `self`.
        Some(unsafe { at.cast::<AtomicU64>().as_ref() })
    }

    /// A byte in it that both ends see.
    pub fn byte(&self, offset: usize) -> Option<&AtomicU8> {
        let at = self.place(offset, 1)?;
        // SAFETY: inside the mapping, which lives as long as `self`.
        Some(unsafe { at.cast::<AtomicU8>().as_ref() })
    }

    fn place(&self, offset: usize, size: usize) -> Option<NonNull<u8>> {
        let fits = offset.is_multiple_of(size) && offset.checked_add(size)? <= self.memory.len;
        // SAFETY: inside the mapping.
        fits.then(|| unsafe { self.memory.address.add(offset) })
    }
}

/// Bytes of a huge page on the machines that there are.
const HUGE_PAGE_BYTES: usize = 2 << 20;

impl Mapping {
    fn new(len: usize, pages: Pages) -> Result<Self> {
        let page = if pages == Pages::Huge { HUGE_PAGE_BYTES } else { rustix::param::page_size() };
        let whole = len.checked_next_multiple_of(page).unwrap_or(usize::MAX);
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let mapped = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), whole, prot, flags) };
        let error =
            |error: rustix::io::Errno| Error::code(format!("map {whole} bytes"), error.raw_os_error());
        let mapped = mapped.map_err(error)?;
        let address = NonNull::new(mapped.cast::<u8>()).ok_or_else(|| Error::code("map", libc::ENOMEM))?;
        let mapping = Self { address, len: whole };
        // A child of a fork that writes to such a page must not take it from under the device.
        mapping.advise(Advice::LinuxDontFork);
        if pages == Pages::Huge {
            mapping.advise(Advice::LinuxHugepage);
        }
        Ok(mapping)
    }

    /// Where the kernel does not take advice, all works as well.
    fn advise(&self, advice: Advice) {
        // SAFETY: our own mapping, of that length.
        let _ = unsafe { rustix::mm::madvise(self.address.as_ptr().cast(), self.len, advice) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping, of that length.
        let _ = unsafe { rustix::mm::munmap(self.address.as_ptr().cast(), self.len) };
    }
}
