//! Reads of a peer's memory that this end has not been told of: the word of new memory goes over TCP, and what uses it over the
//! NIC, so either may be first. Pure.

use crate::clock::Deadline;
use crate::memory::{Address, Part};

/// Reads that wait at most: of a link's dynamic edges each has one.
pub(super) const MOST_READS: usize = 1 << 16;

/// A read that waits.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) from: Address,
    pub(super) into: Part,
    pub(super) work: u64,
    /// When word of its memory is not waited for any more.
    pub(super) deadline: Deadline,
}

/// Those that wait, oldest first.
#[derive(Debug, Default)]
pub(super) struct Unknown(Vec<Read>);

impl Unknown {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One more, or itself where too many wait.
    pub(super) fn push(&mut self, read: Read) -> Result<(), Box<Read>> {
        if self.0.len() == MOST_READS {
            return Err(Box::new(read));
        }
        self.0.push(read);
        Ok(())
    }

    /// Those of whose memory word has come.
    pub(super) fn take(&mut self, has_word: impl Fn(u64) -> bool) -> Vec<Read> {
        self.0.extract_if(.., |read| has_word(read.from.key)).collect()
    }

    /// The key of the one that has waited longest.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.0.first().map(|read| read.from.key)
    }

    /// The key of one that has waited for too long, which waits no more.
    pub(super) fn overdue(&mut self) -> Option<u64> {
        self.0.extract_if(.., |read| read.deadline.passed()).next().map(|read| read.from.key)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::memory::Region;

    #[test]
    fn reads_wait_until_their_memory_is_known_and_no_longer_than_their_deadline() {
        let into = Region::new(64).unwrap().part(0, 8).unwrap();
        let read = |key, wait| {
            let (from, deadline) = (Address { key, offset: 0 }, Deadline::after(wait));
            Read { from, into: into.clone(), work: key, deadline }
        };
        let mut unknown = Unknown::default();
        unknown.push(read(1, Duration::from_secs(60))).unwrap();
        unknown.push(read(2, Duration::from_secs(60))).unwrap();
        assert!(unknown.take(|_| false).is_empty());
        assert_eq!((unknown.overdue(), unknown.oldest()), (None, Some(1)));
        let known: Vec<u64> = unknown.take(|key| key == 2).iter().map(|read| read.work).collect();
        assert_eq!(known, [2]);
        unknown.push(read(3, Duration::ZERO)).unwrap();
        assert_eq!((unknown.overdue(), unknown.overdue(), unknown.is_empty()), (Some(3), None, false));
    }
}
