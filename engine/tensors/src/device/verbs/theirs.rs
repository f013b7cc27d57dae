//! What the peer has told of its memory. Pure.

use std::collections::{BTreeMap, VecDeque};

/// Keys that were taken back and are remembered: those of which a read may still be asked for. A key that is older counts as
/// one of which no word has come.
const MOST_REVOKED: usize = 1 << 10;

/// The peer's memory by its keys.
#[derive(Debug, Default)]
pub(super) struct Theirs {
    /// Where it begins, and its bytes.
    memory: BTreeMap<u64, (u64, u64)>,
    /// Keys that were taken back, oldest first.
    revoked: VecDeque<u64>,
}

impl Theirs {
    /// Memory was registered; a NIC may give a key out again.
    pub(super) fn register(&mut self, key: u64, address: u64, size_bytes: u64) {
        self.memory.insert(key, (address, size_bytes));
        self.revoked.retain(|revoked| *revoked != key);
    }

    /// It was taken back.
    pub(super) fn revoke(&mut self, key: u64) {
        if self.memory.remove(&key).is_none() {
            return;
        }
        if self.revoked.len() == MOST_REVOKED {
            self.revoked.pop_front();
        }
        self.revoked.push_back(key);
    }

    /// Where the memory begins, and its bytes, while it is registered.
    pub(super) fn memory(&self, key: u64) -> Option<(u64, u64)> {
        self.memory.get(&key).copied()
    }

    /// Whether it is known that the memory is there, or that it is no more.
    pub(super) fn has_word(&self, key: u64) -> bool {
        self.memory.contains_key(&key) || self.revoked.contains(&key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_taken_back_is_told_from_memory_of_which_no_word_has_come() {
        let mut theirs = Theirs::default();
        theirs.register(1, 4096, 64);
        assert_eq!((theirs.memory(1), theirs.has_word(1)), (Some((4096, 64)), true));
        assert_eq!((theirs.memory(2), theirs.has_word(2)), (None, false));
        theirs.revoke(1);
        theirs.revoke(1);
        assert_eq!((theirs.memory(1), theirs.has_word(1)), (None, true));
        theirs.register(1, 8192, 32);
        assert_eq!(theirs.memory(1), Some((8192, 32)));
        // What is remembered has a bound.
        for key in 1..=2 * MOST_REVOKED as u64 {
            theirs.register(key, 0, 1);
            theirs.revoke(key);
        }
        assert_eq!(theirs.revoked.len(), MOST_REVOKED);
        assert!(!theirs.has_word(1) && theirs.has_word(2 * MOST_REVOKED as u64));
    }
}
