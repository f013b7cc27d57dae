//! Which earlier accesses a new access to memory must wait for: writes for earlier reads and writes, reads for earlier
//! writes.
//!
//! Addresses lie on one axis on which buffers that are the same memory overlap, so work in place needs no rules of its
//! own. A read also knows what it looks for: where the last write came through another name of the same memory, the
//! value that the schedule meant is gone, and that is a [`Clobbered`].

use std::collections::BTreeMap;
use std::ops::Range;

use crate::memory::Place;

/// A slice's place: its queue and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// Which queue.
    pub(crate) queue: u32,
    /// Which slice of it.
    pub(crate) index: u32,
}

/// A read found the memory overwritten through another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clobbered;

/// What a slice waits for: per queue, how many of its slices must be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits(Vec<(u32, u32)>);

/// The accesses so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hazards {
    /// By start; they do not overlap.
    segments: BTreeMap<u64, Segment>,
}

#[derive(Clone, Debug)]
struct Segment {
    end: u64,
    writer: Option<(Access, Place)>,
    /// Since the last write; the latest of each queue.
    readers: Vec<Access>,
}

impl Waits {
    /// In no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        self.0.iter().copied()
    }

    /// Waits for `on` and all before it in its queue.
    fn add(&mut self, on: Access) {
        match self.0.iter_mut().find(|(queue, _)| *queue == on.queue) {
            Some((_, count)) => *count = (*count).max(on.index + 1),
            None => self.0.push((on.queue, on.index + 1)),
        }
    }

    /// Queues run in order, so a slice never needs to wait for its own.
    pub(crate) fn forget(&mut self, queue: u32) {
        self.0.retain(|(other, _)| *other != queue);
    }
}

impl Hazards {
    /// `by` reads `range` under the name `place`.
    pub(crate) fn read(
        &mut self,
        range: Range<u64>,
        place: Place,
        by: Access,
        waits: &mut Waits,
    ) -> Result<(), Clobbered> {
        self.split(range.start);
        self.split(range.end);
        let mut at = range.start;
        let mut gaps = Vec::new();
        for (start, segment) in self.segments.range_mut(range.clone()) {
            if at < *start {
                gaps.push(at..*start);
            }
            at = segment.end;
            if let Some((writer, name)) = segment.writer {
                if name != place {
                    return Err(Clobbered);
                }
                waits.add(writer);
            }
            segment.read_by(by);
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        for gap in gaps {
            self.segments.insert(gap.start, Segment { end: gap.end, writer: None, readers: vec![by] });
        }
        Ok(())
    }

    /// `by` writes `range` under the name `place`.
    pub(crate) fn write(&mut self, range: Range<u64>, place: Place, by: Access, waits: &mut Waits) {
        if range.is_empty() {
            return;
        }
        self.split(range.start);
        self.split(range.end);
        let overwritten: Vec<u64> = self.segments.range(range.clone()).map(|(start, _)| *start).collect();
        for segment in overwritten.iter().filter_map(|start| self.segments.remove(start)) {
            segment.readers.iter().for_each(|reader| waits.add(*reader));
            segment.writer.iter().for_each(|(writer, _)| waits.add(*writer));
        }
        let segment = Segment { end: range.end, writer: Some((by, place)), readers: Vec::new() };
        self.segments.insert(range.start, segment);
    }

    /// Makes `at` a boundary, if it lies inside a segment.
    fn split(&mut self, at: u64) {
        let Some((_, segment)) = self.segments.range_mut(..at).next_back() else { return };
        if segment.end > at {
            let tail = segment.clone();
            segment.end = at;
            self.segments.insert(at, tail);
        }
    }
}

impl Segment {
    fn read_by(&mut self, by: Access) {
        match self.readers.iter_mut().find(|reader| reader.queue == by.queue) {
            Some(reader) => *reader = by,
            None => self.readers.push(by),
        }
    }
}
