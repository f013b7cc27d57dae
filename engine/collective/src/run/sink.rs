//! Where a received slice goes: stored in the operation's buffers, or reduced into them as it comes.

use crate::collective::plan::{Outcome, Slice};
use crate::error::Error;
use crate::kernels::{Reducer, Shape};
use crate::memory::{Buffers, Span};
use crate::transport::Sink;

/// One slice's target.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    buffers: &'a mut Buffers,
    reducer: Reducer,
    slice: &'a Slice,
    grain: usize,
    error: Option<Error>,
}

impl<'a> Target<'a> {
    /// For `slice` of an operation over `buffers`.
    pub(crate) fn new(buffers: &'a mut Buffers, reducer: Reducer, slice: &'a Slice) -> Self {
        let grain = match slice.outcome {
            Outcome::Store => 1,
            Outcome::Reduce { shape, .. } => reducer.bytes(shape.data),
        };
        Self { buffers, reducer, slice, grain, error: None }
    }

    /// What went wrong, which the transport is not told.
    pub(crate) fn error(self) -> Option<Error> {
        self.error
    }

    fn reduce(&mut self, offset: usize, bytes: &[u8], with: Span, shape: Shape) -> Result<(), Error> {
        let (first, count) = (offset / self.grain, bytes.len() / self.grain);
        let piece =
            |span: Span, size: usize| Span { offset: span.offset + first * size, len: count * size, ..span };
        let into = piece(self.slice.into, self.reducer.bytes(shape.into));
        let with = piece(with, self.reducer.bytes(shape.with));
        self.buffers.reduce(self.reducer, shape, into, with, bytes)
    }

    fn store(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let into = Span { offset: self.slice.into.offset + offset, len: bytes.len(), ..self.slice.into };
        self.buffers.write(into)?.copy_from_slice(bytes);
        Ok(())
    }
}

impl Sink for Target<'_> {
    fn take(&mut self, offset: usize, bytes: &[u8]) {
        let taken = match self.slice.outcome {
            Outcome::Store => self.store(offset, bytes),
            Outcome::Reduce { with, shape } => self.reduce(offset, bytes, with, shape),
        };
        if let Err(error) = taken {
            self.error.get_or_insert(error);
        }
    }

    fn space(&mut self, offset: usize) -> Option<&mut [u8]> {
        if self.slice.outcome != Outcome::Store {
            return None;
        }
        let into = self.slice.into;
        let rest = Span { offset: into.offset + offset, len: into.len.checked_sub(offset)?, ..into };
        self.buffers.write(rest).ok()
    }

    fn filled(&mut self, _offset: usize, _len: usize) {}

    fn grain(&self) -> usize {
        self.grain
    }
}
