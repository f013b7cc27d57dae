//! Arenas: a region whose blocks come and go while the program runs. Everything was registered once.
//!
//! First fit: the lowest free piece that is large enough. Neighbours that are free are one piece, so what was given back
//! in any order can be had in one piece again.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::memory::region::{PAGE_BYTES, Part, Region};

/// Blocks begin at multiples of it: a cache line, so that no two blocks share one.
pub const LINE_BYTES: u64 = 64;

/// Which bytes of so many are in use. Pure.
#[derive(Clone, Debug)]
pub struct FreeList {
    size_bytes: u64,
    /// Free pieces: beginning and bytes.
    free: BTreeMap<u64, u64>,
    /// Blocks: beginning and bytes.
    used: BTreeMap<u64, u64>,
    used_bytes: u64,
    peak_bytes: u64,
}

/// A region with a [`FreeList`].
#[derive(Debug)]
pub struct Arena {
    name: String,
    region: Region,
    list: FreeList,
}

impl FreeList {
    /// All of `size_bytes` is free.
    pub fn new(size_bytes: u64) -> Self {
        Self {
            size_bytes,
            free: BTreeMap::from([(0, size_bytes)]),
            used: BTreeMap::new(),
            used_bytes: 0,
            peak_bytes: 0,
        }
    }

    /// A block of `bytes`, of a line at least; none where no free piece is large enough. From a page on it begins at a page.
    pub fn take(&mut self, bytes: u64) -> Option<u64> {
        let wanted = bytes.max(1).checked_next_multiple_of(LINE_BYTES)?;
        let align = if wanted >= PAGE_BYTES { PAGE_BYTES } else { LINE_BYTES };
        let (start, len, offset) = self.free.iter().find_map(|(start, len)| {
            let offset = start.next_multiple_of(align);
            (offset.checked_add(wanted)? <= start + len).then_some((*start, *len, offset))
        })?;
        self.free.remove(&start);
        if offset > start {
            self.free.insert(start, offset - start);
        }
        let (end, whole) = (offset + wanted, start + len);
        if whole > end {
            self.free.insert(end, whole - end);
        }
        self.used.insert(offset, wanted);
        self.used_bytes += wanted;
        self.peak_bytes = self.peak_bytes.max(self.used_bytes);
        Some(offset)
    }

    /// Gives the block at `offset` back; whether there was one.
    pub fn give_back(&mut self, offset: u64) -> bool {
        let Some(bytes) = self.used.remove(&offset) else { return false };
        self.used_bytes -= bytes;
        let (mut start, mut end) = (offset, offset + bytes);
        if let Some((before, len)) = self.free.range(..offset).next_back().map(|(start, len)| (*start, *len))
            && before + len == start
        {
            self.free.remove(&before);
            start = before;
        }
        if let Some(len) = self.free.remove(&end) {
            end += len;
        }
        self.free.insert(start, end - start);
        true
    }

    /// Bytes in use.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// The most bytes that were in use at a time.
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// Bytes of the largest free piece.
    pub fn largest_bytes(&self) -> u64 {
        self.free.values().copied().max().unwrap_or(0)
    }
}

impl Arena {
    /// All of the region is free. `name` is what errors call it.
    pub fn new(name: impl Into<String>, region: Region) -> Self {
        Self { name: name.into(), list: FreeList::new(region.size_bytes()), region }
    }

    /// A block of `bytes` bytes.
    ///
    /// # Errors
    /// No free piece is large enough.
    pub fn take(&mut self, bytes: u64) -> Result<Part> {
        let Some(offset) = self.list.take(bytes) else {
            return Err(Error::Exhausted {
                arena: self.name.clone(),
                wanted_bytes: bytes,
                used_bytes: self.list.used_bytes,
                size_bytes: self.list.size_bytes,
                largest_bytes: self.list.largest_bytes(),
            });
        };
        self.region.part(offset, bytes)
    }

    /// Gives a block back that [`Arena::take`] gave.
    pub fn give_back(&mut self, block: &Part) {
        let known = self.list.give_back(block.offset());
        debug_assert!(known, "a block of {} that is not in use", self.name);
    }

    /// Whether a block lies in it.
    pub fn holds(&self, block: &Part) -> bool {
        self.region.is_same_memory(block.region())
    }

    /// Which of its bytes are in use.
    pub fn list(&self) -> &FreeList {
        &self.list
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn blocks_never_overlap_and_all_comes_back(steps in prop::collection::vec((0..20_000_u64, any::<bool>()), 1..200)) {
            let mut list = FreeList::new(200_000);
            let mut blocks: Vec<(u64, u64)> = Vec::new();
            for (bytes, gives) in steps {
                if gives && !blocks.is_empty() {
                    let (offset, _) = blocks.swap_remove(usize::try_from(bytes).unwrap() % blocks.len());
                    prop_assert!(list.give_back(offset) && !list.give_back(offset));
                } else if let Some(offset) = list.take(bytes) {
                    let align = if bytes >= PAGE_BYTES { PAGE_BYTES } else { LINE_BYTES };
                    prop_assert!(offset % align == 0 && offset + bytes <= 200_000);
                    prop_assert!(blocks.iter().all(|(start, len)| offset >= start + len || offset + bytes <= *start));
                    blocks.push((offset, bytes));
                }
            }
            for (offset, _) in blocks {
                list.give_back(offset);
            }
            prop_assert_eq!((list.used_bytes(), list.largest_bytes()), (0, 200_000));
        }
    }

    #[test]
    fn an_arena_that_is_full_says_what_is_left() {
        let mut arena = Arena::new("the arena of a test", Region::new(8192).unwrap());
        let first = arena.take(4096).unwrap();
        arena.take(1).unwrap();
        let text = arena.take(4096).unwrap_err().to_string();
        assert!(
            text.contains("the arena of a test has no 4096 bytes") && text.contains("4160 of 8192"),
            "{text}"
        );
        arena.give_back(&first);
        assert_eq!(arena.take(4096).unwrap().offset(), 0);
        assert_eq!(arena.list().peak_bytes(), 4160);
    }
}
