//! Regions of registered memory, parts of them, and addresses of a peer's.

use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::memory::gpu::GpuMemory;
use crate::memory::map::{Mapping, WORD_BYTES};

/// Regions begin and end at multiples of it; the arenas' larger blocks begin at them.
pub const PAGE_BYTES: u64 = 4096;

/// Behind the memory of a region: a page in which its owner says that it was taken back.
const TAIL_BYTES: usize = 4096;

/// Memory of this process that a peer may write and read. Clones are the same memory.
#[derive(Clone, Debug)]
pub struct Region {
    memory: Memory,
    key: u64,
}

/// What a region is made of.
#[derive(Clone, Debug)]
enum Memory {
    /// This machine's.
    Host(Arc<Mapping>),
    /// A GPU's.
    Gpu(Arc<dyn GpuMemory>),
}

/// Some bytes of a region.
#[derive(Clone, Debug)]
pub struct Part {
    region: Region,
    range: Range<usize>,
}

/// A place in a peer's registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Which region of the peer's: whatever its device takes for that.
    pub key: u64,
    /// Bytes from the region's beginning.
    pub offset: u64,
}

impl Region {
    /// New memory of at least `size_bytes`, zeros, which no device knows yet.
    ///
    /// # Errors
    /// There is not as much memory.
    pub fn new(size_bytes: u64) -> Result<Self> {
        let whole = size_bytes
            .max(1)
            .checked_next_multiple_of(PAGE_BYTES)
            .and_then(|whole| usize::try_from(whole).ok());
        let whole = whole.ok_or_else(|| Error::Usage(format!("a region of {size_bytes} bytes")))?;
        let len = whole
            .checked_add(TAIL_BYTES)
            .ok_or_else(|| Error::Usage(format!("a region of {size_bytes} bytes")))?;
        Ok(Self { memory: Memory::Host(Arc::new(Mapping::new(len, "registered memory")?)), key: 0 })
    }

    /// Memory of a GPU, which no device knows yet.
    pub fn of_gpu(memory: Arc<dyn GpuMemory>) -> Self {
        Self { memory: Memory::Gpu(memory), key: 0 }
    }

    /// The GPU's memory that it is, if it is.
    pub fn gpu(&self) -> Option<&dyn GpuMemory> {
        match &self.memory {
            Memory::Host(_) => None,
            Memory::Gpu(memory) => Some(memory.as_ref()),
        }
    }

    /// The same memory under the key that a device has for it.
    #[must_use]
    pub fn with_key(&self, key: u64) -> Self {
        Self { memory: self.memory.clone(), key }
    }

    /// Takes it back: whoever has it mapped is to leave it alone.
    pub(crate) fn revoke(&self) {
        if let Memory::Host(map) = &self.memory {
            map.word(map.len() - TAIL_BYTES).store(1, Ordering::Release);
        }
    }

    /// Whether its owner has taken it back.
    pub(crate) fn is_revoked(&self) -> bool {
        match &self.memory {
            Memory::Host(map) => map.word(map.len() - TAIL_BYTES).load(Ordering::Acquire) != 0,
            Memory::Gpu(_) => false,
        }
    }

    /// A peer's memory on this host.
    pub(crate) fn of_peer(fd: OwnedFd, mapped_bytes: u64, key: u64) -> Result<Self> {
        match usize::try_from(mapped_bytes) {
            Ok(len) if len > TAIL_BYTES && len.is_multiple_of(TAIL_BYTES) => {
                Ok(Self { memory: Memory::Host(Arc::new(Mapping::of_peer(fd, len)?)), key })
            }
            _ => Err(Error::Usage(format!("memory of {mapped_bytes} bytes"))),
        }
    }

    /// Whether both are the same memory, under whatever keys.
    pub(crate) fn is_same_memory(&self, other: &Self) -> bool {
        match (&self.memory, &other.memory) {
            (Memory::Host(one), Memory::Host(other)) => Arc::ptr_eq(one, other),
            (Memory::Gpu(one), Memory::Gpu(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// What the peer calls it.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Its bytes.
    pub fn size_bytes(&self) -> u64 {
        match &self.memory {
            Memory::Host(map) => (map.len() - TAIL_BYTES) as u64,
            Memory::Gpu(memory) => memory.size_bytes(),
        }
    }

    /// Where it begins in this process; a GPU's does not.
    pub fn base(&self) -> Option<NonNull<u8>> {
        match &self.memory {
            Memory::Host(map) => Some(map.base()),
            Memory::Gpu(_) => None,
        }
    }

    /// What a process of this host maps, and its bytes, of which the last page is the owner's; of a GPU's memory nothing.
    pub(crate) fn to_map(&self) -> Option<(BorrowedFd<'_>, u64)> {
        match &self.memory {
            Memory::Host(map) => Some((map.fd(), map.len() as u64)),
            Memory::Gpu(_) => None,
        }
    }

    fn map(&self) -> Result<&Mapping> {
        match &self.memory {
            Memory::Host(map) => Ok(map),
            Memory::Gpu(_) => Err(Error::Usage("memory of a GPU is not reached from here".to_owned())),
        }
    }

    /// `bytes` bytes of it from `offset` on.
    ///
    /// # Errors
    /// They lie outside.
    pub fn part(&self, offset: u64, bytes: u64) -> Result<Part> {
        let outside = || Error::OutOfBounds {
            peer: "this process".to_owned(),
            key: self.key,
            offset,
            bytes,
            size_bytes: self.size_bytes(),
        };
        let (start, len) =
            usize::try_from(offset).ok().zip(usize::try_from(bytes).ok()).ok_or_else(outside)?;
        if offset.checked_add(bytes).is_none_or(|end| end > self.size_bytes()) {
            return Err(outside());
        }
        Ok(Part { region: self.clone(), range: start..start + len })
    }
}

impl Part {
    /// The region that it is a part of.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Bytes from the region's beginning.
    pub fn offset(&self) -> u64 {
        self.range.start as u64
    }

    /// How many they are.
    pub fn size_bytes(&self) -> u64 {
        self.range.len() as u64
    }

    /// What a peer calls its beginning.
    pub fn address(&self) -> Address {
        Address { key: self.region.key, offset: self.offset() }
    }

    /// A part of this part.
    ///
    /// # Errors
    /// It lies outside.
    pub fn part(&self, offset: u64, bytes: u64) -> Result<Self> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.size_bytes() => self.region.part(self.offset() + offset, bytes),
            _ => Err(Error::Usage(format!(
                "{bytes} bytes at {offset} of a part of {} bytes",
                self.size_bytes()
            ))),
        }
    }

    /// Whether both share a byte.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.region.is_same_memory(&other.region)
            && self.range.start < other.range.end
            && other.range.start < self.range.end
    }

    /// The bytes; none of a GPU's memory. For devices and tests: whoever reads them has seen the flag that says that nobody
    /// writes them.
    pub fn bytes(&self) -> &[u8] {
        self.region.map().map_or(&[], |map| map.read(self.range.start, self.range.len()))
    }

    /// The bytes, to be written: nobody else uses them meanwhile.
    pub(crate) fn bytes_mut(&self) -> &mut [u8] {
        self.region.map().map_or(&mut [], |map| map.write(self.range.start, self.range.len()))
    }

    /// A copy of the bytes, of a GPU's memory too.
    ///
    /// # Errors
    /// The GPU's driver's.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let Some(gpu) = self.region.gpu() else { return Ok(self.bytes().to_vec()) };
        let mut bytes = vec![0; self.range.len()];
        gpu.copy_out(self.offset(), &mut bytes)?;
        Ok(bytes)
    }

    /// Puts bytes at its beginning, the last word of them last: who sees it by [`Part::word`] sees all of them.
    ///
    /// # Errors
    /// There are more bytes than there is room, or the GPU's driver's.
    pub fn place(&self, bytes: &[u8]) -> Result<()> {
        if bytes.len() > self.range.len() {
            return Err(Error::Usage(format!("{} bytes do not fit {}", bytes.len(), self.range.len())));
        }
        match &self.region.memory {
            Memory::Host(map) => map.place(self.range.start, bytes),
            Memory::Gpu(memory) => memory.copy_in(self.offset(), bytes)?,
        }
        Ok(())
    }

    /// The word at its beginning, as a peer has left it; with everything that was placed before.
    ///
    /// # Errors
    /// There is no word: it does not begin at a multiple of 8, or is shorter.
    pub fn word(&self) -> Result<u64> {
        Ok(self.atomic()?.load(Ordering::Acquire))
    }

    /// Sets the word at its beginning, behind everything that was written before.
    ///
    /// # Errors
    /// As of [`Part::word`].
    pub fn set_word(&self, value: u64) -> Result<()> {
        self.atomic()?.store(value, Ordering::Release);
        Ok(())
    }

    fn atomic(&self) -> Result<&AtomicU64> {
        if self.range.len() < WORD_BYTES || !self.range.start.is_multiple_of(WORD_BYTES) {
            return Err(Error::Usage(format!(
                "a word of {} bytes at {}",
                self.range.len(),
                self.range.start
            )));
        }
        Ok(self.region.map()?.word(self.range.start))
    }
}
