//! Fence: writing results through the caller's pointers.

#![expect(unsafe_code, reason = "results go to addresses that C callers hand over")]

use crate::error::{Error, Result};

/// An address of the caller's for a result; checked for NULL.
#[derive(Debug)]
pub(crate) struct Out<T>(*mut T);

// SAFETY: the caller of NCCL's API keeps the place until the call, or the group that it is part of, has ended, and the
// library writes to it once.
unsafe impl<T> Send for Out<T> {}

impl<T> Out<T> {
    /// A place.
    ///
    /// # Safety
    /// NULL, or valid for a write until the call, or the group that it is part of, has ended.
    pub(crate) unsafe fn new(address: *mut T, name: &str) -> Result<Self> {
        if address.is_null() {
            return Err(Error::InvalidArgument(format!("{name} is NULL")));
        }
        Ok(Self(address))
    }

    /// Writes the result.
    pub(crate) fn set(&self, value: T) {
        // SAFETY: by the contract of `new`.
        unsafe { self.0.write(value) }
    }
}
