//! What a rank's buffers hold on one channel while the data flow is followed: a log of the latest writes.
//!
//! Only what is in flight is kept, so that 16 384 ranks fit: the last writes up to a bound, older ones that were not read
//! whole, and of the receive buffer which parts have their result. A result is checked when it is written and is not kept;
//! reading it gives it again. Whoever reads partial results a second time, when they are older than the log, gets an error,
//! not a guess: a ring leaves 16 384 of them on each rank, and to remember those of all ranks would take 20 GB.

use std::collections::{BTreeMap, VecDeque};

use super::time::Picos;
use super::value::{Data, Meaning, Piece};
use crate::collective::schedule::Chunk;
use crate::memory::Place;

/// What is wrong with the data flow at one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Wrong {
    /// The range was never written, or so long ago that it is forgotten.
    #[error("{0:?} is read, and nothing that is remembered was written there")]
    Unwritten(Chunk),
    /// Other contributions, or of other elements, than the operation promises.
    #[error("{0:?} is not the result that belongs there: a contribution is missing, doubled or misplaced")]
    NotTheResult(Chunk),
    /// Operands that are not the same elements.
    #[error("{0:?} is reduced with other elements than its own")]
    Misaligned(Chunk),
}

/// One rank's buffers, as one channel uses them.
#[derive(Debug)]
pub(super) struct Memory {
    rank: usize,
    /// Latest last; `data[i]` is what `writes[i]` wrote.
    writes: VecDeque<Write>,
    data: VecDeque<Data>,
    bound: usize,
    /// When everything that was forgotten was over.
    forgotten_at: Picos,
    /// Ranges of the receive buffer that have their result: end by start; and the one that grew last.
    results: BTreeMap<usize, usize>,
    growing: (usize, usize),
}

/// Small, since every write looks through all of them.
#[derive(Clone, Copy, Debug)]
struct Write {
    chunk: Chunk,
    written_at: Picos,
    /// When it was written and the last read of it is over.
    over_at: Picos,
    /// Elements that were not read; none of a result, which needs no remembering.
    unread: usize,
}

impl Memory {
    /// Nothing written yet; remembers `bound` writes, and more where they were not read whole.
    pub(super) fn new(rank: usize, bound: usize) -> Self {
        Self {
            rank,
            writes: VecDeque::new(),
            data: VecDeque::new(),
            bound,
            forgotten_at: 0,
            results: BTreeMap::new(),
            growing: (0, 0),
        }
    }

    /// What `chunk` holds, and since when.
    pub(super) fn read(&self, chunk: Chunk, meaning: &Meaning) -> Result<(Data, Picos), Wrong> {
        if let (Some(write), Some(data)) = (self.writes.back(), self.data.back())
            && write.chunk == chunk
        {
            return Ok((data.clone(), write.written_at));
        }
        let (mut data, mut ready) = (Data::default(), 0);
        let mut left = chunk;
        while left.len > 0 {
            let (len, since) = self.read_some(left, meaning, &mut data).ok_or(Wrong::Unwritten(left))?;
            ready = ready.max(since);
            left = Chunk { start: left.start + len, len: left.len - len, ..left };
        }
        Ok((data, ready))
    }

    /// `chunk` is being read until `at`, so it is not written before.
    pub(super) fn keep(&mut self, chunk: Chunk, at: Picos) {
        if chunk.place == Place::Send {
            return;
        }
        let mut left = chunk.len;
        for write in self.writes.iter_mut().rev().filter(|write| overlap(write.chunk, chunk) > 0) {
            let read = overlap(write.chunk, chunk);
            write.over_at = write.over_at.max(at);
            write.unread = write.unread.saturating_sub(read);
            left = left.saturating_sub(read);
            if left == 0 {
                break;
            }
        }
    }

    /// From when on `chunk` may be written by what is there at `at`.
    pub(super) fn free_at(&self, chunk: Chunk, at: Picos) -> Picos {
        let in_the_way = |write: &&Write| write.over_at > at && overlap(write.chunk, chunk) > 0;
        let over_at = self.writes.iter().filter(in_the_way).map(|write| write.over_at);
        over_at.fold(at.max(self.forgotten_at), Picos::max)
    }

    /// `data` stand in `chunk` from `at` on. In the receive buffer they must be the result.
    pub(super) fn write(
        &mut self,
        chunk: Chunk,
        data: Data,
        at: Picos,
        meaning: &Meaning,
    ) -> Result<(), Wrong> {
        if chunk.place == Place::Recv {
            self.check(chunk, &data, meaning)?;
            self.add_result(chunk);
        }
        let unread = if chunk.place == Place::Recv { 0 } else { chunk.len };
        self.writes.push_back(Write { chunk, written_at: at, over_at: at, unread });
        self.data.push_back(data);
        if self.writes.len() > self.bound {
            self.forget();
        }
        Ok(())
    }

    /// The ranges of the receive buffer that have their result: start and end.
    pub(super) fn results(&self) -> impl Iterator<Item = (usize, usize)> {
        self.results.iter().map(|(start, end)| (*start, *end)).chain([self.growing])
    }

    /// The beginning of `chunk`: how much of it was read into `data`, and since when it stands there.
    fn read_some(&self, chunk: Chunk, meaning: &Meaning, data: &mut Data) -> Option<(usize, Picos)> {
        if chunk.place == Place::Send {
            let piece = meaning.contribution(self.rank, chunk.start, chunk.len)?;
            data.push(piece);
            return Some((piece.len, 0));
        }
        let mut len = chunk.len;
        let writes = self.writes.iter().zip(&self.data).rev();
        for (write, written) in writes.filter(|(write, _)| write.chunk.place == chunk.place) {
            match chunk.start.checked_sub(write.chunk.start) {
                Some(skip) if skip < write.chunk.len => {
                    let part = written.cut(skip, len);
                    part.pieces().for_each(|piece| data.push(piece));
                    return Some((part.len(), write.written_at));
                }
                // A later write begins inside the range: what is older counts only up to there.
                None => len = len.min(write.chunk.start - chunk.start),
                Some(_) => {}
            }
        }
        let piece = self.old_result(Chunk { len, ..chunk }, meaning)?;
        data.push(piece);
        Some((piece.len, self.forgotten_at))
    }

    fn old_result(&self, chunk: Chunk, meaning: &Meaning) -> Option<Piece> {
        let grown = self.results.range(..=chunk.start).next_back().map(|(_, end)| *end);
        let (start, end) = self.growing;
        let end = if (start..end).contains(&chunk.start) { end } else { grown? };
        let len = end.checked_sub(chunk.start).filter(|_| chunk.place == Place::Recv)?.min(chunk.len);
        meaning.result(self.rank, chunk.start, len).filter(|piece| piece.len > 0)
    }

    fn check(&self, chunk: Chunk, data: &Data, meaning: &Meaning) -> Result<(), Wrong> {
        let mut at = chunk.start;
        for piece in data.pieces() {
            let mut done = 0;
            while done < piece.len {
                let right =
                    meaning.result(self.rank, at, piece.len - done).ok_or(Wrong::NotTheResult(chunk))?;
                if right != piece.cut(done, right.len) {
                    return Err(Wrong::NotTheResult(chunk));
                }
                (done, at) = (done + right.len, at + right.len);
            }
        }
        Ok(())
    }

    /// Forgets the oldest write that was read whole, else one that a later write hides.
    fn forget(&mut self) {
        let is_read = |write: &Write| write.unread == 0;
        let is_hidden = |index: usize| {
            let old = self.writes[index].chunk;
            self.writes.range(index + 1..).any(|write| overlap(write.chunk, old) == old.len)
        };
        let read = self.writes.iter().position(is_read);
        let found = read.or_else(|| (0..self.writes.len()).find(|index| is_hidden(*index)));
        let Some(index) = found else { return };
        self.data.remove(index);
        let Some(forgotten) = self.writes.remove(index) else { return };
        self.forgotten_at = self.forgotten_at.max(forgotten.over_at);
        (0..index).rev().for_each(|older| self.carve(older, forgotten.chunk));
    }

    /// Takes `chunk` out of a write, so that nobody reads there what was overwritten.
    fn carve(&mut self, index: usize, chunk: Chunk) {
        let old = self.writes[index];
        if overlap(old.chunk, chunk) == 0 {
            return;
        }
        let before = chunk.start.saturating_sub(old.chunk.start);
        let after = (old.chunk.start + old.chunk.len).saturating_sub(chunk.start + chunk.len);
        self.writes.remove(index);
        let Some(data) = self.data.remove(index) else { return };
        for (skip, len) in [(old.chunk.len - after, after), (0, before)] {
            if len > 0 {
                let chunk = Chunk { start: old.chunk.start + skip, len, ..old.chunk };
                // Which elements were read is not known, only how many.
                self.writes.insert(index, Write { chunk, unread: old.unread.min(len), ..old });
                self.data.insert(index, data.cut(skip, len));
            }
        }
    }

    fn add_result(&mut self, chunk: Chunk) {
        let added = (chunk.start, chunk.start + chunk.len);
        let (start, end) = &mut self.growing;
        if added.1 == *start {
            *start = added.0;
        } else if added.0 == *end {
            *end = added.1;
        } else {
            let grown = std::mem::replace(&mut self.growing, added);
            self.merge(grown);
        }
    }

    fn merge(&mut self, (mut start, mut end): (usize, usize)) {
        // From behind: the ranges do not overlap, so their ends are in the order of their starts.
        while let Some((&other, &other_end)) = self.results.range(..=end).next_back() {
            if other_end < start {
                break;
            }
            self.results.remove(&other);
            (start, end) = (start.min(other), end.max(other_end));
        }
        self.results.insert(start, end);
    }
}

/// Elements that two chunks share.
pub(super) fn overlap(a: Chunk, b: Chunk) -> usize {
    if a.place != b.place {
        return 0;
    }
    (a.start + a.len).min(b.start + b.len).saturating_sub(a.start.max(b.start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::primitive::Primitive;

    /// A memory that remembers two writes, and its first one: `len` partial sums.
    fn with_partials(len: usize) -> (Memory, Meaning, Chunk) {
        let meaning = Meaning::new(Primitive::AllReduce, 100, 2, 1);
        let mut memory = Memory::new(0, 2);
        let whole = Chunk { place: Place::Partial, start: 0, len };
        memory.write(whole, own(&memory, &meaning, 0, len), 5, &meaning).unwrap();
        (memory, meaning, whole)
    }

    fn own(memory: &Memory, meaning: &Meaning, start: usize, len: usize) -> Data {
        memory.read(Chunk { place: Place::Send, start, len }, meaning).unwrap().0
    }

    #[test]
    fn what_was_not_read_yet_outlives_any_number_of_writes() {
        let (mut memory, meaning, whole) = with_partials(50);
        for start in 0..50 {
            // As a ring between hosts does: part by part, what was there is reduced into a sum, which is sent.
            let part = Chunk { start, len: 1, ..whole };
            let (data, since) = memory.read(part, &meaning).unwrap();
            assert_eq!((data.len(), since), (1, 5), "{start}");
            memory.keep(part, 6);
            memory.write(part, data, 7, &meaning).unwrap();
            memory.keep(part, 8);
        }
        assert!(memory.writes.len() <= 3, "{:?}", memory.writes);
    }

    #[test]
    fn what_was_overwritten_is_not_read_when_the_later_write_is_forgotten() {
        let (mut memory, meaning, whole) = with_partials(50);
        for start in 20..30 {
            let part = Chunk { start, len: 1, ..whole };
            let data = own(&memory, &meaning, start, 1);
            memory.write(part, data, 7, &meaning).unwrap();
            memory.keep(part, 8);
        }
        let overwritten = Chunk { start: 22, len: 1, ..whole };
        assert_eq!(memory.read(overwritten, &meaning), Err(Wrong::Unwritten(overwritten)));
        for (start, len) in [(0, 20), (30, 20)] {
            let rest = Chunk { start, len, ..whole };
            assert_eq!(memory.read(rest, &meaning), Ok((own(&memory, &meaning, start, len), 5)));
        }
    }

    #[test]
    fn what_is_overwritten_unread_does_not_pile_up() {
        let (mut memory, meaning, whole) = with_partials(10);
        for at in 10..1000 {
            let data = own(&memory, &meaning, 0, 10);
            memory.write(whole, data, at, &meaning).unwrap();
        }
        assert_eq!((memory.writes.len(), memory.data.len()), (2, 2));
        assert_eq!(memory.read(whole, &meaning).unwrap().1, 999);
    }
}
