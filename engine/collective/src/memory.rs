//! Fence: the caller's buffers, as bytes that one operation reads and writes while it runs.

#![expect(
    unsafe_code,
    reason = "NCCL's API hands over raw pointers that stay valid until the operation completes"
)]

use std::ffi::c_void;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::kernels::{Kernel, Reducer, Shape, copy};

/// Which buffer of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The caller's send buffer.
    Send,
    /// The caller's receive buffer.
    Recv,
    /// The operation's own memory.
    Scratch,
    /// The operation's own memory for partial results, which may be wider than elements.
    Partial,
}

/// A run of bytes in one of an operation's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Which buffer.
    pub place: Place,
    /// Bytes from its start.
    pub offset: usize,
    /// Bytes.
    pub len: usize,
}

/// A caller's buffer: an address and a length in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    base: *mut u8,
    len: usize,
}

// SAFETY: the caller of NCCL's API lets the library's threads use the buffer until the operation completes.
unsafe impl Send for Region {}

impl Region {
    /// A buffer of the caller. NULL is refused unless `len` is 0.
    ///
    /// # Safety
    /// `base` is valid for reads and writes (reads alone, if used only as [`Place::Send`]) of `len` bytes until the
    /// operation that gets it has completed, and nothing else writes there until then.
    pub unsafe fn new(base: *const c_void, len: usize, name: &str) -> Result<Self> {
        if len > 0 && base.is_null() {
            return Err(Error::InvalidArgument(format!("{name} is NULL")));
        }
        Ok(Self { base: base.cast_mut().cast(), len })
    }

    /// Bytes.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Where this begins relative to `other`, if they overlap.
    pub fn offset_in(self, other: Self) -> Option<i64> {
        let (own, others) = (self.base.addr(), other.base.addr());
        let apart = own >= others.saturating_add(other.len) || others >= own.saturating_add(self.len);
        let offset = i64::try_from(own).ok()? - i64::try_from(others).ok()?;
        (!apart).then_some(offset)
    }

    /// The bytes of `range`.
    pub fn read(self, range: Range<usize>) -> Result<&'static [u8]> {
        let start = self.address(&range)?;
        // SAFETY: inside the region, which by the contract of `new` stays until the operation has completed; who asks
        // drops the slice before it writes there.
        Ok(unsafe { std::slice::from_raw_parts(start, range.len()) })
    }

    /// Copies `bytes`, which lie elsewhere, to `offset`; past the caches if `streamed`.
    pub(crate) fn write(self, offset: usize, bytes: &[u8], streamed: bool) -> Result<()> {
        let start = self.address(&(offset..offset.saturating_add(bytes.len())))?;
        let copy = if streamed { copy::copy_streamed } else { copy::copy };
        // SAFETY: inside the region, as just checked; nothing else uses it by the contract of `new`.
        unsafe { copy(start, bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Reduces the same `range` of this contribution, which stands at index `own`, and of the others into `into`.
    pub(crate) fn reduce_into(self, into: Self, range: Range<usize>, reducing: &Reducing<'_>) -> Result<()> {
        let mut sources = [std::ptr::null(); MAX_SOURCES];
        let n = reducing.others.len();
        for (index, (source, other)) in sources.iter_mut().zip(reducing.others).enumerate() {
            if index != reducing.own && other.len() != range.len() {
                return Err(Error::Internal(format!("{} bytes are reduced with {range:?}", other.len())));
            }
            *source = other.as_ptr();
        }
        let (target, own) = (into.address(&range)?, self.address(&range)?);
        if n > MAX_SOURCES || reducing.own >= n {
            return Err(Error::Internal(format!("a reducer of {n} contributions")));
        }
        sources[reducing.own] = own;
        let count = range.len() / reducing.element_bytes;
        let kernel = reducing.kernel;
        let run = if reducing.streamed { Kernel::run_streamed } else { Kernel::run };
        // SAFETY: target and sources hold `count` elements, as just checked. The own contribution is the target or apart
        // from it, as the API's check of the buffers has it, and the others lie in other ranks' memory.
        unsafe { run(kernel, target, &sources[..n], count) };
        Ok(())
    }

    fn address(self, range: &Range<usize>) -> Result<*mut u8> {
        if range.start > range.end || range.end > self.len {
            return Err(Error::Internal(format!("{range:?} lies outside a buffer of {} bytes", self.len)));
        }
        if range.is_empty() {
            return Ok(std::ptr::NonNull::dangling().as_ptr());
        }
        // SAFETY: inside the region, as just checked.
        Ok(unsafe { self.base.add(range.start) })
    }

    #[cfg(test)]
    /// A slice of the engine's own, to be read; the caller keeps it until the operation is over.
    pub(crate) fn of_slice(slice: &[u8]) -> Self {
        Self { base: slice.as_ptr().cast_mut(), len: slice.len() }
    }

    /// A slice of the engine's own, to be written; the caller keeps it until the operation is over.
    pub fn of_slice_mut(slice: &mut [u8]) -> Self {
        Self { base: slice.as_mut_ptr(), len: slice.len() }
    }
}

/// Contributions that are reduced at once at most.
pub(crate) const MAX_SOURCES: usize = 16;

/// A reduction of several ranks' contributions, in their order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reducing<'a> {
    /// Elements in, elements out.
    pub(crate) kernel: &'a Kernel,
    /// Bytes of an element.
    pub(crate) element_bytes: usize,
    /// The contributions, all as long; at the own index, anything.
    pub(crate) others: &'a [&'a [u8]],
    /// Index of the own one.
    pub(crate) own: usize,
    /// Whether the result is written past the caches.
    pub(crate) streamed: bool,
}

/// The buffers of one operation.
#[derive(Debug)]
pub struct Buffers {
    send: Region,
    recv: Region,
    scratch: Region,
    partial: Region,
    own: Own,
}

/// Memory of the engine's own, kept from operation to operation: fresh memory costs page faults.
#[derive(Debug, Default)]
pub struct Own {
    scratch: Vec<u8>,
    partial: Vec<u8>,
    input: Vec<u8>,
}

/// Memory kept between operations at most, of each kind; more is given back.
const KEPT_BYTES: usize = 64 << 20;

impl Own {
    /// What is worth keeping.
    fn kept(mut self) -> Self {
        for memory in [&mut self.scratch, &mut self.partial, &mut self.input] {
            if memory.len() > KEPT_BYTES {
                *memory = Vec::new();
            }
        }
        self
    }
}

/// Makes `memory` at least `len` bytes long; new memory is the kernel's zero pages, not written here.
fn grow(memory: &mut Vec<u8>, len: usize) {
    if memory.len() < len {
        *memory = vec![0; len];
    }
}

impl Buffers {
    /// The caller's buffers, and as much of the engine's own as the operation needs.
    pub fn new(send: Region, recv: Region, mut own: Own, scratch_bytes: usize, partial_bytes: usize) -> Self {
        grow(&mut own.scratch, scratch_bytes);
        grow(&mut own.partial, partial_bytes);
        let scratch = Region::of_slice_mut(&mut own.scratch);
        let partial = Region::of_slice_mut(&mut own.partial);
        Self { send, recv, scratch, partial, own }
    }

    /// Goes on with a copy of the send buffer, which is returned.
    pub(crate) fn keep_input(&mut self) -> Result<&mut [u8]> {
        let whole = Span { place: Place::Send, offset: 0, len: self.send.len };
        let mut input = std::mem::take(&mut self.own.input);
        grow(&mut input, whole.len);
        input.get_mut(..whole.len).ok_or_else(|| outside(whole))?.copy_from_slice(self.read(whole)?);
        self.own.input = input;
        self.send = Region { len: whole.len, ..Region::of_slice_mut(&mut self.own.input) };
        self.write(whole)
    }

    /// The engine's own memory, for a later operation.
    pub(crate) fn take_own(&mut self) -> Own {
        std::mem::take(&mut self.own).kept()
    }

    /// The bytes of `span`.
    pub(crate) fn read(&self, span: Span) -> Result<&[u8]> {
        let start = self.address(span)?;
        // SAFETY: inside a region that `Region::new`'s caller vouched for, or of the engine's own; `&self` keeps `write`
        // away meanwhile.
        Ok(unsafe { std::slice::from_raw_parts(start, span.len) })
    }

    /// The bytes of `span`, to be written.
    pub fn write(&mut self, span: Span) -> Result<&mut [u8]> {
        let start = self.address(span)?;
        // SAFETY: inside a region that `Region::new`'s caller vouched for, or of the engine's own; `&mut self` keeps
        // other slices away.
        Ok(unsafe { std::slice::from_raw_parts_mut(start, span.len) })
    }

    /// Copies `from` to `to`, which has the same length and may be the same memory.
    pub(crate) fn copy(&mut self, from: Span, to: Span) -> Result<()> {
        let (source, target) = (self.address(from)?, self.address(to)?);
        if !std::ptr::eq(source, target) {
            // SAFETY: `address` checked both spans; `copy` allows them to overlap, as in-place use does.
            unsafe { std::ptr::copy(source, target, from.len.min(to.len)) };
        }
        Ok(())
    }

    /// `into = with op data`, for as many elements as `into` has; spans are the same memory or do not overlap.
    pub(crate) fn reduce(
        &mut self,
        reducer: Reducer,
        shape: Shape,
        into: Span,
        with: Span,
        data: &[u8],
    ) -> Result<()> {
        let count = into.len / reducer.bytes(shape.into);
        if with.len != count * reducer.bytes(shape.with) || data.len() != count * reducer.bytes(shape.data) {
            return Err(Error::Internal(format!("{into:?}, {with:?} and {} bytes do not match", data.len())));
        }
        let (target, operand) = (self.address(into)?, self.address(with)?);
        // SAFETY: all three hold `count` elements of their form, as just checked.
        unsafe { reducer.run(shape, target, operand, data.as_ptr(), count) };
        Ok(())
    }

    /// The same with data that are in these buffers themselves.
    pub(crate) fn reduce_own(
        &mut self,
        reducer: Reducer,
        shape: Shape,
        into: Span,
        with: Span,
        data: Span,
    ) -> Result<()> {
        let count = into.len / reducer.bytes(shape.into);
        if with.len != count * reducer.bytes(shape.with) || data.len != count * reducer.bytes(shape.data) {
            return Err(Error::Internal(format!("{into:?}, {with:?} and {data:?} do not match")));
        }
        let (target, operand, data) = (self.address(into)?, self.address(with)?, self.address(data)?);
        // SAFETY: all three hold `count` elements of their form, as just checked.
        unsafe { reducer.run(shape, target, operand, data, count) };
        Ok(())
    }

    fn address(&self, span: Span) -> Result<*mut u8> {
        let region = match span.place {
            Place::Send => self.send,
            Place::Recv => self.recv,
            Place::Scratch => self.scratch,
            Place::Partial => self.partial,
        };
        if span.offset.checked_add(span.len).is_none_or(|end| end > region.len) {
            return Err(outside(span));
        }
        if span.len == 0 {
            return Ok(std::ptr::NonNull::dangling().as_ptr());
        }
        // SAFETY: the sum lies inside the region, as just checked.
        Ok(unsafe { region.base.add(span.offset) })
    }
}

fn outside(span: Span) -> Error {
    Error::Internal(format!("{span:?} lies outside its buffer"))
}
