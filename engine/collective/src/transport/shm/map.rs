//! Fence: memory that processes share, as atomics and slices.
//!
//! Bounds are checked here; who may write where and when is the business of the rings and slots above: a slice is only
//! taken while the protocol keeps its writer away.

#![expect(unsafe_code, reason = "shared mappings are raw memory")]

use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::process::Resource;

use crate::error::{Error, Result};
use crate::transport::shm::available;

/// Bytes of the largest page that a kernel of this architecture may have: offsets of mappings are multiples of it, and so of
/// every smaller one. Kernels of aarch64 have pages of 4, 16 or 64 KiB (Grace's as a rule 64).
pub(crate) const PAGE_BYTES: usize = if cfg!(target_arch = "x86_64") { 4096 } else { 64 * 1024 };

/// Bytes of a cache line, and of what is kept from sharing one.
pub(crate) const LINE_BYTES: usize = 64;

/// Reserved at once: so much can be taken between a look at what is available and the next.
const CHUNK_BYTES: usize = 64 << 20;

/// A run of shared memory in this process.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
    /// What this is a part of, if it is one.
    whole: Option<Arc<Self>>,
}

// SAFETY: the memory belongs to no thread; what threads and processes do to it at once goes through atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// Anonymous memory without a name, which never shrinks under those who map it.
pub(crate) fn memfd(what: &str) -> Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create(what, flags)
        .map_err(|error| Error::system(format_args!("memfd_create for {what}"), &error.into()))?;
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK)
        .map_err(|error| Error::system(format_args!("sealing the memory for {what}"), &error.into()))?;
    Ok(fd)
}

/// Makes sure that the bytes exist: a lack of memory is an error here, and no signal at the first touch. What is not
/// there is never asked for.
pub(crate) fn reserve(fd: impl AsFd, offset: usize, len: usize, what: &str) -> Result<()> {
    let lacking = |why: &dyn std::fmt::Display| {
        Error::System(format!("cannot reserve {len} bytes of shared memory for {what}: {why}"))
    };
    let mut done = 0;
    while done < len {
        // Others reserve too: each step looks again, and the first one looks for all of it.
        let wanted = if done == 0 { len } else { CHUNK_BYTES.min(len - done) };
        let limit = rustix::process::getrlimit(Resource::Fsize).current;
        if let Some(why) = refusal(offset + done, wanted, limit, available::bytes()) {
            return Err(lacking(&why));
        }
        let step = CHUNK_BYTES.min(len - done);
        let (start, count) = ((offset + done) as u64, step as u64);
        match rustix::fs::fallocate(&fd, FallocateFlags::empty(), start, count) {
            Ok(()) => done += step,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(lacking(&std::io::Error::from(error))),
        }
    }
    Ok(())
}

/// Why `len` bytes from `offset` on cannot be had, where the kernel would not refuse but kill.
fn refusal(offset: usize, len: usize, file_limit: Option<u64>, available: u64) -> Option<String> {
    let end = offset.saturating_add(len) as u64;
    if let Some(limit) = file_limit.filter(|limit| end > *limit) {
        return Some(format!("the file size limit (ulimit -f) is {limit} bytes"));
    }
    (len as u64 > available).then(|| format!("{available} bytes are available"))
}

/// Gives the memory back at once, whoever maps it still: those read zeros.
pub(crate) fn discard(fd: impl AsFd, len: usize) {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let _ = rustix::fs::fallocate(fd, flags, 0, len as u64);
}

/// Whether a peer's memory can be mapped without danger: at least `len` bytes that will stay.
pub(crate) fn is_safe(fd: impl AsFd, len: usize) -> bool {
    let sealed = rustix::fs::fcntl_get_seals(&fd).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
    let size = rustix::fs::fstat(&fd).map_or(0, |stat| stat.st_size);
    sealed && usize::try_from(size).is_ok_and(|size| size >= len)
}

impl Mapping {
    /// Maps `len` bytes from `offset` on.
    pub(crate) fn new(fd: impl AsFd, offset: usize, len: usize, what: &str) -> Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, fd, offset as u64)
        };
        let base = base.map_err(|error| {
            Error::system(format_args!("cannot map {len} bytes of shared memory for {what}"), &error.into())
        })?;
        let base = NonNull::new(base.cast()).ok_or_else(|| Error::Internal("mmap gave NULL".to_owned()))?;
        Ok(Self { base, len, whole: None })
    }

    /// Maps `len` bytes from the start on, of which more may come to exist: what does not is not to be touched.
    pub(crate) fn with_room(fd: impl AsFd, len: usize, what: &str) -> Result<Self> {
        let map = Self::new(fd, 0, len, what)?;
        // SAFETY: the range is that of the mapping just made; the advice changes none of its bytes.
        let _ = unsafe { rustix::mm::madvise(map.base.as_ptr().cast(), len, Advice::LinuxDontDump) };
        Ok(map)
    }

    /// `len` bytes of it from `offset` on; none if they lie outside.
    pub(crate) fn part(self: &Arc<Self>, offset: usize, len: usize) -> Option<Self> {
        // SAFETY: inside the mapping, as just checked.
        let base = self.holds(offset, len).then(|| unsafe { self.base.add(offset) })?;
        Some(Self { base, len, whole: Some(Arc::clone(self)) })
    }

    /// Whether the page at `offset` of a mapping with room exists; true where the kernel (before 5.14) does not tell.
    pub(crate) fn exists(&self, offset: usize) -> bool {
        let page = self.at(offset, PAGE_BYTES);
        // SAFETY: a page inside the mapping; the advice reads it, and changes none of its bytes.
        let found = unsafe { rustix::mm::madvise(page.cast(), PAGE_BYTES, Advice::LinuxPopulateRead) };
        found != Err(rustix::io::Errno::FAULT)
    }

    /// Its bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where it starts.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The atomic at `offset`.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        let place = self.at(offset, 4);
        // SAFETY: inside the mapping, aligned as `at` checked, and only ever used as an atomic.
        unsafe { AtomicU32::from_ptr(place.cast()) }
    }

    /// The atomic at `offset`.
    pub(crate) fn long(&self, offset: usize) -> &AtomicU64 {
        let place = self.at(offset, 8);
        // SAFETY: as in `word`.
        unsafe { AtomicU64::from_ptr(place.cast()) }
    }

    /// The bytes at `offset`, which their writer leaves alone as long as the slice is used.
    pub(crate) fn read(&self, offset: usize, len: usize) -> &[u8] {
        assert!(self.holds(offset, len), "{len} bytes at {offset} of {}", self.len);
        // SAFETY: inside the mapping, as just checked.
        let start = unsafe { self.base.add(offset) };
        // SAFETY: as above; unchanged meanwhile by the protocol of who called.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), len) }
    }

    /// Copies `bytes` to `offset`, which nobody else uses at this time.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(self.holds(offset, bytes.len()), "{} bytes at {offset} of {}", bytes.len(), self.len);
        // SAFETY: inside the mapping, which no slice of the caller's overlaps.
        let target = unsafe { self.base.add(offset) };
        // SAFETY: as above; in use by nobody else by the protocol of who called.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target.as_ptr(), bytes.len()) };
    }

    /// Asks for the lines of `len` bytes at `offset` for writing, without waiting for them. A hint.
    pub(crate) fn claim(&self, offset: usize, len: usize) {
        assert!(self.holds(offset, len), "{len} bytes at {offset} of {}", self.len);
        #[cfg(target_arch = "x86_64")]
        for line in (offset..offset + len).step_by(LINE_BYTES) {
            // SAFETY: inside the mapping, as just checked.
            let line = unsafe { self.base.add(line) };
            // SAFETY: a hint that reads and writes nothing; where the processor does not know it, it does nothing.
            unsafe {
                std::arch::asm!("prefetchw [{}]", in(reg) line.as_ptr(), options(nostack, preserves_flags));
            }
        }
    }

    /// Whether `len` bytes at `offset` lie inside.
    pub(crate) fn holds(&self, offset: usize, len: usize) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.len)
    }

    fn at(&self, offset: usize, bytes: usize) -> *mut u8 {
        assert!(self.holds(offset, bytes) && offset.is_multiple_of(bytes), "an atomic at {offset}");
        // SAFETY: inside the mapping, as just checked; the mapping itself is page-aligned.
        unsafe { self.base.add(offset).as_ptr() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.whole.is_some() {
            return;
        }
        // SAFETY: `new` made this mapping, and neither slices nor parts of it can outlive it.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_are_one_memory() {
        let fd = memfd("a test").unwrap();
        reserve(&fd, 0, 2 * PAGE_BYTES, "a test").unwrap();
        let (one, other) = (
            Mapping::new(&fd, 0, 2 * PAGE_BYTES, "").unwrap(),
            Mapping::new(&fd, PAGE_BYTES, PAGE_BYTES, "").unwrap(),
        );
        one.write(PAGE_BYTES + 3, b"shared");
        assert_eq!(other.read(3, 6), b"shared");
        assert!(is_safe(&fd, 2 * PAGE_BYTES) && !is_safe(&fd, 3 * PAGE_BYTES));
        discard(&fd, 2 * PAGE_BYTES);
        assert_eq!(other.read(3, 6), [0; 6]);
    }

    #[test]
    fn what_comes_to_exist_is_seen_without_the_descriptor() {
        let fd = memfd("a test").unwrap();
        reserve(&fd, 0, PAGE_BYTES, "a test").unwrap();
        let whole = Arc::new(Mapping::with_room(&fd, 4 * PAGE_BYTES, "a test").unwrap());
        assert!(whole.exists(0) && !whole.exists(PAGE_BYTES));
        assert!(whole.part(3 * PAGE_BYTES, 2 * PAGE_BYTES).is_none());
        let part = whole.part(PAGE_BYTES, 2 * PAGE_BYTES).unwrap();
        reserve(&fd, PAGE_BYTES, 2 * PAGE_BYTES, "a test").unwrap();
        Mapping::new(&fd, 0, 3 * PAGE_BYTES, "a test").unwrap().write(PAGE_BYTES + 7, b"late");
        drop((fd, whole));
        assert!(part.exists(PAGE_BYTES) && part.read(7, 4) == b"late");
    }

    /// Pure: a test must never ask the kernel for what is not there.
    #[test]
    fn what_is_not_there_is_refused() {
        assert_eq!(refusal(0, 100, None, 100), None);
        assert!(refusal(0, 101, None, 100).unwrap().contains("100 bytes are available"));
        assert!(refusal(usize::MAX, 1, None, 0).is_some());
        assert!(refusal(50, 51, Some(100), 1000).unwrap().contains("ulimit -f"));
        assert_eq!(refusal(50, 50, Some(100), 1000), None);
    }

    #[test]
    fn a_mapping_that_does_not_fit_says_how_much_was_wanted() {
        let fd = memfd("a test").unwrap();
        let text = Mapping::new(&fd, 0, 1 << 60, "a test").unwrap_err().to_string();
        assert!(text.contains(&(1_usize << 60).to_string()) && text.contains("a test"), "{text}");
    }
}
