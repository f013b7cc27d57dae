//! Fence: the caller's buffers, as bytes that one operation reads and writes while it runs.

#![expect(
    unsafe_code,
    reason = "NCCL's API hands over raw pointers that stay valid until the operation completes"
)]

use std::ffi::c_void;

use crate::error::{Error, Result};

/// Which buffer of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The caller's send buffer.
    Send,
    /// The caller's receive buffer.
    Recv,
    /// The operation's own memory.
    Scratch,
    /// The operation's own memory for partial results, in accumulators.
    Partial,
}

/// A run of bytes in one of an operation's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Which buffer.
    pub(crate) place: Place,
    /// Bytes from its start.
    pub(crate) offset: usize,
    /// Bytes.
    pub(crate) len: usize,
}

/// A caller's buffer: an address and a length in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
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
    pub(crate) unsafe fn new(base: *const c_void, len: usize, name: &str) -> Result<Self> {
        if len > 0 && base.is_null() {
            return Err(Error::InvalidArgument(format!("{name} is NULL")));
        }
        Ok(Self { base: base.cast_mut().cast(), len })
    }

    /// Whether both begin at the same address.
    pub(crate) fn is_same(self, other: Self) -> bool {
        std::ptr::eq(self.base, other.base)
    }

    /// A slice of the engine's own, to be read; the caller keeps it until the operation is over.
    pub(crate) fn of_slice(slice: &[u8]) -> Self {
        Self { base: slice.as_ptr().cast_mut(), len: slice.len() }
    }

    /// A slice of the engine's own, to be written; the caller keeps it until the operation is over.
    #[cfg(test)]
    pub(crate) fn of_slice_mut(slice: &mut [u8]) -> Self {
        Self { base: slice.as_mut_ptr(), len: slice.len() }
    }
}

/// The buffers of one operation, as one channel uses them.
#[derive(Debug)]
pub(crate) struct Buffers {
    send: Region,
    recv: Region,
    scratch: Vec<u8>,
}

impl Buffers {
    /// The caller's buffers and `scratch_bytes` of the operation's own.
    pub(crate) fn new(send: Region, recv: Region, scratch_bytes: usize) -> Self {
        Self { send, recv, scratch: vec![0; scratch_bytes] }
    }

    /// The bytes of `span`.
    pub(crate) fn read(&self, span: Span) -> Result<&[u8]> {
        if span.place == Place::Scratch {
            return self.scratch.get(span.offset..span.offset + span.len).ok_or_else(|| outside(span));
        }
        let start = self.address(span)?;
        // SAFETY: inside the region that `Region::new`'s caller vouched for; `&self` keeps `write` away meanwhile.
        Ok(unsafe { std::slice::from_raw_parts(start, span.len) })
    }

    /// The bytes of `span`, to be written.
    pub(crate) fn write(&mut self, span: Span) -> Result<&mut [u8]> {
        if span.place == Place::Scratch {
            return self.scratch.get_mut(span.offset..span.offset + span.len).ok_or_else(|| outside(span));
        }
        let start = self.address(span)?;
        // SAFETY: inside the region that `Region::new`'s caller vouched for; `&mut self` keeps other slices away.
        Ok(unsafe { std::slice::from_raw_parts_mut(start, span.len) })
    }

    /// Copies `from` to `to`, which has the same length and may be the same memory.
    pub(crate) fn copy(&mut self, from: Span, to: Span) -> Result<()> {
        let source = self.read(from)?.as_ptr();
        let target = self.write(to)?;
        if !std::ptr::eq(source, target.as_ptr()) {
            // SAFETY: `read` and `write` checked both spans; `copy` allows them to overlap, as in-place use does.
            unsafe { std::ptr::copy(source, target.as_mut_ptr(), from.len.min(to.len)) };
        }
        Ok(())
    }

    fn address(&self, span: Span) -> Result<*mut u8> {
        let region = if span.place == Place::Send { self.send } else { self.recv };
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
