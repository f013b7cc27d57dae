//! Fence: reading arrays and writing results through the caller's pointers.

#![expect(unsafe_code, reason = "results go to addresses that C callers hand over")]

use std::ffi::c_int;

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

/// The caller's array of `count` values.
///
/// # Safety
/// NULL, or valid for reads of `count` values while the result is used.
pub(crate) unsafe fn array<'a, T>(address: *const T, count: c_int, name: &str) -> Result<&'a [T]> {
    let count = usize::try_from(count).unwrap_or(0);
    if address.is_null() {
        return Err(Error::InvalidArgument(format!("{name} is NULL")));
    }
    // SAFETY: by this function's contract; NULL is refused.
    Ok(unsafe { std::slice::from_raw_parts(address, count) })
}

/// The places of the caller's array of `count` results.
///
/// # Safety
/// Each as [`Out::new`] asks for.
pub(crate) unsafe fn places<T>(address: *mut T, count: usize, name: &str) -> Result<Vec<Out<T>>> {
    if address.is_null() {
        return Err(Error::InvalidArgument(format!("{name} is NULL")));
    }
    // SAFETY: inside the array, by this function's contract.
    (0..count).map(|index| unsafe { Out::new(address.wrapping_add(index), name) }).collect()
}
