//! Fence: memory that processes share, as atomics and slices.
//!
//! Bounds are checked here; who may touch which bytes when is the business of the links above, whose flags and counts keep
//! the writer away from what is read.

#![expect(unsafe_code, reason = "shared mappings are raw memory")]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::error::{Error, Result};
use crate::memory::available;

/// Bytes of a word that is written and read whole.
pub(crate) const WORD_BYTES: usize = 8;

/// A run of shared memory in this process. Shared, not private: a forked child sees the same pages, so none of those that a
/// device writes to is ever copied away from under it.
#[derive(Debug)]
pub(crate) struct Mapping {
    fd: OwnedFd,
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory belongs to no thread; what threads and processes do to it at once is kept apart by the links' flags,
// which are atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// New memory, zeros, all of which exists: a lack of memory is an error here, and no signal at the first touch.
    pub(crate) fn new(len: usize, what: &str) -> Result<Self> {
        let lacking = |why: String| Error::NoMemory { what: what.to_owned(), bytes: len as u64, why };
        let available = available::bytes();
        if len as u64 > available {
            return Err(lacking(format!("{available} bytes are available")));
        }
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("rtensor", flags)
            .map_err(|error| Error::system(format!("memfd_create for {what}"), error))?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::ftruncate(&fd, len as u64)
            .and_then(|()| rustix::fs::fcntl_add_seals(&fd, seals))
            .map_err(|error| lacking(std::io::Error::from(error).to_string()))?;
        while let Err(error) = rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, len as u64) {
            if error != rustix::io::Errno::INTR {
                return Err(lacking(std::io::Error::from(error).to_string()));
            }
        }
        Self::of_fd(fd, len)
    }

    /// A peer's memory, from the descriptor that it sent.
    pub(crate) fn of_peer(fd: OwnedFd, len: usize) -> Result<Self> {
        let sealed = rustix::fs::fcntl_get_seals(&fd).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
        let size = rustix::fs::fstat(&fd).map_or(0, |stat| stat.st_size);
        if !sealed || usize::try_from(size).map_or(true, |size| size < len) {
            return Err(Error::Usage("a peer's memory is smaller than it says, or not sealed".to_owned()));
        }
        Self::of_fd(fd, len)
    }

    fn of_fd(fd: OwnedFd, len: usize) -> Result<Self> {
        let refused = |error| Error::system(format!("cannot map {len} bytes of shared memory"), error);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let base =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, &fd, 0) };
        let base = NonNull::new(base.map_err(refused)?.cast())
            .ok_or_else(|| Error::Usage("mmap gave NULL".to_owned()))?;
        let map = Self { fd, base, len };
        // SAFETY: the range is that of the mapping just made; the advice changes none of its bytes.
        let _ = unsafe { rustix::mm::madvise(map.base.as_ptr().cast(), len, Advice::LinuxPopulateWrite) };
        Ok(map)
    }

    /// To be sent to a peer.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Its bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where it starts.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The word at `offset`, a multiple of 8.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(self.holds(offset, WORD_BYTES) && offset.is_multiple_of(WORD_BYTES), "a word at {offset}");
        // SAFETY: inside the mapping, as just checked.
        let place = unsafe { self.base.add(offset) };
        // SAFETY: aligned as just checked, the mapping itself being page-aligned; all uses at the same time are atomic.
        unsafe { AtomicU64::from_ptr(place.as_ptr().cast()) }
    }

    /// The bytes at `offset`, which their writers leave alone as long as the slice is used.
    pub(crate) fn read(&self, offset: usize, len: usize) -> &[u8] {
        assert!(self.holds(offset, len), "{len} bytes at {offset} of {}", self.len);
        // SAFETY: inside the mapping, as just checked.
        let start = unsafe { self.base.add(offset) };
        // SAFETY: as above; unchanged meanwhile by the protocol of who called.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), len) }
    }

    /// The bytes at `offset`, which nobody else uses as long as the slice is.
    #[expect(
        clippy::mut_from_ref,
        reason = "the memory is shared; who may write where is agreed by the links"
    )]
    pub(crate) fn write(&self, offset: usize, len: usize) -> &mut [u8] {
        assert!(self.holds(offset, len), "{len} bytes at {offset} of {}", self.len);
        // SAFETY: inside the mapping, as just checked.
        let start = unsafe { self.base.add(offset) };
        // SAFETY: as above; in use by nobody else by the protocol of who called.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len) }
    }

    /// Whether `len` bytes at `offset` lie inside.
    pub(crate) fn holds(&self, offset: usize, len: usize) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.len)
    }

    /// Puts bytes at `offset`, the last word of them last: who sees it (by an acquiring load) sees all others.
    pub(crate) fn place(&self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        let (head, tail) = bytes.split_at(bytes.len().saturating_sub(WORD_BYTES));
        match tail.first_chunk() {
            Some(word) if end.is_multiple_of(WORD_BYTES) => {
                self.write(offset, head.len()).copy_from_slice(head);
                self.word(end - WORD_BYTES).store(u64::from_ne_bytes(*word), Ordering::Release);
            }
            _ => self.write(offset, bytes.len()).copy_from_slice(bytes),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `of_fd` made this mapping, and no slice of it can outlive it.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// A slice of bytes as elements of a plain type, where alignment and length fit.
pub(crate) fn floats(bytes: &[u8]) -> Option<&[f32]> {
    // SAFETY: every pattern of bits is an f32.
    let (before, floats, after) = unsafe { bytes.align_to() };
    (before.is_empty() && after.is_empty()).then_some(floats)
}

/// The same, to be written.
pub(crate) fn floats_mut(bytes: &mut [u8]) -> Option<&mut [f32]> {
    // SAFETY: every pattern of bits is an f32, and every f32 is bytes.
    let (before, floats, after) = unsafe { bytes.align_to_mut() };
    (before.is_empty() && after.is_empty()).then_some(floats)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_are_one_memory() {
        let own = Mapping::new(8192, "a test").unwrap();
        let peer = Mapping::of_peer(own.fd().try_clone_to_owned().unwrap(), 8192).unwrap();
        peer.place(5, b"shared");
        assert_eq!(own.read(5, 6), b"shared");
        peer.place(96, &[7; 32]);
        assert_eq!(own.word(120).load(Ordering::Acquire), 0x0707_0707_0707_0707);
        assert_eq!(own.read(96, 32), [7; 32]);
    }

    #[test]
    fn a_mapping_that_does_not_fit_is_refused() {
        let own = Mapping::new(4096, "a test").unwrap();
        assert!(Mapping::of_peer(own.fd().try_clone_to_owned().unwrap(), 4097).is_err());
        let text = Mapping::new(1 << 50, "a test").unwrap_err().to_string();
        assert!(text.contains("a test") && text.contains("available"), "{text}");
    }
}
