//! Open-addressed tables of the segment, whose entries say by a key of [`link_key`] of which communicator they are. An entry
//! stays its key's until the communicator's slot is used again.
//!
//! [`link_key`]: ringscope_wire::segment::layout::link_key

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use ringscope_wire::segment::Segment;

use crate::segment::room;

/// Key of an entry whose communicator's slot has been used again. Readers skip it (bit 63 is 0).
const CLEARED: u64 = 1;
/// Regions of a table that say whether they were ever used.
const REGIONS: usize = 64;

/// Such a table.
pub(super) struct Keyed<'a, T> {
    pub(super) entries: &'a [T],
    /// A bit for each of its [`REGIONS`].
    pub(super) regions: &'a AtomicU64,
    pub(super) key_of: fn(&T) -> &AtomicU64,
    /// Entries looked at before a key is given up: at half load a search rarely passes ten.
    pub(super) max_probes: usize,
}

impl<T> Keyed<'_, T> {
    /// Index of the entry of this key, which is taken if there is none. `None` where the table is full or has no page.
    /// Nobody else may insert the same key.
    #[inline(always)]
    pub(super) fn find_or_insert(&self, segment: &Segment, key: u64) -> Option<usize> {
        let mut cleared = None;
        for index in self.indices(key) {
            // A search may lead from one page to the next.
            if !room::ensure(segment, &self.entries[index]) {
                break;
            }
            match self.key_at(index).load(Acquire) {
                known if known == key => return Some(index),
                CLEARED => cleared = cleared.or(Some(index)),
                0 => {
                    if let Some(index) = cleared.take().filter(|index| self.take(*index, CLEARED, key)) {
                        return Some(index);
                    }
                    if self.take(index, 0, key) {
                        return Some(index);
                    }
                }
                _ => {}
            }
        }
        cleared.filter(|index| self.take(*index, CLEARED, key))
    }

    fn key_at(&self, index: usize) -> &AtomicU64 {
        (self.key_of)(&self.entries[index])
    }

    fn take(&self, index: usize, from: u64, key: u64) -> bool {
        self.regions.fetch_or(1 << (index * REGIONS / self.entries.len()), Relaxed);
        self.key_at(index).compare_exchange(from, key, AcqRel, Relaxed).is_ok()
    }

    fn indices(&self, key: u64) -> impl Iterator<Item = usize> {
        // Fibonacci hashing; the high bits are the mixed ones.
        let start = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        let n = self.entries.len();
        (start..start + self.max_probes).map(move |index| index % n)
    }

    /// Frees the entries of a slot that is used again, of which `empty` clears all but the key.
    pub(super) fn clear(&self, segment: &Segment, slot: usize, empty: impl Fn(&T)) {
        let regions = self.regions.load(Relaxed);
        let chunks = self.entries.chunks(self.entries.len() / REGIONS).enumerate();
        let used = chunks.filter(|(region, _)| regions >> region & 1 != 0);
        for entry in used.flat_map(|(_, entries)| entries) {
            let key = (self.key_of)(entry);
            if !room::is_given(segment, key) {
                continue;
            }
            let known = key.load(Relaxed);
            if known >> 63 == 1 && (known >> 36 & 0xfff) as usize == slot {
                empty(entry);
                key.store(CLEARED, Release);
            }
        }
    }
}
