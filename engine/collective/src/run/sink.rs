//! Where a received part goes: stored in the operation's buffers, or reduced into them as it comes.

use crate::collective::plan::{Outcome, Part};
use crate::error::Error;
use crate::kernels::{Reducer, Shape};
use crate::memory::{Buffers, Span};
use crate::transport::Sink;

/// One part's target.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    buffers: &'a mut Buffers,
    reducer: Reducer,
    part: &'a Part,
    grain: usize,
    error: Option<Error>,
}

impl<'a> Target<'a> {
    /// For `part` of an operation over `buffers`.
    pub(crate) fn new(buffers: &'a mut Buffers, reducer: Reducer, part: &'a Part) -> Self {
        let grain = match part.outcome {
            Outcome::Store => 1,
            Outcome::Reduce { shape, .. } => reducer.bytes(shape.data),
        };
        Self { buffers, reducer, part, grain, error: None }
    }

    /// What went wrong, which the transport is not told.
    pub(crate) fn error(self) -> Option<Error> {
        self.error
    }

    fn reduce(&mut self, offset: usize, bytes: &[u8], with: Span, shape: Shape) -> Result<(), Error> {
        let (first, count) = (offset / self.grain, bytes.len() / self.grain);
        let piece =
            |span: Span, size: usize| Span { offset: span.offset + first * size, len: count * size, ..span };
        let into = piece(self.part.into, self.reducer.bytes(shape.into));
        let with = piece(with, self.reducer.bytes(shape.with));
        self.buffers.reduce(self.reducer, shape, into, with, bytes)
    }

    fn store(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let into = Span { offset: self.part.into.offset + offset, len: bytes.len(), ..self.part.into };
        self.buffers.write(into)?.copy_from_slice(bytes);
        Ok(())
    }
}

impl Sink for Target<'_> {
    fn take(&mut self, offset: usize, bytes: &[u8]) {
        let taken = match self.part.outcome {
            Outcome::Store => self.store(offset, bytes),
            Outcome::Reduce { with, shape } => self.reduce(offset, bytes, with, shape),
        };
        if let Err(error) = taken {
            self.error.get_or_insert(error);
        }
    }

    fn space(&mut self, offset: usize) -> Option<&mut [u8]> {
        if self.part.outcome != Outcome::Store {
            return None;
        }
        let into = self.part.into;
        let rest = Span { offset: into.offset + offset, len: into.len.checked_sub(offset)?, ..into };
        self.buffers.write(rest).ok()
    }

    fn filled(&mut self, _offset: usize, _len: usize) {}

    fn grain(&self) -> usize {
        self.grain
    }
}
